//! Restoration of a deleted volume from its safety snapshot: by the command that a message names, or by `curfew undo`.

use model::curfew_tags::RESTORE;
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::volume::{Snapshot, SnapshotState, Volume, VolumeOrigin, own_tags};

use crate::price::{PriceBook, Quote};

/// Everything that the new volume is made with. The snapshot brings the data, and the key where it is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoration {
    pub region: Region,
    /// The volume that was deleted, or is about to be.
    pub volume: ResourceId,
    pub snapshot: ResourceId,
    /// Properties of the new volume: zone, type, size, and provisioned performance.
    pub origin: VolumeOrigin,
    /// Tags that the owner wrote.
    pub tags: Tags,
}

impl Restoration {
    /// Returns the restoration of a volume that is still known, from this snapshot of it.
    #[must_use]
    pub fn of_volume(volume: &Volume, snapshot: &ResourceId) -> Self {
        Self {
            region: volume.region.clone(),
            volume: volume.id.clone(),
            snapshot: snapshot.clone(),
            origin: VolumeOrigin::from_volume(volume),
            tags: owned(&volume.tags),
        }
    }

    /// Returns the restoration of a deleted volume, by Curfew's tags on its snapshot; `None` if the snapshot is not complete, or a person
    /// has changed the tags.
    #[must_use]
    pub fn of_snapshot(snapshot: &Snapshot) -> Option<Self> {
        // The snapshot says as well how large its volume was.
        let origin =
            VolumeOrigin::read(snapshot.tags.get(RESTORE)?).filter(|origin| origin.size_gib == snapshot.size_gib)?;
        (snapshot.state == SnapshotState::Completed).then(|| Self {
            region: snapshot.region.clone(),
            volume: snapshot.of_volume.clone(),
            snapshot: snapshot.id.clone(),
            origin,
            tags: owned(&snapshot.tags),
        })
    }

    /// Returns the cost of the new volume; `None` if unknown.
    #[must_use]
    pub fn costs(&self, prices: &PriceBook) -> Option<Quote> {
        prices.origin_cost(&self.region, &self.origin)
    }
}

fn owned(tags: &Tags) -> Tags {
    own_tags(tags).map(|(key, value)| (key.clone(), value.clone())).collect()
}
