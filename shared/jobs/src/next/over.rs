//! The end of a job: its result, and what is still to be tidied up.

use jiff::{SignedDuration, Timestamp};
use model::fault::one_line;
use model::instance::InstanceState;

use super::limits::{TimeLeft, after, use_up};
use super::place::is_without_progress;
use super::run::lowest_cost;
use super::{ABSENT_AFTER, JobDecision, is_going, note, retry, terminate_previous_machine};
use crate::boxes::BoxFacts;
use crate::{
    Effect, EffectResult, ExitReason, HeadResult, Job, JobEnd, JobFacts, JobMachine, JobResult, MachineSight, Phase,
    TransitionKind,
};

/// An agent that has come to a result uploads its log and shuts its machine down; what is still there so much later is ended.
pub(super) const AGENT_SHUTS_DOWN_IN: SignedDuration = SignedDuration::from_mins(5);

/// The longest name of the person who cancelled a job, in characters.
const BY_CHARACTERS_MAX: usize = 200;

/// Longest time after a machine's end for which the result may be unreadable before the job counts as over.
pub(super) const UNREAD_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Returns the reason for which the job is over without another attempt although the result of the last one is unknown: head.json is
/// damaged, or may not be read. `None` as long as its machine may still be there.
pub(super) fn never_read(job: &Job, facts: &JobFacts, now: Timestamp) -> Option<String> {
    // Between an interruption and the next launch, and after an answer, there is no open request.
    let was_asked = facts.warned.is_none() && facts.answer.is_none();
    if !was_asked || job.machines == 0 || facts.head.is_some() {
        return None;
    }
    let is_due = match &job.phase {
        Phase::Running(placed) => is_gone(placed, facts, now) && now >= after(placed.ends_at, UNREAD_FOR),
        Phase::Submitted => {
            let is_last = TimeLeft::on_machine(job, lowest_cost(job), now).is_over() || is_without_progress(job, facts);
            // Money is reserved until an hour after the latest end.
            is_last && job.previous_attempt.is_none() && job.reserved.is_some_and(|reserved| now >= reserved.until)
        }
        _ => false,
    };
    let why = || "head.json could not be read: its result and its progress are unknown".to_owned();
    is_due.then(why)
}

/// The result of an attempt, as its agent says.
pub(super) struct AttemptResult<'a> {
    pub(super) attempt: u32,
    succeeded: bool,
    pub(super) code: Option<i32>,
    why: &'a str,
    pub(super) is_final: bool,
}

/// Ends or retries the job after the end of an attempt or a person's request to cancel; `None` while neither is known. A result comes
/// before a person's wish.
pub(super) fn conclude(job: &Job, facts: &JobFacts, now: Timestamp) -> Option<JobDecision> {
    // What a machine says of a box ends nothing while the machine runs.
    let is_open = job.gpu_box.is_some()
        && matches!(&facts.machine, MachineSight::Seen { state: InstanceState::Pending | InstanceState::Running, .. });
    if let Some(result) = find_result(job, facts).filter(|_| !is_open) {
        let why = describe_result(result.succeeded, result.code, result.why);
        return Some(if result.succeeded {
            end(job.clone(), JobResult::Succeeded, why, facts, now)
        } else {
            retry::retry_or_fail(job.clone(), &result, why, facts, now)
        });
    }
    let cancel = facts.cancel.iter().flatten().next()?;
    let by = one_line(cancel.by.as_deref().unwrap_or("a person"), BY_CHARACTERS_MAX);
    Some(end(job.clone(), JobResult::Cancelled, format!("cancelled by {by}"), facts, now))
}

/// The result of the job, or a failure that no retry has counted yet.
fn find_result<'a>(job: &Job, facts: &'a JobFacts) -> Option<AttemptResult<'a>> {
    let head = facts.head.iter().flatten().find(|head| head.attempt <= job.attempt);
    let in_head = head.and_then(|head| {
        let HeadResult { succeeded, code, why, is_final, .. } = head.result.as_ref()?;
        Some(AttemptResult { attempt: head.attempt, succeeded: *succeeded, code: *code, why, is_final: *is_final })
    });
    let is_present = matches!(job.phase, Phase::Running(_) | Phase::Interrupted(_));
    let exit = facts.exit.iter().flatten().find(|exit| is_present && exit.attempt == job.machine_attempt());
    let exit = exit.filter(|exit| matches!(exit.reason, ExitReason::Succeeded | ExitReason::Failed));
    let in_exit = exit.map(|exit| {
        let succeeded = exit.reason == ExitReason::Succeeded;
        AttemptResult { attempt: exit.attempt, succeeded, code: exit.code, why: &exit.why, is_final: exit.is_final }
    });
    let mut results = in_head.into_iter().chain(in_exit);
    results.find(|result| result.succeeded || result.attempt > job.retries.attempt)
}

