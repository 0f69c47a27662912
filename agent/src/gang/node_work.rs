//! The work of a node, each kind in a task of its own: the restore of a round, its command, and the last uploads.

use std::cell::{Cell, OnceCell, RefCell};
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::WriterState;
use jobs::node_gang::{BEFORE_NOTICE, GangRound, NodeEnvironment, node_variables};
use jobs::warning::{PendingUpload, grace};
use jobs::{ExitReason, Head, Heartbeat, WARNING, describe_exit};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::agent::{Agent, StartError};
use crate::attempt::{
    AssignedJob, ExitEvidence, GPU_FAULT, Leftovers, NO_TIME, REAP_EVERY, Surroundings, create_container,
    directory_before, end_leftovers, provide_surroundings, read_spec, set_up, signal_and_end, variables_of,
    warn_of_lost_work,
};
use crate::command::{CommandExit, CommandProcesses, RunningCommand, ShellLine};
use crate::container::Container;
use crate::directory::CheckpointDirectory;
use crate::keeper::CheckpointKeeper;
use crate::restore::{RestoredCheckpoint, restore_round};
use crate::variables::VariableMap;
use crate::world::{library_path, now};
use crate::{gpu, outputs};

/// Time after a stop in which a launcher may be without workers.
const LAUNCHER_ALONE: SignedDuration = SignedDuration::from_secs(10);

/// Interval at which the workers are counted.
const COUNT_EVERY: SignedDuration = SignedDuration::from_secs(10);
const COUNT_EVERY_MIN: Duration = Duration::from_millis(500);

/// A task that ends with this value.
#[derive(Debug)]
pub(super) struct LocalTask<T>(JoinHandle<T>);

impl<T: 'static> LocalTask<T> {
    /// Begins it. Its end wakes the driver.
    pub(super) fn begin(agent: &Arc<Agent>, work: impl Future<Output = T> + 'static) -> Self {
        let agent = Arc::clone(agent);
        Self(tokio::task::spawn_local(async move {
            let done = work.await;
            if let Some(seat) = agent.seat() {
                seat.wake.notify_one();
            }
            done
        }))
    }

    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Its result; `None` if it has panicked.
    pub(super) async fn result(&mut self) -> Option<T> {
        (&mut self.0).await.ok()
    }
}

impl<T> Drop for LocalTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The job and what is around its command, once all is there.
pub(super) struct PreparedJob {
    pub(super) asked: AssignedJob,
    around: Surroundings,
    container: Option<Container>,
    secrets: OnceCell<VariableMap>,
    is_set_up: Cell<bool>,
}

/// The job that all rounds share, once it is prepared.
#[derive(Default)]
pub(super) struct Preparation(RefCell<Option<Rc<PreparedJob>>>);

impl Preparation {
    pub(super) fn get(&self) -> Option<Rc<PreparedJob>> {
        self.0.borrow().clone()
    }

    async fn prepare(&self, agent: &Arc<Agent>) -> Result<Rc<PreparedJob>, StartError> {
        if let Some(prepared) = self.get() {
            return Ok(prepared);
        }
        agent.set_activity("starting");
        let asked = Box::pin(agent.unless_it_ends(read_spec(agent))).await??;
        if asked.work.is_box {
            return Err(StartError::cannot_run("a box has one machine"));
        }
        let mut container = None;
        let around = Box::pin(provide_surroundings(agent, &asked, &mut container, &mut None)).await?;
        let (secrets, is_set_up) = (OnceCell::new(), Cell::new(false));
        let prepared = Rc::new(PreparedJob { asked, around, container, secrets, is_set_up });
        *self.0.borrow_mut() = Some(Rc::clone(&prepared));
        Ok(prepared)
    }

    /// Removes the container.
    pub(super) async fn end(&self) {
        if let Some(container) = self.get().and_then(|prepared| prepared.container.clone()) {
            container.remove().await;
        }
    }
}

