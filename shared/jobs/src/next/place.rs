//! The way of a job to a machine: the pools in which it can run, and the money for it.

use jiff::{SignedDuration, Timestamp};
use model::money::{Amount, Rate};

use super::launch::{self, choose};
use super::limits::{TimeLeft, after};
use super::{JobDecision, boxes, deadline, groups, no_capacity, note, over, stay};
use crate::transfer::CostMax;
use crate::{
    Capacity, Effect, EffectResult, ExitReason, HoldReason, Job, JobFacts, JobReservation, JobResult, LaunchHold,
    Phase, Ranking, ReserveResult, TransitionKind, clean_machine_text,
};

/// A ranking whose prices are older is made anew, where there is time to.
pub(super) const RANKING_IS_OLD_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Time after which a budget is looked at again, or a job for which nothing fits.
pub(super) const HELD_FOR: SignedDuration = SignedDuration::from_mins(5);

/// Time after which a missing role is looked for again: the command that makes it takes a minute, and EC2 takes some time to know of it.
pub(super) const TEAM_ROLE_HELD_FOR: SignedDuration = SignedDuration::from_mins(2);

/// So much longer than an attempt may last money is reserved, for launches that take their time and for the attempts after it: an
/// attempt ends later than the one that it replaces by as much as that one took to launch.
const RESERVED_BEYOND: SignedDuration = SignedDuration::from_hours(1);

/// Continues a job that has to be ranked.
pub(super) fn submitted(job: Job, facts: &JobFacts, now: Timestamp) -> JobDecision {
    match &facts.answer {
        Some(EffectResult::Ranked(Ok(ranking))) => ranked(job, ranking, facts, now),
        Some(EffectResult::Ranked(Err(why))) => nowhere(job, why.to_string(), now),
        Some(EffectResult::NoRole(why)) => hold(job, HoldReason::Role, why.clone(), after(now, TEAM_ROLE_HELD_FOR)),
        Some(EffectResult::NotAllowed(why)) => hold(job, HoldReason::NotAllowed, why.clone(), after(now, HELD_FOR)),
        _ => again(job, facts, now),
    }
}

/// Places a job anew: nothing that was answered before counts.
pub(super) fn again(mut job: Job, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let left = TimeLeft::on_any_machine(&job, now);
    if left.is_over() {
        let why = nothing_left(&job, left);
        return give_up(job, JobResult::Expired, why, facts, now);
    }
    if is_without_progress(&job, facts) {
        let why = without_progress(&job, facts);
        return give_up(job, JobResult::Failed, why, facts, now);
    }
    if !facts.may_act {
        let why = "Curfew only observes: CURFEW_MODE is observe, or its topic has no confirmed subscription";
        return hold(job, HoldReason::Observing, why.to_owned(), now);
    }
    job.phase = Phase::Submitted;
    (job, vec![Effect::Rank])
}

/// Explains why there is no other attempt, and what kept it from one, where EC2 did.
fn nothing_left(job: &Job, left: TimeLeft) -> String {
    let launches =
        launch::describe_launches_without_heartbeat(job).map(|launches| format!("; {launches}")).unwrap_or_default();
    let why = format!("{}{launches}", left.describe(job));
    if job.unplaced_since.is_some() { no_capacity::with_left_out(job, why) } else { why }
}

/// There is no other attempt. What the last one may have left behind is read first: it may write until its two minutes are over.
fn give_up(mut job: Job, result: JobResult, why: String, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let may_still_write = job.previous_attempt.as_ref().is_some_and(|lost| now < lost.ends_at);
    let is_read = facts.head.is_some() || job.attempt == 0;
    if is_read && !may_still_write {
        return over::end(job, result, why, facts, now);
    }
    job.phase = Phase::Submitted;
    stay(job, facts, now)
}

fn ranked(mut job: Job, ranking: &Ranking, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if !facts.may_act {
        return again(job, facts, now);
    }
    let mut ranking = ranking.clone();
    ranking.candidates.retain(|candidate| usize::from(candidate.image) < ranking.images.len());
    ranking.candidates.truncate(Ranking::MAX);
    if ranking.candidates.is_empty() {
        return nowhere(job, "nothing that fits is known".to_owned(), now);
    }
    job.ranking = Some(ranking);
    groups::learn_security_groups(&mut job);
    let avoid = avoided(&job);
    begin(job, avoid, facts, now)
}

