//! The sums of an organization: by account, and by team across accounts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use billing::ledger::CalendarMonth;
use jiff::{SignedDuration, Timestamp};
use model::account::AccountId;
use model::config::Config;
use model::id::TeamName;
use model::known_sum::KnownSum;
use model::mode::Mode;
use model::money::{Amount, Rate};
use serde::Serialize;

use super::{AccountFigures, Figures, OtherTeams, TeamFigures};

/// An account publishes every quarter of an hour. After so long it is silent, and its figures are a lower bound.
pub const SILENT_AFTER: SignedDuration = SignedDuration::from_hours(3);

/// Documents of one account about a month. `None` is one that it has not published, or that does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedMonth {
    pub account: AccountId,
    /// Document of `enforce-budgets`.
    pub beat: Option<AccountFigures>,
    /// Document of `send-report`.
    pub daily: Option<AccountFigures>,
    /// Newest figures of the month before, where there are none of this month.
    pub heard_before: Option<Timestamp>,
    /// Reasons why a document could not be read, or does not count.
    pub problems: Vec<String>,
}

/// Sums of figures. What one part does not know, each sum lacks.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct FigureSums {
    pub spent: KnownSum<Amount>,
    #[serde(rename = "uncertain_usd")]
    pub uncertain: Amount,
    /// Sum of the budgets; `None` if one part has none.
    #[serde(rename = "budget_usd")]
    pub budget: Option<Amount>,
    pub forecast: KnownSum<Amount>,
    pub previous_month: KnownSum<Amount>,
    pub last_week: KnownSum<Amount>,
    pub previous_week: KnownSum<Amount>,
    pub saved: KnownSum<Amount>,
    pub waste: KnownSum<Rate>,
}

impl FigureSums {
    fn from_parts<'a>(parts: impl IntoIterator<Item = &'a Figures>) -> Self {
        parts.into_iter().map(Self::from_figures).reduce(Self::plus).unwrap_or_default()
    }

    fn from_figures(figures: &Figures) -> Self {
        let known = |sum: Option<KnownSum<Amount>>| sum.unwrap_or_else(KnownSum::unknown);
        Self {
            spent: figures.spent,
            uncertain: figures.uncertain_usd,
            budget: figures.budget_usd,
            forecast: KnownSum::default().with(figures.forecast_usd),
            previous_month: known(figures.previous_month),
            last_week: known(figures.last_week),
            previous_week: known(figures.previous_week),
            saved: known(figures.saved),
            waste: figures.waste.unwrap_or_else(KnownSum::unknown),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            spent: self.spent + other.spent,
            uncertain: self.uncertain + other.uncertain,
            budget: self.budget.zip(other.budget).map(|(one, other)| one + other),
            forecast: self.forecast + other.forecast,
            previous_month: self.previous_month + other.previous_month,
            last_week: self.last_week + other.last_week,
            previous_week: self.previous_week + other.previous_week,
            saved: self.saved + other.saved,
            waste: self.waste + other.waste,
        }
    }

    /// Sums of an account of which nothing is known.
    fn unknown() -> Self {
        Self::from_figures(&Figures { spent: KnownSum::unknown(), ..Figures::default() })
    }

    /// A lower bound: the account may have spent more since.
    fn at_least(self) -> Self {
        Self { spent: self.spent + KnownSum::new(Amount::ZERO, 1), ..self }
    }
}

/// One account.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccountRow {
    pub account: AccountId,
    /// Its own word.
    pub name: Option<String>,
    pub mode: Option<Mode>,
    /// Time up to which its figures of the month are known; `None` if there are none.
    pub as_of: Option<Timestamp>,
    /// The last time that it published anything of this month or the one before; `None` if unknown.
    pub heard_at: Option<Timestamp>,
    /// `true` if it has published nothing for [`SILENT_AFTER`].
    pub is_silent: bool,
    #[serde(flatten)]
    pub sums: FigureSums,
    pub teams: Vec<TeamFigures>,
    pub other_teams: Option<OtherTeams>,
    pub problems: Vec<String>,
}

