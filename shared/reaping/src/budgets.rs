//! Notifications and holds of a beat: one step for each budget that has reached a configured threshold.

use std::collections::BTreeMap;

use billing::budget::{
    Budget, BudgetHolder, BudgetLimit, BudgetVerdict, OverBudgetEvidence, SPENT_PERCENT, budget_fingerprint, explain,
    resource_of,
};
use model::ceiling::Ceiling;
use model::config::{Config, OverBudget};
use model::id::Region;
use model::notification_log::{NotificationKey, NotificationLog, NotificationLogs};
use plan::{Action, BudgetAction, Facts, Plan, ResourceMemory, SkipReason, Skipped, Step, Target};

use crate::engine::PlanDecision;
use crate::rules::over_budget;

/// Decides about each budget. The log of the region `home` has the notifications; without it the beat notifies of nothing, because every beat
/// would repeat it.
#[must_use]
pub fn decide(
    documents: &BTreeMap<BudgetHolder, Budget>,
    config: &Config,
    ceiling: &Ceiling,
    memory: &NotificationLogs,
    home: &Region,
) -> Plan {
    let empty_log = NotificationLog::default();
    let time_zone = config.account.zone();
    let mut plan = Plan { seen: documents.len(), steps: Vec::new(), skipped: Vec::new(), gaps: Vec::new(), time_zone };
    for (holder, document) in documents {
        let case = BudgetCase { holder, document, config, memory, home };
        let (id, log) = (resource_of(holder), memory.get(home).unwrap_or(&empty_log));
        PlanDecision::or_bug(home, &id, log, || case.target(), || case.decide(ceiling)).add_to(&mut plan);
    }
    plan
}

#[derive(Clone, Copy)]
struct BudgetCase<'a> {
    holder: &'a BudgetHolder,
    document: &'a Budget,
    config: &'a Config,
    memory: &'a NotificationLogs,
    home: &'a Region,
}

impl BudgetCase<'_> {
    fn decide(self, ceiling: &Ceiling) -> PlanDecision {
        let limit = BudgetLimit::from_config(self.holder, self.config, ceiling);
        // One that could not be made anew is of what was set before.
        let document = &limit.map_or_else(|| self.document.clone(), |limit| self.document.under(&limit));
        let case = BudgetCase { document, ..self };
        let step = limit.ok_or(SkipReason::WithoutBudget).and_then(|limit| case.step(&limit));
        match step {
            Ok(step) => step.into(),
            Err(reason) => case.skip(reason).into(),
        }
    }

    /// The shares at which people are notified. A team that is held is notified of that, whatever the configuration lists.
    fn thresholds(self) -> Vec<u16> {
        let team_thresholds = match self.holder {
            BudgetHolder::Account => None,
            BudgetHolder::Team(name) => self.config.team(name).and_then(|team| team.notify_at_percent.clone()),
        };
        let mut thresholds = team_thresholds.unwrap_or_else(|| self.config.account.notify_at_percent.clone());
        if self.document.over_budget.is_some_and(|action| action != OverBudget::Notify) {
            thresholds.push(SPENT_PERCENT);
        }
        thresholds.sort_unstable();
        thresholds.dedup();
        thresholds
    }

    fn step(self, limit: &BudgetLimit) -> Result<Step, SkipReason> {
        let document = self.document;
        let Some(as_of) = document.as_of else { return Err(SkipReason::BudgetUnknown) };
        // Of a budget of nothing everything is over.
        let zero_budget_percent = if document.verdict == BudgetVerdict::Ok { 0 } else { u64::from(SPENT_PERCENT) };
        let percent = document.counted_usd().percent_of(limit.budget).unwrap_or(zero_budget_percent);
        let reached = self.thresholds().into_iter().rfind(|share| u64::from(*share) <= percent);
        let Some(threshold_percent) = reached else { return Err(SkipReason::WithinBudget) };
        let holds = matches!(document.verdict, BudgetVerdict::Hold | BudgetVerdict::Stop);
        let already_notified =
            self.memory.get(self.home).is_none_or(|log| self.was_notified(log, limit, threshold_percent));
        if already_notified && !holds {
            return Err(SkipReason::Notified);
        }
        let evidence = OverBudgetEvidence {
            month: document.month.clone(),
            holder_kind: match self.holder {
                BudgetHolder::Account => "account",
                BudgetHolder::Team(_) => "team",
            },
            budget_usd: limit.budget,
            spent_usd: document.counted_usd(),
            others_usd: document.counted_others(),
            reserved_usd: document.reserved_usd,
            percent,
            threshold_percent,
            over_budget: limit.over_budget,
            as_of,
            text: explain::describe_budget(self.holder, document, percent),
        };
        let action = Action::Budget(if holds { BudgetAction::Hold } else { BudgetAction::Notify });
        let step = Step::bare(self.target(), action, over_budget::evidence(evidence), document.mode);
        Ok(Step { already_notified, memory: self.resource_memory(), ..step })
    }

    /// `true` if this threshold or a higher one was notified. A spend that recedes is not notified again.
    fn was_notified(self, log: &NotificationLog, limit: &BudgetLimit, threshold_percent: u16) -> bool {
        let resource = resource_of(self.holder);
        self.thresholds().into_iter().filter(|share| *share >= threshold_percent).any(|share| {
            log.was_notified(
                &resource,
                &NotificationKey::budget(share),
                &budget_fingerprint(&self.document.month, limit, share),
            )
        })
    }

    fn skip(self, reason: SkipReason) -> Skipped {
        Skipped::new(self.target(), reason, self.resource_memory())
    }

    /// The notifications of all thresholds stay in memory. By its fingerprint, another month or another budget is notified again.
    fn resource_memory(self) -> ResourceMemory {
        ResourceMemory {
            active_keys: self.thresholds().into_iter().map(NotificationKey::budget).collect(),
            ..ResourceMemory::default()
        }
    }

    fn target(self) -> Target {
        Target {
            region: self.home.clone(),
            resource: resource_of(self.holder),
            team: self.holder.team().cloned(),
            owner: None,
            name: None,
            what: "budget".to_owned(),
        }
    }
}

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

#[cfg(test)]
mod tests;
