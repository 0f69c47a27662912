//! The figures of a month.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{Budget, BudgetHolder, SharedBudget};
use billing::energy::{Footprint, footprints};
use billing::ledger::{Ledger, TimeSpan};
use billing::savings::{SavingLine, StartIndex, savings};
use jiff::Timestamp;
use model::id::{ResourceId, TeamName};
use model::known_sum::{self, KnownSum};
use model::mode::Mode;
use model::moment::after;
use model::money::{Amount, Rate};
use serde::Serialize;

use crate::checkpoints::checkpoint_rows;
use crate::idle::idle_times;
use crate::jobs::{job_rows, load_of};
use crate::past::{BLIND_MAX, PastSpendsByTeam};
use crate::spend::{MonthSpend, team_label};
use crate::sums::{KnownResource, above_budget};
use crate::waste::find_waste;
use crate::{
    CheckpointRow, DayActions, DaySpend, JobRow, MonthCoverage, MonthFacts, NO_TEAM, NextMonth, OwnCost, PastSpends,
    ResourceLabel, WasteRow,
};

/// A month, of the account or of one team.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MonthReport {
    /// Number of the account; `None` if the caller does not know it.
    pub account: Option<String>,
    /// Name of the account, if the configuration has one.
    pub account_name: Option<String>,
    /// `yyyy-mm`.
    pub month: String,
    pub at: Timestamp,
    /// Then nothing is said of waste: what still runs is of another month.
    pub is_over: bool,
    /// `false` if no ledger of the month could be read: then its spend is unknown.
    pub has_ledger: bool,
    /// Time since which the ledger of the month is kept, if it was not kept from the beginning: what ended before is unknown.
    pub ledger_since: Option<Timestamp>,
    /// `false` if no audit record of the month is left: then what Curfew stopped is unknown.
    pub has_audit_records: bool,
    /// Team that the part of the report is for; `None` for the account.
    pub team: Option<String>,
    /// `CURFEW_MODE`, by the newest run; `None` if no run is known.
    pub mode: Option<Mode>,
    pub headline: Headline,
    pub days: Vec<DaySpend>,
    /// The dearest first.
    pub teams: Vec<TeamRow>,
    /// Savings by time.
    pub savings: Vec<SavingRow>,
    pub waste: Vec<WasteRow>,
    /// Possible savings; `None` if usage was not requested.
    pub next_month: Option<NextMonth>,
    pub jobs: Vec<JobRow>,
    /// The largest first.
    pub checkpoints: Vec<CheckpointRow>,
    /// Cost of Curfew itself; `None` for a team, or if no run of the month is known.
    pub own: Option<OwnCost>,
    /// Caveats of the figures of energy and carbon.
    pub footprint_caveats: Vec<String>,
    /// Observation of the month, for the hub of an organization.
    #[serde(skip)]
    pub coverage: MonthCoverage,
    /// Descriptions of everything that could not be read.
    pub gaps: Vec<String>,
}

/// Figures that a reader looks for first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    #[serde(rename = "spent_usd", serialize_with = "known_sum::serialize_known")]
    pub spent: KnownSum<Amount>,
    /// Possible spend beyond `spent`.
    #[serde(rename = "uncertain_usd")]
    pub uncertain: Amount,
    /// Seconds that resources ran at an unknown price.
    pub unpriced_seconds: u64,
    /// Number of regions whose ledger could not be read.
    pub unread_ledgers: usize,
    /// Earlier spends.
    pub past: PastSpends,
    /// Expected cost of the month; `None` if unknown, or if the month is over.
    #[serde(rename = "forecast_usd")]
    pub forecast: Option<Amount>,
    #[serde(rename = "budget_usd")]
    pub budget: Option<Amount>,
    /// Other accounts that share the budget; absent if they do not.
    #[serde(rename = "shared_budget", skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedBudget>,
    #[serde(rename = "saved_usd", serialize_with = "known_sum::serialize_known")]
    pub saved: KnownSum<Amount>,
    /// Number of actions whose saving is unknown, which the sum lacks.
    pub unpriced_savings: u64,
    /// Present cost of the found waste.
    #[serde(rename = "waste_usd_per_hour", serialize_with = "known_sum::serialize_known")]
    pub waste: KnownSum<Rate>,
    #[serde(rename = "spot_saved_usd")]
    pub spot_saved: Amount,
    /// `true` if the on-demand price of a job's type is unknown: then Spot saved more.
    pub spot_saved_at_least: bool,
    pub footprint: Footprint,
}

