//! The rules, as they apply to `SageMaker`. What each means for instances stands in [`crate::rules`]; the differences:
//!
//! - **Expired**, **hours**: a notebook instance or a job is stopped, an inference component scaled to zero, an app or an endpoint deleted. Hours end notebook instances and apps
//!   alone, an hour after their announcement, because runs come by the hour; only a notebook instance is started again.
//! - **Over budget**: a notebook instance or a job is stopped, and an app deleted where `app_action` allows it. What serves is ended only
//!   where `endpoint_action` or `component_action` allows it and it is unused: with requests it may be in production, and is notify only.
//! - **Untagged**: a job that runs is notify only.
//! - **Idle**, if and only if no user was seen in an app for `app_window`, in an endpoint or an inference
//!   component for `endpoint_window`, or the GPUs of a job for
//!   `job_window` (see [`activity`](super::activity)); `curfew:idle-after` counts more. Nothing shows whether a notebook instance is used.
//! - **Lifetime**: everything but what serves, which runs for as long as it is needed.
//!
//! An endpoint without its configuration could not be made again, and a component whose endpoint keeps its instances would save nothing: both
//! are notify only.

use jiff::{SignedDuration, Timestamp};
use model::config::{ComponentAction, Config, RuleAction, SageMakerAction as ConfiguredAction};
use model::curfew_tags::{CurfewTags, IdleAfter};
use model::moment::after;
use model::ownership::missing_tags;
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{Activity, SageMakerKind, SageMakerResource, UnknownActivity};
use plan::{Evidence, NotifyOnlyReason};

use crate::policy::{DueAction, Verdict, Violation};
use crate::rules::expired::due_at_expiry;
use crate::rules::hours::end_of_hours;
use crate::rules::over_budget::{BudgetSubject, judge_budgets};

/// Between the announcement of an end of hours and that end: runs come by the hour.
pub(super) const NOTICE: SignedDuration = SignedDuration::from_hours(1);

/// One running resource with everything that a rule may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct SageMakerSubject<'a> {
    pub(super) resource: &'a SageMakerResource,
    pub(super) curfew_tags: &'a CurfewTags,
    pub(super) activity: &'a Activity,
    pub(super) config: &'a Config,
    pub(super) budgets: BudgetSubject<'a>,
    /// The value of `curfew:expires-at` that Curfew saw before its time.
    pub(super) expiry_seen: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// How long it must have been unused; `None` where it is never judged for idleness.
pub(super) fn window(kind: &SageMakerKind, curfew_tags: &CurfewTags, config: &Config) -> Option<SignedDuration> {
    let configured = match kind {
        SageMakerKind::NotebookInstance => return None,
        SageMakerKind::App(_) => config.sagemaker.app_window,
        SageMakerKind::Endpoint { .. } | SageMakerKind::InferenceComponent(_) => config.sagemaker.endpoint_window,
        SageMakerKind::Job(_) => config.sagemaker.job_window,
    };
    match curfew_tags.idle_after {
        Some(IdleAfter::Off) => None,
        Some(IdleAfter::Window(window)) => Some(window),
        None => Some(configured),
    }
}

/// Whether the configuration lets Curfew only notify of its kind, whatever the rule.
pub(super) fn is_notify_only(kind: &SageMakerKind, config: &Config) -> bool {
    let configured = &config.sagemaker;
    match kind {
        SageMakerKind::App(_) => configured.app_action == ConfiguredAction::Notify,
        SageMakerKind::Endpoint { .. } => configured.endpoint_action == ConfiguredAction::Notify,
        SageMakerKind::InferenceComponent(_) => configured.component_action == ComponentAction::Notify,
        SageMakerKind::NotebookInstance | SageMakerKind::Job(_) => false,
    }
}

