//! `[jobs]` of the configuration.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::checks;
use crate::duration::{format_exact_duration, parse};
use crate::image_source::ImageSource;

/// `[jobs]`: GPU jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobsConfig {
    /// Number of complete checkpoints that are kept.
    pub checkpoint_keep: u32,
    /// The attempts without progress after which a job ends.
    pub no_progress_attempts_max: u32,
    /// The image that the machines of a job boot if the job names none.
    pub image: ImageSource,
    /// Permission for the machines of several teams to share one role.
    pub shared_role: SharedRole,
    /// The teams that have jobs.
    pub teams: JobTeams,
    /// True if people may open shells on the machines of jobs.
    pub ssh: bool,
    /// The owner of a job is notified once every GPU has been idle for so long.
    pub idle_after: IdleAfter,
    /// The most GPUs of all machines of any job together; a team may have fewer.
    #[serde(deserialize_with = "checks::gpus")]
    pub gpus_max: Option<u32>,
    /// The most USD an hour that all machines of any job may cost together; a team may have less.
    #[serde(deserialize_with = "checks::usd_per_hour")]
    pub usd_per_hour_max: Option<f64>,
    /// The reservation in USD above which the command asks a person before it submits a job.
    #[serde(deserialize_with = "checks::threshold")]
    pub confirm_above_usd: f64,
    /// Its former place: empty, or an error that says where the profiles stand now.
    #[serde(skip_serializing)]
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
            ssh: true,
            idle_after: IdleAfter(Some(SignedDuration::from_hours(1))),
            gpus_max: None,
            usd_per_hour_max: None,
            confirm_above_usd: 100.0,
            instance_profiles: checks::MovedProfiles,
        }
    }
}

/// Permission for the machines of several teams to get the role that Curfew's stack makes for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedRole {
    /// Each team has a role of its own as soon as the account has more than one team.
    Deny,
    /// One role for all: the jobs of each team can read, and spoil, the checkpoints of all.
    Allow,
}

/// The teams that have jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobTeams {
    /// The teams that the configuration names, once it names one.
    Configured,
    /// One for each folder.
    Any,
}

/// A time of idleness after which people are notified; `None`, written `off`: they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleAfter(pub Option<SignedDuration>);

/// The shortest idleness of a job that matters: between two epochs, or while it writes a checkpoint, a command uses no GPU for minutes.
pub const JOB_IDLE_MIN: SignedDuration = SignedDuration::from_mins(5);

/// The longest that a machine remembers.
pub const JOB_IDLE_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

const OFF: &str = "off";

impl<'de> Deserialize<'de> for IdleAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == OFF {
            return Ok(Self(None));
        }
        let after = parse(&text).map_err(|error| serde::de::Error::custom(format!("{error}; or `{OFF}`")))?;
        if !(JOB_IDLE_MIN..=JOB_IDLE_MAX).contains(&after) {
            let [least, most] = [JOB_IDLE_MIN, JOB_IDLE_MAX].map(format_exact_duration);
            let problem = format!("`{text}` is not possible; write {least} to {most}, or `{OFF}`");
            return Err(serde::de::Error::custom(problem));
        }
        Ok(Self(Some(after)))
    }
}

impl Serialize for IdleAfter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.map_or_else(|| OFF.to_owned(), format_exact_duration))
    }
}