/// A round that is restored.
pub(super) struct RoundStart {
    restored: RestoredCheckpoint,
    variables: VariableMap,
}

/// The end of a restore; the inner error says why the checkpoint is damaged.
pub(super) type RoundOutcome = Result<Result<RoundStart, String>, StartError>;

/// Prepares the machine once, and restores the checkpoint of a round.
pub(super) async fn prepare_round(
    agent: Arc<Agent>,
    preparation: Rc<Preparation>,
    round: GangRound,
    head: Head,
) -> RoundOutcome {
    let (agent, prepared) = (&agent, Box::pin(preparation.prepare(&agent)).await?);
    let PreparedJob { asked, around, container, secrets, is_set_up } = prepared.as_ref();
    agent.set_activity("restoring");
    let restored = match &asked.checkpoint {
        Some(spec) => {
            let directory = CheckpointDirectory::from_spec(spec);
            let begins_with = spec.begins_with(&agent.identity.job.team);
            let restored =
                restore_round(agent, round.checkpoint, &head, begins_with.as_ref(), &directory, &around.user);
            match agent.unless_it_ends(Box::pin(restored)).await?? {
                Ok(restored) => restored,
                Err(damaged) => return Ok(Err(damaged)),
            }
        }
        None => RestoredCheckpoint::default(),
    };
    agent.set_status(|status| (status.step, status.steps_per_hour) = (restored.step, None));
    if secrets.get().is_none() {
        let found = Box::pin(create_container(agent, asked, &around.user, container.as_ref())).await?;
        let _ = secrets.set(found);
    }
    let variables = build_variables(agent, &prepared, &restored, &round).await;
    agent.note_that_it_runs();
    if !is_set_up.get() {
        if let Some(failed) = Box::pin(set_up(agent, asked, &around.user, &variables, container.as_ref())).await? {
            let code = failed.status.code().unwrap_or(StartError::CANNOT_RUN);
            return Err(StartError::Impossible { code, why: failed.why });
        }
        is_set_up.set(true);
    }
    Ok(Ok(RoundStart { restored, variables }))
}

async fn build_variables(
    agent: &Agent,
    prepared: &PreparedJob,
    restored: &RestoredCheckpoint,
    round: &GangRound,
) -> VariableMap {
    let PreparedJob { asked, around, secrets, .. } = prepared;
    let mut fetched = around.fetched.clone();
    fetched.extend(secrets.get().cloned().unwrap_or_default());
    let mut variables = variables_of(agent, asked, &around.user, restored, &fetched);
    let Some(seat) = agent.seat() else { return variables };
    let mut member = seat.member.clone();
    if member.gpus == 0 {
        // The driver may have come since.
        member.gpus = u32::try_from(gpu::count().await).unwrap_or(0);
    }
    let library_path = library_path();
    let time = WARNING.saturating_sub(BEFORE_NOTICE);
    let node = NodeEnvironment {
        node: seat.node,
        member: &member,
        round,
        grace: grace(time, PendingUpload::default()),
        library_path: library_path.as_deref(),
    };
    let own = node_variables(node, &asked.work.env);
    variables.extend(own.into_iter().filter(|(name, _)| !fetched.contains_key(name)));
    variables
}

/// A command that runs, with the keeper of its checkpoints.
pub(super) struct RunningRound {
    pub(super) task: LocalTask<CommandEnd>,
    kill: Rc<Notify>,
    keeper: Option<CheckpointKeeper>,
    evidence: ExitEvidence,
}

/// The end of a command.
pub(super) struct CommandEnd {
    running: RunningCommand,
    /// Its status, if it ended by itself.
    status: Option<ExitStatus>,
    /// Its end after a signal of the agent.
    exit: Option<CommandExit>,
    pub(super) at: Timestamp,
    /// The reason for which the agent could not wait for it.
    pub(super) problem: Option<String>,
}

