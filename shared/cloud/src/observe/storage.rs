//! The volumes of all regions, Curfew's snapshots of them, the instances that they are attached to, and the snapshots that they were made
//! from.

#[cfg(feature = "operator")]
mod unattached;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_ec2::Client;
use jiff::Timestamp;
use model::capacity_reservation::CapacityReservation;
use model::file_system::{FileSystemQuestion, FileSystemSignal, LustreFileSystem};
use model::id::{Region, ResourceId};
use model::instance::{InstanceState, Tags};
use model::observation::{Gap, GapKind, Observation, Observed};
use model::sagemaker::ActivitySamples;
use model::volume::{ObservedStorage, Snapshot, Volume, VolumeHost, VolumeUse, VolumeUseQuery};
use ports::{Hosts, VolumeCloud};

use super::pages::{PAGE_SIZE, all_pages};
use super::{
    FILTER_VALUES_MAX, described_as_curfews, file_system_samples, file_systems, filter, look_at_each,
    unused_reservations, volume_uses,
};
use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES, DESCRIBE_SNAPSHOTS, DESCRIBE_VOLUMES};
use crate::error::CallError;

#[cfg(feature = "operator")]
pub use unattached::unattached;

/// The facts of a volume that decisions need. Nothing else is kept, or looked up.
struct VolumeReads<T, S> {
    tags: T,
    source: S,
}

impl VolumeCloud for Aws {
    async fn storage(
        &self,
        regions: &[Region],
        timeout: Duration,
        tags: impl Fn(&Volume, &Hosts) -> bool,
        source: impl Fn(&Volume) -> bool,
    ) -> ObservedStorage {
        storage(self, regions, timeout, tags, source).await
    }

    async fn volume_uses(
        &self,
        region: &Region,
        asks: &[VolumeUseQuery],
        now: Timestamp,
        timeout: Duration,
    ) -> Observed<BTreeMap<ResourceId, VolumeUse>> {
        volume_uses(self, region, asks, now, timeout).await
    }

    async fn unused_reservations(
        &self,
        regions: &[Region],
        account: Option<&str>,
        timeout: Duration,
    ) -> Observation<CapacityReservation> {
        unused_reservations(self, regions, account, timeout).await
    }

    async fn file_systems(&self, regions: &[Region], timeout: Duration) -> Observation<LustreFileSystem> {
        file_systems(self, regions, timeout).await
    }

    async fn file_system_samples(
        &self,
        region: &Region,
        questions: &[FileSystemQuestion],
        timeout: Duration,
    ) -> (ActivitySamples<FileSystemSignal>, Vec<Gap>) {
        file_system_samples(self, region, questions, timeout).await
    }
}

/// Every volume of all these regions at once, with the facts that decisions need.
///
/// `tags` decides whether decisions need the tags of a volume, given the instances of its region. Other tags are not kept: an account has
/// tens of thousands of volumes, and tags take two thirds of their memory. `source` decides it for the snapshot that an unattached volume
/// was made from.
///
/// A region is a gap without volumes if one page of one call could not be read: a volume that was not seen would seem to be gone, and its
/// snapshots no longer needed.
///
/// A region that has not answered in full within `timeout` is a gap as well: the others must not wait for it.
pub async fn storage(
    aws: &Aws,
    regions: &[Region],
    timeout: Duration,
    tags: impl Fn(&Volume, &Hosts) -> bool,
    source: impl Fn(&Volume) -> bool,
) -> ObservedStorage {
    let reads = &VolumeReads { tags, source };
    let look = async |region: &Region| of_region(&aws.ec2(region), region, reads).await;
    let mut seen = ObservedStorage::default();
    for look in look_at_each(regions, DESCRIBE_VOLUMES, timeout, look).await {
        match look {
            Ok(storage) => seen.extend(storage),
            Err(error) => seen.volumes.gaps.push(error.gap_of_region()),
        }
    }
    seen
}

/// One list after the other: two pages at once would take twice the memory. Snapshots come first, so that the volume of each is among the
/// volumes unless it is gone by then.
async fn of_region(
    ec2: &Client,
    region: &Region,
    reads: &VolumeReads<impl Fn(&Volume, &Hosts) -> bool, impl Fn(&Volume) -> bool>,
) -> Result<ObservedStorage, CallError> {
    let mut snapshots = own_snapshots(ec2, region).await?;
    let RegionVolumes { volumes, incomplete, hosts } = volumes(ec2, region, &reads.tags).await?;
    // Their volumes exist, although they are not in the list.
    snapshots.retain(|snapshot| !incomplete.contains(&snapshot.of_volume));
    let from = volumes.iter().filter(|volume| volume.is_unattached() && volume.from_snapshot.is_some());
    let from = from.filter(|volume| (reads.source)(volume));
    let sources = sources(ec2, region, from.filter_map(|volume| volume.from_snapshot.as_ref()).collect()).await?;
    let hosts = with_volumes(hosts, &volumes);
    let gaps = Vec::from_iter((!incomplete.is_empty()).then(|| gap_of(region, &incomplete)));
    Ok(ObservedStorage { volumes: Observation { items: volumes, gaps }, snapshots, hosts, sources })
}

