//! One attempt, from the fence to its exit.

mod assigned_job;
mod outcome;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use jiff::SignedDuration;
use jobs::checkpoints::{DOUBTED_FOR, DirectoryEntry, WriterState};
use jobs::warning::grace;
use jobs::{CheckpointSpec, ExitReason, Head, Heartbeat, JobId, WARNING};
use model::duration;
use store::MachineDocument;
use tokio::task::JoinHandle;

use self::assigned_job::read_spec;
use self::outcome::{describe_exit, not_started, outcome, unfinished};
use crate::agent::{Agent, AttemptEnd, EndCause, StartError};
use crate::command::{RunningCommand, signal_of};
use crate::container::Container;
use crate::directory::CheckpointDirectory;
use crate::disk::on_disk;
use crate::fence::FenceError;
use crate::inputs::provide;
use crate::keeper::{CheckpointKeeper, KeeperSummary};
use crate::processes::writes_below;
use crate::restore::{RestoreCandidates, RestoredCheckpoint, restore};
use crate::retry_timeout::RetryTimeout;
use crate::user::{self, User};
use crate::variables::{self, VariableSources};
use crate::workdir::restore_workdir;
use crate::world::now;
use crate::{command, directory, gpu, metadata, outputs, secrets};

pub(crate) use self::assigned_job::AssignedJob;

/// How long to wait for the exit record of the previous attempt: its two minutes, and a margin.
const PREVIOUS_EXIT_TIMEOUT: SignedDuration = SignedDuration::from_secs(150);

/// A previous attempt without a heartbeat for so long does not upload any more.
const PREVIOUS_HEARTBEAT_STALE_AFTER: SignedDuration = SignedDuration::from_secs(60 + WARNING.as_secs());

const RETRY_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// How often the agent reaps inherited processes that have ended.
const REAP_EVERY: SignedDuration = SignedDuration::from_mins(1);

const NO_TIME: &str = "there was no time to upload its last checkpoint";

/// Runs the attempt. The machine shuts down after any result.
pub(crate) async fn run(agent: &Arc<Agent>) -> AttemptEnd {
    let mut container = None;
    let end = match Box::pin(attempt(agent, &mut container)).await {
        Ok(end) => end,
        Err(error) => not_started(agent, error).await,
    };
    if let Some(container) = &container {
        container.remove().await;
    }
    // Such as processes of a setup that a warning cut short.
    command::kill_leftovers(false).await;
    end
}

async fn attempt(agent: &Arc<Agent>, container: &mut Option<Container>) -> Result<AttemptEnd, StartError> {
    agent.set_activity("starting");
    let asked = Box::pin(agent.unless_it_ends(read_spec(agent))).await??;
    agent.set_activity("waiting for the previous attempt");
    let head = agent.unless_it_ends(Box::pin(take_over(agent))).await??;
    let mut user =
        user::find(asked.work.user.as_deref(), rustix::process::getuid().as_raw()).map_err(AttemptEnd::broken)?;
    if let Some(image) = &asked.work.container {
        let earlier = container.insert(Container::of_attempt(agent));
        agent.unless_it_ends(earlier.remove_earlier(image)).await??;
        user = earlier.make_home(user)?;
    }
    metadata::close(agent, &asked, &user).await;
    let mut fetched = agent.unless_it_ends(Box::pin(outputs::find_earlier(agent, &asked.work.after))).await??;
    // Before checkpoints are restored: what the archive has in their directory is set aside.
    if let Some(digest) = &asked.work.workdir {
        agent.unless_it_ends(Box::pin(restore_workdir(agent, digest, &user))).await??;
    }
    let _mounted = agent.unless_it_ends(Box::pin(provide(agent, &asked.work.inputs, &user))).await??;
    let mut restored = put_back(agent, &asked, RestoreCandidates::from_head(&head), &user).await?;
    let container = container.as_ref();
    if let (Some(container), Some(image)) = (container, &asked.work.container) {
        agent.unless_it_ends(Box::pin(container.create(agent, image, &asked, &user))).await??;
    }
    if !asked.work.secrets.is_empty() {
        let read = agent.unless_it_ends(Box::pin(secrets::read(&asked.work.secrets))).await?;
        fetched.extend(read.map_err(AttemptEnd::broken)?);
    }
    let mut variables = variables_of(agent, &asked, &user, &restored, &fetched);
    if let Some(line) = &asked.work.setup {
        agent.set_activity("setup");
        let status = agent.unless_it_ends(run_setup(agent, line, &user, &variables, container)).await??;
        if !status.success() {
            return Ok(outcome(agent, &asked, &user, status, "`setup`", Vec::new()).await);
        }
    }
    let _gpus = GpuWatch { agent, watching: tokio::spawn(gpu::watch(Arc::clone(agent))) };
    loop {
        agent.set_activity(Heartbeat::RUNNING);
        agent.log.write_line(&format!("runs the command as {}", user.name));
        let running = RunningCommand::begin(&asked.work.command, &user, &variables, container, &agent.log);
        let running =
            running.map_err(|error| AttemptEnd::broken(format!("the command could not be started: {error}")))?;
        // Each retry has fewer candidates.
        let before = match run_command(agent, &asked, &user, running, restored).await {
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
            let named = checkpoint.resume_from.clone();
            let begins_with = named.map(|job| JobId { team: agent.identity.job.team.clone(), job });
            let restored = Box::pin(restore(agent, candidates, begins_with.as_ref(), &directory, user));
            agent.unless_it_ends(restored).await??
        }
        None => RestoredCheckpoint::default(),
    };
    agent.set_status(|status| (status.step, status.steps_per_hour) = (restored.step, None));
    Ok(restored)
}

