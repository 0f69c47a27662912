//! Grouping of entries: those that form one checkpoint, and the data without a number that goes with it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::super::entry_kind::{extension_of, is_named_copy, is_tool_folder, may_be_model};
use super::super::name::{StepUnit, unit_of};
use super::super::order::form_of;
use super::super::unfinished::is_temporary;
use super::{COMPANION_BYTES_MAX, DirectoryEntry, DirectoryWatch, RESTLESS, StepNumber, WatchedEntry};

/// Words of a flag beside a step that its writer sets at the end.
const FLAG_WORDS: [&str; 9] =
    ["done", "success", "complete", "completed", "finished", "ok", "commit", "committed", "ready"];

/// Data that is written once goes with each step up to so many bytes, even if it is larger than the step: a tokenizer is, and a copy of the model
/// that the training began with is not.
const STATIC_BYTES_MAX: u64 = 1 << 30;

/// The entries of one checkpoint.
#[derive(Debug)]
pub(super) struct StepGroup<'a> {
    pub(super) number: StepNumber,
    pub(super) entries: Vec<&'a WatchedEntry>,
    /// True if data that went with it was written over for a newer one.
    pub(super) lacks_state: bool,
    /// Data without a number that goes with it.
    pub(super) state: Vec<&'a WatchedEntry>,
}

impl StepGroup<'_> {
    /// The first look that showed it: what is copied into a checkpoint may keep the time of its original.
    fn first_seen(&self) -> Timestamp {
        self.entries.iter().map(|seen| seen.first_seen).min().unwrap_or(Timestamp::MIN)
    }

    pub(super) fn changed_at(&self) -> Timestamp {
        self.entries.iter().map(|seen| seen.entry.changed_at).max().unwrap_or(Timestamp::MIN)
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().fold(0, |sum, seen| sum.saturating_add(seen.entry.bytes))
    }
}

#[derive(Debug)]
pub(super) struct NumberlessEntries<'a> {
    /// A checkpoint by itself.
    pub(super) data: Vec<&'a WatchedEntry>,
    /// Small files that go with each checkpoint.
    pub(super) companions: Vec<&'a WatchedEntry>,
    /// Data that goes with none.
    pub(super) left_out: Vec<&'a WatchedEntry>,
}

impl NumberlessEntries<'_> {
    /// The files with the size of a file of a group.
    pub(super) fn copies_of(&self, group: &StepGroup<'_>) -> Vec<String> {
        let has_size = |seen: &&&WatchedEntry| {
            let is_as_large = |other: &DirectoryEntry| !other.folder && other.bytes == seen.entry.bytes;
            !seen.entry.folder && group.entries.iter().any(|other| is_as_large(&other.entry))
        };
        self.data.iter().filter(has_size).map(|seen| seen.entry.name.clone()).collect()
    }
}

/// The checkpoints of a directory, the highest step first. Of one number there may be several: a command counts again from the beginning under another
/// name, or saves several times in an epoch that is all that its names count.
pub(super) fn group_steps<'a>(
    mut by_number: BTreeMap<(u64, Option<u64>), Vec<&'a WatchedEntry>>,
    quiet: SignedDuration,
) -> Vec<StepGroup<'a>> {
    let mut groups: Vec<StepGroup<'a>> = Vec::new();
    // An entry that says no epoch belongs to the one that does.
    let alone: Vec<u64> = by_number.keys().filter(|(_, epoch)| epoch.is_none()).map(|(number, _)| *number).collect();
    for number in alone {
        let epochs: Vec<Option<u64>> =
            by_number.range((number, Some(0))..=(number, Some(u64::MAX))).map(|((_, epoch), _)| *epoch).collect();
        if let [epoch] = *epochs.as_slice()
            && let Some(entries) = by_number.remove(&(number, None))
        {
            by_number.entry((number, epoch)).or_default().extend(entries);
        }
    }
    let mut by_order: Vec<_> = by_number.into_iter().collect();
    if by_order.iter().all(|((_, epoch), _)| epoch.is_some()) {
        by_order.sort_by_key(|((number, epoch), _)| (*epoch, *number));
    }
    for ((number, _), mut entries) in by_order.into_iter().rev() {
        entries.sort_by_key(|seen| seen.entry.begun_at);
        let newest_before = groups.iter().map(StepGroup::changed_at).max();
        let mut parts: Vec<Vec<&WatchedEntry>> = Vec::new();
        for seen in entries {
            match parts.last_mut() {
                Some(part) if !begins_another(part, seen, newest_before, quiet) => part.push(seen),
                _ => parts.push(vec![seen]),
            }
        }
        groups.extend(parts.into_iter().rev().map(|entries| {
            let is_ambiguous = entries.iter().any(|seen| seen.entry.step().is_some_and(|named| named.is_ambiguous));
            let number = if is_ambiguous { StepNumber::Ambiguous(number) } else { StepNumber::Named(number) };
            StepGroup { number, entries, lacks_state: false, state: Vec::new() }
        }));
    }
    groups
}

/// True if an entry of the same number is another checkpoint than `part`: it was begun when that was quiet, has the extension and the unit of an entry of
/// it, and either a higher step was written in between, or its name counts only epochs.
fn begins_another(
    part: &[&WatchedEntry],
    seen: &WatchedEntry,
    newest_before: Option<Timestamp>,
    quiet: SignedDuration,
) -> bool {
    let name = &seen.entry.name;
    let last_change = part.iter().map(|other| other.entry.changed_at).max().unwrap_or(Timestamp::MIN);
    let is_later = |than: Timestamp| seen.entry.begun_at.duration_since(than) >= quiet;
    let is_of_kind = |other: &&WatchedEntry| {
        let DirectoryEntry { name: other, folder, .. } = &other.entry;
        *folder == seen.entry.folder && extension_of(other) == extension_of(name) && unit_of(other) == unit_of(name)
    };
    let counts_again = newest_before.is_some_and(|newest| newest > last_change && seen.entry.begun_at > newest);
    // Not of a model and its optimizer.
    let has_form = |other: &&WatchedEntry| form_of(&other.entry.name) == form_of(name);
    let is_save_of_epoch = unit_of(name) == Some(StepUnit::Epoch) && part.iter().any(has_form);
    is_later(last_change) && part.iter().any(is_of_kind) && (counts_again || is_save_of_epoch)
}

