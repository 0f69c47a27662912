//! The configuration document `config/curfew.toml`: its sections, its defaults, and what is refused.
//!
//! Every value is checked while it is read, so that each mistake is reported with its line and key. Nothing here is
//! optional in use: an absent document, section or key means the default.

mod checks;
mod sections;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use sections::{
    DiskPolicy, Idle, Jobs, Lifetime, Limits, Managed, Metrics, OverBudget, Percent, RuleAction, SeriesNames, TagKeys,
    Team, Untagged, VolumeAction, Volumes,
};

use crate::fault::shortened;
use crate::id::{Region, TeamName};
use crate::mode::Mode;

/// Where the document lies in the state bucket.
pub const KEY: &str = "config/curfew.toml";

/// The largest document that is read, in bytes: a configuration is written by hand.
pub const BYTES_MAX: usize = 256 * 1024;

/// The most that an error repeats of the document, in characters: SNS would refuse one that repeats it all, and nobody
/// would hear that Curfew stands still.
const KEY_CHARACTERS_MAX: usize = 200;
const PROBLEM_CHARACTERS_MAX: usize = 1_000;

/// The whole configuration. `Config::default()` is what an absent document means.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The mode of a team that says nothing itself.
    pub mode: Mode,
    /// The regions to look at; empty means every enabled one.
    pub regions: Vec<Region>,
    /// The keys by which this account knows team and owner.
    #[serde(deserialize_with = "checks::table")]
    pub tags: TagKeys,
    /// What else belongs to somebody's own controller.
    #[serde(deserialize_with = "checks::table")]
    pub managed: Managed,
    /// GPU instances lacking a required tag.
    #[serde(deserialize_with = "checks::table")]
    pub untagged: Untagged,
    /// Idle GPU instances.
    #[serde(deserialize_with = "checks::table")]
    pub idle: Idle,
    /// By which metrics accelerators report.
    #[serde(deserialize_with = "checks::table")]
    pub metrics: Metrics,
    /// Instances that have run for too long.
    #[serde(deserialize_with = "checks::table")]
    pub lifetime: Lifetime,
    /// Orphaned volumes.
    #[serde(deserialize_with = "checks::table")]
    pub volumes: Volumes,
    /// How much one run may end.
    #[serde(deserialize_with = "checks::table")]
    pub limits: Limits,
    /// GPU jobs.
    #[serde(deserialize_with = "checks::table")]
    pub jobs: Jobs,
    /// What teams set for themselves, by the value of the team tag.
    #[serde(deserialize_with = "checks::tables")]
    pub teams: BTreeMap<TeamName, Team>,
}

/// Why a configuration was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{KEY}, line {line}, column {column}, key `{key}`: {problem}")]
pub struct ConfigError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The full key, such as `idle.window`; of the section where the key itself is unknown.
    pub key: String,
    /// What was wrong and what is legal.
    pub problem: String,
}

impl Config {
    /// Reads the document.
    ///
    /// # Errors
    /// On the first unknown key, wrong type or impossible value, with its line, column and key.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        let fault = |key: String, error: &toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let (line, column) = position(text, start);
            let key = shortened(&key, KEY_CHARACTERS_MAX);
            ConfigError { line, column, key, problem: shortened(error.message().trim(), PROBLEM_CHARACTERS_MAX) }
        };
        if text.len() > BYTES_MAX {
            let problem = format!("the document has {} bytes; {BYTES_MAX} are the most", text.len());
            return Err(ConfigError { line: 1, column: 1, key: "the whole document".to_owned(), problem });
        }
        let deserializer = toml::Deserializer::parse(text).map_err(|error| fault(key_on_line(text, &error), &error))?;
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = error.path().to_string();
            let key = if path == "." { key_on_line(text, error.inner()) } else { path };
            fault(key, error.inner())
        })
    }

    /// What a team set for itself, where it is named in the document.
    #[must_use]
    pub fn team(&self, name: &TeamName) -> Option<&Team> {
        self.teams.get(name)
    }
}

fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The text before `=` on the line of the error: what a reader would call the key, where the parser gives none.
fn key_on_line(text: &str, error: &toml::de::Error) -> String {
    let (line, _) = position(text, error.span().map_or(0, |span| span.start));
    let line = text.lines().nth(line - 1).unwrap_or_default();
    line.split('=').next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests;
