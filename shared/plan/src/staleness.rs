//! Whether a step may still be carried out, by what is read again just before.

use jiff::Timestamp;
use model::instance::{Instance, InstanceState};
use model::volume::{Snapshot, SnapshotState, Volume, VolumeState};

/// A resource that a step changes.
pub trait StillHolds {
    /// Whether the reason for a step still stands, by the resource as it is now. Whatever has changed since the look, be it a
    /// tag, the state or a new life, the next run looks at again.
    ///
    /// # Errors
    /// What keeps the step from being carried out.
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

/// All that a volume is: what it is doing changes while it is deleted.
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