/// There is nowhere to launch it: from then on it counts how long there was nothing to be had, after which it may be launched on demand.
fn nowhere(mut job: Job, why: String, now: Timestamp) -> JobDecision {
    job.unplaced_since = job.unplaced_since.or(Some(now));
    hold(job, HoldReason::Unplaceable, why, after(now, HELD_FOR))
}

/// Begins a pass through the ranking, or asks for the money first.
pub(super) fn begin(job: Job, avoid: Option<u8>, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if let Some(why) = deadline::cannot_be_met(&job, now) {
        let until = TimeLeft::on_any_machine(&job, now).end(now);
        return hold(job, HoldReason::Deadline, why, until);
    }
    let job = deadline::decide(job, true, now);
    if deadline::decided(&job) == Some(Capacity::None) {
        return no_capacity::wait(job, &[], "no Spot candidate costs less than is paid for it", now);
    }
    match choose(&job, None, &[], avoid, now) {
        Ok((candidate, ends_at)) if covers(&job, now) => launch::first(job, candidate, ends_at, avoid, now),
        Ok(_) => ask_for_money(job, now),
        Err(Some(left)) => {
            let why = nothing_left(&job, left);
            give_up(job, JobResult::Expired, why, facts, now)
        }
        Err(None) => again(job, facts, now),
    }
}

/// Returns `true` if the reservation covers every candidate.
pub(super) fn covers(job: &Job, now: Timestamp) -> bool {
    let Some(reserved) = job.reserved.filter(|reserved| reserved.granted) else { return false };
    let wanted = wanted(job, now);
    let costs_no_more = wanted.rate <= reserved.rate && wanted.transfer_usd <= reserved.transfer_usd;
    costs_no_more && after(wanted.until, -RESERVED_BEYOND) <= reserved.until
}

/// Returns the reservation that covers the dearest and the longest of the candidates.
fn wanted(job: &Job, now: Timestamp) -> JobReservation {
    let candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    let (rate, usd) = (Rate::ZERO, Amount::ZERO);
    let number = job.reserved.map_or(0, |before| before.number).saturating_add(1);
    let none = JobReservation { number, rate, transfer_usd: usd, usd, until: now, granted: false, released: false };
    candidates.fold(none, |most, candidate| {
        let cost_max = candidate.cost_max();
        let left = TimeLeft::on_machine(job, cost_max, now);
        let end = left.end(now);
        let end = boxes::reserved_until(job, end).unwrap_or(end);
        let one = wanted_until(cost_max, end, number, now);
        JobReservation {
            rate: most.rate.max(one.rate),
            transfer_usd: most.transfer_usd.max(one.transfer_usd),
            usd: most.usd.max(one.usd),
            until: most.until.max(one.until),
            ..most
        }
    })
}

/// Returns the reservation for a machine of that cost that runs until `end`.
pub(super) fn wanted_until(cost_max: CostMax, end: Timestamp, number: u32, now: Timestamp) -> JobReservation {
    let seconds = u64::try_from(end.duration_since(now).as_secs()).unwrap_or(0);
    JobReservation {
        number,
        rate: cost_max.rate,
        transfer_usd: cost_max.once,
        usd: cost_max.amount(seconds).rounded_up_to(1),
        until: after(end, RESERVED_BEYOND),
        granted: false,
        released: false,
    }
}

/// Money first.
pub(super) fn ask_for_money(mut job: Job, now: Timestamp) -> JobDecision {
    let wanted = wanted(&job, now);
    job.reserved = Some(wanted);
    job.phase = Phase::Reserving;
    (job, vec![reserve(&wanted)])
}

const fn reserve(wanted: &JobReservation) -> Effect {
    Effect::Reserve { number: wanted.number, usd: wanted.usd, until: wanted.until }
}

/// Takes in that the money was given back.
pub(super) fn confirm_release(mut job: Job, facts: &JobFacts) -> Job {
    if let (Some(EffectResult::Released(true)), Some(reserved)) = (&facts.answer, &mut job.reserved) {
        reserved.released = true;
    }
    job
}

