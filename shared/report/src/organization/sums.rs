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
    /// Sums of an account, by its newest spend, and by the rest of the figures of its last morning.
    fn of_account(newest: &AccountFigures, daily: Option<&Self>) -> Self {
        // Without any team nothing was spent, and nothing else is known.
        let spent = Self::of_parts(newest).unwrap_or_default();
        let unknown = Self::unknown();
        let Self { previous_month, last_week, previous_week, saved, waste, .. } = *daily.unwrap_or(&unknown);
        let forecast = forecast_of(newest.forecast_usd, spent.spent);
        Self { budget: newest.budget_usd, forecast, previous_month, last_week, previous_week, saved, waste, ..spent }
    }

    /// `None` if the figures name no team.
    fn of_parts(figures: &AccountFigures) -> Option<Self> {
        let others = figures.other_teams.as_ref().map(|others| &others.figures);
        let parts = figures.teams.iter().map(|team| &team.figures).chain(others);
        parts.map(Self::from_figures).reduce(Self::plus)
    }

    fn from_figures(figures: &Figures) -> Self {
        let known = |sum: Option<KnownSum<Amount>>| sum.unwrap_or_else(KnownSum::unknown);
        Self {
            spent: figures.spent,
            uncertain: figures.uncertain_usd,
            budget: figures.budget_usd,
            forecast: forecast_of(figures.forecast_usd, figures.spent),
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

    /// Sums that lack so many parts.
    fn lacking(parts: u64) -> Self {
        let amount = KnownSum::new(Amount::ZERO, parts);
        Self {
            spent: amount,
            uncertain: Amount::ZERO,
            budget: Some(Amount::ZERO),
            forecast: amount,
            previous_month: amount,
            last_week: amount,
            previous_week: amount,
            saved: amount,
            waste: KnownSum::new(Rate::ZERO, parts),
        }
    }
}

/// A forecast lacks what the spend lacks that it continues.
fn forecast_of(forecast: Option<Amount>, spent: KnownSum<Amount>) -> KnownSum<Amount> {
    KnownSum::new(Amount::ZERO, (forecast.is_some() && !spent.is_complete()).into()).with(forecast)
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
    /// Time since which they are known, if that is not the beginning of the month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_since: Option<Timestamp>,
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
        let is_over = now >= month.span().to;
        let mut accounts: Vec<AccountRow> =
            by_account.into_values().map(|one| AccountRow::new(one, month, now)).collect();
        accounts.sort_by(|one, other| {
            (Reverse(one.sums.spent), &one.account).cmp(&(Reverse(other.sums.spent), &other.account))
        });
        let sums = accounts.iter().map(|row| row.sums).reduce(FigureSums::plus).unwrap_or_else(FigureSums::unknown);
        let gaps = accounts.iter().flat_map(AccountRow::describe_problems).chain(gaps).collect();
        let teams = teams_across(&accounts, shared);
        Self { month: month.to_string(), at: now, is_over, sums, accounts, teams, gaps }
    }

    /// The accounts that have published nothing lately, those that never did among them.
    pub fn silent_accounts(&self) -> impl Iterator<Item = &AccountRow> {
        self.accounts.iter().filter(|row| row.is_silent)
    }
}

