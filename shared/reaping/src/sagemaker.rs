//! The decisions of reap-sagemaker: what to look up, what to ask `CloudWatch`, which resources to skip, and what to do to the others.
//!
//! Skips come first: protected, kept, unreadable, made by a stack or a pipeline, and endpoints that may be in production. Then all rules
//! are judged ([`crate::rules`]), and announcements are followed as for instances.

mod activity;
mod explain;
mod feasible;
mod scan;
mod skip;
mod waste;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::{CurfewTags, UnreadableTag};
use model::id::{Region, ResourceId};
use model::mark::{Mark, whole_second};
use model::mode::Mode;
use model::notification_log::{CarriedOut, NotificationKey, NotificationLog, NotificationLogs, ResourceRecord};
use model::observation::Observation;
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{
    Activity, InferenceComponent, ObservedSageMaker, SageMakerKind, SageMakerResource, SageMakerStatus, UnknownActivity,
};
use plan::{
    Action, Announcement, Evidence, Plan, ResourceMemory, SageMakerAction, SkipReason, Skipped, Step, Target, limits,
};

use crate::engine::announcements::{AnnouncedResource, start_keys, unsettled_rule_keys};
use crate::engine::{PlanDecision, ResourceCase, ResourceFacts, Running, RunningCase, decide_each};
use crate::job_ownership::JobOwnership;
use crate::policy::Policy;
use crate::rules::hours::start_of_stopped;
use crate::subject::{Subject, SubjectKind};

pub use activity::{evaluate, first_questions, further_questions};
pub use explain::explain;
pub(crate) use feasible::feasible;
pub use scan::scan;
pub(crate) use skip::describe_unknown as describe_unknown_activity;
pub use skip::wants_facts;
pub(crate) use waste::describe_low_use;
pub use waste::{evaluate_low_use, low_use_questions};

/// The activity of each resource. Ids are names here, which repeat from region to region.
pub type Activities = BTreeMap<(Region, ResourceId), Activity>;

/// Longest time from Curfew's request to stop a notebook instance to its last change by that stop. It usually takes minutes.
const STOP_TAKES_MAX: SignedDuration = SignedDuration::from_hours(1);

const NOT_ASKED: Activity = Activity::Unknown(UnknownActivity::NotAsked);

/// The plan for everything that was observed. The same arguments give the same plan.
#[must_use]
pub fn decide(
    seen: &ObservedSageMaker,
    activities: &Activities,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Plan {
    let empty_log = NotificationLog::default();
    let cases = seen.items.iter().map(|resource| {
        let log = memory.get(&resource.region).unwrap_or(&empty_log);
        SageMakerCase::new(resource, activities, log, policy, now)
    });
    let mut plan = decide_each(cases, &seen.gaps, policy.config.account.zone());
    limits::hold_where_exceeded(&mut plan, &policy.config.limits);
    plan
}

/// One resource of `SageMaker` with everything that is known about it.
#[derive(Clone, Copy)]
struct SageMakerCase<'a> {
    resource: &'a SageMakerResource,
    activity: &'a Activity,
    log: &'a NotificationLog,
    policy: &'a Policy,
    now: Timestamp,
}

impl<'a> ResourceCase<'a> for SageMakerCase<'a> {
    fn facts(self) -> ResourceFacts<'a> {
        let Self { resource: SageMakerResource { region, id, tags, created_at, .. }, log, policy, now, .. } = self;
        // Not known exactly: a tag may change the time of the last change, too.
        let since = self.resource.since();
        ResourceFacts { region, id, tags, began: *created_at, since, log, policy, now }
    }

    fn target(self) -> Target {
        self.facts().target(&self.resource.tags, self.what())
    }

    fn curfew_tags(self) -> Result<CurfewTags, Vec<UnreadableTag>> {
        CurfewTags::read_sagemaker(self.resource.created_at, &self.resource.tags)
    }

    fn unjudged(self, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        let curfew_tags = self.curfew_tags().unwrap_or_default();
        let record = ResourceRecord {
            expiry_seen: self.facts().seen_expiry(&curfew_tags),
            carried_out: self.carried_out().filter(|_| self.resource.status != SageMakerStatus::Running),
            ..ResourceRecord::about(self.resource.created_at)
        };
        ResourceMemory { active_keys, record, host_tags: None }
    }

    fn skip_of_kind(self, curfew_tags: &CurfewTags) -> Option<Skipped> {
        let reason = self.reason_of_others(curfew_tags)?;
        // Whether it is an endpoint of low use is unknown then, too.
        let active_keys = Vec::from_iter(self.waste_key().filter(|_| reason == SkipReason::UsageUnknown));
        Some(self.skip(reason, active_keys))
    }

    fn decide_by_rules(self, curfew_tags: &CurfewTags) -> PlanDecision {
        match (self.resource.status, &self.resource.kind) {
            (SageMakerStatus::Running, _) => self.decide_running(curfew_tags),
            (SageMakerStatus::Stopped, SageMakerKind::NotebookInstance) => self.decide_stopped(curfew_tags),
            _ => self.skip(SkipReason::NotRunning, start_keys()).into(),
        }
    }
}

