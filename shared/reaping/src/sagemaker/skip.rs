//! Skips of `SageMaker` resources, and the findings that their owners are notified of.

use jiff::Timestamp;
use model::config::Config;
use model::curfew_tags::{CurfewTags, PROTECTED, kept_until};
use model::foreign::sagemaker_controller;
use model::rule::Rule;
use model::sagemaker::{
    Activity, ActivitySignal, EndpointFacts, ProductionSign, SageMakerKind, SageMakerResource, SageMakerStatus,
    UnknownActivity,
};
use model::usage::format_impossible;
use plan::{FindingKind, OwnerFinding, ResourceMemory, SkipReason, Skipped};

use super::SageMakerCase;
use crate::engine::ResourceCase;
use crate::engine::announcements::RuleTrack;
use crate::rules::idle::sagemaker_window;

/// `true` if the facts of an endpoint have to be read: without them Curfew could not decide to skip it.
#[must_use]
pub fn wants_facts(endpoint: &SageMakerResource, config: &Config, now: Timestamp) -> bool {
    let is_kept = kept_until(&endpoint.tags).is_some_and(|until| now < until);
    let curfew_tags = CurfewTags::read_sagemaker(endpoint.created_at, &endpoint.tags);
    endpoint.status == SageMakerStatus::Running
        && !endpoint.tags.contains_key(PROTECTED)
        && !is_kept
        && sagemaker_controller(&endpoint.tags, &config.managed).is_none()
        && curfew_tags.is_ok_and(|curfew_tags| !is_recently_changed(endpoint, &curfew_tags, config, now))
}

/// `true` if somebody has created or changed a resource within its window and may still work on it. After its own expiry nobody does.
fn is_recently_changed(
    resource: &SageMakerResource,
    curfew_tags: &CurfewTags,
    config: &Config,
    now: Timestamp,
) -> bool {
    let changed_within =
        sagemaker_window(&resource.kind, curfew_tags, config).unwrap_or(config.sagemaker.endpoint_window);
    let is_over = curfew_tags.expires_at.is_some_and(|at| at <= now);
    !is_over && now.duration_since(resource.since()) < changed_within
}

/// The sign that an endpoint may be in production, or can be idle for free.
pub(super) fn production_reason(facts: &EndpointFacts) -> Option<SkipReason> {
    let skip_reason = |sign: &ProductionSign| match sign {
        ProductionSign::Serverless => SkipReason::Serverless,
        ProductionSign::AsyncInference => SkipReason::AsyncInference,
        ProductionSign::ShadowVariants => SkipReason::ShadowVariants,
        ProductionSign::InferenceComponents => SkipReason::InferenceComponents,
    };
    let by_variants =
        (facts.is_autoscaled != Some(true) && facts.variants.len() != 1).then_some(SkipReason::SeveralVariants);
    facts.signs.first().map(skip_reason).or(by_variants).or_else(|| autoscaling_reason(facts.is_autoscaled))
}

const fn autoscaling_reason(is_autoscaled: Option<bool>) -> Option<SkipReason> {
    match is_autoscaled {
        Some(true) => Some(SkipReason::Autoscaled),
        None => Some(SkipReason::UsageUnknown),
        Some(false) => None,
    }
}

impl SageMakerCase<'_> {
    /// The reason why Curfew must not act on it, whatever its own tags say.
    pub(super) fn reason_of_others(self, curfew_tags: &CurfewTags) -> Option<SkipReason> {
        let Self { resource, policy, now, .. } = self;
        if sagemaker_controller(&resource.tags, &policy.config.managed).is_some() {
            return Some(SkipReason::ForeignOwned);
        }
        if !resource.kind.serves() || resource.status != SageMakerStatus::Running {
            return None;
        }
        if is_recently_changed(resource, curfew_tags, &policy.config, now) {
            return Some(SkipReason::RecentlyChanged);
        }
        match &resource.kind {
            SageMakerKind::Endpoint { facts } => {
                facts.as_ref().map_or(Some(SkipReason::UsageUnknown), production_reason)
            }
            SageMakerKind::InferenceComponent(component) => autoscaling_reason(component.is_autoscaled),
            _ => None,
        }
    }

    /// The skip of a judged resource, with the reason why no action is due.
    pub(super) fn skip_after_judging(self, tracks: &[RuleTrack], memory: ResourceMemory) -> Skipped {
        let reason = RuleTrack::skip_reason(tracks).unwrap_or_else(|| match self.activity {
            Activity::Active(_) | Activity::LowUse(_) => SkipReason::Busy,
            Activity::Inactive(_) => SkipReason::Compliant,
            Activity::Unknown(UnknownActivity::Young) => SkipReason::Young,
            Activity::Unknown(_) if !self.is_judged_for_idleness() => SkipReason::Compliant,
            Activity::Unknown(UnknownActivity::NotAsked) if self.was_notified_of(Rule::Idle) => SkipReason::Notified,
            Activity::Unknown(_) => SkipReason::UsageUnknown,
        });
        Skipped {
            finding: self.unmeasured().or_else(|| self.waste_finding()),
            ..Skipped::new(self.target(), reason, memory)
        }
    }

    fn is_judged_for_idleness(self) -> bool {
        let curfew_tags = self.curfew_tags().unwrap_or_default();
        sagemaker_window(&self.resource.kind, &curfew_tags, &self.policy.config).is_some()
    }

    /// Its owner should know that Curfew never finds a notebook instance idle.
    pub(super) fn unmeasured(self) -> Option<OwnerFinding> {
        let is_notebook = matches!(self.resource.kind, SageMakerKind::NotebookInstance);
        let curfew_tags = self.curfew_tags().unwrap_or_default();
        if !is_notebook || curfew_tags.hours.is_some() || curfew_tags.expires_at.is_some() {
            return None;
        }
        let text = "SageMaker does not report whether a notebook instance is used, so Curfew never stops it as idle. Set curfew:hours \
                    or curfew:expires-at";
        Some(OwnerFinding { kind: FindingKind::UsageUnknown, what: "usage-unknown".to_owned(), text: text.to_owned() })
    }
}

/// The reason for unknown activity, for people.
pub(crate) fn describe_unknown(unknown: UnknownActivity) -> String {
    let words = match unknown {
        UnknownActivity::NotAsked => "SageMaker or CloudWatch did not say when it was used last",
        UnknownActivity::Young => "it is younger than its window",
        UnknownActivity::Unmeasured => "SageMaker does not report whether it is used",
        UnknownActivity::HealthCheck => {
            "its last activity is that of SageMaker's health check, which says nothing about its user"
        }
        UnknownActivity::TooFewSamples(_) => "its metrics reported too seldom in the window",
        UnknownActivity::ImpossibleValue(signal, value) => {
            let metric = match signal {
                ActivitySignal::Requests => "Invocations",
                ActivitySignal::ConcurrentRequests => "its concurrent requests",
                ActivitySignal::Gpu(_) => "its GPU utilisation",
            };
            let value = format_impossible(value);
            return format!("CloudWatch has impossible values ({metric}: {value}), so nothing was measured");
        }
    };
    words.to_owned()
}
