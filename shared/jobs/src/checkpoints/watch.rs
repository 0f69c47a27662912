//! The state of the checkpoint directory, as repeated looks show it: the entries that form one checkpoint, and whether it is complete.

mod groups;
mod judge;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use self::groups::{NumberlessEntries, StepGroup, group_steps};
use self::judge::Judgement;
use super::entry_kind::{is_text, may_be_model};
use super::manifest::Manifest;
use super::name::{NamedStep, step_of};
use super::tracker::Tracker;

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
    /// `true` if it is a directory.
    pub folder: bool,
    /// Size of everything in it.
    pub bytes: u64,
    /// Number of files in it.
    pub files: u64,
    /// The times of the first and the last change of its files.
    pub begun_at: Timestamp,
    pub changed_at: Timestamp,
    /// Time at which a marker was put on it, where it carries one ([`is_marker`](super::is_marker)); a file carries one as a file beside
    /// it.
    pub marked_at: Option<Timestamp>,
    /// The step that its marker says.
    pub marked_step: Option<u64>,
    /// `true` if the spec says that it goes with each checkpoint (`[checkpoint] include`).
    pub is_included: bool,
    /// The reason why it is no checkpoint, for the job's owner: a mark says that it is unfinished ([`is_temporary`](super::is_temporary)),
    /// or a file of it could not be restored.
    pub unfit: Option<String>,
}

impl DirectoryEntry {
    /// The step that its marker says, or else its name.
    #[must_use]
    pub fn step(&self) -> Option<NamedStep> {
        let marked = self.marked_step.map(NamedStep::certain);
        marked.or_else(|| step_of(&self.name)).filter(|_| !self.is_included)
    }

    /// Returns `true` if its marker is that of its present content. A file's marker is at least as new as the file; a directory may be
    /// written to after it was marked.
    fn is_marked(&self) -> bool {
        self.marked_at.is_some_and(|at| self.folder || at >= self.changed_at)
    }

    fn is_text(&self) -> bool {
        !self.folder && is_text(&self.name)
    }
}

/// The number of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepNumber {
    /// Its names say one.
    Named(u64),
    /// Its names say several: which checkpoint is newer, the time says.
    Ambiguous(u64),
    /// The checkpoint is all that has no number, and is written over.
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
            Self::Named(step) | Self::Ambiguous(step) => step.max(kept),
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
    /// The epoch that its names say, within which the number may count.
    pub epoch: Option<u64>,
    /// The names of its entries, in order.
    pub entries: Vec<String>,
    /// The names of what goes with it, and may change meanwhile: text, small files without a number, and what the spec includes.
    pub companions: Vec<String>,
    /// The names of data without a number that goes with it, such as the state of an optimizer.
    pub state: Vec<String>,
    /// The names of files without a number that have the size of a file of it, and may be copies.
    pub copies: Vec<String>,
    /// Size of everything in its entries and its state.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// The times of its first and last change.
    pub begun_at: Timestamp,
    pub changed_at: Timestamp,
    /// `true` if it has not changed for [`QUIET`], or its writers have ended.
    pub still: bool,
    /// `true` if it has come to an end, also where it was complete before: no part of it has changed for [`QUIET`], or the command has
    /// ended with success, or each entry carries a marker that is as new as all else of it.
    pub settled: bool,
    /// `true` if it is complete.
    pub complete: bool,
    /// `true` if it may be incomplete all the same: it is complete only because the command has ended, in another way than with success, or
    /// because it paused.
    pub unverified: bool,
    /// The reason why it is not complete, though no part of it has changed for a while; for the job's owner.
    pub problem: Option<String>,
}

/// The state of the command that writes the checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// The command may be writing.
    Running,
    /// The command ended with success: it wrote every file to the end.
    Ended,
    /// The command failed, was killed, or left processes behind that may have been writing: its last files may be incomplete.
    Killed,
}

/// An entry, since when it is as it is, and whether it was written over.
#[derive(Debug, Clone)]
struct WatchedEntry {
    entry: DirectoryEntry,
    since: Timestamp,
    first_seen: Timestamp,
    is_rewritten: bool,
    /// The time since which it changes without being quiet.
    restless_since: Option<Timestamp>,
    /// True if it was there before the command began, and is as it was.
    is_from_before: bool,
}

/// The checkpoints of a directory.
#[derive(Debug, Clone)]
pub struct DirectorySummary {
    /// The newest step first, and after them all that has no number.
    pub steps: Vec<CheckpointStep>,
    /// The name of data without a number that goes with no step, because it changes all the time or is larger than each.
    pub left_out: Option<String>,
}

