//! Any text as the configuration: every value in its range, or a fault that says where and why.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use model::config::{
    Config, ConfigError, MISTAKES_MAX, SeriesNames, Setting, SettingSource, Settings, changes, mistakes,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::mutate::mutated;
use super::{cases, text};

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// The longest sentence about a configuration, in characters: it has to fit a message with everything around it.
const SENTENCE_MAX: usize = 2_000;

/// The whole document with its defaults, what has none, and what each is made of.
fn documented() -> Vec<String> {
    let sections = |text: &str| -> Vec<String> {
        text.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
    };
    let (with_default, without) = PAGE.split_once("\n## Keys without a default\n").unwrap();
    let (with_default, without) = (sections(with_default), sections(without));
    [with_default.join("\n"), without.join("\n")].into_iter().chain(with_default).chain(without).collect()
}

/// What TOML has, and the reference does not document.
fn unusual() -> Vec<String> {
    let texts = [
        "",
        "\u{feff}mode = 'enforce'\r\n",
        "idle = { window = \"1h\", grace = \"0s\" }\nlimits.actions_max = 0x10",
        "[teams.\"computer vision\"]\nmode = \"\\u0065nforce\"\n[teams.\"'\"]\nnotify_at_percent = []",
        "regions = [\n  'eu-central-1', # home\n]\n[tags]\nrequired = []\nteam = '''Team'''",
        "[idle]\ncpu_below_vcpus = 1e-9\ngpu_below_percent = +0.0\nwindow = \"\"\"\n1h\"\"\"",
        "mode = 1979-05-27T07:32:00Z",
        "[[teams.vision]]\nmode = true",
    ];
    texts.into_iter().map(str::to_owned).collect()
}

fn samples() -> Vec<Vec<u8>> {
    documented().into_iter().chain(unusual()).map(String::into_bytes).collect()
}

/// The line of `[prices.discount_percent]`, where any key is legal.
const FAMILY: &str = "p5 = ";

/// Every documented key with its section; of a team's, with `*` for its name.
fn known_keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for block in documented().iter().take(2) {
        collect("", &block.parse().unwrap(), &mut keys);
    }
    keys
}

fn collect(path: &str, table: &toml::Table, keys: &mut BTreeSet<String>) {
    for (key, value) in table {
        let path = match path {
            "" => key.clone(),
            "teams" => "teams.*".to_owned(),
            // Any family: new ones come.
            "prices.discount_percent" => "prices.discount_percent.*".to_owned(),
            _ => format!("{path}.{key}"),
        };
        match value {
            toml::Value::Table(table) => collect(&path, table, keys),
            _ => drop(keys.insert(path)),
        }
    }
}

fn check_legal(config: &Config) {
    let decade = SignedDuration::from_hours(3660 * 24);
    let Config { untagged, idle, lifetime, volumes, metrics, tags, managed, limits, .. } = config;
    let durations = [
        untagged.settle,
        untagged.grace,
        idle.window,
        idle.boot_grace,
        idle.grace,
        lifetime.max,
        lifetime.grace,
        volumes.orphaned_after,
        volumes.grace,
        volumes.keep_snapshots,
    ];
    assert!(durations.iter().all(|length| *length >= SignedDuration::ZERO && *length <= decade), "{durations:?}");
    assert!(idle.window <= SignedDuration::from_hours(60 * 24));
    let lines = [idle.cpu_below_vcpus, idle.network_below_mbps, idle.disk_below_mbps, idle.gpu_memory_held_mib];
    assert!(lines.iter().all(|line| line.is_finite() && *line >= 0.0), "{lines:?}");
    assert!((0.0..=100.0).contains(&idle.gpu_below_percent));
    assert!(idle.coverage_min_percent.get() <= 100 && limits.fleet_share_max_percent.get() <= 100);
    let keys = [&tags.team, &tags.owner].into_iter().chain(&tags.required).chain(&managed.tag_keys);
    assert!(keys.into_iter().all(|key| (1..=128).contains(&key.chars().count())));
    let nvidia = SeriesNames::default().utilization;
    assert!([&metrics.amd, &metrics.neuron].into_iter().flatten().all(|names| names.utilization != nvidia));
    for team in config.teams.values() {
        assert!(team.monthly_budget_usd.is_none_or(|usd| usd.is_finite() && usd >= 0.0));
        assert!(team.email.as_ref().is_none_or(|email| email.contains('@')));
    }
}