/// The name of the entry that a flag is beside, and what follows: `step-5` and `.done`.
pub(super) fn flag_in(flag: &str) -> Option<(&str, &str)> {
    let joint = flag.rfind(|joint: char| !joint.is_alphanumeric())?;
    let word = flag[joint..].trim_start_matches(|joint: char| !joint.is_alphanumeric());
    FLAG_WORDS.contains(&word.to_ascii_lowercase().as_str()).then(|| flag.split_at(joint))
}

/// True if an entry beside steps is data and no companion, by its size and shape.
pub(super) fn is_state_by_form(entry: &DirectoryEntry) -> bool {
    entry.bytes > 0 && !entry.is_text() && !entry.is_included && (entry.folder || entry.bytes > COMPANION_BYTES_MAX)
}

impl DirectoryWatch {
    /// Splits the entries without a number into those that are a checkpoint by themselves, and those that go with others. Text is a
    /// checkpoint where there is nothing else, and it was written over: a configuration is written once.
    pub(super) fn split_numberless<'a>(
        &self,
        mut groups: Vec<StepGroup<'a>>,
        numberless: &[&'a WatchedEntry],
        now: Timestamp,
    ) -> (Vec<StepGroup<'a>>, NumberlessEntries<'a>) {
        let is_data = |seen: &WatchedEntry| {
            let DirectoryEntry { name, bytes, is_included, .. } = &seen.entry;
            let is_large = if self.has_numbers { is_state_by_form(&seen.entry) } else { !seen.entry.is_text() };
            *bytes > 0 && is_large && !is_included && !is_temporary(name) && !seen.is_from_before
        };
        let mut data: Vec<&WatchedEntry> = numberless.iter().copied().filter(|seen| is_data(seen)).collect();
        if data.is_empty() && !self.has_numbers {
            let is_model = |seen: &WatchedEntry| seen.entry.bytes > 0 && may_be_model(&seen.entry.name);
            let counts = |seen: &WatchedEntry| is_model(seen) && (seen.is_rewritten || seen.entry.is_marked());
            data = numberless.iter().copied().filter(|seen| counts(seen)).collect();
        }
        let is_companion = |seen: &WatchedEntry| {
            let DirectoryEntry { name, folder, bytes, is_included, .. } = &seen.entry;
            let is_small = !folder && *bytes <= COMPANION_BYTES_MAX;
            (is_small || *is_included) && !data.iter().any(|data| data.entry.name == *name) && !is_temporary(name)
        };
        let companions = numberless.iter().copied().filter(|seen| is_companion(seen)).collect();
        let mut split = NumberlessEntries { data: Vec::new(), companions, left_out: Vec::new() };
        for seen in data {
            if groups.is_empty() || is_copy(seen, &groups) {
                split.data.push(seen);
            } else if !self.assign(seen, &mut groups, now) {
                split.left_out.push(seen);
            }
        }
        (groups, split)
    }

    /// Adds data to the checkpoints that it goes with: what is written over goes with the newest that had begun by then, and what is written once
    /// with each.
    fn assign<'a>(&self, seen: &'a WatchedEntry, groups: &mut [StepGroup<'a>], now: Timestamp) -> bool {
        if is_tool_folder(&seen.entry.name) {
            return true;
        }
        let is_quiet = now.duration_since(seen.since) >= self.quiet;
        let is_restless = seen
            .restless_since
            .is_some_and(|since| !is_quiet && now.duration_since(since) >= self.quiet.saturating_mul(RESTLESS));
        let largest = groups.iter().map(StepGroup::bytes).max().unwrap_or(0);
        if is_restless || (!seen.is_rewritten && seen.entry.bytes > largest.max(STATIC_BYTES_MAX)) {
            return false;
        }
        if !seen.is_rewritten {
            for group in groups {
                group.state.push(seen);
            }
            return true;
        }
        let has_begun = |group: &&StepGroup<'_>| group.first_seen().duration_since(seen.since) <= self.quiet;
        let last_begun = groups.iter().filter(has_begun).map(StepGroup::first_seen).max();
        let is_newest = |group: &StepGroup<'_>| Some(group.first_seen()) == last_begun;
        let mut from_newest = groups.iter_mut().skip_while(|group| !is_newest(group));
        if let Some(newest) = from_newest.next() {
            newest.state.push(seen);
        }
        for older in from_newest {
            older.lacks_state = true;
        }
        true
    }
}

/// True if data is a copy of one of the checkpoints: its name says so, and it is no smaller than half of one; or it has the bytes of one.
fn is_copy(seen: &WatchedEntry, groups: &[StepGroup<'_>]) -> bool {
    let bytes = seen.entry.bytes;
    let has_size =
        |group: &StepGroup<'_>| bytes == group.bytes() || group.entries.iter().any(|entry| entry.entry.bytes == bytes);
    let is_half = |group: &StepGroup<'_>| bytes >= group.bytes() / 2;
    groups.iter().any(has_size) || (is_named_copy(&seen.entry.name) && groups.iter().any(is_half))
}