/// One team.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TeamRow {
    pub team: String,
    #[serde(rename = "spent_usd", serialize_with = "known_sum::serialize_known")]
    pub spent: KnownSum<Amount>,
    #[serde(rename = "uncertain_usd")]
    pub uncertain: Amount,
    /// Seconds that resources ran at an unknown price.
    pub unpriced_seconds: u64,
    /// Earlier spends.
    pub past: PastSpends,
    #[serde(rename = "budget_usd")]
    pub budget: Option<Amount>,
    /// Other accounts that share the budget; absent if they do not.
    #[serde(rename = "shared_budget", skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedBudget>,
    #[serde(rename = "forecast_usd")]
    pub forecast: Option<Amount>,
    #[serde(rename = "saved_usd", serialize_with = "known_sum::serialize_known")]
    pub saved: KnownSum<Amount>,
    /// Number of actions whose saving is unknown, which the sum lacks.
    pub unpriced_savings: u64,
    #[serde(rename = "waste_usd_per_hour", serialize_with = "known_sum::serialize_known")]
    pub waste: KnownSum<Rate>,
    /// Time in which the team's instances were announced as idle; `idle_cost` is their cost in that time.
    pub idle_seconds: u64,
    #[serde(rename = "idle_usd", serialize_with = "known_sum::serialize_known")]
    pub idle_cost: KnownSum<Amount>,
    pub footprint: Footprint,
}

/// Saving of one action.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SavingRow {
    pub at: Timestamp,
    pub resource: ResourceId,
    pub what: String,
    pub name: Option<String>,
    pub owner: Option<String>,
    pub team: Option<TeamName>,
    pub action: &'static str,
    pub rule: String,
    /// Reason why no longer time counts.
    pub until: &'static str,
    pub counted_seconds: u64,
    /// `None` if the price is unknown.
    #[serde(rename = "saved_usd")]
    pub saved: Option<Amount>,
    /// The audit record, a key of the state bucket.
    pub audit_key: String,
}

impl SavingRow {
    fn new(line: SavingLine, labels: &BTreeMap<ResourceId, ResourceLabel>) -> Self {
        let label = labels.get(&line.ended.resource).cloned().unwrap_or_default();
        Self {
            name: label.name,
            owner: label.owner,
            at: line.ended.at,
            action: line.ended.action.describe(),
            until: line.limit.describe(),
            counted_seconds: line.counted.seconds(),
            saved: line.saved,
            resource: line.ended.resource,
            what: line.ended.what,
            team: line.ended.team,
            rule: line.ended.rule,
            audit_key: line.ended.audit_key,
        }
    }

    pub(crate) fn describe(&self) -> String {
        let Self { resource, what, name, owner, team, .. } = self;
        let (id, team) = (resource.as_str(), team.as_ref());
        KnownResource { id, what, name: name.as_deref(), owner: owner.as_deref(), team }.describe()
    }
}

