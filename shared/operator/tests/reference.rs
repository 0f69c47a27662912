//! Keeps `docs/reference.md` equal to the code: what is documented exists, and what exists is documented.
//!
//! The code is asked, not copied: accepted configuration keys and values come from the parser's own refusals, names from
//! serialising every variant. A variant that is added does not compile here until it is listed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails may say so by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{BudgetStatuses, OverBudgetEvidence};
use billing::price::PriceBook;
use jiff::Timestamp;
use model::config::{Config, OverBudget, Settings};
use model::curfew_tags::{ATTEMPT, CurfewTags, DELETED_AT, KEYS, PROTECTED, RESTORE, SNAPSHOT_OF, UNATTACHED_SINCE};
use model::instance::{Accelerator, Instance, InstanceState, InstanceTypeFacts, PurchaseOption, Tags};
use model::mark::Mark;
use model::mode::Mode;
use model::money::Amount;
use model::notification_log::Severity;
use model::observation::{Gap, GapKind, Observation};
use model::rule::Rule;
use model::usage::{IdleEvidence, UnknownUsage, Usage};
use model::volume::{Volume, VolumeState};
use plan::report::{AuditRecord, OutcomeKind, Report, Response, SCHEMA, StepOutcome};
use plan::{
    Action, Announcement, BudgetAction, Evidence, InstanceAction, NotifyOnlyReason, OrphanedEvidence, RepeatedEvidence,
    ResolvedEvidence, SkipReason, SnapshotAction, VolumeAction,
};
use reaping::instances::decide;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use serde::Serialize;
use serde_json::{Value, json};

const REFERENCE: &str = include_str!("../../../docs/reference.md");

/// Every document that names tags.
const DOCUMENTS: [(&str, &str); 9] = [
    ("docs/reference.md", REFERENCE),
    ("docs/deploy.md", include_str!("../../../docs/deploy.md")),
    ("docs/glossary.md", include_str!("../../../docs/glossary.md")),
    ("docs/running-jobs.md", include_str!("../../../docs/running-jobs.md")),
    ("docs/safety.md", include_str!("../../../docs/safety.md")),
    ("docs/volumes.md", include_str!("../../../docs/volumes.md")),
    ("README.md", include_str!("../../../README.md")),
    ("ARCHITECTURE.md", include_str!("../../../ARCHITECTURE.md")),
    ("CONTRIBUTING.md", include_str!("../../../CONTRIBUTING.md")),
];

// ------------------------------------------------------------------------------------------------------- the document

/// The text under a heading, to the next heading of its level or a higher one.
fn section(heading: &str) -> &'static str {
    let start = REFERENCE.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let body = &REFERENCE[start + heading.len() + 2..];
    let level = heading.chars().take_while(|c| *c == '#').count();
    let ends = |line: &str| {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        (1..=level).contains(&hashes) && line[hashes..].starts_with(' ')
    };
    let (mut end, mut fenced) = (0, false);
    for line in body.split_inclusive('\n') {
        fenced ^= line.starts_with("```");
        if !fenced && ends(line) {
            break;
        }
        end += line.len();
    }
    &body[..end]
}

