//! The machine of a job: observing and terminating it.

mod gang;
mod search;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jobs::{JobId, JobMachine, MachineHold, MachineObservation, MachineSight};
use model::curfew_tags::{ATTEMPT, JOB, PROTECTED};
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::pages::{PAGE_SIZE, all_pages};
use crate::observe::{FILTER_VALUES_MAX, filter};

pub(super) use search::find_job_machines;

/// The run of one minute has more to do than observe.
const TIMEOUT: Duration = Duration::from_secs(30);

const TERMINATE_INSTANCES: &str = "ec2:TerminateInstances";

/// Observes these instances of one region. Each is in the answer once, in their order; one that EC2 does not know is
/// [`MachineSight::Absent`]. A filter selects them, because one unknown id in `InstanceIds` fails the whole call.
///
/// One call for each 200 of them.
///
/// # Errors
/// If EC2's answer is incomplete.
pub(super) async fn observe_machines(
    aws: &Aws,
    region: &Region,
    ids: &[ResourceId],
    now: Timestamp,
) -> Result<Vec<MachineObservation>, CallError> {
    let asked = async {
        let mut looked = MachineObservations::default();
        for ids in ids.chunks(FILTER_VALUES_MAX) {
            let wanted = filter("instance-id", ids.iter().map(ResourceId::as_str));
            let call = aws.ec2(region).describe_instances().filters(wanted).max_results(PAGE_SIZE);
            all_pages(DESCRIBE_INSTANCES, region, async |token| {
                let page = describe::page(call.clone().set_next_token(token), region).await?;
                looked.add_instances(page.described.into_iter().map(|one| one.instance), page.incomplete, now);
                Ok(page.next_token)
            })
            .await?;
        }
        Ok(looked.into_order(ids))
    };
    let too_long = |_| Err(CallError::timed_out(DESCRIBE_INSTANCES, region, TIMEOUT));
    tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(too_long)
}

#[derive(Debug, Default)]
struct MachineObservations {
    seen: BTreeMap<ResourceId, MachineObservation>,
    incomplete: usize,
}

impl MachineObservations {
    fn add_instances(&mut self, instances: impl Iterator<Item = Instance>, incomplete: usize, now: Timestamp) {
        self.seen.extend(instances.map(|instance| (instance.id.clone(), observe_machine(instance, now))));
        self.incomplete += incomplete;
    }

    /// An instance without an id in the answer may be any of the missing ones.
    fn into_order(mut self, ids: &[ResourceId]) -> Vec<MachineObservation> {
        let missing = if self.incomplete == 0 { MachineSight::Absent } else { MachineSight::Unknown };
        let mut looked = Vec::new();
        for id in ids {
            if looked.iter().any(|one: &MachineObservation| one.instance == *id) {
                continue;
            }
            let (instance, sight) = (id.clone(), missing.clone());
            let without =
                MachineObservation { instance, sight, launched_at: None, job: None, attempt: None, hold: None };
            looked.push(self.seen.remove(id).unwrap_or(without));
        }
        looked
    }
}

fn observe_machine(mut instance: Instance, now: Timestamp) -> MachineObservation {
    let hold = MachineHold::read(&instance, now);
    let sight = match instance.state {
        InstanceState::Unknown => MachineSight::Unknown,
        state => MachineSight::Seen { state, reason: instance.state_reason },
    };
    MachineObservation {
        instance: instance.id,
        sight,
        launched_at: Some(instance.launched_at),
        job: instance.tags.remove(JOB),
        attempt: instance.tags.get(ATTEMPT).and_then(|attempt| attempt.parse().ok()),
        hold,
    }
}

/// Terminates this machine, if it has that job's tag, and no tag that keeps it ([`MachineHold`]): somebody may have written one since it
/// was observed. A machine that is shutting down or gone is no error.
///
/// # Errors
/// If it was not terminated. That includes a machine that EC2 does not know: it may appear a moment later.
pub(super) async fn terminate(aws: &Aws, job: &JobId, placed: &JobMachine, now: Timestamp) -> Result<(), CallError> {
    let JobMachine { instance, region, .. } = placed;
    let ec2 = aws.ec2(region);
    if !placed.members.is_empty() {
        return gang::terminate(&ec2, job, placed, now).await;
    }
    let page = describe::page(ec2.describe_instances().instance_ids(instance.as_str()), region).await?;
    let found = page.described.into_iter().map(|one| one.instance).find(|one| one.id == *instance);
    let found = found.ok_or_else(|| CallError::without(DESCRIBE_INSTANCES, region, instance, page.incomplete > 0))?;
    if matches!(found.state, InstanceState::ShuttingDown | InstanceState::Terminated) {
        return Ok(());
    }
    if let Some(why) = refusal_to_terminate(&found, job, now) {
        let message = format!("{instance} was not terminated: {why}");
        return Err(CallError::new(TERMINATE_INSTANCES, region, CallErrorKind::Other, message));
    }
    let answer = ec2.terminate_instances().instance_ids(instance.as_str()).send().await;
    answer.map(drop).map_err(|error| call_error(TERMINATE_INSTANCES, region, &error))
}

/// Reason for not terminating this instance. The tag key counts in upper or lower case: a typo never kills.
fn refusal_to_terminate(found: &Instance, job: &JobId, now: Timestamp) -> Option<String> {
    let protected = |key: &&String| key.trim().eq_ignore_ascii_case(PROTECTED);
    if let Some(key) = found.tags.keys().find(protected) {
        return Some(format!("it has the tag {key}"));
    }
    match found.tags.get(JOB) {
        Some(own) if *own == job.to_string() => {
            MachineHold::read(found, now).map(|hold| format!("it {}", hold.describe()))
        }
        Some(other) => Some(format!("its tag {JOB} names {other}, not {job}")),
        None => Some(format!("it has no tag {JOB} that names {job}")),
    }
}

#[cfg(test)]
mod tests;
