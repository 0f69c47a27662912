//! Carrying out what was confirmed, under the eyes of a person who may interrupt it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use execution::{ChosenResources, Subscribers};
use model::id::RunId;
use model::ownership::OwnerSender;
use plan::Step;
use plan::report::{OutcomeKind, StepOutcome};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ItemOutcomes;
use super::review::{ApplyTask, ReviewedPlan};
use crate::screen;

impl ApplyTask<'_> {
    /// Acts, tells, records and remembers, as the function does; the run that did, where there was anything to do.
    pub(super) async fn carry_out(
        &self,
        again: ReviewedPlan,
        items: &[plan::report::RecordedStep],
    ) -> (Option<RunId>, ItemOutcomes) {
        let pending = self.unsent_notifications(&again.left).await;
        if again.is_empty() && pending.is_empty() {
            return (None, again.left);
        }
        let chosen: ChosenResources =
            again.plan.steps.iter().map(|step| (step.target.region.clone(), step.target.resource.clone())).collect();
        let (total, count, halted) = (again.plan.steps.len(), AtomicUsize::new(0), AtomicBool::new(false));
        let progress = |step: &Step, outcome: &StepOutcome| {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            screen::progress(format!("[{number}/{total}] {}", line(step, outcome)));
        };
        let approved = again.approved(items);
        let run = self.run(again.began, &chosen, &progress, Some(&halted));
        let subscribers = Subscribers::checked(self.gate.ceiling.clone(), OwnerSender::from_config(&self.gate.config));
        let work = run.carry_out_and_notify(again.plan, again.regions, subscribers, again.recalled, pending);
        let report = unless_halted(Box::pin(work), &halted).await;
        for gap in &report.gaps {
            screen::warn(format!("{}, {}: {}", gap.region, gap.call, gap.in_command()));
        }
        let mut outcomes = again.left;
        for item in approved {
            let of_item = |(step, _): &&(Step, StepOutcome)| {
                step.target.region == item.region && step.target.resource == item.resource
            };
            let outcome = report.steps.iter().find(of_item).map(|(_, outcome)| outcome.clone());
            outcomes.push((item, outcome.unwrap_or_else(|| StepOutcome::from_kind(OutcomeKind::NotReached))));
        }
        (Some(report.run), outcomes)
    }
}

fn line(step: &Step, outcome: &StepOutcome) -> String {
    let error = outcome.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let (action, target) = (step.action.as_str(), &step.target);
    format!("{action} {} ({}): {}{error}", target.resource, target.region, outcome.kind.as_str())
}

/// Finishes the work although a person interrupts it: steps that have begun are finished, announced and recorded, but no further step
/// begins.
async fn unless_halted<T>(mut work: Pin<Box<impl Future<Output = T>>>, halted: &AtomicBool) -> T {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok());
    // Whose terminal is closed, or whose connection to it breaks.
    let mut hangup = signal(SignalKind::hangup()).ok();
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = comes(&mut interrupt) => {}
            () = comes(&mut terminate) => {}
            () = comes(&mut hangup) => {}
        }
        if !halted.swap(true, Ordering::Relaxed) {
            screen::warn("interrupted: nothing more begins; what has begun is finished, notified and recorded");
        }
    }
}

async fn comes(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
