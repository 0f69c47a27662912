//! Which checkpoint of the directory to keep next, and which path a command resumes from.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::name::{is_best, is_record, is_text, step_of};
use super::watch::{CheckpointStep, StepNumber};

/// What is newer than the newest that is kept: by its number, and where that is ambiguous by the time of its last change.
fn is_newer(step: &CheckpointStep, kept: Option<u64>, kept_at: Option<Timestamp>) -> bool {
    match step.number {
        StepNumber::Named(number) => kept.is_none_or(|kept| number > kept),
        StepNumber::Ambiguous(_) => kept_at.is_none_or(|kept_at| step.changed_at > kept_at),
        StepNumber::Snapshot => false,
    }
}

/// The complete steps that are newer than the one that is kept, which changed last at `kept_at`: the newest first, and the unverified ones
/// after all others, so that what they may have to be given up for is in the bucket by then.
pub fn to_upload(
    steps: &[CheckpointStep],
    kept: Option<u64>,
    kept_at: Option<Timestamp>,
) -> impl Iterator<Item = &CheckpointStep> {
    let newer = move |step: &&CheckpointStep| step.complete && is_newer(step, kept, kept_at);
    let certain = steps.iter().filter(newer).filter(|step| !step.unverified);
    certain.chain(steps.iter().filter(newer).filter(|step| step.unverified))
}

/// Moves the best step before all others. Once a newer one is kept, it is too old to be uploaded, and a command that loads its best at the
/// end would load another one.
pub fn put_best_first(steps: &mut Vec<&CheckpointStep>, best: Option<u64>) {
    let is_best = |step: &&CheckpointStep| best.is_some() && step.number.named() == best;
    if let Some(index) = steps.iter().position(is_best) {
        steps[..=index].rotate_right(1);
    }
}

/// What is newer than all that is kept, and cannot be kept as it is.
pub fn unfinished(
    steps: &[CheckpointStep],
    kept: Option<u64>,
    kept_at: Option<Timestamp>,
) -> impl Iterator<Item = &CheckpointStep> {
    steps.iter().filter(move |step| !step.complete && is_newer(step, kept, kept_at))
}

/// A step that was rewritten since it was uploaded or restored, by its state then: its writer had only paused, or overwrites each checkpoint. If it
/// only lost files, it is being deleted, and the upload has all of it. If it lost none, an earlier time of change is a change as well: a copy may
/// keep the time of its original, and a clock may be set back.
#[must_use]
pub fn rewritten<'a>(steps: &'a [CheckpointStep], kept: &CheckpointStep) -> Option<&'a CheckpointStep> {
    let now = steps.iter().find(|step| step.number == kept.number)?;
    let is_more = now.changed_at > kept.changed_at || now.bytes > kept.bytes || now.files > kept.files;
    let is_other = now.files == kept.files && (now.changed_at, now.bytes) != (kept.changed_at, kept.bytes);
    (is_more || is_other).then_some(now)
}

/// A step that was completed since another one was kept, beside which there were those that are `known`, and is not kept because its
/// number is lower: the command began anew, or the higher number is that of something else.
#[must_use]
pub fn overtaken<'a>(steps: &'a [CheckpointStep], kept: u64, known: &BTreeSet<u64>) -> Option<&'a CheckpointStep> {
    let is_late = |step: &&CheckpointStep| match step.number {
        StepNumber::Named(number) => step.complete && number < kept && !known.contains(&number),
        StepNumber::Ambiguous(_) | StepNumber::Snapshot => false,
    };
    steps.iter().find(is_late)
}

/// One path of a checkpoint, with its size and when it was changed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOfStep {
    /// From the checkpoint directory on, with `/`.
    pub path: String,
    /// All that is in it.
    pub bytes: u64,
    /// When the last of it was changed.
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

/// What a small file without a number says of the checkpoints beside it, such as `latest` or `checkpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerTarget {
    /// It points to none.
    None,
    /// It points to this one, and maybe to others.
    This,
    /// It points to others, and would mislead beside this one.
    Other,
}

/// What a text points to, where these `entries` are the checkpoint, and `others` are the entries of other ones: by a name, or by the number
/// of the step alone.
#[must_use]
pub fn points_to(text: &str, entries: &[String], others: &[String]) -> PointerTarget {
    let number: Option<u64> = text.trim().parse().ok();
    let has_number = |entry: &String| number.is_some() && step_of(entry).map(|named| named.step) == number;
    let names = |entry: &String| has_number(entry) || names_entry(text, stem_of(entry));
    if entries.iter().any(names) {
        PointerTarget::This
    } else if others.iter().any(names) {
        PointerTarget::Other
    } else {
        PointerTarget::None
    }
}

/// `ckpt-5` of `ckpt-5.index`, by which `TensorFlow` names all files of a checkpoint.
fn stem_of(entry: &str) -> &str {
    entry.strip_suffix(".index").unwrap_or(entry)
}

/// Whether a text has that name, and not only the beginning or the end of it.
fn names_entry(text: &str, name: &str) -> bool {
    let is_part = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphanumeric() || matches!(character, '-' | '_'))
    };
    text.match_indices(name).any(|(start, found)| {
        !is_part(text[..start].chars().next_back()) && !is_part(text[start + found.len()..].chars().next())
    })
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
