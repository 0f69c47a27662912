use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::account::AccountId;
use crate::config::{OverBudget, Setting};
use crate::id::TeamName;
use crate::mode::Mode;

const ACCOUNT: &str = "123456789012";

fn overlay(hub: &str, own: &str) -> Overlay {
    Overlay::new(&HubConfig::read(hub).unwrap(), ACCOUNT, own).unwrap()
}

/// The written values in force, each with its source, and the account's lines that do not count.
fn check(hub: &str, own: &str, in_force: &[&str], ignored: &[&str]) {
    let found = overlay(hub, own);
    let written = found.settings.values().filter(|setting| setting.source != SettingSource::Default);
    let shown: Vec<String> =
        written.map(|setting| format!("{} = {} # {}", setting.key, as_toml(&setting.value), setting.source)).collect();
    assert_eq!(shown, in_force, "{hub}\n---\n{own}");
    let shown: Vec<String> = found.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ignored, "{hub}\n---\n{own}");
}

#[test]
fn without_a_line_of_the_hub_spend_and_facts_are_the_accounts() {
    let own = "mode = \"enforce\"\nregions = [\"eu-central-1\"]\n[idle]\nwindow = \"10d\"\n[tags]\nteam = \"squad\"\n[account]\n\
               monthly_budget_usd = 5";
    for hub in ["", "[accounts.\"999999999999\"]\nmode = \"observe\"\nidle.window = \"1h\""] {
        check(
            hub,
            own,
            &[
                "mode = \"enforce\" # line 1",
                "regions = [\"eu-central-1\"] # line 2",
                "tags.team = \"squad\" # line 6",
                "idle.window = \"10d\" # line 4",
                "account.monthly_budget_usd = 5 # line 8",
            ],
            &[],
        );
        assert_eq!(overlay(hub, own).config, Config::read(own).unwrap());
    }
}

#[test]
fn an_account_may_be_stricter_and_not_looser() {
    check(
        "mode = \"enforce\"\n[idle]\nwindow = \"2h\"\n[account]\nmonthly_budget_usd = 1000\nover_budget = \"hold\"\n[jobs]\ngpus_max = 8",
        "mode = \"observe\"\n[idle]\nwindow = \"1h\"\n[account]\nmonthly_budget_usd = 5000\nover_budget = \"stop\"\n[jobs]\ngpus_max = 16",
        &[
            "mode = \"enforce\" # hub, line 1",
            "idle.window = \"1h\" # line 3",
            "jobs.gpus_max = 8 # hub, line 8",
            "account.monthly_budget_usd = 1000 # hub, line 5",
            "account.over_budget = \"stop\" # line 6",
        ],
        &[
            "line 1, key `mode`: \"observe\" does not count, but \"enforce\": line 1 of the hub is stricter",
            "line 5, key `account.monthly_budget_usd`: 5000 does not count, but 1000: line 5 of the hub is stricter",
            "line 8, key `jobs.gpus_max`: 16 does not count, but 8: line 8 of the hub is stricter",
        ],
    );
}

#[test]
fn care_takes_a_line_of_the_hub() {
    let careless = "[idle]\ngrace = \"0s\"\ngpu_below_percent = 100\nlocal_disk = \"expendable\"\npower_below_percent = 50\n[untagged]\n\
                    spare_busy = false\n[limits]\nactions_max = 1000";
    check(
        "mode = \"enforce\"",
        careless,
        &["mode = \"enforce\" # hub, line 1"],
        &[
            "line 2, key `idle.grace`: \"0s\" does not count, but \"1h\": only the hub can be less careful than the default",
            "line 3, key `idle.gpu_below_percent`: 100 does not count, but 5: only the hub can be less careful than the default",
            "line 4, key `idle.local_disk`: \"expendable\" does not count, but \"keep\": only the hub can be less careful than the default",
            "line 5, key `idle.power_below_percent`: 50 does not count, but no value: only the hub can be less careful than the default",
            "line 7, key `untagged.spare_busy`: false does not count, but true: only the hub can be less careful than the default",
            "line 9, key `limits.actions_max`: 1000 does not count, but 10: only the hub can be less careful than the default",
        ],
    );
    // Nothing of a hub without lines adds up with them.
    let alone = overlay("[accounts.\"999999999999\"]\nmode = \"enforce\"", careless);
    assert_eq!((alone.config, alone.ignored), (Config::read(careless).unwrap(), Vec::new()));
    let careful = "[idle]\ngrace = \"4h\"\ngpu_below_percent = 1\n[limits]\nactions_max = 2";
    assert_eq!(overlay("mode = \"observe\"", careful).config, Config::read(careful).unwrap());
}

