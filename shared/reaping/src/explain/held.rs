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
    /// Time of that run's observation.
    pub at: Timestamp,
    /// The reason for the hold.
    pub error: String,
}

impl Explanation {
    /// The hold on the present action, by the function's newest record: that action was due then too, and was above `[limits]`.
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
    /// One line for people, with the commands that show and approve the action.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { run, at, .. } = self;
        let at = at.strftime("%Y-%m-%d %H:%M UTC");
        format!("awaits approval since {at} (above [limits]): curfew plans {run}, curfew apply {run}")
    }
}