/// A team in all accounts that name it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrganizationTeam {
    pub team: String,
    #[serde(flatten)]
    pub sums: FigureSums,
    /// Spend by account.
    pub accounts: BTreeMap<AccountId, KnownSum<Amount>>,
    /// Budget that accounts share, which `budget_usd` has once; absent if none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_budget: Option<TeamBudget>,
}

/// A budget that accounts share, and their spend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TeamBudget {
    pub budget_usd: Amount,
    /// Spend in these accounts.
    pub spent: KnownSum<Amount>,
    /// Number of accounts that share it.
    pub accounts: usize,
}

/// A budget that accounts share, as the hub's configuration sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetOfAccounts {
    pub budget: Amount,
    pub accounts: BTreeSet<AccountId>,
}

impl BudgetOfAccounts {
    /// The shared budgets of a configuration in force.
    #[must_use]
    pub fn from_config(config: &Config) -> BTreeMap<TeamName, Self> {
        let shared = config.shared_budgets.iter().filter_map(|(team, accounts)| {
            let budget = Amount::from_usd(config.team(team)?.monthly_budget_usd?);
            Some((team.clone(), Self { budget, accounts: accounts.clone() }))
        });
        shared.collect()
    }
}

/// The month of an organization.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrganizationReport {
    /// `yyyy-mm`.
    pub month: String,
    pub at: Timestamp,
    pub is_over: bool,
    #[serde(flatten)]
    pub sums: FigureSums,
    /// The dearest first.
    pub accounts: Vec<AccountRow>,
    /// The dearest first.
    pub teams: Vec<OrganizationTeam>,
    /// Descriptions of everything that could not be read.
    pub gaps: Vec<String>,
}

impl OrganizationReport {
    /// Builds the report. `expected` are accounts that should have published; those that never did are rows of which nothing is known.
    #[must_use]
    pub fn new(
        month: &CalendarMonth,
        now: Timestamp,
        published: Vec<PublishedMonth>,
        expected: impl IntoIterator<Item = AccountId>,
        shared: &BTreeMap<TeamName, BudgetOfAccounts>,
        gaps: Vec<String>,
    ) -> Self {
        let mut by_account: BTreeMap<AccountId, PublishedMonth> =
            published.into_iter().map(|one| (one.account.clone(), one)).collect();
        for account in expected {
            let never = || PublishedMonth {
                account: account.clone(),
                beat: None,
                daily: None,
                heard_before: None,
                problems: Vec::new(),
            };
            by_account.entry(account.clone()).or_insert_with(never);
        }
        let span = month.span();
        let known_until = now.min(span.to);
        let mut accounts: Vec<AccountRow> =
            by_account.into_values().map(|one| AccountRow::new(one, known_until)).collect();
        accounts.sort_by(|one, other| {
            (Reverse(one.sums.spent), &one.account).cmp(&(Reverse(other.sums.spent), &other.account))
        });
        let sums = accounts.iter().map(|row| row.sums).reduce(FigureSums::plus).unwrap_or_default();
        let gaps = accounts.iter().flat_map(AccountRow::describe_problems).chain(gaps).collect();
        let teams = teams_across(&accounts, shared);
        Self { month: month.to_string(), at: now, is_over: now >= span.to, sums, accounts, teams, gaps }
    }

    /// The accounts that have published nothing lately, those that never did among them.
    pub fn silent_accounts(&self) -> impl Iterator<Item = &AccountRow> {
        self.accounts.iter().filter(|row| row.is_silent)
    }
}

