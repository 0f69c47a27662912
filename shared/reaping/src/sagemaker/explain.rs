//! What there is to say of one resource of `SageMaker`.

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, EXPIRES_AT, HOURS};
use model::duration;
use model::foreign::sagemaker_controller;
use model::hours::HoursPosition;
use model::id::{Region, ResourceId};
use model::moment::{after, before};
use model::notification_log::{NotificationLog, NotificationLogs};
use model::ownership::missing_tags;
use model::rule::Rule;
use model::sagemaker::{Activity, ObservedSageMaker, SageMakerKind, SageMakerStatus};
use plan::SkipReason;

use super::rules::{NOTICE, window};
use super::skip::describe_unknown;
use super::{Activities, RunningResource, SageMakerCase, decide, narrowed};
use crate::announcements::AnnouncementTarget;
use crate::explain::{
    EffectiveMode, Explanation, ImmediateSkip, JudgedRule, PlanDecision, RuleExplanation, UpcomingViolation,
    skipping_tag, state_of,
};
use crate::policy::{Policy, Verdict};
use crate::rules::over_budget::describe_budgets;

/// What there is to say of one resource, by what a run would be given; `None` where it was not seen.
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
    let nothing_told = NotificationLog::default();
    let notices = memory.get(region).unwrap_or(&nothing_told);
    Some(SageMakerCase::new(seen.items.first()?, activities, notices, policy, now).explanation(decision))
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
        let says = curfew_tags.unwrap_or_default();
        let rows = Rule::OF_SAGEMAKER.map(|rule| match (is_readable, self.resource.status) {
            (false, _) => self.not_judged(rule, &says, "one of its tags cannot be read"),
            (true, SageMakerStatus::Running) => self.row(rule, &says),
            (true, _) => self.not_judged(rule, &says, "it does not run"),
        });
        let is_skipped = skipped.is_some();
        let rules = rows.into_iter().map(|row| if is_skipped { row.while_skipped() } else { row }).collect();
        Explanation {
            target: self.target(),
            state: state_of(&self.resource.status),
            since: self.resource.since(),
            price: self.policy.prices.sagemaker_cost(self.resource),
            mode: self.in_mode(&says, Rule::Idle),
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

    fn in_mode(self, curfew_tags: &CurfewTags, rule: Rule) -> EffectiveMode {
        let (wanted, source) = self.wanted_mode_and_its_source(curfew_tags, rule);
        EffectiveMode { mode: wanted.min(self.policy.ceiling), wanted, source }
    }

    fn not_judged(self, rule: Rule, curfew_tags: &CurfewTags, why: &str) -> RuleExplanation {
        RuleExplanation::not_judged(rule, self.in_mode(curfew_tags, rule), why.to_owned(), format!("not while {why}"))
    }

    fn row(self, rule: Rule, curfew_tags: &CurfewTags) -> RuleExplanation {
        let mode = self.in_mode(curfew_tags, rule);
        let running = RunningResource { case: self, curfew_tags };
        let verdicts = running.within_labels(self.verdicts(curfew_tags));
        let track = running.track(&verdicts, mode.mode);
        let compliant = Verdict::Compliant;
        let verdict = verdicts.iter().find(|(of, _)| *of == rule).map_or(&compliant, |(_, verdict)| verdict);
        let (evidence, coming) = (self.evidence(rule, verdict, curfew_tags), self.coming(rule, verdict, curfew_tags));
        JudgedRule { rule, verdict, mode, track: &track, evidence, coming, now: self.now }.into_explanation()
    }

    fn evidence(self, rule: Rule, verdict: &Verdict, curfew_tags: &CurfewTags) -> String {
        let Self { resource, policy, now, .. } = self;
        if let Verdict::Violated(violation) = verdict {
            return violation.evidence.describe(now);
        }
        match rule {
            Rule::Expired => match curfew_tags.expires_at {
                Some(at) => format!("its {EXPIRES_AT} is {at}"),
                None => format!("it has no {EXPIRES_AT}"),
            },
            Rule::Untagged => match missing_tags(&resource.tags, &policy.config).as_slice() {
                [] => "it has every required tag".to_owned(),
                missing => format!("it lacks {}, and may still get them", missing.join(", ")),
            },
            Rule::Idle => match (window(&resource.kind, curfew_tags, &policy.config), self.activity) {
                (None, _) if matches!(resource.kind, SageMakerKind::NotebookInstance) => {
                    "SageMaker does not report whether it is used".to_owned()
                }
                (None, _) => "its curfew:idle-after is off".to_owned(),
                (_, Activity::Active(at)) => format!("it was used at {at}"),
                (_, Activity::Unknown(unknown)) => describe_unknown(*unknown),
                (Some(window), Activity::Inactive(_)) => {
                    format!("not used for {}", duration::format_duration(window))
                }
            },
            Rule::Hours => match &curfew_tags.hours {
                Some(hours) => format!("within its hours ({hours}), or started after they ended"),
                None => format!("it has no {HOURS}"),
            },
            Rule::Lifetime => match &resource.kind {
                kind if kind.serves() => "what serves runs for as long as it is needed".to_owned(),
                _ if curfew_tags.expires_at.is_some() => format!("it says itself when it ends: {EXPIRES_AT}"),
                _ => format!("it has run since {}", resource.since()),
            },
            Rule::OverBudget => describe_budgets(self.budget_subject()),
            Rule::Orphaned => String::new(),
        }
    }

    /// When a rule that is not violated can be violated at the earliest, if only time passes.
    fn coming(self, rule: Rule, verdict: &Verdict, curfew_tags: &CurfewTags) -> Option<UpcomingViolation> {
        let Self { resource, policy, now, .. } = self;
        if *verdict != Verdict::Compliant {
            return None;
        }
        let config = &policy.config;
        let at = match rule {
            Rule::Expired => curfew_tags.expires_at?,
            Rule::Untagged => {
                let lacks = !missing_tags(&resource.tags, config).is_empty();
                lacks.then(|| after(resource.created_at, config.untagged.settle))?
            }
            Rule::Idle => {
                let Activity::Active(used) = self.activity else { return None };
                after(*used, window(&resource.kind, curfew_tags, config)?)
            }
            Rule::Hours => match curfew_tags.hours.as_ref()?.position(now) {
                HoursPosition::Inside { until, .. } => before(until?, NOTICE),
                HoursPosition::Outside { .. } => return None,
            },
            Rule::Lifetime => {
                let is_bound = !resource.kind.serves();
                (is_bound && curfew_tags.expires_at.is_none()).then(|| after(resource.since(), config.lifetime.max))?
            }
            Rule::OverBudget | Rule::Orphaned => return None,
        };
        (at > now).then_some(UpcomingViolation { at, due: None })
    }
}