fn variables_of(
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

/// Watches the GPUs until it is dropped.
struct GpuWatch<'a> {
    agent: &'a Agent,
    watching: JoinHandle<()>,
}

impl Drop for GpuWatch<'_> {
    fn drop(&mut self) {
        self.watching.abort();
        self.agent.set_status(|status| status.gpu_percent = None);
    }
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

/// Whether the attempt that head names has finished writing, or is past its time. An attempt whose last heartbeat is old does not write any more;
/// one without a heartbeat may.
async fn may_take(agent: &Agent, head: &Head, begun: Instant) -> bool {
    let (job, before) = (&agent.identity.job, head.attempt);
    if before == 0 || before == agent.identity.attempt {
        return true;
    }
    if begun.elapsed() >= agent.pace.wait(PREVIOUS_EXIT_TIMEOUT) {
        return true;
    }
    if matches!(agent.store.read_exit(job, before).await, Ok(MachineDocument::Believed(_))) {
        return true;
    }
    let stale_after = agent.pace.scale(PREVIOUS_HEARTBEAT_STALE_AFTER);
    let beat = agent.store.read_heartbeat(job, before).await;
    matches!(beat, Ok(MachineDocument::Believed(beat)) if now().duration_since(beat.at) > stale_after.max(SignedDuration::from_secs(2)))
}

