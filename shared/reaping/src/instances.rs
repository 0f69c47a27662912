//! The decisions of reap-instances: which usage to query, which instances to skip, and what to do to the others.
//!
//! Skips come first: protected, kept, unreadable, foreign-owned; a job's machine past its deadline is skipped only if it is protected. Then
//! **all** rules are judged. Each violated rule keeps its own deadline, and the earliest one that may be enforced acts. A rule that only
//! notifies, or that is only observed, never hides it; nor does a rule that only notifies hide what observe mode would announce.

mod explain;
mod feasible;
mod gangs;
mod machine_facts;
mod scan;
mod skip;
mod unknown_usage;
mod usage_queries;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use explain::{explain, explain_among, full_usage_query};
pub(crate) use feasible::{feasible, scratch_grace};
pub use feasible::{is_withheld_by_local_disk, withheld_without_choice};
pub use gangs::ask_gangs_together;
use gangs::{GangStandings, judged_usages, standings_of_gangs, within_gangs};
pub use machine_facts::machine_facts;
pub use scan::{scan, unjudged};
pub use unknown_usage::quote_name as quote_device;
pub use unknown_usage::{describe_known, describe_report};
pub(crate) use unknown_usage::{describe_unknown as describe_unknown_usage, quote_name};
pub use usage_queries::{LearnedUsage, learn_usage, usage_queries};

use jobs::machine_hold;
use model::curfew_tags::{CurfewTags, UnreadableTag};
use model::foreign::controller;
use model::foreign_text::quoted_unless_word;
use model::id::ResourceId;
use model::instance::{Accelerator, Instance, InstanceState};
use model::mark::{Mark, whole_second};
use model::mode::Mode;
use model::notification_log::{NotificationKey, NotificationLog, NotificationLogs, REPEAT_AFTER, ResourceRecord};
use model::observation::Observation;
use model::rule::{ResourceAction, Rule};
use model::usage::{UnknownUsage, Usage};
use plan::{
    Action, Announcement, Evidence, FindingKind, InstanceAction, OwnerFinding, Plan, ResourceMemory, SkipReason,
    Skipped, Step, Target, limits,
};

use crate::engine::announcements::{AnnouncedResource, start_keys, unsettled_rule_keys};
use crate::engine::{PlanDecision, ResourceCase, ResourceFacts, Running, RunningCase, decide_each};
use crate::job_ownership::JobOwnership;
use crate::policy::{Policy, Verdict};
use crate::rules::{self, hours};
use crate::subject::{Subject, SubjectKind};

const NOT_ASKED: Usage = Usage::Unknown(UnknownUsage::NotAsked);

/// The plan for all observed instances. The same arguments give the same plan.
#[must_use]
pub fn decide(
    seen: &Observation<Instance>,
    usages: &BTreeMap<ResourceId, Usage>,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Plan {
    let empty_log = NotificationLog::default();
    let usages = judged_usages(usages, &seen.items, policy, now);
    let alone = seen.items.iter().map(|instance| {
        let usage = usages.get(&instance.id).unwrap_or(&NOT_ASKED);
        let log = memory.get(&instance.region).unwrap_or(&empty_log);
        InstanceCase { instance, usage, log, standings: None, policy, now }
    });
    let alone: Vec<InstanceCase<'_>> = alone.collect();
    let standings = standings_of_gangs(&alone, &policy.gangs);
    let mut plan = decide_each(within_gangs(&alone, &standings), &seen.gaps, policy.config.account.zone());
    limits::hold_where_exceeded(&mut plan, &policy.config.limits);
    plan
}

/// One instance with everything that is known about it.
#[derive(Clone, Copy)]
struct InstanceCase<'a> {
    instance: &'a Instance,
    usage: &'a Usage,
    log: &'a NotificationLog,
    /// Cases of the members of its gang by rule; `None` for one that works alone, and where nothing is decided.
    standings: Option<&'a GangStandings<'a>>,
    policy: &'a Policy,
    now: Timestamp,
}

