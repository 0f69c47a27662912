//! A month that is over: what it came to is told once, where its last beat did not know it yet.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder, explain, resource_of};
use model::config::Config;
use model::id::Region;
use model::mode::Mode;
use model::notification_log::NotificationLogs;
use plan::{Action, BudgetAction, Facts, Plan};

use crate::budgets::decide;

/// The plan of a beat, in which the budgets that it closed speak as well, where a share was reached for which no message was sent.
/// A budget with a notification for the present month gets that alone: each budget is in the plan once.
#[must_use]
pub fn close(
    plan: Plan,
    closed: &BTreeMap<BudgetHolder, Budget>,
    (config, ceiling): (&Config, Mode),
    memory: &NotificationLogs,
    home: &Region,
) -> Plan {
    let mut plan = plan;
    for mut step in
        decide(closed, config, ceiling, memory, home).steps.into_iter().filter(|step| !step.already_notified)
    {
        let quiet = plan.skipped.iter().position(|skipped| skipped.target.resource == step.target.resource);
        let of_whom = closed.iter().find(|(holder, _)| resource_of(holder) == step.target.resource);
        if let (Some(quiet), Some((holder, budget)), Facts::OverBudget(over)) =
            (quiet, of_whom, &mut step.evidence.facts)
        {
            step.action = Action::Budget(BudgetAction::Notify);
            over.text = explain::describe_budget(holder, &budget.as_past(), over.percent);
            plan.skipped.remove(quiet);
            plan.steps.push(step);
        }
    }
    plan
}
