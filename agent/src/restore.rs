//! Puts back the newest whole checkpoint that head named.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use jobs::checkpoints::{Manifest, step_of, to_restore};
use jobs::{AgentWarningKind, Checkpoint, Head};
use store::{CheckpointError, FileOwner};

use crate::agent::{Agent, AttemptEnd};
use crate::directory::{self, KeptStep};
use crate::disk::on_disk;
use crate::retry_timeout::RetryTimeout;
use crate::user::User;
use crate::world::now;

/// Where it is put together, in the directory itself, because a rename does not lead from disk to disk. A name that begins with
/// a dot is no checkpoint.
const RESTORING: &str = ".curfew-restoring";

/// Where that is put which was there before, with a number after it.
const ASIDE: &str = ".curfew-before-";

/// What was put back, and all that counts.
#[derive(Debug, Default)]
pub(crate) struct RestoredCheckpoint {
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Where its entries are.
    pub(crate) entries: Vec<PathBuf>,
    /// What the command finds there: what it writes over it, is to be kept.
    pub(crate) original: Option<KeptStep>,
    /// The checkpoints that head named and that are not damaged, the newest last.
    pub(crate) counting: Vec<Checkpoint>,
    /// Those of them that may be cut off.
    pub(crate) unverified: Vec<Checkpoint>,
    /// Which newer ones were not put back, and why, in sentences.
    pub(crate) skipped: Vec<String>,
}

impl RestoredCheckpoint {
    /// What there is to go back to where it turns out to be cut off.
    pub(crate) fn before_doubtful(&self) -> Option<RestoreCandidates> {
        let doubted = self.checkpoint.filter(|checkpoint| self.unverified.contains(checkpoint))?;
        let in_order = self.counting.iter().rev().copied().filter(|other| *other != doubted).collect();
        Some(RestoreCandidates { in_order, unverified: self.unverified.clone(), skipped: self.skipped.clone() })
    }
}

/// What can be put back.
#[derive(Debug)]
pub(crate) struct RestoreCandidates {
    /// The first one that is not damaged is.
    in_order: Vec<Checkpoint>,
    /// Those of them that may be cut off.
    unverified: Vec<Checkpoint>,
    /// Which newer ones there were, and why they are none of these.
    skipped: Vec<String>,
}

impl RestoreCandidates {
    pub(crate) fn from_head(head: &Head) -> Self {
        Self { in_order: to_restore(head), unverified: head.unverified.clone(), skipped: Vec::new() }
    }

    /// Takes down why a newer one is none of these.
    pub(crate) fn without(mut self, newer: String) -> Self {
        self.skipped.push(newer);
        self
    }
}

/// Restores; where the job has no checkpoint yet, there is nothing to put back.
pub(crate) async fn restore(
    agent: &Arc<Agent>,
    candidates: RestoreCandidates,
    into: &Path,
    user: &User,
) -> Result<RestoredCheckpoint, AttemptEnd> {
    let owner = &user.file_owner();
    prepare(agent, into, owner).await.map_err(|error| {
        let (place, words) = (into.display(), directory::describe_io_error(&error));
        AttemptEnd::broken(format!(
            "the checkpoint directory {place} cannot be used ({words}): set `checkpoint.dir` to a directory of its own"
        ))
    })?;
    let RestoreCandidates { in_order: mut counting, unverified, mut skipped } = candidates;
    let (mut timeout, mut damaged) = (RetryTimeout::default(), Vec::new());
    while let Some(checkpoint) = counting.first().copied() {
        let step = checkpoint.step;
        let cannot = |error: CheckpointError, hint| {
            Err(AttemptEnd::broken(format!("the checkpoint of step {step} cannot be restored: {error}{hint}")))
        };
        match Box::pin(restore_one(agent, checkpoint, into, owner)).await {
            Ok((entries, original)) => {
                let doubt = if unverified.contains(&checkpoint) { ", and which may be cut off" } else { "" };
                let goes_on = format!("goes on from step {step}, which attempt {} kept{doubt}", checkpoint.attempt);
                agent.log.write_line(&goes_on);
                tell_skipped(agent, &mut skipped, &damaged, &goes_on);
                counting.reverse();
                return Ok(RestoredCheckpoint {
                    checkpoint: Some(checkpoint),
                    entries,
                    original,
                    counting,
                    unverified,
                    skipped,
                });
            }
            Err(CheckpointError::Damaged(words)) => {
                agent.log.write_line(&format!(
                    "the checkpoint of step {step} is damaged, and the one before is taken: {words}"
                ));
                damaged.push(format!("of step {step} ({words})"));
                counting.remove(0);
                timeout = RetryTimeout::default();
            }
            Err(CheckpointError::Store(error)) => {
                let what = format!("the checkpoint of step {step} cannot be read yet");
                if !timeout.pause_and_retry(agent, &what, &error).await {
                    return cannot(error.into(), "");
                }
            }
            Err(CheckpointError::Disk { error, .. }) if is_full(&error) && clear_away(agent, into, owner).await => {
                agent.log.write_line("the disk is full: what was in the checkpoint directory before is deleted");
            }
            Err(CheckpointError::Disk { path, error }) => {
                let hint = if is_full(&error) { "; set `root_volume_gib`" } else { "" };
                return cannot(CheckpointError::Disk { path, error }, hint);
            }
            Err(error) => return cannot(error, ""),
        }
    }
    agent.log.write_line("there is no checkpoint to go on from: the job begins at its beginning");
    tell_skipped(agent, &mut skipped, &damaged, "begins at the job's beginning, for there is no other one");
    Ok(RestoredCheckpoint::default())
}

