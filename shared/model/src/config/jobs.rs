//! `[jobs]` of the configuration.

use serde::{Deserialize, Serialize};

use super::checks;
use crate::image_source::ImageSource;

/// `[jobs]`: GPU jobs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsConfig {
    /// How many complete checkpoints are kept.
    pub checkpoint_keep: u32,
    /// The attempts without progress after which a job ends.
    pub no_progress_attempts_max: u32,
    /// What the machines of jobs boot that name no image.
    pub image: ImageSource,
    /// Whether the machines of several teams get one role.
    pub shared_role: SharedRole,
    /// The teams that have jobs.
    pub teams: JobTeams,
    /// Its former place: empty, or an error that says where the profiles stand now.
    pub(super) instance_profiles: checks::MovedProfiles,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self {
            checkpoint_keep: 3,
            no_progress_attempts_max: 3,
            image: ImageSource::default(),
            shared_role: SharedRole::Deny,
            teams: JobTeams::Configured,
            instance_profiles: checks::MovedProfiles,
        }
    }
}

/// Whether the machines of several teams get the role that Curfew's stack makes for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedRole {
    /// As soon as the account has more than one team, each has a role of its own.
    Deny,
    /// One role for all: the jobs of each team can read, and spoil, the checkpoints of all.
    Allow,
}

/// The teams that have jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobTeams {
    /// Those that the configuration names, once it names one.
    Configured,
    /// One for each folder.
    Any,
}