impl MonthReport {
    /// Builds the report of the whole account.
    #[must_use]
    pub fn from_facts(facts: &MonthFacts) -> Self {
        let month = facts.month.span();
        let span = TimeSpan { from: month.from, to: month.to.min(facts.now).max(month.from) };
        let mut spend = MonthSpend::new(span, &facts.zone);
        for ledger in &facts.ledgers {
            spend.add_ledger(ledger, &facts.prices, span);
        }
        let starts = StartIndex::from_ledgers(facts.ledgers.iter().chain(&facts.previous_ledgers));
        let saved = savings(facts.days.iter().flat_map(DayActions::ended), &starts, span);
        let savings: Vec<SavingRow> = saved.lines.into_iter().map(|line| SavingRow::new(line, &spend.labels)).collect();
        let seen = facts.usage.as_ref().map(|usage| usage.seen.clone()).unwrap_or_default();
        let waste = find_waste(&facts.newest, &facts.days, &spend, &seen);
        let (by_team, by_job) = split_footprints(facts, span);
        let mut jobs = job_rows(&facts.jobs, &spend.by_job, &facts.attempts, by_job);
        let unfinished: BTreeSet<String> =
            facts.jobs.iter().filter(|job| !job.over).map(|job| job.job.to_string()).collect();
        let is_over = facts.now >= month.to;
        let past = PastSpendsByTeam::from_facts(facts, span, is_over);
        let mut teams = team_rows(facts, &spend, &savings, &waste, by_team, is_over);
        let unread = unread_ledgers(facts);
        for row in &mut teams {
            row.past = past.of_team(&row.team);
            add_unread((&mut row.spent, &mut row.footprint), unread);
        }
        for row in &mut jobs {
            add_unread((&mut row.spent, &mut row.footprint), unread);
        }
        let account_budget = facts.budgets.get(&BudgetHolder::Account);
        let headline = Headline {
            budget: account_budget.and_then(|budget| budget.budget_usd),
            forecast: account_budget.and_then(|budget| budget.forecast_usd).filter(|_| !is_over),
            past: past.of_account(),
            unread_ledgers: facts.unread_ledgers,
            ..Headline::sum(&teams, &jobs, unread)
        };
        let own = OwnCost::from_runs(&facts.runs, span);
        let has_own_runs = facts.runs.values().any(|runs| runs.first_at.is_some());
        Self {
            account: None,
            account_name: None,
            has_ledger: !facts.ledgers.is_empty(),
            ledger_since: late_ledger(facts, span),
            has_audit_records: has_own_runs
                || !facts.newest.is_empty()
                || facts.days.iter().any(|day| !day.actions.is_empty()),
            month: facts.month.to_string(),
            at: facts.now,
            is_over,
            team: None,
            mode: facts.newest.iter().max_by_key(|record| record.at).map(|record| record.mode),
            footprint_caveats: headline.footprint.caveats(facts.now),
            headline,
            days: if facts.ledgers.is_empty() {
                Vec::new()
            } else {
                spend.days.into_iter().map(|(day, _)| day).collect()
            },
            teams,
            savings,
            waste,
            next_month: NextMonth::from_facts(facts, &spend.labels),
            jobs,
            checkpoints: checkpoint_rows(&facts.checkpoints, |job| unfinished.contains(job)),
            own: has_own_runs.then_some(own),
            coverage: MonthCoverage::from_facts(facts, span),
            gaps: describe_gaps(facts),
        }
    }

    fn unread_ledgers(&self) -> u64 {
        u64::try_from(self.headline.unread_ledgers).unwrap_or(u64::MAX).max((!self.has_ledger).into())
    }

