//! Any tags on an instance that is idle, beyond all deadlines and fully enforced: it is skipped where one of them cannot be
//! read, and its owner hears which.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::config::RuleAction;
use model::curfew_tags;
use model::curfew_tags::{CurfewTags, IdleAfter, KEYS, LABELS};
use model::foreign_text::quoted_unless_word;
use model::instance::Instance;
use model::mode::Mode;
use model::notification_log::{NotificationLog, NotificationLogs, ResourceRecord};
use model::observation::Observation;
use model::rule::{ResourceAction, Rule};
use plan::{Plan, SkipReason};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use reaping::fixture::announced;
use reaping::instances::decide;

use super::mutate::mutated;
use super::{all_idle, cases, instance, merciless, now, read, text};

/// Of every kind: a key and a value that it takes.
const LEGAL: [(&str, &str); 24] = [
    ("curfew:mode", "enforce"),
    ("curfew:mode", "observe"),
    ("curfew:idle-after", "1h30m"),
    ("curfew:idle-after", "60d"),
    ("curfew:idle-after", "off"),
    ("curfew:on-idle", "stop"),
    ("curfew:on-idle", "terminate"),
    ("curfew:on-idle", "notify"),
    ("curfew:local-disk", "expendable"),
    ("curfew:expires-at", "2026-08-30T18:00:00Z"),
    ("curfew:expires-at", "2026-09-30T18:00:00.25+02:00"),
    ("curfew:hours", "Mon-Fri 08:00-20:00 Europe/Berlin"),
    ("curfew:hours", "Sat,Sun,Mon-Wed 22:00-24:00 UTC"),
    ("curfew:keep-until", "2026-09-30"),
    ("curfew:keep-until", "2026-08-30T18:00:00-05:00"),
    ("curfew:protected", ""),
    ("curfew:marked", "idle=stop@2026-08-31T12:00:00Z"),
    ("curfew:marked", "hours=terminate@9999-12-30T22:00:00Z"),
    ("curfew:stopped", "hours 2026-08-31T18:00:05Z"),
    ("curfew:job", "vision/llama-0123abcd"),
    ("curfew:attempt", "1"),
    ("curfew:unattached-since", "2026-08-30T18:00:00Z"),
    ("curfew:snapshot-of", "vol-0abc"),
    ("curfew:deleted-at", "2026-08-30T18:00:00Z"),
];

/// Keys that were meant to be one of ours, or that might be taken for one.
const MISSPELT: [&str; 16] = [
    "Curfew:Protected",
    "curfew:protectd",
    "CURFEW",
    "curfew",
    "curfew :mode",
    "curfew:mode ",
    "curfew:Mode",
    " curfew:protected",
    "\u{200b}curfew:protected",
    "сurfew:protected",
    "curfеw:keep-until",
    "curfew-keep-until",
    "curfew:",
    "\tcurfew:mode",
    "my-curfew:mode",
    "curfe",
];

type Tags = BTreeMap<String, String>;

fn key() -> impl Strategy<Value = String> {
    let keys = KEYS.iter().chain(&MISSPELT).map(|key| key.as_bytes().to_vec()).collect();
    prop_oneof![
        6 => select(&KEYS[..]).prop_map(str::to_owned),
        1 => select(&MISSPELT[..]).prop_map(str::to_owned),
        2 => mutated(keys).prop_map(|key| text(&key)),
        1 => any::<String>(),
    ]
}

fn tag() -> impl Strategy<Value = (String, String)> {
    let values: Vec<Vec<u8>> = LEGAL.iter().map(|(_, value)| value.as_bytes().to_vec()).collect();
    let own = (0..LEGAL.len()).prop_flat_map(|which| {
        let (key, value) = LEGAL[which];
        (Just(key.to_owned()), mutated(vec![value.as_bytes().to_vec()]).prop_map(|value| text(&value)))
    });
    prop_oneof![
        4 => select(&LEGAL[..]).prop_map(|(key, value)| (key.to_owned(), value.to_owned())),
        8 => own,
        3 => (key(), mutated(values).prop_map(|value| text(&value))),
        1 => (key(), any::<String>()),
    ]
}

fn tags() -> impl Strategy<Value = Tags> {
    vec(tag(), 1..5).prop_map(|tags| tags.into_iter().collect())
}

/// Whatever is done to it is done now: its idleness was announced, that is due, and it is marked.
fn doomed(tags: &Tags) -> Instance {
    let given = [("Team", "vision"), ("Owner", "ada"), ("curfew:marked", "idle=stop@2026-09-01T11:00:00Z")];
    let mut all: Tags = given.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    all.extend(tags.clone());
    instance("i-0abc", all)
}

fn plan(instance: &Instance) -> Plan {
    let due = announced(ResourceAction::Stop, "2026-09-01T11:00:00Z");
    let record = ResourceRecord {
        announced: [(Rule::Idle, due), (Rule::Lifetime, due)].into(),
        ..ResourceRecord::about(instance.launched_at)
    };
    let log = NotificationLog { resources: [(instance.id.clone(), record)].into(), ..NotificationLog::default() };
    plan_by(instance, &NotificationLogs::from([(instance.region.clone(), log)]))
}

fn plan_by(instance: &Instance, memory: &NotificationLogs) -> Plan {
    let seen = Observation { items: vec![instance.clone()], gaps: Vec::new() };
    decide(&seen, &all_idle(&seen.items), memory, &merciless(), now())
}

/// Begins with `curfew` to the eye: in any case, after invisible blanks, with letters that look alike.
fn looks_like_ours(key: &str) -> bool {
    let is_invisible = |c: char| {
        c.is_whitespace() || c.is_control() || "\u{ad}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{feff}".contains(c)
    };
    let latin = key.trim_start_matches(is_invisible).replace(['с', 'С'], "c").replace(['е', 'Е'], "e");
    latin.to_ascii_lowercase().starts_with("curfew")
}

