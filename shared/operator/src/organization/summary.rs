//! What is kept of an account: a row a team, the dearest findings, and the gaps. The fleet and the other findings are not kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Add;

use billing::price::{self, PriceBook};
use model::config::Config;
use model::fault::shortened;
use model::id::{Region, ResourceId, TeamName};
use model::instance::{Instance, InstanceState};
use model::known_sum::KnownSum;
use model::money::Rate;
use model::observation::{Gap, GapKind};
use model::ownership::team_of;
use reaping::scan::{self, FindingKind, ScanFinding};
use serde::{Deserialize, Serialize};

use super::AccountId;

/// Teams of an account with a row of their own, the dearest: a tag that differs on every machine must not fill the memory.
const TEAMS_MAX: usize = 50;
/// Findings that are kept of an account, the dearest. `curfew scan` in the account has all.
const NOTABLE_MAX: usize = 5;
/// Gaps that are kept of an account.
const GAPS_MAX: usize = 5;
/// Length of a text of the account, in characters: a tag has 256 at most.
const TEXT_MAX: usize = 256;

/// The figures of a team, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountTotals {
    /// Running instances with an accelerator.
    pub instances: usize,
    /// Their accelerators.
    pub gpus: u64,
    /// Cost of the running instances.
    pub running: KnownSum<Rate>,
    /// Findings of every kind.
    pub findings: usize,
    /// The part of costs that an end of what is idle or unused would save, volumes and file systems included.
    pub waste: KnownSum<Rate>,
}

impl Add for AccountTotals {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            instances: self.instances.saturating_add(other.instances),
            gpus: self.gpus.saturating_add(other.gpus),
            running: Add::add(self.running, other.running),
            findings: self.findings.saturating_add(other.findings),
            waste: Add::add(self.waste, other.waste),
        }
    }
}

impl AccountTotals {
    fn with_instance(self, instance: &Instance, prices: &PriceBook) -> Self {
        Self {
            instances: self.instances.saturating_add(1),
            gpus: self.gpus.saturating_add(u64::from(instance.machine.accelerators)),
            running: self.running.with(price::rate(prices.running_cost(instance))),
            ..self
        }
    }

    fn with_finding(self, finding: &ScanFinding) -> Self {
        let waste = if finding.kinds.iter().any(|kind| is_waste(*kind)) {
            self.waste.with(price::rate(finding.price))
        } else {
            self.waste
        };
        Self { findings: self.findings.saturating_add(1), waste, ..self }
    }

    /// The figures of these accounts together.
    #[must_use]
    pub fn from_accounts(accounts: &[AccountSummary]) -> Self {
        accounts.iter().map(AccountSummary::totals).fold(Self::default(), Add::add)
    }

    /// Rank among others: the larger of what runs and what is wasted, then the number of unknown prices, then that of findings.
    #[must_use]
    pub fn cost(&self) -> (Option<Rate>, u64, usize) {
        let unpriced = self.running.unpriced().saturating_add(self.waste.unpriced());
        (self.running.known().max(self.waste.known()), unpriced, self.findings)
    }
}

/// An end of the resource saves money and loses no work. Without tags, without metrics, or with something cheaper, a resource may be in use.
const fn is_waste(kind: FindingKind) -> bool {
    match kind {
        FindingKind::Idle
        | FindingKind::Reserved
        | FindingKind::Orphaned
        | FindingKind::UnusedCapacity
        | FindingKind::IdleFileSystem => true,
        FindingKind::Untagged | FindingKind::Uninstrumented | FindingKind::OnDemandTraining | FindingKind::LowUse => {
            false
        }
    }
}

/// One team of one account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamSummary {
    /// `None` for resources without a team.
    pub team: Option<TeamName>,
    #[serde(flatten)]
    pub totals: AccountTotals,
}

/// The teams of an account that have no row of their own, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTeams {
    pub teams: usize,
    #[serde(flatten)]
    pub totals: AccountTotals,
}

/// A finding in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotableFinding {
    pub region: Region,
    pub resource: ResourceId,
    pub kinds: Vec<FindingKind>,
    pub team: Option<TeamName>,
    /// `g5.xlarge`, or `500 GiB gp3`.
    pub what: String,
    /// The evidence in a few words.
    pub why: String,
    pub usd_per_hour: Option<Rate>,
}

/// A part of an account that could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryGap {
    pub region: Region,
    pub call: String,
    pub error: String,
}

/// What is kept of an account: a line of the file of `--resume`, and an entry of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountSummary {
    pub account: AccountId,
    /// Its name in the organization.
    pub name: Option<String>,
    pub regions: usize,
    /// Volumes that are attached to nothing.
    pub volumes: usize,
    /// Instances that could not be judged for idleness.
    pub unjudged: usize,
    /// The dearest first.
    pub teams: Vec<TeamSummary>,
    pub other_teams: Option<OtherTeams>,
    /// The dearest findings.
    pub notable: Vec<NotableFinding>,
    /// The first gaps, without regions that the organization forbids.
    pub gaps: Vec<SummaryGap>,
    pub more_gaps: usize,
}

impl AccountSummary {
    /// The figures of all teams.
    #[must_use]
    pub fn totals(&self) -> AccountTotals {
        let teams = self.teams.iter().map(|team| team.totals);
        teams.chain(self.other_teams.map(|others| others.totals)).fold(AccountTotals::default(), Add::add)
    }
}