impl AccountRow {
    fn new(published: PublishedMonth, month: &CalendarMonth, now: Timestamp) -> Self {
        let PublishedMonth { account, beat, daily, heard_before, problems } = published;
        let known_until = now.min(month.span().to);
        let is_final = |figures: &AccountFigures| figures.covers(month);
        let daily_sums = daily.as_ref().map(|daily| {
            let sums = FigureSums::of_parts(daily).unwrap_or_else(FigureSums::unknown);
            // Of the last hours of a month that is over it may not know what Curfew saved.
            let is_behind = now >= month.span().to && !is_final(daily);
            FigureSums { saved: sums.saved + KnownSum::new(Amount::ZERO, is_behind.into()), ..sums }
        });
        let is_newer = |daily: &AccountFigures| beat.as_ref().is_none_or(|beat| beat.as_of <= daily.as_of);
        let newest = match daily {
            Some(daily) if is_newer(&daily) => Some(daily),
            Some(daily) => beat.map(|beat| beat.with_daily(&daily)),
            None => beat,
        };
        let as_of = newest.as_ref().map(|figures| figures.as_of);
        let heard_at = as_of.or(heard_before);
        let is_covered = newest.as_ref().is_some_and(is_final);
        let is_silent = !is_covered && heard_at.is_none_or(|at| known_until.duration_since(at) > SILENT_AFTER);
        let Some(mut figures) = newest else {
            let (name, mode, known_since, teams, other_teams) = (None, None, None, Vec::new(), None);
            let sums = FigureSums::unknown();
            return Self {
                account,
                name,
                mode,
                as_of,
                known_since,
                heard_at,
                is_silent,
                sums,
                teams,
                other_teams,
                problems,
            };
        };
        // It may have spent more since, or before.
        let is_behind = is_silent || (now >= month.span().to && !is_covered);
        figures.add_unseen(u64::from(is_behind).saturating_add(figures.known_since.is_some().into()));
        let sums = FigureSums::of_account(&figures, daily_sums.as_ref());
        let AccountFigures { account_name: name, mode, known_since, teams, other_teams, .. } = figures;
        Self { account, name, mode, as_of, known_since, heard_at, is_silent, sums, teams, other_teams, problems }
    }

    /// `true` if it has teams of which only the sum is known.
    pub(super) fn has_unnamed_teams(&self) -> bool {
        let spent = |others: &OtherTeams| others.figures.spent.known().is_some_and(Amount::is_a_cent);
        self.other_teams.as_ref().is_some_and(|others| others.teams > 0 || spent(others))
    }

    /// `true` if a team that it does not name may have spent something.
    fn may_omit_teams(&self) -> bool {
        let others = self.other_teams.as_ref();
        self.as_of.is_none() || others.is_some_and(|others| others.teams > 0 || !others.figures.spent.is_zero())
    }

    fn describe_problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|problem| format!("figures of {}: {problem}", self.account))
    }
}

/// Spend of a team in one account. Of an account without figures, or with more teams than it names, it may be unknown.
fn spent_in(accounts: &[AccountRow], account: &AccountId, team: &TeamName) -> KnownSum<Amount> {
    let row = accounts.iter().find(|row| row.account == *account && row.as_of.is_some());
    let Some(row) = row else { return KnownSum::unknown() };
    let named = row.teams.iter().find(|figures| figures.team == team.as_str()).map(|row| row.figures.spent);
    let unnamed = || KnownSum::new(Amount::ZERO, row.may_omit_teams().into());
    named.unwrap_or_else(unnamed)
}

/// Teams by name: the same name is the same team, because an organization names its teams once. An account that may have spent something on a team
/// that it does not name makes the sums of this team lower bounds.
fn teams_across(accounts: &[AccountRow], shared: &BTreeMap<TeamName, BudgetOfAccounts>) -> Vec<OrganizationTeam> {
    let omitting = || accounts.iter().filter(|row| row.may_omit_teams());
    let mut named_by_omitting: BTreeMap<&str, usize> = BTreeMap::new();
    for team in omitting().flat_map(|row| &row.teams) {
        let count = named_by_omitting.entry(&team.team).or_default();
        *count = count.saturating_add(1);
    }
    let mut teams: BTreeMap<&str, OrganizationTeam> = BTreeMap::new();
    for row in accounts {
        for TeamFigures { team, figures } in &row.teams {
            let sums = FigureSums::from_figures(figures);
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
    let omitting = omitting().count();
    for (team, row) in &mut teams {
        let named = named_by_omitting.get(team).copied().unwrap_or_default();
        let is_absent = |account: &&AccountId| !accounts.iter().any(|row| row.account == **account);
        let absent = shared.get(*team).map_or(0, |shared| shared.accounts.iter().filter(is_absent).count());
        let lacking = omitting.saturating_sub(named).saturating_add(absent);
        row.sums = row.sums.plus(FigureSums::lacking(u64::try_from(lacking).unwrap_or(u64::MAX)));
    }
    let mut teams: Vec<OrganizationTeam> = teams.into_values().collect();
    teams.sort_by(|one, other| (Reverse(one.sums.spent), &one.team).cmp(&(Reverse(other.sums.spent), &other.team)));
    teams
}

#[cfg(test)]
mod tests;
