//! The sections of the configuration, each with its defaults beside it.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize};

use super::checks;
use super::disk_policy::AccountDiskPolicy;
use crate::duration;
use crate::mode::Mode;

/// A whole number from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Percent(#[serde(deserialize_with = "checks::percent")] u8);

impl Percent {
    /// The number, 0 to 100.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// `[tags]`: the keys by which this account knows team and owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TagKeys {
    /// Key of the tag whose value is the team.
    #[serde(deserialize_with = "checks::tag_key")]
    pub team: String,
    /// Key of the tag whose value is the owner.
    #[serde(deserialize_with = "checks::tag_key")]
    pub owner: String,
    /// Keys of the tags that every GPU instance must carry, each with a value.
    #[serde(deserialize_with = "checks::tag_keys")]
    pub required: Vec<String>,
}

impl Default for TagKeys {
    fn default() -> Self {
        Self {
            team: "Team".to_owned(),
            owner: "Owner".to_owned(),
            required: vec!["Team".to_owned(), "Owner".to_owned()],
        }
    }
}

/// `[managed]`: further signs of another controller.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManagedConfig {
    /// Tag keys that mean "another controller owns this".
    #[serde(deserialize_with = "checks::tag_keys")]
    pub tag_keys: Vec<String>,
}

/// Action of a rule at its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleAction {
    /// Stop the instance: its EBS volumes stay.
    Stop,
    Terminate,
    /// Only say so.
    Notify,
}

/// `[untagged]`: GPU instances lacking a required tag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UntaggedConfig {
    /// The mode of a resource that lacks a required tag: it has no team to opt in.
    pub mode: Mode,
    /// Time after the launch in which tags may still arrive.
    #[serde(with = "duration")]
    pub settle: SignedDuration,
    /// Time from mark to action.
    #[serde(with = "duration")]
    pub grace: SignedDuration,
    /// Action at the deadline.
    pub action: RuleAction,
    /// Positive evidence of work turns the action into notify.
    pub spare_busy: bool,
}

impl Default for UntaggedConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            settle: SignedDuration::from_mins(10),
            grace: SignedDuration::from_hours(24),
            action: RuleAction::Stop,
            spare_busy: true,
        }
    }
}

/// The evidence that the power of GPUs is, where their utilisation does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerEvidence {
    /// Evidence of work, and of idleness of which Curfew only notifies.
    Notify,
    /// Evidence of work and of idleness, like utilisation.
    Enforce,
    /// No evidence: it is not read.
    Off,
}

/// `[idle]`: what counts as idle, and what happens then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdleConfig {
    /// Every GPU stays below this utilisation, over the whole window.
    #[serde(deserialize_with = "checks::share")]
    pub gpu_below_percent: f64,
    /// Effect of EC2's own metric of power.
    pub power: PowerEvidence,
    /// Every GPU stays below this share of its maximum power, whatever its model; absent: the threshold of its model.
    #[serde(deserialize_with = "checks::power")]
    pub power_below_percent: Option<f64>,
    /// Time for which everything must have been quiet.
    #[serde(deserialize_with = "checks::window", serialize_with = "duration::serialize")]
    pub window: SignedDuration,
    /// Share of the window's periods in which each GPU must have reported.
    pub coverage_min_percent: Percent,
    /// `CPUUtilization` times vCPUs stays below this.
    #[serde(deserialize_with = "checks::threshold")]
    pub cpu_below_vcpus: f64,
    /// Network, in and out together, in Mbit/s.
    #[serde(deserialize_with = "checks::threshold")]
    pub network_below_mbps: f64,
    /// EBS, read and written together, in Mbit/s; where the metric exists.
    #[serde(deserialize_with = "checks::threshold")]
    pub disk_below_mbps: f64,
    /// Held GPU memory above this is "reserved": notify only.
    #[serde(deserialize_with = "checks::threshold")]
    pub gpu_memory_held_mib: f64,
    /// Time after its launch in which an instance is not judged.
    #[serde(with = "duration")]
    pub boot_grace: SignedDuration,
    /// Time from mark to action.
    #[serde(with = "duration")]
    pub grace: SignedDuration,
    /// Action at the deadline.
    pub action: RuleAction,
    /// Policy for types with NVMe instance storage.
    pub local_disk: AccountDiskPolicy,
}

