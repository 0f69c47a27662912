//! The data that a step loses for good.

use model::bytes::format_gigabytes_shortly;
use model::rule::ResourceAction;
use plan::report::OutcomeKind;
use plan::{Action, SnapshotAction, Step};

pub(super) struct DataLoss {
    /// `the NVMe scratch of i-0abc (30400 GB)`.
    pub(super) text: String,
    /// `30 TB NVMe scratch`, for a line that names the resource.
    pub(super) brief: String,
}

/// The loss of a step with this outcome; `None` if it loses nothing.
pub(super) fn data_loss(step: &Step, outcome: OutcomeKind) -> Option<DataLoss> {
    if outcome == OutcomeKind::Failed || step.held.is_some() {
        return None;
    }
    let resource = &step.target.resource;
    let actions = step.action.announced_actions();
    let announces =
        |ending| actions.is_some_and(|actions| actions.values().any(|announced| announced.ending == ending));
    let is_to = |ending| step.action.ending() == Some(ending) || announces(ending);
    match &step.action {
        Action::Instance(instance, _) => {
            let terminates = is_to(ResourceAction::Terminate);
            let ends = terminates || is_to(ResourceAction::Stop);
            let scratch_gb = instance.machine.instance_storage_gb;
            if ends && scratch_gb > 0 {
                return Some(DataLoss {
                    text: format!("the NVMe scratch of {resource} ({scratch_gb} GB)"),
                    brief: format!("{} NVMe scratch", format_gigabytes_shortly(scratch_gb)),
                });
            }
            let text = format!("{resource} with its root volume");
            terminates.then(|| DataLoss { text, brief: "its root volume".to_owned() })
        }
        Action::Volume(volume, _) => is_to(ResourceAction::Delete).then(|| DataLoss {
            text: format!("{resource} ({} GiB, without a snapshot)", volume.size_gib),
            brief: format!("{} GiB without a snapshot", volume.size_gib),
        }),
        Action::Snapshot(snapshot, SnapshotAction::Delete) => Some(DataLoss {
            text: format!("{resource} (of {})", snapshot.of_volume),
            brief: format!("the copy of {}", snapshot.of_volume),
        }),
        // What an app, a notebook instance or an endpoint is made of stays, and so does what a job has saved.
        Action::Snapshot(..) | Action::SageMaker(..) | Action::Budget(_) => None,
    }
}
