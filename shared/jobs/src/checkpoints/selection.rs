//! The selection of checkpoints in the directory: the one to keep next, and the path that a command resumes from.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::entry_kind::{is_best, is_record, is_text};
use super::watch::{CheckpointStep, StepNumber};

/// Moves the best step before all others. Once a newer one is kept, it is too old to be uploaded, and a command that loads its best at the
/// end would load another one.
pub fn put_best_first(steps: &mut Vec<&CheckpointStep>, best: Option<u64>) {
    let is_best = |step: &&CheckpointStep| best.is_some() && step.number.named() == best;
    if let Some(index) = steps.iter().position(is_best) {
        steps[..=index].rotate_right(1);
    }
}

/// A step that was rewritten since it was uploaded or restored, by its state then: its writer had only paused, or overwrites each checkpoint. If it
/// only lost files, it is being deleted, and the upload has all of it. If it lost none, an earlier time of change is a change as well: a copy may
/// keep the time of its original, and a clock may be set back.
#[must_use]
pub fn rewritten<'a>(steps: &'a [CheckpointStep], kept: &CheckpointStep) -> Option<&'a CheckpointStep> {
    let is_same = |step: &&CheckpointStep| {
        step.number == kept.number
            && (step.number == StepNumber::Snapshot || step.entries.iter().any(|name| kept.entries.contains(name)))
    };
    let now = steps.iter().find(is_same)?;
    let is_more = now.changed_at > kept.changed_at || now.bytes > kept.bytes || now.files > kept.files;
    let is_other = now.files == kept.files && (now.changed_at, now.bytes) != (kept.changed_at, kept.bytes);
    (is_more || is_other).then_some(now)
}

/// One path of a checkpoint, with its size and when it was changed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOfStep {
    /// The path from the checkpoint directory on, with `/`.
    pub path: String,
    /// Size of everything in it.
    pub bytes: u64,
    /// Time of the last change in it.
    pub changed_at: Timestamp,
}

/// The path that a command resumes from: the newest that is not called best. Text is taken only where there is nothing else.
#[must_use]
pub fn resume_path(paths: &[PathOfStep]) -> Option<&str> {
    let name = |path: &PathOfStep| path.path.rsplit('/').next().unwrap_or_default().to_owned();
    let rank = |path: &&PathOfStep| {
        let is_data = !is_text(&name(path)) && path.bytes > 0;
        (is_data, !is_best(&path.path), path.changed_at, std::cmp::Reverse(path.path.clone()))
    };
    paths.iter().filter(|path| !is_record(&name(path))).max_by_key(rank).map(|path| path.path.as_str())
}

/// The checkpoint that a `trainer_state.json` of Hugging Face calls the best, by its name; transformers 5.23,
/// `src/transformers/trainer_callback.py`, `TrainerState`. Its keys are sorted, so the beginning of the file has it.
#[must_use]
pub fn best_named(trainer_state: &str) -> Option<&str> {
    let (_, after) = trainer_state.split_once("\"best_model_checkpoint\":")?;
    let path = after.trim_start().strip_prefix('"')?.split('"').next()?;
    path.trim_end_matches('/').rsplit('/').next()
}

/// The steps that a framework keeps on purpose, of those that are `there`: all of them where it deletes what it does not need, and one that
/// is named as the best.
#[must_use]
pub fn kept_by_framework(there: &BTreeSet<u64>, deletes: bool, best: Option<u64>) -> BTreeSet<u64> {
    there.iter().copied().filter(|step| deletes || Some(*step) == best).collect()
}
