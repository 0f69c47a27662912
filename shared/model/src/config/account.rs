//! `[account]` and `[teams]`: budgets, reports, prices, and what a team sets for itself.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::boxes::{box_idle, box_runtime, serialize_some};
use super::checks;
use super::disk_policy::DiskPolicy;
use super::jobs::IdleAfter;
use crate::duration;
use crate::input_source::InputSource;
use crate::mode::Mode;

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
    /// The most GPUs of all machines of one of the team's jobs, within that of `[jobs]`.
    #[serde(deserialize_with = "checks::gpus")]
    pub gpus_max: Option<u32>,
    /// The most USD an hour that all machines of one of the team's jobs may cost, within that of `[jobs]`.
    #[serde(deserialize_with = "checks::usd_per_hour")]
    pub usd_per_hour_max: Option<f64>,
    /// The most boxes of one owner of the team that are up at once, within that of `[boxes]`, as the three after it.
    #[serde(deserialize_with = "checks::boxes")]
    pub boxes_per_owner_max: Option<u32>,
    /// The longest life of a machine of its boxes.
    #[serde(deserialize_with = "box_runtime", serialize_with = "serialize_some")]
    pub box_runtime_max: Option<SignedDuration>,
    /// The longest idle time after which a box of it ends.
    #[serde(deserialize_with = "box_idle", serialize_with = "serialize_some")]
    pub box_idle_max: Option<SignedDuration>,
    /// The largest home of its boxes, in GiB.
    #[serde(deserialize_with = "checks::home_gib")]
    pub box_home_gib_max: Option<u32>,
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