/// The owner hears of all of them at once, and what came of it.
fn tell_skipped(agent: &Agent, skipped: &mut Vec<String>, damaged: &[String], goes_on: &str) {
    if !damaged.is_empty() {
        let what = if damaged.len() == 1 { "the checkpoint" } else { "the checkpoints" };
        let is = if damaged.len() == 1 { "is" } else { "are" };
        skipped.push(format!("{what} {} {is} damaged", damaged.join(", ")));
    }
    if !skipped.is_empty() {
        agent.warn_owner(AgentWarningKind::Damaged, &format!("it {goes_on}: {}", skipped.join("; ")));
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The directory, empty and the user's own.
async fn prepare(agent: &Arc<Agent>, into: &Path, owner: &FileOwner) -> io::Result<()> {
    let (place, for_owner) = (into.to_owned(), owner.clone());
    tokio::task::spawn_blocking(move || directory::make(&place, &for_owner)).await.map_err(io::Error::other)??;
    let (agent, into) = (Arc::clone(agent), into.to_owned());
    on_disk(owner, move || {
        directory::let_go(&into);
        set_aside(&agent, &into)
    })
    .await
}

/// Where the entries of a checkpoint are, and the step that they are.
type RestoredEntries = (Vec<PathBuf>, Option<KeptStep>);

/// One checkpoint: put together beside the others, and then renamed.
async fn restore_one(
    agent: &Agent,
    checkpoint: Checkpoint,
    into: &Path,
    owner: &FileOwner,
) -> Result<RestoredEntries, CheckpointError> {
    let restoring = into.join(RESTORING);
    let disk = |error| CheckpointError::Disk { path: restoring.clone(), error };
    let empty = restoring.clone();
    on_disk(owner, move || {
        let _ = fs::remove_dir_all(&empty);
        fs::create_dir(&empty)
    })
    .await
    .map_err(disk)?;
    let job = &agent.identity.job;
    let restored = agent.store.restore_checkpoint(job, checkpoint, restoring.clone(), owner).await;
    let half = restoring.clone();
    let manifest = match restored {
        Ok(manifest) => manifest,
        Err(error) => {
            let _ = on_disk(owner, move || fs::remove_dir_all(half)).await;
            return Err(error);
        }
    };
    let into = into.to_owned();
    let put_back = on_disk(owner, move || {
        let entries = finish(&manifest, &half, &into)?;
        let step = directory::step_in(&into, checkpoint.step, now())?;
        Ok((entries, step.map(|step| KeptStep { step, manifest: Arc::new(manifest) })))
    });
    put_back.await.map_err(disk)
}

/// What a checkpoint holds besides files, and its place.
fn finish(manifest: &Manifest, restoring: &Path, into: &Path) -> io::Result<Vec<PathBuf>> {
    for folder in &manifest.folders {
        fs::create_dir_all(restoring.join(folder))?;
    }
    // Last, so that nothing is written through them.
    for link in &manifest.links {
        let path = restoring.join(&link.path);
        fs::create_dir_all(path.parent().unwrap_or(restoring))?;
        symlink(&link.to, path)?;
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(restoring)? {
        let entry = entry?;
        let there = into.join(entry.file_name());
        fs::rename(entry.path(), &there)?;
        entries.push(there);
    }
    fs::remove_dir(restoring)?;
    entries.sort_unstable();
    Ok(entries)
}

/// What lies there already, by an earlier start of this machine or by its image, may be cut off anywhere: it is put beside.
fn set_aside(agent: &Agent, directory: &Path) -> io::Result<()> {
    let mut aside = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let shown = name.to_string_lossy();
        if shown.starts_with('.') || step_of(&shown).is_none() {
            continue;
        }
        let folder = match &aside {
            Some(folder) => folder,
            None => aside.insert(folder_beside(directory)?),
        };
        let (from, to) = (directory.join(&name), folder.join(&name));
        match fs::rename(&from, to) {
            // A directory that a container made as root may be renamed by its user, and not moved: over an empty one.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::rename(&from, folder_beside(directory)?)?;
            }
            renamed => renamed?,
        }
    }
    if let Some(folder) = aside {
        let words = "what was in the checkpoint directory before counts for nothing, and now lies in";
        agent.log.write_line(&format!("{words} {}", folder.display()));
    }
    Ok(())
}

/// `.curfew-before-1` in the directory, or the next number that is free: a rename does not lead from disk to disk.
fn folder_beside(directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let folder = directory.join(format!("{ASIDE}{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Deletes what was put beside; whether there was anything.
async fn clear_away(agent: &Agent, directory: &Path, owner: &FileOwner) -> bool {
    let within = directory.to_owned();
    let cleared = on_disk(owner, move || {
        let mut cleared = false;
        for entry in fs::read_dir(&within)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(ASIDE) {
                fs::remove_dir_all(entry.path())?;
                cleared = true;
            }
        }
        Ok(cleared)
    });
    cleared.await.unwrap_or_else(|error| {
        let (place, words) = (directory.display(), directory::describe_io_error(&error));
        agent.log.write_line(&format!("what was put aside in {place} cannot be deleted: {words}"));
        false
    })
}
