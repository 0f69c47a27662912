//! EBS volumes, snapshots of them, and the instances that they hang on, as Curfew sees them.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::curfew_tags::LABELS;
use crate::id::{Region, ResourceId, RunId};
use crate::instance::Tags;
use crate::observation::Observation;

/// One EBS volume, as `DescribeVolumes` returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Volume {
    pub id: ResourceId,
    pub region: Region,
    /// Its availability zone, by name, such as `us-east-1a`.
    pub zone: String,
    /// Its type, such as `gp3`.
    pub volume_type: String,
    /// Its size in GiB.
    pub size_gib: u64,
    /// I/O operations per second: provisioned, or what its type gives; `None` if EC2 names none.
    pub iops: Option<u64>,
    /// MiB per second, of `gp3`; `None` if EC2 names none.
    pub throughput_mibps: Option<u64>,
    /// State of the volume, as EC2 sees it.
    pub state: VolumeState,
    /// The instances that it is attached to, or about to be, or not quite detached from.
    pub attached_to: Vec<ResourceId>,
    /// `true` if several instances may share it.
    pub multi_attach: bool,
    pub created_at: Timestamp,
    /// Every tag, AWS's own included.
    pub tags: Tags,
    /// The snapshot that it was created from.
    pub from_snapshot: Option<ResourceId>,
    /// The service that manages it (`Operator.Principal`), where one does.
    pub operator: Option<String>,
}

impl Volume {
    /// `true` if anything holds the volume, or is about to, or has not quite let go.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.state == VolumeState::InUse || !self.attached_to.is_empty()
    }

    /// `true` if EC2 says that the volume is attached to nothing.
    #[must_use]
    pub fn is_unattached(&self) -> bool {
        self.state == VolumeState::Available && self.attached_to.is_empty()
    }
}

/// Properties that make a new volume the same as a deleted one: the value of `curfew:restore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOrigin {
    /// Its availability zone.
    pub zone: String,
    pub volume_type: String,
    /// Its size in GiB.
    pub size_gib: u64,
    iops: Option<u64>,
    throughput_mibps: Option<u64>,
}

impl VolumeOrigin {
    #[must_use]
    pub fn from_volume(volume: &Volume) -> Self {
        let Volume { zone, volume_type, size_gib, iops, throughput_mibps, .. } = volume.clone();
        Self { zone, volume_type, size_gib, iops, throughput_mibps }
    }

    /// Reads the origin of a deleted volume from its snapshot's tag; `None` if a person has changed the tag. Its words become part of a
    /// command, so they must be plain.
    #[must_use]
    pub fn read(tag: &str) -> Option<Self> {
        let is_plain = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        let number = |word: &str| if word.is_empty() { Some(None) } else { word.parse().ok().map(Some) };
        let [zone, volume_type, size_gib, iops, throughput_mibps] =
            tag.split(',').collect::<Vec<_>>().try_into().ok()?;
        (is_plain(zone) && is_plain(volume_type)).then_some(())?;
        Some(Self {
            zone: zone.to_owned(),
            volume_type: volume_type.to_owned(),
            size_gib: size_gib.parse().ok()?,
            iops: number(iops)?,
            throughput_mibps: number(throughput_mibps)?,
        })
    }

    /// The option that restores its IOPS; for other types they follow from the size (EBS user guide, "Amazon EBS volume types").
    #[must_use]
    pub fn provisioned_iops(&self) -> Option<u64> {
        self.iops.filter(|_| matches!(self.volume_type.as_str(), "gp3" | "io1" | "io2"))
    }

    /// The option that restores its throughput, in MiB per second.
    #[must_use]
    pub fn provisioned_throughput_mibps(&self) -> Option<u64> {
        self.throughput_mibps.filter(|_| self.volume_type == "gp3")
    }
}

impl fmt::Display for VolumeOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zone, volume_type, size_gib, .. } = self;
        let number = |of: Option<u64>| of.map(|number| number.to_string()).unwrap_or_default();
        write!(f, "{zone},{volume_type},{size_gib},{},{}", number(self.iops), number(self.throughput_mibps))
    }
}

