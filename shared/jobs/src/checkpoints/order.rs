//! The order of the checkpoints of a directory: it tells whether one is newer than the newest that is kept.
//!
//! Within one count the higher step is newer. A command may count again from the beginning: a second training of the same command does, and
//! so does one that did not resume. So a lower step that appears after the newest was kept is newer as well, if it looks like a checkpoint
//! of this command.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::entry_kind::{extension_of, is_best};
use super::name::unit_of;
use super::watch::{CheckpointStep, DirectoryEntry, StepNumber};

/// A lower step with less than this part of the bytes of the newest is something else, such as the result of an evaluation.
const ALIKE_PART: u64 = 10;

/// The lowest number that is a time (`20240102123005`): a clock may go back, so it proves nothing.
const TIME_MIN: u64 = 19_700_101_000_000;

/// The relation of a step of the directory to the newest that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// Its step is higher.
    Newer,
    /// Its step is lower, and it was written later: the command counts again from the beginning.
    CountsAgain,
    /// The name of the checkpoint that the command resumed from, with a lower step: the command did not resume.
    NotResumed,
    /// Its step is lower, it was written later, and it does not look like a checkpoint of this command.
    Foreign,
    /// The newest, or an older one.
    Passed,
}

/// The newest checkpoint that is kept, and what is older.
#[derive(Debug, Clone, Default)]
pub struct UploadOrder {
    newest: Option<CheckpointStep>,
    /// Entries that are older, by name, each with the last change and the bytes of its step.
    older: BTreeMap<String, (Timestamp, u64)>,
    /// True if the command has resumed from the newest, and has written nothing newer.
    is_resumed: bool,
    has_counted_again: bool,
    /// True if the newest has to be uploaded again.
    repeats_newest: bool,
}

impl UploadOrder {
    /// The order for a command that resumes from `newest`, where `others` were in the directory before it began. If it has counted again in an earlier attempt, a
    /// lower step says nothing: it may be its second training, or write its checkpoints to two names in turn.
    #[must_use]
    pub fn resumed(newest: CheckpointStep, others: &[CheckpointStep], has_counted_again: bool) -> Self {
        let is_resumed = !has_counted_again;
        let mut order = Self { is_resumed, has_counted_again, newest: Some(newest), ..Self::default() };
        for other in others {
            order.pass(other);
        }
        order
    }

