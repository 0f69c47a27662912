//! Jobs of the month: what they took, and what Spot saved.

use std::collections::BTreeMap;

use billing::energy::Footprint;
use jobs::JobOverview;
use model::id::TeamName;
use model::money::Amount;
use serde::Serialize;

use crate::spend::JobSpend;

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobRow {
    /// `<team>/<job>`.
    pub job: String,
    pub team: Option<TeamName>,
    /// `None` if its state is gone: only the ledger knows it.
    pub overview: Option<JobOverview>,
    /// What its instances cost in the month.
    #[serde(rename = "spent_usd")]
    pub spent: Amount,
    /// What it would have cost more on demand.
    #[serde(rename = "spot_saved_usd")]
    pub spot_saved: Amount,
    /// Whether the on-demand price of one of its types is unknown: then Spot saved more.
    pub spot_saved_at_least: bool,
    pub footprint: Footprint,
}

/// The dearest first. Jobs that are unfinished, or that the ledger saw in the month.
pub(crate) fn job_rows(
    overviews: &[JobOverview],
    spends: &BTreeMap<String, JobSpend>,
    mut footprints: BTreeMap<String, Footprint>,
) -> Vec<JobRow> {
    let by_name: BTreeMap<String, &JobOverview> = overviews.iter().map(|one| (one.job.to_string(), one)).collect();
    let unfinished = by_name.iter().filter(|(_, one)| !one.over).map(|(name, _)| name);
    let mut names: Vec<&String> = spends.keys().chain(unfinished).collect();
    names.sort_unstable();
    names.dedup();
    let mut rows: Vec<JobRow> = names
        .into_iter()
        .map(|name| {
            let spend = spends.get(name).copied().unwrap_or_default();
            JobRow {
                job: name.clone(),
                team: name.split_once('/').map(|(team, _)| TeamName::from(team)),
                overview: by_name.get(name).map(|one| (*one).clone()),
                spent: spend.spent,
                spot_saved: spend.spot_saved,
                spot_saved_at_least: spend.has_unpriced,
                footprint: footprints.remove(name).unwrap_or_default(),
            }
        })
        .collect();
    rows.sort_by(|one, other| other.spent.cmp(&one.spent).then_with(|| one.job.cmp(&other.job)));
    rows
}
