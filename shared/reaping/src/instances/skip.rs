//! Skips of instances, and the findings that their owners are notified of.

use billing::price;
use model::curfew_tags::CurfewTags;
use model::foreign_text::quoted_unless_word;
use model::instance::{Accelerator, InstanceState, PurchaseOption};
use model::instance_family::RetiredFamily;
use model::moment::after;
use model::notification_log::NotificationKey;
use model::rule::Rule;
use model::usage::{UnknownUsage, Usage};
use plan::{FindingKind, LeftCost, OwnerFinding, ResourceMemory, SkipReason, Skipped};

use super::InstanceCase;
use super::unknown_usage::describe_unknown;
use crate::engine::announcements::RuleTrack;
use crate::engine::{ResourceCase, RunningCase};
use crate::job_ownership::{JobOwnership, RejectedClaim};
use crate::policy::Verdict;

impl<'a> InstanceCase<'a> {
    /// The owner is notified if a rule is violated; a controller would replace the instance.
    pub(super) fn foreign_owned(self, curfew_tags: &CurfewTags, controller: &str) -> Skipped {
        if self.instance.state != InstanceState::Running {
            return self.skip(SkipReason::ForeignOwned, Vec::new());
        }
        let verdicts = self.verdicts(curfew_tags);
        let violated: Vec<&str> = verdicts
            .iter()
            .filter(|(_, verdict)| matches!(verdict, Verdict::Violated(_)))
            .map(|(rule, _)| rule.as_str())
            .collect();
        let is_unknown = |wanted: Option<Rule>| {
            let mut rule_verdicts = verdicts.iter().filter(|(rule, _)| wanted.is_none_or(|wanted| *rule == wanted));
            rule_verdicts.any(|(_, verdict)| *verdict == Verdict::Unknown)
        };
        let idle = verdicts.iter().find_map(|(rule, verdict)| match verdict {
            Verdict::Violated(violation) if *rule == Rule::Idle => Some(violation.evidence.explain()),
            _ => None,
        });
        // A query comes once a window: in between, what the last one found counts.
        let was_idle = || {
            is_unknown(Some(Rule::Idle))
                && self.log.notification(&self.instance.id, &FindingKind::IdleNode.key()).is_some()
        };
        let is_idle = idle.is_some() || was_idle();
        let active = [
            (FindingKind::ForeignOwned, !violated.is_empty() || is_unknown(None)),
            (FindingKind::IdleNode, is_idle || is_unknown(Some(Rule::Idle))),
        ];
        let active_keys = active.into_iter().filter(|(_, is_active)| *is_active).map(|(kind, _)| kind.key()).collect();
        // Once for each controller: the known violations change with the queries.
        let finding = |kind, text| OwnerFinding { kind, what: controller.to_owned(), text };
        let finding = match idle {
            Some(evidence) => Some(finding(FindingKind::IdleNode, self.describe_idle_node(&evidence, controller))),
            None if violated.is_empty() => None,
            None => {
                let violated = violated.join(" and ");
                let text = format!("{violated}, but managed by {controller}, so Curfew skips it; change it there");
                Some(finding(FindingKind::ForeignOwned, text))
            }
        };
        let left_cost = is_idle.then(|| LeftCost {
            price: self.policy.prices.saved_by_ending(self.instance),
            waste: Some(format!("idle, managed by {controller}")),
        });
        Skipped { finding, left_cost, ..self.skip(SkipReason::ForeignOwned, active_keys) }
    }

    /// An idle machine of a controller, which would replace it.
    fn describe_idle_node(self, evidence: &str, controller: &str) -> String {
        let cost = price::describe_cost(self.policy.prices.saved_by_ending(self.instance));
        let remedy = match self.instance.purchase {
            PurchaseOption::CapacityBlock => "its hours are paid, and lost while it is idle",
            _ => "a stop would be undone there: give it work, or scale it down there",
        };
        format!("{evidence}. It is managed by {controller}, so Curfew skips it; {remedy}. {cost}")
    }

