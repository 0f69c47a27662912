//! Where a job would be launched now, and what it can cost: asked as the reconciler asks before a launch.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud::CallError;
use cloud::jobs::Asked;
use domain::config::Config;
use domain::id::Region;
use domain::job::{Candidate, Image, Pool, Terms, WorstCase, prices_wanted, rank};
use domain::price::{Document, PriceBook};
use serde::Serialize;
use store::Store;

use crate::context::Context;
use crate::failure::{of_call, of_gap, of_store};
use crate::screen;

/// The Price List has so long to answer; what it does not say by then is taken from the tables.
const PATIENCE: Duration = Duration::from_secs(20);

/// What would come of a job that was launched now.
#[derive(Debug, Serialize)]
pub(super) struct Estimate {
    /// Where it would be tried, in that order.
    pub(super) candidates: Vec<Candidate>,
    /// What is reserved for it before it is launched.
    pub(super) worst_case: Option<WorstCase>,
    /// Why it would be launched nowhere.
    pub(super) nowhere: Option<String>,
}

/// `None` where somebody did not answer; who and why is told.
pub(super) async fn of(context: &Context, store: &Store, config: &Config, terms: &Terms) -> Option<Estimate> {
    let regions = match terms.machine.regions.as_slice() {
        [] => vec![context.aws.home().clone()],
        named => named.to_vec(),
    };
    let pools = match pools(context, &regions, terms).await {
        Ok(pools) => pools,
        Err(error) => {
            screen::warn(format!("where it can run, and for how much, is not known: {}", of_call(&error)));
            return None;
        }
    };
    let (images, no_image) = images(context, &pools, terms).await;
    for why in &no_image {
        screen::warn(why);
    }
    let prices = prices(context, store, config, terms, &pools).await;
    let ranked = rank(terms, &pools, images, &prices, None, config, context.now);
    Some(match ranked {
        Ok(ranking) => Estimate {
            worst_case: WorstCase::of(terms, &ranking, context.now),
            candidates: ranking.candidates,
            nowhere: None,
        },
        Err(why) => Estimate { candidates: Vec::new(), worst_case: None, nowhere: Some(why) },
    })
}

async fn pools(context: &Context, regions: &[Region], terms: &Terms) -> Result<Vec<Pool>, CallError> {
    let asked = Asked::default();
    let looks = regions.iter().map(|region| asked.pools(&context.aws, region, terms));
    Ok(futures::future::try_join_all(looks).await?.concat())
}

/// One of each region and architecture, and why there is none of others. Which agent it would boot is not known here, nor asked.
async fn images(context: &Context, pools: &[Pool], terms: &Terms) -> (Vec<(Region, Image)>, Vec<String>) {
    let wanted: BTreeSet<(&Region, &str)> =
        pools.iter().map(|pool| (&pool.region, pool.architecture.as_str())).collect();
    let asked = wanted.into_iter().map(|(region, architecture)| async move {
        let ami = terms.machine.ami.as_ref();
        let image = Asked::default().image(&context.aws, region, architecture, ami, "").await;
        image.map(|image| (region.clone(), image))
    });
    let (mut images, mut refused) = (Vec::new(), Vec::new());
    for image in futures::future::join_all(asked).await {
        match image {
            Ok(image) => images.push(image),
            Err(why) => refused.push(why),
        }
    }
    // An image is of one architecture: that it is not of the other says nothing.
    if !images.is_empty() && terms.machine.ami.is_some() {
        refused.clear();
    }
    (images, refused)
}

/// Those that are kept, and what of them is missing or too old, asked for anew and not kept.
async fn prices(context: &Context, store: &Store, config: &Config, terms: &Terms, pools: &[Pool]) -> PriceBook {
    let mut known = match store.read_prices().await {
        Ok(versioned) => versioned.value,
        Err(error) => {
            screen::warn(of_store(&error));
            Document::default()
        }
    };
    let wanted = prices_wanted(terms, pools, &known, config, context.now);
    for gap in cloud::prices(&context.aws, &mut known, &wanted, context.now, PATIENCE).await {
        screen::warn(of_gap(&gap));
    }
    PriceBook::of(known, &config.prices, context.now)
}