async fn run_setup(
    agent: &Agent,
    line: &str,
    user: &User,
    variables: &variables::VariableMap,
    container: Option<&Container>,
) -> Result<ExitStatus, AttemptEnd> {
    let broken = |error: std::io::Error| AttemptEnd::broken(format!("`setup` could not be run: {error}"));
    let mut running = RunningCommand::begin(line, user, variables, container, &agent.log).map_err(broken)?;
    let status = running.ended(agent.pace.wait(REAP_EVERY)).await.map_err(broken)?;
    running.drained().await;
    Ok(status)
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
) -> CommandOutcome {
    let begun = Instant::now();
    let (from, before) = (restored.checkpoint.map(|_| restored.what.clone()), restored.before_failed());
    let keep = asked.checkpoint.as_ref();
    let keeper = keep.map(|keep| CheckpointKeeper::begin(agent, keep, asked.keep, user.file_owner(), restored));
    let ended = tokio::select! {
        ended = running.ended(agent.pace.wait(REAP_EVERY)) => Ok(ended),
        cause = agent.cause() => Err(cause),
    };
    match ended {
        Ok(Ok(status)) => {
            let is_early = begun.elapsed() < agent.pace.wait(DOUBTED_FOR);
            let wrote = end_leftovers(agent, keep, user).await;
            running.drained().await;
            agent.set_activity("flushing");
            let writer = if status.success() && !wrote { WriterState::Ended } else { WriterState::Killed };
            let finished = match keeper {
                Some(keeper) => agent.in_time(keeper.finish(writer)).await,
                None => Some(KeeperSummary::default()),
            };
            let has_kept = finished.as_ref().is_some_and(|finished| finished.has_kept);
            if let (Some(from), Some(before)) = (&from, before)
                && !status.success()
                && !has_kept
                && is_early
            {
                return failed_after_resume(agent, status, from, before);
            }
            let went_on = from.map(|from| format!("resumed from {from}"));
            CommandOutcome::Finished(match (finished, agent.interruption()) {
                (None, Some(cause)) if status.success() => unfinished(cause, "its last checkpoint"),
                (None, _) => {
                    let lost = went_on.into_iter().chain([NO_TIME.to_owned()]).collect();
                    outcome(agent, asked, user, status, "the command", lost).await
                }
                (Some(KeeperSummary { left, unverified_note: doubt, .. }), _) => {
                    let lost = went_on.into_iter().chain(left).chain(doubt).collect();
                    outcome(agent, asked, user, status, "the command", lost).await
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

/// Kills the leftover processes of the command. Returns whether one of them may have been writing a checkpoint: a file that did not
/// change meanwhile and is not open for writing was complete.
async fn end_leftovers(agent: &Agent, keep: Option<&CheckpointSpec>, user: &User) -> bool {
    if command::leftover_processes().is_empty() {
        return false;
    }
    let listed = keep.map(CheckpointDirectory::from_spec);
    // As the kernel shows what is open.
    let directory = keep.and_then(|keep| Path::new(&keep.dir).canonicalize().ok());
    let before = list_checkpoint_directory(listed.clone(), user).await;
    command::wait_for_leftovers().await;
    let after = list_checkpoint_directory(listed.clone(), user).await;
    let is_open = |below: &PathBuf| command::leftover_processes().iter().any(|process| writes_below(below, *process));
    let wrote = before.is_none() || before != after || directory.as_ref().is_none_or(is_open);
    let left = command::kill_leftovers(true).await;
    if left > 0 {
        agent.log.write_line(&format!("the command left {left} processes behind, which were killed"));
    }
    wrote && left > 0
}

/// The content of the checkpoint directory; `None` if it cannot be read.
async fn list_checkpoint_directory(directory: Option<CheckpointDirectory>, user: &User) -> Option<Vec<DirectoryEntry>> {
    let directory = directory?;
    let owner = user.file_owner();
    let looked = on_disk(&owner, move || directory::scan_directory(&directory));
    Some(looked.await.ok()?.entries)
}

/// The command failed soon after it resumed from a checkpoint. If the attempt has to end, the next one tries again.
fn failed_after_resume(agent: &Agent, status: ExitStatus, from: &str, before: RestoreCandidates) -> CommandOutcome {
    let why = format!("{}, soon after it resumed from {from}", describe_exit(status, "the command"));
    if let Some(cause) = agent.end_cause() {
        let why = format!("{why}, which the next attempt retries: {}", cause.why);
        return CommandOutcome::Finished(AttemptEnd { code: status.code(), why, ..cause.into() });
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
    agent.set_activity("flushing");
    let signal = asked.checkpoint.as_ref().map_or("SIGTERM", |checkpoint| &checkpoint.signal);
    let load = || keeper.as_ref().map(CheckpointKeeper::load).unwrap_or_default();
    let (signaled_at, timeout) = (Instant::now(), duration::format_duration(grace(agent.time_left(), load())));
    agent.log.write_line(&format!("sends {signal} to the command, which has {timeout}"));
    running.signal(signal_of(signal));
    let ending = tokio::select! {
        ending = running.group_ended() => Some(ending),
        () = agent.time_to_kill(signaled_at, load) => None,
    };
    if ending.is_none() {
        agent.log.write_line(&format!("the command did not end after {signal}, and is killed"));
    }
    running.kill(ending.is_some()).await;
    running.drained().await;
    let code = ending.and_then(|ending| ending.code);
    let writer = if ending.is_some_and(|ending| ending.well) { WriterState::Ended } else { WriterState::Killed };
    let mut left = None;
    if let Some(keeper) = keeper {
        let finished = agent.in_time(keeper.finish(writer)).await;
        left = finished.map_or(Some(NO_TIME.to_owned()), |finished| finished.left);
    }
    // It may have been fenced in the meantime.
    let cause = agent.cause().await;
    let why = left.into_iter().fold(cause.why.clone(), |why, left| format!("{why}; {left}"));
    AttemptEnd { code, why, ..cause.into() }
}
