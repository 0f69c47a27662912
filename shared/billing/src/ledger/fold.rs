//! Sums in place of the oldest runs that are over. A document of more runs than can be read in time and memory would never be read again.
//!
//! A run is folded once no beat can change it: a whole beat saw that it was over, and that beat is a day old, so no earlier one is still to come.
//! The same beat saw every run that had begun by then, also those that another beat saw first. From then on, an observation of a run that began
//! before the fold and is not in the ledger is a repetition, unless a beat after the fold sees it running. So a folded run that later beats still
//! see is not counted again: EC2 shows a stopped instance for ever.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::id::{ResourceId, TeamName};
use model::moment::{after, before};
use model::money::Amount;

use super::bill::SETTLES;
use super::run::{RunEntry, RunKind};
use super::{Ledger, LedgerRun, RunCost, Tariff, TimeSpan};

/// Limits beyond which runs are folded.
#[derive(Debug, Clone, Copy)]
pub struct FoldLimits {
    /// The estimated size of a document, in bytes, above which its oldest runs are folded.
    pub bytes_max: usize,
    /// Age of the whole beat that saw the run's end, from which no earlier beat can still arrive.
    pub settled_after: SignedDuration,
}

/// 24 MiB are some 55,000 runs. `docs/measurements.md` says what reading, summing and writing them takes.
impl Default for FoldLimits {
    fn default() -> Self {
        Self { bytes_max: 24 * 1024 * 1024, settled_after: SignedDuration::from_hours(24) }
    }
}

/// Size of the document after a fold, in percent of the limit: at 100 %, each beat would fold.
const LEAVES_PERCENT: usize = 75;

/// The bytes of a run in the document beside those of its texts.
const ROW_BYTES: usize = 400;
/// The bytes of a change of the team or price.
const CHANGE_BYTES: usize = 60;

const DAY_SECONDS: i64 = 24 * 60 * 60;

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FoldedRuns {
    /// Latest end of the folded runs.
    pub(super) until: Option<Timestamp>,
    /// Latest end of the folded runs of `SageMaker`.
    pub(super) sagemaker_until: Option<Timestamp>,
    pub(super) sums: BTreeMap<FoldKey, FoldSum>,
}

/// Key of one sum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoldKey {
    /// Midnight UTC, when the day begins. Days are those of Cost Explorer.
    pub day: Timestamp,
    /// The team that is charged.
    pub team: Option<TeamName>,
    /// Kind of the runs.
    pub kind: RunKind,
    /// `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
}

/// Cost of folded runs on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldSum {
    /// Number of folded runs that ended on that day.
    pub runs: u64,
    /// Cost, to the micro-USD.
    pub spent: RunCost,
}

impl FoldKey {
    /// The day, as far as it is in the month.
    #[must_use]
    pub fn span(&self) -> TimeSpan {
        let to = after(self.day, SignedDuration::from_secs(DAY_SECONDS));
        TimeSpan { from: self.day, to }
    }
}

impl Ledger {
    /// The sums in place of runs that were folded.
    pub fn folded(&self) -> impl Iterator<Item = (&FoldKey, &FoldSum)> {
        self.folded.sums.iter()
    }

