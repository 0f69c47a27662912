//! The machine of a job: looking at it, and ending it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jobs::{JobId, JobMachine, MachineHold, MachineSight, reaped};
use model::curfew_tags::{ATTEMPT, JOB, PROTECTED};
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::rule::Rule;

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

/// A minute has to have room for more than a look.
const PATIENCE: Duration = Duration::from_secs(30);
/// A filter takes so many values (EC2 user guide, "Filter resources").
const VALUES_MAX: usize = 200;

const TERMINATE_INSTANCES: &str = "ec2:TerminateInstances";

/// An instance that was asked for, as EC2 tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineObservation {
    /// Which.
    pub instance: ResourceId,
    /// What it is doing. [`MachineSight::Unknown`] where EC2's answer leaves something out.
    pub sight: MachineSight,
    /// When it was launched, where it is seen.
    pub launched_at: Option<Timestamp>,
    /// The value of its tag `curfew:job`.
    pub job: Option<String>,
    /// The number of its tag `curfew:attempt`.
    pub attempt: Option<u32>,
    /// The rule for which Curfew itself has ended it, as its tags say.
    pub reaped: Option<Rule>,
    /// The tag that holds it.
    pub hold: Option<MachineHold>,
}

/// Looks at these instances of one region. Each is in the answer once, in their order; one that EC2 does not know is [`MachineSight::Absent`], and
/// hides no other: they are asked for by a filter, for one unknown id in `InstanceIds` fails the whole call.
///
/// One call for each 200 of them.
///
/// # Errors
/// Where EC2 does not say it whole.
pub async fn observe_machines(
    aws: &Aws,
    region: &Region,
    ids: &[ResourceId],
    now: Timestamp,
) -> Result<Vec<MachineObservation>, CallError> {
    let asked = async {
        let mut looked = MachineObservations::default();
        for ids in ids.chunks(VALUES_MAX) {
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
    let too_long = |_| Err(CallError::timed_out(DESCRIBE_INSTANCES, region, PATIENCE));
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(too_long)
}

/// What was seen so far.
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

    /// One that came without its id may be any of those that are missing.
    fn into_order(mut self, ids: &[ResourceId]) -> Vec<MachineObservation> {
        let missing = if self.incomplete == 0 { MachineSight::Absent } else { MachineSight::Unknown };
        let mut looked = Vec::new();
        for id in ids {
            if looked.iter().any(|one: &MachineObservation| one.instance == *id) {
                continue;
            }
            let (instance, sight) = (id.clone(), missing.clone());
            let without = MachineObservation {
                instance,
                sight,
                launched_at: None,
                job: None,
                attempt: None,
                reaped: None,
                hold: None,
            };
            looked.push(self.seen.remove(id).unwrap_or(without));
        }
        looked
    }
}

fn observe_machine(mut instance: Instance, now: Timestamp) -> MachineObservation {
    let (reaped, hold) = (reaped(&instance, now), MachineHold::read(&instance, now));
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
        reaped,
        hold,
    }
}

/// Ends this machine, if it carries that job's tag, and none that holds it ([`MachineHold`]): somebody may have written one since it was
/// looked at. One that is on its way out, or gone, is fine.
///
/// # Errors
/// Where it was not ended, which includes that EC2 does not know it: it may be there a moment later.
pub async fn terminate(aws: &Aws, job: &JobId, placed: &JobMachine, now: Timestamp) -> Result<(), CallError> {
    let JobMachine { instance, region, .. } = placed;
    let ec2 = aws.ec2(region);
    let page = describe::page(ec2.describe_instances().instance_ids(instance.as_str()), region).await?;
    let found = page.described.into_iter().map(|one| one.instance).find(|one| one.id == *instance);
    let found = found.ok_or_else(|| CallError::without(DESCRIBE_INSTANCES, region, instance, page.incomplete > 0))?;
    if matches!(found.state, InstanceState::ShuttingDown | InstanceState::Terminated) {
        return Ok(());
    }
    if let Some(why) = refusal_to_terminate(&found, job, now) {
        let (region, kind) = (region.clone(), CallErrorKind::Other);
        let message = format!("{instance} was not ended, for {why}");
        return Err(CallError { call: TERMINATE_INSTANCES, region, kind, message });
    }
    let answer = ec2.terminate_instances().instance_ids(instance.as_str()).send().await;
    answer.map(drop).map_err(|error| call_error(TERMINATE_INSTANCES, region, &error))
}

/// Why this instance is not ended; a typo never kills, so the key counts in any case.
fn refusal_to_terminate(found: &Instance, job: &JobId, now: Timestamp) -> Option<String> {
    let protected = |key: &&String| key.trim().eq_ignore_ascii_case(PROTECTED);
    if let Some(key) = found.tags.keys().find(protected) {
        return Some(format!("it carries the tag {key}"));
    }
    match found.tags.get(JOB) {
        Some(own) if *own == job.to_string() => {
            MachineHold::read(found, now).map(|hold| format!("it {}", hold.describe()))
        }
        Some(other) => Some(format!("its tag {JOB} names {other}, not {job}")),
        None => Some(format!("it carries no tag {JOB}, which would name {job}")),
    }
}

#[cfg(test)]
mod tests;
