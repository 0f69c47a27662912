//! A configuration's way back to its document: every value in force by its key, and where it comes from.

use std::fmt;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Map, Value};
use toml::de::DeTable;

use super::Config;
use crate::document::{dotted, position, quoted, section_keys, written_at};

/// Comments begin here, where the value leaves room: so that they can be read down.
const COMMENT_COLUMN: usize = 48;

/// Every value in force, by section, in the order of `docs/configuration.md`. Shown, it is a document that means the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    sections: Vec<SettingsSection>,
}

#[derive(Debug, Clone, PartialEq)]
struct SettingsSection {
    path: Vec<String>,
    source: SettingSource,
    settings: Vec<Setting>,
}

/// One value in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The full key, such as `idle.window`, quoted where TOML wants it.
    pub key: String,
    pub value: Value,
    /// Source of the value.
    pub source: SettingSource,
}

/// Source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SettingSource {
    /// The document does not say.
    Default,
    /// The document, on that line, from 1.
    Document { line: usize },
    /// The document of the organization's hub, on that line, from 1.
    Hub { line: usize },
}

impl Settings {
    /// Lists the values of this configuration, with the source of each as the default.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        let mut sections = Vec::new();
        if let Ok(Value::Object(values)) = serde_json::to_value(config) {
            add_sections(&[], &values, &mut sections);
        }
        // They have no default, so they come last, as in docs/configuration.md.
        sections.sort_by_key(|section| ["neuron", "amd"].iter().position(|kind| section.path == ["metrics", kind]));
        Self { sections }
    }

    /// Lists the values of this configuration, each with its line in the document that the configuration was read from.
    #[must_use]
    pub fn from_document(config: &Config, document: &str) -> Self {
        let (tree, _) = DeTable::parse_recoverable(document);
        let source = |path: &[&str]| match written_at(tree.get_ref(), path) {
            Some(byte) => SettingSource::Document { line: position(document, byte).0 },
            None => SettingSource::Default,
        };
        Self::from_config(config).with_sources(source, source)
    }

    /// These values with the source of each section, and of each value, by its path.
    pub(super) fn with_sources(
        mut self,
        section_source: impl Fn(&[&str]) -> SettingSource,
        value_source: impl Fn(&[&str]) -> SettingSource,
    ) -> Self {
        for section in &mut self.sections {
            let path: Vec<&str> = section.path.iter().map(String::as_str).collect();
            section.source = section_source(&path);
            for setting in &mut section.settings {
                setting.source = value_source(&[path.as_slice(), &[setting.key.as_str()]].concat());
            }
        }
        self
    }

    /// These values, and an empty list at this path: one that a document has, and that is not shown where it changes nothing.
    pub(super) fn with_empty_list(mut self, path: &[String], source: SettingSource) -> Self {
        if let Some((key, within)) = path.split_last()
            && let Some(section) = self.sections.iter_mut().find(|section| section.path == within)
            && !section.settings.iter().any(|setting| setting.key == *key)
        {
            section.settings.push(Setting { key: key.clone(), value: Value::Array(Vec::new()), source });
        }
        self
    }

    /// Every value by its full key.
    pub fn values(&self) -> impl Iterator<Item = Setting> {
        self.sections.iter().flat_map(|section| {
            let of_section = |setting: &Setting| Setting {
                key: dotted(section.path.iter().chain([&setting.key]).map(String::as_str)),
                ..setting.clone()
            };
            section.settings.iter().map(of_section)
        })
    }
}

/// A document: each line says where its value comes from.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for SettingsSection { path, source, settings } in &self.sections {
            if !path.is_empty() {
                let heading = format!("[{}]", dotted(path.iter().map(String::as_str)));
                match source {
                    // Of a section without a value nothing else would say it.
                    SettingSource::Document { .. } | SettingSource::Hub { .. } if settings.is_empty() => {
                        writeln!(f, "\n{heading:COMMENT_COLUMN$} # {source}")?;
                    }
                    _ => writeln!(f, "\n{heading}")?,
                }
            }
            for Setting { key, value, source } in settings {
                let line = format!("{key} = {}", as_toml(value));
                writeln!(f, "{line:COMMENT_COLUMN$} # {source}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Document { line } => write!(f, "line {line}"),
            Self::Hub { line } => write!(f, "hub, line {line}"),
        }
    }
}