fn with_volumes(hosts: Hosts, volumes: &[Volume]) -> Vec<VolumeHost> {
    let named: BTreeSet<&ResourceId> = volumes.iter().flat_map(|volume| &volume.attached_to).collect();
    hosts.into_values().filter(|host| named.contains(&host.id)).collect()
}

fn gap_of(region: &Region, incomplete: &BTreeSet<ResourceId>) -> Gap {
    let first = incomplete.first().map(ResourceId::as_str).unwrap_or_default();
    let count = incomplete.len();
    Gap::new(
        region,
        DESCRIBE_VOLUMES,
        format!(
            "{count} volume(s), {first} among them, came without zone, type, size, creation time or what they are attached \
             to, and were not judged"
        ),
        GapKind::Listing,
    )
}

/// Every snapshot that is described as Curfew's. If one cannot be judged, all fail: its volume would get another snapshot every hour.
pub(crate) async fn own_snapshots(ec2: &Client, region: &Region) -> Result<Vec<Snapshot>, CallError> {
    let call = ec2.describe_snapshots().owner_ids("self").filters(described_as_curfews());
    let call = call.max_results(PAGE_SIZE);
    let mut all = Vec::new();
    all_pages(DESCRIBE_SNAPSHOTS, region, async |token| {
        let page = describe::snapshots_page(call.clone().set_next_token(token), region).await?;
        if let Some(incomplete) = page.incomplete.first() {
            return Err(CallError::without(DESCRIBE_SNAPSHOTS, region, incomplete, true));
        }
        all.extend(page.snapshots);
        Ok(page.next_token)
    })
    .await?;
    Ok(all)
}

#[derive(Default)]
struct RegionVolumes {
    volumes: Vec<Volume>,
    /// The ids of the volumes that cannot be judged.
    incomplete: BTreeSet<ResourceId>,
    /// Every instance of the region. Empty if no volume is attached to any.
    hosts: Hosts,
}

async fn volumes(
    ec2: &Client,
    region: &Region,
    tags_tell: &impl Fn(&Volume, &Hosts) -> bool,
) -> Result<RegionVolumes, CallError> {
    let call = ec2.describe_volumes().max_results(PAGE_SIZE);
    let (mut seen, mut knows_hosts) = (RegionVolumes::default(), false);
    all_pages(DESCRIBE_VOLUMES, region, async |token| {
        let mut page = describe::volumes_page(call.clone().set_next_token(token), region).await?;
        if !knows_hosts && page.volumes.iter().any(|volume| !volume.attached_to.is_empty()) {
            seen.hosts = hosts(ec2, region).await?;
            knows_hosts = true;
        }
        for volume in &mut page.volumes {
            if !tags_tell(volume, &seen.hosts) {
                (volume.tags, volume.attached_to) = (Tags::new(), Vec::new());
            }
        }
        seen.volumes.extend(page.volumes);
        seen.incomplete.extend(page.incomplete);
        Ok(page.next_token)
    })
    .await?;
    Ok(seen)
}

/// Reads every instance of a region that is not terminated.
async fn hosts(ec2: &Client, region: &Region) -> Result<Hosts, CallError> {
    let states = ["pending", "running", "stopping", "stopped", "shutting-down"];
    let call = ec2.describe_instances().filters(filter("instance-state-name", states)).max_results(PAGE_SIZE);
    let mut all = Hosts::new();
    all_pages(DESCRIBE_INSTANCES, region, async |token| {
        let mut page = describe::page(call.clone().set_next_token(token), region).await?;
        let instances = page.described.into_iter().map(|one| one.instance);
        all.extend(instances.map(|instance| {
            let host = VolumeHost {
                id: instance.id.clone(),
                region: region.clone(),
                stopped: instance.state == InstanceState::Stopped,
                stopped_at: page.stopped_at.remove(&instance.id),
                tags: instance.tags,
            };
            (instance.id, host)
        }));
        Ok(page.next_token)
    })
    .await?;
    Ok(all)
}

/// The tags of these snapshots, if they exist and belong to this account: it cannot see the tags of others (EC2 user guide, "Tag your
/// Amazon EC2 resources").
async fn sources(
    ec2: &Client,
    region: &Region,
    named: BTreeSet<&ResourceId>,
) -> Result<BTreeMap<ResourceId, Tags>, CallError> {
    let named: Vec<&str> = named.into_iter().map(ResourceId::as_str).collect();
    let mut all = BTreeMap::new();
    for chunk in named.chunks(FILTER_VALUES_MAX) {
        let call = ec2.describe_snapshots().owner_ids("self");
        let call = call.filters(filter("snapshot-id", chunk.iter().copied())).max_results(PAGE_SIZE);
        all_pages(DESCRIBE_SNAPSHOTS, region, async |token| {
            let page = describe::snapshots_page(call.clone().set_next_token(token), region).await?;
            all.extend(page.snapshots.into_iter().map(|snapshot| (snapshot.id, snapshot.tags)));
            Ok(page.next_token)
        })
        .await?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
