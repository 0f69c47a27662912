//! The place where a job would be launched now, and its cost, by the queries of the reconciler before a launch.

use std::collections::BTreeSet;
use std::time::Duration;

use billing::price::{PriceBook, PriceDocument};
use cloud::CallError;
use execution::jobs::AnswerCache;
use jobs::{
    Candidate, CapacityPool, ExpectedCost, ExpectedFootprint, GangEstimate, JobTerms, LaunchObstacle, LaunchPolicy,
    MachineImage, ParameterSweep, Ranking, WorstCase, deadline_obstacle, expected_costs, image_source, prices_wanted,
    rank, refused_network,
};
use model::config::Config;
use model::id::{Region, TeamName};
use model::image_source::ImageSource;
use model::money::Amount;
use serde::Serialize;
use store::{Documents as _, Store};

use crate::command_error::{describe_call_error, describe_gap, describe_store_error};
use crate::context::CommandContext;
use crate::screen;

/// The timeout of the Price List; a price without an answer is that of the tables.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The estimate of a launch now.
#[derive(Debug, Serialize)]
pub(super) struct JobEstimate {
    /// The candidates, in the order of their launch requests.
    pub(super) candidates: Vec<Candidate>,
    /// The machines of a job on several machines; `None` for a job on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gang: Option<GangEstimate>,
    /// The reservation before its launch.
    pub(super) worst_case: Option<WorstCase>,
    /// Its expected cost by its deadline, and by others.
    pub(super) expected_costs: Vec<ExpectedCost>,
    /// Its footprint on the first candidate.
    pub(super) footprint: Option<ExpectedFootprint>,
    /// The machines that fit and were left out, and how to allow them.
    pub(super) left_out: Option<String>,
    /// The reason why the job would not be launched.
    pub(super) nowhere: Option<String>,
    /// The reason why no place has the network that the job requires.
    #[serde(skip)]
    pub(super) refused_network: Option<LaunchObstacle>,
}

/// The places where a job could be launched now, in the order of their launch requests. `None` if a call failed, which is reported.
pub(crate) async fn rank_places(
    context: &CommandContext,
    store: &Store,
    config: &Config,
    (terms, team): (&JobTerms, &TeamName),
) -> Option<(Vec<CapacityPool>, Result<Ranking, LaunchObstacle>)> {
    let regions = match terms.machine.regions.as_slice() {
        [] => vec![context.aws.home().clone()],
        named => named.to_vec(),
    };
    let pools = match pools(context, &regions, terms).await {
        Ok(pools) => pools,
        Err(error) => {
            screen::warn(format!("where it can run, and at what price, is unknown: {}", describe_call_error(&error)));
            return None;
        }
    };
    let (images, no_image) = images(context, config, &pools, (terms, team)).await;
    for why in &no_image {
        screen::warn(why);
    }
    let policy = LaunchPolicy { config, team };
    let prices = prices(context, store, policy, terms, &pools).await;
    let ranked = rank(terms, &pools, images, &prices, None, policy, context.now);
    Some((pools, ranked))
}

/// `None` if a call failed, which is reported.
pub(super) async fn estimate_job(
    context: &CommandContext,
    store: &Store,
    config: &Config,
    (terms, team): (&JobTerms, &TeamName),
) -> Option<JobEstimate> {
    let (pools, ranked) = rank_places(context, store, config, (terms, team)).await?;
    let policy = LaunchPolicy { config, team };
    Some(match ranked {
        Ok(ranking) => JobEstimate {
            nowhere: deadline_obstacle(terms, &ranking, context.now),
            expected_costs: expected_costs(terms, &ranking.candidates, context.now),
            worst_case: WorstCase::from_ranking(terms, &ranking, context.now),
            footprint: ExpectedFootprint::from_candidates(terms, &ranking.candidates, context.now),
            gang: GangEstimate::from_ranking(terms, &ranking, &pools),
            left_out: ranking.left_out,
            candidates: ranking.candidates,
            refused_network: None,
        },
        Err(why) => JobEstimate {
            candidates: Vec::new(),
            gang: None,
            worst_case: None,
            expected_costs: Vec::new(),
            footprint: None,
            left_out: None,
            nowhere: Some(why.to_string()),
            refused_network: refused_network(terms, &pools, policy),
        },
    })
}

async fn pools(context: &CommandContext, regions: &[Region], terms: &JobTerms) -> Result<Vec<CapacityPool>, CallError> {
    let asked = AnswerCache::default();
    let looks = regions.iter().map(|region| asked.pools(&context.aws, region, terms));
    Ok(futures::future::try_join_all(looks).await?.concat())
}

/// One of each region and architecture, and why there is none for others. The agent is not checked here.
async fn images(
    context: &CommandContext,
    config: &Config,
    pools: &[CapacityPool],
    (terms, team): (&JobTerms, &TeamName),
) -> (Vec<(Region, MachineImage)>, Vec<LaunchObstacle>) {
    let source = &image_source(terms, config);
    let wanted: BTreeSet<(&Region, &str)> =
        pools.iter().map(|pool| (&pool.region, pool.architecture.as_str())).collect();
    let asked = wanted.into_iter().map(|(region, architecture)| async move {
        let (answers, place) = (AnswerCache::default(), (region, architecture));
        let image = Box::pin(answers.machine_image(&context.aws, place, (terms, team), config, "")).await;
        image.map(|image| (region.clone(), image))
    });
    let (mut images, mut refused) = (Vec::new(), Vec::new());
    for image in futures::future::join_all(asked).await {
        match image {
            Ok(image) => images.push(image),
            Err(why) => refused.push(why),
        }
    }
    // An image has one architecture, so a missing one proves nothing about the other.
    if !images.is_empty() && matches!(source, ImageSource::Image(_)) {
        refused.clear();
    }
    (images, refused)
}

/// The stored prices, with missing and old ones refreshed but not stored.
async fn prices(
    context: &CommandContext,
    store: &Store,
    policy: LaunchPolicy<'_>,
    terms: &JobTerms,
    pools: &[CapacityPool],
) -> PriceBook {
    let mut known = match store.read_prices().await {
        Ok(versioned) => versioned.value,
        Err(error) => {
            screen::warn(describe_store_error(&error));
            PriceDocument::default()
        }
    };
    let wanted = prices_wanted(terms, pools, &known, policy, context.now);
    for gap in cloud::prices(&context.aws, &mut known, &wanted, context.now, TIMEOUT).await {
        screen::warn(describe_gap(&gap));
    }
    PriceBook::from_document(known, &policy.config.prices, context.now)
}

#[derive(Debug, Serialize)]
pub(super) struct SweepEstimate {
    pub(super) members: u32,
    pub(super) max_parallel: Option<u32>,
    /// The parameters of the first member, and of the last.
    pub(super) first: Vec<(String, String)>,
    pub(super) last: Vec<(String, String)>,
    /// The most that all members together can cost, if they were launched now; `None` if that is unknown.
    pub(super) worst_case_usd: Option<Amount>,
}

impl SweepEstimate {
    /// `of_one`: the estimate of one member.
    pub(super) fn from_plan(plan: &ParameterSweep, of_one: Option<&JobEstimate>) -> Self {
        let members = plan.members();
        let worst: Option<WorstCase> = of_one.and_then(|of_one| of_one.worst_case);
        Self {
            members,
            max_parallel: plan.max_parallel,
            first: plan.parameters_of(1),
            last: plan.parameters_of(members),
            worst_case_usd: worst.map(|worst| worst.usd.scaled(u64::from(members), 1)),
        }
    }
}