/// Describes the result in the agent's words, which are a whole sentence; before it the exit code, where the agent does not say it.
fn describe_result(succeeded: bool, code: Option<i32>, why: &str) -> String {
    let code = code.filter(|_| !succeeded).map(|code| format!("exit code {code}"));
    let ended = match &code {
        Some(code) if !why.contains(code) => format!("the command has failed with {code}"),
        _ if !why.is_empty() => return why.to_owned(),
        _ if succeeded => "the command has succeeded".to_owned(),
        _ => "the command has failed".to_owned(),
    };
    if why.is_empty() { ended } else { format!("{ended}: {why}") }
}

pub(super) fn end(mut job: Job, result: JobResult, why: String, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let machine = job.machine().cloned();
    let noted = note(&job, TransitionKind::Finished, why.as_str());
    let released = job.reserved.is_none_or(|reserved| reserved.released);
    let ended = JobEnd { result, why, at: now, machine, released, closed: false };
    job.phase = Phase::Ended(ended.clone());
    // What was answered was answered to something else.
    let facts = JobFacts { answer: None, ..facts.clone() };
    let (job, effects) = go_on(job, ended, &facts, now);
    (job, std::iter::once(noted).chain(effects).collect())
}

/// Tidies up after a job that is over: its machines, and its reservation.
pub(super) fn go_on(mut job: Job, mut ended: JobEnd, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if ended.closed {
        return (job, vec![Effect::Forget]);
    }
    if let Some(machine) = ended.machine.take_if(|machine| is_gone(machine, facts, now)) {
        job = use_up(job, &machine, now);
    }
    if facts.machine != MachineSight::Unknown || ended.machine.is_none() {
        job.machine_hold = facts.machine_hold.clone().filter(|_| ended.machine.is_some());
    }
    if matches!(facts.answer, Some(EffectResult::Released(true))) {
        ended.released = true;
    }
    let has_box = job.gpu_box.is_some() && facts.gpu_box != Some(BoxFacts::Free);
    ended.closed = ended.machine.is_none()
        && job.previous_attempt.is_none()
        && ended.released
        && !has_box
        && job.groups.is_empty();
    let effects = effects(&job, &ended, facts, now);
    job.phase = Phase::Ended(ended);
    (job, effects)
}

pub(super) fn is_gone(machine: &JobMachine, facts: &JobFacts, now: Timestamp) -> bool {
    if facts.gang.as_ref().is_some_and(|gang| gang.is_any_left) {
        return false;
    }
    match &facts.machine {
        MachineSight::Seen { state, .. } => is_going(*state),
        MachineSight::Absent => now.duration_since(machine.launched_at) >= ABSENT_AFTER,
        MachineSight::Unknown => false,
    }
}

/// One after the other: its machine, its previous machine, its money.
fn effects(job: &Job, ended: &JobEnd, facts: &JobFacts, now: Timestamp) -> Vec<Effect> {
    if ended.closed {
        return vec![Effect::Forget];
    }
    let wait = match ended.result {
        JobResult::Succeeded | JobResult::Failed => AGENT_SHUTS_DOWN_IN,
        JobResult::Expired | JobResult::Cancelled => SignedDuration::ZERO,
    };
    let is_due = facts.may_act && now.duration_since(ended.at) >= wait;
    let is_due = is_due && job.machine_hold.is_none();
    let machine = ended.machine.as_ref().filter(|_| is_due).map(|machine| Effect::Terminate(machine.clone()));
    let previous_attempt = || terminate_previous_machine(job, facts, SignedDuration::ZERO, now);
    let release = job.reserved.filter(|_| !ended.released).map(|reserved| Effect::Release(reserved.number));
    let effect = match &facts.answer {
        None => machine.or_else(previous_attempt).or(release),
        Some(EffectResult::Terminated) => release,
        Some(_) => None,
    };
    effect.into_iter().collect()
}
