//! Any memory that can be read, by any writer, over any instances with any labels: nothing panics, and nothing is ended that the log does
//! not announce.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::channels::Audience;
use model::id::ResourceId;
use model::instance::Instance;
use model::mode::Mode;
use model::notification_log::{NotificationLog, NotificationLogs, ResourceRecord};
use model::observation::{Gap, GapKind, Observation};
use model::rule::{ResourceAction, Rule};
use model::usage::{ActivityCache, BusyEvidence, QueryResult, UnknownUsage, Usage};
use notify::{
    Answers, ConfigFault, Delivery, Message, Recipients, config_fault_notification, late_notifications, messages,
    notifications, update_log,
};
use plan::report::{OutcomeKind, Report, StepOutcome};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use reaping::instances::{decide, learn_usage, usage_queries};
use serde_json::{Value, json};

use super::{all_idle, cases, idle, instance, merciless, now, read};

/// SNS developer guide, "Quotas".
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// As [`instance`] has it.
const LAUNCHED_AT: &str = "2026-08-18T12:00:00Z";

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

/// A label that says anything about announced actions.
fn mark() -> impl Strategy<Value = String> {
    let announced = (select(Rule::RUNNING.to_vec()), select(vec!["stop", "terminate"]), moment());
    prop_oneof![
        4 => announced.prop_map(|(rule, ending, at)| format!("{rule}={ending}@{at}")),
        1 => any::<String>(),
    ]
}

