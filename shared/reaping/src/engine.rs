//! The parts of a decision that all kinds of resources share: the skips by tags, and the loop in which a bug about one resource keeps no
//! other from being decided.

pub(crate) mod announcements;
#[cfg(test)]
mod observed_first_run;
mod running;
pub(crate) mod settle;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::config::Config;
use model::curfew_tags::{CurfewTags, PROTECTED, UnreadableTag, explain_unreadable, kept_until};
use model::fault::Bug;
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::notification_log::{NotificationKey, NotificationLog, ResourceRecord, would_fingerprint};
use model::observation::Gap;
use model::ownership::{owner_of, team_of, value_of};
use model::rule::Rule;
use plan::{FindingKind, OwnerFinding, Plan, ResourceMemory, SkipReason, Skipped, Step, Target};

use crate::policy::Policy;

pub(crate) use running::{Running, RunningCase};

/// The facts that the engine reads about a resource of any kind.
#[derive(Clone, Copy)]
pub(crate) struct ResourceFacts<'a> {
    pub(crate) region: &'a Region,
    pub(crate) id: &'a ResourceId,
    pub(crate) tags: &'a Tags,
    /// Beginning of the life that its record in the log is about.
    pub(crate) began: Timestamp,
    /// Beginning of its present life. An announcement with an earlier deadline is void.
    pub(crate) since: Timestamp,
    /// The log of its region.
    pub(crate) log: &'a NotificationLog,
    pub(crate) policy: &'a Policy,
    pub(crate) now: Timestamp,
}

impl<'a> ResourceFacts<'a> {
    /// Its record, if that is about its present life.
    pub(crate) fn record(self) -> Option<&'a ResourceRecord> {
        self.log.record_about(self.id, self.began)
    }

    /// The value of `curfew:expires-at` that Curfew has seen before its time, now or in an earlier run.
    pub(crate) fn seen_expiry(self, curfew_tags: &CurfewTags) -> Option<Timestamp> {
        let expires_at = curfew_tags.expires_at?;
        let seen_before = self.record().is_some_and(|record| record.expiry_seen == Some(expires_at));
        (seen_before || self.now < expires_at).then_some(expires_at)
    }

    pub(crate) fn was_notified(self, topic: &NotificationKey, what: &str) -> bool {
        self.log.was_notified(self.id, topic, what)
    }

    /// `true` if its subscribers were notified of this action in observe mode.
    pub(crate) fn was_notified_of_observed(self, rule: Rule, announced: AnnouncedAction) -> bool {
        let what = would_fingerprint(announced.ending, announced.deadline);
        self.was_notified(&NotificationKey::would(rule), &what)
    }

    /// The maximum mode of a rule. `owner_tags` name its team.
    pub(crate) fn ceiling(self, owner_tags: &Tags, rule: Rule) -> Mode {
        let announced = self.record().and_then(|record| record.announced.get(&rule));
        if rule == Rule::Expired && announced.is_none() {
            return self.policy.ceiling_without_announcement(owner_tags);
        }
        self.policy.ceiling_of(owner_tags, announced, &self.log.readers)
    }

    /// The target of its steps. `owner_tags` name its team and its owner.
    pub(crate) fn target(self, owner_tags: &Tags, what: String) -> Target {
        target(self.region, self.id, self.tags, owner_tags, what, &self.policy.config)
    }
}

pub(crate) fn target(
    region: &Region,
    id: &ResourceId,
    tags: &Tags,
    owner_tags: &Tags,
    what: String,
    config: &Config,
) -> Target {
    Target {
        region: region.clone(),
        resource: id.clone(),
        team: team_of(owner_tags, config),
        owner: owner_of(owner_tags, config),
        name: value_of(tags, "Name").map(str::to_owned),
        what,
    }
}