impl SageMakerSubject<'_> {
    pub(super) fn judge(self, rule: Rule) -> Verdict {
        let violation = match rule {
            Rule::Expired => self.expired(),
            Rule::OverBudget => return self.over_budget(),
            Rule::Untagged => return self.untagged(),
            Rule::Idle => return self.idle(),
            Rule::Hours => self.hours(),
            Rule::Lifetime => self.lifetime(),
            Rule::Orphaned => None,
        };
        violation.map_or(Verdict::Compliant, Verdict::Violated)
    }

    fn expired(self) -> Option<Violation> {
        let expires_at = self.curfew_tags.expires_at.filter(|at| *at <= self.now)?;
        let first_seen_past = self.expiry_seen != Some(expires_at);
        let due = match self.end() {
            Ok(ending) => due_at_expiry(ending, expires_at, first_seen_past, self.now),
            Err(notify_only) => DueAction::NotifyOnly(notify_only),
        };
        Some(Violation { evidence: Evidence::Expired { expires_at, first_seen_past }, due })
    }

    fn over_budget(self) -> Verdict {
        let ending = self.feasible(RuleAction::Stop);
        let may_serve = ending.is_ok() && self.resource.kind.serves();
        match (self.activity, judge_budgets(self.budgets, ending)) {
            (Activity::Active(_), Verdict::Violated(violation)) if may_serve => {
                Verdict::Violated(Violation { due: DueAction::NotifyOnly(NotifyOnlyReason::Busy), ..violation })
            }
            (Activity::Unknown(_), Verdict::Violated(_)) if may_serve => Verdict::Unknown,
            (_, verdict) => verdict,
        }
    }

    fn untagged(self) -> Verdict {
        let rule = &self.config.untagged;
        let missing = missing_tags(&self.resource.tags, self.config);
        if missing.is_empty() || after(self.resource.created_at, rule.settle) > self.now {
            return Verdict::Compliant;
        }
        let due = match self.feasible(rule.action) {
            Err(notify_only) => DueAction::NotifyOnly(notify_only),
            Ok(_) if matches!(self.resource.kind, SageMakerKind::Job(_)) => {
                DueAction::NotifyOnly(NotifyOnlyReason::JobRuns)
            }
            Ok(_) if rule.spare_busy && matches!(self.activity, Activity::Active(_)) => {
                DueAction::NotifyOnly(NotifyOnlyReason::Busy)
            }
            Ok(_) if rule.spare_busy && matches!(self.activity, Activity::Unknown(UnknownActivity::NotAsked)) => {
                return Verdict::Unknown;
            }
            Ok(ending) => DueAction::After(ending, after(self.now, rule.grace)),
        };
        Verdict::Violated(Violation { evidence: Evidence::Untagged { missing, disowned_by: None }, due })
    }

    fn idle(self) -> Verdict {
        if window(&self.resource.kind, self.curfew_tags, self.config).is_none() {
            return Verdict::Compliant;
        }
        let inactive = match self.activity {
            Activity::Inactive(inactive) => inactive.clone(),
            Activity::Active(_) | Activity::Unknown(UnknownActivity::Young) => return Verdict::Compliant,
            Activity::Unknown(_) => return Verdict::Unknown,
        };
        let due = match self.end_of_idle() {
            Err(notify_only) => DueAction::NotifyOnly(notify_only),
            Ok(ending) => DueAction::After(ending, after(self.now, self.config.sagemaker.grace)),
        };
        Verdict::Violated(Violation { evidence: Evidence::Inactive(inactive), due })
    }

    fn hours(self) -> Option<Violation> {
        let hours = self.curfew_tags.hours.as_ref()?;
        let (at, deadline) = end_of_hours(hours, self.resource.since(), NOTICE, self.now)?;
        let due = match (&self.resource.kind, self.end()) {
            (SageMakerKind::NotebookInstance | SageMakerKind::App(_), Ok(ending)) => DueAction::After(ending, deadline),
            (_, Err(notify_only)) => DueAction::NotifyOnly(notify_only),
            (_, Ok(_)) => DueAction::NotifyOnly(NotifyOnlyReason::CannotBeStopped),
        };
        Some(Violation { evidence: Evidence::Hours { hours: hours.to_string(), at }, due })
    }

    fn lifetime(self) -> Option<Violation> {
        let rule = &self.config.lifetime;
        let launched_at = self.resource.since();
        let is_bound = !self.resource.kind.serves();
        let is_old = self.now.duration_since(launched_at) > rule.max;
        if !is_bound || !is_old || self.curfew_tags.expires_at.is_some() {
            return None;
        }
        let due = match self.feasible(rule.action) {
            Err(notify_only) => DueAction::NotifyOnly(notify_only),
            Ok(ending) => DueAction::After(ending, after(self.now, rule.grace)),
        };
        Some(Violation { evidence: Evidence::Lifetime { launched_at, max: rule.max }, due })
    }

    /// How it ends.
    fn end(self) -> Result<ResourceAction, NotifyOnlyReason> {
        match &self.resource.kind {
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

    /// What may be done where a rule wants `action`: no more than the configuration allows for its kind.
    fn feasible(self, action: RuleAction) -> Result<ResourceAction, NotifyOnlyReason> {
        if action == RuleAction::Notify || is_notify_only(&self.resource.kind, self.config) {
            return Err(NotifyOnlyReason::Configured);
        }
        self.end()
    }

    /// By the resource's own tag, else by the configuration. Only `terminate` deletes an endpoint, because no stop brings it back; and only
    /// a tag stops a job.
    fn end_of_idle(self) -> Result<ResourceAction, NotifyOnlyReason> {
        match (self.curfew_tags.on_idle, &self.resource.kind) {
            (Some(RuleAction::Notify), _) => Err(NotifyOnlyReason::Configured),
            (Some(RuleAction::Stop), SageMakerKind::Endpoint { .. }) => Err(NotifyOnlyReason::CannotBeStopped),
            (Some(RuleAction::Stop | RuleAction::Terminate), _) => self.end(),
            (None, SageMakerKind::Job(_)) => Err(NotifyOnlyReason::JobRuns),
            (None, _) => self.feasible(RuleAction::Stop),
        }
    }
}