/// Whether a tag is none of ours, or one that says something.
fn reads(key: &str, value: &str, launched_at: Timestamp) -> bool {
    match key {
        "curfew:mode" => ["enforce", "observe"].contains(&value),
        "curfew:idle-after" => value == "off" || read::duration(value).is_some_and(|seconds| seconds <= 60 * 86_400),
        "curfew:on-idle" => ["stop", "terminate", "notify"].contains(&value),
        "curfew:local-disk" => ["keep", "expendable"].contains(&value) || read::duration(value).is_some(),
        "curfew:expires-at" => read::moment(value).is_some_and(|at| at >= launched_at.as_nanosecond()),
        "curfew:hours" => read::hours(value),
        "curfew:keep-until" => read::until(value).is_some(),
        "curfew:protected" | "curfew:job" | "curfew:attempt" => true,
        label if LABELS.contains(&label) => true,
        _ => !looks_like_ours(key),
    }
}

/// What was read, written as Curfew would write it.
fn canonical(says: &CurfewTags) -> Tags {
    let idle_after = says.idle_after.map(|after| match after {
        IdleAfter::Off => "off".to_owned(),
        IdleAfter::Window(window) => format!("{}s", window.as_secs()),
    });
    let on_idle = says.on_idle.map(|action| match action {
        RuleAction::Stop => "stop",
        RuleAction::Terminate => "terminate",
        RuleAction::Notify => "notify",
    });
    let local_disk = says.local_disk.map(|disk| disk.to_string());
    let mode = says.mode.map(|mode| if mode == Mode::Enforce { "enforce" } else { "observe" });
    let written = [
        (curfew_tags::MODE, mode.map(str::to_owned)),
        (curfew_tags::IDLE_AFTER, idle_after),
        (curfew_tags::ON_IDLE, on_idle.map(str::to_owned)),
        (curfew_tags::LOCAL_DISK, local_disk),
        (curfew_tags::EXPIRES_AT, says.expires_at.map(|at| at.to_string())),
        (curfew_tags::HOURS, says.hours.as_ref().map(ToString::to_string)),
        (curfew_tags::KEEP_UNTIL, says.keep_until.map(|at| at.to_string())),
        (curfew_tags::JOB, says.job.clone()),
    ];
    written.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

#[test]
fn without_a_further_tag_it_is_stopped() {
    let plan = plan(&doomed(&Tags::new()));
    assert!(plan.steps[0].action.ending() == Some(ResourceAction::Stop), "{plan:?}");
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn what_cannot_be_read_spares_and_is_named(tags in tags()) {
        let doomed = doomed(&tags);
        let unreadable: Vec<(&String, &String)> =
            doomed.tags.iter().filter(|(key, value)| !reads(key, value, doomed.launched_at)).collect();
        let found = CurfewTags::read(&doomed).err().unwrap_or_default();
        prop_assert_eq!(found.iter().map(|tag| (&tag.key, &tag.value)).collect::<Vec<_>>(), unreadable.clone());

        let plan = plan(&doomed);
        let kept = tags.get("curfew:keep-until").and_then(|value| read::until(value));
        let reason = if tags.contains_key("curfew:protected") {
            Some(SkipReason::Protected)
        } else if kept.is_some_and(|until| now().as_nanosecond() < until) {
            Some(SkipReason::Kept)
        } else {
            (!unreadable.is_empty()).then_some(SkipReason::Unreadable)
        };
        let Some(reason) = reason else { return Ok(()) };
        prop_assert!(plan.steps.is_empty(), "{:?}", plan.steps);
        prop_assert_eq!(plan.skipped[0].reason, reason);
        if reason != SkipReason::Protected {
            let text = plan.skipped[0].finding.as_ref().map_or("", |finding| finding.text.as_str());
            for (key, value) in unreadable {
                let named = format!("{}={}", quoted_unless_word(key), quoted_unless_word(value));
                prop_assert!(text.contains(&named), "{text}");
            }
        }
    }

    #[test]
    fn what_is_read_means_what_it_says(tags in tags()) {
        let doomed = doomed(&tags);
        let Ok(says) = CurfewTags::read(&doomed) else { return Ok(()) };
        let tag = |key: &str| doomed.tags.get(key).map(String::as_str);
        prop_assert_eq!(says.mode.map(|mode| mode == Mode::Enforce), tag("curfew:mode").map(|mode| mode == "enforce"));
        prop_assert_eq!(says.expires_at.map(Timestamp::as_nanosecond), tag("curfew:expires-at").and_then(read::moment));
        prop_assert_eq!(says.keep_until.map(Timestamp::as_nanosecond), tag("curfew:keep-until").and_then(read::until));
        let seconds = says.idle_after.map(|after| match after {
            IdleAfter::Off => None,
            IdleAfter::Window(window) => Some(window.as_secs()),
        });
        prop_assert_eq!(seconds, tag("curfew:idle-after").map(read::duration));

        let again = Instance { tags: canonical(&says), ..doomed.clone() };
        prop_assert_eq!(CurfewTags::read(&again), Ok(says.clone()));

        // No tag announces anything, also none of a moment that no run has seen before its time.
        for step in plan_by(&doomed, &NotificationLogs::new()).steps {
            prop_assert!(!step.action.stops_or_deletes(), "{step:?}");
        }
        for step in plan(&doomed).steps {
            prop_assert!(says.mode != Some(Mode::Observe) || step.mode == Mode::Observe, "{step:?}");
        }
    }
}