/// The owner's tags of a volume, which are restored, from the volume or its snapshot: neither AWS's own tags, which only AWS may write, nor
/// Curfew's memory on either.
pub fn own_tags(tags: &Tags) -> impl Iterator<Item = (&String, &String)> {
    tags.iter().filter(|(key, _)| !key.starts_with("aws:") && !LABELS.contains(&key.as_str()))
}

/// `Volume.State`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Changing to available.
    Creating,
    /// Attached to nothing.
    Available,
    /// Attached.
    InUse,
    /// Changing to deleted.
    Deleting,
    /// Gone; seen only when one volume is read again.
    Deleted,
    /// Its storage has failed.
    Error,
    /// Something that EC2 did not have when this was written.
    Unknown,
}

/// One EBS snapshot of this account, as `DescribeSnapshots` returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub id: ResourceId,
    pub region: Region,
    /// The volume that EC2 says it is of; of a copy, one that never existed.
    pub of_volume: ResourceId,
    /// State, which shows whether the snapshot can be restored from.
    pub state: SnapshotState,
    /// Start of the snapshot.
    pub started_at: Timestamp,
    /// The size of its volume in GiB.
    pub size_gib: u64,
    /// Every tag.
    pub tags: Tags,
    /// Its description, which nobody can change (EC2 API reference, `CreateSnapshot` and `ModifySnapshotAttribute`).
    pub description: String,
}

/// The beginning of the description of every snapshot that Curfew makes.
pub const SNAPSHOT_DESCRIPTION_BEGINS: &str = "Curfew: ";

/// The description of a snapshot that a run makes of a volume before it deletes that.
#[must_use]
pub fn snapshot_description(volume: &ResourceId, run: &RunId) -> String {
    format!("{SNAPSHOT_DESCRIPTION_BEGINS}{volume} before its deletion, by {run}")
}

impl Snapshot {
    /// The run that made it, by its description, if that names the volume that EC2 says it is of. Anybody can write such a description:
    /// only Curfew's own record of that run proves it.
    #[must_use]
    pub fn described_run(&self) -> Option<RunId> {
        let (volume, run) =
            self.description.strip_prefix(SNAPSHOT_DESCRIPTION_BEGINS)?.split_once(" before its deletion, by ")?;
        (volume == self.of_volume.as_str() && !run.is_empty()).then(|| RunId::from(run))
    }
}

/// `Snapshot.State`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotState {
    /// Being written: hours, where a volume is large.
    Pending,
    /// Whole.
    Completed,
    /// The snapshot failed.
    Error,
    /// The snapshot is in the Recycle Bin or on its way from it, or EC2 did not have this state when this was written.
    Unknown,
}

/// One instance of any type, as far as the volumes on it are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHost {
    pub id: ResourceId,
    pub region: Region,
    /// Every tag.
    pub tags: Tags,
    pub stopped: bool,
    /// Time of its stop, if EC2 gives it in words that can be read.
    pub stopped_at: Option<Timestamp>,
}

/// Observed volumes of an account.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObservedStorage {
    pub volumes: Observation<Volume>,
    /// Every snapshot of this account that is described as Curfew's.
    pub snapshots: Vec<Snapshot>,
    /// The instances that volumes are attached to.
    pub hosts: Vec<VolumeHost>,
    /// The tags of snapshots that volumes were created from, where they help to say whose a volume is.
    pub sources: BTreeMap<ResourceId, Tags>,
}

impl ObservedStorage {
    /// Adds what another look saw.
    pub fn extend(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.snapshots.extend(other.snapshots);
        self.hosts.extend(other.hosts);
        self.sources.extend(other.sources);
    }
}

/// Use of a volume since a moment, by `CloudWatch`. `VolumeIdleTime` is reported only while a volume is attached to a running instance, so
/// any sample of it is a sign of use (EBS user guide, "Amazon CloudWatch metrics for Amazon EBS").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeUse {
    /// Not one sample.
    None,
    /// The newest sample's time.
    UsedAt(Timestamp),
}

/// A question to `CloudWatch`: has this volume been in use since that moment?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeUseQuery {
    pub region: Region,
    pub volume: ResourceId,
    pub since: Timestamp,
}