/// The rows of all accounts, the dearest first. Each is of one account: the same name of a team elsewhere is another team.
#[must_use]
pub fn by_cost(accounts: &[AccountSummary]) -> Vec<(&AccountSummary, &TeamSummary)> {
    let rows = accounts.iter().flat_map(|account| account.teams.iter().map(move |team| (account, team)));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|(account, team), (other_account, other)| {
        let by_cost = Reverse(team.totals.cost()).cmp(&Reverse(other.totals.cost()));
        by_cost.then_with(|| (&account.account, &team.team).cmp(&(&other_account.account, &other.team)))
    });
    rows
}

/// The running instances of a region by team.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningTeams(BTreeMap<Option<TeamName>, AccountTotals>);

impl RunningTeams {
    #[must_use]
    pub fn from_instances(seen: &[Instance], prices: &PriceBook, config: &Config) -> Self {
        let mut teams: BTreeMap<Option<TeamName>, AccountTotals> = BTreeMap::new();
        for instance in seen.iter().filter(|instance| instance.state == InstanceState::Running) {
            let totals = teams.entry(team_of(&instance.tags, config)).or_default();
            *totals = totals.with_instance(instance, prices);
        }
        Self(teams)
    }
}

/// What a scan found in one region of the account.
#[derive(Debug, Default)]
pub struct RegionPart {
    pub running: RunningTeams,
    pub volumes: usize,
    pub unjudged: usize,
    pub findings: Vec<ScanFinding>,
    pub gaps: Vec<Gap>,
    /// `true` if none of its lists could be read.
    pub saw_nothing: bool,
}

/// The figures of an account, region by region.
#[derive(Debug, Default)]
pub struct AccountTally {
    teams: BTreeMap<Option<TeamName>, AccountTotals>,
    notable: Vec<ScanFinding>,
    gaps: Vec<SummaryGap>,
    more_gaps: usize,
    regions: usize,
    volumes: usize,
    unjudged: usize,
    saw_something: bool,
}

impl AccountTally {
    /// Adds gaps that hide more than one region.
    pub fn add_gaps(&mut self, gaps: Vec<Gap>) {
        for gap in gaps.into_iter().filter(|gap| gap.kind != GapKind::ForbiddenRegion) {
            if self.gaps.len() == GAPS_MAX {
                self.more_gaps = self.more_gaps.saturating_add(1);
                continue;
            }
            let error = shortened(&gap.in_command(), TEXT_MAX);
            self.gaps.push(SummaryGap { region: gap.region, call: shortened(&gap.call, TEXT_MAX), error });
        }
    }

    /// Adds a region.
    pub fn add(&mut self, part: RegionPart) {
        let RegionPart { running, volumes, unjudged, findings, gaps, saw_nothing } = part;
        self.regions = self.regions.saturating_add(1);
        self.volumes = self.volumes.saturating_add(volumes);
        self.unjudged = self.unjudged.saturating_add(unjudged);
        // A region that the organization forbids has one gap instead of two lists, and nothing runs there.
        self.saw_something |= !saw_nothing;
        self.add_gaps(gaps);
        for (team, totals) in running.0 {
            let sum = self.teams.entry(team).or_default();
            *sum = Add::add(*sum, totals);
        }
        for finding in &findings {
            let sum = self.teams.entry(finding.team.clone()).or_default();
            *sum = sum.with_finding(finding);
        }
        self.notable.extend(findings);
        scan::sort(&mut self.notable);
        self.notable.truncate(NOTABLE_MAX);
    }

    /// The summary; without one the reason why nothing of the account could be seen.
    ///
    /// # Errors
    /// If no region could be seen.
    pub fn finish(self, account: AccountId, name: Option<String>) -> Result<AccountSummary, String> {
        if !self.saw_something {
            let first = self.gaps.into_iter().next();
            let why = first.map(|SummaryGap { region, call, error }| format!("{call} failed in {region}: {error}"));
            return Err(why.unwrap_or_else(|| "no region could be seen".to_owned()));
        }
        let teams = self.teams.into_iter().map(|(team, totals)| TeamSummary { team: team.map(short_team), totals });
        let mut teams: Vec<TeamSummary> = teams.collect();
        teams.sort_by(|one, other| {
            Reverse(one.totals.cost()).cmp(&Reverse(other.totals.cost())).then_with(|| one.team.cmp(&other.team))
        });
        let others = teams.split_off(teams.len().min(TEAMS_MAX));
        let other_teams = (!others.is_empty()).then(|| OtherTeams {
            teams: others.len(),
            totals: others.iter().map(|team| team.totals).fold(AccountTotals::default(), Add::add),
        });
        Ok(AccountSummary {
            account,
            name: name.map(|name| shortened(&name, TEXT_MAX)),
            regions: self.regions,
            volumes: self.volumes,
            unjudged: self.unjudged,
            teams,
            other_teams,
            notable: self.notable.into_iter().map(notable).collect(),
            gaps: self.gaps,
            more_gaps: self.more_gaps,
        })
    }
}

fn short_team(team: TeamName) -> TeamName {
    TeamName::new(shortened(team.as_str(), TEXT_MAX))
}

fn notable(finding: ScanFinding) -> NotableFinding {
    let ScanFinding { region, resource, kinds, team, what, price, in_short, .. } = finding;
    NotableFinding {
        region,
        resource,
        kinds,
        team: team.map(short_team),
        what: shortened(&what, TEXT_MAX),
        why: shortened(&in_short, TEXT_MAX),
        usd_per_hour: price::cost(price),
    }
}

#[cfg(test)]
mod tests;
