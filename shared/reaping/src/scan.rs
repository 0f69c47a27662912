//! A scan of an account, which needs no deployment. It finds idle instances, instances with unknown usage or without an owner, unattached
//! volumes and unused reserved capacity. It announces and changes nothing.
//!
//! The rules are those of [`policy`](crate::policy), and protected or kept resources are skipped as there. A finding about a managed
//! resource names its controller.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use billing::price;
use billing::price::Quote;
use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, UnreadableTag, explain_unreadable, name_unreadable};
use model::id::{Region, ResourceId, TeamName};
use model::known_sum::KnownSum;
use model::money::{Amount, Rate, USD_MICROS_PER_CENT};
use model::observation::{Gap, Observation};
use plan::{NotifyOnlyReason, Target};
use serde::{Deserialize, Serialize};

use crate::engine::{ResourceCase, ResourceFacts, catch_bug};

pub use crate::file_systems::scan as file_systems;
pub use crate::instances::scan as instances;
pub use crate::instances::unjudged;
pub use crate::reservations::scan as reservations;
pub use crate::sagemaker::scan as sagemaker;
pub use crate::volumes::scan as volumes;

/// Findings about each of these resources. A bug about one is a gap that names it.
pub(crate) fn find_in_each<'a, C: ResourceCase<'a>>(
    cases: impl Iterator<Item = C>,
    find: fn(C) -> Option<ScanFinding>,
) -> Observation<ScanFinding> {
    let mut findings = Observation::default();
    for case in cases {
        let ResourceFacts { region, id, .. } = case.facts();
        match catch_bug(id, || find(case)) {
            Ok(finding) => findings.items.extend(finding),
            Err(bug) => findings.gaps.push(Gap::for_bug(&bug, region, id)),
        }
    }
    findings
}

/// One resource and all that is found of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanFinding {
    pub region: Region,
    /// Its id.
    pub resource: ResourceId,
    /// The kinds of the finding, in their order; at least one.
    pub kinds: Vec<FindingKind>,
    /// Its team, by the account's tag.
    pub team: Option<TeamName>,
    /// Its owner, by the account's tag.
    pub owner: Option<String>,
    /// Its `Name`.
    pub name: Option<String>,
    /// `g5.xlarge`, or `500 GiB gp3`.
    pub what: String,
    /// Its price: its cost, and what a stop saves of that; `None` if unknown.
    pub price: Option<Quote>,
    /// Number of its accelerators, for an instance; otherwise 0.
    pub accelerators: u32,
    /// Size in GiB, for a volume; otherwise 0.
    pub size_gib: u64,
    /// The evidence in words.
    pub evidence: String,
    /// The evidence in a few words, for a column of a table.
    pub in_short: String,
    /// The reason why Curfew would only notify about its idleness.
    pub notify_only: Option<NotifyOnlyReason>,
    /// Creation of a volume. EC2 does not report when it was detached.
    pub created_at: Option<Timestamp>,
    /// The controller that manages it, if there is one.
    pub controller: Option<String>,
}

/// One thing that is found, its evidence, and the same in a few words.
pub(crate) struct FoundKind {
    pub(crate) kind: FindingKind,
    pub(crate) evidence: String,
    pub(crate) in_short: String,
}

impl ScanFinding {
    /// A finding without price, size, creation and controller; `None` if nothing is found. The note follows the evidence, and
    /// then unreadable tags: they hide nothing, because a scan changes nothing.
    pub(crate) fn from_kinds(
        target: Target,
        mut found: Vec<FoundKind>,
        note: Option<(String, String)>,
        curfew_tags: &Result<CurfewTags, Vec<UnreadableTag>>,
    ) -> Option<Self> {
        found.sort_by_key(|one| one.kind);
        let kinds: Vec<FindingKind> = found.iter().map(|one| one.kind).collect();
        if kinds.is_empty() {
            return None;
        }
        let unreadable = curfew_tags.as_ref().err();
        let unreadable = unreadable.map(|unreadable| (explain_unreadable(unreadable), name_unreadable(unreadable)));
        let found = found.into_iter().map(|FoundKind { evidence, in_short, .. }| (evidence, in_short));
        let (evidence, in_short): (Vec<String>, Vec<String>) = found.chain(note).chain(unreadable).unzip();
        let Target { region, resource, team, owner, name, what } = target;
        Some(Self {
            region,
            resource,
            kinds,
            team,
            owner,
            name,
            what,
            price: None,
            accelerators: 0,
            size_gib: 0,
            evidence: evidence.join("; "),
            in_short: in_short.join("; "),
            notify_only: None,
            created_at: None,
            controller: None,
        })
    }
}

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// An instance that runs and does nothing.
    Idle,
    /// An idle instance that holds GPU memory, like a notebook or a waiting server.
    Reserved,
    /// An instance that lacks a required tag.
    Untagged,
    /// An instance whose usage is unknown.
    Uninstrumented,
    /// A volume that is unattached.
    Orphaned,
    /// Reserved capacity that nothing runs in.
    UnusedCapacity,
    /// A training job on demand that managed Spot could run.
    OnDemandTraining,
    /// An endpoint with few requests.
    LowUse,
    /// A file system that no client uses.
    IdleFileSystem,
}

