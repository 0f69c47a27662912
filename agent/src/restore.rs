//! Restores the newest complete checkpoint that head names.

mod aside;
mod earlier_job;
mod parts;
mod unnamed;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use jobs::checkpoints::{Manifest, PathOfStep, resume_path, to_restore};
use jobs::{AgentWarningKind, Checkpoint, Head, JobId};
use store::{CheckpointError, FileOwner};

use self::aside::{clear_away, set_aside};
pub(crate) use self::parts::restore_round;
use crate::agent::{Agent, StartError};
use crate::directory::{self, CheckpointDirectory, KeptStep};
use crate::disk::on_disk;
use crate::retry_timeout::{RetryTimeout, read_with_retries};
use crate::user::User;
use crate::world::now;

/// The directory in which a checkpoint is assembled: in the checkpoint directory itself, because a rename stays on one disk. A name with a
/// leading dot is no checkpoint.
const RESTORING: &str = ".curfew-restoring";

/// The restored checkpoint, and the checkpoints that count.
#[derive(Debug, Default)]
pub(crate) struct RestoredCheckpoint {
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The step of its names.
    pub(crate) step: Option<u64>,
    pub(crate) entries: Vec<PathBuf>,
    /// The path that the command resumes from.
    pub(crate) resume: Option<PathBuf>,
    pub(crate) what: String,
    /// `true` if other checkpoints were restored as well, which the framework retains.
    pub(crate) has_others: bool,
    /// The restored content, by which later changes are noticed.
    pub(crate) original: Option<KeptStep>,
    /// The undamaged checkpoints of head, the newest last.
    pub(crate) counting: Vec<Checkpoint>,
    /// The unverified ones of `counting`.
    pub(crate) unverified: Vec<Checkpoint>,
    /// The reasons why newer checkpoints were not restored, for people.
    pub(crate) skipped: Vec<String>,
    /// The names of all that was restored.
    pub(crate) names: BTreeSet<String>,
    /// `true` if the command has failed on another checkpoint in this attempt.
    has_failed: bool,
}

impl RestoredCheckpoint {
    fn from_manifest(checkpoint: Checkpoint, manifest: &Manifest, original: Option<KeptStep>, into: &Path) -> Self {
        let (entries, resume) = paths_of(manifest, into);
        Self {
            checkpoint: Some(checkpoint),
            step: manifest.number.or_else(|| original.as_ref().and_then(|kept| kept.step.number.named())),
            entries,
            resume,
            what: describe(manifest),
            has_others: !manifest.beside.is_empty(),
            original,
            ..Self::default()
        }
    }

    /// The one that was restored, with the candidates that are left.
    fn among(self, candidates: RestoreCandidates) -> Self {
        let RestoreCandidates { in_order: mut counting, unverified, skipped, has_failed, .. } = candidates;
        counting.reverse();
        Self { counting, unverified, skipped, has_failed, ..self }
    }

    /// The checkpoints that remain if the command fails on this one, because the checkpoint may be why: the previous ones. It steps back from every
    /// unverified checkpoint, down to the beginning, and once from a verified one, unless the command has failed on another one already. The first
    /// snapshot of a job may consist of files that are no checkpoint.
    pub(crate) fn before_failed(&self) -> Option<RestoreCandidates> {
        let failed = self.checkpoint?;
        let is_unverified = self.unverified.contains(&failed);
        if self.has_failed && !is_unverified {
            return None;
        }
        let mut in_order: Vec<Checkpoint> =
            self.counting.iter().rev().copied().filter(|other| *other != failed).collect();
        let may_be_none = self.step.is_none() && (failed.step, failed.rewrite) == (0, 0);
        if in_order.is_empty() && !is_unverified && !may_be_none {
            in_order.push(failed);
        }
        let (unverified, skipped) = (self.unverified.clone(), self.skipped.clone());
        Some(RestoreCandidates { in_order, is_first_only: false, unverified, skipped, has_failed: true })
    }
}

