//! The ledger as a document: each run with all that is known of it, so that readers join nothing. Figures that follow from the rest are
//! written for readers alone, and not read back.

mod row;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::money::{Amount, Rate};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::row::LedgerRow;
use super::fold::{FoldKey, FoldSum, FoldedRuns};
use super::run::RunEntry;
use super::{Ledger, RunCost, RunKind, Tariff, TimeSpan, is_sane};

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredLedger {
    month: Option<String>,
    region: Option<Region>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    beats: Vec<i64>,
    partial_beats: Vec<i64>,
    sagemaker_beats: Vec<i64>,
    sagemaker_unread: BTreeMap<ResourceId, Vec<i64>>,
    rates: BTreeMap<Tariff, BTreeMap<Timestamp, u64>>,
    folded: Option<FoldedRows>,
    runs: Vec<LedgerRow>,
}

#[derive(Serialize)]
struct WrittenLedger<'a> {
    month: &'a Option<String>,
    region: &'a Option<Region>,
    from: Timestamp,
    to: Timestamp,
    /// The first whole beat, in seconds since 1970, and the seconds from each to the next.
    beats: Vec<i64>,
    /// Beats of the month that were not whole, written as `beats` are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partial_beats: Vec<i64>,
    /// Beats that saw all of `SageMaker`, written as `beats` are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sagemaker_beats: Vec<i64>,
    /// `SageMaker` beats that could not read a resource, written as `beats` are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sagemaker_unread: BTreeMap<&'a ResourceId, Vec<i64>>,
    /// Micro-USD per hour, by the moment from which they are in force.
    rates: BTreeMap<&'a Tariff, BTreeMap<Timestamp, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folded: Option<FoldedRows>,
    runs: LedgerRows<'a>,
}

/// Sums of runs that are no longer kept one by one.
#[derive(Serialize, Deserialize)]
struct FoldedRows {
    /// Latest end of the folded runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// Latest end of the folded runs of `SageMaker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sagemaker_until: Option<Timestamp>,
    sums: Vec<FoldedRow>,
}

#[derive(Serialize, Deserialize)]
struct FoldedRow {
    /// Start of the day.
    day: Timestamp,
    team: Option<TeamName>,
    kind: RunKind,
    #[serde(rename = "type")]
    what: String,
    /// Number of folded runs that ended on that day.
    runs: u64,
    usd: Amount,
    uncertain_usd: Amount,
    unpriced_seconds: u64,
}

/// Written one by one: a hundred thousand of them are never in memory a second time.
struct LedgerRows<'a>(&'a Ledger);

impl Serialize for LedgerRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.all_runs().map(|run| LedgerRow::from_run(&run, self.0)))
    }
}

impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rates = self.rates.iter().map(|(tariff, rates)| {
            let rates = rates.iter().map(|(from, rate)| (*from, rate.usd_micros_per_hour()));
            (tariff, rates.collect())
        });
        let written = WrittenLedger {
            month: &self.month,
            region: &self.region,
            from: self.span.from,
            to: self.span.to,
            beats: to_steps(&self.beats),
            partial_beats: to_steps(self.looks.difference(&self.beats)),
            sagemaker_beats: to_steps(&self.sagemaker_beats),
            sagemaker_unread: self.sagemaker_unread.iter().map(|(id, moments)| (id, to_steps(moments))).collect(),
            rates: rates.collect(),
            folded: FoldedRows::from_ledger(self),
            runs: LedgerRows(self),
        };
        written.serialize(serializer)
    }
}

/// The first moment in seconds since 1970, and the seconds from each to the next.
fn to_steps<'a>(moments: impl IntoIterator<Item = &'a Timestamp>) -> Vec<i64> {
    let mut last = 0_i64;
    let seconds = moments.into_iter().map(|at| at.as_second());
    seconds.map(|second| second.saturating_sub(std::mem::replace(&mut last, second))).collect()
}

/// `None` if one is no moment.
fn from_steps<C: FromIterator<Timestamp>>(steps: Vec<i64>) -> Option<C> {
    let mut at: i64 = 0;
    let moments = steps.into_iter().map(|step| {
        at = at.checked_add(step)?;
        Timestamp::from_second(at).ok()
    });
    moments.collect()
}

impl<'de> Deserialize<'de> for Ledger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredLedger::deserialize(deserializer)?;
        read(stored).ok_or_else(|| D::Error::custom("a ledger with a run of nothing, or a moment that there is not"))
    }
}

