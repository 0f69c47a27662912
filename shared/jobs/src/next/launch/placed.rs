//! The machines of an accepted launch.

use jiff::{SignedDuration, Timestamp};
use model::id::ResourceId;

use super::next_candidate;
use crate::next::JobDecision;
use crate::next::limits::use_up;
use crate::{Candidate, Effect, Job, JobFacts, JobMachine, LaunchInProgress, launch_id};

/// Longest time for which EC2 may not show all machines of a launch that it accepted.
const GANG_APPEARS_IN: SignedDuration = SignedDuration::from_mins(15);

/// The machine of a launch. A gang has the launch as well, which names the folder of its documents.
pub(super) fn place_machine(
    job: &Job,
    launching: &LaunchInProgress,
    candidate: Candidate,
    (instance, members): (ResourceId, Vec<ResourceId>),
    launched_at: Timestamp,
) -> JobMachine {
    let gang_launch = job.awaited().filter(|_| job.terms.is_gang()).map(|token| launch_id(&token));
    JobMachine {
        instance,
        members,
        launch: gang_launch.unwrap_or_default(),
        region: candidate.region,
        zone: candidate.zone,
        instance_type: candidate.instance_type,
        lifecycle: candidate.lifecycle,
        rate_max: candidate.rate_max,
        rate: candidate.rate,
        transfer: candidate.transfer,
        attempt: job.attempt,
        candidate: launching.candidate,
        launched_at,
        ends_at: launching.ends_at,
    }
}

/// EC2 shows a part of a gang: all or nothing. It may show the rest a moment later; after that time what is there is terminated, and once nothing is
/// left, the next candidate is tried. Until then the launch stays as it is, so that its token finds each machine of it.
pub(super) fn incomplete(
    mut job: Job,
    launching: LaunchInProgress,
    candidate: Candidate,
    left: &[ResourceId],
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    if now.duration_since(launching.at) < GANG_APPEARS_IN {
        return (job, Vec::new());
    }
    let cost_of = |job: &Job, instances| {
        let machine = place_machine(job, &launching, candidate.clone(), instances, launching.at);
        JobMachine { transfer: None, ..machine }
    };
    if let Some((first, rest)) = left.split_first() {
        let machine = cost_of(&job, (first.clone(), rest.to_vec()));
        return (job, facts.may_act.then_some(Effect::Terminate(machine)).into_iter().collect());
    }
    // Which of them ran, and for how long, is not known: all of them, until now.
    let all = cost_of(&job, (ResourceId::new(""), Vec::new()));
    job = use_up(job, &all, now);
    let nodes = job.terms.gpu.nodes;
    next_candidate(job, launching, &format!("EC2 launched fewer than {nodes} machines"), facts, now)
}
