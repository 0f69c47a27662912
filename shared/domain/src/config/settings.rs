//! A configuration's way back to its document: every value in force by its key, and where it comes from.

use std::fmt;

use jiff::SignedDuration;
use serde::Serialize;
use serde_json::Value;
use toml::de::DeTable;

use super::{
    Account, Config, DiskPolicy, Idle, Jobs, Lifetime, Limits, Managed, Metrics, OverBudget, Prices, SeriesNames,
    TagKeys, Team, Untagged, Volumes,
};
use crate::document::{dotted, position, quoted, written_at};
use crate::duration;
use crate::mode::Mode;

/// Comments begin here, where the value leaves room: so that they can be read down.
const COMMENT_COLUMN: usize = 48;

/// Every value in force, by section, in the order of `docs/reference.md`. Shown, it is a document that means the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq)]
struct Section {
    path: Vec<String>,
    source: Source,
    settings: Vec<Setting>,
}

/// One value in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The full key, such as `idle.window`, quoted where TOML wants it.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// The document does not say.
    Default,
    /// The document, on that line, from 1.
    Document {
        /// The line.
        line: usize,
    },
}

impl Settings {
    /// What this configuration says; every value as by default.
    #[must_use]
    pub fn of(config: &Config) -> Self {
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
        let Metrics { nvidia, amd, neuron } = metrics;
        let mut sections = vec![
            section(&[], [Some(("mode", value(mode))), Some(("regions", value(regions)))]),
            of_tags(tags),
            of_managed(managed),
            of_untagged(untagged),
            of_idle(idle),
        ];
        sections.extend(nvidia.iter().map(|names| of_series("nvidia", names)));
        sections.extend([of_lifetime(lifetime), of_limits(limits), of_volumes(volumes), of_jobs(jobs)]);
        sections.extend([of_account(account), of_prices(prices)]);
        sections.extend(teams.iter().map(|(name, team)| of_team(name.as_str(), team)));
        sections.extend(neuron.iter().map(|names| of_series("neuron", names)));
        sections.extend(amd.iter().map(|names| of_series("amd", names)));
        Self { sections }
    }