impl FindingKind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Reserved => "reserved",
            Self::Untagged => "untagged",
            Self::Uninstrumented => "uninstrumented",
            Self::Orphaned => "orphaned",
            Self::UnusedCapacity => "unused-capacity",
            Self::OnDemandTraining => "on-demand-training",
            Self::LowUse => "low-use",
            Self::IdleFileSystem => "idle-file-system",
        }
    }
}

/// The number of findings and their cost. A finding of two kinds counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FindingTotal {
    /// Cost of a month, each part to the cent, as it is shown.
    pub costs: KnownSum<Amount>,
    /// The part of the costs that stops and deletions save. Prepaid capacity costs the same without an instance.
    pub saves: KnownSum<Amount>,
    pub findings: usize,
}

impl FindingTotal {
    /// The total of these findings.
    pub fn from_findings<'a>(findings: impl IntoIterator<Item = &'a ScanFinding>) -> Self {
        findings.into_iter().fold(Self::default(), Self::and)
    }

    fn and(self, finding: &ScanFinding) -> Self {
        let monthly = |rate: Option<Rate>| rate.map(monthly_amount);
        let cost = monthly(price::cost(finding.price));
        // What a stop saves of prepaid capacity is known to be nothing, also where its cost is unknown.
        let saving = monthly(price::rate(finding.price));
        Self { costs: self.costs.with(cost), saves: self.saves.with(saving), findings: self.findings + 1 }
    }
}

fn monthly_amount(rate: Rate) -> Amount {
    Amount::from_usd_micros(rate.usd_cents_per_month().saturating_mul(USD_MICROS_PER_CENT))
}

/// The dearest first; those without a known price last, and of these the largest first: no price is guessed, but eight GPUs
/// cost more than one.
pub fn sort(findings: &mut [ScanFinding]) {
    findings.sort_by(|one, other| {
        let place = |finding: &ScanFinding| {
            let cost = price::cost(finding.price);
            Reverse((cost, cost.is_none().then_some((finding.accelerators, finding.size_gib))))
        };
        let by_price = place(one).cmp(&place(other));
        by_price.then_with(|| (&one.region, &one.resource).cmp(&(&other.region, &other.resource)))
    });
}

/// The total of the idle ones that `local_disk` keeps from a stop.
#[must_use]
pub fn withheld_by_local_disk(findings: &[ScanFinding]) -> FindingTotal {
    FindingTotal::from_findings(findings.iter().filter(|one| one.notify_only == Some(NotifyOnlyReason::LocalDisk)))
}

/// The total of each team, the most expensive first; `None` for findings without a team.
#[must_use]
pub fn by_team(findings: &[ScanFinding]) -> Vec<(Option<&TeamName>, FindingTotal)> {
    let mut totals: BTreeMap<Option<&TeamName>, FindingTotal> = BTreeMap::new();
    for finding in findings {
        let total = totals.entry(finding.team.as_ref()).or_default();
        *total = total.and(finding);
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by_key(|(_, total)| Reverse(*total));
    totals
}

/// The total of each kind, the most expensive first. A resource of two kinds counts in each.
#[must_use]
pub fn by_kind(findings: &[ScanFinding]) -> Vec<(FindingKind, FindingTotal)> {
    let mut totals: BTreeMap<FindingKind, FindingTotal> = BTreeMap::new();
    for finding in findings {
        for kind in &finding.kinds {
            let total = totals.entry(*kind).or_default();
            *total = total.and(finding);
        }
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by_key(|(_, total)| Reverse(*total));
    totals
}

#[cfg(test)]
mod tests;