/// What is said to come from a line is written there, and what differs from the default comes from one.
fn check_sources(settings: &Settings, text: &str) {
    let defaults: BTreeMap<String, serde_json::Value> =
        Settings::from_config(&Config::default()).values().map(|setting| (setting.key, setting.value)).collect();
    let lines: Vec<&str> = text.split('\n').collect();
    for Setting { key, value, source } in settings.values() {
        match source {
            SettingSource::Document { line } => assert!(line <= lines.len(), "{key}"),
            SettingSource::Hub { .. } => panic!("{key}: there is no hub"),
            SettingSource::Default if key.starts_with("teams.") || key.starts_with("prices.discount_percent.") => {
                panic!("{key} has no default")
            }
            SettingSource::Default if key.starts_with("metrics.") => {}
            SettingSource::Default => assert_eq!(Some(&value), defaults.get(&key), "{key}"),
        }
    }
}

fn check_fault(fault: &ConfigError, text: &str) {
    let lines: Vec<&str> = text.split('\n').collect();
    let line = lines.get(fault.line - 1).unwrap_or_else(|| panic!("line {} of {}", fault.line, lines.len()));
    assert!((1..=line.chars().count() + 1).contains(&fault.column), "column {} of {line:?}", fault.column);
    assert!(!fault.problem.trim().is_empty());
    let sentence = fault.to_string();
    assert!(sentence.chars().count() <= SENTENCE_MAX, "{} characters", sentence.chars().count());
}

#[test]
fn the_samples_are_understood() {
    for sample in documented().into_iter().take(2).chain(unusual().into_iter().take(5)) {
        assert_eq!(Config::read(&sample).map(|_| ()), Ok(()), "{sample}");
    }
    assert!(known_keys().contains("idle.window") && known_keys().contains("teams.*.email"), "{:?}", known_keys());
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn any_text_is_legal_throughout_or_refused_with_its_place(bytes in mutated(samples())) {
        let text = text(&bytes);
        let read = Config::read(&text);
        prop_assert_eq!(&read, &Config::read(&text));
        let mistakes = mistakes(text.as_bytes());
        prop_assert!(mistakes.len() <= MISTAKES_MAX && mistakes.is_sorted_by_key(|fault| (fault.line, fault.column)));
        for fault in &mistakes {
            check_fault(fault, &text);
        }
        match &read {
            Err(first) => prop_assert!(mistakes.contains(first), "{} is not among {:?}", first, mistakes),
            Ok(_) => prop_assert!(mistakes.is_empty(), "{:?}", mistakes),
        }
        match read {
            Err(fault) => check_fault(&fault, &text),
            Ok(config) => {
                check_legal(&config);
                let settings = Settings::from_document(&config, &text);
                check_sources(&settings, &text);
                let again = Config::read(&settings.to_string());
                prop_assert!(changes(&config, again.as_ref().unwrap()).is_empty());
                prop_assert_eq!(again.as_ref(), Ok(&config), "{}", settings);
                let mut keys = BTreeSet::new();
                collect("", &text.trim_start_matches('\u{feff}').parse().unwrap(), &mut keys);
                prop_assert!(keys.is_subset(&known_keys()), "{:?}", keys.difference(&known_keys()));
            }
        }
    }

    /// One key of a legal document becomes another: refused, and said which.
    #[test]
    fn an_unknown_key_is_refused_wherever_it_stands(which in any::<Index>(), to in unknown_key()) {
        let document = select_document(which);
        let lines: Vec<&str> = document.lines().collect();
        let with_key = |line: &&&str| line.contains(" = ") && !line.starts_with(['#', '[', ' ']) && !line.starts_with(FAMILY);
        let line = *which.get(&lines.iter().filter(with_key).copied().collect::<Vec<_>>());
        let (_, value) = line.split_once(" = ").unwrap();
        // JSON's strings are TOML's but for DEL, which TOML wants escaped.
        let key = serde_json::Value::from(to).to_string().replace('\u{7f}', "\\u007f");
        let text = document.replace(line, &format!("{key} = {value}"));
        let fault = Config::read(&text).unwrap_err();
        check_fault(&fault, &text);
        prop_assert!(text.lines().nth(fault.line - 1).unwrap().ends_with(value), "{fault}");
    }
}