    /// The skip of a judged instance, with the reason why no action is due.
    pub(super) fn skip_after_judging(self, tracks: &[RuleTrack], resource_memory: ResourceMemory) -> Skipped {
        let reason = RuleTrack::skip_reason(tracks).unwrap_or_else(|| match (self.ownership(), self.usage) {
            (JobOwnership::Owned(_), _) => SkipReason::LiveJob,
            (JobOwnership::Unknown(_), _) => SkipReason::JobUnknown,
            (_, Usage::Busy(_)) => SkipReason::Busy,
            // Whether all of its gang may be stopped is unknown.
            (_, Usage::Idle(_)) if self.standings.is_some() => SkipReason::UsageUnknown,
            (_, Usage::Idle(_)) => SkipReason::Compliant,
            (_, Usage::Unknown(UnknownUsage::Young)) => SkipReason::Young,
            (_, Usage::Unknown(_)) if !self.is_judged_for_idleness() => SkipReason::Compliant,
            // The last query comes once a window.
            (_, Usage::Unknown(UnknownUsage::NotAsked)) if self.was_notified_of(Rule::Idle) => SkipReason::Notified,
            (_, Usage::Unknown(_)) => SkipReason::UsageUnknown,
        });
        Skipped { finding: self.further_finding(), ..Skipped::new(self.target(), reason, resource_memory) }
    }

