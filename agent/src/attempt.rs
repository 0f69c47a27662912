//! One attempt, from the fence to its exit.

mod assigned_job;
mod evidence;
mod leftovers;
mod outcome;
mod surroundings;

use std::sync::Arc;
use std::time::Instant;

use jiff::SignedDuration;
use jobs::checkpoints::{DOUBTED_FOR, WriterState};
use jobs::warning::{PendingUpload, grace};
use jobs::{CheckpointSpec, ExitReason, Head, Heartbeat, WARNING};
use model::duration;
use store::{MachineDocument, MachineDocuments as _};

use self::leftovers::{list_checkpoint_directory, pass_on_lost_work};
use self::outcome::{end_box, end_job, not_started, outcome, unfinished};
use crate::agent::{Agent, AttemptEnd, EndCause, StartError};
use crate::command;
use crate::command::{CommandExit, RunningCommand, ShellLine, signal_of};
use crate::container::Container;
use crate::directory::CheckpointDirectory;
use crate::fence::FenceError;
use crate::gpu::GpuWatch;
use crate::gpu_box::{self, BoxHome};
use crate::keeper::{CheckpointKeeper, DirectoryBefore, KeeperSummary};
use crate::restore::{RestoreCandidates, RestoredCheckpoint, restore};
use crate::retry_timeout::RetryTimeout;
use crate::user::User;
use crate::variables::{self, VariableSources};
use crate::world::now;

pub(crate) use self::assigned_job::{AssignedJob, read_spec};
pub(crate) use self::evidence::ExitEvidence;
pub(crate) use self::leftovers::{Leftovers, end_leftovers, warn_of_lost_work};
pub(crate) use self::outcome::{EndedCommand, GPU_FAULT};
pub(crate) use self::surroundings::{Surroundings, create_container, provide_surroundings, set_up};

/// Timeout for the exit record of the previous attempt: its two minutes, and a margin.
pub(crate) const PREVIOUS_EXIT_TIMEOUT: SignedDuration = SignedDuration::from_secs(150);

/// A previous attempt without a heartbeat for so long does not upload any more.
pub(crate) const PREVIOUS_HEARTBEAT_STALE_AFTER: SignedDuration = SignedDuration::from_secs(60 + WARNING.as_secs());

const RETRY_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// Interval at which the agent reaps inherited processes that have ended.
pub(crate) const REAP_EVERY: SignedDuration = SignedDuration::from_mins(1);

pub(crate) const NO_TIME: &str = "there was no time to upload its last checkpoint";

/// Runs the attempt. The machine shuts down after any result.
pub(crate) async fn run(agent: &Arc<Agent>) -> AttemptEnd {
    let (mut container, mut home) = (None, None);
    let end = match Box::pin(attempt(agent, &mut container, &mut home)).await {
        Ok(end) => end,
        Err(error) => not_started(agent, error).await,
    };
    let end = if end.is_final { end_job(agent, end).await } else { end };
    if let Some(container) = &container {
        container.remove().await;
    }
    // Such as processes of a setup that a warning cut short.
    command::kill_leftovers(false).await;
    gpu_box::release_home(agent, &mut home).await;
    end
}

