//! The explanation of one resource of `SageMaker`.

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::foreign::sagemaker_controller;
use model::id::{Region, ResourceId};
use model::notification_log::{NotificationLog, NotificationLogs};
use model::rule::Rule;
use model::sagemaker::{ObservedSageMaker, SageMakerStatus};
use plan::SkipReason;

use super::{Activities, SageMakerCase, decide, narrowed};
use crate::engine::{ResourceCase, RunningCase};
use crate::explain::{Explanation, ImmediateSkip, PlanDecision, RuleExplanation, explain_rules, state_name};
use crate::policy::Policy;

/// Explains one resource by the input of a run; `None` if it was not observed.
#[must_use]
pub fn explain(
    seen: &ObservedSageMaker,
    activities: &Activities,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
    (region, id): (&Region, &ResourceId),
) -> Option<Explanation> {
    let seen = &narrowed(seen, region, id);
    let decision = PlanDecision::from_plan(decide(seen, activities, memory, policy, now), id.as_str())?;
    let empty_log = NotificationLog::default();
    let log = memory.get(region).unwrap_or(&empty_log);
    Some(SageMakerCase::new(seen.items.first()?, activities, log, policy, now).explanation(decision))
}

impl SageMakerCase<'_> {
    fn explanation(self, decision: PlanDecision) -> Explanation {
        let curfew_tags = self.curfew_tags();
        let skipped = ImmediateSkip::explain(self, |reason| self.describe_others(reason));
        let is_readable = curfew_tags.is_ok();
        let curfew_tags = &curfew_tags.unwrap_or_default();
        let not_judged = |why: &str| Rule::RUNNING.map(|rule| self.not_judged(rule, curfew_tags, why)).to_vec();
        let rules = match (is_readable, self.resource.status) {
            (false, _) => not_judged("one of its tags cannot be read"),
            (true, SageMakerStatus::Running) => explain_rules(self, curfew_tags),
            (true, _) => not_judged("it does not run"),
        };
        let is_skipped = skipped.is_some();
        let rules = rules.into_iter().map(|row| if is_skipped { row.while_skipped() } else { row }).collect();
        Explanation {
            target: self.target(),
            state: state_name(&self.resource.status),
            since: self.resource.since(),
            price: self.policy.prices.sagemaker_cost(self.resource),
            mode: self.effective_mode(curfew_tags, Rule::Idle),
            skipped,
            rules,
            decision,
        }
    }

    fn describe_others(self, reason: SkipReason) -> String {
        match sagemaker_controller(&self.resource.tags, &self.policy.config.managed) {
            Some(controller) => format!("managed by {controller}; change it there"),
            None => crate::explain::describe_skip(reason).to_owned(),
        }
    }

    fn not_judged(self, rule: Rule, curfew_tags: &CurfewTags, why: &str) -> RuleExplanation {
        RuleExplanation::not_judged(
            rule,
            self.effective_mode(curfew_tags, rule),
            why.to_owned(),
            format!("not while {why}"),
        )
    }
}
