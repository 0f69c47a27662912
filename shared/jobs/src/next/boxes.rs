//! A job that is a box: it waits for the box before it has a machine, learns of its home and of its end while it has one, and gives the box back
//! when it is over.

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::mark::whole_second;
use model::moment::after;

use super::{JobDecision, over, place, stay};
use crate::boxes::terms::Extension;
use crate::boxes::{BoxFacts, BoxState, BoxTimes, ExtendRequest, latest_box_end};
use crate::{
    ATTEMPT_MIN, Effect, EffectResult, ExitReason, Job, JobFacts, JobMachine, JobReservation, JobResult, LossReason,
    Phase, ReserveResult,
};

/// A box that AWS takes back comes up again if it was in use within this time: whoever works on it pauses, and reads.
const IN_USE_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// Clocks of machines and functions differ by less.
const CLOCKS_DIFFER_BY: SignedDuration = SignedDuration::from_mins(1);

/// Decides what only a box has to decide, of a job that is not over; the job goes on with the rest.
pub(super) fn tend(mut job: Job, facts: &JobFacts, now: Timestamp) -> ControlFlow<JobDecision, Job> {
    if job.gpu_box.is_none() {
        return ControlFlow::Continue(job);
    }
    if let Phase::Running(machine) = job.phase.clone() {
        return running(job, &machine, facts, now);
    }
    if job.machine().is_some() {
        return ControlFlow::Continue(job);
    }
    if let Some(gpu_box) = &mut job.gpu_box {
        (gpu_box.home, gpu_box.home_wait) = (None, None);
    }
    let is_removal = job.is_removal();
    match &facts.gpu_box {
        Some(BoxFacts::Free) if is_removal => {
            let why = "the box is removed".to_owned();
            return ControlFlow::Break(over::end(job, JobResult::Succeeded, why, facts, now));
        }
        Some(BoxFacts::Held { .. }) if is_removal => return ControlFlow::Break(stay(job, facts, now)),
        _ => {}
    }
    let until = job.gpu_box.as_ref().map_or(now, |gpu_box| gpu_box.soft_end);
    let why = match &facts.gpu_box {
        Some(BoxFacts::Held { .. }) if until.duration_since(now) >= ATTEMPT_MIN => return ControlFlow::Continue(job),
        Some(BoxFacts::Held { .. }) => {
            let least = format_duration(ATTEMPT_MIN);
            let why = format!("it was to end at {until}, and no machine is launched for less than {least}");
            return ControlFlow::Break(over::end(job, JobResult::Expired, why, facts, now));
        }
        Some(BoxFacts::HeldBy(holder)) => {
            format!("the box is already up since {}, by the job {}", holder.since, holder.job)
        }
        Some(BoxFacts::Elsewhere(region)) => {
            format!("the home of the box is in {region}: name that region, or remove the box")
        }
        Some(BoxFacts::TooMany(too_many)) => too_many.describe(),
        Some(BoxFacts::Free) | None => return ControlFlow::Break(stay(job, facts, now)),
    };
    ControlFlow::Break(over::end(job, JobResult::Failed, why, facts, now))
}

/// Notes when its home was last synced. That is the word of its machine: no time before its launch, and none to come, beyond what clocks differ by.
pub(super) fn note_sync(mut job: Job, facts: &JobFacts, now: Timestamp) -> Job {
    let launched_at = job.machine().map(|machine| machine.launched_at);
    let (Some(gpu_box), Some(at), Some(launched_at)) = (&mut job.gpu_box, facts.box_synced_at, launched_at) else {
        return job;
    };
    if at >= launched_at && at <= after(now, CLOCKS_DIFFER_BY) {
        gpu_box.synced_at = gpu_box.synced_at.max(Some(whole_second(at.min(now))));
    }
    job
}

/// Its machine runs: whether it has its home, how long it stays, and whether its agent is heard.
fn running(mut job: Job, machine: &JobMachine, facts: &JobFacts, now: Timestamp) -> ControlFlow<JobDecision, Job> {
    let Some(gpu_box) = &mut job.gpu_box else { return ControlFlow::Continue(job) };
    if let Some(BoxFacts::Held { home, wait }) = &facts.gpu_box {
        gpu_box.home = home.clone().filter(|home| home.machine == machine.instance).or(gpu_box.home.take());
        gpu_box.home_wait = *wait;
    }
    if facts.warned.is_some() {
        return ControlFlow::Continue(job);
    }
    // S3's own time of the heartbeat: what a machine writes there ends nothing.
    if let Some(Some(beat)) = facts.heartbeat {
        gpu_box.heard_attempt = machine.attempt;
        let is_silent = now.duration_since(beat) >= crate::HEARTBEAT_TIMEOUT;
        gpu_box.silent_since = is_silent.then_some(gpu_box.silent_since.unwrap_or(beat));
    }
    let times = gpu_box.times(machine.ends_at);
    if facts.may_act && facts.machine_hold.is_none() && now >= times.ended_from_outside_at() {
        let why = format!("its end, {}, has come", times.soft_end);
        return ControlFlow::Break(over::end(job, JobResult::Expired, why, facts, now));
    }
    let (mut job, effects) = extend(job, machine, facts, now);
    // People hear of the end that it has by now.
    if let Some(gpu_box) = &mut job.gpu_box {
        gpu_box.end_is_near = gpu_box.times(machine.ends_at).next_end(None).is_near(now);
    }
    if effects.is_empty() { ControlFlow::Continue(job) } else { ControlFlow::Break((job, effects)) }
}

