//! The completeness of a checkpoint.

use jiff::Timestamp;

use super::groups::StepGroup;
use super::{CheckpointStep, DirectoryEntry, DirectoryWatch, StepNumber, WatchedEntry, WriterState};
use crate::checkpoints::Tracker;

/// One judgement about all checkpoints of a directory.
pub(super) struct Judgement<'a> {
    watch: &'a DirectoryWatch,
    writer: WriterState,
    now: Timestamp,
    /// The file or link that names the newest whole checkpoint, and when that was changed last.
    tracked: Option<(&'a Tracker, Timestamp)>,
    /// True if two steps were begun since: then nobody moves it any more. One that is none by its name may be the result of an evaluation.
    is_stale_tracker: bool,
}

/// The part of one entry in the judgement.
struct EntryState {
    complete: bool,
    certain: bool,
    problem: Option<String>,
}

impl EntryState {
    fn and(self, other: Self) -> Self {
        Self {
            complete: self.complete && other.complete,
            certain: self.certain && other.certain,
            problem: self.problem.or(other.problem),
        }
    }
}

impl<'a> Judgement<'a> {
    /// Makes a judgement without a tracker.
    pub(super) const fn new(watch: &'a DirectoryWatch, writer: WriterState, now: Timestamp) -> Self {
        Self { watch, writer, now, tracked: None, is_stale_tracker: false }
    }

    /// Reads the tracker, where one is believed.
    pub(super) fn track(&mut self, groups: &[StepGroup<'_>]) {
        let Some(tracker) = self.watch.newest_whole() else { return };
        let named = groups.iter().find(|group| group.number.named() == Some(tracker.step));
        let changed_at = named.map_or(Timestamp::MIN, StepGroup::changed_at);
        self.tracked = Some((tracker, changed_at));
        let is_past = |group: &&StepGroup<'_>| self.past_tracker(group.number, group.changed_at()).is_some();
        self.is_stale_tracker = !tracker.is_newest_by_name || groups.iter().filter(is_past).count() > 1;
    }

    /// The tracker that names a lower step than that one.
    fn past_tracker(&self, number: StepNumber, changed_at: Timestamp) -> Option<&'a Tracker> {
        let (tracker, since) = self.tracked?;
        number.named().filter(|step| *step > tracker.step && changed_at > since).map(|_| tracker)
    }

    /// One that lacks data which went with it may not be resumed from.
    pub(super) fn judge_group(&self, group: &StepGroup<'_>, companions: &[&WatchedEntry]) -> CheckpointStep {
        let step = self.judge(group.number, &group.entries, &group.state, companions);
        CheckpointStep { unverified: step.complete && (step.unverified || group.lacks_state), ..step }
    }

