//! The first decision about a job after its state bucket was taken over from a copy: the copy may be older than its machine, so nothing is launched
//! before EC2 was searched.

use std::ops::ControlFlow;

use jiff::Timestamp;
use model::instance::InstanceState;
use model::money::{Amount, Rate};

use super::limits::{TimeLeft, use_up};
use super::place::RANKING_IS_OLD_AFTER;
use super::{JobDecision, launch};
use crate::takeover::{FoundMachine, NewerMachines, Takeover};
use crate::{Candidate, Effect, EffectResult, Head, Job, JobFacts, JobMachine, JobReservation, MachineSight, Phase};

/// The most reservations by which the budgets may be ahead of the copy of a state.
const RESERVATIONS_AHEAD_MAX: u32 = 1_000;

/// Goes on with a job of which all machines are known. `Break`: it has taken a machine that was found, or waits.
pub(super) fn settle(mut job: Job, facts: &JobFacts, now: Timestamp) -> ControlFlow<JobDecision, Job> {
    let unsettled = facts.takeover.as_ref().filter(|takeover| job.is_unsettled(takeover));
    // A machine that is warned is that of the state, and there is no time to search.
    let Some(takeover) = unsettled.filter(|_| facts.warned.is_none()) else { return ControlFlow::Continue(job) };
    let may_wait = now < takeover.waits_until();
    match &facts.newer {
        // A gang does not move: its nodes end, and then all are replaced.
        NewerMachines::Launched(found) if !job.terms.is_gang() => return take(job, found, takeover, facts, now),
        NewerMachines::Launched(_) | NewerMachines::Unknown | NewerMachines::Unproven(_) if may_wait => {
            return wait(job, facts);
        }
        // Who has the fence in the copy, is not known yet.
        _ if facts.head.is_none() => return wait(job, facts),
        _ => {}
    }
    job.settled_term = takeover.term;
    leap_reservations(&mut job, now);
    let head = facts.head.iter().flatten().next();
    if let Some(head) = head.filter(|head| head.attempt > job.attempt && !matches!(job.phase, Phase::Launching(_))) {
        // A later machine has had the fence and is gone: its result counts, and the next attempt has to be later.
        (job.attempt, job.passes) = (head.attempt, 0);
    }
    ControlFlow::Continue(job)
}

/// A machine that is there goes on. Nothing else is decided: a job that ended now would leave a machine behind.
fn wait(job: Job, facts: &JobFacts) -> ControlFlow<JobDecision, Job> {
    let is_there =
        matches!(facts.machine, MachineSight::Seen { state: InstanceState::Pending | InstanceState::Running, .. });
    if matches!(job.phase, Phase::Running(_)) && is_there {
        return ControlFlow::Continue(job);
    }
    ControlFlow::Break((job, Vec::new()))
}

/// The machine that was found is the job's. It was ranked with a price before its launch; where the copy has an older ranking, a new one is asked for.
fn take(
    mut job: Job,
    found: &FoundMachine,
    takeover: &Takeover,
    facts: &JobFacts,
    now: Timestamp,
) -> ControlFlow<JobDecision, Job> {
    if let Some(EffectResult::Ranked(Ok(ranking))) = &facts.answer {
        job.ranking = Some(ranking.clone());
    }
    let attempt = found.attempt.unwrap_or(job.attempt);
    let candidates = || (0_u8..=u8::MAX).zip(job.ranking.iter().flat_map(|ranking| &ranking.candidates));
    let is_its = |(_, candidate): &(u8, &Candidate)| {
        (&candidate.region, Some(&candidate.zone), &candidate.instance_type, Some(candidate.lifecycle))
            == (&found.region, found.zone.as_ref(), &found.instance_type, found.lifecycle)
    };
    let Some((number, candidate)) = candidates().find(is_its).map(|(number, one)| (number, one.clone())) else {
        // Without a price it is not counted as the job's: it goes on as it is, and nothing is launched beside it.
        let is_old = job.ranking.as_ref().is_none_or(|ranking| now.duration_since(ranking.at) >= RANKING_IS_OLD_AFTER);
        let asks = facts.answer.is_none() && facts.may_act && is_old;
        return match wait(job, facts) {
            ControlFlow::Break((job, _)) if asks => ControlFlow::Break((job, vec![Effect::Rank])),
            waits => waits,
        };
    };
    if let Some(earlier) = job.machine().cloned() {
        job = use_up(job, &earlier, found.launched_at.max(earlier.launched_at));
        job.previous_attempt = Some(JobMachine { ends_at: earlier.ends_at.min(now), ..earlier });
        if let Some(deadline) = &mut job.deadline {
            deadline.end_attempt();
        }
    }
    if let Some(head) = facts.head.iter().flatten().next() {
        count_retry(&mut job, head, attempt);
    }
    let latest = TimeLeft::on_machine(&job, candidate.cost_max(), found.launched_at).end(found.launched_at);
    let placed = JobMachine {
        instance: found.instance.clone(),
        members: Vec::new(),
        launch: String::new(),
        region: candidate.region,
        zone: candidate.zone,
        instance_type: candidate.instance_type,
        lifecycle: candidate.lifecycle,
        rate_max: candidate.rate_max,
        rate: candidate.rate,
        transfer: candidate.transfer,
        attempt,
        candidate: number,
        launched_at: found.launched_at,
        ends_at: found.ends_at(latest),
    };
    (job.attempt, job.passes, job.settled_term) = (attempt, 0, takeover.term);
    leap_reservations(&mut job, now);
    job.machine_hold = None;
    let note = format!("{} was launched before the takeover, and is newer than the copy of the state", found.instance);
    let facts = JobFacts { answer: None, ..facts.clone() };
    ControlFlow::Break(launch::launched(job, placed, Some(note), None, &facts, now))
}

/// Numbers the reservations of the job above all that it may have had: its budget may be newer than its state, and takes no earlier one.
fn leap_reservations(job: &mut Job, now: Timestamp) {
    let (rate, usd) = (Rate::ZERO, Amount::ZERO);
    let none = JobReservation { number: 0, rate, transfer_usd: usd, usd, until: now, granted: false, released: true };
    let last = job.reserved.unwrap_or(none);
    job.reserved = Some(JobReservation { number: last.number.saturating_add(RESERVATIONS_AHEAD_MAX), ..last });
}

/// A failure before that attempt was retried: otherwise there would be none.
fn count_retry(job: &mut Job, head: &Head, attempt: u32) {
    let failed = head.result.as_ref().is_some_and(|result| !result.succeeded);
    if failed && head.attempt < attempt && head.attempt > job.retries.attempt {
        job.retries.used = job.retries.used.saturating_add(1);
        job.retries.attempt = head.attempt;
    }
}