async fn attempt(
    agent: &Arc<Agent>,
    container: &mut Option<Container>,
    home: &mut Option<BoxHome>,
) -> Result<AttemptEnd, StartError> {
    agent.set_activity("starting");
    let asked = Box::pin(agent.unless_it_ends(read_spec(agent))).await?;
    if let Err(error @ StartError::Ended(_)) = asked {
        return Err(error);
    }
    agent.set_activity("waiting for the previous attempt");
    let head = agent.unless_it_ends(Box::pin(take_over(agent))).await??;
    agent.unless_it_ends(Box::pin(pass_on_lost_work(agent))).await?;
    // A result, such as that the job has no spec, needs the fence.
    let asked = asked?;
    let Surroundings { user, mut fetched, mounted: _mounted } =
        Box::pin(provide_surroundings(agent, &asked, container, home)).await?;
    let mut restored = put_back(agent, &asked, RestoreCandidates::from_head(&head), &user).await?;
    let container = container.as_ref();
    fetched.extend(Box::pin(create_container(agent, &asked, &user, container)).await?);
    let mut variables = variables_of(agent, &asked, &user, &restored, &fetched);
    agent.note_that_it_runs();
    if let Some(failed) = Box::pin(set_up(agent, &asked, &user, &variables, container)).await? {
        gpu_box::release_home(agent, home).await;
        return Ok(outcome(agent, &asked, &user, failed, Vec::new()).await);
    }
    let idle_max = asked.work.idle_max;
    let _gpus = asked.work.has_gpus.then(|| GpuWatch::begin(agent, idle_max));
    if asked.work.is_box {
        let why = Box::pin(gpu_box::keep_box(agent, &asked, &user, &variables, home)).await?;
        return Ok(end_box(agent, &why).await);
    }
    loop {
        agent.set_activity(Heartbeat::RUNNING);
        agent.log.write_line(&format!("runs the command as {}", user.name));
        let before = directory_before(asked.checkpoint.as_ref(), &restored, &user).await;
        let line = ShellLine { line: &asked.work.command, shell: asked.work.shell };
        let running = RunningCommand::begin(line, &user, &variables, container, &agent.log);
        let running = running.map_err(|error| {
            StartError::from_io(agent, &error, format!("the command could not be started: {error}"))
        })?;
        // Each retry has fewer candidates.
        let before = match run_command(agent, &asked, &user, running, restored, before).await {
            CommandOutcome::Finished(end) => return Ok(end),
            CommandOutcome::FailedAfterResume(before) => before,
        };
        restored = put_back(agent, &asked, before, &user).await?;
        variables = variables_of(agent, &asked, &user, &restored, &fetched);
    }
}

/// Restores a checkpoint: one of the candidates, or else one of the job that it begins with.
async fn put_back(
    agent: &Arc<Agent>,
    asked: &AssignedJob,
    candidates: RestoreCandidates,
    user: &User,
) -> Result<RestoredCheckpoint, StartError> {
    agent.set_activity("restoring");
    let restored = match &asked.checkpoint {
        Some(checkpoint) => {
            let directory = CheckpointDirectory::from_spec(checkpoint);
            let begins_with = checkpoint.begins_with(&agent.identity.job.team);
            let restored = Box::pin(restore(agent, candidates, begins_with.as_ref(), &directory, user));
            agent.unless_it_ends(restored).await??
        }
        None => RestoredCheckpoint::default(),
    };
    agent.set_status(|status| (status.step, status.steps_per_hour) = (restored.step, None));
    Ok(restored)
}

pub(crate) fn variables_of(
    agent: &Agent,
    asked: &AssignedJob,
    user: &User,
    restored: &RestoredCheckpoint,
    fetched: &variables::VariableMap,
) -> variables::VariableMap {
    let own = VariableSources { identity: &agent.identity, asked, user, restored };
    let mut variables = variables::build_variables(&own, agent.ends_at());
    variables.extend(fetched.clone());
    variables
}

/// Waits for the last write of the previous attempt, and takes the fence.
async fn take_over(agent: &Agent) -> Result<Head, AttemptEnd> {
    let (begun, mut said, mut timeout) = (Instant::now(), false, RetryTimeout::default());
    loop {
        let shut = match agent.fence.read().await {
            Ok(head) if may_take(agent, &head, begun).await => match agent.fence.swap(|_| {}).await {
                Ok(head) => return Ok(head),
                Err(shut) => shut,
            },
            Ok(head) => {
                if !said {
                    agent.log.write_line(&format!("waits for the exit record of attempt {}", head.attempt));
                    said = true;
                }
                agent.pace.sleep(RETRY_EVERY).await;
                continue;
            }
            Err(shut) => shut,
        };
        match shut {
            FenceError::Fenced(why) => return Err(EndCause::fenced(why).into()),
            FenceError::Store(error)
                if timeout.pause_and_retry(agent, "head.json cannot be taken over yet", &error).await => {}
            FenceError::Store(error) => {
                return Err(AttemptEnd::broken(format!("head.json cannot be taken over: {error}")));
            }
        }
    }
}

