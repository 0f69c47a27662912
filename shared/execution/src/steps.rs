//! Acting on the steps that a run reaches, with the outcome of each.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, stream};
use plan::Step;
use plan::report::{FailedPart, OutcomeKind, Report, StepOutcome};
use ports::{Cloud, Documents};

use crate::{AT_ONCE, RESERVE, Run, answer_timeout, carry_out, catch_bug};

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Carries out the steps that `wanted` names, as long as there is time. A held step waits for a person instead.
    pub(crate) async fn act(&self, report: &mut Report, wanted: impl Fn(&Step) -> bool) {
        let reached = report.steps.iter().enumerate().filter(|(_, (step, _))| wanted(step));
        let outcomes: Vec<(usize, StepOutcome)> = stream::iter(reached)
            .map(|(place, (step, _))| async move {
                let outcome = catch_bug(self.act_on(step)).await;
                let outcome = outcome.unwrap_or_else(|bug| StepOutcome::failed(FailedPart::Bug, bug.to_string()));
                (self.progress)(step, &outcome);
                (place, outcome)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (place, outcome) in outcomes {
            if let Some((_, before)) = report.steps.get_mut(place) {
                *before = outcome;
            }
        }
    }

    async fn act_on(&self, step: &Step) -> StepOutcome {
        if let Some(held) = &step.held {
            return StepOutcome::with(OutcomeKind::NotReached, held.to_string());
        }
        if self.halted.is_some_and(is_set) {
            return StepOutcome::with(OutcomeKind::NotReached, "the run was interrupted before it came to this");
        }
        let left = self.deadline.duration_since((self.clock)());
        if left <= RESERVE {
            return StepOutcome::with(OutcomeKind::NotReached, "the run's time was over; the next run takes it up");
        }
        // A call that began in time may still hang: notifying and recording must not wait for it.
        let timeout = answer_timeout(left);
        tokio::time::timeout(timeout, carry_out(self.cloud, step, &self.id)).await.unwrap_or_else(|_| {
            let error = "AWS did not answer before the run's deadline; the next run looks again";
            StepOutcome::failed(FailedPart::Answer, error)
        })
    }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// Logs the outcome of a step, as every function does.
pub fn log(step: &Step, outcome: &StepOutcome) {
    tracing::info!(
        region = step.target.region.as_str(),
        resource = step.target.resource.as_str(),
        action = step.action.as_str(),
        rule = step.evidence.rule().as_str(),
        outcome = ?outcome.kind,
        error = outcome.error,
        "step"
    );
}
