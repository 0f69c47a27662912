//! The capacity for a job with a deadline: the question to the policy, and the consequences of its answer.
//!
//! Work counts as done once a complete checkpoint holds it, or as the steps of checkpoints show where the job says how many there are. Both
//! are bounded by what Curfew itself has seen: a machine that writes wrong steps cannot make its job look further than its machines ran.

use capacity::choose_capacity;
use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;

use super::limits::{TimeLeft, after, use_up};
use crate::deadline::CHECKPOINT_SEEN_AFTER;
use crate::{
    AGENT_ENDS_BEFORE, ATTEMPT_MIN, Candidate, Capacity, CapacityReason, DeadlineSituation, Job, JobDeadline, JobFacts,
    JobId, JobMachine, JobTerms, Lifecycle, Phase, Ranking,
};

/// Time from a launch to the command, until the job's own attempts have shown it: a GPU machine boots in two to five minutes, and `setup`
/// takes some.
pub(crate) const START: SignedDuration = SignedDuration::from_mins(10);

/// The soonest deadline is so much later than the work takes.
pub(crate) const SOONEST_BEYOND_WORK: SignedDuration =
    SignedDuration::from_secs(START.as_secs() + AGENT_ENDS_BEFORE.as_secs());

/// A run comes each minute. The rest is for one that comes late, and for a machine that takes its time to go before the next is launched.
const DECISION_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

/// The first steps may compile and load. From so much work on their speed counts.
const SPEED_COUNTS_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Least work that is left of a job that is not over, however long it was to take.
const WORK_LEFT_MIN: SignedDuration = ATTEMPT_MIN;

/// Takes in when the command of the present attempt began, and its newest complete checkpoint.
pub(super) fn learn(mut job: Job, facts: &JobFacts, now: Timestamp) -> Job {
    let (Phase::Running(machine), Some(deadline)) = (&job.phase, &mut job.deadline) else { return job };
    if facts.command_runs && deadline.command_since.is_none() {
        let took = now.duration_since(machine.launched_at).as_secs();
        deadline.start_seconds = deadline.start_seconds.max(Some(took));
        deadline.command_since = Some(now);
    }
    let head = facts.head.iter().flatten().find(|head| head.attempt == machine.attempt);
    let newest = head.and_then(|head| head.checkpoint.filter(|newest| !head.unverified.contains(newest)));
    if let Some(newest) = newest.filter(|newest| newest.attempt == machine.attempt) {
        deadline.checkpoint = deadline.checkpoint.filter(|(known, _)| *known == newest).or(Some((newest, now)));
    }
    job
}

/// The work that is left, in seconds of a machine that is never lost.
fn work_left(job: &Job, deadline: &JobDeadline, estimated: i64, now: Timestamp) -> i64 {
    let banked = deadline.work_banked();
    let total_steps = job.terms.checkpoint.as_ref().and_then(|checkpoint| checkpoint.total_steps);
    let left = match total_steps.zip(job.progress.step) {
        None => estimated.saturating_sub(banked),
        Some((total, step)) => {
            let steps_left = i128::from(total.saturating_sub(step));
            let scaled = |seconds: i64, steps: u64| {
                i64::try_from(i128::from(seconds) * steps_left / i128::from(steps.max(1))).unwrap_or(i64::MAX)
            };
            let by_speed = if banked >= SPEED_COUNTS_AFTER.as_secs() { scaled(banked, step) } else { 0 };
            let (machine_seconds, _) = job.used_by(now);
            scaled(estimated, total).max(by_speed).max(estimated.saturating_sub(machine_seconds))
        }
    };
    left.max(WORK_LEFT_MIN.as_secs())
}

fn start_seconds(deadline: &JobDeadline) -> i64 {
    deadline.start_seconds.unwrap_or(START.as_secs())
}

/// Returns the seconds until a run will see the next checkpoint: a decision before that could count on no more work than now. Without
/// checkpoints, all the work is one.
fn next_checkpoint_in(job: &Job, deadline: &JobDeadline, work_left: i64, now: Timestamp) -> i64 {
    let every = job.terms.checkpoint.as_ref().map_or(i64::MAX, |checkpoint| checkpoint.every_seconds).min(work_left);
    let (start, seen_after) = (start_seconds(deadline), CHECKPOINT_SEEN_AFTER.as_secs());
    let launched_at = job.machine().map(|machine| machine.launched_at);
    let (since, takes) = match (deadline.checkpoint, deadline.command_since) {
        (Some((_, seen)), _) => (seen, every),
        (None, Some(command)) => (command, every.saturating_add(seen_after)),
        (None, None) => (launched_at.unwrap_or(now), start.saturating_add(every).saturating_add(seen_after)),
    };
    takes.saturating_sub(now.duration_since(since).as_secs()).clamp(0, takes)
}

fn cheapest(job: &Job, lifecycle: Lifecycle) -> Option<&Candidate> {
    let candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    // They are in the order of their prices.
    candidates.into_iter().find(|candidate| candidate.lifecycle == lifecycle)
}

/// Returns the time that the job's limits leave on demand, in seconds, without the time in which the agent ends the command.
fn time_left(job: &Job, now: Timestamp) -> (i64, TimeLeft) {
    let cost_max = cheapest(job, Lifecycle::OnDemand).map(Candidate::cost_max).unwrap_or_default();
    let left = match job.machine() {
        Some(machine) => TimeLeft::on_machine(&use_up(job.clone(), machine, now), cost_max, now),
        None => TimeLeft::on_machine(job, cost_max, now),
    };
    (left.seconds.saturating_sub(AGENT_ENDS_BEFORE.as_secs()), left)
}

