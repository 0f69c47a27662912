//! The notification about the final spend of a month, if the month's last beat did not know it yet.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder, explain, resource_of};
use model::ceiling::Ceiling;
use model::config::Config;
use model::id::Region;
use model::notification_log::NotificationLogs;
use plan::{Action, BudgetAction, Facts, Plan};

use crate::budgets::decide;

/// The plan of a beat, with the budgets of closed months that reached a threshold without a notification. A budget with a notification about the
/// present month gets that alone, because a plan has each budget once.
#[must_use]
pub fn close(
    plan: Plan,
    closed: &BTreeMap<BudgetHolder, Budget>,
    config: &Config,
    ceiling: &Ceiling,
    memory: &NotificationLogs,
    home: &Region,
) -> Plan {
    let mut plan = plan;
    for mut step in
        decide(closed, config, ceiling, memory, home).steps.into_iter().filter(|step| !step.already_notified)
    {
        let quiet = plan.skipped.iter().position(|skipped| skipped.target.resource == step.target.resource);
        let closed_budget = closed.iter().find(|(holder, _)| resource_of(holder) == step.target.resource);
        if let (Some(quiet), Some((holder, budget)), Facts::OverBudget(over)) =
            (quiet, closed_budget, &mut step.evidence.facts)
        {
            step.action = Action::Budget(BudgetAction::Notify);
            over.text = explain::describe_budget(holder, &budget.as_past(), over.percent);
            plan.skipped.remove(quiet);
            plan.steps.push(step);
        }
    }
    plan
}
