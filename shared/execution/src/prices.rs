//! What things cost: read by every run, and asked for anew by the one that keeps the ledger.

use std::time::Duration;

use domain::config::Config;
use domain::id::Region;
use domain::instance::Instance;
use domain::observed::Gap;
use domain::price::{Document, PriceBook, Wanted};
use jiff::Timestamp;
use store::{Store, Versioned};
use tokio::time::{Instant, timeout};

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
    let wanted = |known: &Document| known.wanted(instances, regions, run.now);
    Asking::default().ask(run, config, (run.now, run.patience()), wanted).await
}

/// Prices in one run: read once, and asked for as they are needed, each once.
#[derive(Debug, Default)]
pub(crate) struct Asking(tokio::sync::Mutex<Option<Live>>);

#[derive(Debug)]
struct Live {
    prices: Document,
    /// By which they are written next; `None` where they could not be read, or another run has written them since: then they are not
    /// written either, and the next run asks again for what that one did not learn.
    last: Option<Versioned<()>>,
    /// What was asked, and answered or not.
    asked: Wanted,
    /// Whether an answer was waited for in vain. All who ask wait in turn, and one such wait is enough for a run.
    is_late: bool,
}

impl Asking {
    /// The same as [`refresh`] of whatever is wanted beside what is known, as of `now`, for as long as `patience` says. What was asked for in
    /// this run before, and not answered, is not asked for again; once an answer did not come in time, nothing is.
    pub(crate) async fn ask(
        &self,
        run: &Run<'_>,
        config: &Config,
        (now, patience): (Timestamp, Duration),
        wanted: impl FnOnce(&Document) -> Wanted,
    ) -> (PriceBook, Vec<Gap>) {
        let mut in_turn = self.0.lock().await;
        let (live, mut gaps) = match in_turn.take() {
            Some(live) => (live, Vec::new()),
            None => read(run).await,
        };
        let live = in_turn.insert(live);
        let wanted = wanted(&live.prices).without(&live.asked);
        if wanted.is_empty() || live.is_late {
            return (PriceBook::of(live.prices.clone(), &config.prices, now), gaps);
        }
        let (before, began) = (live.prices.clone(), Instant::now());
        gaps.extend(cloud::prices(run.aws, &mut live.prices, &wanted, now, patience).await);
        live.is_late = began.elapsed() >= patience;
        live.asked.extend(wanted);
        // The ledger learns every change that was told; less is kept.
        let book = PriceBook::of(live.prices.clone(), &config.prices, now);
        live.prices.prune(now);
        if live.prices != before
            && let Some(last) = &mut live.last
        {
            match run.store.write_prices(&live.prices, last.etag.as_deref()).await {
                Ok(Some(written)) => last.etag = Some(written),
                Ok(None) => live.last = None,
                Err(error) => gaps.push(error.gap(run.aws.home())),
            }
        }
        (book, gaps)
    }
}

async fn read(run: &Run<'_>) -> (Live, Vec<Gap>) {
    let live = |prices, last| Live { prices, last, asked: Wanted::default(), is_late: false };
    match run.store.read_prices().await {
        Ok(Versioned { value, etag }) => (live(value, Some(Versioned { value: (), etag })), Vec::new()),
        Err(error) => (live(Document::default(), None), vec![error.gap(run.aws.home())]),
    }
}
