//! Checkpoints of any framework, as a directory shows them, and as the bucket keeps them.
//!
//! - An entry of the checkpoint directory belongs to the step that its name says: the last number in it, compared as a number, but for
//!   which of several files it is (`-00001-of-00004`). Entries of one step, such as `model-500.pt` and `optimizer-500.pt`, are one
//!   checkpoint.
//! - A checkpoint is **complete** if and only if each of its entries is fit ([`DirectoryEntry::unfit`]), and not empty or only the flag of another
//!   one, and carries a marker ([`MARKERS`]), or has not changed for [`QUIET`], or the command has ended. Where a directory of another
//!   step carried a marker, being quiet is not enough for one, nor is any end but success: who marks has only paused.
//! - A complete one is **doubtful** where the command has ended in another way than with success, and some of it neither carries a marker nor
//!   was quiet: it may be cut off, and most often is not. It is kept beside the newest certain one ([`to_keep`]), and where the next command
//!   fails on it, that one is gone back to ([`DOUBTED_FOR`]).
//! - In the bucket it is complete if its manifest is there, which is written last, and it counts if `head.json` named it.

mod manifest;
mod progress;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Checkpoint, Head};

pub use manifest::{MANIFEST_FILE, Manifest, ManifestFile, ManifestLink, PartDigest, check_path};
pub use progress::CheckpointProgress;

/// A file of one of these names in a checkpoint says that it is complete: people's own, Hadoop's, that of `PyTorch`'s distributed
/// checkpoints, and that of Hugging Face's trainer.
pub const MARKERS: [&str; 4] = [".complete", "_SUCCESS", ".metadata", "trainer_state.json"];

/// A checkpoint without a marker that has not changed for so long is complete.
pub const QUIET: SignedDuration = SignedDuration::from_secs(60);

/// A command that fails so soon after it went on from a doubtful checkpoint, and had kept nothing yet, may have failed because of that one: it
/// is run again from the one before. To read a checkpoint takes minutes, and what fails later does so for a reason of its own.
pub const DOUBTED_FOR: SignedDuration = SignedDuration::from_mins(30);

/// Head names so many where nobody knows how many are kept: what a spec can ask for at most.
const KEEP_MAX: u32 = 1_000;

/// What else ends on a digit, and is no number of a step.
const EXTENSIONS: [&str; 6] = ["h5", "hdf5", "pt2", "bz2", "lz4", "7z"];

/// One entry of the checkpoint directory, as one look saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name, a file's or a directory's.
    pub name: String,
    /// Whether it is a directory.
    pub folder: bool,
    /// All that is in it.
    pub bytes: u64,
    /// How many files.
    pub files: u64,
    /// When the last of it was changed.
    pub changed_at: Timestamp,
    /// When one of [`MARKERS`] was put on it, where it carries one; a file does by a file beside it, `<name>.complete`.
    pub marked_at: Option<Timestamp>,
    /// Why it is no checkpoint as it is, for its owner: it is, or holds, something that is still written by another name
    /// ([`is_temporary`]), or something that could not be brought back.
    pub unfit: Option<String>,
}

/// The entries of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct CheckpointStep {
    /// Its number.
    pub step: u64,
    /// The names, in order.
    pub entries: Vec<String>,
    /// All that is in them.
    pub bytes: u64,
    /// How many files.
    pub files: u64,
    /// When the last of it was changed.
    pub changed_at: Timestamp,
    /// Whether nothing of it has changed for [`QUIET`], or nobody writes any more.
    pub still: bool,
    /// Whether it has come to an end, also where it was complete before: nothing of it has changed for [`QUIET`], or the command has ended
    /// with success, or each entry carries a marker that is as new as all else of it.
    pub settled: bool,
    /// Whether it is complete.
    pub complete: bool,
    /// Whether it is only because the command has ended, in another way than with success: it may be cut off.
    pub unverified: bool,
    /// Why it is not, though nothing of it has changed for a while; for its owner.
    pub problem: Option<String>,
}