/// A grace of years would switch a rule off, and one of seconds would surprise people.
#[test]
fn care_of_the_hub_counts_in_both_directions() {
    for own in ["0s", "520w"] {
        let found = overlay("[idle]\ngrace = \"2h\"", &format!("[idle]\ngrace = \"{own}\""));
        assert_eq!(found.config, Config::read("[idle]\ngrace = \"2h\"").unwrap());
        assert_eq!(found.ignored[0].reason, IgnoreReason::HubDecides);
    }
    check("[idle]\ngrace = \"2h\"", "[idle]\ngrace = \"120m\"", &["idle.grace = \"2h\" # hub, line 2"], &[]);
}

#[test]
fn what_cannot_be_undone_takes_a_line_of_the_hub() {
    let action = |hub: &str, own: &str| {
        let line = |value: &str| if value.is_empty() { String::new() } else { format!("[idle]\naction = \"{value}\"") };
        let found = overlay(&format!("mode = \"observe\"\n{}", line(hub)), &line(own));
        let value = found.settings.values().find(|setting| setting.key == "idle.action").unwrap().value;
        (value.as_str().unwrap().to_owned(), found.ignored.len())
    };
    let expect = |value: &str, ignored| (value.to_owned(), ignored);
    assert_eq!(action("notify", "stop"), expect("stop", 0));
    assert_eq!(action("notify", "terminate"), expect("notify", 1));
    assert_eq!(action("stop", "notify"), expect("stop", 1));
    assert_eq!(action("terminate", "stop"), expect("terminate", 1));
    assert_eq!(action("terminate", ""), expect("terminate", 0));
    assert_eq!(action("", "terminate"), expect("stop", 1));
    assert_eq!(action("", "notify"), expect("notify", 0));
    check(
        "[account]\nover_budget = \"notify\"",
        "[volumes]\naction = \"delete\"",
        &["account.over_budget = \"notify\" # hub, line 2"],
        &[
            "line 2, key `volumes.action`: \"delete\" does not count, but \"snapshot-and-delete\": only the hub can be less careful than \
           the default",
        ],
    );
}

#[test]
fn a_team_is_no_way_around_the_hub() {
    check(
        "mode = \"enforce\"\n[idle]\nlocal_disk = \"24h\"\n[jobs]\nidle_after = \"1h\"",
        "[teams.vision]\nmode = \"observe\"\nlocal_disk = \"keep\"\nidle_after = \"off\"\nemail = \"vision@example.com\"",
        &[
            "mode = \"enforce\" # hub, line 1",
            "idle.local_disk = \"1d\" # hub, line 3",
            "jobs.idle_after = \"1h\" # hub, line 5",
            "teams.vision.email = \"vision@example.com\" # line 5",
        ],
        &[
            "line 2, key `teams.vision.mode`: \"observe\" does not count, but what holds for all teams: line 1 of the hub is stricter",
            "line 3, key `teams.vision.local_disk`: \"keep\" does not count, but what holds for all teams: line 3 of the hub decides",
            "line 4, key `teams.vision.idle_after`: \"off\" does not count, but what holds for all teams: line 5 of the hub is stricter",
        ],
    );
    // A team that the hub exempts may opt in, and a section without a value that counts still names its team.
    let hub = "mode = \"enforce\"\n[teams.vision]\nmode = \"observe\"";
    assert_eq!(overlay(hub, "").config.teams[&TeamName::from("vision")].mode, Some(Mode::Observe));
    let opted_in = overlay(hub, "[teams.vision]\nmode = \"enforce\"");
    assert_eq!(opted_in.config.teams[&TeamName::from("vision")].mode, Some(Mode::Enforce));
    let named = overlay("mode = \"enforce\"", "[teams.\"a.b\"]\nmode = \"observe\"\n[teams.c]");
    assert_eq!(named.config.named_teams().count(), 2);
    assert!(named.config.teams.values().all(|team| team.mode.is_none()));
}