    pub(super) fn ownership(self) -> JobOwnership<'a> {
        self.policy.jobs.ownership(self.instance)
    }

    /// The reason why Curfew does not accept its `curfew:job`, and its cost until a person decides.
    pub(super) fn rejected_claim_finding(self) -> Option<OwnerFinding> {
        let JobOwnership::NotOwned(RejectedClaim { job, why }) = self.ownership() else { return None };
        // By then the state of the job has every launch that was answered.
        if self.now < after(self.instance.launched_at, self.policy.config.untagged.settle) {
            return None;
        }
        let cost = price::describe_cost(self.policy.prices.saved_by_ending(self.instance));
        let treated = match self.instance.machine.accelerator {
            Accelerator::None => "Curfew ends it only by its own curfew:expires-at",
            _ => "Curfew treats it as untagged",
        };
        let text = format!(
            "its curfew:job names {}, {}. Somebody copied the tag, or EC2's answer to a launch was lost. No job terminates it, \
             so {treated}. {cost}. If it is yours, remove curfew:job and curfew:attempt; otherwise \
             terminate it",
            quoted_unless_word(job),
            why.explain()
        );
        Some(OwnerFinding { kind: FindingKind::Disowned, what: job.to_owned(), text })
    }

    /// The owner is not notified again while this is unknown.
    pub(super) fn rejected_claim_key(self) -> Option<NotificationKey> {
        matches!(self.ownership(), JobOwnership::NotOwned(_) | JobOwnership::Unknown(_))
            .then(|| FindingKind::Disowned.key())
    }

    pub(super) fn is_judged_for_idleness(self) -> bool {
        self.instance.machine.accelerator != Accelerator::None
            && !self.ownership().knows_only_its_expiry()
            && CurfewTags::read(self.instance)
                .is_ok_and(|curfew_tags| crate::rules::idle::window(&curfew_tags, &self.policy.config).is_some())
    }

    /// Reported beside any other finding: otherwise no one would notice that Curfew cannot judge it.
    pub(super) fn uninstrumented(self) -> Option<OwnerFinding> {
        let unknown = self.cannot_be_judged()?;
        let why = describe_unknown(unknown, self.instance, &self.policy.config.metrics);
        let cost = price::describe_cost(self.policy.prices.saved_by_ending(self.instance));
        let text = format!("its usage is unknown, so Curfew never stops it as idle: {why}. {cost}");
        let basic = if let UnknownUsage::Uninstrumented(report) = unknown { report.basic.as_ref() } else { None };
        // Once more after a fortnight of rest.
        let what = if basic.is_some_and(|basic| basic.is_probably_idle()) { "probably-idle" } else { "usage-unknown" };
        Some(OwnerFinding { kind: FindingKind::UsageUnknown, what: what.to_owned(), text })
    }

    /// The owner is notified that AWS retires its family: it may not start again once it is stopped.
    pub(super) fn of_retired_family(self) -> Option<OwnerFinding> {
        let RetiredFamily { family, left_by, successors } = RetiredFamily::of_type(&self.instance.instance_type)?;
        let left_by = left_by.map(|day| format!(", and asked its users to leave by {day}")).unwrap_or_default();
        let cost = price::describe_cost(self.policy.prices.saved_by_ending(self.instance));
        let text = format!(
            "AWS retires the family {family}{left_by}: move to {successors} (`curfew recommend` ranks them by price). {cost}"
        );
        Some(OwnerFinding { kind: FindingKind::RetiredFamily, what: (*family).to_owned(), text })
    }

    /// The finding beside a step or a skip: the first that its owner does not know.
    pub(super) fn further_finding(self) -> Option<OwnerFinding> {
        let all =
            || [self.rejected_claim_finding(), self.uninstrumented(), self.of_retired_family()].into_iter().flatten();
        let is_new = |finding: &OwnerFinding| !self.facts().was_notified(&finding.kind.key(), &finding.what);
        all().find(is_new).or_else(|| all().next())
    }

    /// The reason for its unknown usage; `None` if it was not queried, is too young, or is not judged for idleness.
    pub(super) fn cannot_be_judged(self) -> Option<&'a UnknownUsage> {
        let Usage::Unknown(unknown) = self.usage else {
            return None;
        };
        if !self.is_judged_for_idleness() {
            return None;
        }
        unknown.is_finding().then_some(unknown)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use insta::assert_snapshot;
    use model::fixture::{InstanceBuilder, NOW, busy, idle, instance, time};
    use model::notification_log::{NotificationEntry, NotificationLog, NotificationLogs, ResourceRecord};
    use model::observation::Observation;

    use super::*;
    use crate::fixture::enforcing;
    use crate::instances::{NOT_ASKED, decide};

    /// The skip of this instance. An earlier run notified of these findings.
    fn skipped(of: InstanceBuilder, usage: Usage, notified: &[(FindingKind, &str)]) -> Skipped {
        let instance = of.build();
        let notified = notified.iter().map(|(kind, what)| (kind.key(), NotificationEntry::new(time(NOW), what)));
        let record = ResourceRecord { notified: notified.collect(), ..ResourceRecord::about(instance.launched_at) };
        let resources = BTreeMap::from([(instance.id.clone(), record)]);
        let memory = NotificationLogs::from([(
            instance.region.clone(),
            NotificationLog { resources, ..NotificationLog::default() },
        )]);
        let usages = BTreeMap::from([(instance.id.clone(), usage)]);
        let seen = Observation { items: vec![instance], gaps: Vec::new() };
        let mut plan = decide(&seen, &usages, &memory, &enforcing("mode = \"enforce\""), time(NOW));
        assert_eq!(plan.steps, []);
        plan.skipped.remove(0)
    }

    fn node() -> InstanceBuilder {
        instance().tag("aws:autoscaling:groupName", "workers")
    }

    #[test]
    fn an_idle_machine_of_a_controller_is_priced_and_never_touched() {
        let skipped = skipped(node(), idle(), &[]);
        let (finding, cost) = (skipped.finding.unwrap(), skipped.left_cost.unwrap());
        assert_eq!((skipped.reason, finding.kind), (SkipReason::ForeignOwned, FindingKind::IdleNode));
        assert_snapshot!(finding.text, @"idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It is managed by an Auto Scaling group (workers), so Curfew skips it; a stop would be undone there: give it work, or scale it down there. It costs $1.01/h ($734 a month; table of 2026-09-24)");
        assert!(cost.price.is_some());
        assert_eq!(cost.waste.as_deref(), Some("idle, managed by an Auto Scaling group (workers)"));
    }

    #[test]
    fn between_two_queries_it_is_as_idle_as_it_was() {
        let notified = [(FindingKind::IdleNode, "an Auto Scaling group (workers)")];
        let in_between = skipped(node(), NOT_ASKED, &notified);
        assert!(in_between.finding.is_none() && in_between.left_cost.is_some());
        assert!(in_between.memory.active_keys.contains(&FindingKind::IdleNode.key()));
        assert_eq!(skipped(node(), NOT_ASKED, &[]).left_cost, None);
        let at_work = skipped(node(), busy(), &notified);
        assert!(at_work.left_cost.is_none() && !at_work.memory.active_keys.contains(&FindingKind::IdleNode.key()));
    }

    #[test]
    fn the_owner_of_a_retired_type_learns_what_to_move_to() {
        let old = || instance().with(|instance| instance.instance_type = "p3.2xlarge".into());
        let finding = skipped(old(), busy(), &[]).finding.unwrap();
        assert_eq!((finding.kind, finding.what.as_str()), (FindingKind::RetiredFamily, "p3"));
        assert_snapshot!(finding.text, @"AWS retires the family p3, and asked its users to leave by 2025-12-20: move to newer G or P types (`curfew recommend` ranks them by price). It costs $3.06/h ($2,233 a month; table of 2026-07-20)");
        assert_eq!(skipped(instance(), busy(), &[]).finding, None);
        // What its owner knows already hides nothing else.
        let unknown = || model::fixture::unknown();
        assert_eq!(skipped(old(), unknown(), &[]).finding.unwrap().kind, FindingKind::UsageUnknown);
        let notified = [(FindingKind::UsageUnknown, "usage-unknown")];
        assert_eq!(skipped(old(), unknown(), &notified).finding.unwrap().kind, FindingKind::RetiredFamily);
    }
}
