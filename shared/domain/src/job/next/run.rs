//! While a job has a machine, and when that is lost.

use jiff::{SignedDuration, Timestamp};

use super::limits::{Left, after, latest_end, use_up};
use super::place::{self, RANKING_IS_OLD_AFTER};
use super::{ABSENT_AFTER, Turn, is_going, launch, note, over, stay};
use crate::instance::State;
use crate::job::{
    AGENT_ENDS_BEFORE, EXPIRES_AFTER, Effect, Ending, ExitReason, FIRST_HEARTBEAT_AFTER, Facts, Job, Lost, NoteKind,
    Phase, Placed, Replacing, SILENT_AFTER, Sight, WARNING,
};
use crate::money::Rate;
use crate::rule::Rule;
use crate::vocabulary::EXPIRES_AT;

/// A machine that still runs so long after its absolute end has outlived two of its killers.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Of a machine that Curfew ends by its tag, and earlier than it had written there.
const MOVED: &str = "that is earlier than it was launched with, so somebody has changed the tag";

/// Clocks differ: what ends so shortly before its time, ends because of it.
const END_IS_NEAR: SignedDuration = SignedDuration::from_mins(1);

/// Reads the fence: how far the job is. An attempt has head name only what is ahead of what it went on from, by its step or, of the same
/// step, by its bytes: so one that it names a checkpoint of has made progress, also where a damaged one of a higher step was skipped. One
/// that may be cut off says so only where its step is higher than all before, or where it was written over one that still counts.
pub(super) fn read(mut job: Job, facts: &Facts) -> Job {
    let Some(Some(head)) = &facts.head else { return job };
    let Some(checkpoint) = head.checkpoint.filter(|one| one.attempt <= job.attempt) else { return job };
    let progress = &mut job.progress;
    let is_higher = progress.step.is_none_or(|step| step < checkpoint.step);
    // One that each attempt cuts off, and goes back from, lies at about the same step for ever. One of the same step that still counts
    // was not gone back from, but written over.
    let is_over = progress.step == Some(checkpoint.step) && head.kept.iter().any(|one| one.step == checkpoint.step);
    let is_certain = !head.doubtful.contains(&checkpoint);
    if is_higher || (checkpoint.attempt > progress.attempt && (is_certain || is_over)) {
        progress.step = progress.step.max(Some(checkpoint.step));
        progress.attempt = checkpoint.attempt;
        progress.attempts_without = 0;
    }
    job
}

/// Once its machine is heard of, those before it count no more: this launch came to something.
pub(super) fn hear(mut job: Job, facts: &Facts) -> Job {
    let (Phase::Running(machine) | Phase::Interrupted(Replacing { machine, .. })) = &job.phase else { return job };
    if is_heard_of(machine, facts) {
        (job.unheard, job.unplaced_since) = (0, None);
    }
    job
}

/// Whether its heart has beaten, or it wrote into head, or left an exit record, as far as anybody has read.
fn is_heard_of(machine: &Placed, facts: &Facts) -> bool {
    let has_beat = facts.heartbeat.flatten().is_some();
    let is_in_head = facts.head.iter().flatten().any(|head| head.attempt == machine.attempt);
    has_beat || is_in_head || facts.exit.iter().flatten().any(|exit| exit.attempt == machine.attempt)
}

/// It has a machine.
pub(super) fn running(job: Job, placed: &Placed, facts: &Facts, now: Timestamp) -> Turn {
    if facts.warned.as_ref() == Some(&placed.instance) {
        return warned(job, placed, facts, now);
    }
    match &facts.machine {
        Sight::Seen { state: State::Pending | State::Running, .. } => alive(job, placed, facts, now),
        Sight::Seen { state: State::Unknown, .. } | Sight::Unknown => stay(job, facts, now),
        Sight::Seen { state, reason } => going(job, placed, (*state, reason.as_deref()), facts, now),
        Sight::Absent => {
            let is_old = now.duration_since(placed.launched_at) >= ABSENT_AFTER;
            if is_old && facts.head.is_some() && silent(placed, facts, now).is_some() {
                return lose(
                    job,
                    placed,
                    &Loss { how: Lost::Gone, until: now, is_gone: true, in_time: false },
                    facts,
                    now,
                );
            }
            stay(job, facts, now)
        }
    }
}

