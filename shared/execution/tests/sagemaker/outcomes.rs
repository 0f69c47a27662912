//! What a run may do, and why it may skip: each must happen in a long simulation.

use plan::{Action, Announcement, SageMakerAction, SkipReason, Step};

/// Repeats an account of this simulation.
pub(crate) const MAKE_TARGET: &str = "simulate-sagemaker";

/// Every action of a run.
pub(crate) const ACTIONS: [&str; 6] = ["mark", "unmark", "notify", "stop", "delete", "start"];

/// Every reason to skip a resource.
pub(crate) const SPARED: [SkipReason; 18] = [
    SkipReason::Protected,
    SkipReason::Kept,
    SkipReason::Unreadable,
    SkipReason::ForeignOwned,
    SkipReason::RecentlyChanged,
    SkipReason::Autoscaled,
    SkipReason::SeveralVariants,
    SkipReason::ShadowVariants,
    SkipReason::AsyncInference,
    SkipReason::Serverless,
    SkipReason::InferenceComponents,
    SkipReason::NotRunning,
    SkipReason::Busy,
    SkipReason::Young,
    SkipReason::Marked,
    SkipReason::Notified,
    SkipReason::UsageUnknown,
    SkipReason::Compliant,
];

/// In the words of [`ACTIONS`].
pub(crate) fn name_of(step: &Step) -> &'static str {
    let Action::SageMaker(_, action) = &step.action else { return "of something else" };
    match action {
        SageMakerAction::Announce(Announcement::Mark(_)) => ACTIONS[0],
        SageMakerAction::Announce(Announcement::Unmark { .. }) => ACTIONS[1],
        SageMakerAction::Announce(Announcement::Notify) => ACTIONS[2],
        SageMakerAction::Stop { .. } => ACTIONS[3],
        SageMakerAction::Delete { .. } => ACTIONS[4],
        SageMakerAction::Start => ACTIONS[5],
    }
}
