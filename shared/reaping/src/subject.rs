//! One running resource, as the rules see it. Each kind of resource fills it in.

use billing::budget::BudgetStatuses;
use jiff::{SignedDuration, Timestamp};
use model::config::{Config, RuleAction};
use model::curfew_tags::CurfewTags;
use model::id::TeamName;
use model::instance::{Instance, Tags};
use model::mode::Mode;
use model::moment::after;
use model::ownership::{missing_tags, team_of};
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{Activity, SageMakerResource, UnknownActivity};
use model::usage::{UnknownUsage, Usage};
use plan::NotifyOnlyReason;

use crate::job_ownership::JobOwnership;
use crate::policy::{DueAction, ModeSource, Verdict, Violation, configured_mode_and_its_source};
use crate::rules::over_budget;
use crate::{instances, sagemaker};

/// The notice before the end of hours: runs for instances come every five minutes.
const INSTANCE_NOTICE: SignedDuration = SignedDuration::from_mins(30);
/// The notice before the end of hours: runs for `SageMaker` come by the hour.
const SAGEMAKER_NOTICE: SignedDuration = SignedDuration::from_hours(1);

/// One running resource with everything that a rule may use.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub kind: SubjectKind<'a>,
    pub tags: &'a Tags,
    pub curfew_tags: &'a CurfewTags,
    pub config: &'a Config,
    pub budgets: &'a BudgetStatuses,
    /// The job that an instance names, and whether that job knows it.
    pub ownership: JobOwnership<'a>,
    /// The deadline of a job's machine, by the job's state.
    pub job_deadline: Option<Timestamp>,
    /// The value of `curfew:expires-at` that Curfew saw before its time.
    pub expiry_seen: Option<Timestamp>,
    /// Time from which on its tags may still arrive.
    pub created_at: Timestamp,
    /// Time since which it runs.
    pub running_since: Timestamp,
    pub now: Timestamp,
}

/// The resource itself, with what is known of its use.
#[derive(Debug, Clone, Copy)]
pub enum SubjectKind<'a> {
    Instance { instance: &'a Instance, usage: &'a Usage },
    SageMaker { resource: &'a SageMakerResource, activity: &'a Activity },
}

/// The use of a resource within its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Busy,
    Quiet,
    Unknown,
    /// No query asked.
    NotAsked,
}