impl Default for IdleConfig {
    fn default() -> Self {
        Self {
            gpu_below_percent: 5.0,
            power: PowerEvidence::Notify,
            power_below_percent: None,
            window: SignedDuration::from_hours(1),
            coverage_min_percent: Percent(90),
            cpu_below_vcpus: 1.0,
            network_below_mbps: 5.0,
            disk_below_mbps: 5.0,
            gpu_memory_held_mib: 1024.0,
            boot_grace: SignedDuration::from_mins(30),
            grace: SignedDuration::from_hours(1),
            action: RuleAction::Stop,
            local_disk: AccountDiskPolicy::default(),
        }
    }
}

/// `[lifetime]`: instances that have run for too long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LifetimeConfig {
    /// Longest lifetime, from launch, unless `curfew:expires-at` says otherwise.
    #[serde(with = "duration")]
    pub max: SignedDuration,
    /// Time from mark to action.
    #[serde(with = "duration")]
    pub grace: SignedDuration,
    /// Action at the deadline.
    pub action: RuleAction,
}

impl Default for LifetimeConfig {
    fn default() -> Self {
        Self {
            max: SignedDuration::from_hours(7 * 24),
            grace: SignedDuration::from_hours(24),
            action: RuleAction::Notify,
        }
    }
}

/// Action on an orphaned volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeAction {
    /// Keep a snapshot, then delete.
    SnapshotAndDelete,
    /// Delete at once.
    Delete,
    /// Only say so.
    Notify,
}

/// `[volumes]`: orphaned volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumesConfig {
    /// Time without an attachment after which a volume is orphaned.
    #[serde(with = "duration")]
    pub orphaned_after: SignedDuration,
    /// Time from mark to action.
    #[serde(with = "duration")]
    pub grace: SignedDuration,
    /// Action at the deadline.
    pub action: VolumeAction,
    /// Time for which snapshots are kept, from the volume's deletion.
    #[serde(with = "duration")]
    pub keep_snapshots: SignedDuration,
}

impl Default for VolumesConfig {
    fn default() -> Self {
        Self {
            orphaned_after: SignedDuration::from_hours(14 * 24),
            grace: SignedDuration::from_hours(3 * 24),
            action: VolumeAction::SnapshotAndDelete,
            keep_snapshots: SignedDuration::from_hours(30 * 24),
        }
    }
}

/// `[limits]`: above either, a run carries out none of its policy actions, reports them, and waits for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Inferred ends of one run.
    pub actions_max: u32,
    /// Their share of the fleet, counted where the fleet has 10 or more.
    pub fleet_share_max_percent: Percent,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { actions_max: 10, fleet_share_max_percent: Percent(20) }
    }
}

/// `[gangs]`: how to know instances that work together, of which a stop of one ends the work of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GangsConfig {
    /// The tag whose value names the gang of an instance; empty: no tag does.
    #[serde(deserialize_with = "optional_tag_key")]
    pub tag: String,
    /// `true` if the instances of one placement group are a gang.
    pub placement_groups: bool,
}

impl Default for GangsConfig {
    fn default() -> Self {
        Self { tag: String::new(), placement_groups: true }
    }
}

fn optional_tag_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let key = String::deserialize(deserializer)?;
    if key.is_empty() {
        return Ok(key);
    }
    checks::check_tag_key(&key).map(|()| key).map_err(serde::de::Error::custom)
}

/// `[file_systems]`: `FSx` for Lustre file systems that nobody uses. Curfew only notifies of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileSystemsConfig {
    /// Time without a use by any client after which a file system is idle; zero: Curfew looks at none.
    #[serde(deserialize_with = "checks::window", serialize_with = "duration::serialize")]
    pub idle_after: SignedDuration,
}

impl Default for FileSystemsConfig {
    fn default() -> Self {
        Self { idle_after: SignedDuration::from_hours(14 * 24) }
    }
}

/// `[reservations]`: capacity reservations and Capacity Blocks with unused capacity. Curfew only notifies of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReservationsConfig {
    /// Time for which every look must have found unused capacity.
    #[serde(with = "duration")]
    pub empty_after: SignedDuration,
}

impl Default for ReservationsConfig {
    fn default() -> Self {
        Self { empty_after: SignedDuration::from_hours(24) }
    }
}
