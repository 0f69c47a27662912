//! Findings about running instances, without announcements: see [`crate::scan`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::fault::Bug;
use model::foreign::controller;
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};
use model::notification_log::NotificationLog;
use model::observation::Observation;
use model::rule::Rule;
use model::usage::{IdleEvidence, UnknownUsage, Usage};
use plan::report::RecordedEvidence;
use plan::{Facts, NotifyOnlyReason, SkipReason};

use super::feasible::describe_prepaid;
use super::gangs::{judged_usages, standings_of_gangs, within_gangs};
use super::unknown_usage::{describe_unknown, summarize_unknown};
use super::{InstanceCase, NOT_ASKED};
use crate::engine::{ResourceCase, RunningCase};
use crate::policy::{DueAction, Policy, Verdict, Violation};
use crate::rules::{self, untagged};
use crate::scan::{FindingKind, FoundKind, ScanFinding, find_in_each};

/// Findings about these instances, at most one per instance.
#[must_use]
pub fn scan(
    seen: &[Instance],
    usages: &BTreeMap<ResourceId, Usage>,
    policy: &Policy,
    now: Timestamp,
) -> Observation<ScanFinding> {
    let (log, usages) = (&NotificationLog::default(), judged_usages(usages, seen, policy, now));
    let case = |instance| InstanceCase { instance, usage: usage(&usages, instance), log, standings: None, policy, now };
    let alone: Vec<InstanceCase<'_>> = seen.iter().map(case).collect();
    let standings = standings_of_gangs(&alone, &policy.gangs);
    find_in_each(within_gangs(&alone, &standings), InstanceCase::scan_finding)
}

/// Number of these instances that are judged for idleness, but whose usage no query answered. They have no finding about idleness.
#[must_use]
pub fn unjudged(seen: &[Instance], usages: &BTreeMap<ResourceId, Usage>, policy: &Policy, now: Timestamp) -> usize {
    let log = &NotificationLog::default();
    let case = |instance| InstanceCase { instance, usage: usage(usages, instance), log, standings: None, policy, now };
    seen.iter().map(case).filter(|case| Bug::catch(|| case.is_unanswered()).unwrap_or(true)).count()
}

fn usage<'a>(usages: &'a BTreeMap<ResourceId, Usage>, instance: &Instance) -> &'a Usage {
    usages.get(&instance.id).unwrap_or(&NOT_ASKED)
}

impl InstanceCase<'_> {
    fn is_unanswered(self) -> bool {
        let skipped = self.immediate_skip().map(|skipped| skipped.reason);
        self.instance.state == InstanceState::Running
            && matches!(skipped, None | Some(SkipReason::ForeignOwned))
            && matches!(self.usage, Usage::Unknown(UnknownUsage::NotAsked))
            && self.is_judged_for_idleness()
    }

    /// The finding about a running instance that is neither protected nor kept.
    fn scan_finding(self) -> Option<ScanFinding> {
        if self.instance.state != InstanceState::Running || self.is_exempt() {
            return None;
        }
        let mut findings = self.found_by_rules();
        findings.extend(self.cannot_be_judged().map(|unknown| FoundKind {
            kind: FindingKind::Uninstrumented,
            evidence: format!(
                "its usage is unknown: {}",
                describe_unknown(unknown, self.instance, &self.policy.config.metrics)
            ),
            in_short: summarize_unknown(unknown),
        }));
        let prepaid_note = self
            .instance
            .prepaid
            .map(|_| (describe_prepaid(self.instance), "a stop saves nothing (reserved)".to_owned()));
        let finding = ScanFinding::from_kinds(self.target(), findings, prepaid_note, &self.curfew_tags())?;
        let is_judged = finding.kinds.iter().any(|kind| matches!(kind, FindingKind::Idle | FindingKind::Reserved));
        Some(ScanFinding {
            notify_only: if is_judged { self.only_notifies_idleness() } else { None },
            price: self.policy.prices.saved_by_ending(self.instance),
            accelerators: self.instance.machine.accelerators,
            controller: controller(self.instance, &self.policy.config.managed),
            ..finding
        })
    }

    fn only_notifies_idleness(self) -> Option<NotifyOnlyReason> {
        let curfew_tags = CurfewTags::read(self.instance).unwrap_or_default();
        let verdict = rules::judge(Rule::Idle, self.subject(&curfew_tags));
        match self.within_gang(&curfew_tags, Rule::Idle, verdict) {
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(why), .. }) => Some(why),
            Verdict::Violated(_) | Verdict::Compliant | Verdict::Unknown => None,
        }
    }

    /// Findings of idleness and of missing tags. Missing tags are found even if the usage is unknown, because a scan announces nothing.
    fn found_by_rules(self) -> Vec<FoundKind> {
        // Of a job's machine, and of what may be one, only its expiry counts, which its launch wrote down.
        if self.ownership().knows_only_its_expiry() {
            return Vec::new();
        }
        let curfew_tags = CurfewTags::read(self.instance).unwrap_or_default();
        let subject = self.subject(&curfew_tags);
        let mut findings = Vec::new();
        if let Verdict::Violated(violation) = rules::judge(Rule::Idle, subject)
            && let Facts::Idle(quiet) = &violation.evidence.facts
        {
            let kind = if quiet.reserved { FindingKind::Reserved } else { FindingKind::Idle };
            findings.push(FoundKind { kind, evidence: violation.evidence.explain(), in_short: in_short(quiet) });
        }
        findings.extend(untagged::evidence(subject).map(|evidence| {
            let in_short = rules::summarize(&RecordedEvidence::from_evidence(&evidence), "notify");
            FoundKind { kind: FindingKind::Untagged, evidence: evidence.sentence, in_short }
        }));
        findings
    }
}

/// `8 GPUs at 0 %`, `power of 8 GPUs at 3 %`.
fn in_short(idle: &IdleEvidence) -> String {
    let IdleEvidence { devices, gpu_max_percent, gpu_power_max_percent, gpu_memory_held_mib, reserved, .. } = idle;
    let plural = if *devices == 1 { "" } else { "s" };
    let held = gpu_memory_held_mib.filter(|_| *reserved).map(|mib| format!(", {mib:.0} MiB held")).unwrap_or_default();
    let (of_what, percent) = match gpu_max_percent {
        Some(percent) => ("", *percent),
        None => ("power of ", gpu_power_max_percent.unwrap_or_default()),
    };
    format!("{of_what}{devices} GPU{plural} at {percent:.0} %{held}")
}
