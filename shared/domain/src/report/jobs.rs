//! What became of jobs in one run: the function's response and the audit record, in the form that those of all functions have.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::record::{AuditedStep, Head, SCHEMA, STEPS_MAX, key_of};
use super::{Outcome, OutcomeKind};
use crate::id::{Region, ResourceId, RunId, TeamName};
use crate::job::{Job, JobId, Note, NoteKind};
use crate::mode::Mode;
use crate::observed::Gap;

/// One run of the function that launches and ends what teams ask for as jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobsReport {
    /// The function.
    pub function: &'static str,
    /// The run.
    pub run: RunId,
    /// When it looked.
    pub at: Timestamp,
    /// `CURFEW_MODE`.
    pub mode: Mode,
    /// How many jobs it looked at.
    pub seen: usize,
    /// What it did, or found, in order.
    pub steps: Vec<JobStep>,
    /// What it could not see, or could not say.
    pub gaps: Vec<Gap>,
}

/// One thing that was done for a job, or found out about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobStep {
    /// Where its machine is, or else the home region.
    region: Region,
    /// The machine, where there is one; else `<job>`, without its team.
    resource: ResourceId,
    team: TeamName,
    action: JobAction,
    because: Because,
    /// Always null: a job is ended when its team says.
    saves_usd_per_hour: Option<()>,
    outcome: OutcomeKind,
    error: Option<String>,
    /// What it is, for people: in the audit record alone.
    #[serde(skip)]
    what: String,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobAction {
    /// A machine was launched, or is to be.
    Launch,
    /// A machine is ended.
    Terminate,
    /// It may not be launched now.
    Hold,
    /// Said, and no more.
    Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Because {
    rule: &'static str,
    job: JobId,
    attempt: u32,
    step: Option<u64>,
    why: String,
}

impl JobStep {
    /// Of a transition.
    #[must_use]
    pub fn of(job: &Job, note: &Note, home: &Region) -> Self {
        let machine = match &note.kind {
            NoteKind::Launched(instance) | NoteKind::Lost(instance, _) | NoteKind::Ended(instance) => Some(instance),
            NoteKind::Held | NoteKind::Waits | NoteKind::Over => None,
        };
        let action = match note.kind {
            NoteKind::Launched(_) => JobAction::Launch,
            NoteKind::Ended(_) => JobAction::Terminate,
            NoteKind::Held => JobAction::Hold,
            NoteKind::Lost(..) | NoteKind::Waits | NoteKind::Over => JobAction::Notify,
        };
        let placed = job.machine().into_iter().chain(&job.predecessor);
        let placed = machine.and_then(|machine| placed.clone().find(|placed| placed.instance == *machine));
        let because = Because {
            rule: "job",
            job: job.job.clone(),
            attempt: note.attempt,
            step: note.step,
            why: note.why.clone(),
        };
        Self {
            region: placed.map_or_else(|| home.clone(), |placed| placed.region.clone()),
            resource: machine.cloned().unwrap_or_else(|| ResourceId::new(job.job.job.as_str())),
            team: job.job.team.clone(),
            action,
            because,
            saves_usd_per_hour: None,
            outcome: OutcomeKind::Done,
            error: None,
            what: placed.map_or_else(|| "job".to_owned(), |placed| placed.instance_type.to_string()),
        }
    }

    /// Of something about a job that is no transition.
    #[must_use]
    pub fn new(job: &Job, action: JobAction, why: impl Into<String>, home: &Region) -> Self {
        let kind = NoteKind::Over;
        let note = Note { kind, why: why.into(), attempt: job.attempt, step: job.progress.step };
        Self { action, ..Self::of(job, &note, home) }
    }

    /// A launch that would have been, in observe mode.
    #[must_use]
    pub fn observed(self) -> Self {
        Self { action: JobAction::Launch, outcome: OutcomeKind::Observed, ..self }
    }

    /// Adds it, or what became of it, where the same thing stands there already as decided.
    pub fn take_up(steps: &mut Vec<Self>, step: Self) {
        let is_same = |one: &&mut Self| one.action == step.action && one.resource == step.resource;
        match steps.iter_mut().rev().find(is_same) {
            Some(decided) => (decided.outcome, decided.error) = (step.outcome, step.error),
            None => steps.push(step),
        }
    }

    /// The same with what became of it.
    #[must_use]
    pub fn with(self, outcome: Outcome) -> Self {
        Self { outcome: outcome.kind, error: outcome.error, ..self }
    }
}

/// What Lambda's caller gets.
#[derive(Debug, Serialize)]
pub struct JobsResponse<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    steps: &'a [JobStep],
    spared: BTreeMap<String, usize>,
    gaps: &'a [Gap],
}

/// What stays in the bucket.
#[derive(Debug, Serialize)]
pub struct JobsRecord<'a> {
    schema: u32,
    #[serde(flatten)]
    head: Head<'a>,
    steps: Vec<AuditedStep<'a, &'a JobStep>>,
    spared: BTreeMap<String, Vec<ResourceId>>,
    gaps: &'a [Gap],
}

impl JobsReport {
    fn head(&self) -> Head<'_> {
        let mut regions: Vec<&Region> = self.steps.iter().map(|step| &step.region).collect();
        regions.sort_unstable();
        regions.dedup();
        let Self { function, run, at, mode, seen, .. } = self;
        Head { function, run, at: *at, mode: *mode, regions, seen: *seen }
    }

    /// Whether nothing is worth a record: nothing was done, found or missed.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.steps.is_empty() && self.gaps.is_empty()
    }

    /// What Lambda's caller gets.
    #[must_use]
    pub fn response(&self) -> JobsResponse<'_> {
        let steps = &self.steps[..self.steps.len().min(STEPS_MAX)];
        JobsResponse { head: self.head(), steps, spared: BTreeMap::new(), gaps: &self.gaps }
    }

    /// What stays in the bucket.
    #[must_use]
    pub fn record(&self) -> JobsRecord<'_> {
        let steps = self.steps.iter().map(|step| AuditedStep { step, what: &step.what, name: None }).collect();
        JobsRecord { schema: SCHEMA, head: self.head(), steps, spared: BTreeMap::new(), gaps: &self.gaps }
    }

    /// Where its record lies, as that of every function.
    #[must_use]
    pub fn key(&self) -> String {
        key_of(self.at, self.function, &self.run)
    }
}
