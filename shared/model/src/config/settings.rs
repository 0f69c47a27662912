//! A configuration's way back to its document: every value in force by its key, and where it comes from.

use std::fmt;

use jiff::SignedDuration;
use serde::Serialize;
use serde_json::Value;
use toml::de::DeTable;

use super::{
    AccountConfig, Config, DiskPolicy, IdleConfig, JobsConfig, LifetimeConfig, LimitsConfig, ManagedConfig,
    MetricsConfig, OverBudget, PricesConfig, SeriesNames, TagKeys, TeamConfig, UntaggedConfig, VolumesConfig,
};
use crate::document::{dotted, position, quoted, written_at};
use crate::duration;
use crate::mode::Mode;

/// Comments begin here, where the value leaves room: so that they can be read down.
const COMMENT_COLUMN: usize = 48;

/// Every value in force, by section, in the order of `docs/reference.md`. Shown, it is a document that means the same.
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
    /// Where it comes from.
    pub source: SettingSource,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SettingSource {
    /// The document does not say.
    Default,
    /// The document, on that line, from 1.
    Document { line: usize },
}

impl Settings {
    /// What this configuration says; every value as by default.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        // Taken apart by name: a key that is added does not compile until it is listed.
        let Config {
            mode,
            regions,
            tags,
            managed,
            untagged,
            idle,
            metrics,
            lifetime,
            volumes,
            limits,
            jobs,
            account,
            prices,
            teams,
        } = config;
        let MetricsConfig { nvidia, amd, neuron } = metrics;
        let mut sections = vec![
            section(&[], [Some(("mode", to_value(mode))), Some(("regions", to_value(regions)))]),
            tags_section(tags),
            managed_section(managed),
            untagged_section(untagged),
            idle_section(idle),
        ];
        sections.extend(nvidia.iter().map(|names| series_section("nvidia", names)));
        sections.extend([
            lifetime_section(lifetime),
            limits_section(limits),
            volumes_section(volumes),
            jobs_section(jobs),
        ]);
        sections.extend([account_section(account), prices_section(prices)]);
        sections.extend(teams.iter().map(|(name, team)| team_section(name.as_str(), team)));
        sections.extend(neuron.iter().map(|names| series_section("neuron", names)));
        sections.extend(amd.iter().map(|names| series_section("amd", names)));
        Self { sections }
    }

    /// What this configuration says, and where in the document that it was read from.
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
        instance_profiles: vec![String::new()],
    };
    let names = || Some(SeriesNames::default());
    let metrics = MetricsConfig { nvidia: names(), amd: names(), neuron: names() };
    let teams = [("NAME".into(), team)].into();
    let account = AccountConfig { monthly_budget_usd: Some(0.0), ..AccountConfig::default() };
    let prices = PricesConfig { discount_percent: [("FAMILY".to_owned(), 0.0)].into() };
    let settings = Settings::from_config(&Config { metrics, account, prices, teams, ..Config::default() });
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

fn to_value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn duration_value(of: &SignedDuration) -> Value {
    Value::from(duration::format_exact_duration(*of))
}

fn section<const N: usize>(path: &[&str], settings: [Option<(&str, Value)>; N]) -> SettingsSection {
    let setting = |(key, value): (&str, Value)| Setting { key: key.to_owned(), value, source: SettingSource::Default };
    SettingsSection {
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        source: SettingSource::Default,
        settings: settings.into_iter().flatten().map(setting).collect(),
    }
}

fn tags_section(TagKeys { team, owner, required }: &TagKeys) -> SettingsSection {
    let settings = [("team", to_value(team)), ("owner", to_value(owner)), ("required", to_value(required))];
    section(&["tags"], settings.map(Some))
}

fn managed_section(ManagedConfig { tag_keys }: &ManagedConfig) -> SettingsSection {
    section(&["managed"], [Some(("tag_keys", to_value(tag_keys)))])
}