/// One resource with everything that is known about it. Each kind implements its own skips, and the judgement by its rules.
pub(crate) trait ResourceCase<'a>: Copy {
    fn facts(self) -> ResourceFacts<'a>;
    fn target(self) -> Target;
    fn curfew_tags(self) -> Result<CurfewTags, Vec<UnreadableTag>>;
    /// The memory of a resource whose rules are not judged now. Its announcements are over: if it is judged again, they begin anew.
    fn unjudged(self, active_keys: Vec<NotificationKey>) -> ResourceMemory;
    /// `true` if no tag but its protection skips it.
    fn is_overdue_machine(self) -> bool {
        false
    }
    /// The skip of a resource that its tags do not skip.
    fn skip_of_kind(self, curfew_tags: &CurfewTags) -> Option<Skipped>;
    /// The decision about a resource that is not skipped at once. Tags that cannot be read count as absent.
    fn decide_by_rules(self, curfew_tags: &CurfewTags) -> PlanDecision;

    fn decide(self) -> PlanDecision {
        match self.immediate_skip() {
            Some(skipped) => skipped.into(),
            None => self.decide_by_rules(&self.curfew_tags().unwrap_or_default()),
        }
    }

    /// Skips protected, kept and unreadable resources, in this order, and then those that the kind skips.
    fn immediate_skip(self) -> Option<Skipped> {
        if self.is_overdue_machine() {
            return None;
        }
        let ResourceFacts { tags, now, .. } = self.facts();
        if tags.contains_key(PROTECTED) {
            return Some(self.skip(SkipReason::Protected, Vec::new()));
        }
        let is_kept = kept_until(tags).is_some_and(|until| now < until);
        match self.curfew_tags() {
            Err(unreadable) => {
                let reason = if is_kept { SkipReason::Kept } else { SkipReason::Unreadable };
                let text = explain_unreadable(&unreadable);
                Some(self.skip_with_finding(reason, FindingKind::Unreadable, text.clone(), text))
            }
            Ok(_) if is_kept => Some(self.skip(SkipReason::Kept, Vec::new())),
            Ok(curfew_tags) => self.skip_of_kind(&curfew_tags),
        }
    }

    /// `true` if its owner protects or keeps it, so that a scan leaves it out.
    fn is_exempt(self) -> bool {
        matches!(self.immediate_skip().map(|skipped| skipped.reason), Some(SkipReason::Protected | SkipReason::Kept))
    }

    fn skip(self, reason: SkipReason, active_keys: Vec<NotificationKey>) -> Skipped {
        Skipped::new(self.target(), reason, self.unjudged(active_keys))
    }

    fn skip_with_finding(self, reason: SkipReason, kind: FindingKind, what: String, text: String) -> Skipped {
        let skipped = self.skip(reason, vec![kind.key()]);
        Skipped { finding: Some(OwnerFinding { kind, what, text }), ..skipped }
    }

    /// `true` if its subscribers were notified of a violation that may still hold.
    fn was_notified_of(self, rule: Rule) -> bool {
        let ResourceFacts { id, log, .. } = self.facts();
        log.notification(id, &NotificationKey::rule(rule)).is_some()
    }
}

/// The plan for these resources, in the order of regions and ids. No limit holds its steps yet.
pub(crate) fn decide_each<'a, C: ResourceCase<'a>>(
    cases: impl Iterator<Item = C>,
    gaps: &[Gap],
    time_zone: TimeZone,
) -> Plan {
    let mut cases: Vec<C> = cases.collect();
    cases.sort_by_key(|case| (case.facts().region, case.facts().id));
    let mut plan = Plan { seen: cases.len(), steps: Vec::new(), skipped: Vec::new(), gaps: gaps.to_vec(), time_zone };
    for case in cases {
        PlanDecision::about(case).add_to(&mut plan);
    }
    plan
}

/// The decisions about resources that Curfew never changes: there is no step among them.
pub(crate) fn decide_unchanged<'a, C: ResourceCase<'a>>(cases: impl Iterator<Item = C>) -> Vec<Skipped> {
    let skipped = |case| match PlanDecision::about(case) {
        PlanDecision::Skipped(skipped) => Some(*skipped),
        PlanDecision::Step(_) => None,
    };
    cases.filter_map(skipped).collect()
}

