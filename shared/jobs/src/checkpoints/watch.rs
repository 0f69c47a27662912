//! What looks at the checkpoint directory show: which entries are one checkpoint, and whether it is complete.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::name::{NamedStep, is_temporary, is_text, may_be_model, step_of};

/// A checkpoint without a marker is complete after so long without a change.
pub const QUIET: SignedDuration = SignedDuration::from_secs(60);

/// Files that are written over are kept at their next pause, once they have changed for so many times [`QUIET`] without being quiet. Each
/// time takes an upload of all of them.
const RESTLESS: i32 = 3;

/// A pause is this part of [`QUIET`]: what no look and the next one show changed.
const PAUSE: i32 = 6;

/// A file without a number beside checkpoints with one is part of each of them up to so many bytes, such as `latest` and `config.json`. A
/// larger one is a checkpoint by itself, such as `last.ckpt`.
pub const COMPANION_BYTES_MAX: u64 = 1024 * 1024;

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
    /// When a marker was put on it, where it carries one ([`is_marker`](super::is_marker)); a file does by a file beside it.
    pub marked_at: Option<Timestamp>,
    /// The step that its marker says.
    pub marked_step: Option<u64>,
    /// Whether the spec says that it goes with each checkpoint (`[checkpoint] include`).
    pub is_included: bool,
    /// Why it is no checkpoint, for its owner: it is or contains a file with a temporary name ([`is_temporary`]), or one that could not be
    /// restored.
    pub unfit: Option<String>,
}

impl DirectoryEntry {
    /// The step that its marker says, or else its name.
    #[must_use]
    pub fn step(&self) -> Option<NamedStep> {
        let marked = self.marked_step.map(|step| NamedStep { step, is_ambiguous: false });
        marked.or_else(|| step_of(&self.name)).filter(|_| !self.is_included)
    }

    /// Whether its marker is of what is there. What marks a file is as new as that; a directory may be written to after it was marked.
    fn is_marked(&self) -> bool {
        self.marked_at.is_some_and(|at| self.folder || at >= self.changed_at)
    }

    fn is_text(&self) -> bool {
        !self.folder && is_text(&self.name)
    }
}

/// How a checkpoint is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepNumber {
    /// Its names say one.
    Named(u64),
    /// Its names say several: which checkpoint is newer, the time says.
    Ambiguous(u64),
    /// It is all that has no number, and is written over.
    Snapshot,
}

impl StepNumber {
    /// The number that its names say.
    #[must_use]
    pub const fn named(self) -> Option<u64> {
        match self {
            Self::Named(step) | Self::Ambiguous(step) => Some(step),
            Self::Snapshot => None,
        }
    }

    /// The number under which it is kept, where `kept` is the newest step: never a lower one.
    #[must_use]
    pub fn place(self, kept: Option<u64>) -> u64 {
        let kept = kept.unwrap_or(0);
        match self {
            Self::Named(step) => step,
            Self::Ambiguous(step) => step.max(kept),
            Self::Snapshot => kept,
        }
    }
}

/// One checkpoint of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct CheckpointStep {
    /// Its number.
    pub number: StepNumber,
    /// The names of its entries, in order.
    pub entries: Vec<String>,
    /// The names of what goes with it, and may change meanwhile: text, small files without a number, and what the spec includes.
    pub companions: Vec<String>,
    /// All that is in its entries.
    pub bytes: u64,
    /// How many files.
    pub files: u64,
    /// When the last of it was changed.
    pub changed_at: Timestamp,
    /// Whether it has not changed for [`QUIET`], or its writers have ended.
    pub still: bool,
    /// Whether it has come to an end, also where it was complete before: nothing of it has changed for [`QUIET`], or the command has ended
    /// with success, or each entry carries a marker that is as new as all else of it.
    pub settled: bool,
    /// Whether it is complete.
    pub complete: bool,
    /// Whether it may be incomplete all the same: it is complete only because the command has ended, in another way than with success, or
    /// because it paused.
    pub unverified: bool,
    /// Why it is not complete, though nothing of it has changed for a while; for its owner.
    pub problem: Option<String>,
}

/// How the command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// It may be writing.
    Running,
    /// It ended with success: whatever it wrote, it wrote to the end.
    Ended,
    /// It failed, was killed, or left processes behind that may have been writing: its last files may be incomplete.
    Killed,
}

/// An entry, since when it is as it is, and whether it was written over.
#[derive(Debug, Clone)]
struct WatchedEntry {
    entry: DirectoryEntry,
    since: Timestamp,
    is_rewritten: bool,
}

