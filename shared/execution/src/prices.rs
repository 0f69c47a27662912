//! What things cost: read by every run, and asked for anew by the one that keeps the ledger.

use std::time::Duration;

use domain::config::Config;
use domain::id::Region;
use domain::instance::Instance;
use domain::observed::Gap;
use domain::price::{Document, PriceBook, Wanted};
use jiff::Timestamp;
use store::{Store, Versioned};
use tokio::time::timeout;

use crate::Run;

/// No run waits longer for what it can do without.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prices as they were last asked for; where there are none, or they cannot be read, those of the tables that come with
/// Curfew, which are named as such wherever one is shown.
pub async fn load(store: &Store, config: &Config, now: Timestamp) -> PriceBook {
    let unread = |why: &dyn std::fmt::Display| {
        tracing::warn!("live prices could not be read, so those of the dated tables count: {why}");
        Document::default()
    };
    let live = match timeout(PATIENCE, store.read_prices()).await {
        Ok(Ok(versioned)) => versioned.value,
        Ok(Err(error)) => unread(&error),
        Err(late) => unread(&late),
    };
    PriceBook::of(live, &config.prices, now)
}

/// The same, after asking AWS for what is missing or too old of what these instances, and storage in these regions, cost; and what
/// could not be asked, or remembered. What is asked is kept for all runs to come.
pub async fn refresh(
    run: &Run<'_>,
    config: &Config,
    instances: &[Instance],
    regions: &[Region],
) -> (PriceBook, Vec<Gap>) {
    ask(run, config, (run.now, run.patience()), |known| known.wanted(instances, regions, run.now)).await
}

/// The same of whatever is wanted beside what is known, as of `now`, for as long as `patience` says.
pub(crate) async fn ask(
    run: &Run<'_>,
    config: &Config,
    (now, patience): (Timestamp, Duration),
    wanted: impl FnOnce(&Document) -> Wanted,
) -> (PriceBook, Vec<Gap>) {
    let home = run.aws.home();
    let (Versioned { value: before, etag }, mut gaps, readable) = match run.store.read_prices().await {
        Ok(versioned) => (versioned, Vec::new(), true),
        Err(error) => (Versioned { value: Document::default(), etag: None }, vec![error.gap(home)], false),
    };
    let mut live = before.clone();
    let wanted = wanted(&live);
    gaps.extend(cloud::prices(run.aws, &mut live, &wanted, now, patience).await);
    // The ledger learns every change that was told; less is kept.
    let book = PriceBook::of(live.clone(), &config.prices, now);
    live.prune(now);
    if readable
        && live != before
        && let Err(error) = run.store.write_prices(&live, etag.as_deref()).await
    {
        gaps.push(error.gap(home));
    }
    (book, gaps)
}