#[test]
fn lists_are_compared_by_what_they_mean() {
    let counts = |hub: &str, own: &str| overlay(hub, own).ignored.is_empty();
    let required = |list: &str| format!("[tags]\nrequired = {list}");
    assert!(counts(&required(r#"["Team"]"#), &required(r#"["CostCenter", "Team"]"#)));
    assert!(!counts(&required(r#"["Team", "Owner"]"#), &required(r#"["CostCenter", "Team"]"#)));
    let projects = |list: &str| format!("[projects]\nallowed = {list}");
    assert!(counts(&projects("[]"), &projects(r#"["a"]"#)));
    assert!(counts(&projects(r#"["a", "B "]"#), &projects(r#"["b"]"#)));
    for own in ["[]", r#"["c"]"#, r#"["a", "c"]"#] {
        assert!(!counts(&projects(r#"["a", "b"]"#), &projects(own)), "{own}");
    }
    let regions = |list: &str| format!("regions = {list}");
    assert!(counts(&regions(r#"["eu-west-1"]"#), &regions("[]")));
    assert!(counts(&regions(r#"["eu-west-1"]"#), &regions(r#"["us-east-1", "eu-west-1"]"#)));
    assert!(!counts(&regions("[]"), &regions(r#"["eu-west-1"]"#)));
    assert!(!counts(&regions(r#"["eu-west-1"]"#), &regions(r#"["us-east-1"]"#)));
    let subnets = |list: &str| format!("[teams.a]\nsubnets = {list}");
    assert!(!counts(&subnets("[]"), &subnets(r#"["subnet-0123abcd"]"#)));
    let fewer = overlay(&subnets(r#"["subnet-0123abcd"]"#), &subnets("[]"));
    assert!(fewer.ignored.is_empty() && fewer.config.teams[&TeamName::from("a")].subnets.is_empty());
    let idle = |time: &str| format!("[file_systems]\nidle_after = \"{time}\"");
    assert!(counts(&idle("14d"), &idle("7d")) && counts(&idle("0s"), &idle("7d")));
    assert!(!counts(&idle("14d"), &idle("0s")));
    let discount = |percent: &str| format!("[prices.discount_percent]\np5 = {percent}");
    assert!(!counts(&discount("10"), &discount("100")) && counts(&discount("10"), &discount("10")));
}

#[test]
fn no_account_makes_the_hubs_rules_void_by_keys_that_the_hub_leaves_out() {
    let own = "[managed]\ntag_keys = [\"Name\"]\n[tags]\nteam = \"Squad\"\nowner = \"Who\"\n[prices.discount_percent]\np5 = 99\ng5 = 99\n\
               [projects]\ntag = \"Name\"\n[gangs]\ntag = \"Name\"";
    let found = overlay("mode = \"enforce\"", own);
    let plain = Config::read("mode = \"enforce\"").unwrap();
    assert_eq!((&found.config, found.ignored.len()), (&plain, 7));
    let shown = found.ignored[1].to_string();
    assert_eq!(
        shown,
        "line 4, key `tags.team`: \"Squad\" does not count, but \"Team\": the hub alone decides, and has no line"
    );
    // A family that the hub names does not open the others; and the hub may leave them to the account.
    let found = overlay("[prices.discount_percent]\np5 = 20", own);
    assert_eq!(found.config.prices, Config::read("[prices.discount_percent]\np5 = 20").unwrap().prices);
    let left = format!("mode = \"enforce\"\n[accounts.\"{ACCOUNT}\"]\ndecides = [\"prices\", \"tags.team\"]");
    let found = overlay(&left, own);
    assert_eq!(found.config.prices, Config::read(own).unwrap().prices);
    assert_eq!(
        (found.config.tags.team.as_str(), found.config.tags.owner.as_str()),
        ("Squad", plain.tags.owner.as_str())
    );
    // A hub without lines changes nothing.
    assert_eq!(overlay("", own).config, Config::read(own).unwrap());
}

#[test]
fn every_mistake_of_a_hub_is_found() {
    let hub = "mode = \"destroy\"\n[idle]\nwindw = \"1h\"\n[prices.discount_percent]\np5 = 200\n[accounts.\"123456789012\"]\nmode = 3\n\
               idle.windw = \"1h\"\n[accounts.\"12\"]\nmode = \"observe\"\n[accounts.\"999999999999\"]\ndecides = [\"nothing\"]\n\
               [teams.vision]\nbudget_accounts = [\"1\", \"2\"]";
    let found = HubConfig::mistakes(hub.as_bytes());
    let places: Vec<(usize, &str)> = found.iter().map(|error| (error.line, error.key.as_str())).collect();
    assert_eq!(places.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3, 5, 7, 8, 9, 12, 14], "{found:#?}");
    assert_eq!(HubConfig::mistakes(b"[accounts.\"123456789012\"]\nmode = \"observe\""), []);
    assert!(!HubConfig::mistakes(b"mode = \"\xff\"").is_empty() && !HubConfig::mistakes(b"mode = ").is_empty());
    let notes =
        HubConfig::notes(b"[prices.discount_percent]\nP5 = 10\n[accounts.\"123456789012\"]\nmode = \"observe\"");
    assert_eq!(
        notes.iter().map(|note| (note.line, note.key.as_str())).collect::<Vec<_>>(),
        [(2, "prices.discount_percent.P5")]
    );
}

/// Names of metrics belong together: half of one document and half of the other would be metrics that nobody publishes.
#[test]
fn the_metrics_of_a_kind_are_of_one_document() {
    let own =
        "[metrics.nvidia]\nnamespace = \"DCGM\"\nutilization = \"gpu_util\"\n[metrics.amd]\nutilization = \"amd\"";
    let found = overlay("[metrics.nvidia]\nutilization = \"hub_util\"", own);
    let nvidia = found.config.metrics.nvidia.clone().unwrap();
    assert_eq!((nvidia.namespace.as_str(), nvidia.utilization.as_str()), ("CWAgent", "hub_util"));
    assert_eq!(
        found.ignored.iter().map(|line| (line.line, line.hub_line)).collect::<Vec<_>>(),
        [(2, Some(2)), (3, Some(2))]
    );
    assert_eq!(found.config.metrics.amd.unwrap().utilization, "amd");
}

#[test]
fn the_hub_may_name_an_account() {
    let hub = "mode = \"enforce\"\n[idle]\nwindow = \"1h\"\ngrace = \"1h\"\n[accounts.\"123456789012\"]\ndecides = [\"idle.window\", \
               \"limits\", 'teams.\"a b\"']\nmode = \"observe\"\n[accounts.\"123456789012\".account]\nover_budget = \"stop\"\n\
               [accounts.\"999999999999\"]\ndecides = [\"mode\"]\nidle.grace = \"0s\"";
    let own =
        "[idle]\nwindow = \"8h\"\ngrace = \"0s\"\n[limits]\nactions_max = 500\n[teams.\"a b\"]\nmode = \"observe\"";
    check(
        hub,
        own,
        &[
            "mode = \"observe\" # hub, line 7",
            "idle.window = \"8h\" # line 2",
            "idle.grace = \"1h\" # hub, line 4",
            "limits.actions_max = 500 # line 5",
            "account.over_budget = \"stop\" # hub, line 9",
            "teams.\"a b\".mode = \"observe\" # line 7",
        ],
        &["line 3, key `idle.grace`: \"0s\" does not count, but \"1h\": line 4 of the hub decides"],
    );
    let read = HubConfig::read(hub).unwrap();
    assert_eq!(read.accounts().collect::<Vec<_>>(), ["123456789012", "999999999999"]);
    let other = Overlay::new(&read, "111111111111", "mode = \"observe\"").unwrap();
    assert_eq!((other.config.mode, other.config.account.over_budget), (Mode::Enforce, OverBudget::Notify));
}

#[test]
fn a_mistake_of_the_hub_is_named_with_its_place() {
    let refused = |text: &str| {
        let error = HubConfig::read(text).map(|_| ()).unwrap_err();
        format!("{}:{} {}: {}", error.line, error.column, error.key, error.problem)
    };
    for (text, expect) in [
        ("mode = \"x\"", "1:8 mode: `x` is none of `observe`, `enforce`"),
        ("accounts = 3", "1:1 accounts: write a table for each account, such as [accounts.\"123456789012\"]"),
        (
            "[accounts.research]\nmode = \"observe\"",
            "1:11 accounts.research: \"research\" is not the id of an account; write its 12 digits in quotes",
        ),
        ("[accounts]\n123456789012 = 1", "2:1 accounts.123456789012: write a table of keys and values"),
        (
            "[accounts.123456789012.idle]\nwindw = \"1h\"",
            "2:1 accounts.123456789012.idle.windw: there is no key `windw` here; did you mean `window`?",
        ),
        (
            "[accounts.123456789012]\nidle.window = \"soon\"",
            "2:15 accounts.123456789012.idle.window: `soon` is not a duration; write a number and a unit of s, m, h, d or w, such as \
             `30m`, `1h30m` or `0s`, ten years at most",
        ),
        (
            "[accounts.123456789012]\ndecides = [\"idle.window\", \"idle.windw\"]",
            "2:27 accounts.123456789012.decides: \"idle.windw\" is neither a key nor a section of a configuration",
        ),
        (
            "[accounts.123456789012]\ndecides = \"idle\"",
            "2:11 accounts.123456789012.decides: write a list of keys and sections, such as [\"idle.window\", \"limits\"]",
        ),
        (
            "[accounts.123456789012]\ndecides = [\"mode = 0\\nx\"]",
            "2:12 accounts.123456789012.decides: \"mode = 0\\nx\" is neither a key nor a section of a configuration",
        ),
    ] {
        assert_eq!(refused(text), expect, "{text}");
    }
    let hub = HubConfig::read("").unwrap();
    let own = Overlay::new(&hub, ACCOUNT, "[idle]\nwindw = 1").unwrap_err();
    assert_eq!((own.line, own.key.as_str()), (2, "idle.windw"));
    // An account is no hub.
    assert!(Overlay::new(&hub, ACCOUNT, "[accounts.123456789012]\nmode = \"observe\"").is_err());
}

#[test]
fn every_key_has_one_rule() {
    let mut keys: Vec<&str> = key_rules().map(|(key, _)| key).collect();
    let all = crate::config::settings::every_key();
    let expected: Vec<&str> = all.iter().map(String::as_str).filter(|key| !key.starts_with("metrics.")).collect();
    keys.sort_unstable();
    let mut sorted = expected.clone();
    sorted.sort_unstable();
    assert_eq!(keys, sorted);
}

/// Values of a key, as TOML.
fn values(key: &str, rule: KeyRule) -> Vec<String> {
    let texts = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
    let lists = |items: &[&str]| {
        vec!["[]".to_owned(), format!("[{}]", items[0]), format!("[{}]", items.join(", ")), format!("[{}]", items[1])]
    };
    match rule {
        KeyRule::Stricter(Order::ShorterThanOff) => texts(&["15m", "1h", "2h", "off"]),
        KeyRule::Stricter(Order::ShorterAboveZero) => texts(&["0s", "1h", "2h", "1d"]),
        KeyRule::Careful(Order::LongerScratch) => texts(&["keep", "24h", "1h", "expendable"]),
        KeyRule::Stricter(Order::Shorter) | KeyRule::Careful(Order::Shorter | Order::Longer) => {
            texts(&["15m", "1h", "2h", "1d"])
        }
        KeyRule::Stricter(Order::Words(words)) | KeyRule::Careful(Order::Words(words)) => texts(words),
        KeyRule::Action(words) => texts(&words),
        KeyRule::Stricter(Order::Lower | Order::Higher) | KeyRule::Careful(Order::Lower | Order::Higher) => {
            ["1", "5", "10", "50"].map(str::to_owned).to_vec()
        }
        KeyRule::Stricter(Order::True | Order::False) | KeyRule::Careful(Order::True | Order::False) => {
            ["true", "false"].map(str::to_owned).to_vec()
        }
        _ => match key.rsplit('.').next().unwrap() {
            "notify_at_percent" => lists(&["50", "100"]),
            "subnets" => lists(&["\"subnet-0123abcd\"", "\"subnet-4567abcd\""]),
            "security_groups" => lists(&["\"sg-0123abcd\"", "\"sg-4567abcd\""]),
            "images" => lists(&["\"ami-0123abcd\"", "\"ami-4567abcd\""]),
            "regions" | "required" | "tag_keys" | "allowed" | "instance_profiles" | "buckets" => {
                lists(&["\"data-a\"", "\"data-b\""])
            }
            "cost_explorer" | "owners" => ["true", "false"].map(str::to_owned).to_vec(),
            // Of `prices.discount_percent`.
            "NAME" => ["1", "5"].map(str::to_owned).to_vec(),
            "checkpoint_keep" => ["1", "3"].map(str::to_owned).to_vec(),
            "low_use_window" => texts(&["1d", "2d"]),
            "image" => texts(&["ami-0123abcd", "/curfew/images/{architecture}"]),
            "time_zone" => texts(&["UTC", "Europe/Berlin"]),
            "sender" | "email" => texts(&["a@example.com", "b@example.com"]),
            _ => texts(&["A", "B"]),
        },
    }
}

/// Documents with some of the keys, of teams `a` and `b`, each with one of its values.
fn document() -> impl Strategy<Value = String> {
    let keys = key_rules().flat_map(|(key, rule)| {
        let named = |name: &str| (key.replace("NAME", name), values(key, rule));
        if key.contains("NAME") { vec![named("a"), named("b")] } else { vec![named("")] }
    });
    let lines: Vec<_> = keys
        .map(|(key, values)| {
            prop::option::weighted(0.4, select(values))
                .prop_map(move |value| value.map_or(String::new(), |value| format!("{key} = {value}\n")))
        })
        .collect();
    lines.prop_map(|lines| lines.concat())
}

/// The value in force, of a team without one that for all teams.
fn in_force<'a>(values: &'a Values, key: &str, for_all: Option<&String>) -> Option<&'a Value> {
    values.get(key).or_else(|| values.get(for_all?))
}

/// The value in force; a list that is not shown is empty.
fn value_in_force<'a>(values: &'a Values, key: &str, rule: KeyRule, for_all: Option<&String>) -> Option<&'a Value> {
    let empty = (rule == KeyRule::Stricter(Order::FewerItems)).then_some(&*NO_ITEMS);
    in_force(values, key, for_all).or(empty)
}

proptest! {
    /// Stated in other words than the merge: nothing is looser than a line of the hub, and nobody has less care than both documents give.
    #[test]
    fn no_account_is_looser_than_its_hub(hub in document(), own in document()) {
        // One without lines governs nothing.
        prop_assume!(!hub.is_empty());
        let found = overlay(&hub, &own);
        let (hub_values, own_values, now) =
            (values_of(&Config::read(&hub).unwrap()), values_of(&Config::read(&own).unwrap()), values_of(&found.config));
        let written = |text: &str, key: &str| text.lines().any(|line| line.starts_with(&format!("{key} = ")));
        for (pattern, rule) in key_rules() {
            for name in ["a", "b"] {
                let key = pattern.replace("NAME", name);
                let path: Vec<String> = key.split('.').map(str::to_owned).collect();
                let all = key_of_all_teams(&path).map(|all| all.join("."));
                let is_written = written(&hub, &key) || all.as_ref().is_some_and(|all| written(&hub, all));
                let hub_value = value_in_force(&hub_values, &key, rule, all.as_ref()).filter(|_| is_written);
                let value = value_in_force(&now, &key, rule, all.as_ref());
                match (rule, hub_value, value) {
                    (KeyRule::Stricter(order), Some(hub), value) => {
                        prop_assert!(value.is_some_and(|value| order.is_at_least(value, hub)), "{key}: {value:?}, {hub}");
                    }
                    (KeyRule::Careful(_) | KeyRule::Hub, Some(hub), value) => prop_assert_eq!(value, Some(hub), "{}", key),
                    (KeyRule::Careful(order), None, Some(value)) => {
                        let default = in_force(&DEFAULTS, &key, all.as_ref());
                        let own = in_force(&own_values, &key, all.as_ref());
                        let is_default = default == Some(value);
                        prop_assert!(is_default || default.is_some_and(|default| order.is_at_least(value, default)), "{key}: {value}");
                        prop_assert!(own.is_none_or(|own| order.is_at_least(value, own)), "{key}: {value}, {own:?}");
                    }
                    (KeyRule::Action(actions), hub, Some(value)) => {
                        prop_assert!(hub.is_none_or(|hub| rank(&actions, value) >= rank(&actions, hub)), "{key}: {value}, {hub:?}");
                        prop_assert!(value != actions[2] || hub.is_some_and(|hub| hub == actions[2]), "{key}: {hub:?}");
                    }
                    _ => {}
                }
            }
        }
        // Each value is written on the line that it is said to come from.
        for Setting { key, value, source } in found.settings.values() {
            let (text, line) = match source {
                SettingSource::Hub { line } => (&hub, line),
                SettingSource::Document { line } => (&own, line),
                SettingSource::Default => {
                    prop_assert_eq!(DEFAULTS.get(&key), Some(&value));
                    continue;
                }
            };
            prop_assert!(text.lines().nth(line - 1).unwrap().starts_with(&format!("{key} = ")), "{key}: {line}");
        }
        // A line that does not count is one that another value replaces.
        for ignored in &found.ignored {
            prop_assert_ne!(now.get(&ignored.key), Some(&ignored.value));
        }
    }

    /// The document that is shown, put in place as the account's own, changes nothing, and each of its lines counts.
    #[test]
    fn what_is_in_force_is_in_force_again(hub in document(), own in document()) {
        let once = overlay(&hub, &own);
        let twice = overlay(&hub, &once.settings.to_string());
        prop_assert_eq!(&twice.config, &once.config);
        prop_assert!(twice.ignored.is_empty(), "{:?}", twice.ignored);
    }

    #[test]
    fn an_account_that_decides_everything_has_its_own_configuration(hub in document(), own in document()) {
        let sections: BTreeSet<String> =
            key_rules().map(|(key, _)| format!("\"{}\"", key.split('.').next().unwrap())).collect();
        let decides = sections.into_iter().collect::<Vec<_>>().join(", ");
        let named = format!("{hub}[accounts.\"{ACCOUNT}\"]\ndecides = [{decides}]");
        let found = overlay(&named, &own);
        prop_assert!(found.ignored.is_empty(), "{:?}", found.ignored);
        let (now, own) = (values_of(&found.config), values_of(&Config::read(&own).unwrap()));
        for (key, value) in own.iter().filter(|(key, value)| DEFAULTS.get(*key) != Some(value)) {
            prop_assert_eq!(now.get(key), Some(value), "{}", key);
        }
    }

    #[test]
    fn any_text_is_a_hub_or_refused(text in "[\\[\\]a-z\"=.0-9\n ]{0,80}") {
        let _ = HubConfig::read(&text).map(|hub| Overlay::new(&hub, ACCOUNT, "").map(drop));
    }
}

const SHARED: &str =
    "[teams.vision]\nmonthly_budget_usd = 900\nbudget_accounts = [\"123456789012\", \"444455556666\"]\n";

fn hub_refusal(hub: &str) -> String {
    HubConfig::read(hub).unwrap_err().to_string()
}

#[test]
fn the_hub_names_the_accounts_that_share_a_budget() {
    let found = overlay(SHARED, "");
    let accounts = ["123456789012", "444455556666"].map(|id| AccountId::parse(id).unwrap());
    let expect = BTreeMap::from([(TeamName::from("vision"), BTreeSet::from(accounts))]);
    assert_eq!((found.config.shared_budgets, Config::default().shared_budgets), (expect, BTreeMap::new()));
}

#[test]
fn a_shared_budget_has_the_hubs_amount_in_each_of_its_accounts() {
    let own = "[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"";
    let ignored =
        "line 2, key `teams.vision.monthly_budget_usd`: 100 does not count, but 900: line 2 of the hub decides";
    let in_force =
        ["teams.vision.monthly_budget_usd = 900 # hub, line 2", "teams.vision.over_budget = \"stop\" # line 3"];
    check(SHARED, own, &in_force, &[ignored]);
    check(&format!("{SHARED}[accounts.\"123456789012\"]\ndecides = [\"teams.vision\"]"), own, &in_force, &[ignored]);
    // An account that does not share it may have less.
    let others = SHARED.replace("123456789012", "777788889999");
    check(
        &others,
        own,
        &["teams.vision.monthly_budget_usd = 100 # line 2", "teams.vision.over_budget = \"stop\" # line 3"],
        &[],
    );
}

#[test]
fn a_list_of_accounts_is_refused_with_its_line() {
    let list = |list: &str| {
        let refused = hub_refusal(&format!("[teams.vision]\nmonthly_budget_usd = 9\nbudget_accounts = {list}"));
        refused.strip_prefix("config/curfew.toml, line 3, column ").unwrap().to_owned()
    };
    let two = "key `teams.vision.budget_accounts`: write a list of the ids of at least two accounts, such as [\"111122223333\", \"444455556666\"]";
    assert_eq!(list("3"), format!("19, {two}"));
    assert_eq!(list("[\"111122223333\"]"), format!("19, {two}"));
    assert_eq!(list("[111122223333]"), format!("20, {two}"));
    assert!(list("[\"111122223333\", \"research\"]").ends_with("\"research\" is no id of an account: write 12 digits"));
    assert!(list("[\"111122223333\", \"111122223333\"]").ends_with("111122223333 is in the list twice"));
    let without = hub_refusal(&SHARED.replace("monthly_budget_usd = 900", "email = \"a@b.c\""));
    assert!(
        without.starts_with("config/curfew.toml, line 2") && without.contains("have no budget to share"),
        "{without}"
    );
    let amount = hub_refusal(&format!("{SHARED}[accounts.\"444455556666\".teams.vision]\nmonthly_budget_usd = 5"));
    assert!(
        amount.starts_with("config/curfew.toml, line 5") && amount.contains("a shared budget has one amount"),
        "{amount}"
    );
    let nested = hub_refusal("[accounts.\"444455556666\".teams.vision]\nbudget_accounts = []");
    assert!(nested.contains("only the hub of the organization can let accounts share a budget"), "{nested}");
    let many: Vec<String> = (0..=SHARING_ACCOUNTS_MAX).map(|number| format!("\"{number:012}\"")).collect();
    let many = hub_refusal(&format!("[teams.a]\nmonthly_budget_usd = 1\nbudget_accounts = [{}]", many.join(", ")));
    assert!(many.ends_with("201 accounts share budgets; 200 are the most, of all budgets together"), "{many}");
}

#[test]
fn an_account_cannot_let_others_share_its_budget() {
    let refused = Overlay::new(&HubConfig::read("").unwrap(), ACCOUNT, SHARED).unwrap_err();
    assert_eq!(refused, Config::read(SHARED).unwrap_err());
    assert!(refused.problem.starts_with("only the hub of the organization"), "{refused}");
}
