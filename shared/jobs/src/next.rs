//! The state machine. A file for what a job does in each part of its life: [`dependencies`] before its first launch,
//! [`place`] before it has a machine, [`launch`] while one is asked
//! for, [`no_capacity`] while there is none to be had, [`run`] while it has one, [`spot_return`] while it leaves that one for Spot,
//! [`retry`] after its command has failed, [`over`] when it has ended; [`takeover`] after its bucket was taken over from a copy; [`groups`] has the groups of EC2 for several machines; [`deadline`] says what it runs on, where that follows from a deadline; [`limits`] says how much time and
//! money is left.

mod boxes;
mod deadline;
mod dependencies;
mod groups;
mod launch;
mod limits;
mod loss;
mod no_capacity;
mod over;
mod place;
mod retry;
mod run;
mod spot_return;
mod takeover;

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};

pub use deadline::deadline_obstacle;
#[cfg(test)]
pub(super) use deadline::situation;
pub(super) use deadline::{SOONEST_BEYOND_WORK, START, on_demand_from, slack_seconds};
pub(super) use limits::{TimeLeft, after, most};

use model::instance::InstanceState;

use super::{
    Effect, EffectResult, HoldReason, Job, JobFacts, JobMachine, JobResult, JobTransition, LossReason, MachineSight,
    NeededFacts, Phase, TransitionKind,
};

/// Longest time after its launch for which EC2 may not know an instance yet (EC2 API reference, "Eventual consistency": minutes).
const ABSENT_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Longest time beyond its end for which the previous machine may still exist, before Curfew terminates it: its agent and AWS had their
/// chance.
const TERMINATE_PREVIOUS_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// A launch without an answer is asked again by the next run, a minute later. One that is older was met after a crash: a person may have
/// cancelled meanwhile.
const LAUNCH_IS_OLD_AFTER: SignedDuration = SignedDuration::from_secs(50);

/// The result of one round: the job's new state, and the effects to carry out.
type JobDecision = (Job, Vec<Effect>);

/// Returns the facts that have to be read before [`next()`] is asked. `warned` as in [`JobFacts::warned`].
///
/// No fact is read of a running job that was warned, nor while a launch is asked for: between an interruption and the next launch there is
/// no time to look at more.
#[must_use]
pub fn needed_facts(job: &Job, warned: bool, now: Timestamp) -> NeededFacts {
    let ran = job.attempt > 0;
    let previous_attempt = job.previous_attempt.is_some();
    let is_box = job.gpu_box.is_some();
    match &job.phase {
        // Whether a box comes up again depends on whether it was in use.
        Phase::Running(_) if warned => NeededFacts { heartbeat: is_box, ..NeededFacts::default() },
        Phase::Launching(launching) => {
            let is_old = !warned && now.duration_since(launching.at) >= LAUNCH_IS_OLD_AFTER;
            NeededFacts { head: is_old && ran, cancel: is_old, ..NeededFacts::default() }
        }
        Phase::Running(_) => NeededFacts {
            machine: true,
            previous_attempt,
            head: true,
            heartbeat: true,
            exit: true,
            cancel: true,
            gpu_box: is_box,
            extend: is_box,
            ..NeededFacts::default()
        },
        Phase::Interrupted(_) => NeededFacts {
            machine: true,
            previous_attempt,
            head: true,
            exit: true,
            cancel: true,
            ..NeededFacts::default()
        },
        Phase::Retrying(waiting) => NeededFacts {
            machine: waiting.machine.is_some(),
            previous_attempt,
            head: true,
            cancel: true,
            ..NeededFacts::default()
        },
        Phase::Submitted | Phase::Reserving | Phase::Waiting(_) | Phase::Held(_) => {
            let dependencies = !job.waits_for.is_empty();
            let earlier_members = job.awaits_turn().is_some();
            let waits = NeededFacts { dependencies, earlier_members, gpu_box: is_box, ..NeededFacts::default() };
            NeededFacts { previous_attempt, head: ran, cancel: true, ..waits }
        }
        Phase::Ended(ended) if ended.closed => NeededFacts::default(),
        Phase::Ended(ended) => NeededFacts {
            machine: ended.machine.is_some(),
            previous_attempt,
            gpu_box: is_box,
            ..NeededFacts::default()
        },
    }
}