/// `None` if a run is neither of an instance nor of a volume nor of `SageMaker`, or of several, or a moment is missing, or one at which nothing can
/// have run.
fn read(stored: StoredLedger) -> Option<Ledger> {
    let mut ledger = Ledger { month: stored.month, region: stored.region, ..Ledger::default() };
    let all = TimeSpan::default();
    ledger.span = TimeSpan { from: stored.from.unwrap_or(all.from), to: stored.to.unwrap_or(all.to) };
    ledger.beats = from_steps(stored.beats)?;
    ledger.sagemaker_beats = from_steps(stored.sagemaker_beats)?;
    for (resource, steps) in stored.sagemaker_unread {
        ledger.sagemaker_unread.insert(resource, from_steps(steps)?);
    }
    ledger.looks = from_steps(stored.partial_beats)?;
    ledger.looks.extend(ledger.beats.range(..ledger.span.to));
    for (tariff, rates) in stored.rates {
        let rates = rates.into_iter().map(|(from, usd_micros)| (from, Rate::from_usd_micros_per_hour(usd_micros)));
        ledger.rates.insert(tariff, rates.collect());
    }
    if let Some(FoldedRows { until, sagemaker_until, sums }) = stored.folded {
        ledger.folded = FoldedRuns { until, sagemaker_until, sums: sums.into_iter().map(FoldedRow::sum).collect() };
    }
    for row in stored.runs {
        let began = row.launched_at;
        let (id, entry) = row.into_entry(&ledger.looks)?;
        ledger.runs.insert((id, began), entry);
    }
    let all_sane = moments(&ledger).all(is_sane);
    all_sane.then_some(ledger)
}

/// Every moment with which anything is computed; those of the month may be the ends of all time.
fn moments(ledger: &Ledger) -> impl Iterator<Item = Timestamp> {
    let run_moments = ledger.runs.iter().flat_map(|((_, began), entry)| {
        let RunEntry { facts_at, first_at, seen, stopped, terminated, ended_by, attribution, pricing, .. } = entry;
        let untracked = [attribution.untracked_since, pricing.untracked_since];
        let carried_at = entry.carried.as_ref().map(|carried| carried.at);
        let single =
            [Some(*began), Some(*facts_at), Some(*first_at), *seen, *stopped, *terminated, *ended_by, carried_at];
        let changes = attribution.changes.iter().map(|(at, _)| *at);
        let changes = changes.chain(pricing.changes.iter().map(|(at, _)| *at)).chain(entry.missed.iter().copied());
        single.into_iter().chain(untracked).flatten().chain(changes)
    });
    let rate_moments = ledger.rates.values().flat_map(BTreeMap::keys).copied();
    let FoldedRuns { until, sagemaker_until, sums } = &ledger.folded;
    let fold_moments = until.iter().chain(sagemaker_until).copied().chain(sums.keys().map(|key| key.day));
    let unread_beats = ledger.sagemaker_unread.values().flatten();
    let beats = ledger.beats.iter().chain(&ledger.sagemaker_beats).chain(unread_beats);
    beats.chain(&ledger.looks).copied().chain(rate_moments).chain(run_moments).chain(fold_moments)
}

impl FoldedRows {
    /// `None` where nothing was folded.
    fn from_ledger(ledger: &Ledger) -> Option<Self> {
        let rows = ledger.folded().map(|(FoldKey { day, team, kind, what }, FoldSum { runs, spent })| FoldedRow {
            day: *day,
            team: team.clone(),
            kind: *kind,
            what: what.clone(),
            runs: *runs,
            usd: spent.amount,
            uncertain_usd: spent.uncertain,
            unpriced_seconds: spent.unpriced_seconds,
        });
        let FoldedRuns { until, sagemaker_until, .. } = ledger.folded;
        until.or(sagemaker_until).map(|_| Self { until, sagemaker_until, sums: rows.collect() })
    }
}

impl FoldedRow {
    fn sum(self) -> (FoldKey, FoldSum) {
        let Self { day, team, kind, what, runs, usd, uncertain_usd, unpriced_seconds } = self;
        let spent = RunCost { amount: usd, uncertain: uncertain_usd, unpriced_seconds };
        (FoldKey { day, team, kind, what }, FoldSum { runs, spent })
    }
}
