//! The action that is possible for a resource of `SageMaker`, or why Curfew only notifies.

use model::config::{ComponentAction, Config, RuleAction, SageMakerAction as ConfiguredAction};
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{SageMakerKind, SageMakerResource};
use plan::NotifyOnlyReason;

use crate::subject::Subject;

/// The action where a rule wants `action`: no more than the configuration allows for its kind, unless its owner asked for it by a tag.
pub(crate) fn feasible(
    subject: Subject<'_>,
    resource: &SageMakerResource,
    rule: Rule,
    action: RuleAction,
) -> Result<ResourceAction, NotifyOnlyReason> {
    let kind = &resource.kind;
    match rule {
        Rule::Expired => end_of_kind(kind),
        Rule::Hours => match kind {
            SageMakerKind::NotebookInstance | SageMakerKind::App(_) => end_of_kind(kind),
            _ => end_of_kind(kind).and(Err(NotifyOnlyReason::CannotBeStopped)),
        },
        Rule::Idle => end_of_idle(subject, kind),
        Rule::OverBudget | Rule::Lifetime | Rule::Orphaned => by_configuration(kind, subject.config, action),
        // A job may be waiting for data, and its work would be lost: a tag, its lifetime or a budget stops it.
        _ if matches!(kind, SageMakerKind::Job(_)) => {
            by_configuration(kind, subject.config, action).and(Err(NotifyOnlyReason::JobRuns))
        }
        _ => by_configuration(kind, subject.config, action),
    }
}

/// The action that ends a resource of this kind.
fn end_of_kind(kind: &SageMakerKind) -> Result<ResourceAction, NotifyOnlyReason> {
    match kind {
        SageMakerKind::NotebookInstance | SageMakerKind::Job(_) => Ok(ResourceAction::Stop),
        SageMakerKind::App(_) => Ok(ResourceAction::Delete),
        SageMakerKind::InferenceComponent(component) if component.frees_instances => Ok(ResourceAction::Stop),
        SageMakerKind::InferenceComponent(_) => Err(NotifyOnlyReason::KeepsInstances),
        SageMakerKind::Endpoint { facts } => {
            let can_be_made_again = facts.as_ref().is_some_and(|facts| facts.config.is_some());
            if can_be_made_again { Ok(ResourceAction::Delete) } else { Err(NotifyOnlyReason::NoConfiguration) }
        }
    }
}

fn by_configuration(
    kind: &SageMakerKind,
    config: &Config,
    action: RuleAction,
) -> Result<ResourceAction, NotifyOnlyReason> {
    if action == RuleAction::Notify || is_notify_only(kind, config) {
        return Err(NotifyOnlyReason::Configured);
    }
    end_of_kind(kind)
}

/// `true` if the configuration lets Curfew only notify of this kind, whatever the rule.
pub(super) fn is_notify_only(kind: &SageMakerKind, config: &Config) -> bool {
    let configured = &config.sagemaker;
    match kind {
        SageMakerKind::App(_) => configured.app_action == ConfiguredAction::Notify,
        SageMakerKind::Endpoint { .. } => configured.endpoint_action == ConfiguredAction::Notify,
        SageMakerKind::InferenceComponent(_) => configured.component_action == ComponentAction::Notify,
        SageMakerKind::NotebookInstance | SageMakerKind::Job(_) => false,
    }
}

/// The action for idleness, by the resource's own tag, else by the configuration. Only `terminate` deletes an endpoint, because no stop brings it
/// back; and only a tag stops a job.
fn end_of_idle(subject: Subject<'_>, kind: &SageMakerKind) -> Result<ResourceAction, NotifyOnlyReason> {
    match (subject.curfew_tags.on_idle, kind) {
        (Some(RuleAction::Notify), _) => Err(NotifyOnlyReason::Configured),
        (Some(RuleAction::Stop), SageMakerKind::Endpoint { .. }) => Err(NotifyOnlyReason::CannotBeStopped),
        (Some(RuleAction::Stop | RuleAction::Terminate), _) => end_of_kind(kind),
        (None, SageMakerKind::Job(_)) => Err(NotifyOnlyReason::JobRuns),
        (None, _) => by_configuration(kind, subject.config, RuleAction::Stop),
    }
}
