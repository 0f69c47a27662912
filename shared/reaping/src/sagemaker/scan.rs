//! Findings about `SageMaker`, without announcements: see [`crate::scan`].

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, explain_unreadable, name_unreadable};
use model::foreign::sagemaker_controller;
use model::notification_log::NotificationLog;
use model::observation::Observation;
use model::rule::Rule;
use model::sagemaker::{Activity, SageMakerKind, SageMakerResource, SageMakerStatus, UnknownActivity};
use plan::report::RecordedEvidence;
use plan::{Evidence, SkipReason, Target};

use super::skip::describe_unknown;
use super::{Activities, SageMakerCase};
use crate::engine::ResourceCase;
use crate::policy::{Policy, Verdict};
use crate::rules;
use crate::scan::{FindingKind, ScanFinding, find_in_each};

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
    find_in_each(seen.iter(), |one| (&one.region, &one.id), |one| case(one).scan_finding())
}

impl SageMakerCase<'_> {
    /// Tags that cannot be read hide nothing here: nothing is done.
    fn scan_finding(self) -> Option<ScanFinding> {
        let skipped = self.immediate_skip().map(|skipped| skipped.reason);
        let is_open = matches!(skipped, None | Some(SkipReason::Unreadable | SkipReason::ForeignOwned));
        if self.resource.status != SageMakerStatus::Running || !is_open {
            return None;
        }
        let curfew_tags = self.curfew_tags();
        let unreadable =
            curfew_tags.as_ref().err().map(|unreadable| (explain_unreadable(unreadable), name_unreadable(unreadable)));
        let mut findings = self.found_by_rules(&curfew_tags.unwrap_or_default());
        findings.extend(self.uninstrumented());
        if findings.is_empty() {
            return None;
        }
        let kinds = findings.iter().map(|(kind, ..)| *kind).collect();
        let texts = findings.into_iter().map(|(_, evidence, in_short)| (evidence, in_short)).chain(unreadable);
        let (evidence, in_short): (Vec<String>, Vec<String>) = texts.unzip();
        let Target { region, resource, team, owner, name, what } = self.target();
        Some(ScanFinding {
            region,
            resource,
            kinds,
            team,
            owner,
            name,
            what,
            price: self.policy.prices.sagemaker_cost(self.resource),
            accelerators: 0,
            size_gib: 0,
            evidence: evidence.join("; "),
            in_short: in_short.join("; "),
            created_at: None,
            controller: sagemaker_controller(&self.resource.tags, &self.policy.config.managed),
        })
    }

    /// Findings of the rules, in the order of [`FindingKind`].
    fn found_by_rules(self, curfew_tags: &CurfewTags) -> Vec<(FindingKind, String, String)> {
        let subject = self.subject(curfew_tags);
        let judged = [(FindingKind::Idle, Rule::Idle), (FindingKind::Untagged, Rule::Untagged)];
        let violated = judged.into_iter().filter_map(|(kind, rule)| match rules::judge(rule, subject) {
            Verdict::Violated(violation) => Some((kind, violation.evidence)),
            Verdict::Compliant | Verdict::Unknown => None,
        });
        violated.map(|(kind, evidence)| (kind, evidence.explain(), in_short(&evidence))).collect()
    }

    fn uninstrumented(self) -> Option<(FindingKind, String, String)> {
        let unknown = match self.activity {
            _ if matches!(self.resource.kind, SageMakerKind::NotebookInstance) => UnknownActivity::Unmeasured,
            Activity::Active(_)
            | Activity::Inactive(_)
            | Activity::Unknown(UnknownActivity::NotAsked | UnknownActivity::Young) => return None,
            Activity::Unknown(unknown) => *unknown,
        };
        let text = format!("its usage is unknown: {}", describe_unknown(unknown));
        Some((FindingKind::Uninstrumented, text, "activity unknown".to_owned()))
    }
}

fn in_short(evidence: &Evidence) -> String {
    rules::summarize(&RecordedEvidence::from_evidence(evidence), "notify")
}
