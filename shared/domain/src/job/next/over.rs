//! When a job is over: how it ended, and what is still to be tidied up.

use jiff::{SignedDuration, Timestamp};

use super::limits::{Left, after, use_up};
use super::place::is_without_progress;
use super::run::cheapest;
use super::{ABSENT_AFTER, Turn, end_predecessor, is_going, note};
use crate::job::{Answer, Effect, Ended, Ending, ExitReason, Facts, Job, NoteKind, Phase, Placed, Sight};

/// An agent that has come to a result uploads its log and shuts its machine down; what is still there so much later is ended.
const AGENT_SHUTS_DOWN_IN: SignedDuration = SignedDuration::from_mins(5);

/// What nobody could read so long after a machine's end, nobody will.
pub(super) const UNREAD_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Why it is over, where there is no other attempt and nobody can read whether the last one came to a result: head.json is damaged, or may
/// not be read. `None` as long as its machine may still be there.
pub(super) fn never_read(job: &Job, facts: &Facts, now: Timestamp) -> Option<String> {
    // Between an interruption and the next launch, and after an answer, nobody has asked.
    let was_asked = facts.warned.is_none() && facts.answer.is_none();
    if !was_asked || job.machines == 0 || facts.head.is_some() {
        return None;
    }
    let is_due = match &job.phase {
        Phase::Running(placed) => is_gone(placed, facts, now) && now >= after(placed.ends_at, UNREAD_FOR),
        Phase::Submitted => {
            let is_last = Left::of(job, cheapest(job), now).is_over() || is_without_progress(job, facts);
            // Money is reserved until an hour after the latest end.
            is_last && job.predecessor.is_none() && job.reserved.is_some_and(|reserved| now >= reserved.until)
        }
        _ => false,
    };
    let why = || "head.json could not be read: nobody can say whether it came to a result, or how far it is".to_owned();
    is_due.then(why)
}

/// How it ended, if it has: a result before a person's wish.
pub(super) fn verdict(job: &Job, facts: &Facts) -> Option<(Ending, String)> {
    let ending = |succeeded| if succeeded { Ending::Succeeded } else { Ending::Failed };
    let head = facts.head.iter().flatten().find(|head| head.attempt <= job.attempt);
    if let Some(result) = head.and_then(|head| head.result.as_ref()) {
        return Some((ending(result.succeeded), in_words(result.succeeded, result.code, &result.why)));
    }
    let is_present = matches!(job.phase, Phase::Running(_) | Phase::Interrupted(_));
    let exit = facts.exit.iter().flatten().find(|exit| is_present && exit.attempt == job.attempt);
    let exit = exit.filter(|exit| matches!(exit.reason, ExitReason::Succeeded | ExitReason::Failed));
    if let Some(exit) = exit {
        let succeeded = exit.reason == ExitReason::Succeeded;
        return Some((ending(succeeded), in_words(succeeded, exit.code, &exit.why)));
    }
    let cancel = facts.cancel.iter().flatten().next()?;
    Some((Ending::Cancelled, format!("cancelled by {}", cancel.by.as_deref().unwrap_or("a person"))))
}

/// What the agent says, which is a whole sentence of how it ended; before it the exit code, where that does not say it.
fn in_words(succeeded: bool, code: Option<i32>, why: &str) -> String {
    let code = code.filter(|_| !succeeded).map(|code| format!("exit code {code}"));
    let ended = match &code {
        Some(code) if !why.contains(code) => format!("the command has failed with {code}"),
        _ if !why.is_empty() => return why.to_owned(),
        _ if succeeded => "the command has ended with success".to_owned(),
        _ => "the command has failed".to_owned(),
    };
    if why.is_empty() { ended } else { format!("{ended}: {why}") }
}

/// It is over.
pub(super) fn end(mut job: Job, result: Ending, why: String, facts: &Facts, now: Timestamp) -> Turn {
    let machine = job.machine().cloned();
    let noted = note(&job, NoteKind::Over, why.as_str());
    let released = job.reserved.is_none();
    let ended = Ended { result, why, at: now, machine, released, closed: false };
    job.phase = Phase::Ended(ended.clone());
    // What was answered was answered to something else.
    let facts = Facts { answer: None, ..facts.clone() };
    let (job, effects) = go_on(job, ended, &facts, now);
    (job, std::iter::once(noted).chain(effects).collect())
}

/// What is left of a job that is over: its machines, and what is reserved.
pub(super) fn go_on(mut job: Job, mut ended: Ended, facts: &Facts, now: Timestamp) -> Turn {
    if ended.closed {
        return (job, vec![Effect::Forget]);
    }
    if let Some(machine) = ended.machine.take_if(|machine| is_gone(machine, facts, now)) {
        job = use_up(job, &machine, now);
    }
    if matches!(facts.answer, Some(Answer::Released(Ok(())))) {
        ended.released = true;
    }
    ended.closed = ended.machine.is_none() && job.predecessor.is_none() && ended.released;
    let effects = effects(&job, &ended, facts, now);
    job.phase = Phase::Ended(ended);
    (job, effects)
}

fn is_gone(machine: &Placed, facts: &Facts, now: Timestamp) -> bool {
    match &facts.machine {
        Sight::Seen { state, .. } => is_going(*state),
        Sight::Absent => now.duration_since(machine.launched_at) >= ABSENT_AFTER,
        Sight::Unknown => false,
    }
}

/// One after the other: its machine, its predecessor, its money.
fn effects(job: &Job, ended: &Ended, facts: &Facts, now: Timestamp) -> Vec<Effect> {
    if ended.closed {
        return vec![Effect::Forget];
    }
    let wait = match ended.result {
        Ending::Succeeded | Ending::Failed => AGENT_SHUTS_DOWN_IN,
        Ending::Expired | Ending::Cancelled => SignedDuration::ZERO,
    };
    let is_due = facts.may_act && now.duration_since(ended.at) >= wait;
    let machine = ended.machine.as_ref().filter(|_| is_due).map(|machine| Effect::Terminate(machine.clone()));
    let predecessor = || end_predecessor(job, facts, SignedDuration::ZERO, now);
    let release = (!ended.released).then_some(Effect::Release);
    let effect = match &facts.answer {
        None => machine.or_else(predecessor).or(release),
        Some(Answer::Terminated(_)) => release,
        Some(_) => None,
    };
    effect.into_iter().collect()
}
