//! Budgets as rows.

use billing::budget::overview::{BudgetDataState, BudgetOverview, BudgetRow};
use billing::budget::{BudgetHolder, needed_by_the_reaper};
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::TeamName;
use model::money::{Amount, Rate};
use serde::Serialize;

/// One budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetLine {
    /// The team, as people are shown it.
    pub holder: String,
    pub state: BudgetDataState,
    /// Spend that counts for the budget, with that of accounts that share it. Null where nothing is known, and so are all figures.
    pub spent_usd: Option<Amount>,
    /// `true` if more may be spent than `spent_usd`.
    pub at_least: bool,
    pub budget_usd: Option<Amount>,
    pub percent: Option<u64>,
    pub forecast_usd: Option<Amount>,
    pub forecast_percent: Option<u64>,
    pub over: bool,
    /// The consequence, in a few words.
    pub consequence: &'static str,
    pub as_of: Option<Timestamp>,
    /// The age of the figures, for people.
    pub age: String,
    /// Cost of everything that runs now, as far as its price is known.
    pub usd_per_hour: Option<Rate>,
    /// Time when the budget will be spent at this rate, if that is within this month.
    pub spent_at: Option<Timestamp>,
}

/// The budgets to read: the account's, and those of teams that have one. One object each, without a list.
#[must_use]
pub fn holders_to_read(config: &Config) -> Vec<BudgetHolder> {
    let limited = config.teams.iter().filter(|(_, team)| team.monthly_budget_usd.is_some());
    let mut holders: Vec<BudgetHolder> =
        limited.map(|(name, _)| BudgetHolder::Team(TeamName::new(name.as_str()))).collect();
    holders.push(BudgetHolder::Account);
    holders.extend(needed_by_the_reaper(config));
    holders.sort();
    holders.dedup();
    holders
}

impl BudgetLine {
    pub(super) fn from_row(row: &BudgetRow, overview: &BudgetOverview) -> Self {
        let budget = row.budget.as_ref().filter(|_| row.state != BudgetDataState::Absent);
        let burn = budget.filter(|_| row.state == BudgetDataState::Fresh).map(billing::budget::Budget::burn);
        let spent_at = burn.zip(budget).filter(|_| !row.over).and_then(|(burn, budget)| {
            let left = budget.budget_usd?.saturating_sub(budget.counted_usd());
            let seconds = i64::try_from(left.lasts_at(burn)?).ok()?;
            let at = budget.as_of?.checked_add(SignedDuration::from_secs(seconds)).ok()?;
            Some(at).filter(|at| *at < overview.period.to)
        });
        Self {
            holder: row.name(),
            state: row.state,
            spent_usd: budget.map(billing::budget::Budget::counted_usd),
            at_least: row.at_least,
            budget_usd: budget.and_then(|budget| budget.budget_usd),
            percent: row.percent,
            forecast_usd: budget.and_then(|budget| budget.forecast_usd),
            forecast_percent: row.forecast_percent,
            over: row.over,
            consequence: row.consequence(),
            as_of: budget.and_then(|budget| budget.as_of),
            age: overview.how_old(row),
            usd_per_hour: burn,
            spent_at,
        }
    }
}
