//! The jobs that instances name, by the states of those jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use model::id::Region;
use model::instance::Instance;
use model::observation::Observed;
use ports::JobDocuments;
use reaping::job_ownership::{JobStates, claimed_jobs};

use crate::AT_ONCE;
use crate::budgets::timed_out;

/// The state of each job that an instance names, read once, after the instances were listed: a job knows its machine no later than EC2's response
/// to the launch. A job whose state cannot be read within `timeout` for all of them is unknown: a gap of the region `home`.
pub async fn load_job_states<'a>(
    store: &impl JobDocuments,
    instances: impl IntoIterator<Item = &'a Instance>,
    home: &Region,
    timeout: Duration,
) -> Observed<JobStates> {
    let named = claimed_jobs(instances);
    let count = named.len();
    let reads = named.into_iter().map(|job| async move { (store.read_job(&job).await, job) });
    let (mut jobs, mut gaps) = (BTreeMap::new(), Vec::new());
    let read_all = async {
        let mut answers = stream::iter(reads).buffer_unordered(AT_ONCE);
        while let Some((read, job)) = answers.next().await {
            match read {
                Ok(read) => drop(jobs.insert(job, read.value)),
                Err(error) => gaps.push(error.gap(home)),
            }
        }
    };
    if tokio::time::timeout(timeout, read_all).await.is_err() {
        let missing = count - jobs.len() - gaps.len();
        let what = format!("the state of {missing} of the {count} jobs that instances name");
        gaps.push(timed_out(timeout, home, "s3:GetObject", &what));
    }
    Observed { items: JobStates(jobs), gaps }
}