/// How the command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// It may be writing.
    Running,
    /// It ended with success: whatever it wrote, it wrote to the end.
    Ended,
    /// It failed, or was killed, or left processes behind that may have been writing: what was being written may be cut off.
    Killed,
}

/// What the looks at the directory showed so far.
#[derive(Debug, Clone, Default)]
pub struct DirectoryWatch {
    seen: BTreeMap<String, (DirectoryEntry, Timestamp)>,
    /// Steps of which a directory carried a marker at any time; two of them say it of each step.
    marked: BTreeSet<u64>,
}

impl DirectoryWatch {
    /// Takes a look into account. What the entries' own times say is not believed: a copy may keep those of its original.
    pub fn observe(&mut self, entries: Vec<DirectoryEntry>, now: Timestamp) {
        let mut seen = BTreeMap::new();
        for entry in entries {
            if entry.folder && entry.marked_at.is_some() && self.marked.len() < 2 {
                self.marked.extend(step_of(&entry.name));
            }
            let since = match self.seen.get(&entry.name) {
                Some((before, since)) if *before == entry => *since,
                _ => now,
            };
            seen.insert(entry.name.clone(), (entry, since));
        }
        self.seen = seen;
    }

    /// What is in the directory, the newest step first. `quiet` is [`QUIET`], but for tests.
    #[must_use]
    pub fn steps(&self, writer: WriterState, now: Timestamp, quiet: SignedDuration) -> Vec<CheckpointStep> {
        let mut steps: BTreeMap<u64, Vec<&(DirectoryEntry, Timestamp)>> = BTreeMap::new();
        for seen in self.seen.values() {
            if let Some(number) = step_of(&seen.0.name) {
                steps.entry(number).or_default().push(seen);
            }
        }
        let quiet = |since: Timestamp| now.duration_since(since) >= quiet;
        let judge = |(number, seen): (u64, Vec<_>)| {
            let others_are_marked = self.marked.iter().any(|marked| *marked != number);
            judged(number, &seen, writer, others_are_marked, quiet)
        };
        steps.into_iter().rev().map(judge).collect()
    }
}

fn judged(
    step: u64,
    seen: &[&(DirectoryEntry, Timestamp)],
    writer: WriterState,
    others_are_marked: bool,
    quiet: impl Fn(Timestamp) -> bool,
) -> CheckpointStep {
    let all: Vec<&DirectoryEntry> = seen.iter().map(|(entry, _)| entry).collect();
    let ended = writer == WriterState::Ended;
    let (mut complete, mut certain, mut problem) = (true, true, None);
    for (entry, since) in seen {
        let unmarked = others_are_marked && entry.folder && entry.marked_at.is_none() && !ended;
        let wrong = entry.unfit.clone().or_else(|| is_empty(entry, &all).then(|| "it is empty".to_owned()));
        let wrong = wrong.or_else(|| unmarked.then(|| "it carries no marker, as another step does".to_owned()));
        let still = quiet(*since) || writer != WriterState::Running;
        complete &= wrong.is_none() && (entry.marked_at.is_some() || still);
        certain &= entry.marked_at.is_some() || quiet(*since) || ended;
        problem = problem.or(wrong.filter(|_| still).map(|wrong| format!("`{}`: {wrong}", entry.name)));
    }
    let is_quiet = seen.iter().all(|(_, since)| quiet(*since));
    let is_sealed = all.iter().all(|entry| entry.marked_at.is_some_and(|at| at >= entry.changed_at));
    CheckpointStep {
        step,
        entries: all.iter().map(|entry| entry.name.clone()).collect(),
        bytes: all.iter().map(|entry| entry.bytes).sum(),
        files: all.iter().map(|entry| entry.files).sum(),
        changed_at: all.iter().map(|entry| entry.changed_at).max().unwrap_or(Timestamp::MIN),
        still: writer != WriterState::Running || is_quiet,
        settled: is_quiet || is_sealed || ended,
        complete,
        unverified: complete && !certain,
        problem,
    }
}