#[derive(Debug, Default)]
pub(crate) struct RestoreCandidates {
    /// The first undamaged one is restored.
    in_order: Vec<Checkpoint>,
    /// `true` if the first one is restored or none: the nodes of a gang have to restore the same.
    is_first_only: bool,
    /// The unverified checkpoints of head.
    unverified: Vec<Checkpoint>,
    /// The reasons why newer checkpoints are left out.
    skipped: Vec<String>,
    has_failed: bool,
}

impl RestoreCandidates {
    pub(crate) fn from_head(head: &Head) -> Self {
        Self { in_order: to_restore(head), unverified: head.unverified.clone(), ..Self::default() }
    }

    /// True if another checkpoint than that one is left.
    pub(crate) fn has_other_than(&self, checkpoint: Option<Checkpoint>) -> bool {
        self.in_order.iter().any(|other| Some(*other) != checkpoint)
    }

    /// Notes why a newer one is left out.
    pub(crate) fn without(mut self, newer: String) -> Self {
        self.skipped.push(newer);
        self
    }

    fn skip_damaged(&mut self, damaged: &[String]) {
        let (what, is) = match damaged.len() {
            0 => return,
            1 => ("the checkpoint", "is"),
            _ => ("the checkpoints", "are"),
        };
        self.skipped.push(format!("{what} {} {is} damaged", damaged.join(", ")));
    }
}

/// Restores the first undamaged candidate, or in a bucket that was a copy another whole checkpoint, or else that of the job that this one begins
/// with.
pub(crate) async fn restore(
    agent: &Arc<Agent>,
    mut candidates: RestoreCandidates,
    begins_with: Option<&JobId>,
    directory: &CheckpointDirectory,
    user: &User,
) -> Result<RestoredCheckpoint, StartError> {
    let owner = &user.file_owner();
    prepare_directory(agent, &directory.path, owner).await?;
    let job = &agent.identity.job;
    let named = candidates.in_order.clone();
    if let Some(restored) = Box::pin(restore_first(agent, job, &mut candidates, directory, owner)).await? {
        return Ok(restored.among(candidates));
    }
    let was_copied = agent.identity.is_restored || agent.buckets.has_moved();
    if was_copied && !named.is_empty() {
        candidates = Box::pin(unnamed::find(agent, &named, candidates)).await?;
        if let Some(restored) = Box::pin(restore_first(agent, job, &mut candidates, directory, owner)).await? {
            return Ok(restored.among(candidates));
        }
    }
    if let Some(job) = begins_with {
        return earlier_job::restore(agent, job, candidates.skipped, directory, owner).await;
    }
    agent.log.write_line("there is no checkpoint to resume from: the job starts at zero");
    warn_of_skipped(agent, &candidates.skipped, "starts at zero, because there is no other checkpoint");
    Ok(RestoredCheckpoint::default())
}

async fn prepare_directory(agent: &Arc<Agent>, into: &Path, owner: &FileOwner) -> Result<(), StartError> {
    prepare(agent, into, owner).await.map_err(|error| {
        let (place, words) = (into.display(), directory::describe_io_error(&error));
        let why = format!(
            "the checkpoint directory {place} cannot be used ({words}): set `checkpoint.dir` to a directory of its own"
        );
        StartError::from_io(agent, &error, why)
    })
}

