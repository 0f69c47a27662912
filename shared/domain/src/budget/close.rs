//! A month that is over: what it came to is told once, where its last beat did not know it yet.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Budget, Holder, Verdict, decide, explain, resource_of};
use crate::config::{Config, OverBudget};
use crate::id::Region;
use crate::mode::Mode;
use crate::notices::Memory;
use crate::plan::{Action, Because, Plan};

impl Budget {
    /// Whether the month that ended at that moment is still to be closed in this document: some beat knew the month, and none
    /// its end.
    #[must_use]
    pub fn is_open(&self, ended: Timestamp) -> bool {
        self.as_of.is_some_and(|as_of| as_of < ended)
    }

    /// As it is told of a month that is over: nothing follows from it any more, and nothing is to come.
    fn as_past(&self) -> Self {
        Self {
            verdict: self.verdict.min(Verdict::Notify),
            over_budget: self.over_budget.map(|_| OverBudget::Notify),
            forecast_usd: None,
            remedy: Vec::new(),
            ..self.clone()
        }
    }
}

/// The plan of a beat, in which the budgets that it closed speak as well, where a share was reached of which nobody has heard.
/// Whoever has something to hear of the present month hears that alone: each budget is in the plan once.
#[must_use]
pub fn close(
    plan: Plan,
    closed: &BTreeMap<Holder, Budget>,
    (config, ceiling): (&Config, Mode),
    memory: &Memory,
    home: &Region,
) -> Plan {
    let mut plan = plan;
    for mut step in decide(closed, config, ceiling, memory, home).steps.into_iter().filter(|step| !step.told_before) {
        let quiet = plan.spared.iter().position(|spared| spared.target.resource == step.target.resource);
        let of_whom = closed.iter().find(|(holder, _)| resource_of(holder) == step.target.resource);
        if let (Some(quiet), Some((holder, budget)), Because::OverBudget(over)) = (quiet, of_whom, &mut step.because) {
            step.action = Action::Notify;
            over.told = explain::told(holder, &budget.as_past(), over.percent);
            plan.spared.remove(quiet);
            plan.steps.push(step);
        }
    }
    plan
}