/// Nothing is in it, and it is no flag that says something of another entry, as `step-5.done` does of `step-5`.
fn is_empty(entry: &DirectoryEntry, all: &[&DirectoryEntry]) -> bool {
    entry.bytes == 0 && !all.iter().any(|other| other.bytes > 0 && entry.name.starts_with(&other.name))
}

/// The complete steps above one that is already kept, the newest first, and the doubtful ones after all others: what they may have to be given
/// up for is in the bucket by then.
pub fn to_upload(steps: &[CheckpointStep], kept: Option<u64>) -> impl Iterator<Item = &CheckpointStep> {
    let newer = move |step: &&CheckpointStep| step.complete && kept.is_none_or(|kept| step.step > kept);
    let certain = steps.iter().filter(newer).filter(|step| !step.unverified);
    certain.chain(steps.iter().filter(newer).filter(|step| step.unverified))
}

/// A step that seems to be written to since it was kept or put back, as it was then: its writer had only paused, or writes each checkpoint
/// over the one before. Where there is only less of it, it is being deleted, and what is kept is all of it. Where none of it is gone, an
/// earlier time of change is a change as well: a copy may keep the time of its original, and a clock may be set back.
#[must_use]
pub fn rewritten<'a>(steps: &'a [CheckpointStep], kept: &CheckpointStep) -> Option<&'a CheckpointStep> {
    let now = steps.iter().find(|step| step.step == kept.step)?;
    let is_more = now.changed_at > kept.changed_at || now.bytes > kept.bytes || now.files > kept.files;
    let is_other = now.files == kept.files && (now.changed_at, now.bytes) != (kept.changed_at, kept.bytes);
    (is_more || is_other).then_some(now)
}

/// A step that was completed since another one was kept, beside which there were those that are `known`, and is not kept because its
/// number is lower: the command began anew, or the higher number is that of something else.
#[must_use]
pub fn overtaken<'a>(steps: &'a [CheckpointStep], kept: u64, known: &BTreeSet<u64>) -> Option<&'a CheckpointStep> {
    steps.iter().find(|step| step.complete && step.step < kept && !known.contains(&step.step))
}

/// Whether a file of one of the names of [`MARKERS`] is a marker, by its last bytes: those that hold something are cut off where their
/// writer is killed.
#[must_use]
pub fn is_marker(name: &str, end: &[u8]) -> bool {
    match name {
        "trainer_state.json" => end.trim_ascii_end().ends_with(b"}"),
        ".metadata" => !end.is_empty(),
        _ => true,
    }
}

/// The step that a name says: its last number, which of several files it is left aside.
#[must_use]
pub fn step_of(name: &str) -> Option<u64> {
    let name = without_part(name);
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if EXTENSIONS.contains(&extension) => stem,
        _ => &name,
    };
    let end = stem.rfind(|character: char| character.is_ascii_digit())? + 1;
    let start = stem[..end].rfind(|character: char| !character.is_ascii_digit()).map_or(0, |before| {
        // The character before the number may be of several bytes.
        before + stem[before..].chars().next().map_or(1, char::len_utf8)
    });
    stem[start..end].parse().ok()
}

/// Whether a file of that name is none of a checkpoint, whatever number it has.
#[must_use]
pub fn is_record(name: &str) -> bool {
    let is_dump = name.strip_prefix("core.").is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
    is_dump || name.starts_with("events.out.tfevents.") || has_extension(name, &["log", "out", "err"])
}

/// Whether a file of that name describes: it may be part of a checkpoint, and is none by itself.
#[must_use]
pub fn is_description(name: &str) -> bool {
    has_extension(name, &["txt", "csv", "yaml", "yml", "json", "toml"])
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
}

/// `ckpt-500.data` of `ckpt-500.data-00000-of-00001`, which is how TensorFlow and Hugging Face number the files of one checkpoint.
fn without_part(name: &str) -> Cow<'_, str> {
    let is_digit = |character: char| character.is_ascii_digit();
    name.rsplit_once("-of-")
        .and_then(|(before, after)| {
            let (stem, number) = before.rsplit_once('-')?;
            let rest = after.trim_start_matches(is_digit);
            let is_part = !number.is_empty() && number.chars().all(is_digit) && rest.len() < after.len();
            is_part.then(|| Cow::Owned(format!("{stem}{rest}")))
        })
        .unwrap_or(Cow::Borrowed(name))
}