impl Subject<'_> {
    /// The team, by the account's team tag; `None` where the tag is absent or blank.
    #[must_use]
    pub fn team(self) -> Option<TeamName> {
        team_of(self.tags, self.config)
    }

    /// The required tags that it lacks. A blank value is no value.
    #[must_use]
    pub fn missing_tags(self) -> Vec<String> {
        missing_tags(self.tags, self.config)
    }

    /// The effective mode for a rule, before the ceiling.
    ///
    /// Its own `curfew:mode`; else, for an action that its owner scheduled, enforce; else, where it lacks a required tag, the account's mode
    /// for untagged resources; else its team's; else the account's. `[sagemaker] mode` limits what teams and account want. A budget is
    /// enforced no more than its holder's own mode.
    #[must_use]
    pub fn mode(self, rule: Rule) -> Mode {
        self.mode_and_its_source(rule).0
    }

    pub(crate) fn mode_and_its_source(self, rule: Rule) -> (Mode, ModeSource) {
        // No tag moves the deadline by which the job was accepted.
        if rule == Rule::Expired && self.job_deadline.is_some_and(|at| at <= self.now) {
            return (Mode::Enforce, ModeSource::OwnersSchedule);
        }
        if self.curfew_tags.mode.is_none() && rule.is_owners_own() {
            return (Mode::Enforce, ModeSource::OwnersSchedule);
        }
        // Its tags were copied from a job, or were meant for one, `curfew:mode=enforce` too: they opt nothing in, only out.
        let is_not_owned = matches!(self.ownership, JobOwnership::NotOwned(_))
            && !rule.is_owners_own()
            && self.curfew_tags.mode != Some(Mode::Observe);
        // Also once the tags are there: what was announced for their lack is called off in the mode it was announced in.
        let is_for_its_tags = self.curfew_tags.mode.is_none() && rule == Rule::Untagged;
        let (mode, source) = if is_not_owned || is_for_its_tags {
            (self.config.untagged.mode, ModeSource::Untagged)
        } else {
            configured_mode_and_its_source(self.curfew_tags, self.tags, self.config)
        };
        let limited = match self.kind {
            SubjectKind::SageMaker { .. } if source != ModeSource::Tag && self.config.sagemaker.mode < mode => {
                (self.config.sagemaker.mode, ModeSource::SageMaker)
            }
            _ => (mode, source),
        };
        if rule == Rule::OverBudget { over_budget::limited_mode(self, limited) } else { limited }
    }

    /// The action that is possible for a rule where the configuration, or a tag, wants `action`; or why Curfew only notifies.
    pub(crate) fn feasible(self, rule: Rule, action: RuleAction) -> Result<ResourceAction, NotifyOnlyReason> {
        match self.kind {
            SubjectKind::Instance { instance, .. } => instances::feasible(self, instance, rule, action),
            SubjectKind::SageMaker { resource, .. } => sagemaker::feasible(self, resource, rule, action),
        }
    }

    /// The feasible action, announced now with its grace.
    pub(crate) fn due_after(self, rule: Rule, action: RuleAction, grace: SignedDuration) -> DueAction {
        self.announced_now(rule, self.feasible(rule, action), grace)
    }

    /// The action, announced now with this grace, or with the longer one of the NVMe storage that it loses.
    pub(crate) fn announced_now(
        self,
        rule: Rule,
        feasible: Result<ResourceAction, NotifyOnlyReason>,
        grace: SignedDuration,
    ) -> DueAction {
        let scratch_grace = match self.kind {
            SubjectKind::Instance { instance, .. } => instances::scratch_grace(self, instance, rule),
            SubjectKind::SageMaker { .. } => None,
        };
        let grace = grace.max(scratch_grace.unwrap_or_default());
        feasible.map_or_else(DueAction::NotifyOnly, |ending| DueAction::After(ending, after(self.now, grace)))
    }

    /// Time between the announcement of an end of hours and that end.
    pub(crate) const fn hours_notice(self) -> SignedDuration {
        match self.kind {
            SubjectKind::Instance { .. } => INSTANCE_NOTICE,
            SubjectKind::SageMaker { .. } => SAGEMAKER_NOTICE,
        }
    }

    /// `true` for an endpoint or an inference component, which runs for as long as it is needed.
    pub(crate) const fn serves(self) -> bool {
        match self.kind {
            SubjectKind::Instance { .. } => false,
            SubjectKind::SageMaker { resource, .. } => resource.kind.serves(),
        }
    }

    pub(crate) const fn work(self) -> Work {
        match self.kind {
            SubjectKind::Instance { usage: Usage::Busy(_), .. }
            | SubjectKind::SageMaker { activity: Activity::Active(_) | Activity::LowUse(_), .. } => Work::Busy,
            SubjectKind::Instance { usage: Usage::Idle(_), .. }
            | SubjectKind::SageMaker { activity: Activity::Inactive(_), .. } => Work::Quiet,
            SubjectKind::Instance { usage: Usage::Unknown(UnknownUsage::NotAsked), .. }
            | SubjectKind::SageMaker { activity: Activity::Unknown(UnknownActivity::NotAsked), .. } => Work::NotAsked,
            SubjectKind::Instance { .. } | SubjectKind::SageMaker { .. } => Work::Unknown,
        }
    }

    /// The verdict for something that may serve in production: while it is used, Curfew only notifies, and while that is unknown, the rule
    /// is unknown too.
    pub(crate) fn unless_serving(self, violation: Violation) -> Verdict {
        match self.work() {
            _ if !self.serves() || matches!(violation.due, DueAction::NotifyOnly(_)) => Verdict::Violated(violation),
            Work::Quiet => Verdict::Violated(violation),
            Work::Busy => {
                Verdict::Violated(Violation { due: DueAction::NotifyOnly(NotifyOnlyReason::Busy), ..violation })
            }
            Work::Unknown | Work::NotAsked => Verdict::Unknown,
        }
    }
}