/// The results of all looks at the directory so far.
#[derive(Debug, Clone)]
pub struct DirectoryWatch {
    quiet: SignedDuration,
    seen: BTreeMap<String, WatchedEntry>,
    /// Entries that lay there before the command began, and were not restored.
    before: BTreeMap<String, DirectoryEntry>,
    /// Steps with a directory that had a marker at any time; two of them prove that the framework marks every step.
    marked: BTreeSet<u64>,
    /// Steps that had a flag beside them at any time, such as `step-5.done`, by the text after the name; two of them prove that the
    /// framework flags every step.
    flagged: BTreeMap<String, BTreeSet<u64>>,
    /// The flags that any look showed: an entry that is held has none beside it.
    flags: BTreeSet<String>,
    trackers: Vec<Tracker>,
    /// The steps that trackers named first, and those that have named a higher one since.
    first_tracked: BTreeMap<String, u64>,
    following: BTreeSet<String>,
    /// Every step that any look showed.
    steps_seen: BTreeSet<u64>,
    /// `true` if anything but text has had a number.
    has_numbers: bool,
    /// Time since which data without a number changes without being quiet.
    restless_since: Option<Timestamp>,
}

impl Default for DirectoryWatch {
    fn default() -> Self {
        Self::new(QUIET, Vec::new())
    }
}

impl DirectoryWatch {
    /// `quiet` is [`QUIET`], except in tests. What was there `before` the command began, and stays as it was, is no checkpoint of it.
    #[must_use]
    pub fn new(quiet: SignedDuration, before: Vec<DirectoryEntry>) -> Self {
        Self {
            quiet,
            seen: BTreeMap::new(),
            before: before.into_iter().map(|entry| (entry.name.clone(), entry)).collect(),
            marked: BTreeSet::new(),
            flagged: BTreeMap::new(),
            flags: BTreeSet::new(),
            trackers: Vec::new(),
            first_tracked: BTreeMap::new(),
            following: BTreeSet::new(),
            steps_seen: BTreeSet::new(),
            has_numbers: false,
            restless_since: None,
        }
    }