impl<'a> ResourceCase<'a> for InstanceCase<'a> {
    fn facts(self) -> ResourceFacts<'a> {
        let Self { instance: Instance { region, id, tags, launched_at, .. }, log, policy, now, .. } = self;
        ResourceFacts { region, id, tags, began: *launched_at, since: *launched_at, log, policy, now }
    }

    fn target(self) -> Target {
        self.facts().target(&self.instance.tags, self.instance.instance_type.to_string())
    }

    fn curfew_tags(self) -> Result<CurfewTags, Vec<UnreadableTag>> {
        CurfewTags::read(self.instance)
    }

    fn unjudged(self, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        let curfew_tags = self.curfew_tags().unwrap_or_default();
        // A pending start has not yet shown whether it fails.
        let carried_out = match self.instance.state {
            InstanceState::Running => None,
            InstanceState::Pending => self.log.record(&self.instance.id).and_then(|record| record.carried_out),
            InstanceState::Stopped => hours::standing_stop(self.instance, self.log.record(&self.instance.id)),
            _ => self.facts().record().and_then(|record| record.carried_out),
        };
        let is_down = matches!(self.instance.state, InstanceState::Pending | InstanceState::Stopped);
        let requested = self.log.record(&self.instance.id).and_then(|record| record.start_requested);
        let record = ResourceRecord {
            expiry_seen: self.facts().seen_expiry(&curfew_tags),
            carried_out,
            start_requested: requested.filter(|_| is_down),
            ..ResourceRecord::about(self.instance.launched_at)
        };
        ResourceMemory { active_keys, record, host_tags: None }
    }

    /// The deadline bounds the cost of the job, whatever the tags of its machine say.
    fn is_overdue_machine(self) -> bool {
        let deadline = self.policy.jobs.deadline(self.instance);
        self.instance.state == InstanceState::Running
            && deadline.is_some_and(|at| at <= self.now)
            && !machine_hold::is_protected(&self.instance.tags)
    }

    fn skip_of_kind(self, curfew_tags: &CurfewTags) -> Option<Skipped> {
        let owner = controller(self.instance, &self.policy.config.managed)?;
        Some(self.foreign_owned(curfew_tags, &owner))
    }

    fn decide_by_rules(self, curfew_tags: &CurfewTags) -> PlanDecision {
        match self.instance.state {
            InstanceState::Running => self.decide_running(curfew_tags),
            InstanceState::Stopped => self.decide_stopped(curfew_tags),
            // A failed start passes through this state; the keys keep it from being announced again.
            InstanceState::Pending => self.skip(SkipReason::Young, start_keys()).into(),
            InstanceState::Stopping
            | InstanceState::ShuttingDown
            | InstanceState::Terminated
            | InstanceState::Unknown => self.skip(SkipReason::NotRunning, Vec::new()).into(),
        }
    }
}

impl<'a> RunningCase<'a> for InstanceCase<'a> {
    type Action = InstanceAction;

    fn subject<'s>(self, curfew_tags: &'s CurfewTags) -> Subject<'s>
    where
        'a: 's,
    {
        let Self { instance, usage, policy, now, .. } = self;
        Subject {
            kind: SubjectKind::Instance { instance, usage },
            tags: &instance.tags,
            curfew_tags,
            config: &policy.config,
            budgets: &policy.budgets,
            ownership: policy.jobs.ownership(instance),
            job_deadline: policy.jobs.deadline(instance),
            expiry_seen: self.facts().record().and_then(|record| record.expiry_seen),
            created_at: instance.launched_at,
            running_since: instance.launched_at,
            now,
        }
    }

    fn verdicts(self, curfew_tags: &CurfewTags) -> Vec<(Rule, Verdict)> {
        let subject = self.subject(curfew_tags);
        let judged = Rule::RUNNING.into_iter().map(|rule| {
            let verdict = match subject.ownership {
                _ if rule == Rule::Expired => rules::judge(rule, subject),
                JobOwnership::Owned(_) => Verdict::Compliant,
                JobOwnership::Unknown(_) => Verdict::Unknown,
                // Seen by its tag `curfew:job` alone, which anybody can write: only what it says of its end counts.
                _ if self.instance.machine.accelerator == Accelerator::None => Verdict::Compliant,
                JobOwnership::None | JobOwnership::NotOwned(_) => rules::judge(rule, subject),
            };
            (rule, self.within_gang(curfew_tags, rule, verdict))
        });
        judged.collect()
    }

    fn step(self, mode: Mode, action: InstanceAction, evidence: Evidence) -> Step {
        let saves = match action {
            InstanceAction::Announce(Announcement::Unmark { .. }) | InstanceAction::Start => None,
            _ => self.policy.prices.saved_by_ending(self.instance),
        };
        let action = Action::Instance(self.instance.clone(), action);
        let gang = self.policy.gangs.gang_of(&self.instance.id).cloned();
        let gang = match (gang, evidence.rule()) {
            (Some(gang), Rule::OverBudget) => gang.within_team(self.target().team.as_ref()).map(Arc::new),
            (gang, _) => gang,
        };
        Step { saves, gang, ..Step::bare(self.target(), action, evidence, mode) }
    }

    fn end(self, ending: ResourceAction, rule: Rule, mark: Option<Mark>) -> Option<InstanceAction> {
        match ending {
            ResourceAction::Stop => {
                Some(InstanceAction::Stop { mark, stopped: format!("{rule} {}", whole_second(self.now)) })
            }
            ResourceAction::Terminate => Some(InstanceAction::Terminate { mark }),
            ResourceAction::SnapshotAndDelete | ResourceAction::Delete => None,
        }
    }
}