impl<'a> RunningCase<'a> for SageMakerCase<'a> {
    type Action = SageMakerAction;

    fn subject<'s>(self, curfew_tags: &'s CurfewTags) -> Subject<'s>
    where
        'a: 's,
    {
        let Self { resource, activity, policy, now, .. } = self;
        Subject {
            kind: SubjectKind::SageMaker { resource, activity },
            tags: &resource.tags,
            curfew_tags,
            config: &policy.config,
            budgets: &policy.budgets,
            ownership: JobOwnership::None,
            job_deadline: None,
            expiry_seen: self.facts().record().and_then(|record| record.expiry_seen),
            created_at: resource.created_at,
            running_since: resource.since(),
            now,
        }
    }

    fn step(self, mode: Mode, action: SageMakerAction, evidence: Evidence) -> Step {
        let saves = match action {
            SageMakerAction::Announce(Announcement::Unmark { .. }) | SageMakerAction::Start => None,
            _ => self.policy.prices.sagemaker_cost(self.resource),
        };
        Step { saves, ..Step::bare(self.target(), Action::SageMaker(self.resource.clone(), action), evidence, mode) }
    }

    fn end(self, ending: ResourceAction, rule: Rule, mark: Option<Mark>) -> Option<SageMakerAction> {
        match ending {
            ResourceAction::Stop => {
                Some(SageMakerAction::Stop { mark, stopped: format!("{rule} {}", whole_second(self.now)) })
            }
            ResourceAction::Delete => Some(SageMakerAction::Delete { mark }),
            ResourceAction::Terminate | ResourceAction::SnapshotAndDelete => None,
        }
    }
}

impl<'a> SageMakerCase<'a> {
    fn new(
        resource: &'a SageMakerResource,
        activities: &'a Activities,
        log: &'a NotificationLog,
        policy: &'a Policy,
        now: Timestamp,
    ) -> Self {
        let activity = activities.get(&(resource.region.clone(), resource.id.clone())).unwrap_or(&NOT_ASKED);
        Self { resource, activity, log, policy, now }
    }

    fn decide_running(self, curfew_tags: &CurfewTags) -> PlanDecision {
        let running = Running { case: self, curfew_tags };
        let verdicts = running.within_labels(self.verdicts(curfew_tags));
        let enforced = running.track(&verdicts, Mode::Enforce);
        let observed = running.track(&verdicts, Mode::Observe);
        let mut active_keys = unsettled_rule_keys(&verdicts);
        active_keys.extend(self.unmeasured().map(|finding| finding.kind.key()));
        active_keys.extend(self.waste_key());
        if self.carried_out().is_some() {
            active_keys.extend(start_keys());
        }
        let memory = running.memory_of_tracks(&[&enforced, &observed], active_keys);
        let action = running.step_by_priority(&enforced, &observed).or_else(|| running.observed_before(&observed));
        match action {
            Some(step) => {
                // In the same message as the step.
                let finding = self.waste_finding().filter(|_| !step.action.stops_or_deletes());
                Step { finding, memory, ..step }.into()
            }
            None => self.skip_after_judging(&[enforced, observed], memory).into(),
        }
    }

    fn decide_stopped(self, curfew_tags: &CurfewTags) -> PlanDecision {
        let stopped = standing_stop(self.resource, self.carried_out());
        let began = stopped.and_then(|stopped| start_of_stopped(self.resource.since(), curfew_tags, stopped, self.now));
        // Somebody has stopped it since that start.
        let Some(began) = began.filter(|began| !self.was_started_for(*began)) else {
            return self.skip(SkipReason::NotRunning, start_keys()).into();
        };
        self.start(curfew_tags, SageMakerAction::Start, began)
    }

    /// The stop that Curfew carried out, and that no run has seen undone.
    fn carried_out(self) -> Option<CarriedOut> {
        self.facts().record()?.carried_out.filter(|done| done.action == ResourceAction::Stop)
    }

    /// `SageMaker endpoint, 2 x ml.g5.xlarge`.
    fn what(self) -> String {
        let SageMakerResource { kind, instance_type, instances, .. } = self.resource;
        let kind = match kind {
            SageMakerKind::NotebookInstance => "SageMaker notebook instance".to_owned(),
            SageMakerKind::App(app) => format!("SageMaker {} app", app.app_type),
            SageMakerKind::Endpoint { .. } => "SageMaker endpoint".to_owned(),
            SageMakerKind::InferenceComponent(InferenceComponent { endpoint, .. }) => {
                format!("SageMaker inference component of {endpoint}")
            }
            SageMakerKind::Job(job) => format!("SageMaker {} job", crate::explain::state_name(&job.job)),
        };
        match (instance_type, instances) {
            (Some(name), Some(count)) if *count > 1 => format!("{kind}, {count} x ml.{name}"),
            (Some(name), _) => format!("{kind}, ml.{name}"),
            (None, _) => kind,
        }
    }
}

/// The stop of a notebook instance by Curfew that still stands, by its record: a later change voids it, because somebody may have started
/// and stopped it again. EC2 says when an instance was launched last; `SageMaker` says only when a notebook instance was changed last, and
/// Curfew's own stop is a change.
#[must_use]
pub fn standing_stop(notebook: &SageMakerResource, recorded: Option<CarriedOut>) -> Option<CarriedOut> {
    let is_standing = |stopped: &CarriedOut| {
        stopped.action == ResourceAction::Stop
            && notebook.created_at <= stopped.at
            && notebook.modified_at.duration_since(stopped.at) <= STOP_TAKES_MAX
    };
    recorded.filter(is_standing)
}

/// The observation of one resource alone, whose plan no limit holds because of others.
fn narrowed(seen: &ObservedSageMaker, region: &Region, id: &ResourceId) -> ObservedSageMaker {
    let is_it = |resource: &&SageMakerResource| resource.id == *id && resource.region == *region;
    Observation { items: seen.items.iter().filter(is_it).cloned().collect(), gaps: Vec::new() }
}

#[cfg(test)]
mod tests;