/// EC2 takes the machine back in two minutes, which it may use; the next one is launched at once.
pub(super) fn warned(job: Job, placed: &Placed, facts: &Facts, now: Timestamp) -> Turn {
    let loss = Loss { how: Lost::Reclaimed, until: after(now, WARNING), is_gone: false, in_time: true };
    lose(job, placed, &loss, facts, now)
}

/// How its heart says that it is lost; `None` where it beats, or nobody knows.
fn silent(placed: &Placed, facts: &Facts, now: Timestamp) -> Option<Lost> {
    match facts.heartbeat? {
        None => (now.duration_since(placed.launched_at) >= FIRST_HEARTBEAT_AFTER).then_some(Lost::NeverHeard),
        Some(beat) => (now.duration_since(beat) >= SILENT_AFTER).then_some(Lost::Silent),
    }
}

/// EC2 says that it runs.
fn alive(mut job: Job, placed: &Placed, facts: &Facts, now: Timestamp) -> Turn {
    let is_overdue = now.duration_since(placed.ends_at) >= OVERDUE_AFTER;
    // A result that nobody could read now may be the reason why its heart is silent.
    let silent = silent(placed, facts, now).filter(|_| facts.head.is_some());
    let Some(lost) = is_overdue.then_some(Lost::Overdue).or(silent).filter(|_| facts.may_act) else {
        return stay(job, facts, now);
    };
    if let Some(why) = nothing_left(&job, placed, facts, now) {
        return over::end(job, Ending::Expired, why, facts, now);
    }
    let why = format!("{} {}; it is terminated before it is replaced", placed.instance, lost.in_words());
    let noted = note(&job, NoteKind::Ended(placed.instance.clone()), why);
    job.phase = Phase::Interrupted(Replacing { machine: placed.clone(), lost, since: now });
    (job, vec![noted, Effect::Terminate(placed.clone())])
}

/// Why there would be no other attempt, if this machine were gone now; `None` too, where nobody can say whether it came to a result.
fn nothing_left(job: &Job, placed: &Placed, facts: &Facts, now: Timestamp) -> Option<String> {
    facts.head.as_ref()?;
    let job = use_up(job.clone(), placed, now);
    let left = Left::of_any(&job, now);
    let left = if left.is_over() { left } else { Left::of(&job, cheapest(&job), now) };
    left.is_over().then(|| left.in_words(&job))
}

pub(super) fn cheapest(job: &Job) -> Rate {
    let candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    candidates.map(|candidate| candidate.rate_max).min().unwrap_or_default()
}

/// EC2 says that it ends, has ended, or was stopped: why decides (EC2 user guide, "State reason codes").
fn going(job: Job, placed: &Placed, (state, reason): (State, Option<&str>), facts: &Facts, now: Timestamp) -> Turn {
    let is_gone = state == State::Terminated;
    let lost = |how| Loss { how, until: now, is_gone, in_time: false };
    match reason {
        Some("Client.InstanceInitiatedShutdown") => match (&facts.head, &facts.exit) {
            (Some(_), exit) if exit.is_some() || now >= after(placed.ends_at, over::UNREAD_FOR) => {
                let is_reclaimed =
                    exit.iter().flatten().next().is_some_and(|exit| exit.reason == ExitReason::Interrupted);
                let is_at_end = now >= after(placed.ends_at, -(AGENT_ENDS_BEFORE + END_IS_NEAR));
                let how = match (is_reclaimed, is_at_end) {
                    (true, _) => Lost::Reclaimed,
                    (false, true) => Lost::Overdue,
                    (false, false) => Lost::ShutDown,
                };
                lose(job, placed, &lost(how), facts, now)
            }
            _ => stay(job, facts, now),
        },
        Some("Client.UserInitiatedShutdown") => {
            if now >= after(placed.ends_at, EXPIRES_AFTER - END_IS_NEAR) {
                return lose(job, placed, &lost(Lost::Overdue), facts, now);
            }
            by_hand(job, placed, state, facts, now)
        }
        Some(reason) => lose(job, placed, &lost(Lost::of(reason)), facts, now),
        None => stay(job, facts, now),
    }
}