fn untagged_section(UntaggedConfig { mode, settle, grace, action, spare_busy }: &UntaggedConfig) -> SettingsSection {
    let settings = [
        ("mode", to_value(mode)),
        ("settle", duration_value(settle)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
        ("spare_busy", to_value(spare_busy)),
    ];
    section(&["untagged"], settings.map(Some))
}

fn idle_section(idle: &IdleConfig) -> SettingsSection {
    let IdleConfig {
        gpu_below_percent,
        window,
        coverage_min_percent,
        cpu_below_vcpus,
        network_below_mbps,
        disk_below_mbps,
        gpu_memory_held_mib,
        boot_grace,
        grace,
        action,
        local_disk,
    } = idle;
    let settings = [
        ("gpu_below_percent", to_value(gpu_below_percent)),
        ("window", duration_value(window)),
        ("coverage_min_percent", to_value(coverage_min_percent)),
        ("cpu_below_vcpus", to_value(cpu_below_vcpus)),
        ("network_below_mbps", to_value(network_below_mbps)),
        ("disk_below_mbps", to_value(disk_below_mbps)),
        ("gpu_memory_held_mib", to_value(gpu_memory_held_mib)),
        ("boot_grace", duration_value(boot_grace)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
        ("local_disk", to_value(local_disk)),
    ];
    section(&["idle"], settings.map(Some))
}

fn series_section(kind: &str, names: &SeriesNames) -> SettingsSection {
    let SeriesNames {
        namespace,
        utilization,
        utilization_unit,
        memory_used_mib,
        device_dimension,
        instance_dimension,
        host_dimension,
        series_per_device,
    } = names;
    let settings = [
        ("namespace", to_value(namespace)),
        ("utilization", to_value(utilization)),
        ("utilization_unit", to_value(utilization_unit)),
        ("memory_used_mib", to_value(memory_used_mib)),
        ("device_dimension", to_value(device_dimension)),
        ("instance_dimension", to_value(instance_dimension)),
        ("host_dimension", to_value(host_dimension)),
        ("series_per_device", to_value(series_per_device)),
    ];
    section(&["metrics", kind], settings.map(Some))
}

fn lifetime_section(LifetimeConfig { max, grace, action }: &LifetimeConfig) -> SettingsSection {
    let settings = [("max", duration_value(max)), ("grace", duration_value(grace)), ("action", to_value(action))];
    section(&["lifetime"], settings.map(Some))
}

fn limits_section(LimitsConfig { actions_max, fleet_share_max_percent }: &LimitsConfig) -> SettingsSection {
    let settings =
        [("actions_max", to_value(actions_max)), ("fleet_share_max_percent", to_value(fleet_share_max_percent))];
    section(&["limits"], settings.map(Some))
}

fn volumes_section(VolumesConfig { orphaned_after, grace, action, keep_snapshots }: &VolumesConfig) -> SettingsSection {
    let settings = [
        ("orphaned_after", duration_value(orphaned_after)),
        ("grace", duration_value(grace)),
        ("action", to_value(action)),
        ("keep_snapshots", duration_value(keep_snapshots)),
    ];
    section(&["volumes"], settings.map(Some))
}

fn jobs_section(
    JobsConfig { checkpoint_keep, no_progress_attempts_max, image, shared_role, instance_profiles: _ }: &JobsConfig,
) -> SettingsSection {
    let settings = [
        ("checkpoint_keep", to_value(checkpoint_keep)),
        ("no_progress_attempts_max", to_value(no_progress_attempts_max)),
        ("image", to_value(image)),
        ("shared_role", to_value(shared_role)),
    ];
    section(&["jobs"], settings.map(Some))
}

fn account_section(account: &AccountConfig) -> SettingsSection {
    let AccountConfig {
        monthly_budget_usd,
        notify_at_percent,
        over_budget,
        over_budget_grace,
        time_zone,
        cost_explorer,
    } = account;
    let settings = [
        monthly_budget_usd.as_ref().map(|usd| ("monthly_budget_usd", to_value(usd))),
        Some(("notify_at_percent", to_value(notify_at_percent))),
        Some(("over_budget", to_value(over_budget))),
        Some(("over_budget_grace", duration_value(over_budget_grace))),
        Some(("time_zone", to_value(time_zone))),
        Some(("cost_explorer", to_value(cost_explorer))),
    ];
    section(&["account"], settings)
}

fn prices_section(PricesConfig { discount_percent }: &PricesConfig) -> SettingsSection {
    let of_family = |(family, percent)| Setting {
        key: String::clone(family),
        value: to_value(percent),
        source: SettingSource::Default,
    };
    SettingsSection {
        settings: discount_percent.iter().map(of_family).collect(),
        ..section(&["prices", "discount_percent"], [])
    }
}

fn team_section(name: &str, team: &TeamConfig) -> SettingsSection {
    let TeamConfig { mode, email, local_disk, monthly_budget_usd, notify_at_percent, over_budget, instance_profiles } =
        team;
    let settings = [
        mode.as_ref().map(|mode| ("mode", to_value(mode))),
        local_disk.as_ref().map(|policy| ("local_disk", to_value(policy))),
        email.as_ref().map(|email| ("email", to_value(email))),
        monthly_budget_usd.as_ref().map(|usd| ("monthly_budget_usd", to_value(usd))),
        notify_at_percent.as_ref().map(|shares| ("notify_at_percent", to_value(shares))),
        over_budget.as_ref().map(|action| ("over_budget", to_value(action))),
        (!instance_profiles.is_empty()).then(|| ("instance_profiles", to_value(instance_profiles))),
    ];
    section(&["teams", name], settings)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

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
        [idle]
        gpu_below_percent = 7.5                          # line 2
        window = "1m30s"                                 # line 2
        [metrics.nvidia]
        [lifetime]
        [limits]
        [volumes]
        [jobs]
        [account]
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
