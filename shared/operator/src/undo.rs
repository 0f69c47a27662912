//! The steps of `curfew undo` on one resource: it starts an instance that Curfew stopped, or restores a volume that Curfew deleted. It
//! undoes nothing that somebody else did.

use billing::restoration::Restoration;
use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::{CurfewTags, DELETED_AT, EXPIRES_AT, MARKED, PROTECTED, kept_until};
use model::hours::HoursPosition;
use model::id::ResourceId;
use model::instance::{Instance, InstanceState, Tags};
use model::moment;
use model::moment::after;
use model::notification_log::CarriedOut;
use model::rule::Rule;
use model::sagemaker::{SageMakerKind, SageMakerResource, SageMakerStatus};
use model::volume::{Snapshot, SnapshotState, Volume, VolumeState};
use reaping::sagemaker::standing_stop;

/// Limit of the time between Curfew's request to scale an inference component to zero and the component's last change by that request:
/// minutes, as a rule.
const SCALING_TAKES_MAX: SignedDuration = SignedDuration::from_hours(1);

/// The reason why there is nothing to undo, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NothingToUndo {
    /// Curfew has not stopped or deleted it.
    NeverChanged(String),
    /// The resource is gone for good.
    Gone(String),
    /// Curfew has no snapshot of the volume, which may never have existed.
    NoSnapshot,
    /// Somebody else did it.
    NotByCurfew(String),
}

/// The stop by Curfew, after which it may start an instance again. `recorded`: the last stop that Curfew's own records know.
///
/// # Errors
/// Why there is nothing to start.
pub fn stop_to_undo(instance: &Instance, recorded: Option<CarriedOut>) -> Result<CarriedOut, NothingToUndo> {
    let Instance { id, region, .. } = instance;
    match instance.state {
        InstanceState::Running | InstanceState::Pending => {
            Err(NothingToUndo::NeverChanged(format!("it is not stopped{}", announced(id, &instance.tags))))
        }
        InstanceState::Stopping => {
            Err(NothingToUndo::NeverChanged("it is still stopping: try again in a minute".to_owned()))
        }
        InstanceState::Terminated | InstanceState::ShuttingDown => {
            Err(NothingToUndo::Gone("it is terminated, which cannot be undone".to_owned()))
        }
        InstanceState::Unknown => Err(NothingToUndo::NeverChanged("EC2 does not report its state".to_owned())),
        InstanceState::Stopped => recorded.filter(|stopped| instance.launched_at <= stopped.at).ok_or_else(|| {
            let reason = instance.state_reason.as_deref().map(|code| format!(" (EC2 says {code})")).unwrap_or_default();
            NothingToUndo::NotByCurfew(format!(
                "no record says that Curfew stopped it{reason}; start it yourself if you need it: aws ec2 start-instances \
                 --region {region} --instance-ids {id}"
            ))
        }),
    }
}

/// The stop by Curfew, after which it may start a notebook instance again. `recorded`: the last stop that Curfew's own records know.
///
/// # Errors
/// Why there is nothing to start.
pub fn notebook_stop_to_undo(
    notebook: &SageMakerResource,
    recorded: Option<CarriedOut>,
) -> Result<CarriedOut, NothingToUndo> {
    let SageMakerResource { id, region, tags, .. } = notebook;
    let started_by_hand = || {
        format!("aws sagemaker start-notebook-instance --region {region} --notebook-instance-name {}", notebook.name())
    };
    match (&notebook.kind, notebook.status) {
        (SageMakerKind::NotebookInstance, SageMakerStatus::Stopped) => {
            standing_stop(notebook, recorded).ok_or_else(|| {
                let by_hand = started_by_hand();
                NothingToUndo::NotByCurfew(format!(
                    "no record says that Curfew stopped it last; start it yourself if you need it: {by_hand}"
                ))
            })
        }
        (SageMakerKind::NotebookInstance, SageMakerStatus::Stopping) => {
            Err(NothingToUndo::NeverChanged("it is still stopping: try again in a minute".to_owned()))
        }
        (SageMakerKind::Job(_), SageMakerStatus::Stopping | SageMakerStatus::Stopped) => {
            Err(NothingToUndo::Gone("a job that was stopped cannot be started again: submit it anew".to_owned()))
        }
        (SageMakerKind::App(_), SageMakerStatus::Deleting | SageMakerStatus::Deleted) => {
            Err(NothingToUndo::Gone("open the app again in Studio: its space and volume are still there".to_owned()))
        }
        _ => Err(NothingToUndo::NeverChanged(format!("it was neither stopped nor deleted{}", announced(id, tags)))),
    }
}