impl CommandEnd {
    pub(super) fn code(&self) -> Option<i32> {
        self.status.map_or_else(|| self.exit.and_then(|exit| exit.code), |status| status.code())
    }

    /// True if Curfew ended it.
    pub(super) const fn is_by_curfew(&self) -> bool {
        self.status.is_none()
    }
}

impl RunningRound {
    /// Starts the command of a round.
    pub(super) async fn begin(
        agent: &Arc<Agent>,
        prepared: &PreparedJob,
        start: RoundStart,
    ) -> Result<Self, StartError> {
        let PreparedJob { asked, around: Surroundings { user, .. }, container, .. } = prepared;
        let RoundStart { restored, variables } = start;
        agent.set_activity(Heartbeat::RUNNING);
        agent.log.write_line(&format!("runs the command as {}", user.name));
        let before = directory_before(asked.checkpoint.as_ref(), &restored, user).await;
        let line = ShellLine { line: &asked.work.command, shell: asked.work.shell };
        let running = RunningCommand::begin(line, user, &variables, container.as_ref(), &agent.log);
        let running = running.map_err(|error| {
            StartError::from_io(agent, &error, format!("the command could not be started: {error}"))
        })?;
        let begin = |spec| CheckpointKeeper::begin(agent, spec, asked.keep, user.file_owner(), restored, before, false);
        let keeper = asked.checkpoint.as_ref().map(begin);
        let load = keeper.as_ref().map(|keeper| Arc::clone(&keeper.load)).unwrap_or_default();
        let load = move || *load.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (kill, evidence) = (Rc::<Notify>::default(), ExitEvidence::begin(agent, asked, user));
        let run = run_to_end(Arc::clone(agent), running, signal_name(asked), load, Rc::clone(&kill));
        Ok(Self { task: LocalTask::begin(agent, run), kill, keeper, evidence })
    }

    /// Kills the command, without a save.
    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }

    /// The work that is left after the end of the command.
    pub(super) fn save(self, agent: &Arc<Agent>, prepared: Rc<PreparedJob>, end: CommandEnd) -> LocalTask<SaveSummary> {
        let Self { keeper, evidence, .. } = self;
        LocalTask::begin(agent, save(Arc::clone(agent), prepared, end, keeper, evidence))
    }
}

fn signal_name(asked: &AssignedJob) -> String {
    asked.checkpoint.as_ref().map_or("SIGTERM", |checkpoint| &checkpoint.signal).to_owned()
}

async fn run_to_end(
    agent: Arc<Agent>,
    mut running: RunningCommand,
    signal: String,
    load: impl Fn() -> PendingUpload,
    kill: Rc<Notify>,
) -> CommandEnd {
    let processes = running.processes();
    let (mut status, mut exit, mut problem) = (None, None, None);
    let cause = tokio::select! {
        biased;
        ended = running.ended(agent.pace.wait(REAP_EVERY)) => {
            match ended {
                Ok(ended) => status = Some(ended),
                Err(error) => problem = Some(format!("the agent cannot wait for the command: {error}")),
            }
            None
        }
        () = kill.notified() => None,
        cause = agent.cause() => Some(cause),
        () = count_workers(&agent, &processes) => None,
    };
    let at = now();
    match cause {
        Some(cause) if cause.reason != ExitReason::Fenced => {
            let alone = processes.are_without_workers(agent.pace.wait(LAUNCHER_ALONE));
            exit = signal_and_end(&agent, &signal, &mut running, load, alone).await;
            return CommandEnd { running, status, exit, at: now(), problem };
        }
        _ if status.is_none() => running.kill(false).await,
        _ => {}
    }
    CommandEnd { running, status, exit, at, problem }
}

