//! Retries of a failed command: the conditions, and the time.
//!
//! The command is retried if its document leaves a retry and the limits leave an attempt, if no person has cancelled the job, if no limit
//! of the job ended the command, and if another machine may run it: by exit codes 126 and 127 a shell says that the command cannot be run,
//! and it would say that again. A lost machine, and an agent that had to give up, use up no retry: neither is the end of a command.

use jiff::{SignedDuration, Timestamp};
use model::instance::InstanceState;

use super::limits::{TimeLeft, after, use_up};
use super::no_capacity::back_off_minutes;
use super::over::{self, AGENT_SHUTS_DOWN_IN, AttemptResult};
use super::run::lowest_cost;
use super::{JobDecision, note, place, stay};
use crate::{
    Effect, Job, JobFacts, JobMachine, JobResult, JobRetries, LossReason, MachineSight, Phase, RetryWait,
    TransitionKind,
};

/// The exit codes of a shell for a command that is found but cannot be executed, and for one that is not found (POSIX, "Shell Command
/// Language", 2.8.2).
const CANNOT_BE_RUN: [i32; 2] = [126, 127];

/// The command of an attempt has failed: the job waits for the next attempt, or is over.
pub(super) fn retry_or_fail(
    job: Job,
    failed: &AttemptResult<'_>,
    why: String,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let JobRetries { used, .. } = job.retries;
    // A service that a command needs is back in minutes; a mistake in the command is not, and each try costs the start of a machine.
    let until = after(now, SignedDuration::from_mins(i64::from(back_off_minutes(used.saturating_add(1)))));
    let obstacle = match job.terms.retries {
        0 => Some(String::new()),
        _ if failed.is_final => Some("; it is not retried".to_owned()),
        retries if used >= retries => Some(format!("; its retries are used up ({used} of {retries})")),
        _ => find_obstacle(&job, failed.code, facts, until, now).map(|why| format!("; it is not retried: {why}")),
    };
    match obstacle {
        Some(obstacle) => over::end(job, JobResult::Failed, format!("{why}{obstacle}"), facts, now),
        None => schedule_retry(job, failed.attempt, &why, until, now),
    }
}

/// Explains why there is no retry although one is left.
fn find_obstacle(job: &Job, code: Option<i32>, facts: &JobFacts, until: Timestamp, now: Timestamp) -> Option<String> {
    if facts.cancel.iter().flatten().next().is_some() {
        return Some("a person has cancelled the job".to_owned());
    }
    if let Some(code) = code.filter(|code| CANNOT_BE_RUN.contains(code)) {
        return Some(format!("exit code {code} says that a command cannot be run"));
    }
    let job = job.machine().map_or_else(|| job.clone(), |machine| use_up(job.clone(), machine, now));
    let left = TimeLeft::on_machine(&job, lowest_cost(&job), until);
    left.is_over().then(|| left.describe(&job))
}

/// The agent uploads its log and shuts its machine down meanwhile.
fn schedule_retry(mut job: Job, failed: u32, why: &str, until: Timestamp, now: Timestamp) -> JobDecision {
    let machine = job.machine().cloned();
    let used = job.retries.used.saturating_add(1);
    let why =
        format!("attempt {failed}: {why}; retry {used} of {} at {}", job.terms.retries, until.strftime("%H:%M UTC"));
    job.retries = JobRetries { used, attempt: failed };
    job.lost = Some(LossReason::CommandFailed);
    // The next launch is another attempt, whatever was requested before.
    job.passes = 0;
    (job.launches_without_heartbeat, job.unplaced_since) = (0, None);
    job.machine_hold = None;
    if let Some(deadline) = &mut job.deadline {
        deadline.end_attempt();
    }
    let noted = note(&job, TransitionKind::Waits, why.as_str());
    job.phase = Phase::Retrying(RetryWait { machine, why, since: now, until });
    let release = place::release(&mut job);
    (job, std::iter::once(noted).chain(release).collect())
}

/// Waits until the job's machines are gone and the time has come. Its limits end the job even while a previous machine is still there.
pub(super) fn await_retry(mut job: Job, mut waiting: RetryWait, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if let Some(machine) = waiting.machine.take_if(|machine| over::is_gone(machine, facts, now)) {
        job = use_up(job, &machine, now);
        // It counts against the quota until EC2 has terminated it. An older machine may still cost money: that is watched first.
        if matches!(facts.machine, MachineSight::Seen { state: InstanceState::ShuttingDown, .. }) {
            let ends_at = machine.ends_at.min(now);
            job.previous_attempt = job.previous_attempt.or(Some(JobMachine { ends_at, ..machine }));
        }
    }
    let is_overdue = now.duration_since(waiting.since) >= AGENT_SHUTS_DOWN_IN;
    if facts.machine != MachineSight::Unknown || waiting.machine.is_none() {
        job.machine_hold = facts.machine_hold.clone().filter(|_| is_overdue && waiting.machine.is_some());
    }
    let may_launch = facts.may_act && now >= waiting.until && job.previous_attempt.is_none();
    let has_machine = waiting.machine.is_some();
    let terminates = waiting.machine.clone().filter(|_| is_overdue && may_terminate(&job, facts));
    job.phase = Phase::Retrying(waiting);
    if !has_machine && (may_launch || TimeLeft::on_any_machine(&job, now).is_over()) {
        return place::again(job, facts, now);
    }
    match terminates {
        Some(machine) => (job, vec![Effect::Terminate(machine)]),
        None => stay(job, facts, now),
    }
}

fn may_terminate(job: &Job, facts: &JobFacts) -> bool {
    facts.may_act && facts.answer.is_none() && job.machine_hold.is_none() && facts.machine != MachineSight::Unknown
}
