//! The names by which the log of notifications remembers a budget.

use model::config::OverBudget;
use model::id::ResourceId;
use model::notification_log::ACCOUNT;

use super::{BudgetHolder, BudgetLimit};

/// Share from which a budget is spent, in percent.
pub const SPENT_PERCENT: u16 = 100;

/// The fingerprint of a share of a budget. People are notified again where it changes: in another month, or of another budget.
/// From 100 % on it names what follows as well, and whether Curfew enforces that.
#[must_use]
pub fn budget_fingerprint(month: &str, limit: &BudgetLimit, threshold_percent: u16) -> String {
    let budget = format!("{month} {}", limit.budget);
    match limit.over_budget {
        OverBudget::Hold | OverBudget::Stop if threshold_percent >= SPENT_PERCENT => {
            format!("{budget} {} {}", limit.over_budget.as_str(), limit.mode.as_str())
        }
        _ => budget,
    }
}

/// Returns the name of a budget in plans, reports and notifications: the team's, or `account`. No two holders share a name.
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

#[cfg(test)]
mod tests {
    use model::mode::Mode;
    use model::money::Amount;

    use super::*;

    /// The log of notifications keeps these texts: another one would notify people again.
    #[test]
    fn a_fingerprint_is_written_as_the_log_keeps_it() {
        let check = |over_budget, mode, percent, expect: &str| {
            let limit = BudgetLimit { budget: Amount::from_usd(5_000.0), over_budget, mode };
            assert_eq!(budget_fingerprint("2026-11", &limit, percent), expect);
        };
        check(OverBudget::Hold, Mode::Enforce, 80, "2026-11 $5,000.00");
        check(OverBudget::Notify, Mode::Enforce, 100, "2026-11 $5,000.00");
        check(OverBudget::Hold, Mode::Enforce, 100, "2026-11 $5,000.00 hold enforce");
        check(OverBudget::Stop, Mode::Observe, 120, "2026-11 $5,000.00 stop observe");
    }
}
