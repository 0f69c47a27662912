//! What a run does now, in words.

use model::curfew_tags::{STOPPED, UNATTACHED_SINCE};
use model::mode::Mode;
use plan::{Action, NotifyOnlyReason, SkipReason, Step};

use super::{PlanDecision, ended};

impl PlanDecision {
    /// For people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Step(step) => describe_step(step),
            Self::Skipped(skipped) => describe_skip(skipped.reason).to_owned(),
        }
    }
}

fn describe_step(step: &Step) -> String {
    let rule = step.evidence.rule();
    let told = if step.already_notified { "" } else { "tells its owner, and " };
    let text = match &step.action {
        Action::Mark(mark) => {
            let said = mark.entries.get(&rule).map_or("ended", |said| ended(said.ending));
            let from = step.deadline.map(|at| format!(" from {at} on")).unwrap_or_default();
            format!("{told}writes the mark: {rule}, to be {said}{from}")
        }
        // Nothing that was announced is called off: only a note goes that speaks of what is over.
        Action::Unmark { also: Some(STOPPED), .. } if step.deadline.is_none() => {
            "removes its note of having stopped it".to_owned()
        }
        Action::Unmark { also: Some(UNATTACHED_SINCE), .. } if step.deadline.is_none() => {
            "removes its note of since when it was attached to nothing".to_owned()
        }
        Action::Unmark { .. } => format!("{told}takes back what was announced for {rule}"),
        Action::Notify => {
            format!("tells its owner: {rule}{}", step.notify_only.map(explained_after).unwrap_or_default())
        }
        Action::Hold => format!("launches no further job of it: {rule}"),
        Action::Stop { .. } => format!("stops it: {rule}"),
        Action::Terminate { .. } => format!("terminates it: {rule}"),
        Action::Start => "starts it: its hours have begun".to_owned(),
        Action::Date { key, at } => format!("writes {key}={at}"),
        Action::Snapshot { .. } => "begins its snapshot; a later run deletes it once that is whole".to_owned(),
        Action::Delete { .. } => format!("deletes it: {rule}"),
    };
    match (step.held, step.mode) {
        (Some(held), _) => format!("the next run would do this, but waits for a person ({held}): {text}"),
        (None, Mode::Observe) if step.already_notified => {
            format!("nothing, in observe mode, and its owner has heard of it; in enforce mode the next run {text}")
        }
        (None, Mode::Observe) => format!("the next run only says what it would do in enforce mode: it {text}"),
        (None, Mode::Enforce) => format!("the next run {text}"),
    }
}

fn explained_after(why: NotifyOnlyReason) -> String {
    format!(", and no more: {}", why.explain())
}

const fn describe_skip(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Protected => "left alone: it carries curfew:protected",
        SkipReason::Kept => "left alone: its curfew:keep-until lies ahead",
        SkipReason::Unreadable => "left alone: one of its tags cannot be read",
        SkipReason::ForeignOwned => "left alone: it is somebody else's",
        SkipReason::NotRunning => "left alone: it does not run",
        SkipReason::Marked => "left alone until the announced deadline",
        SkipReason::Told => "left alone: its owner has been told, and no more is due",
        SkipReason::Busy => "left alone: it works",
        SkipReason::Young => "left alone: it is too young to be judged",
        SkipReason::UsageUnknown => "left alone: nobody can say whether it is used",
        SkipReason::Compliant => "left alone: no rule is broken",
        SkipReason::Attached => "left alone: it is attached",
        SkipReason::NotAvailable => "left alone: it is being created or deleted, or has failed",
        SkipReason::Kubernetes => "left alone: it is of a claim of a Kubernetes cluster",
        SkipReason::MultiAttach => "left alone: several instances may share it",
        SkipReason::LiveJob => "left alone: its job is not finished",
        SkipReason::JobUnknown => "left alone: nobody can say whether it is of the job that it names",
        SkipReason::SnapshotPending => "left alone until its snapshot is whole",
        SkipReason::VolumeExists => "left alone: its volume exists",
        SkipReason::Restorable => "left alone: its volume can be restored from it",
        SkipReason::WithinBudget => "left alone: it is within its budget",
        SkipReason::WithoutBudget => "left alone: it has no budget",
        SkipReason::BudgetUnknown => "left alone: nobody can say how much of it is spent",
    }
}
