//! The configuration document `config/curfew.toml`: its sections, its defaults, and what is refused.
//!
//! Every value is checked while it is read, so that each mistake is reported with its line and key. Nothing here is
//! optional in use: an absent document, section or key means the default.

mod account;
mod boxes;
mod changes;
mod checks;
mod disk_policy;
mod jobs;
mod metrics;
mod mistakes;
mod notes;
mod overlay;
mod projects;
mod regions;
mod sagemaker;
mod sections;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

pub use account::{AccountConfig, NotifyConfig, OverBudget, PricesConfig, ReportConfig, TeamConfig};
pub use boxes::BoxesConfig;
pub use disk_policy::{AccountDiskPolicy, DiskPolicy};

pub use changes::{ConfigChange, changes, teams_lost};
pub use mistakes::{MISTAKES_MAX, mistakes};
pub use notes::{ConfigNote, notes};
pub use overlay::{
    ConfigInForce, HUB_COPY_KEY, HubAnswer, HubConfig, HubCopy, HubDocument, HubStatus, IgnoreReason, IgnoredLine,
    KeyRule, Order, Overlay, SHARING_ACCOUNTS_MAX, key_rules,
};
pub use regions::{misshapen_regions, unknown_regions};

pub use jobs::{IdleAfter, JOB_IDLE_MAX, JOB_IDLE_MIN, JobTeams, JobsConfig, SharedRole};
pub use metrics::{MetricsConfig, SeriesNames, UtilizationUnit};
pub use projects::ProjectsConfig;
pub use sagemaker::{ComponentAction, SageMakerAction, SageMakerConfig};
pub use sections::{
    FileSystemsConfig, GangsConfig, IdleConfig, LifetimeConfig, LimitsConfig, ManagedConfig, Percent, PowerEvidence,
    ReservationsConfig, RuleAction, TagKeys, UntaggedConfig, VolumeAction, VolumesConfig,
};
pub use settings::{Setting, SettingSource, Settings, as_toml};

use crate::account::AccountId;
use crate::document::{DocumentError, DocumentKind, utf8};
use crate::id::{Region, TeamName};
use crate::mode::Mode;
use crate::notification_log::NO_TEAM;

/// Key of the document in the state bucket.
pub const KEY: &str = "config/curfew.toml";

/// The largest document that is read, in bytes: a configuration is written by hand.
pub const BYTES_MAX: usize = 256 * 1024;

/// The only namespace that the role of a job's machine may write to. It is no evidence about any instance: a command can write any values there,
/// under the id of another machine too. `reap-instances` needs none of it, because it judges no job for idleness, and a configuration that names
/// this namespace is refused.
pub const JOB_METRICS_NAMESPACE: &str = "Curfew/Jobs";

/// The namespace of the metrics of the account, which the functions publish for graphs and alarms. No rule reads it.
pub const ACCOUNT_METRICS_NAMESPACE: &str = "Curfew/Account";

const DOCUMENT: DocumentKind = DocumentKind { bytes_max: BYTES_MAX, every_key: settings::every_key };

/// The whole configuration. `Config::default()` is what an absent document means. Its fields, and those of each section, are in the order of
/// `docs/configuration.md`, in which `curfew config show` lists them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The mode of a team that says nothing itself.
    pub mode: Mode,
    /// The regions to look at; empty means every enabled one.
    pub regions: Vec<Region>,
    /// The keys by which this account knows team and owner.
    pub tags: TagKeys,
    /// Further signs of another controller.
    pub managed: ManagedConfig,
    /// GPU instances lacking a required tag.
    pub untagged: UntaggedConfig,
    /// The projects that may run.
    pub projects: ProjectsConfig,
    /// Idle GPU instances.
    pub idle: IdleConfig,
    /// Instances that work together.
    pub gangs: GangsConfig,
    /// The metrics by which accelerators report.
    pub metrics: MetricsConfig,
    /// Instances that have run for too long.
    pub lifetime: LifetimeConfig,
    /// Limits of the policy actions of one run.
    pub limits: LimitsConfig,
    /// Orphaned volumes.
    pub volumes: VolumesConfig,
    /// Capacity reservations with unused capacity.
    pub reservations: ReservationsConfig,
    /// `FSx` for Lustre file systems that nobody uses.
    pub file_systems: FileSystemsConfig,
    /// Notebook instances, Studio apps, endpoints and jobs of `SageMaker`.
    pub sagemaker: SageMakerConfig,
    /// GPU jobs.
    pub jobs: JobsConfig,
    /// Machines that people work on.
    pub boxes: BoxesConfig,
    /// The budget above those of the teams.
    pub account: AccountConfig,
    /// The recipients of the report by mail.
    pub report: ReportConfig,
    /// The recipients of notifications besides the subscribers.
    pub notify: NotifyConfig,
    /// The account's discounts from the list prices.
    pub prices: PricesConfig,
    /// Settings of teams for themselves, by the value of the team tag.
    #[serde(deserialize_with = "checks::teams", skip_serializing_if = "BTreeMap::is_empty")]
    pub teams: BTreeMap<TeamName, TeamConfig>,
    /// The accounts that the budget of a team spans. The hub of the organization alone sets them: a document has no such key.
    #[serde(skip)]
    pub shared_budgets: BTreeMap<TeamName, BTreeSet<AccountId>>,
}

/// A mistake for which a configuration is refused, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{KEY}, line {line}, column {column}, key `{key}`: {problem}")]
pub struct ConfigError {
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Column of the mistake in characters, from 1.
    pub column: usize,
    /// The full key, such as `idle.window`; of the section where the key itself is unknown.
    pub key: String,
    /// The mistake, and the legal values.
    pub problem: String,
}

impl From<DocumentError> for ConfigError {
    fn from(DocumentError { line, column, key, problem }: DocumentError) -> Self {
        Self { line, column, key, problem }
    }
}

impl Config {
    /// Reads the document.
    ///
    /// # Errors
    /// On the first unknown key, wrong type or impossible value, with its line, column and key.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        Ok(DOCUMENT.read(text)?)
    }

    /// Reads the document from its bytes.
    ///
    /// # Errors
    /// As [`Config::read`], and where a byte is no UTF-8.
    pub fn read_bytes(document: &[u8]) -> Result<Self, ConfigError> {
        Self::read(utf8(document)?)
    }

    /// The teams that it names. The section of [`NO_TEAM`] is about what belongs to no team.
    pub fn named_teams(&self) -> impl Iterator<Item = &TeamName> {
        self.teams.keys().filter(|team| team.as_str() != NO_TEAM)
    }

    /// `true` if the configuration leaves open which teams have jobs: it names no team, or says so.
    #[must_use]
    pub fn has_jobs_of_any_team(&self) -> bool {
        self.jobs.teams == JobTeams::Any || self.named_teams().next().is_none()
    }

    /// `true` if this team may have jobs.
    #[must_use]
    pub fn has_jobs_of(&self, team: &TeamName) -> bool {
        self.has_jobs_of_any_team() || (self.teams.contains_key(team) && team.as_str() != NO_TEAM)
    }

    /// The idleness of the GPUs of a team's job after which its owner is notified; `None`: never.
    #[must_use]
    pub fn idle_after(&self, team: &TeamName) -> Option<SignedDuration> {
        self.team(team).and_then(|team| team.idle_after).unwrap_or(self.jobs.idle_after).0
    }

    /// Returns the settings of a team for itself; `None` if the document does not name it.
    #[must_use]
    pub fn team(&self, name: &TeamName) -> Option<&TeamConfig> {
        self.teams.get(name)
    }
}

#[cfg(test)]
mod tests;