    /// The part of one team, by its label: [`NO_TEAM`] is what belongs to none.
    #[must_use]
    pub fn for_team(&self, team: &str) -> Self {
        let is_of_team = |other: Option<&TeamName>| team_label(other) == team;
        let teams: Vec<TeamRow> = self.teams.iter().filter(|row| row.team == team).cloned().collect();
        let jobs: Vec<JobRow> = self.jobs.iter().filter(|row| is_of_team(row.team.as_ref())).cloned().collect();
        let row = teams.first();
        let headline = Headline {
            budget: row.and_then(|row| row.budget),
            shared: row.and_then(|row| row.shared.clone()),
            forecast: row.and_then(|row| row.forecast),
            past: row.map(|row| row.past).unwrap_or_default(),
            unread_ledgers: self.headline.unread_ledgers,
            ..Headline::sum(&teams, &jobs, self.unread_ledgers())
        };
        let team_day = |day: &DaySpend| DaySpend {
            day: day.day,
            by_team: day
                .by_team
                .iter()
                .filter(|(name, _)| *name == team)
                .map(|(name, usd)| (name.clone(), *usd))
                .collect(),
        };
        Self {
            account: self.account.clone(),
            account_name: self.account_name.clone(),
            has_ledger: self.has_ledger,
            ledger_since: self.ledger_since,
            has_audit_records: self.has_audit_records,
            month: self.month.clone(),
            at: self.at,
            is_over: self.is_over,
            team: Some(team.to_owned()),
            mode: self.mode,
            footprint_caveats: headline.footprint.caveats(self.at),
            headline,
            days: self.days.iter().map(team_day).collect(),
            teams,
            savings: self.savings.iter().filter(|row| is_of_team(row.team.as_ref())).cloned().collect(),
            waste: self.waste.iter().filter(|row| is_of_team(row.team.as_ref())).cloned().collect(),
            next_month: self.next_month.as_ref().map(|next| next.for_team(team)),
            jobs,
            checkpoints: self.checkpoints.iter().filter(|row| row.team == team).cloned().collect(),
            own: None,
            coverage: self.coverage,
            gaps: self.gaps.clone(),
        }
    }
}

fn describe_gaps(facts: &MonthFacts) -> Vec<String> {
    let omitted = facts.days.iter().map(|day| day.omitted).sum::<usize>();
    let words = || format!("{omitted} actions are missing: one day had more than {}", crate::ACTIONS_MAX);
    facts.gaps.iter().cloned().chain((omitted > 0).then(words)).collect()
}

/// The ledgers of the month that could not be read; one if there is none at all.
fn unread_ledgers(facts: &MonthFacts) -> u64 {
    u64::try_from(facts.unread_ledgers).unwrap_or(u64::MAX).max(facts.ledgers.is_empty().into())
}

/// Adds what is unknown without these ledgers.
fn add_unread((spent, footprint): (&mut KnownSum<Amount>, &mut Footprint), ledgers: u64) {
    *spent = *spent + KnownSum::new(Amount::ZERO, ledgers);
    *footprint = std::mem::take(footprint) + Footprint::of_unread_ledgers(ledgers);
}

impl Headline {
    /// `unread` ledgers are lacking in each sum.
    fn sum(teams: &[TeamRow], jobs: &[JobRow], unread: u64) -> Self {
        let mut spent: KnownSum<Amount> = teams.iter().map(|row| row.spent).sum();
        let mut footprint: Footprint = teams.iter().map(|row| row.footprint.clone()).sum();
        add_unread((&mut spent, &mut footprint), unread);
        Self {
            spent,
            uncertain: teams.iter().map(|row| row.uncertain).sum(),
            unpriced_seconds: teams.iter().fold(0, |sum: u64, row| sum.saturating_add(row.unpriced_seconds)),
            past: PastSpends::default(),
            unread_ledgers: 0,
            forecast: None,
            budget: None,
            shared: None,
            saved: teams.iter().map(|row| row.saved).sum(),
            unpriced_savings: teams.iter().map(|row| row.unpriced_savings).sum(),
            waste: teams.iter().map(|row| row.waste).sum(),
            spot_saved: jobs.iter().map(|row| row.spot_saved).sum(),
            spot_saved_at_least: jobs.iter().any(|row| row.spot_saved_at_least),
            footprint,
        }
    }
}

/// The beginning of the ledgers, if it is more than a day after that of the month.
fn late_ledger(facts: &MonthFacts, span: TimeSpan) -> Option<Timestamp> {
    let since = facts.ledgers.iter().filter_map(Ledger::since).min()?;
    (since > after(span.from, BLIND_MAX)).then_some(since)
}