/// Restores the first undamaged candidate of a job, if there is one, with those that the framework retains beside it. The damaged ones are left out of
/// the candidates.
async fn restore_first(
    agent: &Agent,
    job: &JobId,
    candidates: &mut RestoreCandidates,
    directory: &CheckpointDirectory,
    owner: &FileOwner,
) -> Result<Option<RestoredCheckpoint>, StartError> {
    let into = directory.path.as_path();
    let (mut timeout, mut damaged) = (RetryTimeout::default(), Vec::new());
    while let Some(checkpoint) = candidates.in_order.first().copied() {
        let step = checkpoint.step;
        let cannot = |error: &CheckpointError, hint: &str| {
            let why = format!("the checkpoint of step {step} cannot be restored: {error}{hint}");
            Err(match error {
                CheckpointError::Store(error) => StartError::from_store(error, why),
                CheckpointError::Disk { error, .. } => StartError::from_io(agent, error, why),
                CheckpointError::Damaged(_) => StartError::broken(why),
                CheckpointError::Unrestorable(_) => StartError::cannot_run(why),
            })
        };
        match Box::pin(restore_one(agent, job, checkpoint, directory, owner)).await {
            Ok((manifest, original)) => {
                let doubt = if candidates.unverified.contains(&checkpoint) { ", which may be incomplete" } else { "" };
                let whose = if *job == agent.identity.job { String::new() } else { format!(" of {job}") };
                let (what, attempt) = (describe(&manifest), checkpoint.attempt);
                let resumes = format!("resumes from {what}, which attempt {attempt}{whose} kept{doubt}");
                agent.log.write_line(&resumes);
                candidates.skip_damaged(&damaged);
                warn_of_skipped(agent, &candidates.skipped, &resumes);
                let mut names = names_of(&manifest);
                for beside in manifest.beside.iter().filter(|beside| candidates.in_order.contains(beside)) {
                    names.extend(restore_beside(agent, job, *beside, directory, owner).await);
                }
                let restored = RestoredCheckpoint::from_manifest(checkpoint, &manifest, original, into);
                return Ok(Some(RestoredCheckpoint { names, ..restored }));
            }
            Err(CheckpointError::Damaged(words)) => {
                agent.log.write_line(&format!("the checkpoint of step {step} is damaged, and skipped: {words}"));
                damaged.push(format!("of step {step} ({words})"));
                candidates.in_order.remove(0);
                timeout = RetryTimeout::default();
                if candidates.is_first_only {
                    break;
                }
            }
            Err(CheckpointError::Store(error)) => {
                let what = format!("the checkpoint of step {step} cannot be read yet");
                if !timeout.pause_and_retry(agent, &what, &error).await {
                    return cannot(&error.into(), "");
                }
            }
            Err(CheckpointError::Disk { error, .. }) if is_full(&error) && clear_away(agent, into, owner).await => {
                agent.log.write_line("the disk is full: the earlier contents of the checkpoint directory are deleted");
            }
            Err(CheckpointError::Disk { path, error }) => {
                let hint = if is_full(&error) { "; set `root_volume_gib`" } else { "" };
                return cannot(&CheckpointError::Disk { path, error }, hint);
            }
            Err(error) => return cannot(&error, ""),
        }
    }
    candidates.skip_damaged(&damaged);
    Ok(None)
}

