//! What a run does now, in words.

use super::{Decision, ended};
use crate::mode::Mode;
use crate::plan::{Action, OnlyTold, SparedBecause, Step};
use crate::vocabulary::{STOPPED, UNATTACHED_SINCE};

impl Decision {
    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Step(step) => words_of_step(step),
            Self::Spared(spared) => words_of_spared(spared.because).to_owned(),
        }
    }
}

fn words_of_step(step: &Step) -> String {
    let rule = step.because.rule();
    let told = if step.told_before { "" } else { "tells its owner, and " };
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
            format!("tells its owner: {rule}{}", step.only_told.map(explained_after).unwrap_or_default())
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
        (None, Mode::Observe) if step.told_before => {
            format!("nothing, in observe mode, and its owner has heard of it; in enforce mode the next run {text}")
        }
        (None, Mode::Observe) => format!("the next run only says what it would do in enforce mode: it {text}"),
        (None, Mode::Enforce) => format!("the next run {text}"),
    }
}

fn explained_after(why: OnlyTold) -> String {
    format!(", and no more: {}", why.explained())
}

const fn words_of_spared(because: SparedBecause) -> &'static str {
    match because {
        SparedBecause::Protected => "left alone: it carries curfew:protected",
        SparedBecause::Kept => "left alone: its curfew:keep-until lies ahead",
        SparedBecause::Unreadable => "left alone: one of its tags cannot be read",
        SparedBecause::ForeignOwned => "left alone: it is somebody else's",
        SparedBecause::NotRunning => "left alone: it does not run",
        SparedBecause::Marked => "left alone until the announced deadline",
        SparedBecause::Told => "left alone: its owner has been told, and no more is due",
        SparedBecause::Busy => "left alone: it works",
        SparedBecause::Young => "left alone: it is too young to be judged",
        SparedBecause::UsageUnknown => "left alone: nobody can say whether it is used",
        SparedBecause::Compliant => "left alone: no rule is broken",
        SparedBecause::Attached => "left alone: it is attached",
        SparedBecause::NotAvailable => "left alone: it is being created or deleted, or has failed",
        SparedBecause::Kubernetes => "left alone: it is of a claim of a Kubernetes cluster",
        SparedBecause::MultiAttach => "left alone: several instances may share it",
        SparedBecause::LiveJob => "left alone: its job is not finished",
        SparedBecause::JobUnknown => "left alone: nobody can say whether it is of the job that it names",
        SparedBecause::Observed => "left alone: it is only observed, and its owner has been told",
        SparedBecause::SnapshotPending => "left alone until its snapshot is whole",
        SparedBecause::VolumeExists => "left alone: its volume exists",
        SparedBecause::Restorable => "left alone: its volume can be restored from it",
        SparedBecause::WithinBudget => "left alone: it is within its budget",
        SparedBecause::WithoutBudget => "left alone: it has no budget",
        SparedBecause::BudgetUnknown => "left alone: nobody can say how much of it is spent",
    }
}
