//! The sections of the configuration, each with its defaults beside it.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::checks;
use super::disk_policy::{AccountDiskPolicy, DiskPolicy};
use super::jobs::IdleAfter;
use crate::duration;
use crate::input_source::InputSource;
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

/// Consequence for a team over its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverBudget {
    /// A message.
    Notify,
    /// No new jobs.
    Hold,
    /// Running instances end too.
    Stop,
}

impl OverBudget {
    /// Returns the value as the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Notify => "notify",
            Self::Hold => "hold",
            Self::Stop => "stop",
        }
    }
}

/// `[account]`: the budget above those of the teams, and how months and shares are counted for all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccountConfig {
    /// Name of the account for people, which reports show before its number.
    #[serde(deserialize_with = "checks::account_name")]
    pub name: Option<String>,
    /// The account's budget of a calendar month, in USD.
    #[serde(deserialize_with = "checks::usd")]
    pub monthly_budget_usd: Option<f64>,
    /// The shares of a budget at which its holder is notified, in percent, 1 to 1000, in any order; a team may override them.
    #[serde(deserialize_with = "checks::notify_at")]
    pub notify_at_percent: Vec<u16>,
    /// Consequence if the account is over its budget.
    pub over_budget: OverBudget,
    /// Time from mark to stop of resources over a budget, the account's or a team's.
    #[serde(with = "duration")]
    pub over_budget_grace: SignedDuration,
    /// Time zone in which months begin and end, and in which messages also show the time: an IANA name, such as `Europe/Berlin`.
    #[serde(deserialize_with = "checks::time_zone")]
    pub time_zone: String,
    /// `true` if Curfew queries Cost Explorer once a day ($0.01 a request), to show it beside the ledger.
    pub cost_explorer: bool,
}

impl AccountConfig {
    /// The time zone. Where it is gone from the database since it was read, months are those of UTC.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC)
    }
}

impl Default for AccountConfig {
    fn default() -> Self {
        Self {
            name: None,
            monthly_budget_usd: None,
            notify_at_percent: vec![50, 80, 100],
            over_budget: OverBudget::Notify,
            over_budget_grace: SignedDuration::from_hours(1),
            time_zone: "UTC".to_owned(),
            cost_explorer: false,
        }
    }
}

/// `[report]`: the recipients of the monthly report by mail. Each team gets its own part at its `email`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportConfig {
    /// The address that SES sends it from; absent: it is not mailed.
    #[serde(deserialize_with = "checks::email")]
    pub sender: Option<String>,
    /// The recipients of the whole report.
    #[serde(deserialize_with = "checks::email")]
    pub email: Option<String>,
}

/// `[notify]`: who is notified besides the subscribers of the topics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NotifyConfig {
    /// `true` if the owner of a resource is mailed from `[report] sender`, where the owner tag is an address of the sender's domain.
    pub owners: bool,
}

/// `[prices]`: what this account pays less than the list says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PricesConfig {
    /// Discounts by instance family (`p5`), in percent of the on-demand price. Spot prices have none.
    #[serde(deserialize_with = "checks::discounts")]
    pub discount_percent: BTreeMap<String, f64>,
}

/// `[teams.<name>]`: what one team sets for itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeamConfig {
    /// The team's mode; absent: the account's.
    pub mode: Option<Mode>,
    /// Instead of `[idle].local_disk`.
    pub local_disk: Option<DiskPolicy>,
    /// The team's mail address.
    #[serde(deserialize_with = "checks::email")]
    pub email: Option<String>,
    /// The team's budget of a calendar month.
    #[serde(deserialize_with = "checks::usd")]
    pub monthly_budget_usd: Option<f64>,
    /// The shares of the budget at which the team is notified.
    #[serde(deserialize_with = "checks::some_notify_at")]
    pub notify_at_percent: Option<Vec<u16>>,
    /// Consequence if the team is over its budget.
    pub over_budget: Option<OverBudget>,
    /// The most GPUs of one machine of the team's jobs, within that of `[jobs]`.
    #[serde(deserialize_with = "checks::gpus")]
    pub gpus_max: Option<u32>,
    /// The most USD an hour that one machine of the team's jobs may cost, within that of `[jobs]`.
    #[serde(deserialize_with = "checks::usd_per_hour")]
    pub usd_per_hour_max: Option<f64>,
    /// Instance profiles that the team's jobs may name, beyond the one that they get by themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instance_profiles: Vec<String>,
    /// Subnets that the team's jobs may name, beyond the default ones.
    #[serde(deserialize_with = "checks::subnets", skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// Security groups that the team's jobs may name.
    #[serde(deserialize_with = "checks::security_groups", skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// Images that the team's jobs may name, beyond public ones and that of `[jobs] image`.
    #[serde(deserialize_with = "checks::images", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The folders of buckets that the team's triggers may watch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<InputSource>,
    /// Instead of `[jobs] idle_after`.
    pub idle_after: Option<IdleAfter>,
}
