//! Actions of earlier runs that await approval.

use jiff::Timestamp;
use model::id::RunId;
use model::mode::Mode;
use plan::report::{RecordedStep, RunRecord};

use super::{Explanation, PlanDecision};

/// A due action that awaits approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionAwaitingApproval {
    /// The run whose list it is on.
    pub run: RunId,
    /// When that run observed.
    pub at: Timestamp,
    /// Why it was held.
    pub error: String,
}

impl Explanation {
    /// By the function's newest record: whether the present action was due then too, and was above `[limits]`.
    #[must_use]
    pub fn held_by(&self, newest: &RunRecord) -> Option<ActionAwaitingApproval> {
        let PlanDecision::Step(step) = &self.decision else { return None };
        let is_it = |recorded: &&RecordedStep| {
            recorded.resource == self.target.resource
                && recorded.action == step.action.as_str()
                && recorded.evidence.rule == step.evidence.rule().as_str()
        };
        // What a run had no time for needs no approval.
        let found = newest.waiting().find(is_it).filter(|found| step.mode == Mode::Enforce && found.held)?;
        let error = found.error.clone().unwrap_or_default();
        Some(ActionAwaitingApproval { run: newest.run.clone(), at: newest.at, error })
    }
}

impl ActionAwaitingApproval {
    /// For people.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { run, at, .. } = self;
        let at = at.strftime("%Y-%m-%d %H:%M UTC");
        format!("awaits approval since {at} (above [limits]): curfew plans {run}, curfew apply {run}")
    }
}