    /// The step of the newest by its name.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.newest.as_ref().and_then(|newest| newest.number.named())
    }

    /// True if a lower step was kept after a higher one, with this one or before.
    #[must_use]
    pub fn counts_again_with(&self, step: &CheckpointStep) -> bool {
        self.has_counted_again || self.precedence(step) == Precedence::CountsAgain
    }

    /// Has the newest uploaded once more, in order with what is newer: the bucket with its upload is left.
    pub const fn repeat_newest(&mut self) {
        self.repeats_newest = true;
    }

    /// Accepts that the command did not resume: it counts again.
    pub const fn accept_new_count(&mut self) {
        self.is_resumed = false;
    }

    fn pass(&mut self, step: &CheckpointStep) {
        self.older.extend(step.entries.iter().map(|name| (name.clone(), (step.changed_at, step.bytes))));
    }

    /// A step was kept. `listed` are all steps of that look: what began before it is older.
    pub fn keep(&mut self, step: &CheckpointStep, listed: &[CheckpointStep]) {
        let Some(number) = step.number.named() else { return };
        let own = (step.epoch, number);
        let is_lower =
            |other: &CheckpointStep| other.number.named().map(|number| is_at_least(own, (other.epoch, number)));
        let counts_again = self.newest.as_ref().is_some_and(|newest| is_lower(newest) == Some(false));
        self.has_counted_again |= counts_again;
        let is_older = |other: &&CheckpointStep| match is_lower(other) {
            // What is being written beside it may belong to the next count.
            Some(true) => other.complete || other.changed_at <= step.changed_at,
            Some(false) => counts_again && other.changed_at <= step.changed_at,
            None => false,
        };
        let before = self.newest.take();
        for other in listed.iter().filter(is_older).chain(&before) {
            self.pass(other);
        }
        self.older.retain(|name, _| !step.entries.contains(name));
        (self.newest, self.is_resumed, self.repeats_newest) = (Some(step.clone()), false, false);
    }

    /// The relation of a step to the newest.
    #[must_use]
    pub fn precedence(&self, step: &CheckpointStep) -> Precedence {
        let Some(newest) = &self.newest else { return Precedence::Newer };
        let Some(number) = newest.number.named() else { return Precedence::Newer };
        // Some trainers write over an older one, to make it smaller.
        let is_older = |name: &String| {
            self.older.get(name).is_some_and(|(passed_at, bytes)| step.begun_at <= *passed_at || step.bytes < bytes / 2)
        };
        let is_newest = step.entries.iter().any(|name| newest.entries.contains(name));
        match step.number {
            _ if is_newest && self.repeats_newest => Precedence::Newer,
            StepNumber::Ambiguous(_) if step.changed_at > newest.changed_at => Precedence::Newer,
            StepNumber::Ambiguous(_) | StepNumber::Snapshot => Precedence::Passed,
            StepNumber::Named(_) if is_newest || step.entries.iter().any(is_older) => Precedence::Passed,
            StepNumber::Named(own) if is_at_least((step.epoch, own), (newest.epoch, number)) => Precedence::Newer,
            StepNumber::Named(own) if self.is_resumed && own < TIME_MIN && has_same_form(step, newest) => {
                Precedence::NotResumed
            }
            StepNumber::Named(_) if is_alike(step, newest) => Precedence::CountsAgain,
            StepNumber::Named(_) => Precedence::Foreign,
        }
    }

    /// True if the entry of a step may still be uploaded.
    #[must_use]
    pub fn is_undecided(&self, entry: &DirectoryEntry) -> bool {
        let is_newest = self.newest.as_ref().is_some_and(|newest| newest.entries.contains(&entry.name));
        let is_newest = is_newest && !self.repeats_newest;
        let is_older = self.older.get(&entry.name).is_some_and(|(passed_at, _)| entry.begun_at <= *passed_at);
        let is_ambiguous = entry.step().is_some_and(|named| named.is_ambiguous);
        is_ambiguous || (!is_newest && !is_older)
    }

    /// True if a step is newer, complete or not.
    #[must_use]
    pub fn is_next(&self, step: &CheckpointStep) -> bool {
        step.number != StepNumber::Snapshot
            && matches!(self.precedence(step), Precedence::Newer | Precedence::CountsAgain)
    }

    /// The complete steps that are newer: the newest first, and the unverified ones after all others, so that what they may have to be given up
    /// for is in the bucket by then.
    pub fn to_upload<'a>(&'a self, steps: &'a [CheckpointStep]) -> impl Iterator<Item = &'a CheckpointStep> {
        let next = |step: &&CheckpointStep| step.complete && self.is_next(step);
        let certain = steps.iter().filter(move |step| next(step) && !step.unverified);
        certain.chain(steps.iter().filter(move |step| next(step) && step.unverified))
    }

    /// Steps that are newer, and cannot be kept as they are.
    pub fn unfinished<'a>(&'a self, steps: &'a [CheckpointStep]) -> impl Iterator<Item = &'a CheckpointStep> {
        steps.iter().filter(|step| !step.complete && self.is_next(step))
    }

    /// A complete step of that precedence.
    #[must_use]
    pub fn find<'a>(&self, steps: &'a [CheckpointStep], precedence: Precedence) -> Option<&'a CheckpointStep> {
        steps.iter().find(|step| step.complete && self.precedence(step) == precedence)
    }
}

/// Compares two steps, each with its epoch: by that first where both have one.
fn is_at_least(own: (Option<u64>, u64), other: (Option<u64>, u64)) -> bool {
    if own.0.is_some() && other.0.is_some() { own >= other } else { own.1 >= other.1 }
}

/// True if an entry of both has the same name but for its numbers.
fn has_same_form(one: &CheckpointStep, other: &CheckpointStep) -> bool {
    let forms = |step: &CheckpointStep| -> BTreeSet<String> { step.entries.iter().map(|name| form_of(name)).collect() };
    !forms(one).is_disjoint(&forms(other))
}

/// A name with a zero for each number.
pub(super) fn form_of(name: &str) -> String {
    let digit = |character: char| if character.is_ascii_digit() { '0' } else { character };
    let mut form: Vec<char> = name.chars().map(digit).collect();
    form.dedup_by(|one, before| *one == '0' && *before == '0');
    form.into_iter().collect()
}

/// True if one looks like a checkpoint of the command that wrote the other: an entry has the extension of another's, its name does not say that it
/// is the best, and it is not much smaller, where both count the same, or about as large: some trainers write one at each end of an epoch besides.
fn is_alike(one: &CheckpointStep, other: &CheckpointStep) -> bool {
    let is_as_large = one.bytes >= other.bytes / 2 && one.bytes / 2 <= other.bytes;
    let is_no_smaller = one.bytes.saturating_mul(ALIKE_PART) >= other.bytes;
    let is_of_kind = |name: &String, other: &String| {
        extension_of(name) == extension_of(other) && (is_as_large || (is_no_smaller && unit_of(name) == unit_of(other)))
    };
    one.entries.iter().any(|name| !is_best(name) && other.entries.iter().any(|other| is_of_kind(name, other)))
}
