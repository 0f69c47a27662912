//! The response and the audit record of run-jobs, in the form of all functions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::{Job, JobId, JobTransition, TransitionKind};
use model::id::{Region, ResourceId, RunId, TeamName};
use model::mode::Mode;
use model::observation::Gap;
use serde::Serialize;

use super::record::{AuditedStep, RunHeader, SCHEMA, STEPS_MAX, key_of};
use super::{OutcomeKind, RunUsage, StepOutcome};

/// One run of run-jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobsReport {
    pub function: &'static str,
    pub run: RunId,
    /// Time of the observation.
    pub at: Timestamp,
    /// `CURFEW_MODE`.
    pub mode: Mode,
    pub seen: usize,
    pub steps: Vec<JobStep>,
    /// Failed reads, and messages that could not be sent.
    pub gaps: Vec<Gap>,
    /// AWS usage of the run itself, and of the quiet runs before it.
    pub usage: RunUsage,
}

/// One action for a job, or one finding about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobStep {
    /// The region of its machine; without one, the home region.
    region: Region,
    /// The machine; without one, `<job>` without its team.
    resource: ResourceId,
    team: TeamName,
    action: JobAction,
    evidence: JobEvidence,
    /// Always null: a job saves nothing.
    saves_usd_per_hour: Option<()>,
    outcome: OutcomeKind,
    error: Option<String>,
    /// Description for people, only in the audit record.
    #[serde(skip)]
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobAction {
    /// A machine was launched, or is to be.
    Launch,
    /// A machine is ended.
    Terminate,
    /// The job may not be launched now.
    Hold,
    /// The team is only notified.
    Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct JobEvidence {
    rule: &'static str,
    job: JobId,
    attempt: u32,
    step: Option<u64>,
    why: String,
}

impl JobStep {
    /// The step of a transition.
    #[must_use]
    pub fn from_transition(job: &Job, transition: &JobTransition, home: &Region) -> Self {
        let (action, machine) = match &transition.kind {
            TransitionKind::Launched(instance) => (JobAction::Launch, Some(instance)),
            TransitionKind::Ended(instance) => (JobAction::Terminate, Some(instance)),
            TransitionKind::Lost(instance, _) => (JobAction::Notify, Some(instance)),
            TransitionKind::Held => (JobAction::Hold, None),
            TransitionKind::Waits | TransitionKind::Finished => (JobAction::Notify, None),
        };
        let mut step = Self::new(job, action, transition.why.clone(), home);
        (step.evidence.attempt, step.evidence.step) = (transition.attempt, transition.step);
        if let Some(machine) = machine {
            step.resource = machine.clone();
            let mut known = job.machine().into_iter().chain(&job.previous_attempt);
            if let Some(placed) = known.find(|placed| placed.instance == *machine) {
                (step.region, step.what) = (placed.region.clone(), placed.instance_type.to_string());
            }
        }
        step
    }

    /// About the job as it is.
    #[must_use]
    pub fn new(job: &Job, action: JobAction, why: impl Into<String>, home: &Region) -> Self {
        let evidence = JobEvidence {
            rule: "job",
            job: job.job.clone(),
            attempt: job.attempt,
            step: job.progress.step,
            why: why.into(),
        };
        Self {
            region: home.clone(),
            resource: ResourceId::new(job.job.job.as_str()),
            team: job.job.team.clone(),
            action,
            evidence,
            saves_usd_per_hour: None,
            outcome: OutcomeKind::Done,
            error: None,
            what: "job".to_owned(),
        }
    }

    /// A launch that would have been, in observe mode.
    #[must_use]
    pub fn observed(self) -> Self {
        Self { action: JobAction::Launch, outcome: OutcomeKind::Observed, ..self }
    }

    /// Adds a step, or its outcome to the same step that was decided before.
    pub fn take_up(steps: &mut Vec<Self>, step: Self) {
        let is_same = |one: &&mut Self| one.action == step.action && one.resource == step.resource;
        match steps.iter_mut().rev().find(is_same) {
            Some(decided) => (decided.outcome, decided.error) = (step.outcome, step.error),
            None => steps.push(step),
        }
    }

    #[must_use]
    pub fn with(self, outcome: StepOutcome) -> Self {
        Self { outcome: outcome.kind, error: outcome.error, ..self }
    }
}

#[derive(Debug, Serialize)]
pub struct JobsResponse<'a> {
    #[serde(flatten)]
    head: RunHeader<'a>,
    steps: &'a [JobStep],
    skipped: BTreeMap<String, usize>,
    gaps: &'a [Gap],
}

#[derive(Debug, Serialize)]
pub struct JobsRecord<'a> {
    schema: u32,
    #[serde(flatten)]
    head: RunHeader<'a>,
    steps: Vec<AuditedStep<'a, &'a JobStep>>,
    skipped: BTreeMap<String, Vec<ResourceId>>,
    gaps: &'a [Gap],
    usage: RunUsage,
}

impl JobsReport {
    fn head(&self) -> RunHeader<'_> {
        let mut regions: Vec<&Region> = self.steps.iter().map(|step| &step.region).collect();
        regions.sort_unstable();
        regions.dedup();
        let Self { function, run, at, mode, seen, .. } = self;
        RunHeader { function, run, at: *at, mode: *mode, regions, seen: *seen }
    }

    /// Returns `true` if the run needs no record: it has neither steps nor gaps.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.steps.is_empty() && self.gaps.is_empty()
    }

    #[must_use]
    pub fn response(&self) -> JobsResponse<'_> {
        let steps = &self.steps[..self.steps.len().min(STEPS_MAX)];
        JobsResponse { head: self.head(), steps, skipped: BTreeMap::new(), gaps: &self.gaps }
    }

    #[must_use]
    pub fn record(&self) -> JobsRecord<'_> {
        let steps = self
            .steps
            .iter()
            .map(|step| AuditedStep { step, what: &step.what, name: None, held: false, restore: None, copies: None })
            .collect();
        JobsRecord {
            schema: SCHEMA,
            head: self.head(),
            steps,
            skipped: BTreeMap::new(),
            gaps: &self.gaps,
            usage: self.usage,
        }
    }

    /// The key of its record.
    #[must_use]
    pub fn key(&self) -> String {
        key_of(self.at, self.function, &self.run)
    }
}