/// Returns `true` if the attempt that head names has finished writing, or is past its time. An attempt whose last heartbeat is old does not
/// write any more; one without a heartbeat may.
async fn may_take(agent: &Agent, head: &Head, begun: Instant) -> bool {
    let (job, before) = (&agent.identity.job, head.attempt);
    if before == 0 || before == agent.identity.attempt {
        return true;
    }
    if begun.elapsed() >= agent.pace.wait(PREVIOUS_EXIT_TIMEOUT) {
        return true;
    }
    if matches!(agent.store().read_exit(job, before).await, Ok(MachineDocument::Believed(_))) {
        return true;
    }
    let stale_after = agent.pace.scale(PREVIOUS_HEARTBEAT_STALE_AFTER);
    let beat = agent.store().read_heartbeat(job, before).await;
    matches!(beat, Ok(MachineDocument::Believed(beat)) if now().duration_since(beat.at) > stale_after.max(SignedDuration::from_secs(2)))
}

enum CommandOutcome {
    Finished(AttemptEnd),
    /// The command failed soon after it resumed from a checkpoint: it runs again from another one.
    FailedAfterResume(RestoreCandidates),
}

/// Runs the command until it ends or has to end.
async fn run_command(
    agent: &Arc<Agent>,
    asked: &AssignedJob,
    user: &User,
    mut running: RunningCommand,
    restored: RestoredCheckpoint,
    there: DirectoryBefore,
) -> CommandOutcome {
    let begun = Instant::now();
    let (from, before) = (restored.checkpoint.map(|_| restored.what.clone()), restored.before_failed());
    let keep = asked.checkpoint.as_ref();
    let can_go_back = before.as_ref().is_some_and(|before| before.has_other_than(restored.checkpoint));
    let mut keeper = keep
        .map(|keep| CheckpointKeeper::begin(agent, keep, asked.keep, user.file_owner(), restored, there, can_go_back));
    let evidence = ExitEvidence::begin(agent, asked, user);
    let ended = tokio::select! {
        ended = running.ended(agent.pace.wait(REAP_EVERY)) => Ok(ended),
        cause = agent.cause() => Err(cause),
        lower = not_resumed(keeper.as_mut()) => {
            running.kill(false).await;
            running.drained().await;
            let (from, before) = (from.unwrap_or_default(), before.unwrap_or_default());
            let why = format!("the command did not resume from {from}: it wrote step {lower}");
            agent.log.write_line(&format!("{why}: the agent runs it again"));
            return CommandOutcome::FailedAfterResume(before.without(why));
        }
    };
    match ended {
        Ok(Ok(status)) => {
            let is_early = begun.elapsed() < agent.pace.wait(DOUBTED_FOR);
            evidence.end().await;
            let Leftovers { wrote, note } = end_leftovers(agent, keep, user, &running).await;
            running.drained().await;
            agent.set_activity("flushing");
            let writer = if status.success() && !wrote { WriterState::Ended } else { WriterState::Killed };
            let finished = match keeper {
                Some(keeper) => agent.upload_in_time(keeper.finish(writer)).await,
                None => Some(KeeperSummary::default()),
            };
            let gpu_fault = evidence.find_gpu_fault(agent, status).await;
            let ended = EndedCommand { status, why: evidence.describe(agent, status, "the command"), gpu_fault };
            let has_kept = finished.as_ref().is_some_and(|finished| finished.has_kept);
            if let (Some(from), Some(before)) = (&from, before)
                && !status.success()
                && !has_kept
                && is_early
                && !ended.is_fault_of_machine()
            {
                return failed_after_resume(agent, &ended, from, before);
            }
            let not_resumed = finished.as_ref().and_then(|finished| finished.not_resumed.clone());
            let went_on = not_resumed.or_else(|| from.map(|from| format!("resumed from {from}")));
            CommandOutcome::Finished(match (finished, agent.interruption()) {
                (None, Some(cause)) if status.success() => unfinished(cause, "its last checkpoint"),
                (finished, _) => {
                    let left = finished.map_or_else(
                        || vec![NO_TIME.to_owned()],
                        |finished| finished.left.into_iter().chain(finished.unverified_note).collect(),
                    );
                    let notes = note.into_iter().chain(went_on).chain(left).collect();
                    outcome(agent, asked, user, ended, notes).await
                }
            })
        }
        Ok(Err(error)) => {
            running.kill(false).await;
            CommandOutcome::Finished(AttemptEnd::broken(format!("the agent cannot wait for the command: {error}")))
        }
        Err(cause) => CommandOutcome::Finished(end_early(agent, asked, running, keeper, cause).await),
    }
}