/// Whether something of that name is still being written, and gets another one in the end.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    let words = name.split(|character: char| !character.is_alphanumeric());
    let unfinished = |word: &str| matches!(word, "tmp" | "temp" | "partial" | "incomplete");
    words.map(str::to_ascii_lowercase).any(|word| unfinished(&word))
}

/// In which order checkpoints are tried: what head names, and then what it named before, the highest step first, and of one step what
/// the latest attempt kept last. What else lies in the bucket may be whole, and was written by nobody who still counted.
#[must_use]
pub fn to_restore(head: &Head) -> Vec<Checkpoint> {
    let Some(named) = head.checkpoint else { return Vec::new() };
    let is_before = |other: &Checkpoint| order(other) > order(&named);
    let mut older: Vec<Checkpoint> = head.kept.iter().copied().filter(is_before).collect();
    older.sort_unstable_by_key(order);
    std::iter::once(named).chain(older).collect()
}

/// What head names beside the newest: of those that count the newest, so that there are `keep` of them with that one; where `keep` is
/// unknown, as many as a spec can ask for. Where the newest is doubtful, the newest certain one as well, however many that are. The
/// newest first.
#[must_use]
pub fn to_keep(
    counting: &[Checkpoint],
    newest: Checkpoint,
    keep: Option<u32>,
    unverified: &[Checkpoint],
) -> Vec<Checkpoint> {
    let mut kept: Vec<Checkpoint> = counting.iter().copied().filter(|other| *other != newest).collect();
    kept.sort_unstable_by_key(order);
    let others = usize::try_from(keep.unwrap_or(KEEP_MAX).saturating_sub(1)).unwrap_or(usize::MAX);
    let certain = kept.iter().position(|other| !unverified.contains(other)).filter(|_| unverified.contains(&newest));
    let beyond = certain.filter(|certain| *certain >= others).map(|certain| kept[certain]);
    kept.truncate(others);
    kept.extend(beyond);
    kept
}

/// The highest step first, and of one step the latest attempt, with what it kept of it last.
fn order(checkpoint: &Checkpoint) -> std::cmp::Reverse<(u64, u32, u32)> {
    std::cmp::Reverse((checkpoint.step, checkpoint.attempt, checkpoint.rewrite))
}

/// What an attempt keeps a step as, beside what head names of that already, damaged or not: that stays as it is until head names the next one, and
/// what is written after another attempt has taken over is nowhere that head names.
#[must_use]
pub fn place_of(named: &[Checkpoint], attempt: u32, step: u64) -> Checkpoint {
    let before = named.iter().filter(|other| (other.attempt, other.step) == (attempt, step));
    let rewrite = before.map(|other| other.rewrite.saturating_add(1)).max().unwrap_or(0);
    Checkpoint { attempt, step, rewrite }
}

/// What lies in the bucket in the place of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Which.
    pub checkpoint: Checkpoint,
    /// Whether it has a manifest. Without one it is being uploaded, or its upload never came to its end.
    pub whole: bool,
}

/// What is deleted, where head names the newest and those that are `kept`: all else, whole or not. What a later attempt wrote is not
/// ours to judge, and of this one what is newer and has no manifest may be on its way.
#[must_use]
pub fn to_prune(listed: &[StoredCheckpoint], newest: Checkpoint, kept: &[Checkpoint], attempt: u32) -> Vec<Checkpoint> {
    let goes = |stored: &StoredCheckpoint| {
        let StoredCheckpoint { checkpoint, whole } = *stored;
        let over = whole || checkpoint.attempt < attempt || order(&checkpoint) > order(&newest);
        checkpoint.attempt <= attempt && over && checkpoint != newest && !kept.contains(&checkpoint)
    };
    listed.iter().copied().filter(goes).map(|stored| stored.checkpoint).collect()
}

#[cfg(test)]
mod tests;
