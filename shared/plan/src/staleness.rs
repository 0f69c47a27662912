//! Whether a step may still be carried out, by what is read again just before.

use jiff::Timestamp;
use model::instance::{Instance, InstanceState};
use model::volume::{Snapshot, SnapshotState, Volume, VolumeState};

use super::{ObservedResource, Step};

/// Whether the reason for a step still stands, by the resource as it is now. Whatever has changed since the look, be it a
/// tag, the state or a new life, the next run looks at again.
///
/// # Errors
/// What keeps the step from being carried out.
pub fn still_holds(step: &Step, fresh: &ObservedResource) -> Result<(), StaleStep> {
    match (&step.seen, fresh) {
        (ObservedResource::Instance(seen), ObservedResource::Instance(fresh)) => instance_is_as_seen(seen, fresh),
        (ObservedResource::Volume(seen), ObservedResource::Volume(fresh)) => volume_is_as_seen(seen, fresh),
        (ObservedResource::Snapshot(seen), ObservedResource::Snapshot(fresh)) if seen == fresh => Ok(()),
        _ => Err(StaleStep::Changed),
    }
}

fn instance_is_as_seen(seen: &Instance, fresh: &Instance) -> Result<(), StaleStep> {
    if matches!(fresh.state, InstanceState::Terminated | InstanceState::ShuttingDown) {
        return Err(StaleStep::AlreadyGone);
    }
    let same = fresh.state == seen.state
        && fresh.launched_at == seen.launched_at
        && fresh.tags == seen.tags
        && fresh.instance_type == seen.instance_type
        && fresh.operator == seen.operator
        && fresh.prepaid == seen.prepaid;
    if same { Ok(()) } else { Err(StaleStep::Changed) }
}

/// Its tags, what it is, and whether anything is attached. What it is doing changes while it goes.
fn volume_is_as_seen(seen: &Volume, fresh: &Volume) -> Result<(), StaleStep> {
    match fresh.state {
        VolumeState::Deleting | VolumeState::Deleted => Err(StaleStep::AlreadyGone),
        _ if seen == fresh => Ok(()),
        _ => Err(StaleStep::Changed),
    }
}

/// Whether a volume can be restored from a snapshot: it is one that Curfew made of this very volume, since it is unattached,
/// and it is whole. The tag alone proves nothing: it is copied with a snapshot.
#[must_use]
pub fn is_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.state == SnapshotState::Completed && may_become_safe(snapshot, volume, unattached_since)
}

/// The same, but for its being whole.
#[must_use]
pub fn may_become_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.is_of_curfew()
        && snapshot.of_volume == volume.id
        && snapshot.region == volume.region
        && snapshot.size_gib == volume.size_gib
        && snapshot.started_at >= unattached_since
}

/// What became of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleStep {
    /// The resource has ended by itself.
    AlreadyGone,
    /// It is not what it was.
    Changed,
}
