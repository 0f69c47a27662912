//! Spend that a Savings Plan would have covered, hour by hour, from the ledgers.

use billing::ledger::{Ledger, LedgerRun, PurchaseTerms, RunEnd, RunKind, TimeSpan};
use jiff::{SignedDuration, Timestamp};
use model::moment::after;
use model::money::Amount;
use serde::Serialize;

use super::HourSpend;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HOUR_SECONDS: i64 = 3_600;

/// Three years, the longest term of a plan: no ledger is that long, and a wrong clock makes no longer one.
const HOURS_MAX: i64 = 3 * 366 * 24;

/// The spend on demand of whole hours, and what is not in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpendCurve {
    pub hours: Vec<HourSpend>,
    /// Seconds that instances ran at an unknown price: the curve is too low by their cost.
    pub unpriced_seconds: u64,
    /// Number of runs that the ledger keeps only as sums: they are in no hour.
    pub folded_runs: u64,
}

/// Computes the on-demand cost of instances in each whole hour until `now` that these ledgers, of one month or of several, have seen.
/// Instances in a capacity reservation count as on demand: a plan covers both (Savings Plans user guide, "What is Savings Plans").
#[must_use]
pub fn on_demand_curve(ledgers: &[Ledger], now: Timestamp) -> SpendCurve {
    let mut curve = SpendCurve { hours: Vec::new(), unpriced_seconds: 0, folded_runs: 0 };
    let Some(seen) = seen_hours(ledgers, now) else { return curve };
    let first = seen.from.as_second() / HOUR_SECONDS;
    let count = ((seen.to.as_second() / HOUR_SECONDS).saturating_sub(first)).clamp(0, HOURS_MAX);
    let hour_from = |place: i64| Timestamp::from_second(first.saturating_add(place).saturating_mul(HOUR_SECONDS)).ok();
    curve.hours =
        (0..count).filter_map(|place| Some(HourSpend { from: hour_from(place)?, spent: Amount::ZERO })).collect();
    for ledger in ledgers {
        let month = ledger.span();
        for run in ledger.runs().filter(is_covered) {
            add_run(&mut curve, &run, seen.within(month));
        }
        let folded = ledger.folded().filter(|(key, _)| key.kind == RunKind::Instance);
        curve.folded_runs = folded.fold(curve.folded_runs, |runs, (_, sum)| runs.saturating_add(sum.runs));
    }
    curve
}

fn is_covered(run: &LedgerRun<'_>) -> bool {
    run.kind() == RunKind::Instance && matches!(run.terms(), PurchaseTerms::OnDemand | PurchaseTerms::Reserved)
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

fn add_run(curve: &mut SpendCurve, run: &LedgerRun<'_>, within: TimeSpan) {
    curve.unpriced_seconds = curve.unpriced_seconds.saturating_add(run.spent(within).unpriced_seconds);
    // Each start costs a minute at least, so it may cost something after its end.
    let over = match run.end {
        RunEnd::Running => within.to,
        RunEnd::At(latest) | RunEnd::Between { latest, .. } => after(latest, SignedDuration::from_mins(1)),
    };
    let ran = TimeSpan { from: run.began, to: over }.within(within);
    let begins = curve.hours.partition_point(|hour| after(hour.from, HOUR) <= ran.from);
    for hour in curve.hours.iter_mut().skip(begins).take_while(|hour| hour.from < ran.to) {
        let span = TimeSpan { from: hour.from, to: after(hour.from, HOUR) }.within(ran);
        hour.spent = hour.spent + run.spent(span).amount;
    }
}
