//! One configuration for the accounts of an organization: the hub's lines, an account's own, and those that count.

mod copy;
mod hub;
mod lines;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value;

use super::{Config, ConfigError, DOCUMENT, SettingSource, Settings, as_toml};
use crate::document::dotted;
pub use copy::{ConfigInForce, HUB_COPY_KEY, HubAnswer, HubCopy, HubDocument, HubStatus};
pub use hub::{HubConfig, SHARING_ACCOUNTS_MAX};
use lines::{Line, Lines};
pub use rules::{KeyRule, Order, key_rules};
use rules::{key_of_all_teams, key_rule, rank};

/// The configuration in force in one account of an organization.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    pub config: Config,
    /// Every value in force, each with its source.
    pub settings: Settings,
    /// The account's lines that do not count, in the order of its document.
    pub ignored: Vec<IgnoredLine>,
}

/// A line of an account's own configuration that does not count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IgnoredLine {
    /// The line, from 1.
    pub line: usize,
    /// The full key.
    pub key: String,
    pub value: Value,
    /// The line of the hub that counts instead, from 1; `None`: the default.
    pub hub_line: Option<usize>,
    /// The value in force instead; `None`: the key has none, and what holds for all teams counts.
    pub in_force: Option<Value>,
    pub reason: IgnoreReason,
}

/// Reason for a line that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IgnoreReason {
    /// Looser than the hub's line.
    Looser,
    /// The hub alone decides about this key, by its line or by the default.
    HubDecides,
    /// Less careful than the default, and the hub has no line.
    LessCareful,
}

impl fmt::Display for IgnoredLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key, value, hub_line, in_force, reason } = self;
        write!(f, "line {line}, key `{key}`: {} does not count", as_toml(value))?;
        let absent = if key.starts_with("teams.") { "what holds for all teams" } else { "no value" };
        let shown = in_force.as_ref().map_or_else(|| absent.to_owned(), as_toml);
        match (reason, hub_line) {
            (IgnoreReason::Looser, Some(hub)) => {
                write!(f, ", but {shown}: line {hub} of the hub is stricter")
            }
            (_, Some(hub)) => write!(f, ", but {shown}: line {hub} of the hub decides"),
            (IgnoreReason::HubDecides, None) => write!(f, ", but {shown}: the hub alone decides, and has no line"),
            (_, None) => write!(f, ", but {shown}: only the hub can be less careful than the default"),
        }
    }
}

/// The line that counts for a key.
enum Winner {
    Hub,
    Own,
    /// Neither: the key stays unwritten.
    Nothing,
}

struct Layers<'a, 't> {
    hub: &'a HubConfig<'t>,
    account: &'a str,
    hub_lines: Lines<'t>,
    hub_values: Values,
    own_lines: Lines<'t>,
    own_values: Values,
}

type Values = BTreeMap<String, Value>;

/// The defaults by key.
static DEFAULTS: LazyLock<Values> = LazyLock::new(|| values_of(&Config::default()));

fn values_of(config: &Config) -> Values {
    Settings::from_config(config).values().map(|setting| (setting.key, setting.value)).collect()
}

/// An empty list, which is not shown.
static NO_ITEMS: LazyLock<Value> = LazyLock::new(|| Value::Array(Vec::new()));

/// The value of a key that is written.
fn written<'v>(lines: &Lines<'_>, values: &'v Values, path: &[String]) -> Option<&'v Value> {
    lines.values.contains_key(path).then(|| values.get(&key_of(path)).unwrap_or(&NO_ITEMS))
}

fn key_of(path: &[impl AsRef<str>]) -> String {
    dotted(path.iter().map(AsRef::as_ref))
}

impl Overlay {
    /// The configuration in force in `account`, whose own document is `own`.
    ///
    /// # Errors
    /// If the account's own document is refused.
    pub fn new(hub: &HubConfig<'_>, account: &str, own: &str) -> Result<Self, ConfigError> {
        let own_tree = DOCUMENT.parse(own)?;
        let own_config: Config = DOCUMENT.read_table(own, &own_tree, &[])?;
        let hub_lines = hub.lines_for(account);
        let hub_config: Config = DOCUMENT.read_table("", &hub_lines.clone().into_tree(), &[])?;
        let layers = Layers {
            hub,
            account,
            hub_values: values_of(&hub_config),
            hub_lines,
            own_values: values_of(&own_config),
            own_lines: Lines::new(own, &own_tree),
        };
        layers.merge()
    }
}

