//! Any memory that can be read, by any writer, over any instances: nothing panics, and nothing is ended that its own tag
//! does not announce.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::id::ResourceId;
use model::instance::Instance;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::{Gap, GapKind, Observation};
use model::rule::Rule;
use model::usage::{ActivityCache, BusyEvidence, QueryResult, UnknownUsage, Usage};
use notify::{late_notifications, messages, notifications, refused_config_notification, update_log};
use plan::report::{OutcomeKind, Report, StepOutcome};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use reaping::instances::{decide, learn_usage, usage_queries};
use serde_json::{Value, json};

use super::{all_idle, cases, idle, instance, merciless, now, read};

/// SNS developer guide, "Quotas".
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

fn moment() -> impl Strategy<Value = String> {
    let far = vec![
        "-009999-01-02T01:59:59Z",
        "0000-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999999Z",
        "2026-08-01T00:00:00Z",
        "2026-12-31T23:59:60Z",
        "9999-12-30T21:55:00Z",
        "9999-12-30T22:00:00.999999999Z",
    ];
    let near = (-15_000_i64..15_000).prop_map(|minutes| (now() + SignedDuration::from_mins(minutes)).to_string());
    prop_oneof![1 => select(far).prop_map(str::to_owned), 2 => near]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![6 => select(vec!["i-0", "i-1", "i-2"]).prop_map(str::to_owned), 1 => "[^ ]{1,8}"]
}

fn mark() -> impl Strategy<Value = String> {
    let deadline = moment().prop_filter("no RFC 3339", |at| read::moment(at).is_some());
    let entries = btree_map(select(Rule::OF_INSTANCES.to_vec()), (select(vec!["stop", "terminate"]), deadline), 1..4);
    (id(), entries).prop_map(|(id, entries)| {
        let entry = |(rule, (ending, at)): (&Rule, &(&str, String))| format!(" {rule}={ending}@{at}");
        format!("{id}{}", entries.iter().map(entry).collect::<String>())
    })
}

fn announcement() -> impl Strategy<Value = Value> {
    let topics = [
        "idle",
        "would-idle",
        "undone-idle",
        "untagged",
        "would-hours",
        "started",
        "unreadable",
        "usage-unknown",
        "foreign-owned",
        "configuration",
        "us-east-1 ec2:DescribeInstances",
        "",
    ];
    let what = prop_oneof![
        select(vec!["configured", "stop", "part", "usage-unknown", "stop@2026-09-01T11:00:00Z"])
            .prop_map(str::to_owned),
        moment(),
        any::<String>(),
    ];
    let one = (moment(), what).prop_map(|(at, what)| json!({ "at": at, "what": what }));
    btree_map(select(topics.to_vec()).prop_map(str::to_owned), one, 0..4).prop_map(|topics| json!(topics))
}

/// As the bucket holds it.
pub(super) fn notices() -> impl Strategy<Value = Value> {
    let marks = || btree_map(id(), mark(), 0..3);
    let owed = (any::<String>(), select(vec!["info", "error"]), ".{0,40}", select(vec![1_usize, 20_000])).prop_map(
        |(team, severity, text, times)| json!({ "team": team, "severity": severity, "text": text.repeat(times) }),
    );
    (marks(), marks(), marks(), btree_map(id(), announcement(), 0..3), announcement(), vec(owed, 0..3)).prop_map(
        |(shadow_marks, unwritten_marks, void_marks, told, gaps, owed)| {
            json!({
                "shadow_marks": shadow_marks, "unwritten_marks": unwritten_marks, "void_marks": void_marks,
                "notified": told, "gaps": gaps, "undelivered": owed,
            })
        },
    )
}

fn activity() -> impl Strategy<Value = Value> {
    let at = || prop::option::of(moment());
    let one = (moment(), at(), prop::option::of(any::<bool>()), at(), moment()).prop_map(
        |(at, busy_until, found_idle_reserved, in_full_at, idle_not_before)| {
            json!({
                "at": at, "busy_until": busy_until, "found_idle_reserved": found_idle_reserved,
                "in_full_at": in_full_at, "idle_not_before": idle_not_before,
            })
        },
    );
    btree_map(id(), one, 0..4).prop_map(|instances| json!({ "instances": instances }))
}

