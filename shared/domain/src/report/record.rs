//! How a report is written down: as a function's response, and as the audit record.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{Outcome, OutcomeKind, Report};
use crate::id::{Region, ResourceId, RunId, TeamName};
use crate::mode::Mode;
use crate::money::Rate;
use crate::observed::Gap;
use crate::plan::{Action, Because, OnlyTold, SparedBecause, Step, spared_counts};
use crate::price;

/// Of every document that is written now.
pub const SCHEMA: u32 = 1;

/// The most steps of a response; Lambda takes 6 MB (Lambda developer guide, "Lambda quotas"). The audit record has all.
pub const STEPS_MAX: usize = 1000;

/// A function's response.
#[derive(Debug, Serialize)]
pub struct Response<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    steps: Vec<StepRecord<'a>>,
    spared: BTreeMap<SparedBecause, usize>,
    gaps: &'a [Gap],
}

/// The audit record: every step and every spared resource by its reason.
#[derive(Debug, Serialize)]
pub struct AuditRecord<'a> {
    schema: u32,
    #[serde(flatten)]
    head: Head<'a>,
    steps: Vec<AuditedStep<'a, StepRecord<'a>>>,
    spared: BTreeMap<SparedBecause, Vec<&'a ResourceId>>,
    gaps: &'a [Gap],
}

/// Which run it was, and what it looked at.
#[derive(Debug, Serialize)]
pub(super) struct Head<'a> {
    pub(super) function: &'static str,
    pub(super) run: &'a RunId,
    pub(super) at: Timestamp,
    pub(super) mode: Mode,
    pub(super) regions: Vec<&'a Region>,
    pub(super) seen: usize,
}

impl<'a> Head<'a> {
    fn of(report: &'a Report) -> Self {
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
    because: BecauseRecord<'a>,
    saves_usd_per_hour: Option<Rate>,
    outcome: OutcomeKind,
    error: Option<&'a str>,
}

/// A step, and what people know its resource by.
#[derive(Debug, Serialize)]
pub(super) struct AuditedStep<'a, S> {
    #[serde(flatten)]
    pub(super) step: S,
    pub(super) what: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct BecauseRecord<'a> {
    #[serde(flatten)]
    because: &'a Because,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_told: Option<OnlyTold>,
}

impl<'a> Response<'a> {
    /// What Lambda's caller gets.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        Self {
            head: Head::of(report),
            steps: report.steps.iter().take(STEPS_MAX).map(|(step, outcome)| record(step, outcome)).collect(),
            spared: spared_counts(&report.spared),
            gaps: &report.gaps,
        }
    }
}

impl<'a> AuditRecord<'a> {
    /// What stays in the bucket.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        let mut spared: BTreeMap<SparedBecause, Vec<&ResourceId>> = BTreeMap::new();
        for one in &report.spared {
            spared.entry(one.because).or_default().push(&one.target.resource);
        }
        let steps = report.steps.iter().map(|(step, outcome)| AuditedStep {
            step: record(step, outcome),
            what: &step.target.what,
            name: step.target.name.as_deref(),
        });
        Self { schema: SCHEMA, head: Head::of(report), steps: steps.collect(), spared, gaps: &report.gaps }
    }

    /// Where a report's record lies: `plans/<yyyy-mm-dd>/<function>/<run>.json`.
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

pub(super) fn key_of(at: Timestamp, function: &str, run: &RunId) -> String {
    format!("{}{function}/{run}.json", folder_of(at))
}

fn record<'a>(step: &'a Step, outcome: &'a Outcome) -> StepRecord<'a> {
    StepRecord {
        region: &step.target.region,
        resource: &step.target.resource,
        team: step.target.team.as_ref().map(TeamName::as_str),
        action: &step.action,
        because: BecauseRecord { because: &step.because, deadline: step.deadline, only_told: step.only_told },
        saves_usd_per_hour: price::rate(step.saves),
        outcome: outcome.kind,
        error: outcome.error.as_deref(),
    }
}

#[cfg(test)]
mod tests;
