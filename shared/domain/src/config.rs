//! The configuration document `config/curfew.toml`: its sections, its defaults, and what is refused.
//!
//! Every value is checked while it is read, so that each mistake is reported with its line and key. Nothing here is
//! optional in use: an absent document, section or key means the default.

mod changes;
mod checks;
mod mistakes;
mod notes;
mod regions;
mod sections;
mod settings;
mod words;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

pub use changes::{Change, changes, teams_lost};
pub use mistakes::{MISTAKES_MAX, mistakes};
pub use notes::{Note, notes};
pub use regions::{misshapen_regions, unknown_regions};

pub use sections::{
    Account, DiskPolicy, Idle, Jobs, Lifetime, Limits, Managed, Metrics, OverBudget, Percent, Prices, RuleAction,
    SeriesNames, TagKeys, Team, Untagged, VolumeAction, Volumes,
};
pub use settings::{Setting, Settings, Source, as_toml};

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
    /// The budget above those of the teams.
    #[serde(deserialize_with = "checks::table")]
    pub account: Account,
    /// What this account pays less than the list says.
    #[serde(deserialize_with = "checks::table")]
    pub prices: Prices,
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

/// A refusal, and where in the tree of the document its reason lies.
struct Refused {
    error: ConfigError,
    path: serde_path_to_error::Path,
    at: Range<usize>,
}

impl Config {
    /// Reads the document.
    ///
    /// # Errors
    /// On the first unknown key, wrong type or impossible value, with its line, column and key.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        check_size(text)?;
        let tree = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
        take(text, tree).map_err(|refused| refused.error)
    }

    /// Reads the document from its bytes.
    ///
    /// # Errors
    /// As [`Config::read`], and where a byte is no UTF-8.
    pub fn read_bytes(document: &[u8]) -> Result<Self, ConfigError> {
        Self::read(utf8(document)?)
    }

    /// What a team set for itself, where it is named in the document.
    #[must_use]
    pub fn team(&self, name: &TeamName) -> Option<&Team> {
        self.teams.get(name)
    }
}

fn check_size(text: &str) -> Result<(), ConfigError> {
    if text.len() <= BYTES_MAX {
        return Ok(());
    }
    let problem = format!("the document has {} bytes; {BYTES_MAX} are the most", text.len());
    Err(ConfigError { line: 1, column: 1, key: "the whole document".to_owned(), problem })
}

fn utf8(document: &[u8]) -> Result<&str, ConfigError> {
    std::str::from_utf8(document).map_err(|error| {
        let before = String::from_utf8_lossy(document.get(..error.valid_up_to()).unwrap_or_default());
        let (line, column) = position(&before, before.len());
        let problem = "here is a byte that is no UTF-8; save the document as UTF-8".to_owned();
        ConfigError { line, column, key: "the whole document".to_owned(), problem }
    })
}

/// What a parsed document means.
fn take(text: &str, tree: Spanned<DeTable<'_>>) -> Result<Config, Refused> {
    serde_path_to_error::deserialize(toml::Deserializer::from(tree)).map_err(|error| {
        let named = error.path().to_string();
        let key = if named == "." { key_on_line(text, error.inner()) } else { named };
        let at = error.inner().span().unwrap_or_default();
        Refused { error: fault(text, &key, error.inner()), path: error.path().clone(), at }
    })
}

fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let mut fault = fault(text, &key_on_line(text, error), error);
    let line = text.lines().nth(fault.line - 1).unwrap_or_default();
    if let Some(amount) = words::amount(line) {
        fault.problem = shortened(&amount, PROBLEM_CHARACTERS_MAX);
    }
    fault
}

fn fault(text: &str, key: &str, error: &toml::de::Error) -> ConfigError {
    let (line, column) = position(text, error.span().map_or(0, |span| span.start));
    let problem = words::in_words(key, error.message().trim());
    let key = shortened(key, KEY_CHARACTERS_MAX);
    ConfigError { line, column, key, problem: shortened(&problem, PROBLEM_CHARACTERS_MAX) }
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