fn fleet() -> impl Strategy<Value = Vec<Instance>> {
    let tag = prop_oneof![
        3 => mark().prop_map(|mark| ("curfew:marked".to_owned(), mark)),
        1 => moment().prop_map(|at| ("curfew:expires-at".to_owned(), at)),
        1 => moment().prop_map(|at| ("curfew:keep-until".to_owned(), at)),
        1 => moment().prop_map(|at| ("curfew:stopped".to_owned(), format!("hours {at}"))),
        1 => Just(("curfew:hours".to_owned(), "Mon-Fri 22:00-06:00 Asia/Tokyo".to_owned())),
        1 => Just(("curfew:mode".to_owned(), "observe".to_owned())),
        1 => Just(("curfew:idle-after".to_owned(), "60d".to_owned())),
    ];
    let tags = vec((vec(tag, 0..4), any::<bool>()), 3);
    tags.prop_map(|fleet| {
        let one = |(place, (mut tags, has_owner)): (usize, (Vec<(String, String)>, bool))| {
            tags.push(("Team".to_owned(), "vision".to_owned()));
            tags.extend(has_owner.then(|| ("Owner".to_owned(), "ada".to_owned())));
            instance(&format!("i-{place}"), tags.into_iter().collect())
        };
        fleet.into_iter().enumerate().map(one).collect()
    })
}

/// What its own tag announces for a rule, to it, in this life, for a moment that has come and is not long ago.
fn is_announced(instance: &Instance, rule: Rule, ending: &str) -> bool {
    let Some((whom, entries)) = instance.tags.get("curfew:marked").and_then(|mark| mark.split_once(' ')) else {
        return false;
    };
    let said = entries.split(' ').find_map(|entry| entry.strip_prefix(rule.as_str())?.strip_prefix('='));
    let Some((announced, deadline)) = said.and_then(|said| said.split_once('@')) else { return false };
    let deadline = read::moment(deadline).unwrap();
    let age = now().as_nanosecond() - deadline;
    whom == instance.id.as_str()
        && (announced == ending || announced == "terminate")
        && (0..=7 * 86_400 * 1_000_000_000).contains(&age)
        && deadline >= instance.launched_at.as_nanosecond()
}