impl AccountRow {
    /// `known_until` is the time up to which the figures should be known.
    fn new(published: PublishedMonth, known_until: Timestamp) -> Self {
        let PublishedMonth { account, beat, daily, heard_before, problems } = published;
        let is_newer = |daily: &AccountFigures| beat.as_ref().is_none_or(|beat| beat.as_of <= daily.as_of);
        let newest = match daily {
            Some(daily) if is_newer(&daily) => Some(daily),
            Some(daily) => beat.map(|beat| beat.with_daily(&daily)),
            None => beat,
        };
        let as_of = newest.as_ref().map(|figures| figures.as_of);
        let heard_at = as_of.or(heard_before);
        let is_silent = heard_at.is_none_or(|at| known_until.duration_since(at) > SILENT_AFTER);
        let Some(figures) = newest else {
            let (name, mode, teams, other_teams) = (None, None, Vec::new(), None);
            let sums = FigureSums::unknown();
            return Self { account, name, mode, as_of, heard_at, is_silent, sums, teams, other_teams, problems };
        };
        let AccountFigures { account_name: name, mode, budget_usd, forecast_usd, teams, other_teams, .. } = figures;
        let parts = teams.iter().map(|team| &team.figures).chain(other_teams.as_ref().map(|others| &others.figures));
        let sums = FigureSums::from_parts(parts);
        let sums = FigureSums { budget: budget_usd, forecast: KnownSum::default().with(forecast_usd), ..sums };
        let sums = if is_silent { sums.at_least() } else { sums };
        Self { account, name, mode, as_of, heard_at, is_silent, sums, teams, other_teams, problems }
    }

    fn describe_problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|problem| format!("figures of {}: {problem}", self.account))
    }
}

/// Spend of a team in one account. Of an account without figures, or that names only its dearest teams, it may be unknown.
fn spent_in(accounts: &[AccountRow], account: &AccountId, team: &TeamName) -> KnownSum<Amount> {
    let row = accounts.iter().find(|row| row.account == *account && row.as_of.is_some());
    let Some(row) = row else { return KnownSum::unknown() };
    let named = row.teams.iter().find(|figures| figures.team == team.as_str()).map(|row| row.figures.spent);
    let unnamed = || if row.other_teams.is_some() { KnownSum::unknown() } else { KnownSum::default() };
    named.unwrap_or_else(unnamed) + KnownSum::new(Amount::ZERO, row.is_silent.into())
}

/// Teams by name: the same name is the same team, because an organization names its teams once.
fn teams_across(accounts: &[AccountRow], shared: &BTreeMap<TeamName, BudgetOfAccounts>) -> Vec<OrganizationTeam> {
    let mut teams: BTreeMap<&str, OrganizationTeam> = BTreeMap::new();
    for row in accounts {
        for TeamFigures { team, figures } in &row.teams {
            let sums = FigureSums::from_figures(figures);
            let sums = if row.is_silent { sums.at_least() } else { sums };
            let is_shared = shared.get(team.as_str()).is_some_and(|shared| shared.accounts.contains(&row.account));
            // The shared budget is added once.
            let sums = if is_shared { FigureSums { budget: Some(Amount::ZERO), ..sums } } else { sums };
            let spent = (row.account.clone(), sums.spent);
            teams
                .entry(team)
                .and_modify(|known| {
                    known.sums = known.sums.plus(sums);
                    known.accounts.extend([spent.clone()]);
                })
                .or_insert_with(|| OrganizationTeam {
                    team: team.clone(),
                    sums,
                    accounts: BTreeMap::from([spent.clone()]),
                    shared_budget: None,
                });
        }
    }
    for (team, shared) in shared {
        let row = teams.entry(team.as_str()).or_insert_with(|| OrganizationTeam {
            team: team.to_string(),
            sums: FigureSums { budget: Some(Amount::ZERO), ..FigureSums::default() },
            accounts: BTreeMap::new(),
            shared_budget: None,
        });
        row.sums.budget = row.sums.budget.map(|others| others + shared.budget);
        let spent = |account: &AccountId| spent_in(accounts, account, team);
        let spent = shared.accounts.iter().map(spent).sum();
        let count = shared.accounts.len();
        row.shared_budget = Some(TeamBudget { budget_usd: shared.budget, spent, accounts: count });
    }
    let mut teams: Vec<OrganizationTeam> = teams.into_values().collect();
    teams.sort_by(|one, other| (Reverse(one.sums.spent), &one.team).cmp(&(Reverse(other.sums.spent), &other.team)));
    teams
}

#[cfg(test)]
mod tests;