/// Counts the workers again and again, for the manifests of its steps.
async fn count_workers(agent: &Agent, processes: &CommandProcesses) {
    loop {
        tokio::time::sleep(agent.pace.wait(COUNT_EVERY).max(COUNT_EVERY_MIN)).await;
        let count = processes.count_workers().await;
        if let Some(seat) = agent.seat() {
            seat.set_processes(count);
        }
    }
}

/// The end of a node's work.
pub(super) struct SaveSummary {
    /// False if there was no time to upload all.
    pub(super) is_in_time: bool,
    /// The explanation of the end, beside the exit code.
    pub(super) why: String,
    /// True if another machine may do better.
    pub(super) is_fault_of_machine: bool,
}

/// Uploads the last step and the outputs of a command that has ended.
async fn save(
    agent: Arc<Agent>,
    prepared: Rc<PreparedJob>,
    end: CommandEnd,
    keeper: Option<CheckpointKeeper>,
    evidence: ExitEvidence,
) -> SaveSummary {
    let (agent, PreparedJob { asked, around: Surroundings { user, .. }, .. }) = (&agent, prepared.as_ref());
    let CommandEnd { running, status, exit, .. } = end;
    evidence.end().await;
    let Leftovers { wrote, note } = match status {
        Some(_) => end_leftovers(agent, asked.checkpoint.as_ref(), user, &running).await,
        None => Leftovers::default(),
    };
    running.drained().await;
    agent.set_activity("flushing");
    let well = status.map_or_else(|| exit.is_some_and(|exit| exit.well), |status| status.success());
    let writer = if well && !wrote { WriterState::Ended } else { WriterState::Killed };
    let (has_keeper, mut is_in_time, mut notes) = (keeper.is_some(), true, Vec::from_iter(note));
    if let Some(keeper) = keeper {
        let finished = agent.upload_in_time(keeper.finish(writer)).await;
        is_in_time = finished.is_some();
        let left = finished.map_or_else(
            || vec![NO_TIME.to_owned()],
            |finished| finished.left.into_iter().chain(finished.unverified_note).collect(),
        );
        notes.extend(left);
    }
    let Some(status) = status else {
        let lost = has_keeper.then(|| warn_of_lost_work(agent, &signal_name(asked), exit)).flatten();
        notes.extend(lost);
        return SaveSummary { is_in_time, why: notes.join("; "), is_fault_of_machine: false };
    };
    let gpu_fault = evidence.find_gpu_fault(agent, status).await;
    let is_fault_of_machine = !status.success() && gpu_fault.as_ref().is_some_and(|fault| fault.is_of_machine);
    let found = explain(&evidence.describe(agent, status, "the command"), status);
    let fault = gpu_fault.map(|fault| format!("{GPU_FAULT}: {}", fault.words));
    let mut why: Vec<String> = found.into_iter().chain(fault).chain(notes).collect();
    if !asked.work.outputs.is_empty() && !is_fault_of_machine {
        let uploaded = agent.upload_in_time(outputs::upload(agent, &asked.work.outputs, &user.file_owner())).await;
        is_in_time &= uploaded.is_some();
        why.extend(uploaded.unwrap_or_else(|| Some("there was no time to upload its outputs".to_owned())));
    }
    SaveSummary { is_in_time, why: why.join("; "), is_fault_of_machine }
}

/// The part of a description beyond the exit code, which the result has.
fn explain(description: &str, status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt as _;
    if status.code().is_none() {
        return Some(description.to_owned());
    }
    let plain = describe_exit("the command", status.code(), status.signal(), None);
    let more = description.strip_prefix(&plain).map_or(description, |more| more.trim_start_matches("; "));
    (!more.is_empty()).then(|| more.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_description_is_without_what_the_result_says() {
        let status = ExitStatus::from_raw(7 << 8);
        let plain = describe_exit("the command", Some(7), None, None);
        assert_eq!(explain(&plain, status), None);
        assert_eq!(explain(&format!("{plain}; the disk was full"), status).as_deref(), Some("the disk was full"));
    }
}