    /// What this configuration says, and where in the document that it was read from.
    #[must_use]
    pub fn from_document(config: &Config, document: &str) -> Self {
        let mut settings = Self::of(config);
        let (tree, _) = DeTable::parse_recoverable(document);
        let source = |path: &[&str]| match written_at(tree.get_ref(), path) {
            Some(byte) => Source::Document { line: position(document, byte).0 },
            None => Source::Default,
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
        for Section { path, source, settings } in &self.sections {
            if !path.is_empty() {
                let heading = format!("[{}]", dotted(path.iter().map(String::as_str)));
                match source {
                    // Of a section without a value nothing else would say it.
                    Source::Document { .. } if settings.is_empty() => {
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

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Document { line } => write!(f, "line {line}"),
        }
    }
}

/// Every key that there is; a team is called `NAME`.
pub(super) fn every_key() -> Vec<String> {
    let team = Team {
        mode: Some(Mode::Observe),
        email: Some(String::new()),
        local_disk: Some(DiskPolicy::Keep),
        monthly_budget_usd: Some(0.0),
        notify_at_percent: Some(Vec::new()),
        over_budget: Some(OverBudget::Notify),
    };
    let names = || Some(SeriesNames::default());
    let metrics = Metrics { nvidia: names(), amd: names(), neuron: names() };
    let teams = [("NAME".into(), team)].into();
    let account = Account { monthly_budget_usd: Some(0.0), ..Account::default() };
    let prices = Prices { discount_percent: [("FAMILY".to_owned(), 0.0)].into() };
    let settings = Settings::of(&Config { metrics, account, prices, teams, ..Config::default() });
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

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn length(of: &SignedDuration) -> Value {
    Value::from(duration::exact(*of))
}

fn section<const N: usize>(path: &[&str], settings: [Option<(&str, Value)>; N]) -> Section {
    let setting = |(key, value): (&str, Value)| Setting { key: key.to_owned(), value, source: Source::Default };
    Section {
        path: path.iter().map(|key| (*key).to_owned()).collect(),
        source: Source::Default,
        settings: settings.into_iter().flatten().map(setting).collect(),
    }
}

fn of_tags(TagKeys { team, owner, required }: &TagKeys) -> Section {
    let settings = [("team", value(team)), ("owner", value(owner)), ("required", value(required))];
    section(&["tags"], settings.map(Some))
}

fn of_managed(Managed { tag_keys }: &Managed) -> Section {
    section(&["managed"], [Some(("tag_keys", value(tag_keys)))])
}

fn of_untagged(Untagged { mode, settle, grace, action, spare_busy }: &Untagged) -> Section {
    let settings = [
        ("mode", value(mode)),
        ("settle", length(settle)),
        ("grace", length(grace)),
        ("action", value(action)),
        ("spare_busy", value(spare_busy)),
    ];
    section(&["untagged"], settings.map(Some))
}

fn of_idle(idle: &Idle) -> Section {
    let Idle {
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
        ("gpu_below_percent", value(gpu_below_percent)),
        ("window", length(window)),
        ("coverage_min_percent", value(coverage_min_percent)),
        ("cpu_below_vcpus", value(cpu_below_vcpus)),
        ("network_below_mbps", value(network_below_mbps)),
        ("disk_below_mbps", value(disk_below_mbps)),
        ("gpu_memory_held_mib", value(gpu_memory_held_mib)),
        ("boot_grace", length(boot_grace)),
        ("grace", length(grace)),
        ("action", value(action)),
        ("local_disk", value(local_disk)),
    ];
    section(&["idle"], settings.map(Some))
}

fn of_series(kind: &str, names: &SeriesNames) -> Section {
    let SeriesNames {
        namespace,
        utilization,
        memory_used_mib,
        device_dimension,
        instance_dimension,
        host_dimension,
        series_per_device,
    } = names;
    let settings = [
        ("namespace", value(namespace)),
        ("utilization", value(utilization)),
        ("memory_used_mib", value(memory_used_mib)),
        ("device_dimension", value(device_dimension)),
        ("instance_dimension", value(instance_dimension)),
        ("host_dimension", value(host_dimension)),
        ("series_per_device", value(series_per_device)),
    ];
    section(&["metrics", kind], settings.map(Some))
}

fn of_lifetime(Lifetime { max, grace, action }: &Lifetime) -> Section {
    let settings = [("max", length(max)), ("grace", length(grace)), ("action", value(action))];
    section(&["lifetime"], settings.map(Some))
}

fn of_limits(Limits { actions_max, fleet_share_max_percent }: &Limits) -> Section {
    let settings = [("actions_max", value(actions_max)), ("fleet_share_max_percent", value(fleet_share_max_percent))];
    section(&["limits"], settings.map(Some))
}

fn of_volumes(Volumes { orphaned_after, grace, action, keep_snapshots }: &Volumes) -> Section {
    let settings = [
        ("orphaned_after", length(orphaned_after)),
        ("grace", length(grace)),
        ("action", value(action)),
        ("keep_snapshots", length(keep_snapshots)),
    ];
    section(&["volumes"], settings.map(Some))
}

fn of_jobs(Jobs { checkpoint_keep, no_progress_attempts_max, instance_profiles }: &Jobs) -> Section {
    let settings = [
        ("checkpoint_keep", value(checkpoint_keep)),
        ("no_progress_attempts_max", value(no_progress_attempts_max)),
        ("instance_profiles", value(instance_profiles)),
    ];
    section(&["jobs"], settings.map(Some))
}

fn of_account(account: &Account) -> Section {
    let Account { monthly_budget_usd, notify_at_percent, over_budget, over_budget_grace, time_zone, cost_explorer } =
        account;
    let settings = [
        monthly_budget_usd.as_ref().map(|usd| ("monthly_budget_usd", value(usd))),
        Some(("notify_at_percent", value(notify_at_percent))),
        Some(("over_budget", value(over_budget))),
        Some(("over_budget_grace", length(over_budget_grace))),
        Some(("time_zone", value(time_zone))),
        Some(("cost_explorer", value(cost_explorer))),
    ];
    section(&["account"], settings)
}

fn of_prices(Prices { discount_percent }: &Prices) -> Section {
    let of_family =
        |(family, percent)| Setting { key: String::clone(family), value: value(percent), source: Source::Default };
    Section {
        settings: discount_percent.iter().map(of_family).collect(),
        ..section(&["prices", "discount_percent"], [])
    }
}

fn of_team(name: &str, team: &Team) -> Section {
    let Team { mode, email, local_disk, monthly_budget_usd, notify_at_percent, over_budget } = team;
    let settings = [
        mode.as_ref().map(|mode| ("mode", value(mode))),
        local_disk.as_ref().map(|policy| ("local_disk", value(policy))),
        email.as_ref().map(|email| ("email", value(email))),
        monthly_budget_usd.as_ref().map(|usd| ("monthly_budget_usd", value(usd))),
        notify_at_percent.as_ref().map(|shares| ("notify_at_percent", value(shares))),
        over_budget.as_ref().map(|action| ("over_budget", value(action))),
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
        let teams = keys.iter().map(|key| (key.as_str().into(), Team::default())).collect();
        let config = Config { teams, managed: Managed { tag_keys: keys }, ..Config::default() };
        assert_eq!(Config::read(&Settings::of(&config).to_string()), Ok(config));
    }
}
