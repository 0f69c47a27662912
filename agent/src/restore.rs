//! Puts back the newest whole checkpoint that head named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::job::checkpoints::{step_of, to_restore};
use domain::job::{Checkpoint, Head};
use jiff::SignedDuration;
use store::CheckpointError;

use crate::agent::{Agent, End};
use crate::directory;
use crate::user::User;

/// Where it is put together, in the directory itself, because a rename does not lead from disk to disk. A name that begins with
/// a dot is no checkpoint.
const RESTORING: &str = ".curfew-restoring";

/// Between one try and the next, while S3 does not answer.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// What does not pass, such as a permission that lacks, is tried so often: one that was just granted takes a while to be known everywhere
/// (IAM user guide, "Troubleshoot IAM": changes are eventually consistent).
const TRIES: u32 = 6;

/// What was put back, and all that counts.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Where its entries are.
    pub(crate) entries: Vec<PathBuf>,
    /// The checkpoints that head named and that are not damaged, the newest last.
    pub(crate) counting: Vec<Checkpoint>,
}

/// Restores; where the job has no checkpoint yet, there is nothing to put back.
pub(crate) async fn restore(agent: &Arc<Agent>, head: &Head, into: &Path, user: &User) -> Result<Restored, End> {
    let broken = |error: &dyn std::fmt::Display| End::broken(format!("{}: {error}", into.display()));
    directory::make(into, user).map_err(|error| broken(&error))?;
    set_aside(agent, into).map_err(|error| broken(&error))?;
    let mut counting = to_restore(head);
    let mut tries = 1..TRIES;
    while let Some(checkpoint) = counting.first().copied() {
        match Box::pin(one(agent, checkpoint, into, user)).await {
            Ok(entries) => {
                agent
                    .log
                    .say(&format!("goes on from step {}, which attempt {} kept", checkpoint.step, checkpoint.attempt));
                counting.reverse();
                return Ok(Restored { checkpoint: Some(checkpoint), entries, counting });
            }
            Err(CheckpointError::Damaged(words)) => {
                agent.log.say(&format!(
                    "the checkpoint of step {} is damaged, and the one before is taken: {words}",
                    checkpoint.step
                ));
                counting.remove(0);
            }
            Err(CheckpointError::Store(error)) if !error.lasts() || tries.next().is_some() => {
                agent.log.say(&format!("the checkpoint of step {} cannot be read yet: {error}", checkpoint.step));
                agent.pace.sleep(AGAIN).await;
            }
            Err(error) => {
                let hint = directory::full(into).map_or("", |_| "; the disk is full: set `root_volume_gib`");
                return Err(End::broken(format!(
                    "the checkpoint of step {} cannot be restored: {error}{hint}",
                    checkpoint.step
                )));
            }
        }
    }
    agent.log.say("there is no checkpoint to go on from: the job begins at its beginning");
    Ok(Restored::default())
}

/// One checkpoint: put together beside the others, and then renamed.
async fn one(agent: &Agent, checkpoint: Checkpoint, into: &Path, user: &User) -> Result<Vec<PathBuf>, CheckpointError> {
    let restoring = into.join(RESTORING);
    let disk = |path: &Path| {
        let path = path.to_owned();
        move |error| CheckpointError::Disk { path, error }
    };
    let _ = fs::remove_dir_all(&restoring);
    fs::create_dir(&restoring).map_err(disk(&restoring))?;
    let restored = agent.store.restore_checkpoint(&agent.identity.job, checkpoint, restoring.clone()).await;
    if let Err(error) = restored {
        let _ = fs::remove_dir_all(&restoring);
        return Err(error);
    }
    directory::give(&restoring, user).map_err(disk(&restoring))?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(&restoring).map_err(disk(&restoring))? {
        let entry = entry.map_err(disk(&restoring))?;
        let there = into.join(entry.file_name());
        fs::rename(entry.path(), &there).map_err(disk(&there))?;
        entries.push(there);
    }
    fs::remove_dir(&restoring).map_err(disk(&restoring))?;
    entries.sort_unstable();
    Ok(entries)
}

/// What lies there already was left by this machine before it was started anew, and may be cut off anywhere: it is put beside.
fn set_aside(agent: &Agent, directory: &Path) -> std::io::Result<()> {
    let mut aside = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if name.to_str().is_none_or(|name| name.starts_with('.') || step_of(name).is_none()) {
            continue;
        }
        let folder = match &aside {
            Some(folder) => folder,
            None => aside.insert(folder_beside(directory)?),
        };
        fs::rename(directory.join(&name), folder.join(&name))?;
    }
    if let Some(folder) = aside {
        let words = "what was in the checkpoint directory was left by a machine that stopped, and lies in";
        agent.log.say(&format!("{words} {}", folder.display()));
    }
    Ok(())
}

/// `.curfew-before-1` in the directory, or the next number that is free: a rename does not lead from disk to disk.
fn folder_beside(directory: &Path) -> std::io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let folder = directory.join(format!(".curfew-before-{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}