/// It was stopped or terminated, by a person or for a rule of Curfew's: neither is contradicted, and the machine is left as it is.
fn by_hand(mut job: Job, placed: &Placed, state: State, facts: &Facts, now: Timestamp) -> Turn {
    // Whether it had succeeded before is not known.
    if facts.head.is_none() {
        return stay(job, facts, now);
    }
    let id = &placed.instance;
    let (result, by) = match facts.reaped {
        None => (Ending::Cancelled, "a person".to_owned()),
        Some(Rule::Expired) => {
            (Ending::Expired, format!("Curfew, at the time that its tag {EXPIRES_AT} says; {MOVED}"))
        }
        Some(rule) => (Ending::Failed, format!("Curfew, for the rule {rule}, as was announced")),
    };
    let why = match state {
        State::Stopping | State::Stopped => {
            format!("{id} was stopped by {by}; it is left as it is, and its volumes go on costing")
        }
        _ => format!("{id} was terminated by {by}"),
    };
    job = use_up(job, placed, now);
    job.phase = Phase::Submitted;
    over::end(job, result, why, facts, now)
}

/// It was lost without a warning, and has to be gone before there is another one.
pub(super) fn interrupted(job: Job, replacing: &Replacing, facts: &Facts, now: Timestamp) -> Turn {
    let machine = &replacing.machine;
    let (is_over, is_gone) = match &facts.machine {
        Sight::Seen { state, .. } => (is_going(*state), *state == State::Terminated),
        Sight::Absent => {
            let is_gone = now.duration_since(replacing.since) >= ABSENT_AFTER;
            (is_gone, is_gone)
        }
        Sight::Unknown => (false, false),
    };
    if is_over {
        return lose(job, machine, &Loss { how: replacing.lost, until: now, is_gone, in_time: false }, facts, now);
    }
    if let Some(why) = nothing_left(&job, machine, facts, now) {
        return over::end(job, Ending::Expired, why, facts, now);
    }
    if !facts.may_act || facts.answer.is_some() {
        return (job, Vec::new());
    }
    (job, vec![Effect::Terminate(machine.clone())])
}

/// How a machine was lost.
struct Loss {
    how: Lost,
    /// Until when it runs at the latest.
    until: Timestamp,
    /// Whether it was seen gone.
    is_gone: bool,
    /// Whether every second counts: then it is launched from the ranking that there is, however old.
    in_time: bool,
}

/// The next attempt, or none.
fn lose(job: Job, machine: &Placed, loss: &Loss, facts: &Facts, now: Timestamp) -> Turn {
    let until = latest_end(machine, loss.until);
    let mut job = use_up(job, machine, until);
    job.lost = Some(loss.how);
    job.passes = 0;
    let is_unheard = loss.how.is_of_the_launch() && !is_heard_of(machine, facts);
    if is_unheard {
        job.unheard = job.unheard.saturating_add(1);
        job.unplaced_since = job.unplaced_since.or(Some(now));
    } else {
        (job.unheard, job.unplaced_since) = (0, None);
    }
    if !is_unheard && job.progress.attempt != machine.attempt {
        job.progress.attempts_without = job.progress.attempts_without.saturating_add(1);
    }
    let predecessor = Placed { ends_at: machine.ends_at.min(until), ..machine.clone() };
    // An older one that nobody has seen gone is still to be seen to, where the newer one is gone.
    let (newer, older) = ((!loss.is_gone).then_some(predecessor), job.predecessor.take());
    let seen = if newer.is_some() { &facts.machine } else { &facts.predecessor };
    job.predecessor = newer.or(older);
    job.phase = Phase::Submitted;
    let why = format!("{} {}", machine.instance, loss.how.in_words());
    let noted = note(&job, NoteKind::Lost(machine.instance.clone(), loss.how), why);
    let is_fresh = job.ranking.as_ref().is_some_and(|one| now.duration_since(one.at) < RANKING_IS_OLD_AFTER);
    let is_at_hand = (loss.in_time || is_fresh) && place::covers(&job, now);
    let may_go_on = facts.may_act && !place::is_without_progress(&job, facts) && !Left::of_any(&job, now).is_over();
    // What was known of its machine, is known of its predecessor.
    let facts = Facts {
        may_act: facts.may_act,
        no_progress_attempts_max: facts.no_progress_attempts_max,
        predecessor: seen.clone(),
        head: facts.head.clone(),
        cancel: facts.cancel.clone(),
        ..Facts::default()
    };
    let (job, effects) = match (may_go_on, is_unheard, is_at_hand) {
        (true, true, _) => launch::ended(job, machine, loss.how, is_at_hand, now),
        (true, false, true) => place::begin(job, Some(machine.candidate), &facts, now),
        _ => place::again(job, &facts, now),
    };
    (job, std::iter::once(noted).chain(effects).collect())
}