/// Work about one resource, in which a test may plant a panic.
pub(crate) fn catch_bug<T>(id: &ResourceId, work: impl FnOnce() -> T) -> Result<T, Bug> {
    Bug::catch(|| {
        #[cfg(any(test, feature = "fixture"))]
        crate::fixture::panic_if_planted(id);
        #[cfg(not(any(test, feature = "fixture")))]
        let _ = id;
        work()
    })
}

/// The decision of a plan about one resource.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanDecision {
    Step(Box<Step>),
    Skipped(Box<Skipped>),
}

impl From<Step> for PlanDecision {
    fn from(step: Step) -> Self {
        Self::Step(Box::new(step))
    }
}

impl From<Skipped> for PlanDecision {
    fn from(skipped: Skipped) -> Self {
        Self::Skipped(Box::new(skipped))
    }
}

impl PlanDecision {
    /// Decides about one resource by its case; see [`PlanDecision::or_bug`].
    fn about<'a>(case: impl ResourceCase<'a>) -> Self {
        let ResourceFacts { region, id, log, .. } = case.facts();
        Self::or_bug(region, id, log, || case.target(), || case.decide())
    }

    /// Decides about one resource. If that panics, the resource is skipped with a finding about the bug, and its entry in the log stays.
    pub(crate) fn or_bug(
        region: &Region,
        id: &ResourceId,
        log: &NotificationLog,
        target: impl FnOnce() -> Target,
        decide: impl FnOnce() -> Self,
    ) -> Self {
        catch_bug(id, decide).unwrap_or_else(|bug| {
            let target = Bug::catch(target).unwrap_or_else(|_| Target::bare(region, id));
            Self::Skipped(Box::new(Skipped::for_bug(&bug, target, log)))
        })
    }

    pub(crate) fn add_to(self, plan: &mut Plan) {
        match self {
            Self::Step(step) => plan.steps.push(*step),
            Self::Skipped(skipped) => plan.skipped.push(*skipped),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use billing::budget::{Budget, BudgetHolder};
    use model::config::Config;
    use model::curfew_tags::MARKED;
    use model::mode::Mode;
    use model::notification_log::{NotificationKey, NotificationLogs, ResourceRecord};
    use model::observation::Observation;
    use model::rule::Rule;
    use model::volume::{ObservedStorage, Snapshot, SnapshotState, snapshot_description};
    use plan::{ResourceMemory, SkipReason};

    use super::*;
    use crate::fixture::{NOW, PLANTED_BUG, enforcing, idle, instance, log_of_labels, notebook, time, volume};

    const ENFORCE: &str = "mode = \"enforce\"";

    /// Checks that the resource with the planted bug is skipped with a finding, that its announcement stays, and that the rest of `plan` equals
    /// `without`.
    fn check(plan: &Plan, without: &Plan, memory: &NotificationLogs) {
        let is_planted = |target: &Target| target.resource.as_str().contains(PLANTED_BUG);
        let (planted, skipped): (Vec<_>, Vec<_>) =
            plan.skipped.iter().cloned().partition(|one| is_planted(&one.target));
        assert_eq!((&plan.steps, &skipped), (&without.steps, &without.skipped));
        let [planted] = &planted[..] else { panic!("{plan:?}") };
        assert_eq!(planted.reason, SkipReason::Bug);
        let text = "Curfew does nothing to it: a bug in Curfew: planted for a test; report it";
        assert_eq!(planted.finding.as_ref().unwrap().text, text);
        let log = memory.values().next().unwrap();
        let mut kept = ResourceMemory::unchanged(log, &planted.target.resource);
        assert!(!kept.active_keys.is_empty() && !kept.record.announced.is_empty(), "{kept:?}");
        kept.active_keys.push(FindingKind::Bug.key());
        assert_eq!(planted.memory, kept);
    }

    /// A log with an announcement and a notification about one resource.
    fn memory_about(id: &str) -> NotificationLogs {
        let mut log = log_of_labels(
            &id.into(),
            time("2026-01-01T00:00:00Z"),
            &BTreeMap::from([(MARKED.to_owned(), "idle=stop@2026-09-01T18:00:00Z".to_owned())]),
        );
        let vol_gone = ResourceRecord { snapshot_runs: vec!["abc".into()], ..ResourceRecord::default() };
        log.resources.insert("vol-gone".into(), vol_gone);
        let was = serde_json::json!({ "idle": { "at": NOW, "what": "configured" } });
        log.resources.get_mut(&ResourceId::from(id)).unwrap().notified = serde_json::from_value(was).unwrap();
        assert!(log.was_notified(&id.into(), &NotificationKey::rule(Rule::Idle), "configured"));
        NotificationLogs::from([("us-east-1".into(), log)])
    }

    #[test]
    fn a_bug_about_one_instance_ends_no_run() {
        let (sound, planted) = (instance().build(), instance().id("i-planted-bug").build());
        let usages = BTreeMap::from([(sound.id.clone(), idle())]);
        let memory = memory_about("i-planted-bug");
        let decide = |items: &[_]| {
            let seen = Observation { items: items.to_vec(), gaps: Vec::new() };
            crate::instances::decide(&seen, &usages, &memory, &enforcing(ENFORCE), time(NOW))
        };
        check(&decide(&[planted.clone(), sound.clone()]), &decide(std::slice::from_ref(&sound)), &memory);
        let found = crate::scan::instances(&[planted, sound], &usages, &enforcing(""), time(NOW));
        assert_eq!((found.items.len(), found.gaps[0].call.as_str()), (1, "judging i-planted-bug"));
    }

    #[test]
    fn a_bug_about_one_volume_or_snapshot_ends_no_run() {
        let snapshot = |id: &str| Snapshot {
            id: id.into(),
            region: "us-east-1".into(),
            of_volume: "vol-gone".into(),
            state: SnapshotState::Completed,
            started_at: time("2026-08-01T12:00:00Z"),
            size_gib: 500,
            description: snapshot_description(&"vol-gone".into(), &"abc".into()),
            tags: BTreeMap::new(),
        };
        let decide = |volumes: &[&str], snapshots: &[&str], memory: &NotificationLogs| {
            let items = volumes.iter().map(|id| volume().id(id).build()).collect();
            let seen = ObservedStorage {
                volumes: Observation { items, gaps: Vec::new() },
                snapshots: snapshots.iter().map(|id| snapshot(id)).collect(),
                ..ObservedStorage::default()
            };
            let policy = enforcing(ENFORCE);
            crate::volumes::decide(
                &seen,
                &BTreeMap::new(),
                &crate::volumes::LiveJobs::new(),
                memory,
                &policy,
                time(NOW),
            )
        };
        for (volumes, snapshots) in
            [(&["vol-1", "vol-planted-bug"][..], &["snap-1"][..]), (&["vol-1"], &["snap-1", "snap-planted-bug"])]
        {
            let planted = [volumes, snapshots].concat().into_iter().find(|id| id.contains(PLANTED_BUG)).unwrap();
            let memory = memory_about(planted);
            check(&decide(volumes, snapshots, &memory), &decide(&["vol-1"], &["snap-1"], &memory), &memory);
        }
    }

    #[test]
    fn a_bug_about_one_notebook_ends_no_run() {
        let (sound, planted) = (notebook().build(), notebook().id("notebook-instance/planted-bug").build());
        let memory = memory_about(planted.id.as_str());
        let decide = |items: &[_]| {
            let seen = Observation { items: items.to_vec(), gaps: Vec::new() };
            let activities = crate::sagemaker::Activities::new();
            crate::sagemaker::decide(&seen, &activities, &memory, &enforcing(ENFORCE), time(NOW))
        };
        check(&decide(&[sound.clone(), planted]), &decide(&[sound]), &memory);
    }

    #[test]
    fn a_bug_about_one_budget_ends_no_beat() {
        let memory = memory_about("planted-bug");
        let decide = |teams: &[&str]| {
            let documents = teams.iter().map(|team| (BudgetHolder::Team((*team).into()), Budget::default())).collect();
            crate::budgets::decide(
                &documents,
                &Config::default(),
                &model::ceiling::Ceiling::fixed(Mode::Enforce),
                &memory,
                &"us-east-1".into(),
            )
        };
        check(&decide(&["planted-bug", "vision"]), &decide(&["vision"]), &memory);
    }
}