impl InstanceCase<'_> {
    fn decide_running(self, curfew_tags: &CurfewTags) -> PlanDecision {
        let running = Running { case: self, curfew_tags };
        let verdicts = running.within_labels(self.verdicts(curfew_tags));
        let enforced = running.track(&verdicts, Mode::Enforce);
        let observed = running.track(&verdicts, Mode::Observe);
        let mut active_keys = unsettled_rule_keys(&verdicts);
        active_keys.extend(matches!(self.usage, Usage::Unknown(_)).then(|| FindingKind::UsageUnknown.key()));
        active_keys.extend(self.rejected_claim_key());
        active_keys.extend(self.of_retired_family().map(|finding| finding.kind.key()));
        if self.log.record(&self.instance.id).is_some_and(|record| record.carried_out.is_some()) {
            active_keys.extend(start_keys());
        }
        let resource_memory = running.memory_of_tracks(&[&enforced, &observed], active_keys);
        let action = running
            .step_by_priority(&enforced, &observed)
            .or_else(|| running.observed_before(&observed).filter(|_| !self.ownership().knows_only_its_expiry()));
        match action {
            Some(step) => {
                // In the same message as the step.
                let finding = self.further_finding().filter(|_| !step.action.stops_or_deletes());
                Step { finding, memory: resource_memory, ..step }.into()
            }
            None => self.skip_after_judging(&[enforced, observed], resource_memory).into(),
        }
    }

    fn decide_stopped(self, curfew_tags: &CurfewTags) -> PlanDecision {
        let began = hours::start_is_due(self.instance, curfew_tags, self.log.record(&self.instance.id), self.now);
        let began = began.filter(|began| !self.was_stopped_again(*began) && !self.ownership().knows_only_its_expiry());
        let Some(began) = began else {
            return self.skip(SkipReason::NotRunning, start_keys()).into();
        };
        if let Some(finding) = self.failed_start(began) {
            return Skipped { finding: Some(finding), ..self.skip(SkipReason::Refused, start_keys()) }.into();
        }
        self.start(curfew_tags, InstanceAction::Start, began)
    }

    /// The start that Curfew requested for these hours within a day, and that fails again until a person lifts the reason.
    fn failed_start(self, began: Timestamp) -> Option<OwnerFinding> {
        let (code, remedy) = (self.instance.last_start_failed()?, self.instance.start_remedy()?);
        let requested = self.log.record(&self.instance.id)?.start_requested?;
        if requested < began || self.now.duration_since(requested).abs() >= REPEAT_AFTER {
            return None;
        }
        let text = format!(
            "EC2 gave up the start that Curfew requested at {requested} ({}): {remedy}. Curfew tries again once a day, and once its \
             hours begin",
            quoted_unless_word(code)
        );
        Some(OwnerFinding { kind: FindingKind::StartFailed, what: requested.to_string(), text })
    }

    /// `true` if a stopped instance was started for these hours without a failure: somebody stopped it.
    fn was_stopped_again(self, began: Timestamp) -> bool {
        self.was_started_for(began) && self.instance.last_start_failed().is_none()
    }
}