/// What the looks at the directory showed so far.
#[derive(Debug, Clone)]
pub struct DirectoryWatch {
    quiet: SignedDuration,
    seen: BTreeMap<String, WatchedEntry>,
    /// Steps with a directory that had a marker at any time; two of them prove that the framework marks every step.
    marked: BTreeSet<u64>,
    /// Whether anything but text has had a number.
    has_numbers: bool,
    /// Since when what has no number changes without being quiet.
    restless_since: Option<Timestamp>,
}

impl Default for DirectoryWatch {
    fn default() -> Self {
        Self::new(QUIET)
    }
}

impl DirectoryWatch {
    /// `quiet` is [`QUIET`], except in tests.
    #[must_use]
    pub const fn new(quiet: SignedDuration) -> Self {
        Self { quiet, seen: BTreeMap::new(), marked: BTreeSet::new(), has_numbers: false, restless_since: None }
    }

    /// Takes a look into account. What the entries' own times say is not believed: a copy may keep those of its original.
    pub fn observe(&mut self, entries: Vec<DirectoryEntry>, now: Timestamp) {
        let mut seen = BTreeMap::new();
        let (mut is_changed, mut last_change) = (false, Timestamp::MIN);
        for entry in entries {
            let step = entry.step();
            if entry.folder && entry.marked_at.is_some() && self.marked.len() < 2 {
                self.marked.extend(step.map(|named| named.step));
            }
            self.has_numbers |= step.is_some() && !entry.is_text();
            let before = self.seen.get(&entry.name);
            let watched = match before {
                Some(before) if before.entry == entry => before.clone(),
                _ => WatchedEntry { entry, since: now, is_rewritten: before.is_some() },
            };
            if step.is_none() && !watched.entry.is_text() {
                is_changed |= watched.since == now;
                last_change = last_change.max(before.map_or(now, |before| before.since));
            }
            seen.insert(watched.entry.name.clone(), watched);
        }
        self.seen = seen;
        if last_change > Timestamp::MIN && now.duration_since(last_change) >= self.quiet {
            self.restless_since = None;
        }
        if is_changed {
            self.restless_since.get_or_insert(now);
        }
    }

    /// What has no number was kept as it is.
    pub const fn snapshot_was_kept(&mut self, now: Timestamp) {
        self.restless_since = Some(now);
    }

    /// What is in the directory, the newest step first, and after them what has no number.
    #[must_use]
    pub fn steps(&self, writer: WriterState, now: Timestamp) -> Vec<CheckpointStep> {
        let mut steps: BTreeMap<u64, Vec<&WatchedEntry>> = BTreeMap::new();
        let mut numberless = Vec::new();
        for seen in self.seen.values() {
            match seen.entry.step() {
                Some(named) => steps.entry(named.step).or_default().push(seen),
                None => numberless.push(seen),
            }
        }
        let is_text = |group: &Vec<&WatchedEntry>| group.iter().all(|seen| seen.entry.is_text());
        let texts = steps.values().filter(|group| is_text(group)).count();
        let has_data = self.has_numbers || numberless.iter().any(|seen| !seen.entry.is_text() && seen.entry.bytes > 0);
        // The first text with a number may be a table or a configuration.
        let text_counts = !has_data && texts > 1;
        steps.retain(|_, group| !is_text(group) || (text_counts && may_all_be_models(group)));
        let (data, companions) = self.split_numberless(&numberless);
        let judge = |number, data: &[&WatchedEntry], companions: &[&WatchedEntry]| {
            self.judge(number, data, companions, writer, now)
        };
        let newest = steps.values().flatten().map(|seen| seen.since).max();
        let mut all: Vec<CheckpointStep> = steps
            .into_iter()
            .rev()
            .map(|(number, group)| {
                let is_ambiguous = group.iter().any(|seen| seen.entry.step().is_some_and(|named| named.is_ambiguous));
                let number = if is_ambiguous { StepNumber::Ambiguous(number) } else { StepNumber::Named(number) };
                judge(number, &group, &companions)
            })
            .collect();
        if all.iter().any(|step| matches!(step.number, StepNumber::Ambiguous(_))) {
            all.sort_by_key(|step| std::cmp::Reverse(step.changed_at));
        }
        // Beside the newest step it is most often a copy of that one.
        let is_later =
            |seen: &&WatchedEntry| newest.is_none_or(|newest| seen.since.duration_since(newest) > self.quiet);
        if data.iter().any(is_later) {
            all.push(judge(StepNumber::Snapshot, &data, &companions));
        }
        all
    }