impl<'t> Layers<'_, 't> {
    fn merge(self) -> Result<Overlay, ConfigError> {
        let mut lines = Lines { values: BTreeMap::new(), empty: self.hub_lines.empty.clone() };
        lines.empty.extend(self.own_lines.empty.clone());
        let mut sources: BTreeMap<Vec<String>, SettingSource> = BTreeMap::new();
        let mut ignored = Vec::new();
        let paths: BTreeSet<&Vec<String>> = self.hub_lines.values.keys().chain(self.own_lines.values.keys()).collect();
        for path in paths {
            let (winner, reason) = self.winner(path);
            let (line, source): (Option<&Line<'t>>, _) = match winner {
                Winner::Hub => {
                    let line = self.hub_lines.values.get(path);
                    (line, line.map(|line| SettingSource::Hub { line: line.number }))
                }
                Winner::Own => {
                    let line = self.own_lines.values.get(path);
                    (line, line.map(|line| SettingSource::Document { line: line.number }))
                }
                Winner::Nothing => (None, None),
            };
            if let (Some(line), Some(source)) = (line, source) {
                lines.values.insert(path.clone(), line.clone());
                sources.insert(path.clone(), source);
            } else if is_team(path) {
                // The section still names its team.
                let section: Vec<String> = path.iter().take(2).cloned().collect();
                let number = self.own_lines.section(&section).unwrap_or_default();
                lines.empty.entry(section).or_insert(number);
            }
            ignored.extend(reason.and_then(|reason| self.ignored_line(path, &winner, reason)));
        }
        // Sections with a value are not empty, and of those of both documents the hub's is named.
        let section_source = |path: &[String]| match (self.hub_lines.section(path), self.own_lines.section(path)) {
            (Some(line), _) => SettingSource::Hub { line },
            (None, Some(line)) => SettingSource::Document { line },
            (None, None) => SettingSource::Default,
        };
        let config: Config = DOCUMENT.read_table("", &lines.into_tree(), &[])?;
        let config = Config { shared_budgets: self.hub.shared_budgets().clone(), ..config };
        let source_of = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
            sources.get(&path).copied().unwrap_or(SettingSource::Default)
        };
        let section_of = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
            section_source(&path)
        };
        let settings = Settings::from_config(&config).with_sources(section_of, source_of);
        // An empty list of a team takes a list of the hub back.
        let settings = sources
            .iter()
            .filter(|(path, _)| is_team(path))
            .fold(settings, |settings, (path, source)| settings.with_empty_list(path, *source));
        ignored.sort_by_key(|ignored| ignored.line);
        Ok(Overlay { config, settings, ignored })
    }

    /// The line that counts, and the reason if the account's does not.
    fn winner(&self, path: &[String]) -> (Winner, Option<IgnoreReason>) {
        let key = key_of(path);
        let hub = written(&self.hub_lines, &self.hub_values, path);
        let instead = if hub.is_some() { Winner::Hub } else { Winner::Nothing };
        let Some(own) = written(&self.own_lines, &self.own_values, path) else { return (instead, None) };
        // An amount of its own would be compared with what all accounts spend.
        if self.hub.is_shared_budget(self.account, path) {
            return (instead, (hub != Some(own)).then_some(IgnoreReason::HubDecides));
        }
        if self.hub.leaves(self.account, path) {
            return (Winner::Own, None);
        }
        // Names of metrics belong together.
        let has_section = matches!(path, [metrics, _, _] if metrics == "metrics")
            && self.hub_lines.section(path.get(..2).unwrap_or_default()).is_some();
        if hub == Some(own) {
            return (Winner::Hub, None);
        }
        let all_teams = key_of_all_teams(path);
        let hub = hub.or_else(|| written(&self.hub_lines, &self.hub_values, all_teams.as_deref()?));
        // Nothing of a hub without lines adds up with a line of the account.
        let is_alone = self.hub_lines.values.is_empty();
        let (counts, reason) = match (key_rule(path), hub) {
            (KeyRule::Account, _) => (true, IgnoreReason::HubDecides),
            (KeyRule::HubOnly, hub) => {
                let is_default = DEFAULTS.get(&key) == Some(own);
                (hub.is_none() && (is_alone || is_default), IgnoreReason::HubDecides)
            }
            (KeyRule::Hub, None) => (!has_section, IgnoreReason::HubDecides),
            (KeyRule::Hub, Some(_)) => (false, IgnoreReason::HubDecides),
            (KeyRule::Stricter(_), None) => (true, IgnoreReason::Looser),
            (KeyRule::Stricter(order), Some(hub)) => (order.is_at_least(own, hub), IgnoreReason::Looser),
            (KeyRule::Careful(_), Some(hub)) => (own == hub, IgnoreReason::HubDecides),
            (KeyRule::Careful(order), None) => {
                let default = DEFAULTS.get(&key).or_else(|| DEFAULTS.get(&key_of(all_teams.as_deref()?)));
                // Without a default, no value is the most careful one.
                let is_careful = default.is_some_and(|default| order.is_at_least(own, default));
                (is_alone || is_careful, IgnoreReason::LessCareful)
            }
            (KeyRule::Action(actions), hub) => {
                let base = hub.or_else(|| DEFAULTS.get(&key));
                let harshness = (rank(&actions, own), base.and_then(|base| rank(&actions, base)));
                let can_be_undone = actions.last().is_some_and(|last| own != last);
                match hub {
                    Some(_) if harshness.0 < harshness.1 => (false, IgnoreReason::Looser),
                    Some(_) => (can_be_undone, IgnoreReason::HubDecides),
                    None => (is_alone || can_be_undone || harshness.0 <= harshness.1, IgnoreReason::LessCareful),
                }
            }
        };
        if counts { (Winner::Own, None) } else { (instead, Some(reason)) }
    }

    fn ignored_line(&self, path: &[String], winner: &Winner, reason: IgnoreReason) -> Option<IgnoredLine> {
        let key = key_of(path);
        let section = path.get(..2).filter(|_| path.first().is_some_and(|first| first == "metrics"));
        let hub_line = self
            .hub_lines
            .number(path)
            .or_else(|| self.hub_lines.number(&key_of_all_teams(path)?))
            .or_else(|| self.hub_lines.section(section?));
        let in_force = match winner {
            Winner::Hub => written(&self.hub_lines, &self.hub_values, path),
            Winner::Own | Winner::Nothing => DEFAULTS.get(&key),
        };
        let value = written(&self.own_lines, &self.own_values, path)?.clone();
        Some(IgnoredLine {
            line: self.own_lines.number(path)?,
            key,
            value,
            hub_line,
            in_force: in_force.cloned(),
            reason,
        })
    }
}

fn is_team(path: &[String]) -> bool {
    path.len() == 3 && path.first().is_some_and(|first| first == "teams")
}

#[cfg(test)]
mod tests;
