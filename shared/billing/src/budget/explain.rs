//! A budget in words: where it stands, on what the money was spent, and what would bring its holder back under it.

use std::fmt::Write as _;

use jiff::SignedDuration;
use model::config::OverBudget;
use model::duration;
use model::foreign_text::{describe_name, describe_owner, quoted_unless_word};
use model::mode::Mode;
use model::money::{Amount, Rate};

use super::{Budget, BudgetHolder, BudgetRemainder, BudgetVerdict, Spender, observation_gap, others};

/// The whole notification about a budget: one paragraph.
#[must_use]
pub fn describe_budget(holder: &BudgetHolder, budget: &Budget, percent: u64) -> String {
    let whose = match holder {
        BudgetHolder::Account => "The account".to_owned(),
        BudgetHolder::Team(team) => format!("Team {}", quoted_unless_word(team.as_str())),
    };
    let limit = budget.budget_usd.unwrap_or_default();
    let as_of = budget.as_of.map(|at| at.to_string()).unwrap_or_default();
    let mut text = format!(
        "{whose} has spent {} of its budget of {limit} for {} ({percent} %), as of {as_of}",
        budget.counted_usd(),
        budget.month
    );
    if budget.reserved_usd.is_a_cent() {
        let _ = write!(text, "; {} more is reserved for jobs", budget.reserved_usd);
    }
    let BudgetRemainder { amount, bound } = budget.remainder();
    let bound = bound.map(|bound| format!("{bound} ")).unwrap_or_default();
    let _ = write!(text, "; {bound}{amount} is left.");
    if let Some(shared) = &budget.shared {
        let _ = write!(text, " {}. In this account {} was spent.", shared.describe(), budget.spent_usd);
    }
    for sentence in consequence(budget).into_iter().chain(made_up_of(budget)).chain(unknown(budget)) {
        text.push(' ');
        text += &sentence;
    }
    if let Some(forecast) = budget.forecast_usd {
        let _ = write!(
            text,
            " The forecast is an estimated {forecast} by the end of the month: {}.",
            budget.forecast_method
        );
    }
    for sentence in &budget.remedy {
        text.push(' ');
        text += sentence;
    }
    text
}

/// Describes the action of a spent budget, now or later.
fn consequence(budget: &Budget) -> Option<String> {
    let observed = budget.mode == Mode::Observe;
    let is = if observed { "would be" } else { "is" };
    let stops = format!("what runs {is} stopped, each after its own announcement");
    match (budget.verdict, budget.over_budget?) {
        (BudgetVerdict::Ok, OverBudget::Hold) => Some(format!("Once it is spent, no further job {is} launched.")),
        (BudgetVerdict::Ok, OverBudget::Stop) => {
            Some(format!("Once it is spent, no further job {is} launched, and {stops}."))
        }
        (BudgetVerdict::Ok, OverBudget::Notify) | (BudgetVerdict::Notify, _) => None,
        (BudgetVerdict::Hold, _) => Some(format!("No further job {is} launched this month.")),
        (BudgetVerdict::Stop, _) => Some(format!("No further job {is} launched this month, and {stops}.")),
    }
}

/// The spenders, the dearest first.
fn made_up_of(budget: &Budget) -> Option<String> {
    if budget.top.is_empty() {
        return None;
    }
    let mut named: Vec<String> = budget.top.iter().map(spender).collect();
    if budget.others.count > 0 {
        named.push(format!("{} {}", others(budget.others.count), budget.others.usd));
    }
    Some(format!("The most was spent on {}.", named.join("; ")))
}

/// `i-0abc (g5.xlarge "bench", owner "ada", us-east-1) $12.30, still running at $1.01/h`.
fn spender(one: &Spender) -> String {
    let (name, owner) = (describe_name(one.name.as_deref()), describe_owner(one.owner.as_deref()));
    let runs = match (one.running, one.usd_per_hour) {
        (true, Some(usd)) => {
            format!(", still running at {}", Rate::from_usd_micros_per_hour(Amount::from_usd(usd).usd_micros()))
        }
        (true, None) => ", still running at an unknown price".to_owned(),
        (false, _) => String::new(),
    };
    format!("{} ({}{name}, {owner}, {}) {}{runs}", one.resource, one.what, one.region, one.usd)
}

/// Describes the gaps of the figures.
fn unknown(budget: &Budget) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((first, rest)) = budget.unpriced.split_first() {
        let time = SignedDuration::from_secs(i64::try_from(first.seconds).unwrap_or(i64::MAX));
        let others = if rest.is_empty() { String::new() } else { format!("; and {}", others(rest.len())) };
        found.push(format!(
            "Not counted, because the price is unknown: {} ({}, {}), which ran for {}{others}.",
            first.resource,
            first.what,
            first.region,
            duration::format_duration(time)
        ));
    }
    if !budget.tables.is_empty() {
        let tables: Vec<&str> = budget.tables.iter().map(String::as_str).collect();
        found.push(format!("Some prices are not from the Price List, but from the {}.", tables.join(", and of the ")));
    }
    if budget.uncertain_usd.is_a_cent() {
        found.push(format!(
            "Up to {} more may be spent, on resources with an unobserved stop, or not seen since.",
            budget.uncertain_usd
        ));
    }
    if let Some(blind) = budget.blind_since {
        found.push(format!("Something that runs was last seen at {blind}: what it cost since is not counted."));
    }
    found.extend(
        observation_gap::describe_gaps(&budget.observation_gaps).map(|gap| format!("Curfew did not observe {gap}.")),
    );
    found
}