/// What is remembered about one resource: mostly in its present life.
fn record() -> impl Strategy<Value = Value> {
    let since = prop_oneof![4 => Just(LAUNCHED_AT.to_owned()), 1 => moment()];
    let action = || select(vec!["stop", "terminate"]);
    let announced = (action(), select(vec!["enforce", "enforce", "observe"]), moment(), moment()).prop_map(
        |(action, mode, at, deadline)| json!({ "action": action, "mode": mode, "at": at, "deadline": deadline }),
    );
    let rules = || select(Rule::RUNNING.iter().map(ToString::to_string).collect::<Vec<String>>());
    let carried_out = (rules(), action(), moment())
        .prop_map(|(rule, action, at)| json!({ "rule": rule, "action": action, "at": at }));
    (
        since,
        btree_map(rules(), announced, 0..4),
        prop::option::of(moment()),
        prop::option::of(carried_out),
        announcement(),
    )
        .prop_map(|(since, announced, expiry_seen, carried_out, notified)| {
            json!({
                "since": since, "announced": announced, "expiry_seen": expiry_seen, "carried_out": carried_out,
                "notified": notified,
            })
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
    let owed = (any::<String>(), select(vec!["info", "error"]), ".{0,40}", select(vec![1_usize, 20_000])).prop_map(
        |(team, severity, text, times)| json!({ "team": team, "severity": severity, "text": text.repeat(times) }),
    );
    (btree_map(id(), record(), 0..4), announcement(), vec(owed, 0..3))
        .prop_map(|(resources, gaps, owed)| json!({ "resources": resources, "gaps": gaps, "undelivered": owed }))
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

/// Whether the log announces it for a rule, in this life, in enforce mode, not before it was kept, for a moment that has come and is not long
/// ago.
fn is_announced(log: &NotificationLog, instance: &Instance, rule: Rule, ending: ResourceAction) -> bool {
    let Some(record) = log.resources.get(&instance.id) else { return false };
    let Some(announced) = record.announced.get(&rule) else { return false };
    let kept = instance.tags.get("curfew:keep-until").and_then(|until| read::until(until));
    let age = now().as_nanosecond() - announced.deadline.as_nanosecond();
    record.since.is_some_and(|since| since.as_second() == instance.launched_at.as_second())
        && announced.mode == Mode::Enforce
        && (announced.ending == ending || announced.ending == ResourceAction::Terminate)
        && (0..=7 * 86_400 * 1_000_000_000).contains(&age)
        && announced.deadline >= instance.launched_at
        && kept.is_none_or(|until| until <= announced.at.as_nanosecond())
}

fn outcome() -> impl Strategy<Value = OutcomeKind> {
    use OutcomeKind::{AlreadyGone, Changed, Done, Failed, NotReached, Observed};
    select(vec![Done, Observed, AlreadyGone, Changed, NotReached, Failed])
}

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn only_the_log_announces_an_end(notices in notices(), fleet in fleet()) {
        let log: NotificationLog = serde_json::from_value(notices).unwrap();
        let memory = NotificationLogs::from([("us-east-1".into(), log.clone())]);
        let seen = Observation { items: fleet.clone(), gaps: Vec::new() };
        for step in decide(&seen, &all_idle(&fleet), &memory, &merciless(), now()).steps {
            let rule = step.evidence.rule();
            let Some(ending) = step.action.ending().filter(|_| step.mode == Mode::Enforce) else { continue };
            let instance = step.action.instance().unwrap();
            let expires_at = instance.tags.get("curfew:expires-at").and_then(|at| read::moment(at));
            let is_in_this_life = |record: &&ResourceRecord| record.since == Some(instance.launched_at);
            let record = log.resources.get(&instance.id).filter(is_in_this_life);
            let seen_before = record.and_then(|record| record.expiry_seen).map(Timestamp::as_nanosecond);
            let is_scheduled = rule == Rule::Expired && seen_before.is_some() && seen_before == expires_at;
            prop_assert!(rule != Rule::Expired || expires_at.unwrap() <= now().as_nanosecond());
            prop_assert!(
                is_scheduled || is_announced(&log, instance, rule, ending) && instance.tags.contains_key("curfew:marked"),
                "{rule} {ending}: {:?} {log:?}",
                instance.tags
            );
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
        let region_gap = |kind| Gap::new(&"us-east-1".into(), "ec2:DescribeInstances", "no", kind);
        let seen = Observation { items: fleet.clone(), gaps: gap.map(region_gap).into_iter().collect() };
        let plan = decide(&seen, &all_idle(&fleet), &memory, &merciless(), now());
        let regions = vec!["us-east-1".into()];
        let mut report =
            Report::from_plan(plan, "reap-instances", "run".into(), now(), Mode::Enforce, regions);
        for ((_, outcome), kind) in report.steps.iter_mut().zip(outcomes) {
            *outcome = StepOutcome::from_kind(kind);
        }
        let notified = notifications(&report, &memory, &home, now());
        let messages = messages(&report, &notified, &memory, &[Audience::Team], None);
        prop_assert!(messages.iter().all(|message| message.body.len() < MESSAGE_BYTES_MAX));
        let sent: Vec<(Message, bool)> = messages.into_iter().map(|message| (message, is_heard)).collect();
        let answers = Answers { audiences: &[Audience::Team], messages: &sent, unmailed: BTreeSet::new() };
        let delivery = Delivery::new(answers, &report, &notified, Recipients::default());
        let late = late_notifications(&report, &notified, &memory, &home, now());
        let after = update_log(&memory, &report, &notified, &late, &delivery, None, now());
        let written = serde_json::to_value(&after[&home]).unwrap();
        prop_assert_eq!(&serde_json::from_value::<NotificationLog>(written).unwrap(), &after[&home]);
    }

    /// A fault that lasts is told at least once a day, whatever date the memory names.
    #[test]
    fn no_memory_keeps_a_fault_quiet_for_longer_than_a_day(at in moment()) {
        let stored = json!({ "gaps": { "configuration": { "at": at, "what": "wrong" } } });
        let at = at.parse::<Timestamp>().unwrap();
        let memory = NotificationLogs::from([("us-east-1".into(), serde_json::from_value(stored).unwrap())]);
        let home = "us-east-1".into();
        let is_quiet = config_fault_notification(&home, ConfigFault::Refused, "wrong", &memory, now()).is_none();
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
        let answered = asks.iter().zip(answers).filter_map(|(ask, found)| Some((ask.instance.id.clone(), found?)));
        let found: BTreeMap<ResourceId, QueryResult> = answered.collect();
        let learned = learn_usage(&instances, &asks, found.clone(), &activity, &merciless(), now());
        for instance in instances {
            let is_idle = matches!(learned.usages[&instance.id], Usage::Idle(_));
            let was_found_idle = matches!(found.get(&instance.id), Some(QueryResult::Answered(Usage::Idle(_), _)));
            prop_assert!(!is_idle || was_found_idle, "{:?}", learned.usages);
            // An answer that says something replaces whatever was known.
            if let Some(QueryResult::Answered(usage, _)) = found.get(&instance.id)
                && !matches!(usage, Usage::Unknown(UnknownUsage::Silent { .. }))
            {
                prop_assert_eq!(learned.activity.instances[&instance.id].at, now());
            }
        }
    }
}

fn found() -> impl Strategy<Value = QueryResult> {
    let usages = vec![
        idle(),
        Usage::Busy(BusyEvidence { until: now() - SignedDuration::from_mins(5), shown: None }),
        Usage::Unknown(UnknownUsage::Silent { devices: 1 }),
        Usage::Unknown(UnknownUsage::NoMetric),
    ];
    prop_oneof![4 => select(usages).prop_map(|usage| QueryResult::Answered(usage, None)), 1 => Just(QueryResult::NoWork)]
}
