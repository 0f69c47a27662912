//! The return to Spot: a machine on demand runs on until EC2 has accepted the launch of one on Spot. Only such a launch shows that Spot is back, and
//! right after a checkpoint the move loses nothing but the restart.

use capacity::choose_capacity;
use jiff::{SignedDuration, Timestamp};

use super::launch::{ask, choose, first};
use super::limits::{after, use_up};
use super::place::covers;
use super::{JobDecision, deadline};
use crate::{
    Capacity, CapacityDecision, CapacityReason, DeadlineSituation, Job, JobDeadline, JobFacts, JobMachine,
    LaunchInProgress, LaunchResult, Lifecycle, LossReason, Phase,
};
/// Longest time for which a machine may still run after the one that replaces it was launched.
const OVERLAP: SignedDuration = SignedDuration::from_mins(6);

/// A checkpoint that a run has seen so recently holds nearly all work.
const CHECKPOINT_IS_FRESH: SignedDuration = SignedDuration::from_mins(2);

/// Asks for a machine on Spot just after a checkpoint, where the deadline leaves time for restarts; `None`: the job stays where it is.
pub(super) fn request(job: &Job, machine: &JobMachine, now: Timestamp) -> Option<JobDecision> {
    // A gang on both sides of the move would need twice its quota.
    let (_, seen) = job.deadline.as_ref().filter(|_| !job.terms.is_gang())?.checkpoint?;
    let is_fresh = now.duration_since(seen) <= CHECKPOINT_IS_FRESH;
    if machine.lifecycle != Lifecycle::OnDemand || job.previous_attempt.is_some() || !is_fresh {
        return None;
    }
    let without = without_machine(job, machine, now);
    let (candidate, ends_at) = choose(&without, None, &[], None, now).ok()?;
    if !chooses_spot(&without, now) || !covers(&without, now) {
        return None;
    }
    let deadline = job.deadline.clone().zip(without.deadline);
    let deadline = deadline.map(|(own, other)| JobDeadline { decision: other.decision, ..own });
    let (job, _) = first(Job { deadline, ..job.clone() }, candidate, ends_at, None, now);
    let Phase::Launching(launching) = job.phase.clone() else { return None };
    Some(ask(job, LaunchInProgress { replaces: Some(Box::new(machine.clone())), ..launching }))
}

/// Asks the policy for a job that runs on demand, and has as much work left as after the move.
fn chooses_spot(without: &Job, now: Timestamp) -> bool {
    let situation = deadline::situation(without, true, now);
    situation.zip(without.deadline.as_ref()).is_some_and(|(situation, deadline)| {
        let situation = DeadlineSituation { running: Capacity::OnDemand, ..situation };
        choose_capacity(&situation, &deadline.spot, now).capacity == Capacity::Spot
    })
}

/// EC2 has refused a machine on Spot: the job tries the next candidate, and after the last one keeps the machine on demand.
pub(super) fn try_next(
    mut job: Job,
    launching: LaunchInProgress,
    answer: &LaunchResult,
    machine: JobMachine,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let without = without_machine(&job, &machine, now);
    let is_tried = facts.may_act && matches!(answer, LaunchResult::NoCapacity(_)) && covers(&without, now);
    if let (true, Ok((candidate, ends_at))) = (is_tried, choose(&without, Some(launching.candidate), &[], None, now)) {
        return ask(job, LaunchInProgress { candidate, at: now, ends_at, unanswered: false, ..launching });
    }
    if let Some(deadline) = &mut job.deadline {
        deadline.spot.observe(false, now);
        let (capacity, reason) = (Capacity::OnDemand, CapacityReason::SpotStaysAway);
        deadline.decision = Some(CapacityDecision { capacity, reason });
    }
    job.phase = Phase::Running(machine);
    (job, Vec::new())
}

/// Its machine is left for the one that was just launched.
pub(super) fn leave(job: &Job, machine: &JobMachine, now: Timestamp) -> Job {
    let job = without_machine(job, machine, now);
    Job { lost: Some(LossReason::ReturnedToSpot), previous_attempt: Some(machine.clone()), ..job }
}

/// The job as it is once its machine is left, with what that is decided to be left for.
pub(super) fn without_machine(job: &Job, machine: &JobMachine, now: Timestamp) -> Job {
    let mut job = Job { phase: Phase::Submitted, ..use_up(job.clone(), machine, after(now, OVERLAP)) };
    if let Some(deadline) = &mut job.deadline {
        deadline.end_attempt();
    }
    deadline::decide(job, true, now)
}
