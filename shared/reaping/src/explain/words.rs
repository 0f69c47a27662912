//! What a run does now, in words.

use model::curfew_tags::{DELETED_AT, STOPPED, UNATTACHED_SINCE};
use model::mode::Mode;
use plan::{
    Action, Announcement, BudgetAction, InstanceAction, NotifyOnlyReason, SkipReason, SnapshotAction, Step,
    VolumeAction,
};

use super::PlanDecision;

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
    let text = match (step.action.announcement(), &step.action) {
        (Some(Announcement::Mark(mark)), _) => {
            let said = mark.entries.get(&rule).map_or("ended", |said| said.ending.past_tense());
            let from = step.deadline.map(|at| format!(" from {at} on")).unwrap_or_default();
            format!("{told}writes the mark: {rule}, to be {said}{from}")
        }
        // Nothing that was announced is called off: only a note goes that speaks of what is over.
        (Some(Announcement::Unmark { also: Some(STOPPED), .. }), _) if step.deadline.is_none() => {
            "removes its note of having stopped it".to_owned()
        }
        (Some(Announcement::Unmark { also: Some(UNATTACHED_SINCE), .. }), _) if step.deadline.is_none() => {
            "removes its note of since when it was attached to nothing".to_owned()
        }
        (Some(Announcement::Unmark { .. }), _) => format!("{told}takes back what was announced for {rule}"),
        (Some(Announcement::Notify), _) | (None, Action::Budget(BudgetAction::Notify)) => {
            format!("tells its owner: {rule}{}", step.notify_only.map(explained_after).unwrap_or_default())
        }
        (None, Action::Budget(BudgetAction::Hold)) => format!("launches no further job of it: {rule}"),
        (None, Action::Instance(_, InstanceAction::Start)) => "starts it: its hours have begun".to_owned(),
        (None, Action::Volume(_, VolumeAction::TagUnattachedSince(at))) => format!("writes {UNATTACHED_SINCE}={at}"),
        (None, Action::Volume(_, VolumeAction::Snapshot { .. })) => {
            "begins its snapshot; a later run deletes it once that is whole".to_owned()
        }
        (None, Action::Snapshot(_, SnapshotAction::TagDeletedAt(at))) => format!("writes {DELETED_AT}={at}"),
        (None, action) => format!("{}s it: {rule}", action.as_str()),
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