/// Decides the job's new state and the effects to carry out. Total and pure: it never panics, and the same arguments give the same answer.
///
/// An unknown fact never changes anything, except for a launch without an answer, which is asked again with the same token.
#[must_use]
pub fn next(job: &Job, facts: &JobFacts, now: Timestamp) -> (Job, Vec<Effect>) {
    let answer = facts.answer.as_ref();
    let decided = if groups::is_answer(answer) {
        let job = groups::confirm(job.clone(), answer);
        decide(&job, &JobFacts { answer: None, ..facts.clone() }, now)
    } else {
        decide(job, facts, now)
    };
    groups::tend(decided, facts)
}

fn decide(job: &Job, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let job = boxes::note_sync(watch(job.clone(), facts, now), facts, now);
    let job = run::confirm_launch(run::read(job, facts), facts);
    let job = place::confirm_release(deadline::learn(job, facts, now), facts);
    if let Phase::Ended(ended) = &job.phase {
        let ended = ended.clone();
        return over::go_on(job, ended, facts, now);
    }
    let job = match takeover::settle(job, facts, now) {
        ControlFlow::Continue(job) => job,
        ControlFlow::Break(decided) => return decided,
    };
    // It may have been launched: that has to be known first, so that the machine ends with the job.
    if let Phase::Launching(launching) = &job.phase {
        let launching = launching.clone();
        return launch::go_on(job, launching, facts, now);
    }
    if let Some(concluded) = over::conclude(&job, facts, now) {
        return concluded;
    }
    if let Some(why) = over::never_read(&job, facts, now) {
        return over::end(job, JobResult::Expired, why, facts, now);
    }
    let job = match boxes::tend(job, facts, now) {
        ControlFlow::Continue(job) => job,
        ControlFlow::Break(decided) => return decided,
    };
    let mut job = match dependencies::await_others(job, facts, now) {
        ControlFlow::Continue(job) => job,
        ControlFlow::Break(waits) => return waits,
    };
    // A run that was cut off, or had no answer, has left it.
    if facts.answer.is_none()
        && let Some(release) = place::release(&mut job)
    {
        return (job, vec![release]);
    }
    match job.phase.clone() {
        Phase::Running(placed) => run::running(job, &placed, facts, now),
        Phase::Interrupted(replacing) => run::interrupted(job, &replacing, facts, now),
        Phase::Waiting(waiting) => no_capacity::waiting(job, &waiting, facts, now),
        Phase::Retrying(waiting) => retry::await_retry(job, waiting, facts, now),
        Phase::Held(held) => place::held(job, &held, facts, now),
        Phase::Reserving => place::reserving(job, facts, now),
        Phase::Submitted | Phase::Launching(_) | Phase::Ended(_) => place::submitted(job, facts, now),
    }
}

/// Returns `true` if a machine is on its way to its end, and costs nothing any more.
const fn is_going(state: InstanceState) -> bool {
    matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated)
}

/// A previous machine that was seen gone is forgotten.
fn watch(mut job: Job, facts: &JobFacts, now: Timestamp) -> Job {
    let is_gone = |placed: &JobMachine| match &facts.previous_attempt {
        MachineSight::Seen { state, .. } => *state == InstanceState::Terminated,
        MachineSight::Absent => now.duration_since(placed.launched_at) >= ABSENT_AFTER && now >= placed.ends_at,
        MachineSight::Unknown => false,
    };
    job.previous_attempt = job.previous_attempt.filter(|placed| !is_gone(placed));
    job
}

/// Returns the termination of a previous machine that is still there `after` the moment when it should be gone.
fn terminate_previous_machine(job: &Job, facts: &JobFacts, after: SignedDuration, now: Timestamp) -> Option<Effect> {
    let placed = job.previous_attempt.as_ref()?;
    let MachineSight::Seen { state, .. } = facts.previous_attempt else { return None };
    let is_there = !is_going(state) && state != InstanceState::Unknown;
    let is_due = now.duration_since(placed.ends_at) >= after;
    (facts.may_act && is_there && is_due).then(|| Effect::Terminate(placed.clone()))
}