proptest! {
    #![proptest_config(cases(1))]

    /// Several keys of a legal document get a value that none takes, or become another: each is found where it stands, and
    /// nothing else is.
    #[test]
    fn every_mistake_is_found_where_it_stands(
        which in any::<Index>(),
        planted in prop::collection::btree_map(0..200_usize, any::<bool>(), 1..12),
    ) {
        let document = select_document(which);
        let mut lines: Vec<String> = document.lines().map(str::to_owned).collect();
        let keys: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(" = ") && !lines[*at].starts_with('#') && !lines[*at].starts_with(FAMILY)).collect();
        let mut expect = BTreeSet::new();
        for (place, is_unknown) in planted {
            let at = keys[place % keys.len()];
            let (key, _) = lines[at].split_once(" = ").unwrap();
            let column = if is_unknown { 1 } else { key.chars().count() + 4 };
            if expect.iter().any(|(line, _)| *line == at + 1) {
                continue;
            }
            lines[at] = if is_unknown { format!("no-{key} = 1") } else { format!("{key} = 1979-05-27") };
            expect.insert((at + 1, column));
        }
        let found: BTreeSet<_> =
            mistakes(lines.join("\n").as_bytes()).iter().map(|fault| (fault.line, fault.column)).collect();
        prop_assert_eq!(found, expect, "{}", lines.join("\n"));
    }
}

fn select_document(which: Index) -> String {
    let documents: Vec<String> = documented().into_iter().take(2).collect();
    which.get(&documents).clone()
}

fn unknown_key() -> impl Strategy<Value = String> {
    let names: BTreeSet<String> =
        known_keys().iter().flat_map(|key| key.split('.').map(str::to_owned).collect::<Vec<_>>()).collect();
    let bytes = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let meant = select(vec!["Mode", "mode ", " mode", "mоde", "actions-max", "actionsMax", "ACTIONS_MAX", "", "💤"]);
    let any_key = prop_oneof![meant.prop_map(str::to_owned), mutated(bytes).prop_map(|key| text(&key))];
    any_key.prop_filter("known somewhere", move |key| !names.contains(key))
}

/// What fills the largest document that is read, in every way in which that might take long.
#[test]
fn the_largest_documents_are_read_or_refused_at_once() {
    let teams: Vec<String> = (0..18_000).map(|n| format!("[teams.t{n}]")).collect();
    for (text, is_legal) in [
        (teams.join("\n"), true),
        ("#".repeat(256 * 1024), true),
        ("#".repeat(1024 * 1024), false),
        (format!("mode = \"{}\"", "x".repeat(250_000)), false),
        (format!("{} = 1", "x".repeat(250_000)), false),
        (format!("{}x = 1", "x.".repeat(120_000)), false),
        (format!("[{}x]", "teams.".repeat(40_000)), false),
        (format!("regions = {}", "[".repeat(250_000)), false),
        (format!("idle = {}", "{window = ".repeat(25_000)), false),
        ("[[teams.vision]]\n".repeat(15_000), false),
        ("mode = 1\n".repeat(25_000), false),
        (teams.iter().take(9_000).map(|team| [team, "\nx = 1\n"].concat()).collect(), false),
    ] {
        let read = Config::read(&text);
        assert_eq!(read.is_ok(), is_legal, "{}", text.chars().take(100).collect::<String>());
        let mistakes = mistakes(text.as_bytes());
        assert_eq!(mistakes.is_empty(), is_legal);
        if let Err(fault) = read {
            check_fault(&fault, &text);
            assert!(mistakes.contains(&fault), "{fault}");
        }
    }
}