/// Gives back what is reserved for a job that has no machine, and asks for none now: other jobs may need it meanwhile. In its state it is
/// not granted any more before that, so that no other run launches by it.
pub(super) fn release(job: &mut Job) -> Option<Effect> {
    let waits = match &job.phase {
        Phase::Submitted | Phase::Waiting(_) | Phase::Held(_) => true,
        Phase::Retrying(waiting) => waiting.machine.is_none(),
        Phase::Reserving | Phase::Launching(_) | Phase::Running(_) | Phase::Interrupted(_) | Phase::Ended(_) => false,
    };
    let reserved = job.reserved.as_mut().filter(|reserved| waits && !reserved.released)?;
    reserved.granted = false;
    Some(Effect::Release(reserved.number))
}

/// Ranked; money has to be reserved.
pub(super) fn reserving(mut job: Job, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let is_old = job.ranking.as_ref().is_none_or(|ranking| now.duration_since(ranking.at) >= RANKING_IS_OLD_AFTER);
    match (&facts.answer, job.reserved) {
        (Some(EffectResult::Reserved(ReserveResult::Granted)), Some(reserved)) => {
            job.reserved = Some(JobReservation { granted: true, ..reserved });
            if !facts.may_act {
                return again(job, facts, now);
            }
            let avoid = avoided(&job);
            begin(job, avoid, facts, now)
        }
        (Some(EffectResult::Reserved(ReserveResult::Refused(why) | ReserveResult::Unknown(why))), _) => {
            let until = after(now, HELD_FOR);
            hold(job, HoldReason::Budget, why.clone(), until)
        }
        (Some(EffectResult::Reserved(ReserveResult::Overtaken)), _) => (job, Vec::new()),
        (_, Some(reserved)) if facts.may_act && !is_old => (job, vec![reserve(&reserved)]),
        _ => again(job, facts, now),
    }
}

/// Returns the index of the previous machine's pool in the ranking.
fn avoided(job: &Job) -> Option<u8> {
    let lost = job.previous_attempt.as_ref()?;
    let candidates = &job.ranking.as_ref()?.candidates;
    let place = candidates.iter().position(|one| {
        (&one.region, &one.zone, &one.instance_type, one.lifecycle)
            == (&lost.region, &lost.zone, &lost.instance_type, lost.lifecycle)
    });
    place.and_then(|place| u8::try_from(place).ok())
}

pub(super) fn held(job: Job, held: &LaunchHold, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let is_due = match held.by {
        HoldReason::Observing => facts.may_act,
        HoldReason::Budget
        | HoldReason::Quota
        | HoldReason::Permission
        | HoldReason::SpotRole
        | HoldReason::InstanceProfile
        | HoldReason::Role
        | HoldReason::NotAllowed
        | HoldReason::Unplaceable
        | HoldReason::Deadline => now >= held.until,
    };
    if is_due || TimeLeft::on_any_machine(&job, now).is_over() {
        return again(job, facts, now);
    }
    stay(job, facts, now)
}

pub(super) fn hold(mut job: Job, by: HoldReason, why: String, until: Timestamp) -> JobDecision {
    let noted = note(&job, TransitionKind::Held, why.as_str());
    job.was_observed |= by == HoldReason::Observing;
    job.phase = Phase::Held(LaunchHold { by, why, until, passes: job.passes });
    let release = release(&mut job);
    (job, std::iter::once(noted).chain(release).collect())
}

/// Returns `true` if too many attempts came to nothing, as far as anybody has read.
pub(super) fn is_without_progress(job: &Job, facts: &JobFacts) -> bool {
    facts.no_progress_attempts_max > 0 && job.progress.attempts_without >= facts.no_progress_attempts_max
}

fn without_progress(job: &Job, facts: &JobFacts) -> String {
    let attempts = job.progress.attempts_without;
    let plural = if attempts == 1 { "attempt" } else { "attempts" };
    let since = match (job.progress.step, &job.terms.checkpoint) {
        (_, None) => "it has no [checkpoint], so each attempt began at zero".to_owned(),
        (Some(step), _) => format!("no checkpoint has come further than step {step}"),
        (None, _) => "no checkpoint was ever completed".to_owned(),
    };
    let mut exits = facts.exit.iter().flatten();
    let broken = exits.find(|exit| exit.reason == ExitReason::Broken && !exit.why.is_empty());
    let last = match (broken, job.lost) {
        (Some(exit), _) => format!(". Its last machine could not run it: {}", clean_machine_text(&exit.why)),
        (None, Some(lost)) => format!(". Its last machine {}", lost.describe()),
        (None, None) => String::new(),
    };
    format!("{attempts} {plural} in a row made no progress: {since}{last}")
}
