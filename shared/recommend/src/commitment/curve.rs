//! Usage that a Savings Plan would have covered, hour by hour, from the ledgers.

use std::collections::BTreeMap;

use billing::ledger::{Ledger, LedgerRun, PurchaseTerms, RunEnd, RunKind, TimeSpan};
use jiff::{SignedDuration, Timestamp};
use model::id::{Region, TypeName};
use model::moment::after;
use model::money::Amount;
use serde::Serialize;

use super::existing::{ExistingCommitments, PlanChoice};
use super::{HourSpend, PlanDiscount};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HOUR_SECONDS: i64 = 3_600;

/// Three years, the longest term of a plan: no ledger is that long, and a wrong clock makes no longer one.
const HOURS_MAX: i64 = 3 * 366 * 24;

/// The spend on demand of whole hours, and what is not in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpendCurve {
    pub hours: Vec<HourSpend>,
    /// Seconds that ran at an unknown price: the curve is too low by their cost.
    pub unpriced_seconds: u64,
    /// Number of runs that the ledger keeps only as sums: they are in no hour.
    pub folded_runs: u64,
    /// Hours of months without a ledger: what ran in them is unknown, and they are not among `hours`.
    pub hours_without_ledger: u64,
}

/// A type in a region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageKey {
    pub region: Region,
    pub instance_type: TypeName,
}

/// Use of a type in one hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeUsage {
    pub spent: Amount,
    /// Seconds of all instances together.
    pub seconds: u64,
}

/// Use on demand in the hour that begins at `from`.
#[derive(Debug, Clone, PartialEq)]
pub struct HourUsage {
    pub from: Timestamp,
    pub instances: BTreeMap<UsageKey, TypeUsage>,
    pub sagemaker: Amount,
}

/// The use on demand of whole hours, of EC2 and of `SageMaker`, and what is not in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageCurve {
    pub hours: Vec<HourUsage>,
    instances: UsageGaps,
    sagemaker: UsageGaps,
    hours_without_ledger: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct UsageGaps {
    unpriced_seconds: u64,
    folded_runs: u64,
}

impl UsageCurve {
    /// Computes the use on demand in each whole hour until `now` that these ledgers, of one month or of several, have seen. Instances in a
    /// capacity reservation count as on demand: a plan covers both (Savings Plans user guide, "What is Savings Plans").
    #[must_use]
    pub fn from_ledgers(ledgers: &[Ledger], now: Timestamp) -> Self {
        let mut curve = Self::default();
        let Some(seen) = seen_hours(ledgers, now) else { return curve };
        let first = seen.from.as_second() / HOUR_SECONDS;
        let count = ((seen.to.as_second() / HOUR_SECONDS).saturating_sub(first)).clamp(0, HOURS_MAX);
        let hour_from = |place: i64| Timestamp::from_second(first.saturating_add(place).saturating_mul(HOUR_SECONDS));
        let hours = (0..count).filter_map(|place| hour_from(place).ok());
        let months: Vec<TimeSpan> = ledgers.iter().map(Ledger::span).collect();
        let has_ledger =
            |from: &Timestamp| months.iter().any(|month| month.from < after(*from, HOUR) && *from < month.to);
        let (known, unknown): (Vec<Timestamp>, Vec<Timestamp>) = hours.partition(has_ledger);
        curve.hours_without_ledger = u64::try_from(unknown.len()).unwrap_or(u64::MAX);
        let empty = |from| HourUsage { from, instances: BTreeMap::new(), sagemaker: Amount::ZERO };
        curve.hours = known.into_iter().map(empty).collect();
        for ledger in ledgers {
            let month = ledger.span();
            for run in ledger.runs().filter(is_on_demand) {
                curve.add_run(&run, seen.within(month));
            }
            for (key, sum) in ledger.folded() {
                let gaps = match key.kind {
                    RunKind::Instance => &mut curve.instances,
                    RunKind::SageMaker => &mut curve.sagemaker,
                    RunKind::Volume => continue,
                };
                gaps.folded_runs = gaps.folded_runs.saturating_add(sum.runs);
            }
        }
        curve
    }

