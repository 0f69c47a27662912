//! A configuration's way back to its document: every value in force by its key, and where it comes from.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use toml::de::DeTable;

use super::{
    AccountConfig, Config, DiskPolicy, IdleAfter, JobsConfig, MetricsConfig, OverBudget, PricesConfig, ReportConfig,
    SeriesNames, TeamConfig,
};
use crate::document::{dotted, position, quoted, written_at};
use crate::input_source::InputSource;
use crate::mode::Mode;

mod sections;

use sections::{
    account_section, idle_section, jobs_section, lifetime_section, limits_section, managed_section, prices_section,
    projects_section, report_section, sagemaker_section, section, series_section, tags_section, team_section, to_value,
    untagged_section, volumes_section,
};

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
}

impl Settings {
    /// Lists the values of this configuration, with the source of each as the default.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        // Taken apart by name: a key that is added does not compile until it is listed.
        let Config {
            mode,
            regions,
            tags,
            managed,
            untagged,
            projects,
            idle,
            metrics,
            lifetime,
            volumes,
            sagemaker,
            limits,
            jobs,
            account,
            report,
            prices,
            teams,
        } = config;
        let MetricsConfig { nvidia, amd, neuron } = metrics;
        let mut sections = vec![
            section(&[], [Some(("mode", to_value(mode))), Some(("regions", to_value(regions)))]),
            tags_section(tags),
            managed_section(managed),
            untagged_section(untagged),
            projects_section(projects),
            idle_section(idle),
        ];
        sections.extend(nvidia.iter().map(|names| series_section("nvidia", names)));
        sections.extend([
            lifetime_section(lifetime),
            limits_section(limits),
            volumes_section(volumes),
            sagemaker_section(sagemaker),
            jobs_section(jobs),
        ]);
        sections.extend([account_section(account), report_section(report), prices_section(prices)]);
        sections.extend(teams.iter().map(|(name, team)| team_section(name.as_str(), team)));
        sections.extend(neuron.iter().map(|names| series_section("neuron", names)));
        sections.extend(amd.iter().map(|names| series_section("amd", names)));
        Self { sections }
    }

    /// Lists the values of this configuration, each with its line in the document that the configuration was read from.
    #[must_use]
    pub fn from_document(config: &Config, document: &str) -> Self {
        let mut settings = Self::from_config(config);
        let (tree, _) = DeTable::parse_recoverable(document);
        let source = |path: &[&str]| match written_at(tree.get_ref(), path) {
            Some(byte) => SettingSource::Document { line: position(document, byte).0 },
            None => SettingSource::Default,
        };
        for section in &mut settings.sections {
            let path: Vec<&str> = section.path.iter().map(String::as_str).collect();
            section.source = source(&path);
            for setting in &mut section.settings {
                setting.source = source(&[path.as_slice(), &[setting.key.as_str()]].concat());
            }
        }
        settings
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
                    SettingSource::Document { .. } if settings.is_empty() => {
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
        }
    }
}

/// Every key that there is; a team is called `NAME`.
pub(super) fn every_key() -> Vec<String> {
    let team = TeamConfig {
        mode: Some(Mode::Observe),
        email: Some(String::new()),
        local_disk: Some(DiskPolicy::Keep),
        monthly_budget_usd: Some(0.0),
        notify_at_percent: Some(Vec::new()),
        over_budget: Some(OverBudget::Notify),
        gpus_max: Some(0),
        usd_per_hour_max: Some(0.0),
        instance_profiles: vec![String::new()],
        subnets: vec![String::new()],
        security_groups: vec![String::new()],
        images: vec![String::new()],
        buckets: InputSource::read("s3://bucket").into_iter().collect(),
        idle_after: Some(IdleAfter(None)),
    };
    let names = || Some(SeriesNames::default());
    let metrics = MetricsConfig { nvidia: names(), amd: names(), neuron: names() };
    let teams = [("NAME".into(), team)].into();
    let account = AccountConfig { monthly_budget_usd: Some(0.0), ..AccountConfig::default() };
    let prices = PricesConfig { discount_percent: [("FAMILY".to_owned(), 0.0)].into() };
    let report = ReportConfig { sender: Some(String::new()), email: Some(String::new()) };
    let jobs = JobsConfig { gpus_max: Some(0), usd_per_hour_max: Some(0.0), ..JobsConfig::default() };
    let settings =
        Settings::from_config(&Config { metrics, jobs, account, report, prices, teams, ..Config::default() });
    settings.values().map(|setting| setting.key).collect()
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
    use crate::config::ManagedConfig;

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
        [metrics.nvidia]
        [lifetime]
        [limits]
        [volumes]
        [sagemaker]
        [jobs]
        [account]
        [report]
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
