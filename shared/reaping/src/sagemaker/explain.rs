//! The explanation of one resource of `SageMaker`.

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::foreign::sagemaker_controller;
use model::id::{Region, ResourceId};
use model::notification_log::{NotificationLog, NotificationLogs};
use model::rule::Rule;
use model::sagemaker::{ObservedSageMaker, SageMakerStatus};
use plan::SkipReason;

use super::{Activities, RunningResource, SageMakerCase, decide, narrowed};
use crate::announcements::AnnouncementTarget;
use crate::engine::ResourceCase;
use crate::explain::{
    EffectiveMode, Explanation, ImmediateSkip, JudgedRule, PlanDecision, RuleExplanation, skipping_tag, state_name,
};
use crate::policy::{Policy, Verdict};
use crate::rules;

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
        let skipped = self.immediate_skip().map(|skipped| ImmediateSkip {
            reason: skipped.reason,
            words: skipping_tag(skipped.reason, &self.resource.tags, curfew_tags.as_ref().err())
                .unwrap_or_else(|| self.describe_others(skipped.reason)),
        });
        let is_readable = curfew_tags.is_ok();
        let curfew_tags = curfew_tags.unwrap_or_default();
        let rows = Rule::RUNNING.map(|rule| match (is_readable, self.resource.status) {
            (false, _) => self.not_judged(rule, &curfew_tags, "one of its tags cannot be read"),
            (true, SageMakerStatus::Running) => self.row(rule, &curfew_tags),
            (true, _) => self.not_judged(rule, &curfew_tags, "it does not run"),
        });
        let is_skipped = skipped.is_some();
        let rules = rows.into_iter().map(|row| if is_skipped { row.while_skipped() } else { row }).collect();
        Explanation {
            target: self.target(),
            state: state_name(&self.resource.status),
            since: self.resource.since(),
            price: self.policy.prices.sagemaker_cost(self.resource),
            mode: self.effective_mode(&curfew_tags, Rule::Idle),
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

    fn effective_mode(self, curfew_tags: &CurfewTags, rule: Rule) -> EffectiveMode {
        let (wanted, source) = self.subject(curfew_tags).mode_and_its_source(rule);
        EffectiveMode { mode: wanted.min(self.policy.ceiling), wanted, source }
    }

    fn not_judged(self, rule: Rule, curfew_tags: &CurfewTags, why: &str) -> RuleExplanation {
        RuleExplanation::not_judged(
            rule,
            self.effective_mode(curfew_tags, rule),
            why.to_owned(),
            format!("not while {why}"),
        )
    }

    fn row(self, rule: Rule, curfew_tags: &CurfewTags) -> RuleExplanation {
        let mode = self.effective_mode(curfew_tags, rule);
        let running = RunningResource { case: self, curfew_tags };
        let verdicts = running.within_labels(self.verdicts(curfew_tags));
        let track = running.track(&verdicts, mode.mode);
        let compliant = Verdict::Compliant;
        let verdict =
            verdicts.iter().find(|(judged_rule, _)| *judged_rule == rule).map_or(&compliant, |(_, verdict)| verdict);
        let subject = self.subject(curfew_tags);
        let (evidence, coming) = (rules::explain(rule, subject, verdict), rules::upcoming(rule, subject, verdict));
        JudgedRule { rule, verdict, mode, track: &track, evidence, coming, now: self.now }.into_explanation()
    }
}