    /// What has no number: what is a checkpoint by itself, and what goes with others. Text is one where there is nothing else, and it was
    /// written over: a configuration is written once.
    fn split_numberless<'a>(&self, numberless: &[&'a WatchedEntry]) -> (Vec<&'a WatchedEntry>, Vec<&'a WatchedEntry>) {
        let is_data = |seen: &WatchedEntry| {
            let DirectoryEntry { name, bytes, is_included, .. } = &seen.entry;
            let is_companion = self.has_numbers && *bytes <= COMPANION_BYTES_MAX;
            *bytes > 0 && !seen.entry.is_text() && !is_companion && !is_included && !is_temporary(name)
        };
        let mut data: Vec<&WatchedEntry> = numberless.iter().copied().filter(|seen| is_data(seen)).collect();
        if data.is_empty() && !self.has_numbers {
            let is_model = |seen: &WatchedEntry| seen.entry.bytes > 0 && may_be_model(&seen.entry.name);
            let counts = |seen: &WatchedEntry| is_model(seen) && (seen.is_rewritten || seen.entry.is_marked());
            data = numberless.iter().copied().filter(|seen| counts(seen)).collect();
        }
        let names: BTreeSet<&str> = data.iter().map(|seen| seen.entry.name.as_str()).collect();
        let is_companion = |seen: &WatchedEntry| {
            let DirectoryEntry { name, folder, bytes, is_included, .. } = &seen.entry;
            let is_small = !folder && *bytes <= COMPANION_BYTES_MAX;
            (is_small || *is_included) && !names.contains(name.as_str()) && !is_temporary(name)
        };
        let companions = numberless.iter().copied().filter(|seen| is_companion(seen)).collect();
        (data, companions)
    }

    fn judge(
        &self,
        number: StepNumber,
        data: &[&WatchedEntry],
        companions: &[&WatchedEntry],
        writer: WriterState,
        now: Timestamp,
    ) -> CheckpointStep {
        let others_are_marked = number.named().is_some_and(|own| self.marked.iter().any(|marked| *marked != own));
        let all: Vec<&DirectoryEntry> = data.iter().map(|seen| &seen.entry).collect();
        let (has_ended, is_over) = (writer == WriterState::Ended, writer != WriterState::Running);
        let is_quiet = |since: Timestamp| now.duration_since(since) >= self.quiet;
        let pauses = number == StepNumber::Snapshot && self.pauses(data, now);
        let (mut complete, mut certain, mut problem) = (true, true, None);
        for WatchedEntry { entry, since, .. } in data {
            let unmarked = others_are_marked && entry.folder && entry.marked_at.is_none() && !has_ended;
            let wrong = entry.unfit.clone().or_else(|| is_empty(entry, &all).then(|| "it is empty".to_owned()));
            let wrong = wrong.or_else(|| unmarked.then(|| "it carries no marker, as another step does".to_owned()));
            let still = is_quiet(*since) || is_over;
            complete &= wrong.is_none() && (entry.is_marked() || still || pauses);
            certain &= entry.is_marked() || is_quiet(*since) || has_ended;
            problem = problem.or(wrong.filter(|_| still).map(|wrong| format!("`{}`: {wrong}", entry.name)));
        }
        let is_quiet = data.iter().all(|seen| is_quiet(seen.since));
        let is_sealed = all.iter().all(|entry| entry.marked_at.is_some_and(|at| at >= entry.changed_at));
        CheckpointStep {
            number,
            entries: all.iter().map(|entry| entry.name.clone()).collect(),
            companions: companions.iter().map(|seen| seen.entry.name.clone()).collect(),
            bytes: all.iter().map(|entry| entry.bytes).sum(),
            files: all.iter().map(|entry| entry.files).sum(),
            changed_at: all.iter().map(|entry| entry.changed_at).max().unwrap_or(Timestamp::MIN),
            still: is_over || is_quiet,
            settled: is_quiet || is_sealed || has_ended,
            complete,
            unverified: complete && !certain,
            problem,
        }
    }

    /// Whether what is written over again and again, and is never quiet, has not changed between two looks.
    fn pauses(&self, data: &[&WatchedEntry], now: Timestamp) -> bool {
        let is_restless =
            self.restless_since.is_some_and(|since| now.duration_since(since) >= self.quiet.saturating_mul(RESTLESS));
        is_restless && data.iter().all(|seen| now.duration_since(seen.since).saturating_mul(PAUSE) >= self.quiet)
    }
}

fn may_all_be_models(group: &[&WatchedEntry]) -> bool {
    group.iter().all(|seen| may_be_model(&seen.entry.name))
}

/// Nothing is in it, and it is no flag that says something of another entry, as `step-5.done` does of `step-5`.
fn is_empty(entry: &DirectoryEntry, all: &[&DirectoryEntry]) -> bool {
    entry.bytes == 0 && !all.iter().any(|other| other.bytes > 0 && entry.name.starts_with(&other.name))
}
