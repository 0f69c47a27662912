//! Writes what a beat observed to the ledger of the current month, and to that of the previous month as long as that one still counts.
//!
//! Beats follow the observed regions; spend does not. A region that is no longer observed (removed from the configuration, disabled, or unlisted
//! because the list failed) still has a ledger, and that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use billing::budget::{LOOKS_BACK, LedgerSpends, ReservationTimes};
use billing::ledger::{CalendarMonth, FoldLimits, Ledger};
use jiff::Timestamp;
use model::id::Region;
use model::observation::{Gap, Observed};
use ports::BudgetCloud;

use super::{BeatDocuments, BudgetMonths, RegionBeats, in_time, timed_out};
use crate::Run;

/// The timeout of a ledger after another one timed out: all are in one bucket.
const TIMEOUT_AFTER_TIMEOUT: Duration = Duration::from_secs(1);

/// The totals of all regional ledgers, with this beat. Only one ledger is in memory at a time.
pub(super) struct LedgerSummary {
    /// The spend of this month, and of the previous month as long as the forecast needs it.
    pub(super) spends: LedgerSpends,
    /// The spend of the previous month, as of its end; `None` if none of its ledgers was read.
    pub(super) closing: Option<LedgerSpends>,
    /// The regions whose ledger of this month was read, each with its newest whole look.
    pub(super) looks: BTreeMap<Region, Option<Timestamp>>,
    /// `true` if all ledgers of this month were read.
    pub(super) is_whole: bool,
    /// `true` if all ledgers of the previous month were read.
    pub(super) is_before_whole: bool,
    /// `true` if each ledger of the previous month includes a beat after the end of that month.
    pub(super) knows_end_of_before: bool,
}

/// Adds the beats, and reads the ledgers of all other regions, one region after the other.
pub(super) async fn kept(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    months: &BudgetMonths,
    regions: &[Region],
    beats: &RegionBeats,
    moments: &ReservationTimes<'_>,
) -> Observed<LedgerSummary> {
    let end_of_before = months.this.span().from;
    let looks_back = run.now.duration_since(end_of_before) < LOOKS_BACK;
    let looked_back = looks_back.then_some(&months.previous);
    let mut all: BTreeSet<Region> = regions.iter().cloned().collect();
    let mut ledgers = LedgerSummary {
        spends: LedgerSpends::default(),
        closing: None,
        looks: BTreeMap::new(),
        is_whole: true,
        is_before_whole: looks_back,
        knows_end_of_before: true,
    };
    let mut gaps = Vec::new();
    for month in [&months.this].into_iter().chain(looked_back) {
        match with_ledger(run, month).await {
            Ok(found) => all.extend(found),
            Err(gap) => {
                // Runs that continue from the previous month are in this month's beats; nothing else of that month counts in this one.
                ledgers.is_whole &= *month != months.this;
                ledgers.is_before_whole &= *month != months.previous;
                gaps.push(gap);
            }
        }
    }
    let mut timeout = run.timeout();
    for region in &all {
        // The first beat after a month closes it; each later one repeats that with the same result.
        let mut before = None;
        if looks_back {
            let closing_gaps;
            (before, closing_gaps) =
                update_ledger_in_time(run, &months.previous, region, beats, None, &mut timeout).await;
            ledgers.is_before_whole &= before.is_some();
            gaps.extend(closing_gaps);
        }
        let (ledger, ledger_gaps) =
            update_ledger_in_time(run, &months.this, region, beats, before.as_ref(), &mut timeout).await;
        gaps.extend(ledger_gaps);
        ledgers.is_whole &= ledger.is_some();
        ledgers.spends.add_region(ledger.as_ref(), before.as_ref(), moments, run.now);
        ledgers.looks.extend(ledger.map(|ledger| (region.clone(), ledger.as_of())));
        if let Some(before) = before {
            ledgers.knows_end_of_before &= before.as_of().is_some_and(|as_of| as_of >= end_of_before);
            let closing = ledgers.closing.get_or_insert_default();
            closing.add_region(Some(&before), None, moments, end_of_before);
        }
    }
    Observed { items: ledgers, gaps }
}

/// The regions that have a ledger of that month.
async fn with_ledger(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    month: &CalendarMonth,
) -> Result<Vec<Region>, Gap> {
    let (list, what) = (run.store.list_ledgers(month), || format!("the list of the ledgers of {month}"));
    in_time(list, run.timeout(), run.cloud.home(), "s3:ListBucket", what).await
}

async fn update_ledger_in_time(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    month: &CalendarMonth,
    region: &Region,
    beats: &RegionBeats,
    before: Option<&Ledger>,
    timeout: &mut Duration,
) -> (Option<Ledger>, Option<Gap>) {
    let kept = tokio::time::timeout(*timeout, keep(run, month, region, beats, before)).await;
    kept.unwrap_or_else(|_| {
        let gap = timed_out(*timeout, region, "s3:GetObject", &format!("the ledger of {month}"));
        *timeout = TIMEOUT_AFTER_TIMEOUT.min(*timeout);
        (None, Some(gap))
    })
}

/// Adds the observation to the current ledger. If the write fails, this run still counts it.
async fn keep(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    month: &CalendarMonth,
    region: &Region,
    beats: &RegionBeats,
    before: Option<&Ledger>,
) -> (Option<Ledger>, Option<Gap>) {
    let change = |ledger: &mut Ledger| {
        let carried = before.is_some_and(|before| ledger.carry(before));
        let seen = beats.observe(ledger, region);
        let folded = ledger.fold(&FoldLimits::default());
        carried || seen || folded
    };
    match run.store.update_ledger(month, region, change).await {
        Ok((ledger, unwritten)) => (Some(ledger), unwritten.map(|error| error.gap(region))),
        Err(error) => (None, Some(error.gap(region))),
    }
}