fn outcome() -> impl Strategy<Value = OutcomeKind> {
    use OutcomeKind::{AlreadyGone, Changed, Done, Failed, NotReached, Observed};
    select(vec![Done, Observed, AlreadyGone, Changed, NotReached, Failed])
}

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn only_its_own_tag_announces_an_end(notices in notices(), fleet in fleet()) {
        let notices: NotificationLog = serde_json::from_value(notices).unwrap();
        let memory = NotificationLogs::from([("us-east-1".into(), notices)]);
        let seen = Observation { items: fleet.clone(), gaps: Vec::new() };
        for step in decide(&seen, &all_idle(&fleet), &memory, &merciless(), now()).steps {
            let rule = step.evidence.rule();
            let Some(ending) = step.action.ending() else { continue };
            let instance = step.action.instance().unwrap();
            if rule == Rule::Expired {
                let at = instance.tags.get("curfew:expires-at").and_then(|at| read::moment(at)).unwrap();
                prop_assert!(at <= now().as_nanosecond());
            } else if step.mode == model::mode::Mode::Enforce {
                prop_assert!(is_announced(instance, rule, ending.as_str()), "{rule} {ending}: {:?} {memory:?}", instance.tags);
            }
        }
    }

    /// Whatever earlier runs are said to have told, a run can be told and remembered.
    #[test]
    fn any_memory_can_be_told_and_remembered(
        notices in notices(),
        fleet in fleet(),
        outcomes in vec(outcome(), 3),
        is_heard in any::<bool>(),
        gap in prop::option::of(select(vec![GapKind::Region, GapKind::Listing])),
    ) {
        let home = "us-east-1".into();
        let memory = NotificationLogs::from([("us-east-1".into(), serde_json::from_value::<NotificationLog>(notices).unwrap())]);
        let of_region = |kind| Gap::new(&"us-east-1".into(), "ec2:DescribeInstances", "no", kind);
        let seen = Observation { items: fleet.clone(), gaps: gap.map(of_region).into_iter().collect() };
        let plan = decide(&seen, &all_idle(&fleet), &memory, &merciless(), now());
        let regions = vec!["us-east-1".into()];
        let mut report =
            Report::from_plan(plan, "reap-instances", "run".into(), now(), model::mode::Mode::Enforce, regions);
        for ((_, outcome), kind) in report.steps.iter_mut().zip(outcomes) {
            *outcome = StepOutcome::from_kind(kind);
        }
        let told = notifications(&report, &memory, &home, now());
        let messages = messages(&report, &told, &memory);
        prop_assert!(messages.iter().all(|message| message.body.len() < MESSAGE_BYTES_MAX));
        let teams: BTreeSet<String> = messages.into_iter().map(|message| message.team).filter(|_| is_heard).collect();
        let late = late_notifications(&report, &told, &memory, &home, now());
        let after = update_log(&memory, &report, &told, &late, &teams, now());
        let written = serde_json::to_value(&after[&home]).unwrap();
        prop_assert_eq!(&serde_json::from_value::<NotificationLog>(written).unwrap(), &after[&home]);
    }

    /// A fault that lasts is told at least once a day, whatever date the memory names.
    #[test]
    fn no_memory_keeps_a_fault_quiet_for_longer_than_a_day(at in moment()) {
        let told = json!({ "gaps": { "configuration": { "at": at, "what": "wrong" } } });
        let at = at.parse::<Timestamp>().unwrap();
        let memory = NotificationLogs::from([("us-east-1".into(), serde_json::from_value(told).unwrap())]);
        let is_quiet = refused_config_notification(&"us-east-1".into(), "wrong", &memory, now()).is_none();
        prop_assert_eq!(is_quiet, now().duration_since(at).abs() < SignedDuration::from_hours(24));
    }

    /// A cache says whom to ask, and what is believed of those that are not asked is never that they are idle. What it says of
    /// days to come keeps nobody from being asked about.
    #[test]
    fn earlier_answers_make_no_instance_idle(
        activity in activity(), notices in notices(), fleet in fleet(), answers in vec(prop::option::of(found()), 3),
    ) {
        let activity: ActivityCache = serde_json::from_value(activity).unwrap();
        let memory = NotificationLogs::from([("us-east-1".into(), serde_json::from_value(notices).unwrap())]);
        let instances: Vec<&Instance> = fleet.iter().collect();
        let asks = usage_queries(&instances, &activity, &memory, &merciless(), now());
        let of_asks = asks.iter().zip(answers).filter_map(|(ask, found)| Some((ask.instance.id.clone(), found?)));
        let found: BTreeMap<ResourceId, QueryResult> = of_asks.collect();
        let learnt = learn_usage(&instances, &asks, found.clone(), &activity, &merciless(), now());
        for instance in instances {
            let is_idle = matches!(learnt.usages[&instance.id], Usage::Idle(_));
            let was_found_idle = matches!(found.get(&instance.id), Some(QueryResult::Answered(Usage::Idle(_), _)));
            prop_assert!(!is_idle || was_found_idle, "{:?}", learnt.usages);
            // An answer that says something replaces whatever was known.
            if let Some(QueryResult::Answered(usage, _)) = found.get(&instance.id)
                && !matches!(usage, Usage::Unknown(UnknownUsage::Silent { .. }))
            {
                prop_assert_eq!(learnt.activity.instances[&instance.id].at, now());
            }
        }
    }
}

fn found() -> impl Strategy<Value = QueryResult> {
    let told = vec![
        idle(),
        Usage::Busy(BusyEvidence { until: now() - SignedDuration::from_mins(5), shown: None }),
        Usage::Unknown(UnknownUsage::Silent { devices: 1 }),
        Usage::Unknown(UnknownUsage::NoMetric),
    ];
    prop_oneof![4 => select(told).prop_map(|usage| QueryResult::Answered(usage, None)), 1 => Just(QueryResult::NoWork)]
}