fn split_footprints(facts: &MonthFacts, span: TimeSpan) -> (BTreeMap<String, Footprint>, BTreeMap<String, Footprint>) {
    let mut by_team: BTreeMap<String, Footprint> = BTreeMap::new();
    let mut by_job: BTreeMap<String, Footprint> = BTreeMap::new();
    for (key, footprint) in footprints(&facts.ledgers, span, |job, machine| load_of(&facts.attempts, job, machine)) {
        if let Some(job) = key.job {
            let sum = by_job.entry(job).or_default();
            *sum = std::mem::take(sum) + footprint.clone();
        }
        let sum = by_team.entry(team_label(key.team.as_ref())).or_default();
        *sum = std::mem::take(sum) + footprint;
    }
    (by_team, by_job)
}

fn team_rows(
    facts: &MonthFacts,
    spend: &MonthSpend,
    savings: &[SavingRow],
    waste: &[WasteRow],
    footprints: BTreeMap<String, Footprint>,
    is_over: bool,
) -> Vec<TeamRow> {
    let mut rows: BTreeMap<String, TeamRow> = BTreeMap::new();
    let month = facts.month.span();
    let span = TimeSpan { from: month.from, to: month.to.min(facts.now).max(month.from) };
    for (team, cost) in &spend.by_team {
        let row = rows.entry(team.clone()).or_default();
        (row.spent, row.uncertain, row.unpriced_seconds) = (cost.priced_sum(), cost.uncertain, cost.unpriced_seconds);
    }
    for row in savings {
        let team_row = rows.entry(team_label(row.team.as_ref())).or_default();
        team_row.saved = team_row.saved.with(row.saved);
        team_row.unpriced_savings = team_row.saved.unpriced();
    }
    for row in waste.iter().filter(|row| row.kind.is_waste()) {
        let team_row = rows.entry(team_label(row.team.as_ref())).or_default();
        team_row.waste = team_row.waste.with(row.usd_per_hour);
    }
    for (team, idle) in idle_times(&facts.days, &facts.ledgers, span) {
        let row = rows.entry(team).or_default();
        (row.idle_seconds, row.idle_cost) = (idle.seconds, idle.cost);
    }
    for (team, footprint) in footprints {
        rows.entry(team).or_default().footprint = footprint;
    }
    for (holder, budget) in &facts.budgets {
        if let BudgetHolder::Team(team) = holder {
            add_budget(&mut rows, team, budget, is_over);
        }
    }
    let mut rows: Vec<TeamRow> = rows.into_iter().map(|(team, row)| TeamRow { team, ..row }).collect();
    rows.sort_by(|one, other| (other.spent, &one.team).cmp(&(one.spent, &other.team)));
    rows
}

impl Headline {
    /// The part of a sum above the budget, with the spend of other accounts that counts for it.
    pub(crate) fn above_budget(&self, sum: Amount) -> Option<Amount> {
        above_budget(sum + SharedBudget::others_of(self.shared.as_ref()), self.budget)
    }

    /// The part of the known spend above the budget, likewise.
    pub(crate) fn spent_above_budget(&self) -> Option<Amount> {
        self.above_budget(self.spent.known().unwrap_or_default())
    }

    /// The budget, and the known spend as a percentage of it, likewise.
    pub(crate) fn percent_of_budget(&self) -> Option<(Amount, u64)> {
        let (budget, spent) = (self.budget?, self.spent.known()?);
        Some((budget, (spent + SharedBudget::others_of(self.shared.as_ref())).percent_of(budget)?))
    }
}

impl TeamRow {
    /// The part of the forecast above the budget, with the spend of other accounts that counts for it.
    pub(crate) fn forecast_above_budget(&self) -> Option<Amount> {
        above_budget(self.forecast? + SharedBudget::others_of(self.shared.as_ref()), self.budget)
    }
}

fn add_budget(rows: &mut BTreeMap<String, TeamRow>, team: &TeamName, budget: &Budget, is_over: bool) {
    let label = if team.as_str() == model::notification_log::NO_TEAM { NO_TEAM } else { team.as_str() };
    let row = rows.entry(label.to_owned()).or_default();
    row.budget = budget.budget_usd;
    row.shared.clone_from(&budget.shared);
    row.forecast = budget.forecast_usd.filter(|_| !is_over);
}
