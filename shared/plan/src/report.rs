//! What the plan said and what became of each step: the source of the response, the audit record and the messages.

mod approval;
mod jobs;
mod record;
mod recorded;

use jiff::Timestamp;
use model::id::{Region, RunId};
use model::mode::Mode;
use model::observation::Gap;
use serde::{Deserialize, Serialize};

use crate::{Plan, Skipped, Step};

pub use approval::{ApprovalStatus, RunTrace};
pub use jobs::{JobAction, JobStep, JobsRecord, JobsReport, JobsResponse};
pub use record::{AuditRecord, Response, SCHEMA, STEPS_MAX, folder_of};
pub use recorded::{APPLIED, RecordedEvidence, RecordedGap, RecordedStep, RunRecord, RunTally};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOutcome {
    pub kind: OutcomeKind,
    /// What went wrong, and what to do about it.
    pub error: Option<String>,
}

/// What became of one step, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeKind {
    Done,
    /// It would have been done.
    Observed,
    /// The resource had ended by itself.
    AlreadyGone,
    /// The resource had changed since the look; the next run looks again.
    Changed,
    /// The run ended before it, or a person is asked first.
    NotReached,
    /// AWS refused, or did not answer.
    Failed,
}

impl StepOutcome {
    #[must_use]
    pub const fn from_kind(kind: OutcomeKind) -> Self {
        Self { kind, error: None }
    }

    #[must_use]
    pub fn with(kind: OutcomeKind, error: impl Into<String>) -> Self {
        Self { kind, error: Some(error.into()) }
    }
}

/// One run, from beginning to end.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub function: &'static str,
    pub run: RunId,
    /// When it looked.
    pub at: Timestamp,
    /// `CURFEW_MODE`.
    pub mode: Mode,
    /// Where it looked.
    pub regions: Vec<Region>,
    pub seen: usize,
    /// What it did, in the plan's order.
    pub steps: Vec<(Step, StepOutcome)>,
    /// What it left alone.
    pub skipped: Vec<Skipped>,
    /// What it could not see, or could not say.
    pub gaps: Vec<Gap>,
    /// Whether it is about resources that a person has chosen: of all others everything stays remembered.
    pub of_chosen_only: bool,
}

impl Report {
    /// A report of a plan of which nothing has been done yet.
    #[must_use]
    pub fn from_plan(
        plan: Plan,
        function: &'static str,
        run: RunId,
        at: Timestamp,
        mode: Mode,
        regions: Vec<Region>,
    ) -> Self {
        let untouched = |step| (step, StepOutcome::from_kind(OutcomeKind::NotReached));
        Self {
            function,
            run,
            at,
            mode,
            regions,
            seen: plan.seen,
            steps: plan.steps.into_iter().map(untouched).collect(),
            skipped: plan.skipped,
            gaps: plan.gaps,
            of_chosen_only: false,
        }
    }

    /// Why every region stayed unseen, where it did, so that the run achieved nothing.
    #[must_use]
    pub fn saw_nothing(&self) -> Option<String> {
        let unseen = |region: &Region| self.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_region());
        self.regions.iter().all(unseen).then(|| {
            let gaps: Vec<String> = self.gaps.iter().map(|gap| format!("{}: {}", gap.region, gap.in_run())).collect();
            format!("no region could be read: {}", gaps.join("; "))
        })
    }
}