    /// The spend of each hour that a new plan could cover, behind what the account has at `at`.
    #[must_use]
    pub fn spend(
        &self,
        existing: &ExistingCommitments,
        choice: &PlanChoice,
        at: Timestamp,
        discount: PlanDiscount,
    ) -> SpendCurve {
        let gaps = if *choice == PlanChoice::SageMaker { self.sagemaker } else { self.instances };
        SpendCurve {
            hours: existing.left_over(&self.hours, choice, at, discount),
            unpriced_seconds: gaps.unpriced_seconds,
            folded_runs: gaps.folded_runs,
            hours_without_ledger: self.hours_without_ledger,
        }
    }

    /// The families that ran, each with its region.
    #[must_use]
    pub fn families(&self) -> Vec<(String, Region)> {
        let keys = self.hours.iter().flat_map(|hour| hour.instances.keys());
        let family = |key: &UsageKey| key.instance_type.as_str().split('.').next().unwrap_or_default().to_owned();
        let mut families: Vec<(String, Region)> = keys.map(|key| (family(key), key.region.clone())).collect();
        families.sort_unstable();
        families.dedup();
        families
    }

    /// The regions in which instances ran.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        let mut regions: Vec<Region> = self.families().into_iter().map(|(_, region)| region).collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    }

    fn add_run(&mut self, run: &LedgerRun<'_>, within: TimeSpan) {
        let is_instance = run.kind() == RunKind::Instance;
        let gaps = if is_instance { &mut self.instances } else { &mut self.sagemaker };
        gaps.unpriced_seconds = gaps.unpriced_seconds.saturating_add(run.spent(within).unpriced_seconds);
        // Each start costs a minute at least, so it may cost something after its end.
        let over = match run.end {
            RunEnd::Running => within.to,
            RunEnd::At(latest) | RunEnd::Between { latest, .. } => after(latest, SignedDuration::from_mins(1)),
        };
        let ran = TimeSpan { from: run.began, to: over }.within(within);
        let key = UsageKey {
            region: run.region.cloned().unwrap_or_else(|| Region::new("")),
            instance_type: TypeName::from(run.what()),
        };
        let begins = self.hours.partition_point(|hour| after(hour.from, HOUR) <= ran.from);
        for hour in self.hours.iter_mut().skip(begins).take_while(|hour| hour.from < ran.to) {
            let span = TimeSpan { from: hour.from, to: after(hour.from, HOUR) }.within(ran);
            let spent = run.spent(span).amount;
            if is_instance {
                let usage = hour.instances.entry(key.clone()).or_default();
                usage.spent = usage.spent + spent;
                usage.seconds = usage.seconds.saturating_add(run.running_time(span).least_seconds);
            } else {
                hour.sagemaker = hour.sagemaker + spent;
            }
        }
    }
}

fn is_on_demand(run: &LedgerRun<'_>) -> bool {
    matches!(run.kind(), RunKind::Instance | RunKind::SageMaker)
        && matches!(run.terms(), PurchaseTerms::OnDemand | PurchaseTerms::Reserved)
}

/// Returns the time from the first whole hour that a ledger saw to the last.
fn seen_hours(ledgers: &[Ledger], now: Timestamp) -> Option<TimeSpan> {
    let from = ledgers.iter().filter_map(Ledger::since).min()?;
    let to = ledgers.iter().filter_map(Ledger::as_of).max()?.min(now);
    let first = from
        .as_second()
        .div_euclid(HOUR_SECONDS)
        .saturating_add((from.as_second().rem_euclid(HOUR_SECONDS) > 0).into());
    let last = to.as_second().div_euclid(HOUR_SECONDS);
    let hour = |place: i64| Timestamp::from_second(place.saturating_mul(HOUR_SECONDS)).ok();
    Some(TimeSpan { from: hour(first)?, to: hour(last)? }).filter(|span| span.from < span.to)
}