/// Answers a request to extend, once the money for it is reserved.
fn extend(mut job: Job, machine: &JobMachine, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let Some(request) = facts.extend.iter().flatten().next() else { return (job, Vec::new()) };
    let Some(gpu_box) = &mut job.gpu_box else { return (job, Vec::new()) };
    // Clocks of people differ: another request is one of another time, whichever that is.
    if gpu_box.extended.as_ref().is_some_and(|known| known.asked_at == request.at) {
        return (job, Vec::new());
    }
    let hard_end = latest_box_end(machine);
    if request.until > hard_end {
        let why = format!("its machine ends at {hard_end} at the latest, which was fixed at its launch");
        answer(gpu_box, request, Some(why));
        return (job, Vec::new());
    }
    // Reserved is reserved: only idleness is put off.
    if request.until <= gpu_box.soft_end {
        answer(gpu_box, request, None);
        return (job, Vec::new());
    }
    match (&facts.answer, gpu_box.asked) {
        (Some(EffectResult::Reserved(ReserveResult::Granted)), Some(asked)) => {
            job.reserved = Some(JobReservation { granted: true, ..asked });
            answer(gpu_box, request, None);
            (job, vec![Effect::Settle(vec![machine.instance.clone()])])
        }
        (Some(EffectResult::Reserved(ReserveResult::Refused(why))), Some(asked)) => {
            // What was reserved before stays; a later request has a later number.
            job.reserved = job.reserved.map(|before| JobReservation { number: asked.number, ..before });
            answer(gpu_box, request, Some(why.clone()));
            (job, Vec::new())
        }
        // The next run asks again.
        (Some(_), _) => (job, Vec::new()),
        (None, _) if !facts.may_act => (job, Vec::new()),
        (None, _) => {
            let number = job.reserved.map_or(0, |before| before.number).saturating_add(1);
            let times = BoxTimes { soft_end: request.until, ..gpu_box.times(machine.ends_at) };
            let wanted = place::wanted_until(machine.cost_max(), times.ended_from_outside_at(), number, now);
            gpu_box.asked = Some(wanted);
            let reserve = Effect::Reserve { number, usd: wanted.usd, until: wanted.until };
            (job, vec![reserve])
        }
    }
}

fn answer(gpu_box: &mut BoxState, request: &ExtendRequest, refused: Option<String>) {
    if refused.is_none() {
        gpu_box.soft_end = gpu_box.soft_end.max(request.until);
        gpu_box.kept_until = gpu_box.kept_until.max(request.until);
    }
    gpu_box.extended = Some(Extension { asked_at: request.at, refused });
    gpu_box.asked = None;
}

/// Ends a box whose machine is lost, where nobody asked for another one.
pub(super) fn stays_down(job: &Job, how: LossReason, facts: &JobFacts, now: Timestamp) -> Option<(JobResult, String)> {
    job.gpu_box.as_ref()?;
    if how.is_of_the_launch() || how == LossReason::NoHeartbeat {
        return None;
    }
    // Before it was ready somebody waits for it, and what cannot be read says nothing against that.
    let is_in_use = facts.box_in_use_at.is_none_or(|at| now.duration_since(at) <= IN_USE_WITHIN);
    match how {
        LossReason::Reclaimed | LossReason::Gone if is_in_use => None,
        LossReason::Reclaimed => {
            Some((JobResult::Expired, "AWS took its machine back, and nobody had used it for a while".to_owned()))
        }
        LossReason::Overdue => Some((JobResult::Expired, "its machine reached its end".to_owned())),
        LossReason::ShutDown => {
            let said = facts.exit.iter().flatten().find(|exit| exit.reason != ExitReason::Interrupted);
            let result = match said.map(|exit| exit.reason) {
                Some(ExitReason::Broken) => JobResult::Failed,
                Some(ExitReason::Expired) => JobResult::Expired,
                _ => JobResult::Cancelled,
            };
            let why = said.map_or_else(|| "it was shut down from within".to_owned(), |exit| exit.why.clone());
            Some((result, crate::clean_machine_text(&why)))
        }
        other => Some((JobResult::Failed, format!("its machine {}", other.describe()))),
    }
}

/// The end until which money is reserved for a box; `None` for other jobs.
pub(super) fn reserved_until(job: &Job, end: Timestamp) -> Option<Timestamp> {
    let gpu_box = job.gpu_box.as_ref()?;
    Some(gpu_box.times(end).ended_from_outside_at())
}
