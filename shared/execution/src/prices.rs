//! Prices: every run reads them, and the run that keeps the ledger refreshes them.

use std::collections::BTreeSet;
use std::time::Duration;

use billing::price::{PriceBook, PriceDocument, PriceQueries};
use jiff::Timestamp;
use model::config::Config;
use model::id::{Region, TypeName};
use model::instance::Instance;
use model::observation::Observed;
use ports::{Cloud, Documents, PriceCloud, Versioned};
use tokio::time::{Instant, timeout};

use crate::Run;

/// No run waits longer for what it can do without.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The prices of the last refresh; if they are missing or unreadable, those of Curfew's tables, marked as such wherever one is shown.
pub async fn load(store: &impl Documents, config: &Config, now: Timestamp) -> PriceBook {
    PriceBook::from_document(load_document(store).await, &config.prices, now)
}

/// The answers of the last refresh; none if they are missing or unreadable.
pub async fn load_document(store: &impl Documents) -> PriceDocument {
    let fall_back = |why: &dyn std::fmt::Display| {
        tracing::warn!("live prices could not be read, so the dated tables apply: {why}");
        PriceDocument::default()
    };
    match timeout(TIMEOUT, store.read_prices()).await {
        Ok(Ok(versioned)) => versioned.value,
        Ok(Err(error)) => fall_back(&error),
        Err(late) => fall_back(&late),
    }
}

/// Refreshes missing and old prices of these instances, of storage in these regions, and of these types under `SageMaker`; returns the gaps. New
/// prices are stored for later runs.
pub async fn refresh(
    run: &Run<'_, impl PriceCloud, impl Documents>,
    config: &Config,
    instances: &[Instance],
    regions: &[Region],
    sagemaker: &BTreeSet<(Region, TypeName)>,
) -> Observed<PriceBook> {
    let wanted = |known: &PriceDocument| known.wanted(instances, regions, sagemaker, run.now);
    PriceCache::default().ask(run, config, (run.now, run.timeout()), wanted).await
}

/// Prices in one run: read once, and each requested at most once.
#[derive(Debug, Default)]
pub(crate) struct PriceCache(tokio::sync::Mutex<Option<CachedPrices>>);

#[derive(Debug)]
struct CachedPrices {
    prices: PriceDocument,
    /// The version for the next write; `None` if they could not be read, or another run has written them since. Then they are not written, and the
    /// next run requests what that one did not.
    last: Option<Versioned<()>>,
    /// The requested prices, answered or not.
    asked: PriceQueries,
    /// `true` if a request timed out. Requests wait one after the other, and one timeout is enough for a run.
    is_late: bool,
}

impl PriceCache {
    /// Refreshes the prices that are wanted and unknown, as of `now`, within `timeout`. A price that this run requested before without an answer is
    /// not requested again; after a timeout no price is.
    pub(crate) async fn ask(
        &self,
        run: &Run<'_, impl PriceCloud, impl Documents>,
        config: &Config,
        (now, timeout): (Timestamp, Duration),
        wanted: impl FnOnce(&PriceDocument) -> PriceQueries,
    ) -> Observed<PriceBook> {
        let mut shared = self.0.lock().await;
        let Observed { items: live, mut gaps } = match shared.take() {
            Some(items) => Observed { items, gaps: Vec::new() },
            None => read(run).await,
        };
        let live = shared.insert(live);
        let wanted = wanted(&live.prices).without(&live.asked);
        if wanted.is_empty() || live.is_late {
            return Observed { items: PriceBook::from_document(live.prices.clone(), &config.prices, now), gaps };
        }
        let (before, began) = (live.prices.clone(), Instant::now());
        gaps.extend(run.cloud.prices(&mut live.prices, &wanted, now, timeout).await);
        live.is_late = began.elapsed() >= timeout;
        live.asked.extend(wanted);
        // The ledger gets every reported change; fewer are stored.
        let book = PriceBook::from_document(live.prices.clone(), &config.prices, now);
        live.prices.prune(now);
        if live.prices != before
            && let Some(last) = &mut live.last
        {
            match run.store.write_prices(&live.prices, last.etag.as_deref()).await {
                Ok(Some(written)) => last.etag = Some(written),
                Ok(None) => live.last = None,
                Err(error) => gaps.push(error.gap(run.cloud.home())),
            }
        }
        Observed { items: book, gaps }
    }
}

async fn read(run: &Run<'_, impl Cloud, impl Documents>) -> Observed<CachedPrices> {
    let (prices, last, gaps) = match run.store.read_prices().await {
        Ok(Versioned { value, etag }) => (value, Some(Versioned { value: (), etag }), Vec::new()),
        Err(error) => (PriceDocument::default(), None, vec![error.gap(run.cloud.home())]),
    };
    Observed { items: CachedPrices { prices, last, asked: PriceQueries::default(), is_late: false }, gaps }
}
