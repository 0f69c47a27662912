//! Jobs that ran on demand, and could resume on Spot.

use std::collections::BTreeMap;

use billing::ledger::{Ledger, PurchaseTerms, RunKind, TimeSpan};
use billing::price::PriceBook;
use model::id::{Region, TeamName, TypeName};
use model::money::{Amount, Rate};

use super::{FindingKind, UsageFinding};

const HOUR_SECONDS: u64 = 3_600;

/// Cost of a job's machines on demand, of one type in one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRuns {
    /// `<team>/<job>`.
    pub job: String,
    pub team: Option<TeamName>,
    pub region: Region,
    pub instance_type: TypeName,
    pub seconds: u64,
    pub cost: Amount,
}

/// Every job of these ledgers that ran on demand within a span.
#[must_use]
pub fn on_demand_jobs<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>, span: TimeSpan) -> Vec<JobRuns> {
    let mut jobs: BTreeMap<(String, Region, TypeName), JobRuns> = BTreeMap::new();
    for ledger in ledgers {
        let within = span.within(ledger.span());
        let on_demand =
            ledger.runs().filter(|run| run.kind() == RunKind::Instance && run.terms() == PurchaseTerms::OnDemand);
        for run in on_demand {
            let Some(region) = run.region else { continue };
            for share in run.shares(within) {
                let Some(job) = share.job else { continue };
                let key = (job.to_owned(), region.clone(), TypeName::from(share.what));
                let runs = jobs.entry(key.clone()).or_insert_with(|| JobRuns {
                    job: key.0,
                    team: share.team.cloned(),
                    region: key.1,
                    instance_type: key.2,
                    seconds: 0,
                    cost: Amount::ZERO,
                });
                runs.seconds = runs.seconds.saturating_add(run.running_time(share.span).least_seconds);
                runs.cost = runs.cost + run.spent(share.span).amount;
            }
        }
    }
    jobs.into_values().filter(|runs| runs.seconds > 0).collect()
}

/// The finding about a job of which a complete checkpoint exists at this step; `None` without one, without a Spot price of now, and where
/// Spot costs as much. `span` is the time in which it ran so long: what it saves in a month is its part of that.
#[must_use]
pub fn find_spot(runs: &JobRuns, step: Option<u64>, prices: &PriceBook, span: TimeSpan) -> Option<UsageFinding> {
    let step = step?;
    let (zone, quote) = prices.cheapest_spot(&runs.region, &runs.instance_type)?;
    let on_spot = Amount::from_rate(quote.rate, runs.seconds);
    let saved = runs.cost.saturating_sub(on_spot);
    Some(UsageFinding {
        kind: FindingKind::Spot,
        region: runs.region.clone(),
        resource: runs.job.clone(),
        what: runs.instance_type.to_string(),
        team: runs.team.clone(),
        saves: saved.spread_over(span.seconds()).filter(|rate| *rate > Rate::ZERO)?,
        evidence: format!(
            "it ran for {} hours on demand for {}; in {zone} that costs {on_spot} on Spot now, and it resumes from its checkpoint at step \
             {step}",
            runs.seconds / HOUR_SECONDS,
            runs.cost
        ),
        action: "enable [spot] in its document, with fallback_to_on_demand_after".to_owned(),
    })
}
