//! The processes that a command leaves behind, and the work that it leaves unsaved.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use jobs::checkpoints::DirectoryEntry;
use jobs::{AgentWarningKind, CheckpointSpec};
use model::duration::format_duration;
use store::{MachineDocument, MachineDocuments as _};

use crate::agent::Agent;
use crate::command::{self, CommandExit, RunningCommand};
use crate::directory::{self, CheckpointDirectory};
use crate::disk::on_disk;
use crate::processes::{name_process, writes_below};
use crate::user::User;
use crate::world::now;

/// Begins a warning of an earlier attempt.
const PASSED_ON: &str = "attempt ";

/// Less is not worth a message.
const LOST_MIN: SignedDuration = SignedDuration::from_secs(30);

/// The processes that a command left behind.
#[derive(Default)]
pub(crate) struct Leftovers {
    /// True if one of them may have been writing a checkpoint.
    pub(crate) wrote: bool,
    /// The processes that were killed, in words for people.
    pub(crate) note: Option<String>,
}

/// Kills the leftover processes of the command. A checkpoint that did not change meanwhile and is not open for writing was complete.
pub(crate) async fn end_leftovers(
    agent: &Agent,
    keep: Option<&CheckpointSpec>,
    user: &User,
    running: &RunningCommand,
) -> Leftovers {
    let in_container = running.left_in_container();
    if command::leftover_processes().is_empty() {
        return Leftovers { wrote: !in_container.is_empty(), note: warn_of_leftovers(agent, &in_container) };
    }
    let listed = keep.map(CheckpointDirectory::from_spec);
    // As the kernel shows what is open.
    let directory = keep.and_then(|keep| Path::new(&keep.dir).canonicalize().ok());
    let before = list_checkpoint_directory(listed.clone(), user).await;
    command::wait_for_leftovers().await;
    let after = list_checkpoint_directory(listed.clone(), user).await;
    let is_open = |below: &PathBuf| command::leftover_processes().iter().any(|process| writes_below(below, *process));
    let wrote = before.is_none() || before != after || directory.as_ref().is_none_or(is_open);
    let names: Vec<String> =
        command::leftover_processes().into_iter().map(name_process).chain(in_container.clone()).collect();
    command::kill_leftovers(true).await;
    Leftovers {
        wrote: (wrote && !names.is_empty()) || !in_container.is_empty(),
        note: warn_of_leftovers(agent, &names),
    }
}

/// A background process that was killed may have been the training itself.
fn warn_of_leftovers(agent: &Agent, names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let words = format!(
        "the command left {} running, which the agent has killed: if that was to finish, leave out `&`, or end the command by `wait`",
        command::describe_processes(names)
    );
    agent.log.write_line(&words);
    agent.warn_owner(AgentWarningKind::LeftRunning, &words);
    Some(words)
}

/// The content of the checkpoint directory; `None` if it cannot be read.
pub(super) async fn list_checkpoint_directory(
    directory: Option<CheckpointDirectory>,
    user: &User,
) -> Option<Vec<DirectoryEntry>> {
    let directory = directory?;
    let owner = user.file_owner();
    let scan = on_disk(&owner, move || directory::scan_directory(&directory));
    Some(scan.await.ok()?.entries)
}

/// Warns the owner if the command ended at the signal, and no checkpoint has the work before it. Returns that for the exit record.
pub(crate) fn warn_of_lost_work(agent: &Agent, signal: &str, ending: Option<CommandExit>) -> Option<String> {
    let lost = i64::try_from(agent.status().unsaved.seconds(now())?).map(SignedDuration::from_secs).ok()?;
    if lost < agent.pace.scale(LOST_MIN) || !agent.answers_for_steps() {
        return None;
    }
    let ended = match ending {
        Some(CommandExit { code: Some(code), .. }) => format!("ended with exit code {code}"),
        Some(CommandExit { code: None, .. }) => "ended".to_owned(),
        None => "was killed some time".to_owned(),
    };
    let lost = format_duration(lost);
    let words = format!(
        "the command {ended} after {signal}, and no checkpoint that it wrote then is in the bucket: {lost} of work are lost"
    );
    agent.log.write_line(&words);
    agent.warn_owner(AgentWarningKind::LostAtSignal, &words);
    Some(words)
}

/// Repeats the previous attempt's warning about lost work. At an interruption this attempt begins before anybody reads the last heartbeat
/// of the previous one.
pub(super) async fn pass_on_lost_work(agent: &Agent) {
    let Some(before @ 1..) = agent.identity.attempt.checked_sub(1) else { return };
    let Ok(MachineDocument::Believed(beat)) = agent.store().read_heartbeat(&agent.identity.job, before).await else {
        return;
    };
    let lost = beat.heartbeat.warnings.iter().find(|one| one.kind == AgentWarningKind::LostAtSignal);
    if let Some(lost) = lost.filter(|lost| !lost.words.starts_with(PASSED_ON)) {
        agent.warn_owner(AgentWarningKind::LostAtSignal, &format!("{PASSED_ON}{before}: {}", lost.words));
    }
}
