//! What a run may do, and why it may skip: each must happen in a long simulation.

use plan::{Action, Announcement, SkipReason, SnapshotAction, Step, VolumeAction};

/// Repeats an account of this simulation.
pub(crate) const MAKE_TARGET: &str = "simulate-volumes";

/// Every action of a run.
pub(crate) const ACTIONS: [&str; 10] = [
    "date a volume",
    "announce the expiry of a snapshot",
    "mark",
    "unmark",
    "notify",
    "snapshot",
    "delete a volume after a snapshot",
    "delete a volume for good",
    "delete a snapshot",
    "delete a failed snapshot",
];

/// Every reason to skip a volume, or a snapshot.
pub(crate) const SPARED: [SkipReason; 19] = [
    SkipReason::Protected,
    SkipReason::Kept,
    SkipReason::Unreadable,
    SkipReason::ForeignOwned,
    SkipReason::Attached,
    SkipReason::NotAvailable,
    SkipReason::Kubernetes,
    SkipReason::MultiAttach,
    SkipReason::LiveJob,
    SkipReason::Young,
    SkipReason::Marked,
    SkipReason::Notified,
    SkipReason::UsageUnknown,
    SkipReason::SnapshotPending,
    SkipReason::SnapshotFailed,
    SkipReason::Refused,
    SkipReason::Busy,
    SkipReason::VolumeExists,
    SkipReason::Restorable,
];

/// In the words of [`ACTIONS`].
pub(crate) fn name_of(step: &Step) -> &'static str {
    match &step.action {
        Action::Volume(_, action) => match action {
            VolumeAction::TagUnattachedSince(_) => ACTIONS[0],
            VolumeAction::Announce(Announcement::Mark(_)) => ACTIONS[2],
            VolumeAction::Announce(Announcement::Unmark { .. }) => ACTIONS[3],
            VolumeAction::Announce(Announcement::Notify) => ACTIONS[4],
            VolumeAction::Snapshot { .. } => ACTIONS[5],
            VolumeAction::Delete { safety: Some(_), .. } => ACTIONS[6],
            VolumeAction::Delete { safety: None, .. } => ACTIONS[7],
        },
        Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)) => ACTIONS[1],
        Action::Snapshot(_, SnapshotAction::Delete) => ACTIONS[8],
        Action::Snapshot(_, SnapshotAction::DeleteFailed { .. }) => ACTIONS[9],
        Action::Instance(..) | Action::SageMaker(..) | Action::Budget(_) => "of neither",
    }
}