    /// Takes a look into account. What the entries' own times say is not believed: a copy may keep those of its original.
    pub fn observe(&mut self, entries: Vec<DirectoryEntry>, now: Timestamp) {
        let mut seen = BTreeMap::new();
        let (mut is_changed, mut last_change) = (false, Timestamp::MIN);
        self.note_flags(&entries);
        for entry in entries {
            let step = entry.step();
            if entry.folder && entry.marked_at.is_some() && self.marked.len() < 2 {
                self.marked.extend(step.map(|named| named.step));
            }
            let before = self.seen.get(&entry.name);
            let watched = self.watch_entry(entry, now);
            if !watched.is_from_before {
                self.has_numbers |= step.is_some() && !watched.entry.is_text();
                self.steps_seen.extend(step.map(|named| named.step));
            }
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

    fn watch_entry(&self, entry: DirectoryEntry, now: Timestamp) -> WatchedEntry {
        let is_from_before = self.before.get(&entry.name) == Some(&entry);
        match self.seen.get(&entry.name) {
            Some(before) if before.entry == entry => before.clone(),
            before => {
                let was_quiet = before.is_none_or(|before| now.duration_since(before.since) >= self.quiet);
                let restless_since =
                    before.filter(|_| !was_quiet).and_then(|before| before.restless_since).or(Some(now));
                let first_seen = before.map_or(now, |before| before.first_seen);
                let is_rewritten = before.is_some();
                WatchedEntry { entry, since: now, first_seen, is_rewritten, restless_since, is_from_before }
            }
        }
    }

    /// Takes into account what the trackers of a look name.
    pub fn observe_trackers(&mut self, trackers: Vec<Tracker>) {
        for tracker in &trackers {
            let first = *self.first_tracked.entry(tracker.name.clone()).or_insert(tracker.step);
            if tracker.step > first {
                self.following.insert(tracker.name.clone());
            }
        }
        self.trackers = trackers;
    }

    /// The tracker that names the newest whole checkpoint, of those that do: one by its name, else one that follows the checkpoints. One that names
    /// a step that never was there counts something else.
    fn newest_whole(&self) -> Option<&Tracker> {
        let is_believed = |tracker: &&Tracker| {
            (tracker.is_newest_by_name || self.following.contains(&tracker.name))
                && self.steps_seen.contains(&tracker.step)
        };
        self.trackers.iter().filter(is_believed).max_by_key(|tracker| (tracker.is_newest_by_name, tracker.step))
    }

    fn note_flags(&mut self, entries: &[DirectoryEntry]) {
        let bases: BTreeSet<&str> =
            entries.iter().filter(|base| base.bytes > 0).map(|base| base.name.as_str()).collect();
        for flag in entries {
            let (Some(named), Some((base, after))) = (flag.step(), groups::flag_in(&flag.name)) else { continue };
            if bases.contains(base) {
                self.flags.insert(flag.name.clone());
                let steps = self.flagged.entry(after.to_owned()).or_default();
                if steps.len() < 2 {
                    steps.insert(named.step);
                }
            }
        }
    }

    /// Notes that the data without a number was kept as it is.
    pub const fn snapshot_was_kept(&mut self, now: Timestamp) {
        self.restless_since = Some(now);
    }

    /// The checkpoints of the directory, the newest step first, and after them all that has no number.
    #[must_use]
    pub fn steps(&self, writer: WriterState, now: Timestamp) -> Vec<CheckpointStep> {
        self.summarize(writer, now).steps
    }

    /// Returns the same checkpoints as [`Self::steps`], and the data that goes with none of them.
    #[must_use]
    pub fn summarize(&self, writer: WriterState, now: Timestamp) -> DirectorySummary {
        let mut judgement = Judgement::new(self, writer, now);
        let (groups, numberless) = self.groups(now);
        judgement.track(&groups);
        let mut all: Vec<CheckpointStep> = groups
            .iter()
            .map(|group| CheckpointStep {
                copies: numberless.copies_of(group),
                ..judgement.judge_group(group, &numberless.companions)
            })
            .collect();
        if all.iter().any(|step| matches!(step.number, StepNumber::Ambiguous(_))) {
            all.sort_by_key(|step| std::cmp::Reverse(step.changed_at));
        }
        let newest = groups.iter().flat_map(|group| &group.entries).map(|seen| seen.since).max();
        // Beside the newest step it is most often a copy of that one.
        let is_later =
            |seen: &&WatchedEntry| newest.is_none_or(|newest| seen.since.duration_since(newest) > self.quiet);
        if numberless.data.iter().any(is_later) {
            all.push(judgement.judge(StepNumber::Snapshot, &numberless.data, &[], &numberless.companions));
        }
        let left_out = numberless.left_out.first().map(|seen| seen.entry.name.clone());
        DirectorySummary { steps: all, left_out }
    }

    /// The checkpoint of a manifest as it lies in the directory, after its writers have ended.
    #[must_use]
    pub fn step_of_manifest(&self, manifest: &Manifest, now: Timestamp) -> Option<CheckpointStep> {
        let top = |path: &str| path.split('/').next().map(str::to_owned);
        let companions: BTreeSet<&str> = manifest.companions.iter().map(String::as_str).collect();
        let paths: BTreeSet<String> = manifest.files.iter().filter_map(|file| top(&file.path)).collect();
        let seen = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<&WatchedEntry> {
            self.seen.values().filter(|seen| is_wanted(&seen.entry.name)).collect()
        };
        let data = seen(&|name| paths.contains(name) && !companions.contains(name));
        let beside = seen(&|name| companions.contains(name));
        let (state, companions): (Vec<_>, Vec<_>) =
            beside.into_iter().partition(|seen| groups::is_state_by_form(&seen.entry));
        let number = match data.iter().find_map(|seen| seen.entry.step()) {
            _ if manifest.snapshot => StepNumber::Snapshot,
            Some(named) if named.is_ambiguous => StepNumber::Ambiguous(manifest.number.unwrap_or(named.step)),
            named => StepNumber::Named(manifest.number.or(named.map(|named| named.step))?),
        };
        let judgement = Judgement::new(self, WriterState::Ended, now);
        (!data.is_empty()).then(|| judgement.judge(number, &data, &state, &companions))
    }

    fn groups(&self, now: Timestamp) -> (Vec<StepGroup<'_>>, NumberlessEntries<'_>) {
        let mut steps: BTreeMap<(u64, Option<u64>), Vec<&WatchedEntry>> = BTreeMap::new();
        let mut numberless = Vec::new();
        for seen in self.seen.values() {
            match seen.entry.step() {
                Some(_) if seen.is_from_before => {}
                Some(named) => steps.entry((named.step, named.epoch)).or_default().push(seen),
                None => numberless.push(seen),
            }
        }
        let is_text = |group: &Vec<&WatchedEntry>| group.iter().all(|seen| seen.entry.is_text());
        let texts = steps.values().filter(|group| is_text(group)).count();
        let has_data = self.has_numbers || numberless.iter().any(|seen| !seen.entry.is_text() && seen.entry.bytes > 0);
        // The first text with a number may be a table or a configuration.
        let text_counts = !has_data && texts > 1;
        steps.retain(|_, group| !is_text(group) || (text_counts && may_all_be_models(group)));
        let groups = group_steps(steps, self.quiet);
        self.split_numberless(groups, &numberless, now)
    }

    /// Returns `true` if data that is written over again and again, and is never quiet, has not changed between two looks.
    fn pauses(&self, data: &[&WatchedEntry], now: Timestamp) -> bool {
        let is_restless =
            self.restless_since.is_some_and(|since| now.duration_since(since) >= self.quiet.saturating_mul(RESTLESS));
        is_restless && data.iter().all(|seen| now.duration_since(seen.since).saturating_mul(PAUSE) >= self.quiet)
    }
}

fn may_all_be_models(group: &[&WatchedEntry]) -> bool {
    group.iter().all(|seen| may_be_model(&seen.entry.name))
}
