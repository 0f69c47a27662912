//! Findings about `SageMaker`, without announcements: see [`crate::scan`].

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::foreign::sagemaker_controller;
use model::notification_log::NotificationLog;
use model::observation::Observation;
use model::rule::Rule;
use model::sagemaker::{Activity, SageMakerKind, SageMakerResource, SageMakerStatus, UnknownActivity};
use plan::SkipReason;
use plan::report::RecordedEvidence;

use super::skip::describe_unknown;
use super::waste::Waste;
use super::{Activities, SageMakerCase};
use crate::engine::{ResourceCase, RunningCase};
use crate::policy::{Policy, Verdict};
use crate::rules;
use crate::scan::{FindingKind, FoundKind, ScanFinding, find_in_each};

/// Findings about these resources, at most one per resource. Endpoints that may be in production have none.
#[must_use]
pub fn scan(
    seen: &[SageMakerResource],
    activities: &Activities,
    policy: &Policy,
    now: Timestamp,
) -> Observation<ScanFinding> {
    let log = &NotificationLog::default();
    let case = |resource| SageMakerCase::new(resource, activities, log, policy, now);
    find_in_each(seen.iter().map(case), SageMakerCase::scan_finding)
}

impl SageMakerCase<'_> {
    fn scan_finding(self) -> Option<ScanFinding> {
        let skipped = self.immediate_skip().map(|skipped| skipped.reason);
        let is_open = matches!(skipped, None | Some(SkipReason::Unreadable | SkipReason::ForeignOwned));
        if self.resource.status != SageMakerStatus::Running || !is_open {
            return None;
        }
        let curfew_tags = self.curfew_tags();
        let mut findings = self.found_by_rules(curfew_tags.as_ref().unwrap_or(&CurfewTags::default()));
        findings.extend(self.uninstrumented());
        findings.extend(self.found_waste());
        let finding = ScanFinding::from_kinds(self.target(), findings, None, &curfew_tags)?;
        Some(ScanFinding {
            price: self.policy.prices.sagemaker_cost(self.resource),
            controller: sagemaker_controller(&self.resource.tags, &self.policy.config.managed),
            ..finding
        })
    }

    fn found_by_rules(self, curfew_tags: &CurfewTags) -> Vec<FoundKind> {
        let subject = self.subject(curfew_tags);
        let judged = [(FindingKind::Idle, Rule::Idle), (FindingKind::Untagged, Rule::Untagged)];
        let violated = judged.into_iter().filter_map(|(kind, rule)| match rules::judge(rule, subject) {
            Verdict::Violated(violation) => Some((kind, violation.evidence)),
            Verdict::Compliant | Verdict::Unknown => None,
        });
        let found = violated.map(|(kind, evidence)| {
            let in_short = rules::summarize(&RecordedEvidence::from_evidence(&evidence), "notify");
            FoundKind { kind, evidence: evidence.explain(), in_short }
        });
        found.collect()
    }

    fn found_waste(self) -> Option<FoundKind> {
        let Waste { kind, evidence, in_short } = self.waste()?;
        let kind = match kind {
            plan::FindingKind::LowUse => FindingKind::LowUse,
            _ => FindingKind::OnDemandTraining,
        };
        Some(FoundKind { kind, evidence, in_short })
    }

    fn uninstrumented(self) -> Option<FoundKind> {
        let unknown = match self.activity {
            _ if matches!(self.resource.kind, SageMakerKind::NotebookInstance) => UnknownActivity::Unmeasured,
            Activity::Active(_)
            | Activity::LowUse(_)
            | Activity::Inactive(_)
            | Activity::Unknown(UnknownActivity::NotAsked | UnknownActivity::Young) => return None,
            Activity::Unknown(unknown) => *unknown,
        };
        let evidence = format!("its usage is unknown: {}", describe_unknown(unknown));
        Some(FoundKind { kind: FindingKind::Uninstrumented, evidence, in_short: "activity unknown".to_owned() })
    }
}
