//! The result as JSON. Its shape is a promise: fields are added, none changes its meaning.
//!
//! ```json
//! {
//!   "schema": 1,
//!   "at": "2026-09-01T12:00:00Z",
//!   "regions": ["us-east-1"],
//!   "seen": {"instances": 12, "volumes": 3, "unjudged": 0},
//!   "findings": [{
//!     "region": "us-east-1", "resource": "i-0abc", "kinds": ["idle", "untagged"],
//!     "team": "vision", "owner": null, "name": null, "what": "g5.xlarge",
//!     "usd_per_hour": 1.006, "usd_per_month": 734.38, "saves_usd_per_month": 734.38, "price_source": "Price List of 2026-09-01",
//!     "evidence": "idle from …", "notify_only": "local-disk", "created_at": null, "controller": null
//!   }],
//!   "kinds": [{"kind": "idle", "findings": 1, "usd_per_month": 734.38, "saves_usd_per_month": 734.38, "unknown_prices": 0}],
//!   "teams": [{"team": "vision", "findings": 1, "usd_per_month": 734.38, "saves_usd_per_month": 734.38, "unknown_prices": 0}],
//!   "total": {"findings": 1, "usd_per_month": 734.38, "saves_usd_per_month": 734.38, "unknown_prices": 0},
//!   "gaps": [{"region": "eu-west-3", "call": "ec2:DescribeInstances", "error": "…"}],
//!   "unanswered": []
//! }
//! ```
//!
//! `seen` counts instances with an accelerator, how many of these could not be judged for idleness, as `CloudWatch` did not
//! answer, and volumes that are attached to nothing. `unanswered` are the regions that had not answered when the look was
//! interrupted. What is of two kinds counts in each entry of `kinds`, and once in `teams` and `total`. A month has 730 hours.
//! `usd_per_hour` and `usd_per_month` are costs; `saves_usd_per_month` is the part that a stop or a deletion saves, which is less of capacity that
//! is paid for anyway. A price that is not known is null, and is in no sum; a sum without any price is null; `price_source` says whose it is: the Price List, a Spot price, or a table that comes
//! with Curfew; `notify_only` is why Curfew would only notify about an idle instance;
//! `created_at` is of volumes. What has no team is in the entry of
//! `teams` whose team is null. These lists begin with the dearest; what has no known price comes last, the largest first.

use std::collections::BTreeSet;

use billing::price;
use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::money;
use model::money::{Amount, Rate};
use model::observation::Gap;
use plan::NotifyOnlyReason;
use reaping::scan;
use reaping::scan::{FindingKind, FindingTotal, ScanFinding};
use serde::Serialize;

use super::ScanResult;

#[derive(Serialize)]
pub(super) struct ScanOutput<'a> {
    at: Timestamp,
    regions: &'a [Region],
    seen: SeenCounts,
    findings: Vec<ScanRow<'a>>,
    kinds: Vec<KindTotal>,
    teams: Vec<TeamTotal<'a>>,
    total: TotalOutput,
    gaps: &'a [Gap],
    unanswered: &'a BTreeSet<Region>,
}

#[derive(Serialize)]
struct SeenCounts {
    instances: usize,
    volumes: usize,
    unjudged: usize,
}

#[derive(Serialize)]
struct ScanRow<'a> {
    region: &'a Region,
    resource: &'a ResourceId,
    kinds: &'a [FindingKind],
    team: Option<&'a TeamName>,
    owner: Option<&'a str>,
    name: Option<&'a str>,
    what: &'a str,
    usd_per_hour: Option<Rate>,
    #[serde(serialize_with = "money::as_usd_per_month")]
    usd_per_month: Option<Rate>,
    #[serde(serialize_with = "money::as_usd_per_month")]
    saves_usd_per_month: Option<Rate>,
    price_source: Option<String>,
    evidence: &'a str,
    notify_only: Option<NotifyOnlyReason>,
    created_at: Option<Timestamp>,
    controller: Option<&'a str>,
}

#[derive(Serialize)]
struct KindTotal {
    kind: FindingKind,
    #[serde(flatten)]
    sum: TotalOutput,
}

#[derive(Serialize)]
struct TeamTotal<'a> {
    team: Option<&'a TeamName>,
    #[serde(flatten)]
    sum: TotalOutput,
}

#[derive(Serialize)]
struct TotalOutput {
    findings: usize,
    usd_per_month: Option<Amount>,
    saves_usd_per_month: Option<Amount>,
    unknown_prices: u64,
}

pub(super) fn build_output(found: &ScanResult, at: Timestamp) -> ScanOutput<'_> {
    let teams = scan::by_team(&found.findings);
    ScanOutput {
        at,
        regions: &found.regions,
        seen: SeenCounts { instances: found.instances, volumes: found.volumes, unjudged: found.unjudged },
        findings: found.findings.iter().map(row).collect(),
        kinds: scan::by_kind(&found.findings).into_iter().map(|(kind, of)| KindTotal { kind, sum: sum(of) }).collect(),
        teams: teams.into_iter().map(|(team, total)| TeamTotal { team, sum: sum(total) }).collect(),
        total: sum(FindingTotal::from_findings(&found.findings)),
        gaps: &found.gaps,
        unanswered: &found.unanswered,
    }
}

fn row(finding: &ScanFinding) -> ScanRow<'_> {
    ScanRow {
        region: &finding.region,
        resource: &finding.resource,
        kinds: &finding.kinds,
        team: finding.team.as_ref(),
        owner: finding.owner.as_deref(),
        name: finding.name.as_deref(),
        what: &finding.what,
        usd_per_hour: price::cost(finding.price),
        usd_per_month: price::cost(finding.price),
        saves_usd_per_month: price::rate(finding.price),
        price_source: finding.price.map(|quote| quote.source.describe()),
        evidence: &finding.evidence,
        notify_only: finding.notify_only,
        created_at: finding.created_at,
        controller: finding.controller.as_deref(),
    }
}

fn sum(total: FindingTotal) -> TotalOutput {
    TotalOutput {
        findings: total.findings,
        usd_per_month: total.costs.known(),
        saves_usd_per_month: total.saves.known(),
        unknown_prices: total.costs.unpriced(),
    }
}
