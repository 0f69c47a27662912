//! The ledger: what a beat saw is taken down, once for the month that it is, and once more for the one before as long as that one
//! still counts.
//!
//! Beats follow the regions that are looked at. What was spent does not: a region that is looked at no longer, for it was taken out of
//! the configuration, was disabled, or nobody could say which there are, has its ledger all the same, and that counts.

use std::collections::BTreeSet;

use domain::budget::LOOKS_BACK;
use domain::id::Region;
use domain::ledger::{Beat, Ledger, Month};
use domain::observed::Gap;
use futures::{StreamExt, stream};

use super::{Months, impatient};
use crate::{AT_ONCE, Run};

/// The ledgers of all regions, with what this beat saw.
pub(super) struct Ledgers {
    /// Of this month.
    pub(super) of_month: Vec<Ledger>,
    /// Of the month before, as long as the forecast looks back to it.
    pub(super) before: Vec<Ledger>,
    /// Whether none of this month is missing.
    pub(super) is_whole: bool,
    /// Whether none of the month before is missing.
    pub(super) is_before_whole: bool,
}

/// Takes down what the beats saw, and reads what is kept of all other regions.
pub(super) async fn kept(run: &Run<'_>, months: &Months, regions: &[Region], beats: &[Beat]) -> (Ledgers, Vec<Gap>) {
    let looks_back = run.now.duration_since(months.this.span().from) < LOOKS_BACK;
    let looked_back = looks_back.then_some(&months.previous);
    let mut all: BTreeSet<Region> = regions.iter().cloned().collect();
    let mut ledgers = Ledgers { of_month: Vec::new(), before: Vec::new(), is_whole: true, is_before_whole: looks_back };
    let mut gaps = Vec::new();
    for month in [&months.this].into_iter().chain(looked_back) {
        match with_ledger(run, month).await {
            Ok(found) => all.extend(found),
            Err(gap) => {
                // What ran on from the month before is seen by this month's beats, and nothing else of it is spent in this one.
                ledgers.is_whole &= *month != months.this;
                ledgers.is_before_whole &= *month != months.previous;
                gaps.push(gap);
            }
        }
    }
    let of_regions = stream::iter(&all).map(|region| async move {
        let beat = beats.iter().find(|beat| beat.region == *region);
        // The month before is closed by the first beat after it, and in the same way by each that follows.
        let before = if looks_back { Some(patiently(run, &months.previous, region, beat, None).await) } else { None };
        let (before, unclosed) = before.unwrap_or_default();
        let (of_month, unkept) = patiently(run, &months.this, region, beat, before.as_ref()).await;
        (of_month, before, unclosed.into_iter().chain(unkept))
    });
    for (of_month, before, of_region) in of_regions.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        ledgers.is_whole &= of_month.is_some();
        ledgers.is_before_whole &= before.is_some();
        ledgers.of_month.extend(of_month);
        ledgers.before.extend(before);
        gaps.extend(of_region);
    }
    (ledgers, gaps)
}

/// The regions of which there is a ledger of that month.
async fn with_ledger(run: &Run<'_>, month: &Month) -> Result<Vec<Region>, Gap> {
    let home = run.aws.home();
    match tokio::time::timeout(run.patience(), run.store.list_ledgers(month)).await {
        Ok(listed) => listed.map_err(|error| error.gap(home)),
        Err(_) => Err(impatient(run.patience(), home, "s3:ListBucket", &format!("the list of the ledgers of {month}"))),
    }
}

async fn patiently(
    run: &Run<'_>,
    month: &Month,
    region: &Region,
    beat: Option<&Beat>,
    before: Option<&Ledger>,
) -> (Option<Ledger>, Option<Gap>) {
    let kept = tokio::time::timeout(run.patience(), keep(run, month, region, beat, before)).await;
    kept.unwrap_or_else(|_| {
        (None, Some(impatient(run.patience(), region, "s3:GetObject", &format!("the ledger of {month}"))))
    })
}

/// Adds what was seen to what is there by now. What could not be written is known for this run all the same.
async fn keep(
    run: &Run<'_>,
    month: &Month,
    region: &Region,
    beat: Option<&Beat>,
    before: Option<&Ledger>,
) -> (Option<Ledger>, Option<Gap>) {
    let change = |ledger: &mut Ledger| {
        let carried = before.is_some_and(|before| ledger.carry(before));
        let seen = beat.is_some_and(|beat| ledger.observe(beat));
        carried || seen
    };
    match run.store.update_ledger(month, region, change).await {
        Ok((ledger, unwritten)) => (Some(ledger), unwritten.map(|error| error.gap(region))),
        Err(error) => (None, Some(error.gap(region))),
    }
}
