//! The two documents of a report: the function's response and the audit record.

use std::collections::BTreeMap;

use billing::price;
use jiff::Timestamp;
use model::id::{Region, ResourceId, RunId, TeamName};
use model::mode::Mode;
use model::money::Rate;
use model::observation::Gap;
use model::sagemaker::EndpointOrigin;
use serde::Serialize;

use super::recorded::SkippedCost;
use super::{OutcomeKind, Report, RunUsage, StepOutcome};
use crate::{Action, Evidence, NotifyOnlyReason, SkipReason, Step, count_skipped};

/// The `schema` of the documents.
pub const SCHEMA: u32 = 1;

/// The most steps of a response; Lambda takes 6 MB (Lambda developer guide, "Lambda quotas"). The audit record has all.
pub const STEPS_MAX: usize = 1000;

/// A function's response.
#[derive(Debug, Serialize)]
pub struct Response<'a> {
    #[serde(flatten)]
    head: RunHeader<'a>,
    steps: Vec<StepRecord<'a>>,
    skipped: BTreeMap<SkipReason, usize>,
    gaps: &'a [Gap],
}

/// The audit record: every step and every skipped resource by its reason.
#[derive(Debug, Serialize)]
pub struct AuditRecord<'a> {
    schema: u32,
    #[serde(flatten)]
    head: RunHeader<'a>,
    steps: Vec<AuditedStep<'a, StepRecord<'a>>>,
    skipped: BTreeMap<SkipReason, Vec<&'a ResourceId>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    skipped_costs: BTreeMap<&'a ResourceId, SkippedCost>,
    gaps: &'a [Gap],
    usage: RunUsage,
}

/// The run, and what it observed.
#[derive(Debug, Serialize)]
pub(super) struct RunHeader<'a> {
    pub(super) function: &'static str,
    pub(super) run: &'a RunId,
    pub(super) at: Timestamp,
    pub(super) mode: Mode,
    pub(super) regions: Vec<&'a Region>,
    pub(super) seen: usize,
}

impl<'a> RunHeader<'a> {
    fn from_report(report: &'a Report) -> Self {
        let Report { function, run, at, mode, regions, seen, .. } = report;
        Self { function, run, at: *at, mode: *mode, regions: regions.iter().collect(), seen: *seen }
    }
}

#[derive(Debug, Serialize)]
struct StepRecord<'a> {
    region: &'a Region,
    resource: &'a ResourceId,
    team: Option<&'a str>,
    action: &'a Action,
    evidence: EvidenceRecord<'a>,
    saves_usd_per_hour: Option<Rate>,
    outcome: OutcomeKind,
    error: Option<&'a str>,
}

/// A step with the type and name of its resource.
#[derive(Debug, Serialize)]
pub(super) struct AuditedStep<'a, S> {
    #[serde(flatten)]
    pub(super) step: S,
    pub(super) what: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    /// Above `[limits]`: it awaits approval.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) held: bool,
    /// Origin from which the deleted endpoint can be made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restore: Option<EndpointOrigin>,
    /// Number of copies of an inference component that was scaled to zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copies: Option<u32>,
}

#[derive(Debug, Serialize)]
struct EvidenceRecord<'a> {
    #[serde(flatten)]
    evidence: &'a Evidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify_only: Option<NotifyOnlyReason>,
}

impl<'a> Response<'a> {
    #[must_use]
    pub fn from_report(report: &'a Report) -> Self {
        Self {
            head: RunHeader::from_report(report),
            steps: report.steps.iter().take(STEPS_MAX).map(|(step, outcome)| record(step, outcome)).collect(),
            skipped: count_skipped(&report.skipped),
            gaps: &report.gaps,
        }
    }
}

impl<'a> AuditRecord<'a> {
    #[must_use]
    pub fn from_report(report: &'a Report) -> Self {
        let mut skipped: BTreeMap<SkipReason, Vec<&ResourceId>> = BTreeMap::new();
        for one in &report.skipped {
            skipped.entry(one.reason).or_default().push(&one.target.resource);
        }
        let costs =
            report.skipped.iter().filter_map(|one| Some((&one.target.resource, SkippedCost::from_skipped(one)?)));
        let steps = report.steps.iter().map(|(step, outcome)| AuditedStep {
            step: record(step, outcome),
            what: &step.target.what,
            name: step.target.name.as_deref(),
            held: step.held.is_some(),
            restore: step.action.endpoint_origin(),
            copies: step.action.component_copies(),
        });
        Self {
            schema: SCHEMA,
            head: RunHeader::from_report(report),
            steps: steps.collect(),
            skipped,
            skipped_costs: costs.collect(),
            gaps: &report.gaps,
            usage: report.usage,
        }
    }

    /// The key of a report's record: `plans/<yyyy-mm-dd>/<function>/<run>.json`.
    #[must_use]
    pub fn key(report: &Report) -> String {
        key_of(report.at, report.function, &report.run)
    }
}

/// The folder of a day's records.
#[must_use]
pub fn folder_of(day: Timestamp) -> String {
    format!("plans/{}/", day.strftime("%Y-%m-%d"))
}

/// The key of the record of a run that began then.
#[must_use]
pub fn key_of(at: Timestamp, function: &str, run: &RunId) -> String {
    format!("{}{function}/{run}.json", folder_of(at))
}

fn record<'a>(step: &'a Step, outcome: &'a StepOutcome) -> StepRecord<'a> {
    StepRecord {
        region: &step.target.region,
        resource: &step.target.resource,
        team: step.target.team.as_ref().map(TeamName::as_str),
        action: &step.action,
        evidence: EvidenceRecord { evidence: &step.evidence, deadline: step.deadline, notify_only: step.notify_only },
        saves_usd_per_hour: price::rate(step.saves),
        outcome: outcome.kind,
        error: outcome.error.as_deref(),
    }
}