    /// Folds the oldest runs that are over, where the document would be too large.
    ///
    /// Returns whether any was.
    pub fn fold(&mut self, limits: &FoldLimits) -> bool {
        let bytes: usize = self.runs.iter().map(|((resource, _), entry)| bytes(resource, entry)).sum();
        if bytes <= limits.bytes_max {
            return false;
        }
        let settled_by_kind = [RunKind::Instance, RunKind::SageMaker].map(|kind| self.settled_until(kind, limits));
        let settled_until = |run: &LedgerRun<'_>| settled_by_kind[usize::from(run.kind() == RunKind::SageMaker)];
        let is_settled = |run: &LedgerRun<'_>, end: Timestamp| settled_until(run).is_some_and(|until| end <= until);
        let settled =
            self.all_runs().filter_map(|run| Some((run.over_since().filter(|end| is_settled(&run, *end))?, run)));
        let mut settled: Vec<(Timestamp, LedgerRun<'_>)> = settled.collect();
        settled.sort_by_key(|(end, _)| *end);
        let mut excess = bytes - limits.bytes_max * LEAVES_PERCENT / 100;
        let oldest = settled.iter().take_while(|(_, run)| {
            let goes = excess > 0;
            excess = excess.saturating_sub(self::bytes(run.resource, run.entry));
            goes
        });
        let Some(until) = oldest.last().map(|(end, _)| *end) else { return false };
        let mut folded = self.folded.clone();
        let mut gone = BTreeSet::new();
        for (end, run) in settled.iter().take_while(|(end, _)| *end <= until) {
            let until = folded.ended_until_mut(run.kind());
            *until = (*until).max(Some(*end));
            if self.concerns(run) {
                folded.add(run, self.span);
            }
            gone.insert((run.resource.clone(), run.began));
        }
        self.folded = folded;
        self.runs.retain(|key, _| !gone.contains(key));
        self.forget_unused_rates();
        true
    }

    /// Returns `true` if an observation may repeat a folded run, and is therefore ignored.
    pub(super) fn is_folded(&self, resource: &ResourceId, began: Timestamp, entry: &RunEntry) -> bool {
        self.folded.ended_until(entry.label.kind).is_some_and(|until| {
            began <= until
                && entry.seen.is_none_or(|seen| seen <= until)
                && !self.runs.contains_key(&(resource.clone(), began))
        })
    }

    /// Returns the end of the time in which the ledger knows all runs that began and how they ended, and no beat will change that.
    ///
    /// A beat may not yet see a run that began less than [`SETTLES`] before it.
    fn settled_until(&self, kind: RunKind, limits: &FoldLimits) -> Option<Timestamp> {
        let beats = self.beats_of(kind);
        let arrived_until = before(*beats.last()?, limits.settled_after);
        let whole = beats.range(..=arrived_until).next_back()?;
        // What ended after the month, the next month's ledger takes over from this one.
        Some(before(*whole, SETTLES).min(self.span.to))
    }

    fn forget_unused_rates(&mut self) {
        let pricings = self.runs.values().flat_map(RunEntry::pricings);
        let used: BTreeSet<Tariff> = pricings.map(|(_, pricing)| pricing.tariff.clone()).collect();
        self.rates.retain(|tariff, _| used.contains(tariff));
    }
}

impl LedgerRun<'_> {
    /// Returns the time since which no beat saw it running. A volume on several instances is seen for longer than it is billed.
    fn over_since(&self) -> Option<Timestamp> {
        Some(self.latest()?.max(self.seen_until.unwrap_or(self.began)))
    }
}

impl FoldedRuns {
    const fn ended_until(&self, kind: RunKind) -> Option<Timestamp> {
        match kind {
            RunKind::Instance | RunKind::Volume => self.until,
            RunKind::SageMaker => self.sagemaker_until,
        }
    }

    const fn ended_until_mut(&mut self, kind: RunKind) -> &mut Option<Timestamp> {
        match kind {
            RunKind::Instance | RunKind::Volume => &mut self.until,
            RunKind::SageMaker => &mut self.sagemaker_until,
        }
    }

    fn add(&mut self, run: &LedgerRun<'_>, month: TimeSpan) {
        let ended = run.latest().unwrap_or(month.to);
        let window = TimeSpan { from: run.began, to: ended }.within(month);
        for share in run.shares(window) {
            let mut from = share.span.from;
            loop {
                let day = from.as_second().saturating_sub(from.as_second().rem_euclid(DAY_SECONDS));
                let day = Timestamp::from_second(day).unwrap_or(from);
                let what = share.what.to_owned();
                let key = FoldKey { day, team: share.team.cloned(), kind: run.kind(), what };
                let part = TimeSpan { from, ..key.span() }.within(share.span);
                let is_last = part.to >= share.span.to;
                let sum = self.sums.entry(key).or_default();
                sum.spent = rounded(sum.spent + run.spent(part));
                sum.runs = sum.runs.saturating_add(u64::from(is_last && share.is_last));
                if is_last {
                    break;
                }
                from = part.to;
            }
        }
    }
}

/// Rounds as the document does, so that reading it gives the same value.
fn rounded(spent: RunCost) -> RunCost {
    let rounded = |amount: Amount| Amount::from_usd_micros(amount.usd_micros());
    RunCost { amount: rounded(spent.amount), uncertain: rounded(spent.uncertain), ..spent }
}

/// Estimates the bytes of a run in the document.
fn bytes(resource: &ResourceId, entry: &RunEntry) -> usize {
    let text_bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let team = |team: &Option<TeamName>| team.as_ref().map_or(0, |team| team.as_str().len());
    let attributions = entry.attributions();
    let attributions = attributions.iter().filter_map(|(_, who)| *who);
    let paying: usize = attributions.map(|who| team(&who.team) + text_bytes(&who.job) + CHANGE_BYTES).sum();
    let pricings = entry.pricings().map(|(_, one)| one.what.len() + one.tariff.as_str().len() + CHANGE_BYTES);
    let label = text_bytes(&entry.label.owner) + text_bytes(&entry.label.name) + resource.as_str().len();
    ROW_BYTES + label + paying + pricings.sum::<usize>() + 4 * entry.missed.len()
}