    pub(super) fn judge(
        &self,
        number: StepNumber,
        data: &[&WatchedEntry],
        state: &[&WatchedEntry],
        companions: &[&WatchedEntry],
    ) -> CheckpointStep {
        let all: Vec<&DirectoryEntry> = data.iter().map(|seen| &seen.entry).collect();
        let (has_ended, is_over) = (self.writer == WriterState::Ended, self.writer != WriterState::Running);
        let is_quiet = data.iter().chain(state).all(|seen| self.is_quiet(seen));
        let changed_at = latest(data.iter().chain(state).map(|seen| seen.entry.changed_at));
        let pauses = number == StepNumber::Snapshot && self.watch.pauses(data, self.now);
        let own = data.iter().map(|seen| {
            let wrong =
                seen.entry.unfit.clone().or_else(|| is_empty(&seen.entry, &all).then(|| "it is empty".to_owned()));
            let is_unmarked = || self.lacks_mark(number, seen, &all);
            let wrong =
                wrong.or_else(|| is_unmarked().then(|| "it carries no marker, as another step does".to_owned()));
            self.judge_entry(seen, wrong, seen.entry.is_marked(), pauses)
        });
        let beside = state.iter().map(|seen| self.judge_entry(seen, seen.entry.unfit.clone(), false, false));
        let whole = EntryState { complete: true, certain: true, problem: None };
        let EntryState { mut complete, mut certain, mut problem } = own.chain(beside).fold(whole, EntryState::and);
        if let Some(tracker) = self.past_tracker(number, changed_at) {
            // A framework that moves its tracker has gone on without this one; a command that has ended well wrote all of it.
            complete &= self.is_stale_tracker || has_ended;
            certain = false;
            let wrong = format!("`{}` names step {} as the newest whole one", tracker.name, tracker.step);
            problem = problem.or((!complete && (is_quiet || is_over)).then_some(wrong));
        } else if self.tracked.is_some_and(|(tracker, _)| number.named() == Some(tracker.step)) {
            certain = true;
        }
        let is_sealed = all.iter().all(|entry| entry.marked_at.is_some_and(|at| at >= entry.changed_at));
        CheckpointStep {
            number,
            epoch: data.iter().find_map(|seen| seen.entry.step()?.epoch),
            entries: names(data),
            companions: names(companions),
            state: names(state),
            copies: Vec::new(),
            bytes: data.iter().chain(state).fold(0, |sum, seen| sum.saturating_add(seen.entry.bytes)),
            files: data.iter().chain(state).fold(0, |sum, seen| sum.saturating_add(seen.entry.files)),
            begun_at: all.iter().map(|entry| entry.begun_at).min().unwrap_or(Timestamp::MIN),
            changed_at,
            still: is_over || is_quiet,
            settled: is_quiet || is_sealed || has_ended,
            complete,
            unverified: complete && !certain,
            problem,
        }
    }

    fn judge_entry(&self, seen: &WatchedEntry, wrong: Option<String>, is_marked: bool, pauses: bool) -> EntryState {
        let (has_ended, is_over) = (self.writer == WriterState::Ended, self.writer != WriterState::Running);
        let still = self.is_quiet(seen) || is_over;
        EntryState {
            complete: wrong.is_none() && (is_marked || still || pauses),
            certain: is_marked || self.is_quiet(seen) || has_ended,
            problem: wrong.filter(|_| still).map(|wrong| format!("`{}`: {wrong}", seen.entry.name)),
        }
    }

    /// True if another step has a marker in its directory, or a flag beside it, that this one lacks.
    fn lacks_mark(&self, number: StepNumber, seen: &WatchedEntry, all: &[&DirectoryEntry]) -> bool {
        let Some(own) = number.named().filter(|_| self.writer != WriterState::Ended) else { return false };
        let is_of_another = |steps: &std::collections::BTreeSet<u64>| steps.iter().any(|step| *step != own);
        let lacks_marker = seen.entry.folder && seen.entry.marked_at.is_none() && is_of_another(&self.watch.marked);
        let has_flag = |after: &str| all.iter().any(|base| self.watch.flags.contains(&format!("{}{after}", base.name)));
        let mut expected = self.watch.flagged.iter().filter(|(_, steps)| is_of_another(steps));
        lacks_marker || expected.any(|(after, _)| !has_flag(after))
    }

    fn is_quiet(&self, seen: &WatchedEntry) -> bool {
        self.now.duration_since(seen.since) >= self.watch.quiet
    }
}

fn names(all: &[&WatchedEntry]) -> Vec<String> {
    all.iter().map(|seen| seen.entry.name.clone()).collect()
}

fn latest(times: impl Iterator<Item = Timestamp>) -> Timestamp {
    times.max().unwrap_or(Timestamp::MIN)
}

/// Returns `true` if the entry has no content, and is no flag that says something of another entry, as `step-5.done` does of `step-5`.
fn is_empty(entry: &DirectoryEntry, all: &[&DirectoryEntry]) -> bool {
    entry.bytes == 0 && !all.iter().any(|other| other.bytes > 0 && entry.name.starts_with(&other.name))
}
