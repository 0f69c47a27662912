//! A value that changes during a run. Each change counts from the beat that saw it.
//!
//! A timeline is worked out from the beats that saw the run, whatever their order: for two beats, the value of the earlier one
//! holds until the later one. Only the changes are kept. To place a beat that comes late, a timeline needs the moments of the beats
//! around it; the ledger has them.

use jiff::Timestamp;

/// A value, and at most `CHANGES_MAX` changes of it. The next change ends the timeline: later values are not tracked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timeline<T, const CHANGES_MAX: usize> {
    /// Value that the first beat saw. It counts for the time before as well.
    pub(super) first: T,
    /// Each later value from the beat that saw it first, in order. No value equals the previous one.
    pub(super) changes: Vec<(Timestamp, T)>,
    /// The first change that is not kept.
    pub(super) untracked_since: Option<Timestamp>,
}

/// Position of a beat among those that saw the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeatPosition {
    pub(super) at: Timestamp,
    /// The first beat that saw the run, without this one.
    pub(super) first_at: Timestamp,
    /// The next beat after this one that saw the run.
    pub(super) next: Option<Timestamp>,
    /// `true` if another beat of the same moment saw the run too. The greater of their two values counts, so that their order does not
    /// matter.
    pub(super) is_repeated: bool,
}

impl<T: Clone + Ord, const CHANGES_MAX: usize> Timeline<T, CHANGES_MAX> {
    pub(super) const fn new(first: T) -> Self {
        Self { first, changes: Vec::new(), untracked_since: None }
    }

    /// The last tracked value.
    pub(super) fn last(&self) -> &T {
        self.changes.last().map_or(&self.first, |(_, value)| value)
    }

    fn in_force(&self, at: Timestamp) -> &T {
        self.changes.iter().rev().find(|(from, _)| *from <= at).map_or(&self.first, |(_, value)| value)
    }

    /// Adds what one beat saw.
    pub(super) fn add(&mut self, place: BeatPosition, value: &T) {
        let BeatPosition { at, first_at, next, is_repeated } = place;
        if self.untracked_since.is_some_and(|since| at >= since) {
            return;
        }
        let was = self.in_force(at);
        let value = if is_repeated { value.max(was) } else { value }.clone();
        if at >= first_at && value == *was {
            return;
        }
        let is_tracked = |at: &Timestamp| self.untracked_since.is_none_or(|since| *at < since);
        let after = next.filter(is_tracked).map(|next| (next, self.in_force(next).clone()));
        let others = std::iter::once((first_at, self.first.clone())).chain(std::mem::take(&mut self.changes));
        let others = others.filter(|(from, _)| *from != at && Some(*from) != next);
        let mut points: Vec<(Timestamp, T)> = others.chain(after).chain([(at, value)]).collect();
        points.sort_by_key(|(from, _)| *from);
        points.dedup_by(|later, earlier| later.1 == earlier.1);
        self.changes = points.split_off(1);
        self.first = points.remove(0).1;
        if let Some((since, _)) = self.changes.get(CHANGES_MAX) {
            self.untracked_since = Some(*since);
            self.changes.truncate(CHANGES_MAX);
        }
    }
}