/// Leaves the job as it is. The only effect is the termination of its previous machine, if that is due.
fn stay(job: Job, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let is_asked = !matches!(facts.answer, None | Some(EffectResult::Released(_)));
    // One that was left for Spot has nothing to bring away, and was to be terminated at once.
    let was_left = job.lost == Some(LossReason::ReturnedToSpot);
    let after = if was_left { SignedDuration::ZERO } else { TERMINATE_PREVIOUS_AFTER };
    let effect = terminate_previous_machine(&job, facts, after, now).filter(|_| !is_asked);
    (job, effect.into_iter().collect())
}

fn note(job: &Job, kind: TransitionKind, why: impl Into<String>) -> Effect {
    Effect::Record(JobTransition { kind, why: why.into(), attempt: job.attempt, step: job.progress.step })
}

impl LossReason {
    /// EC2's `StateReason.Code` (EC2 API reference, "`StateReason`"), if no person requested the shutdown.
    fn from_state_reason(code: &str) -> Self {
        match code {
            "Client.InternalError" => Self::KeyRefused,
            "Client.VolumeLimitExceeded" => Self::StorageUsedUp,
            "Client.InvalidSnapshot.NotFound" => Self::NoSnapshot,
            "Server.InsufficientInstanceCapacity" => Self::NoCapacity,
            "Server.InternalError" => Self::AwsFault,
            code if code.starts_with("Server.") => Self::Reclaimed,
            _ => Self::Gone,
        }
    }

    /// Returns `true` if the other machines of a gang may have something to save.
    const fn may_save(self) -> bool {
        !self.is_of_the_launch()
    }

    /// Returns `true` if EC2 says that it could not bring the machine up. All other losses have taken their time on one, or may have.
    const fn is_of_the_launch(self) -> bool {
        match self {
            Self::KeyRefused | Self::StorageUsedUp | Self::NoSnapshot | Self::NoCapacity | Self::AwsFault => true,
            Self::Reclaimed
            | Self::Gone
            | Self::NoHeartbeat
            | Self::HeartbeatStopped
            | Self::ShutDown
            | Self::Overdue
            | Self::Deadline
            | Self::ReturnedToSpot
            | Self::CommandFailed => false,
        }
    }

    /// The cause, to follow the machine's id, and the remedy if a person must act.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Reclaimed => "was taken back by AWS",
            Self::NoHeartbeat => "sent no heartbeat within 15 minutes of its launch",
            Self::HeartbeatStopped => "stopped sending heartbeats for 10 minutes",
            Self::ShutDown => "shut itself down and left no result",
            Self::KeyRefused => {
                "was terminated by EC2 at its launch (Client.InternalError), because a KMS key was refused: let the role \
                 of run-jobs, and on Spot the role AWSServiceRoleForEC2Spot, create grants for the key that encrypts volumes here"
            }
            Self::StorageUsedUp => {
                "was terminated by EC2 at its launch (Client.VolumeLimitExceeded), because the account's quota of EBS storage is used up: ask \
                 Service Quotas for more, or delete volumes that nobody needs"
            }
            Self::NoSnapshot => {
                "was terminated by EC2 at its launch (Client.InvalidSnapshot.NotFound), because a snapshot of its image no longer exists: \
                 name another image under `[machine] ami`"
            }
            Self::NoCapacity => {
                "was terminated by EC2 at its launch (Server.InsufficientInstanceCapacity), because there was no capacity after all"
            }
            Self::AwsFault => "was terminated by a fault of AWS (Server.InternalError)",
            Self::Gone => "is gone, and EC2 gives no reason",
            Self::Overdue => "reached its deadline",
            Self::ReturnedToSpot => "is left for a machine on Spot, which costs less",
            Self::CommandFailed => "ended because its command failed",
            Self::Deadline => {
                "is left for a machine on demand, because the job's deadline leaves no time for another loss"
            }
        }
    }
}

impl HoldReason {
    /// Its name in documents.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Quota => "quota",
            Self::Observing => "observing",
            Self::Permission => "permission",
            Self::SpotRole => "spot-role",
            Self::InstanceProfile => "instance-profile",
            Self::Role => "role",
            Self::NotAllowed => "not-allowed",
            Self::Unplaceable => "unplaceable",
            Self::Deadline => "deadline",
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
