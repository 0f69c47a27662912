//! The machine of a job: looking at it, and ending it.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::id::{Region, ResourceId};
use domain::instance::{Instance, State};
use domain::job::{JobId, Placed, Sight, reaped};
use domain::rule::Rule;
use domain::vocabulary::{ATTEMPT, JOB, PROTECTED};
use jiff::Timestamp;

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind};
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

/// A minute has to have room for more than a look.
const PATIENCE: Duration = Duration::from_secs(30);
/// A filter takes so many values (EC2 user guide, "Filter resources").
const VALUES_MAX: usize = 200;

const TERMINATE_INSTANCES: &str = "ec2:TerminateInstances";

/// An instance that was asked for, as EC2 tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// Which.
    pub instance: ResourceId,
    /// What it is doing. [`Sight::Unknown`] where EC2's answer leaves something out.
    pub sight: Sight,
    /// When it was launched, where it is seen.
    pub launched_at: Option<Timestamp>,
    /// The value of its tag `curfew:job`.
    pub job: Option<String>,
    /// The number of its tag `curfew:attempt`.
    pub attempt: Option<u32>,
    /// The rule for which Curfew itself has ended it, as its tags say.
    pub reaped: Option<Rule>,
}

/// Looks at these instances of one region. Each is in the answer once, in their order; one that EC2 does not know is [`Sight::Absent`], and
/// hides no other: they are asked for by a filter, for one unknown id in `InstanceIds` fails the whole call.
///
/// One call for each 200 of them.
///
/// # Errors
/// Where EC2 does not say it whole.
pub async fn look(aws: &Aws, region: &Region, ids: &[ResourceId], now: Timestamp) -> Result<Vec<Looked>, CallError> {
    let asked = async {
        let mut looked = Looks::default();
        for ids in ids.chunks(VALUES_MAX) {
            let wanted = filter("instance-id", ids.iter().map(ResourceId::as_str));
            let call = aws.ec2(region).describe_instances().filters(wanted).max_results(PAGE_SIZE);
            all_pages(DESCRIBE_INSTANCES, region, async |token| {
                let page = describe::page(call.clone().set_next_token(token), region).await?;
                looked.take(page.described.into_iter().map(|one| one.instance), page.incomplete, now);
                Ok(page.next_token)
            })
            .await?;
        }
        Ok(looked.of(ids))
    };
    let too_long = |_| Err(CallError::impatient(DESCRIBE_INSTANCES, region, PATIENCE));
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(too_long)
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Looks {
    seen: BTreeMap<ResourceId, Looked>,
    incomplete: usize,
}

impl Looks {
    fn take(&mut self, instances: impl Iterator<Item = Instance>, incomplete: usize, now: Timestamp) {
        self.seen.extend(instances.map(|instance| (instance.id.clone(), looked(instance, now))));
        self.incomplete += incomplete;
    }

    /// One that came without its id may be any of those that are missing.
    fn of(mut self, ids: &[ResourceId]) -> Vec<Looked> {
        let missing = if self.incomplete == 0 { Sight::Absent } else { Sight::Unknown };
        let mut looked = Vec::new();
        for id in ids {
            if looked.iter().any(|one: &Looked| one.instance == *id) {
                continue;
            }
            let (instance, sight) = (id.clone(), missing.clone());
            let without = Looked { instance, sight, launched_at: None, job: None, attempt: None, reaped: None };
            looked.push(self.seen.remove(id).unwrap_or(without));
        }
        looked
    }
}

fn looked(mut instance: Instance, now: Timestamp) -> Looked {
    let reaped = reaped(&instance, now);
    let sight = match instance.state {
        State::Unknown => Sight::Unknown,
        state => Sight::Seen { state, reason: instance.state_reason },
    };
    Looked {
        instance: instance.id,
        sight,
        launched_at: Some(instance.launched_at),
        job: instance.tags.remove(JOB),
        attempt: instance.tags.get(ATTEMPT).and_then(|attempt| attempt.parse().ok()),
        reaped,
    }
}

/// Ends this machine, if it carries that job's tag, and nothing that says it is protected. One that is on its way out, or gone, is fine.
///
/// # Errors
/// Where it was not ended, which includes that EC2 does not know it: it may be there a moment later.
pub async fn terminate(aws: &Aws, job: &JobId, placed: &Placed) -> Result<(), CallError> {
    let Placed { instance, region, .. } = placed;
    let ec2 = aws.ec2(region);
    let page = describe::page(ec2.describe_instances().instance_ids(instance.as_str()), region).await?;
    let found = page.described.into_iter().map(|one| one.instance).find(|one| one.id == *instance);
    let found = found.ok_or_else(|| CallError::without(DESCRIBE_INSTANCES, region, instance, page.incomplete > 0))?;
    if matches!(found.state, State::ShuttingDown | State::Terminated) {
        return Ok(());
    }
    if let Some(why) = is_spared(&found, job) {
        let (region, kind) = (region.clone(), CallErrorKind::Other);
        let message = format!("{instance} was not ended, for {why}");
        return Err(CallError { call: TERMINATE_INSTANCES, region, kind, message });
    }
    let answer = ec2.terminate_instances().instance_ids(instance.as_str()).send().await;
    answer.map(drop).map_err(|error| CallError::of(TERMINATE_INSTANCES, region, &error))
}

/// Why this instance is not ended; a typo never kills, so the key counts in any case.
fn is_spared(found: &Instance, job: &JobId) -> Option<String> {
    let protected = |key: &&String| key.trim().eq_ignore_ascii_case(PROTECTED);
    if let Some(key) = found.tags.keys().find(protected) {
        return Some(format!("it carries the tag {key}"));
    }
    match found.tags.get(JOB) {
        Some(own) if *own == job.to_string() => None,
        Some(other) => Some(format!("its tag {JOB} names {other}, not {job}")),
        None => Some(format!("it carries no tag {JOB}, which would name {job}")),
    }
}

#[cfg(test)]
mod tests;