/// Returns the number of copies to give back to an inference component that Curfew scaled to zero. `recorded` is the time when it last did
/// so, and the number of copies then.
///
/// # Errors
/// Why there is nothing to restore.
pub fn copies_to_restore(
    component: &SageMakerResource,
    recorded: Option<(Timestamp, u32)>,
) -> Result<u32, NothingToUndo> {
    let SageMakerResource { id, status, modified_at, tags, .. } = component;
    match (status, recorded) {
        // What changes it later is a person, who gave it copies and took them away again.
        (SageMakerStatus::Stopped, Some((at, copies))) if *modified_at <= after(at, SCALING_TAKES_MAX) => Ok(copies),
        (SageMakerStatus::Stopped, _) => Err(NothingToUndo::NotByCurfew(format!(
            "no audit record says that Curfew scaled it to zero; scale it yourself if you need it: aws sagemaker \
             update-inference-component-runtime-config --region {} --inference-component-name {} --desired-runtime-config CopyCount=1",
            component.region,
            component.name()
        ))),
        _ => Err(NothingToUndo::NeverChanged(format!("it has copies{}", announced(id, tags)))),
    }
}

/// Returns the reason why there is nothing to undo about a volume that EC2 knows; `None` if the volume is gone.
#[must_use]
pub fn volume_without_undo(volume: &Volume) -> Option<NothingToUndo> {
    match volume.state {
        VolumeState::Deleting | VolumeState::Deleted => None,
        _ => {
            let announced = announced(&volume.id, &volume.tags);
            Some(NothingToUndo::NeverChanged(format!("it was not deleted, so there is nothing to undo{announced}")))
        }
    }
}

/// A hint for its owner. Anybody may have written the mark, so the log decides.
fn announced(id: &ResourceId, tags: &Tags) -> String {
    if tags.contains_key(MARKED) {
        format!("; it carries {MARKED}, so an action may be announced: curfew explain {id}")
    } else {
        String::new()
    }
}

/// The restoration of a deleted volume from the newest complete snapshot that Curfew made of it.
///
/// # Errors
/// Why it cannot.
pub fn restoration_of_deleted(
    volume: &ResourceId,
    snapshots: &[Snapshot],
) -> Result<(Restoration, Option<Timestamp>), NothingToUndo> {
    let safety_snapshots =
        || snapshots.iter().filter(|snapshot| snapshot.described_run().is_some() && snapshot.of_volume == *volume);
    let whole = safety_snapshots().filter(|snapshot| snapshot.state == SnapshotState::Completed);
    let Some(newest) = whole.max_by_key(|snapshot| snapshot.started_at) else {
        return Err(match safety_snapshots().find(|snapshot| snapshot.state == SnapshotState::Pending) {
            Some(pending) => {
                NothingToUndo::NeverChanged(format!("its snapshot {} is not complete yet: try again later", pending.id))
            }
            None => NothingToUndo::NoSnapshot,
        });
    };
    let deleted_at = newest.tags.get(DELETED_AT).and_then(|at| moment::read(at));
    let restoration = Restoration::of_snapshot(newest).ok_or_else(|| {
        NothingToUndo::Gone(format!(
            "its snapshot {} ({}, {} GiB) exists, but somebody changed the tag that describes the volume. Create one: aws ec2 create-volume \
             --region {} --snapshot-id {} --availability-zone ZONE",
            newest.id, newest.region, newest.size_gib, newest.region, newest.id
        ))
    })?;
    Ok((restoration, deleted_at))
}

/// The volume that has been made again from the snapshot, where one has.
#[must_use]
pub fn restored_already<'a>(restoration: &Restoration, made_of_it: &'a [Volume]) -> Option<&'a Volume> {
    let is_there = |volume: &&Volume| {
        volume.from_snapshot.as_ref() == Some(&restoration.snapshot)
            && !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted | VolumeState::Error)
    };
    made_of_it.iter().filter(is_there).max_by_key(|volume| volume.created_at)
}

/// Describes Curfew's next action on an instance that was stopped for that rule, and is started at `now`.
#[must_use]
pub fn describe_next_action(instance: &Instance, stopped: CarriedOut, now: Timestamp) -> String {
    let id = &instance.id;
    if instance.tags.contains_key(PROTECTED) {
        return format!("it has {PROTECTED}: Curfew skips it");
    }
    if let Some(until) = kept_until(&instance.tags).filter(|until| *until > now) {
        return format!("it is kept until {until}: Curfew skips it until then");
    }
    let Ok(says) = CurfewTags::read(instance) else {
        return "one of its tags cannot be read: Curfew skips it until that is corrected".to_owned();
    };
    let keep = format!("curfew keep {id} 1d");
    if let Some(at) = says.expires_at.filter(|at| *at <= now) {
        return format!(
            "its {EXPIRES_AT} ({at}) has passed, so Curfew skips it until that is corrected: set a new time, or remove the tag"
        );
    }
    match says.hours.map(|hours| hours.position(now)) {
        Some(HoursPosition::Inside { until: Some(end), .. }) => {
            return format!("its hours end at {end}, and Curfew stops it then. Keep it longer: {keep}");
        }
        Some(HoursPosition::Outside { until: Some(start), .. }) => {
            return format!("Curfew skips it until the end of its next hours, which begin at {start}");
        }
        _ => {}
    }
    match stopped.rule {
        Rule::Untagged => format!(
            "Curfew announces the stop again as long as a required tag is missing. Set the tag, or keep it: {keep}"
        ),
        Rule::Idle => format!("Curfew announces the stop again if it stays idle. Keep it: {keep}"),
        _ => format!("Curfew judges it again. Keep it: {keep}"),
    }
}

#[cfg(test)]
mod tests;