/// Returns the situation of a job that has a deadline. `may_be_spot`: `true` if Spot may be had, as far as EC2 has not just said otherwise.
pub(crate) fn situation(job: &Job, may_be_spot: bool, now: Timestamp) -> Option<DeadlineSituation> {
    let (deadline, estimated) = (job.deadline.as_ref()?, job.terms.estimated_runtime_seconds?);
    let work_left_seconds = work_left(job, deadline, estimated, now);
    let next_checkpoint_in = next_checkpoint_in(job, deadline, work_left_seconds, now);
    let spot = cheapest(job, Lifecycle::Spot).map(|candidate| candidate.rate);
    let on_demand = cheapest(job, Lifecycle::OnDemand).map(|candidate| candidate.rate).unwrap_or_default();
    let rate_max = job.terms.spot.as_ref().and_then(|spot| spot.max_rate);
    Some(DeadlineSituation {
        work_left_seconds,
        time_left_seconds: time_left(job, now).0,
        restart_seconds: start_seconds(deadline),
        interval_seconds: DECISION_INTERVAL.as_secs().saturating_add(next_checkpoint_in),
        on_demand,
        // Where Spot costs too much now, it may cost as much as is paid again.
        spot: spot.or(rate_max).unwrap_or(on_demand),
        running: match job.machine().map(|machine| machine.lifecycle) {
            None => Capacity::None,
            Some(Lifecycle::Spot) => Capacity::Spot,
            Some(Lifecycle::OnDemand) => Capacity::OnDemand,
        },
        spot_is_refused: !may_be_spot || spot.is_none(),
    })
}

/// Returns the time that the job could stand still and finish on time, on the machine that it has, if that is never lost; below 0 it will
/// be late.
pub(crate) fn slack_seconds(job: &Job, now: Timestamp) -> Option<i64> {
    let slack = situation(job, true, now)?.slack_seconds();
    let deadline = job.deadline.as_ref()?;
    let held_until = deadline.checkpoint.map(|(_, seen)| after(seen, -CHECKPOINT_SEEN_AFTER));
    // What no checkpoint holds yet is done all the same.
    let unheld = held_until.or(deadline.command_since).map_or(0, |since| now.duration_since(since).as_secs());
    Some(slack.saturating_add(unheld))
}

/// Decides for a job without a machine, and writes the decision down.
pub(super) fn decide(mut job: Job, may_be_spot: bool, now: Timestamp) -> Job {
    let situation = situation(&job, may_be_spot, now);
    if let Some((situation, deadline)) = situation.zip(job.deadline.as_mut()) {
        deadline.decision = Some(choose_capacity(&situation, &deadline.spot, now));
    }
    job
}

/// Returns the capacity of the last decision; `None` without a deadline.
pub(super) fn decided(job: &Job) -> Option<Capacity> {
    Some(job.deadline.as_ref()?.decision?.capacity)
}

/// Explains why a job that has never run cannot meet its deadline, and by how much.
pub(super) fn cannot_be_met(job: &Job, now: Timestamp) -> Option<String> {
    let deadline = job.deadline.as_ref().filter(|_| job.machines == 0)?;
    let work = work_left(job, deadline, job.terms.estimated_runtime_seconds?, now);
    let start = start_seconds(deadline);
    let (seconds, left) = time_left(job, now);
    let missing = work.saturating_add(start).saturating_sub(seconds);
    let words = |seconds: i64| format_duration(SignedDuration::from_secs(seconds));
    (missing > 0).then(|| {
        format!(
            "its deadline cannot be met, even on demand: it needs {}, {} to start and {} to end in order, and {}, which is {} too little",
            words(work),
            words(start),
            format_duration(AGENT_ENDS_BEFORE),
            left.describe_left(job),
            words(missing),
        )
    })
}

/// Explains why a job that is submitted now could not meet its deadline.
#[must_use]
pub fn deadline_obstacle(terms: &JobTerms, ranking: &Ranking, now: Timestamp) -> Option<String> {
    let placeholder = JobId { team: "".into(), job: String::new() };
    let job = Job { ranking: Some(ranking.clone()), ..Job::submitted(placeholder, None, terms.clone(), now) };
    cannot_be_met(&job, now)
}

/// Returns `true` if a job that waits for Spot has waited long enough.
pub(super) fn waited_enough(job: &Job, now: Timestamp) -> bool {
    let was_refused = job.deadline.as_ref().is_some_and(|deadline| deadline.on_demand_refused);
    !was_refused && decided(&decide(job.clone(), false, now)) == Some(Capacity::OnDemand)
}

/// Returns the latest time until which a job without a machine can wait for Spot.
pub(crate) fn on_demand_from(job: &Job, now: Timestamp) -> Option<Timestamp> {
    Some(after(now, SignedDuration::from_secs(situation(job, false, now)?.spare_seconds())))
}

/// Returns `true` if a machine on Spot is to be left for one on demand: just when the deadline could no longer bear its loss. After that
/// moment nothing is gained any more.
pub(super) fn leaves_spot(job: &Job, placed: &JobMachine, now: Timestamp) -> bool {
    let Some((situation, deadline)) = situation(job, true, now).zip(job.deadline.as_ref()) else { return false };
    let reason = choose_capacity(&situation, &deadline.spot, now).reason;
    let is_in_time = situation.slack_seconds() >= situation.restart_seconds;
    placed.lifecycle == Lifecycle::Spot
        && reason == CapacityReason::NoTimeToLose
        && is_in_time
        && !deadline.on_demand_refused
}