/// The rows of the section's tables whose first cell is a name in backticks: that name, and all cells.
fn rows(heading: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = section(heading).lines().filter(|line| line.starts_with("| `"));
    let cells = lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows: Vec<_> = cells.map(|cells| (quoted(cells[0]).next().unwrap(), cells)).collect();
    let names: BTreeSet<_> = rows.iter().map(|(name, _)| name).collect();
    assert!(!rows.is_empty() && names.len() == rows.len(), "{heading:?} has no rows, or two of one name");
    rows
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The code blocks of a section in one language.
fn blocks(heading: &str, language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    section(heading).split(fence.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

fn check_names(heading: &str, exist: impl Iterator<Item = String>) {
    let documented: BTreeSet<String> = rows(heading).into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(documented, exist.collect(), "{heading:?}: documented on the left, existing on the right");
}

/// Every variant of an enum, by a function that leads from each to the next and so has to name all of them.
fn every<T>(first: T, after: impl FnMut(&T) -> Option<T>) -> Vec<T> {
    std::iter::successors(Some(first), after).collect()
}

fn serialised<T: Serialize>(values: Vec<T>) -> impl Iterator<Item = String> {
    values.into_iter().map(|value| serde_json::to_value(value).unwrap().as_str().unwrap().to_owned())
}

// --------------------------------------------------------------------------------------------------------------- tags

fn tagged(key: &str, value: &str) -> Instance {
    Instance { tags: BTreeMap::from([(key.to_owned(), value.to_owned())]), ..instance("i-0abc") }
}

#[test]
fn every_tag_has_a_row_and_every_row_a_tag() {
    check_names("## Tags", KEYS.into_iter().map(str::to_owned));
}

#[test]
fn every_tags_example_is_read_and_means_something() {
    for (key, cells) in rows("## Tags") {
        let example = quoted(cells[2]).next().unwrap_or_else(|| panic!("{key} has no example"));
        let tags = tagged(key, example).tags;
        let read = match key {
            UNATTACHED_SINCE => CurfewTags::read_volume(&tags),
            SNAPSHOT_OF | RESTORE | DELETED_AT => CurfewTags::read_snapshot(&tags),
            _ => CurfewTags::read(&tagged(key, example)),
        };
        let read = read.unwrap_or_else(|problem| panic!("{problem:?}"));
        let is_not_looked_into = matches!(key, PROTECTED | ATTEMPT | SNAPSHOT_OF | RESTORE);
        assert_eq!(read == CurfewTags::default(), is_not_looked_into, "{key}={example} is read as {read:?}");
    }
}

#[test]
fn the_documented_words_of_a_tag_are_all_it_takes() {
    for (key, cells) in rows("### Tags that people set") {
        let Err(unreadable) = CurfewTags::read(&tagged(key, "?")) else { continue };
        for word in quoted(cells[1]).filter(|word| *word != "60d") {
            assert!(CurfewTags::read(&tagged(key, word)).is_ok(), "{key} does not take {word}");
        }
        let words: BTreeSet<_> = quoted(cells[1]).collect();
        for word in quoted(&unreadable[0].problem).filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())) {
            assert!(words.contains(word), "{key} takes {word}, and its row does not say so");
        }
    }
    assert!(CurfewTags::read(&tagged("curfew:idle-after", "60d")).is_ok());
    assert!(CurfewTags::read(&tagged("curfew:idle-after", "60d1s")).is_err());
}

#[test]
fn no_document_names_a_tag_that_does_not_exist() {
    for (document, text) in DOCUMENTS {
        for (at, _) in text.match_indices("curfew:") {
            let tail = text[at..].chars().take_while(|c| c.is_ascii_lowercase() || matches!(c, ':' | '-'));
            let key: String = tail.collect();
            let is_on_purpose = matches!(key.as_str(), "curfew:protectd");
            assert!(is_on_purpose || KEYS.contains(&key.as_str()), "{document} names {key}");
        }
    }
}

// ------------------------------------------------------------------------------------------------------ configuration

/// The whole document with every default, and examples of what has none.
fn configurations() -> (&'static str, &'static str) {
    match blocks("## Configuration", "toml")[..] {
        [defaults, examples] => (defaults, examples),
        ref other => panic!("{} blocks of configuration, where two are expected", other.len()),
    }
}

#[test]
fn the_documented_configuration_is_the_default() {
    assert_eq!(Config::read(configurations().0), Ok(Config::default()));
}

#[test]
fn the_documented_examples_are_accepted() {
    let examples = Config::read(configurations().1).unwrap();
    assert!(examples.metrics.neuron.is_some() && examples.metrics.amd.is_some() && !examples.teams.is_empty());
}

#[test]
fn every_accepted_key_is_documented_and_every_documented_one_accepted() {
    let (defaults, examples) = configurations();
    let documented: BTreeSet<_> = keys(defaults).into_keys().chain(keys(examples).into_keys()).collect();
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
    let documented: BTreeSet<_> = keys(defaults).into_keys().chain(keys(examples).into_keys()).collect();
    assert_eq!(documented, shown(examples).into_iter().collect(), "documented on the left, shown on the right");
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
    for (key, comment) in keys(defaults).into_iter().chain(keys(examples)) {
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

// -------------------------------------------------------------------------------------------------------------- names

#[test]
fn actions() {
    let mark: Mark = "i-0abc idle=stop@2026-09-01T12:00:00Z".parse().unwrap();
    let on_instance = |action| Some(Action::Instance(instance("i-0abc"), action));
    let on_volume = |action| Some(Action::Volume(volume(1, 0, 0), action));
    let (at, expiring) = (Timestamp::UNIX_EPOCH, Vec::new());
    let first = Action::Instance(instance("i-0abc"), Announcement::Mark(mark).into());
    let all = every(first, |action| match action {
        Action::Instance(_, InstanceAction::Announce(announcement)) => on_instance(match announcement {
            Announcement::Mark(_) => Announcement::Unmark { remaining: None, also: None }.into(),
            Announcement::Unmark { .. } => Announcement::Notify.into(),
            Announcement::Notify => InstanceAction::Stop { mark: None, stopped: String::new() },
        }),
        Action::Instance(_, InstanceAction::Stop { .. }) => on_instance(InstanceAction::Terminate { mark: None }),
        Action::Instance(_, InstanceAction::Terminate { .. }) => on_instance(InstanceAction::Start),
        Action::Instance(_, InstanceAction::Start) => on_volume(VolumeAction::TagUnattachedSince(at)),
        Action::Volume(_, VolumeAction::TagUnattachedSince(_)) => {
            on_volume(VolumeAction::Snapshot { tags: Tags::new() })
        }
        Action::Volume(_, VolumeAction::Snapshot { .. }) => {
            on_volume(VolumeAction::Delete { safety: None, expiring: expiring.clone(), at })
        }
        Action::Volume(_, VolumeAction::Delete { .. }) => Some(Action::Budget(BudgetAction::Notify)),
        Action::Budget(BudgetAction::Notify) => Some(Action::Budget(BudgetAction::Hold)),
        // Those of a snapshot are called like those of a volume.
        Action::Budget(BudgetAction::Hold)
        | Action::Volume(_, VolumeAction::Announce(_))
        | Action::Snapshot(_, SnapshotAction::TagDeletedAt(_) | SnapshotAction::Delete) => None,
    });
    check_names("### Actions", serialised(all));
}

#[test]
fn rules() {
    let all = every(Rule::Expired, |rule| match rule {
        Rule::Expired => Some(Rule::OverBudget),
        Rule::OverBudget => Some(Rule::Untagged),
        Rule::Untagged => Some(Rule::Idle),
        Rule::Idle => Some(Rule::Hours),
        Rule::Hours => Some(Rule::Lifetime),
        Rule::Lifetime => Some(Rule::Orphaned),
        Rule::Orphaned => None,
    });
    let documented: Vec<_> = rows("### Rules").into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(documented, serialised(all).collect::<Vec<_>>(), "in this order: documented on the left");
}

#[test]
fn outcomes() {
    use OutcomeKind as O;
    let all = every(O::Done, |kind| match kind {
        O::Done => Some(O::Observed),
        O::Observed => Some(O::AlreadyGone),
        O::AlreadyGone => Some(O::Changed),
        O::Changed => Some(O::NotReached),
        O::NotReached => Some(O::Failed),
        O::Failed => None,
    });
    check_names("### Outcomes", serialised(all));
}

#[test]
fn skip_reasons() {
    use SkipReason as S;
    let all = every(S::Protected, |reason| match reason {
        S::Protected => Some(S::Kept),
        S::Kept => Some(S::Unreadable),
        S::Unreadable => Some(S::ForeignOwned),
        S::ForeignOwned => Some(S::NotRunning),
        S::NotRunning => Some(S::Marked),
        S::Marked => Some(S::Notified),
        S::Notified => Some(S::Busy),
        S::Busy => Some(S::Young),
        S::Young => Some(S::UsageUnknown),
        S::UsageUnknown => Some(S::Compliant),
        S::Compliant => Some(S::Attached),
        S::Attached => Some(S::NotAvailable),
        S::NotAvailable => Some(S::Kubernetes),
        S::Kubernetes => Some(S::MultiAttach),
        S::MultiAttach => Some(S::LiveJob),
        S::LiveJob => Some(S::JobUnknown),
        S::JobUnknown => Some(S::SnapshotPending),
        S::SnapshotPending => Some(S::VolumeExists),
        S::VolumeExists => Some(S::Restorable),
        S::Restorable => Some(S::WithinBudget),
        S::WithinBudget => Some(S::WithoutBudget),
        S::WithoutBudget => Some(S::BudgetUnknown),
        S::BudgetUnknown => None,
    });
    check_names("### Skip reasons", serialised(all));
}

#[test]
fn notify_only_reasons() {
    use NotifyOnlyReason as O;
    let all = every(O::Configured, |reason| match reason {
        O::Configured => Some(O::CannotBeStopped),
        O::CannotBeStopped => Some(O::PersistentSpot),
        O::PersistentSpot => Some(O::SpotRequestUnknown),
        O::SpotRequestUnknown => Some(O::SavesNothing),
        O::SavesNothing => Some(O::LocalDisk),
        O::LocalDisk => Some(O::Reserved),
        O::Reserved => Some(O::Busy),
        O::Busy => Some(O::TooManyTags),
        O::TooManyTags => None,
    });
    check_names("### Notify-only reasons", serialised(all));
}

#[test]
fn severities() {
    let all = every(Severity::Info, |severity| match severity {
        Severity::Info => Some(Severity::Warning),
        Severity::Warning => Some(Severity::Action),
        Severity::Action => Some(Severity::Error),
        Severity::Error => None,
    });
    check_names("### Severities", all.into_iter().map(|severity| severity.as_str().to_owned()));
}

// ------------------------------------------------------------------------------------------------------- the response

#[test]
#[expect(clippy::too_many_lines, reason = "one of each rule")]
fn the_evidence_of_each_rule() {
    let at = "2026-09-01T12:00:00Z".parse().unwrap();
    let quiet = IdleEvidence {
        from: at,
        to: at,
        devices: 1,
        coverage_percent: 100,
        gpu_max_percent: 0.0,
        cpu_max_vcpus: 0.0,
        network_max_mbps: 0.0,
        disk_max_mbps: None,
        gpu_memory_held_mib: None,
        reserved: false,
    };
    let all = every(Evidence::Expired { expires_at: at }, |because| match because {
        Evidence::Expired { .. } => Some(Evidence::OverBudget(OverBudgetEvidence {
            month: String::new(),
            month_began: at,
            of: "team",
            budget_usd: Amount::ZERO,
            spent_usd: Amount::ZERO,
            reserved_usd: Amount::ZERO,
            percent: 0,
            threshold_percent: 0,
            over_budget: OverBudget::Notify,
            as_of: at,
            text: String::new(),
        })),
        Evidence::OverBudget(_) => Some(Evidence::Untagged { missing: Vec::new(), disowned_by: Some(String::new()) }),
        Evidence::Untagged { .. } => Some(Evidence::Idle(quiet.clone())),
        Evidence::Idle(_) => Some(Evidence::Hours { hours: String::new(), at }),
        Evidence::Hours { .. } => Some(Evidence::Lifetime { launched_at: at, max: jiff::SignedDuration::ZERO }),
        Evidence::Lifetime { .. } => Some(Evidence::Orphaned(OrphanedEvidence {
            unattached_since: at,
            size_gib: 0,
            volume_type: String::new(),
            usd_per_month: None,
            last_attached_to: Some("i-0abc".into()),
        })),
        Evidence::Orphaned(_) => {
            Some(Evidence::SnapshotExpired { volume: "vol-0abc".into(), deleted_at: at, expires_at: at })
        }
        Evidence::SnapshotExpired { .. } => {
            Some(Evidence::Resolved(ResolvedEvidence { rule: Rule::Idle, resolved: true }))
        }
        Evidence::Resolved(_) => {
            Some(Evidence::Repeated(RepeatedEvidence { rule: Rule::Idle, not_queried_again: true }))
        }
        Evidence::Repeated(_) => None,
    });
    for because in all {
        let written = serde_json::to_value(&because).unwrap();
        let mut evidence: BTreeSet<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(evidence.remove("rule"), "{written}");
        let without_evidence = match because {
            Evidence::Repeated(_) => Some(("not_queried_again", "has the rule, and `not_queried_again`.")),
            Evidence::Resolved(_) => Some(("resolved", "An `unmark` has the rule that was announced, and `resolved`.")),
            _ => None,
        };
        if let Some((key, sentence)) = without_evidence {
            assert!(evidence == BTreeSet::from([key]) && section("### Rules").contains(sentence), "{written}");
            continue;
        }
        let rule = if matches!(because, Evidence::SnapshotExpired { .. }) {
            "`expired`, of a snapshot"
        } else {
            because.rule().as_str()
        };
        if let Evidence::SnapshotExpired { .. } = because {
            let sentence = format!("The evidence of an {rule}");
            let line = section("### Rules").lines().find(|line| line.starts_with(&sentence)).unwrap();
            assert_eq!(quoted(line).skip(1).collect::<BTreeSet<_>>(), evidence, "documented on the left");
            continue;
        }
        let (_, cells) = rows("### Rules").into_iter().find(|(name, _)| *name == rule).unwrap();
        assert_eq!(quoted(cells[2]).collect::<BTreeSet<_>>(), evidence, "{rule}: documented on the left");
    }
}

fn documented_response() -> Value {
    serde_json::from_str(blocks("## The response", "json")[0]).unwrap()
}

/// What the documented response answers: one instance without an owner, one protected, one region that was not seen.
fn real_report() -> Report {
    let documented = documented_response();
    let tags = |tags: &[(&str, &str)]| tags.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let gap = Gap::new(
        &"us-east-2".into(),
        "ec2:DescribeInstances",
        documented["gaps"][0]["error"].as_str().unwrap(),
        GapKind::Region,
    );
    let ownerless = Instance { tags: tags(&[("Team", "vision")]), ..instance("i-0aaa") };
    let protected = Instance { tags: tags(&[(PROTECTED, "")]), ..instance("i-0bbb") };
    let seen = Observation { items: vec![ownerless, protected], gaps: vec![gap] };
    let config = Config::read("[untagged]\nmode = \"enforce\"").unwrap();
    let policy = Policy {
        config,
        ceiling: Mode::Enforce,
        prices: PriceBook::dated(),
        budgets: BudgetStatuses::default(),
        jobs: JobStates::default(),
    };
    let now = documented["at"].as_str().unwrap().parse().unwrap();
    let unknown = Usage::Unknown(UnknownUsage::Uninstrumented { reporting: 0, devices: 1 });
    let plan = decide(&seen, &BTreeMap::from([("i-0aaa".into(), unknown)]), &BTreeMap::new(), &policy, now);
    let run = documented["run"].as_str().unwrap().into();
    let regions = vec!["us-east-1".into(), "us-east-2".into()];
    let mut report = Report::from_plan(plan, "reap-instances", run, now, Mode::Enforce, regions);
    for (_, outcome) in &mut report.steps {
        *outcome = StepOutcome::from_kind(OutcomeKind::Done);
    }
    report
}

#[test]
fn the_documented_response_is_a_real_one() {
    let real = serde_json::to_value(Response::from_report(&real_report())).unwrap();
    assert_eq!(documented_response(), real, "documented on the left");
}

#[test]
fn every_field_of_the_table_is_one_of_the_response() {
    let documented = documented_response();
    for (field, _) in rows("### Fields") {
        let exists = documented.get(field).is_some() || documented["steps"][0].get(field).is_some();
        assert!(exists, "no field {field}");
    }
}

#[test]
fn the_audit_record_is_the_response_and_what_the_page_says_besides() {
    let report = real_report();
    assert_eq!(AuditRecord::key(&report), "plans/2026-09-01/reap-instances/8476a536-e9f4-11e8-9739-2dfe598c3fcd.json");
    assert!(REFERENCE.contains("| `plans/<yyyy-mm-dd>/reap-instances/<run>.json` |"));
    assert!(REFERENCE.contains(&format!("carries `schema` (now {SCHEMA})")));
    let mut expect = documented_response();
    expect["schema"] = json!(SCHEMA);
    expect["skipped"] = json!({ "protected": ["i-0bbb"] });
    expect["steps"][0]["what"] = json!("g5.xlarge");
    assert_eq!(expect, serde_json::to_value(AuditRecord::from_report(&report)).unwrap(), "documented on the left");
}

/// What so many cost by a cell such as `$0.065 above 0; $0.0455 above 32,000`.
fn by_tiers(cell: &str, count: u64) -> f64 {
    let tiers = cell.split("; ").filter_map(|tier| tier.strip_prefix('$')?.split_once(" above "));
    let tiers: Vec<(f64, u64)> =
        tiers.map(|(each, above)| (each.parse().unwrap(), above.replace(',', "").parse().unwrap())).collect();
    let ends = tiers.iter().skip(1).map(|(_, above)| *above).chain([count]);
    tiers.iter().zip(ends).map(|((each, above), end)| each * units(end - above)).sum()
}

#[test]
fn the_prices_of_volumes() {
    let (gib, iops, mibps) = (1_000, 100_000, 1_000);
    for (name, cells) in rows("## Prices") {
        let size = units(gib) * cells[1].trim_start_matches('$').parse::<f64>().unwrap();
        let documented = size + by_tiers(cells[2], iops) + by_tiers(cells[3], mibps);
        let volume = Volume { volume_type: name.to_owned(), ..volume(gib, iops, mibps) };
        let cents = PriceBook::dated().volume_cost(&volume).map(|quote| quote.rate.usd_cents_per_month()).unwrap();
        assert!(
            (documented * 100.0 - units(cents)).abs() < 1.0,
            "{name}: ${documented} documented, {cents} cents told"
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of a page for people")]
fn units(count: u64) -> f64 {
    count as f64
}

fn volume(size_gib: u64, iops: u64, mibps: u64) -> Volume {
    Volume {
        id: "vol-0abc".into(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        volume_type: String::new(),
        size_gib,
        iops: Some(iops),
        throughput_mibps: Some(mibps),
        state: VolumeState::Available,
        attached_to: Vec::new(),
        multi_attach: false,
        created_at: Timestamp::UNIX_EPOCH,
        tags: BTreeMap::new(),
        from_snapshot: None,
        operator: None,
    }
}

/// Running, on demand, without tags, launched on the day before the documented response.
fn instance(id: &str) -> Instance {
    Instance {
        id: id.into(),
        region: "us-east-1".into(),
        instance_type: "g5.xlarge".into(),
        state: InstanceState::Running,
        launched_at: "2026-08-31T12:00:00Z".parse().unwrap(),
        tags: BTreeMap::new(),
        purchase: PurchaseOption::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        zone: None,
        plain_linux: true,
        host: None,
        state_reason: None,
        machine: InstanceTypeFacts {
            accelerator: Accelerator::Nvidia,
            accelerators: 1,
            vcpus: 4,
            instance_storage_gb: 0,
        },
    }
}
