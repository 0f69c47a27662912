//! By what a budget, and what was told of it, is remembered.

use model::config::OverBudget;
use model::id::ResourceId;
use model::notification_log::ACCOUNT;

use super::{BudgetHolder, BudgetLimit};

/// From this share on a budget is spent.
pub const SPENT_PERCENT: u16 = 100;

/// The fingerprint of a share of a budget: another month, or another budget, is told anew. From 100 % on so is what follows,
/// and whether it really does: nobody is held by what they heard only would be.
#[must_use]
pub fn budget_fingerprint(month: &str, limit: &BudgetLimit, threshold_percent: u16) -> String {
    let told = format!("{month} {}", limit.budget);
    match limit.over_budget {
        OverBudget::Hold | OverBudget::Stop if threshold_percent >= SPENT_PERCENT => {
            format!("{told} {:?} {:?}", limit.over_budget, limit.mode)
        }
        _ => told,
    }
}

/// By what name a budget goes in plans, reports and notices: the team's, or `account`. No two share one.
#[must_use]
pub fn resource_of(holder: &BudgetHolder) -> ResourceId {
    match holder {
        BudgetHolder::Account => ACCOUNT.into(),
        // Not to be taken for the account, nor for a team of the name that it has instead.
        BudgetHolder::Team(team) if team.as_str().trim_start_matches("team ") == ACCOUNT => {
            format!("team {team}").as_str().into()
        }
        BudgetHolder::Team(team) => team.as_str().into(),
    }
}
