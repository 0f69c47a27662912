//! While there is no capacity: until when a job asks for nothing, and why.

use jiff::{SignedDuration, Timestamp};

use super::launch::{PREVIOUS_MACHINE_GONE_IN, QUOTA_HELD_FOR};
use super::limits::{TimeLeft, after};
use super::place::{again, hold, release};
use super::{JobDecision, deadline, note, stay};
use crate::{
    Capacity, CapacityDecision, CapacityWait, HoldReason, Job, JobFacts, Phase, TransitionKind, UsedUpQuota,
    launch_token,
};

/// Minutes between passes: capacity comes back in minutes, or in hours.
const BACK_OFF_MINUTES: [u32; 5] = [1, 2, 4, 8, 15];

/// The minutes of that pause, from 1 on.
pub(super) fn back_off_minutes(pause: u32) -> u32 {
    let place = usize::try_from(pause.saturating_sub(1)).unwrap_or(usize::MAX);
    BACK_OFF_MINUTES[place.min(BACK_OFF_MINUTES.len() - 1)]
}

/// The longest pause where the deadline calls for a machine on demand, and EC2 has none.
const ON_DEMAND_TRIED_AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// Waits for capacity, or for the moment when the job's deadline asks for a machine on demand.
pub(super) fn waiting(job: Job, waiting: &CapacityWait, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let is_due = now >= waiting.until || deadline::waited_enough(&job, now);
    if TimeLeft::on_any_machine(&job, now).is_over() || (is_due && facts.may_act) {
        return again(job, facts, now);
    }
    stay(job, facts, now)
}

pub(super) fn wait(mut job: Job, quotas: &[UsedUpQuota], message: &str, now: Timestamp) -> JobDecision {
    job.unplaced_since = job.unplaced_since.or(Some(now));
    let mut candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    let is_quota = !quotas.is_empty() && candidates.all(|one| quotas.iter().any(|quota| quota.counts(one)));
    let named: Vec<String> = quotas.iter().map(|quota| format!("{} in {}", quota.code.0, quota.region)).collect();
    let named = named.join(", ");
    if is_quota && job.previous_attempt.is_none() {
        let why = format!("the quota {named} is used up: {message}. Ask Service Quotas to raise it");
        let why = with_left_out(&job, why);
        return hold(job, HoldReason::Quota, why, after(now, QUOTA_HELD_FOR));
    }
    let (long, why) = if is_quota {
        let why =
            format!("the quota {named} is used up, and the previous machine may still count against it: {message}");
        (PREVIOUS_MACHINE_GONE_IN, why)
    } else if quotas.is_empty() {
        (back_off(&job), message.to_owned())
    } else {
        (back_off(&job), format!("{message} (of other pools the quota {named} is used up)"))
    };
    let (long, why) = match job.deadline.as_ref().and_then(|deadline| deadline.decision) {
        Some(CapacityDecision { capacity: Capacity::None, reason }) => (long, format!("{why}; {reason}")),
        Some(CapacityDecision { capacity: Capacity::OnDemand, .. }) => (long.min(ON_DEMAND_TRIED_AGAIN), why),
        _ => (long, why),
    };
    let why = with_left_out(&job, why);
    pause(job, long, why, now)
}

/// Also which machines the job does not get by default: its owner may allow them.
pub(super) fn with_left_out(job: &Job, why: String) -> String {
    match job.ranking.as_ref().and_then(|ranking| ranking.left_out.as_ref()) {
        Some(left_out) => format!("{}; {left_out}", why.trim_end_matches('.')),
        None => why,
    }
}

/// Pauses the job: no launch is asked for until then.
pub(super) fn pause(mut job: Job, pause: SignedDuration, why: String, now: Timestamp) -> JobDecision {
    let noted = note(&job, TransitionKind::Waits, why.as_str());
    job.phase = Phase::Waiting(CapacityWait { until: after(now, pause), passes: job.passes, message: why });
    let release = release(&mut job);
    (job, std::iter::once(noted).chain(release).collect())
}

/// Longer with each pass, with a deterministic jitter of up to a quarter. As many machines without a heartbeat as there are candidates also count
/// as a pass.
fn back_off(job: &Job) -> SignedDuration {
    let candidates = job.ranking.as_ref().map_or(1, |ranking| ranking.candidates.len().max(1));
    let launches = job.launches_without_heartbeat.div_ceil(u32::try_from(candidates).unwrap_or(u32::MAX));
    let minutes = back_off_minutes(job.passes.max(launches));
    // No candidate has this number, so no launch has this hash.
    let hash = launch_token(&job.job, job.attempt, job.passes, u8::MAX);
    let chance = hash.bytes().take(8).fold(0_u32, |sum, digit| sum.wrapping_mul(16).wrapping_add(u32::from(digit)));
    let per_mille = i64::from(750 + chance % 501);
    SignedDuration::from_secs(i64::from(minutes).saturating_mul(60).saturating_mul(per_mille) / 1_000)
}