/// Reports all that were left out to the owner at once, with the result.
fn warn_of_skipped(agent: &Agent, skipped: &[String], resumes: &str) {
    if !skipped.is_empty() {
        agent.warn_owner(AgentWarningKind::Damaged, &format!("it {resumes}: {}", skipped.join("; ")));
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes an empty directory that belongs to the user.
async fn prepare(agent: &Arc<Agent>, into: &Path, owner: &FileOwner) -> io::Result<()> {
    let (place, for_owner) = (into.to_owned(), owner.clone());
    tokio::task::spawn_blocking(move || directory::make(&place, &for_owner)).await.map_err(io::Error::other)??;
    let (agent, into) = (Arc::clone(agent), into.to_owned());
    on_disk(owner, move || {
        directory::release(&into);
        set_aside(&agent, &into)
    })
    .await
}

/// Restores a checkpoint that the framework retains beside the newest. The command can resume without it, but its result may differ, so the owner
/// gets a warning.
async fn restore_beside(
    agent: &Agent,
    job: &JobId,
    checkpoint: Checkpoint,
    directory: &CheckpointDirectory,
    owner: &FileOwner,
) -> BTreeSet<String> {
    let step = checkpoint.step;
    let read = async || Box::pin(restore_one(agent, job, checkpoint, directory, owner)).await;
    match read_with_retries(agent, &format!("the checkpoint of step {step}"), read).await {
        Ok((manifest, _)) => {
            agent.log.write_line(&format!("step {step}, which the command keeps besides, is restored as well"));
            names_of(&manifest)
        }
        Err(error) => {
            let words = format!("step {step}, which the command keeps besides, is not restored: {error}");
            agent.log.write_line(&words);
            agent.warn_owner(AgentWarningKind::Damaged, &words);
            BTreeSet::new()
        }
    }
}

/// The names that a checkpoint has in the directory.
fn names_of(manifest: &Manifest) -> BTreeSet<String> {
    let files = manifest.files.iter().map(|file| file.path.as_str());
    let paths = files
        .chain(manifest.links.iter().chain(&manifest.copies).map(|link| link.path.as_str()))
        .chain(manifest.folders.iter().map(String::as_str));
    paths.filter_map(|path| path.split('/').next()).map(str::to_owned).collect()
}

fn describe(manifest: &Manifest) -> String {
    if manifest.snapshot { "the files without a number".to_owned() } else { format!("step {}", manifest.step) }
}

/// The paths of a checkpoint's entries, and the one that the command resumes from.
fn paths_of(manifest: &Manifest, into: &Path) -> (Vec<PathBuf>, Option<PathBuf>) {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for file in &manifest.files {
        let name = file.path.split('/').next().unwrap_or_default();
        if !manifest.companions.iter().any(|companion| companion == name) {
            let size: &mut u64 = sizes.entry(name).or_default();
            *size = size.saturating_add(file.bytes);
        }
    }
    let path =
        |(name, bytes): (&&str, &u64)| PathOfStep { path: (*name).to_owned(), bytes: *bytes, changed_at: manifest.at };
    // As earlier versions wrote it.
    let by_name = || resume_path(&sizes.iter().map(path).collect::<Vec<_>>()).map(str::to_owned);
    let resume = manifest.resume.clone().or_else(by_name).map(|path| into.join(path));
    (sizes.keys().map(|name| into.join(name)).collect(), resume)
}

/// The content of a checkpoint as it is on the disk.
type RestoredStep = (Arc<Manifest>, Option<KeptStep>);

/// Restores one checkpoint: assembles it beside the others, and renames it.
async fn restore_one(
    agent: &Agent,
    job: &JobId,
    checkpoint: Checkpoint,
    directory: &CheckpointDirectory,
    owner: &FileOwner,
) -> Result<RestoredStep, CheckpointError> {
    let restoring = directory.path.join(RESTORING);
    let disk = |error| CheckpointError::Disk { path: restoring.clone(), error };
    let empty = restoring.clone();
    on_disk(owner, move || {
        let _ = fs::remove_dir_all(&empty);
        fs::create_dir(&empty)
    })
    .await
    .map_err(disk)?;
    let restored = Box::pin(parts::fetch(agent, job, checkpoint, restoring.clone(), owner)).await;
    let half = restoring.clone();
    let manifest = match restored {
        Ok(manifest) => manifest,
        Err(error) => {
            let _ = on_disk(owner, move || fs::remove_dir_all(half)).await;
            return Err(error);
        }
    };
    let (directory, manifest) = (directory.clone(), Arc::new(manifest));
    let put_back = on_disk(owner, move || {
        finish(&manifest, &half, &directory.path)?;
        let step = directory::step_in(&directory, &manifest, now())?;
        let original = step.map(|step| KeptStep { step, manifest: Arc::clone(&manifest) });
        Ok((manifest, original))
    });
    put_back.await.map_err(disk)
}

/// Directories and links of a checkpoint.
fn finish(manifest: &Manifest, restoring: &Path, into: &Path) -> io::Result<()> {
    for folder in &manifest.folders {
        fs::create_dir_all(restoring.join(folder))?;
    }
    // Last, so that nothing is written through them.
    for link in &manifest.links {
        let path = restoring.join(&link.path);
        fs::create_dir_all(path.parent().unwrap_or(restoring))?;
        symlink(&link.to, path)?;
    }
    for entry in fs::read_dir(restoring)? {
        let entry = entry?;
        let (name, there) = (entry.file_name(), into.join(entry.file_name()));
        // Companions of the newest checkpoint stay as they are.
        let is_companion = manifest.companions.iter().any(|companion| *companion == *name.to_string_lossy());
        if !is_companion || fs::symlink_metadata(&there).is_err() {
            fs::rename(entry.path(), &there)?;
        }
    }
    for copy in &manifest.copies {
        let path = into.join(&copy.path);
        if fs::symlink_metadata(&path).is_err() {
            fs::copy(into.join(&copy.to), path)?;
        }
    }
    fs::remove_dir_all(restoring)
}
