//! Skips of instances, and the findings that their owners are notified of.

use billing::price;
use model::curfew_tags::CurfewTags;
use model::foreign_text::quoted_unless_word;
use model::instance::{Accelerator, InstanceState};
use model::moment::after;
use model::notification_log::NotificationKey;
use model::rule::Rule;
use model::usage::{UnknownUsage, Usage};
use plan::{FindingKind, OwnerFinding, ResourceMemory, SkipReason, Skipped};

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
        let unknown = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Unknown);
        if violated.is_empty() {
            let active_keys = if unknown { vec![FindingKind::ForeignOwned.key()] } else { Vec::new() };
            return self.skip(SkipReason::ForeignOwned, active_keys);
        }
        let text =
            format!("{}, but managed by {controller}, so Curfew skips it; change it there", violated.join(" and "));
        // Once for each controller: the known violations change with the queries.
        self.skip_with_finding(SkipReason::ForeignOwned, FindingKind::ForeignOwned, controller.to_owned(), text)
    }

    /// The skip of a judged instance, with the reason why no action is due.
    pub(super) fn skip_after_judging(self, tracks: &[RuleTrack], resource_memory: ResourceMemory) -> Skipped {
        let reason = RuleTrack::skip_reason(tracks).unwrap_or_else(|| match (self.ownership(), self.usage) {
            (JobOwnership::Owned(_), _) => SkipReason::LiveJob,
            (JobOwnership::Unknown(_), _) => SkipReason::JobUnknown,
            (_, Usage::Busy(_)) => SkipReason::Busy,
            (_, Usage::Idle(_)) => SkipReason::Compliant,
            (_, Usage::Unknown(UnknownUsage::Young)) => SkipReason::Young,
            (_, Usage::Unknown(_)) if !self.is_judged_for_idleness() => SkipReason::Compliant,
            // The last query comes once a window.
            (_, Usage::Unknown(UnknownUsage::NotAsked)) if self.was_notified_of(Rule::Idle) => SkipReason::Notified,
            (_, Usage::Unknown(_)) => SkipReason::UsageUnknown,
        });
        Skipped {
            finding: self.rejected_claim_finding().or_else(|| self.uninstrumented()),
            ..Skipped::new(self.target(), reason, resource_memory)
        }
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

    /// The reason for its unknown usage; `None` if it was not queried, is too young, or is not judged for idleness.
    pub(super) fn cannot_be_judged(self) -> Option<&'a UnknownUsage> {
        let Usage::Unknown(unknown) = self.usage else {
            return None;
        };
        if !self.is_judged_for_idleness() {
            return None;
        }
        (!matches!(unknown, UnknownUsage::NotAsked | UnknownUsage::Young)).then_some(unknown)
    }
}
