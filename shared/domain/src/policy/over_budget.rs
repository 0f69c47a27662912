//! **Over budget**, if and only if
//! - the configuration says `over_budget = "stop"` for the instance's team, or for the account,
//! - and of that budget all is spent this month, by a beat of this month no older than [`STALE_AFTER`].
//!
//! Where nothing so young says where the budget stands, nobody can say.

use super::{Broken, Due, Subject, Verdict};
use crate::budget::{self, Holder, OverBudgetBecause, Period, STALE_AFTER, Standing};
use crate::config::{OverBudget, RuleAction};
use crate::money::Amount;
use crate::plan::Because;

/// Judges one running instance.
#[must_use]
pub fn judge(subject: Subject<'_>) -> Verdict {
    let team = subject.team().filter(|team| {
        subject
            .config
            .team(team)
            .is_some_and(|team| team.monthly_budget_usd.is_some() && team.over_budget == Some(OverBudget::Stop))
    });
    let account = &subject.config.account;
    let of_account = account.monthly_budget_usd.is_some() && account.over_budget == OverBudget::Stop;
    let holders = team.map(Holder::Team).into_iter().chain(of_account.then_some(Holder::Account));
    let mut found = Verdict::Kept;
    for holder in holders {
        let standing = subject.budgets.0.get(&holder);
        match standing.filter(|standing| is_fresh(standing, subject) && is_of_this_month(standing, subject)) {
            None => found = Verdict::Unknown,
            Some(standing) if standing.verdict == budget::Verdict::Stop => return broken(&holder, standing, subject),
            Some(_) => {}
        }
    }
    found
}

fn is_fresh(standing: &Standing, subject: Subject<'_>) -> bool {
    subject.now.duration_since(standing.as_of).abs() <= STALE_AFTER
}

/// The last beat of a month says nothing of the next one.
fn is_of_this_month(standing: &Standing, subject: Subject<'_>) -> bool {
    standing.month == Period::of(subject.now, subject.config).month
}

fn broken(holder: &Holder, standing: &Standing, subject: Subject<'_>) -> Verdict {
    let due = match subject.feasible(RuleAction::Stop, subject.own_local_disk()) {
        Err(only_told) => Due::Tell(only_told),
        Ok(ending) => Due::From(ending, subject.now + subject.config.account.over_budget_grace),
    };
    let because = OverBudgetBecause {
        month: standing.month.clone(),
        of: match holder {
            Holder::Account => "account",
            Holder::Team(_) => "team",
        },
        budget_usd: standing.budget,
        spent_usd: standing.spent,
        reserved_usd: Amount::ZERO,
        percent: standing.spent.percent_of(standing.budget).unwrap_or(u64::MAX),
        threshold_percent: 100,
        over_budget: OverBudget::Stop,
        as_of: standing.as_of,
        told: String::new(),
    };
    Verdict::Broken(Broken { because: Because::OverBudget(because), due })
}
