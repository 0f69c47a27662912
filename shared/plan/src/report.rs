//! The plan with the outcome of each step: the source of the response, the audit record and the messages.

mod approval;
mod jobs;
mod record;
mod recorded;

use std::ops::AddAssign;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use model::id::{Region, RunId};
use model::mode::Mode;
use model::observation::Gap;
use model::refusal::RefusalReason;
use serde::{Deserialize, Serialize};

use crate::{Plan, Skipped, Step};
pub use approval::{ApprovalStatus, RunTrace};
pub use jobs::{JobAction, JobStep, JobsRecord, JobsReport, JobsResponse};
pub use record::{AuditRecord, Response, SCHEMA, STEPS_MAX, folder_of, key_of};
pub use recorded::{APPLIED, RecordedEvidence, RecordedGap, RecordedStep, RunRecord, RunTally, SkippedCost};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutcome {
    pub kind: OutcomeKind,
    /// Failure of the step, and what to do about it.
    pub error: Option<String>,
    /// The reason for which AWS refuses it until a person changes something.
    pub refusal: Option<RefusalReason>,
    /// Part of the step that failed.
    pub failed_part: FailedPart,
}

/// Part of a step by which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedPart {
    /// The step's own call.
    #[default]
    Call,
    /// The read before it, which shows whether the reason still stands.
    Check,
    /// The label that is written before an action.
    Label,
    /// AWS did not answer before the end of the run.
    Answer,
    /// A bug in Curfew.
    Bug,
}

/// The outcome of a step, without its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeKind {
    Done,
    /// The step would have been carried out.
    Observed,
    /// The resource was already stopped or deleted.
    AlreadyGone,
    /// The resource has changed since it was observed; the next run looks again.
    Changed,
    /// The run ended before it, or a person is asked first.
    NotReached,
    /// AWS refused, or did not answer.
    Failed,
}

impl OutcomeKind {
    /// The name in responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Observed => "observed",
            Self::AlreadyGone => "already-gone",
            Self::Changed => "changed",
            Self::NotReached => "not-reached",
            Self::Failed => "failed",
        }
    }
}

impl StepOutcome {
    #[must_use]
    pub const fn from_kind(kind: OutcomeKind) -> Self {
        Self { kind, error: None, refusal: None, failed_part: FailedPart::Call }
    }

    #[must_use]
    pub fn with(kind: OutcomeKind, error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::from_kind(kind) }
    }

    /// A failure of this part of the step.
    #[must_use]
    pub fn failed(failed_part: FailedPart, error: impl Into<String>) -> Self {
        Self { failed_part, ..Self::with(OutcomeKind::Failed, error) }
    }
}

/// One run, from beginning to end.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub function: &'static str,
    pub run: RunId,
    /// Time of the observation.
    pub at: Timestamp,
    /// `CURFEW_MODE`.
    pub mode: Mode,
    pub regions: Vec<Region>,
    pub seen: usize,
    /// Steps of the run, in the plan's order.
    pub steps: Vec<(Step, StepOutcome)>,
    pub skipped: Vec<Skipped>,
    /// Failed reads, and messages that could not be sent.
    pub gaps: Vec<Gap>,
    /// AWS usage of the run itself.
    pub usage: RunUsage,
    /// `true` if the run is about resources that a person chose: the log of notifications keeps everything about the others.
    pub has_only_chosen_resources: bool,
    /// Zone of the account, in which messages also show the time.
    pub time_zone: TimeZone,
}

impl Report {
    /// The report of a plan before any step is carried out.
    #[must_use]
    pub fn from_plan(
        plan: Plan,
        function: &'static str,
        run: RunId,
        at: Timestamp,
        mode: Mode,
        regions: Vec<Region>,
    ) -> Self {
        let not_reached = |step| (step, StepOutcome::from_kind(OutcomeKind::NotReached));
        Self {
            function,
            run,
            at,
            mode,
            regions,
            seen: plan.seen,
            steps: plan.steps.into_iter().map(not_reached).collect(),
            skipped: plan.skipped,
            gaps: plan.gaps,
            usage: RunUsage::default(),
            has_only_chosen_resources: false,
            time_zone: plan.time_zone,
        }
    }

    /// Time of the observation, in the zone of the account.
    #[must_use]
    pub fn zoned_at(&self) -> Zoned {
        self.at.to_zoned(self.time_zone.clone())
    }

    /// Explains why no region could be observed. `None` if at least one was.
    #[must_use]
    pub fn saw_nothing(&self) -> Option<String> {
        let is_hidden = |region: &Region| self.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_region());
        self.regions.iter().all(is_hidden).then(|| {
            let gaps: Vec<String> = self.gaps.iter().map(|gap| format!("{}: {}", gap.region, gap.in_run())).collect();
            format!("no region could be read: {}", gaps.join("; "))
        })
    }
}

/// AWS usage of runs since the previous record of the same process. A run that leaves no record, and usage after a record, count in the
/// next record. Usage of the last run of a process after its record counts in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunUsage {
    pub runs: u64,
    /// Time from the beginning of each run to its record, or to its end.
    pub milliseconds: u64,
    /// Metrics that `GetMetricData` was asked for.
    pub metrics: u64,
    /// Pages of `ListMetrics`.
    pub metric_lists: u64,
    /// Objects that were read, or asked for.
    pub s3_reads: u64,
    /// Objects that were written, and pages of lists.
    pub s3_writes: u64,
    /// Messages that SNS was given.
    pub messages: u64,
    pub cost_explorer_requests: u64,
    /// Metrics of the account that were published. Without that they are in no record.
    #[serde(skip_serializing_if = "is_zero")]
    pub published_metrics: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl AddAssign for RunUsage {
    fn add_assign(&mut self, other: Self) {
        // Taken apart by name: a figure that is added does not compile until it is summed.
        let Self {
            runs,
            milliseconds,
            metrics,
            metric_lists,
            s3_reads,
            s3_writes,
            messages,
            cost_explorer_requests,
            published_metrics,
        } = other;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.runs, runs);
        add(&mut self.milliseconds, milliseconds);
        add(&mut self.metrics, metrics);
        add(&mut self.metric_lists, metric_lists);
        add(&mut self.s3_reads, s3_reads);
        add(&mut self.s3_writes, s3_writes);
        add(&mut self.messages, messages);
        add(&mut self.cost_explorer_requests, cost_explorer_requests);
        add(&mut self.published_metrics, published_metrics);
    }
}
