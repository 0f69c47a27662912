//! Whether a step may still be carried out: its resource is read again just before.

use jiff::Timestamp;
use model::instance::{Instance, InstanceState};
use model::volume::{Snapshot, SnapshotState, Volume, VolumeState};

/// A resource that a step changes.
pub trait StillHolds {
    /// Whether the resource is still as it was observed. If a tag, the state or the launch has changed, the next run decides again.
    ///
    /// # Errors
    /// Why the step must not be carried out.
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep>;
}

impl StillHolds for Instance {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        let same = fresh.state == self.state
            && fresh.launched_at == self.launched_at
            && fresh.tags == self.tags
            && fresh.instance_type == self.instance_type
            && fresh.operator == self.operator
            && fresh.prepaid == self.prepaid;
        match fresh.state {
            InstanceState::Terminated | InstanceState::ShuttingDown => Err(StaleStep::AlreadyGone),
            _ if same => Ok(()),
            _ => Err(StaleStep::Changed),
        }
    }
}

impl StillHolds for Volume {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        match fresh.state {
            VolumeState::Deleting | VolumeState::Deleted => Err(StaleStep::AlreadyGone),
            _ if self == fresh => Ok(()),
            _ => Err(StaleStep::Changed),
        }
    }
}

impl StillHolds for Snapshot {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        if self == fresh { Ok(()) } else { Err(StaleStep::Changed) }
    }
}

/// Whether a volume can be restored from a snapshot: Curfew made it of this volume since the volume is unattached, and it is complete.
/// The tag alone proves nothing: a copy of a snapshot has it too.
#[must_use]
pub fn is_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.state == SnapshotState::Completed && may_become_safe(snapshot, volume, unattached_since)
}

/// [`is_safe`] for a snapshot that may not be complete yet.
#[must_use]
pub fn may_become_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.is_of_curfew()
        && snapshot.of_volume == volume.id
        && snapshot.region == volume.region
        && snapshot.size_gib == volume.size_gib
        && snapshot.started_at >= unattached_since
}

/// Why a step must not be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleStep {
    /// The resource was already stopped or deleted.
    AlreadyGone,
    Changed,
}
