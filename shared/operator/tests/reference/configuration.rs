//! The configuration: defaults, examples, keys, and the words that each takes.

use std::collections::{BTreeMap, BTreeSet};

use model::config::{Config, KeyRule, Settings, key_rules};

use super::{blocks, quoted};

/// The whole document with every default, and examples of what has none: each has a block for each section.
fn configurations() -> (String, String) {
    let document = |heading| blocks(heading, "toml").join("\n\n");
    (document("## Keys with a default"), document("## Keys without a default"))
}

#[test]
fn the_documented_configuration_is_the_default() {
    assert_eq!(Config::read(&configurations().0), Ok(Config::default()));
}

#[test]
fn the_documented_examples_are_accepted() {
    let examples = Config::read(&configurations().1).unwrap();
    assert!(examples.metrics.neuron.is_some() && examples.metrics.amd.is_some() && !examples.teams.is_empty());
}

#[test]
fn every_accepted_key_is_documented_and_every_documented_one_accepted() {
    let (defaults, examples) = configurations();
    let documented: BTreeSet<_> = keys(&defaults).into_keys().chain(keys(&examples).into_keys()).collect();
    let mut accepted: BTreeSet<_> = accepted("").into_iter().collect();
    // It only says where it has moved.
    assert!(accepted.remove("jobs.instance_profiles"));
    for known in ["mode", "idle.window", "metrics.amd.utilization", "teams.vision.email"] {
        assert!(accepted.contains(known), "the parser is no longer understood here: {accepted:?}");
    }
    assert_eq!(documented, accepted, "documented on the left, accepted on the right");
}

#[test]
fn every_documented_key_is_shown_and_those_with_a_default_in_their_order() {
    let (defaults, examples) = configurations();
    let shown = |document: &str| -> Vec<String> {
        Settings::from_config(&Config::read(document).unwrap()).values().map(|setting| setting.key).collect()
    };
    let documented: BTreeSet<_> = keys(&defaults).into_keys().chain(keys(&examples).into_keys()).collect();
    assert_eq!(documented, shown(&examples).into_iter().collect(), "documented on the left, shown on the right");
    let headings = defaults.lines().scan(String::new(), |section, line| {
        let code = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = code.strip_prefix('[').and_then(|code| code.strip_suffix(']')) {
            *section = format!("{name}.");
        }
        Some(code.split_once(" = ").map(|(key, _)| format!("{section}{key}")))
    });
    assert_eq!(headings.flatten().collect::<Vec<_>>(), shown(""), "documented on the left, shown on the right");
}

#[test]
fn every_key_is_explained_with_all_the_words_it_takes() {
    assert_eq!(words("idle.action"), ["stop", "terminate", "notify"]);
    let (defaults, examples) = configurations();
    for (key, comment) in keys(&defaults).into_iter().chain(keys(&examples)) {
        assert!(!comment.is_empty(), "{key} has no comment");
        let named: BTreeSet<_> = comment.split(|c: char| !c.is_ascii_lowercase() && c != '-').collect();
        for word in words(&key) {
            assert!(named.contains(word.as_str()), "{key} does not name {word}: {comment}");
        }
    }
}

/// Keys with their sections, and the comments behind them.
fn keys(document: &str) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    let mut section = String::new();
    for line in document.lines() {
        let (code, comment) = line.split_once('#').unwrap_or((line, ""));
        if let Some(name) = code.trim().strip_prefix('[').and_then(|code| code.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((key, _)) = code.split_once('=') {
            let before = keys.insert(format!("{section}{}", key.trim()), comment.trim().to_owned());
            assert!(before.is_none(), "{section}{key} is documented twice");
        }
    }
    keys
}

/// The keys from here on that take a value, by what the parser says it expected instead of an unknown one.
fn accepted(path: &str) -> Vec<String> {
    if let Some(children) = sections_keys(path) {
        let dot = if path.is_empty() { "" } else { "." };
        return children.iter().flat_map(|key| accepted(&format!("{path}{dot}{key}"))).collect();
    }
    // A table of numbers by names that are the account's own takes any name.
    if Config::read(&format!("[{path}]\n\"?\" = 0\n")).is_ok() {
        return vec![format!("{path}.p5")];
    }
    // A section whose keys are the account's own, such as its teams, takes any.
    let one_of_any = format!("{path}.vision");
    if sections_keys(&one_of_any).is_some() { accepted(&one_of_any) } else { vec![path.to_owned()] }
}

fn sections_keys(path: &str) -> Option<Vec<String>> {
    let header = if path.is_empty() { String::new() } else { format!("[{path}]\n") };
    let refusal = Config::read(&format!("{header}\"?\" = 0\n")).err()?.problem;
    let expected = refusal.strip_prefix("there is no key `?`; there are ")?;
    Some(quoted(expected).map(str::to_owned).collect())
}

/// The words that a key takes, where it takes certain ones only.
fn words(path: &str) -> Vec<String> {
    let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
    let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    let Err(refusal) = Config::read(&format!("{header}{key} = \"?\"\n")) else { return Vec::new() };
    let expected = refusal.problem.strip_prefix("`?` is none of ").unwrap_or_default();
    quoted(expected).map(str::to_owned).collect()
}

/// The rule of each key beside a hub has its place on the page about organizations.
#[test]
fn every_key_has_its_rule_beside_a_hub() {
    let page = include_str!("../../../../docs/organization.md");
    let documented: BTreeSet<(String, &str)> = [
        ("Spend", "stricter"),
        ("Care", "careful"),
        ("Actions", "action"),
        ("The hub's alone", "hub only"),
        ("Without an order", "hub"),
        ("The account's own", "account"),
    ]
    .into_iter()
    .flat_map(|(heading, rule)| {
        let (_, section) = page.split_once(&format!("### {heading}\n")).unwrap();
        let section = section.split("\n### ").next().unwrap();
        let key_lines =
            section.lines().filter(move |line| ["hub only", "hub", "account"].contains(&rule) || line.starts_with('|'));
        let names = key_lines
            .flat_map(|line| quoted(line.rsplit_once(" | ").map_or(line, |_| line.split(" | ").nth(1).unwrap())));
        names.map(move |name| (name.replace("<name>", "NAME"), rule)).collect::<Vec<_>>()
    })
    .filter(|(name, _)| !["[metrics]", "decides"].contains(&name.as_str()))
    .collect();
    let kind = |rule| match rule {
        KeyRule::Stricter(_) => "stricter",
        KeyRule::Careful(_) => "careful",
        KeyRule::Action(_) => "action",
        KeyRule::HubOnly => "hub only",
        KeyRule::Hub => "hub",
        KeyRule::Account => "account",
    };
    let ruled: BTreeSet<(String, &str)> = key_rules().map(|(key, rule)| (key.to_owned(), kind(rule))).collect();
    assert_eq!(documented, ruled, "documented on the left, in force on the right");
}