async fn not_resumed(keeper: Option<&mut CheckpointKeeper>) -> u64 {
    match keeper {
        Some(keeper) => keeper.not_resumed().await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn directory_before(
    keep: Option<&CheckpointSpec>,
    restored: &RestoredCheckpoint,
    user: &User,
) -> DirectoryBefore {
    let there = list_checkpoint_directory(keep.map(CheckpointDirectory::from_spec), user).await.unwrap_or_default();
    let (restored, others) = there.into_iter().partition(|entry| restored.names.contains(&entry.name));
    DirectoryBefore { restored, others }
}

/// The command failed soon after it resumed from a checkpoint. If the attempt has to end, the next one tries again.
fn failed_after_resume(agent: &Agent, ended: &EndedCommand, from: &str, before: RestoreCandidates) -> CommandOutcome {
    let why = format!("{}, soon after it resumed from {from}", ended.why);
    if let Some(cause) = agent.end_cause() {
        let why = format!("{why}, which the next attempt retries: {}", cause.why);
        return CommandOutcome::Finished(AttemptEnd { code: ended.status.code(), why, ..cause.into() });
    }
    agent.log.write_line(&format!("{why}: the agent runs it again"));
    CommandOutcome::FailedAfterResume(before.without(why))
}

/// Tells the command to end, kills it if it does not, and uploads what it wrote.
async fn end_early(
    agent: &Agent,
    asked: &AssignedJob,
    mut running: RunningCommand,
    keeper: Option<CheckpointKeeper>,
    cause: EndCause,
) -> AttemptEnd {
    if cause.reason == ExitReason::Fenced {
        running.kill(false).await;
        return cause.into();
    }
    let signal = asked.checkpoint.as_ref().map_or("SIGTERM", |checkpoint| &checkpoint.signal);
    let load = || keeper.as_ref().map(CheckpointKeeper::load).unwrap_or_default();
    let ending = signal_and_end(agent, signal, &mut running, load, std::future::pending()).await;
    running.drained().await;
    let code = ending.and_then(|ending| ending.code);
    let writer = if ending.is_some_and(|ending| ending.well) { WriterState::Ended } else { WriterState::Killed };
    let mut left = Vec::new();
    if let Some(keeper) = keeper {
        let finished = agent.upload_in_time(keeper.finish(writer)).await;
        let finished_left = finished.map_or(Some(NO_TIME.to_owned()), |finished| finished.left);
        left = finished_left.into_iter().chain(warn_of_lost_work(agent, signal, ending)).collect();
    }
    // It may have been fenced in the meantime.
    let cause = agent.cause().await;
    let why = left.into_iter().fold(cause.why.clone(), |why, left: String| format!("{why}; {left}"));
    AttemptEnd { code, why, ..cause.into() }
}

/// Signals the command, and kills it if it does not end in time, or once `is_left_over`.
pub(crate) async fn signal_and_end(
    agent: &Agent,
    signal: &str,
    running: &mut RunningCommand,
    load: impl Fn() -> PendingUpload,
    is_left_over: impl Future<Output = ()>,
) -> Option<CommandExit> {
    agent.set_activity("flushing");
    let (signaled_at, timeout) = (Instant::now(), duration::format_duration(grace(agent.time_left(), load())));
    agent.log.write_line(&format!("sends {signal} to the command, which has {timeout}"));
    running.signal(signal_of(signal)).await;
    let (ending, words) = tokio::select! {
        ending = running.group_ended() => (Some(ending), None),
        () = agent.time_to_kill(signaled_at, load) => {
            (None, Some(format!("the command did not end after {signal}, and is killed")))
        }
        () = is_left_over => {
            (None, Some("the workers have ended, and their launcher, which waits for those of other nodes, is killed".to_owned()))
        }
    };
    if let Some(words) = words {
        agent.log.write_line(&words);
    }
    running.kill(ending.is_some()).await;
    ending
}