/// Adds the section at this path, and those within it, each with its keys in the order of their declaration. An optional value that is
/// absent, null here, has no key; a section that only holds others has no heading.
fn add_sections(path: &[&str], values: &Map<String, Value>, sections: &mut Vec<SettingsSection>) {
    let order = section_keys::<Config>(path).unwrap_or_default();
    let mut values: Vec<(&String, &Value)> = values.iter().filter(|(_, value)| !value.is_null()).collect();
    values.sort_by_key(|(key, _)| order.iter().position(|declared| declared == key));
    let (within, settings): (Vec<_>, Vec<_>) = values.into_iter().partition(|(_, value)| value.is_object());
    if within.is_empty() || !settings.is_empty() {
        let source = SettingSource::Default;
        let setting = |(key, value): (&String, &Value)| Setting { key: key.clone(), value: value.clone(), source };
        let path = path.iter().map(|&key| key.to_owned()).collect();
        sections.push(SettingsSection { path, source, settings: settings.into_iter().map(setting).collect() });
    }
    for (key, value) in within {
        if let Value::Object(values) = value {
            add_sections(&[path, &[key.as_str()]].concat(), values, sections);
        }
    }
}

/// Every key that there is; one that people choose, such as that of a team, is `NAME`.
pub(super) fn every_key() -> Vec<String> {
    // Every unknown key of a document asks for them.
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| keys_within(&[]));
    KEYS.clone()
}

fn keys_within(path: &[&str]) -> Vec<String> {
    match section_keys::<Config>(path) {
        Some(keys) => keys.iter().flat_map(|&key| keys_within(&[path, &[key]].concat())).collect(),
        // It only says where it has moved.
        None if *path == ["jobs", "instance_profiles"] => Vec::new(),
        None => vec![dotted(path.iter().copied())],
    }
}

/// A value as it is written in the document.
#[must_use]
pub fn as_toml(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(as_toml).collect::<Vec<_>>().join(", ")),
        // As people write it: every number that is whole is written as such.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::config::{ManagedConfig, TeamConfig};

    #[test]
    fn shown_with_where_each_comes_from() {
        let document = "mode = \"enforce\"\nidle = { window = \"90s\", gpu_below_percent = 7.5 }\n[teams.\"a b\"]\n[teams.vision]\n\
                        monthly_budget_usd = 5000\n";
        let config = Config::read(document).unwrap();
        let shown = Settings::from_document(&config, document).to_string();
        let said: Vec<&str> = shown.lines().filter(|line| line.contains("# line") || line.starts_with('[')).collect();
        assert_snapshot!(said.join("\n"), @r#"
        mode = "enforce"                                 # line 1
        [tags]
        [managed]
        [untagged]
        [projects]
        [idle]
        gpu_below_percent = 7.5                          # line 2
        window = "1m30s"                                 # line 2
        [gangs]
        [metrics.nvidia]
        [lifetime]
        [limits]
        [volumes]
        [reservations]
        [file_systems]
        [sagemaker]
        [jobs]
        [boxes]
        [account]
        [report]
        [notify]
        [prices.discount_percent]
        [teams."a b"]                                    # line 3
        [teams.vision]
        monthly_budget_usd = 5000                        # line 5
        "#);
        assert_eq!(Config::read(&shown), Ok(config));
    }

    #[test]
    fn texts_survive_whatever_they_are_made_of() {
        let keys: Vec<String> = ["\u{7f}\u{0}\t\"\\", "💤", " ", "a.b", "'"].map(str::to_owned).into();
        let teams = ["\"\\", "💤", "a.b", "'"].map(|name| (name.into(), TeamConfig::default())).into();
        let config = Config { teams, managed: ManagedConfig { tag_keys: keys }, ..Config::default() };
        assert_eq!(Config::read(&Settings::from_config(&config).to_string()), Ok(config));
    }
}
