//! Runs of every five minutes on Tuesday, 2026-09-01, at $12 an hour for each instance: a run costs $1.

use model::known_sum::KnownSum;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Five minutes at this price are $1.
const USD_PER_HOUR: f64 = 12.0;

/// A step about an instance, by the rule `idle`.
fn step(resource: &str, action: &str, outcome: &str) -> Value {
    json!({
        "region": "us-east-1", "resource": resource, "what": "g5.xlarge", "team": "vision", "action": action,
        "evidence": { "rule": "idle" }, "saves_usd_per_hour": USD_PER_HOUR, "outcome": outcome,
    })
}

fn due(resource: &str) -> Value {
    step(resource, "stop", "observed")
}

/// The step with these facts in its evidence.
fn with_evidence(mut step: Value, more: &Value) -> Value {
    let evidence = step["evidence"].as_object_mut().unwrap();
    evidence.extend(more.as_object().unwrap().clone());
    step
}

/// Checks the rows of these runs, five minutes apart from noon on, with their steps and their skipped ids by reason.
fn summary(runs: &[(Vec<Value>, Value)]) -> ObservedSummary {
    let mut actions = ObservedActions::default();
    for (place, (steps, skipped)) in runs.iter().enumerate() {
        actions.add(&record("reap-instances", place, steps, skipped));
    }
    actions.finish()
}

fn record(function: &str, place: usize, steps: &[Value], skipped: &Value) -> RunRecord {
    let (hour, minute) = (12 + place / 12, place % 12 * 5);
    let record = json!({
        "function": function, "run": format!("r{place}"), "at": format!("2026-09-01T{hour:02}:{minute:02}:00Z"),
        "mode": "observe", "regions": ["us-east-1"], "seen": 1, "steps": steps, "skipped": skipped,
    });
    serde_json::from_value(record).unwrap()
}

/// Checks the only row: what it would have saved, and what happened since.
fn check(runs: &[(Vec<Value>, Value)], saved: &str, since_then: &str) {
    let [row] = summary(runs).rows.try_into().unwrap();
    assert_eq!((row.saved.unwrap().to_string().as_str(), row.since_then().as_str()), (saved, since_then));
}

fn listed() -> (Vec<Value>, Value) {
    (vec![due("i-1")], json!({}))
}

fn skipped(reason: &str) -> (Vec<Value>, Value) {
    (Vec::new(), json!({ reason: ["i-1", "i-9"] }))
}

#[test]
fn it_saves_its_price_from_the_first_run_that_finds_the_action_due_to_the_last() {
    check(&[listed()], "$0.00", "still due");
    check(&[listed(), listed(), listed()], "$2.00", "still due");
    // The one step of a run may be about another rule, and its owner may have been notified of that before.
    let other = (vec![with_evidence(step("i-1", "notify", "observed"), &json!({ "rule": "lifetime" }))], json!({}));
    check(&[listed(), other, listed()], "$2.00", "still due");
    check(&[listed(), skipped("notified"), skipped("marked"), listed()], "$3.00", "still due");
    check(&[listed(), skipped("usage-unknown"), listed()], "$2.00", "still due");
}

#[test]
fn what_a_later_run_finds_ends_the_saving() {
    let two = || vec![listed(), listed()];
    let then = |run: (Vec<Value>, Value)| [two(), vec![run]].concat();
    check(&then(skipped("busy")), "$1.00", "used again 2026-09-01 12:10");
    check(&then(skipped("young")), "$1.00", "used again 2026-09-01 12:10");
    check(&then(skipped("compliant")), "$1.00", "complies since 2026-09-01 12:10");
    check(&then(skipped("kept")), "$1.00", "kept since 2026-09-01 12:10");
    check(&then(skipped("not-running")), "$1.00", "stopped by 2026-09-01 12:10");
    check(&then((Vec::new(), json!({ "busy": ["i-9"] }))), "$1.00", "gone by 2026-09-01 12:10");
    check(&then((vec![step("i-1", "unmark", "observed")], json!({}))), "$1.00", "used again 2026-09-01 12:10");
    check(&then((vec![step("i-1", "stop", "done")], json!({}))), "$1.00", "carried out 2026-09-01 12:10");
    let tagged = with_evidence(step("i-1", "unmark", "observed"), &json!({ "rule": "untagged" }));
    check(&then((vec![tagged], json!({}))), "$1.00", "still due");
    let anew = with_evidence(step("i-1", "mark", "observed"), &json!({ "deadline": "2026-09-01T13:10:00Z" }));
    check(&then((vec![anew], json!({}))), "$1.00", "used again 2026-09-01 12:10");
}

#[test]
fn what_is_due_again_after_its_use_saves_again() {
    let runs = [listed(), listed(), skipped("busy"), skipped("busy"), listed(), listed(), listed()];
    check(&runs, "$3.00", "used again 2026-09-01 12:10, due again");
    check(&[listed(), skipped("not-running"), skipped("young")], "$0.00", "used again 2026-09-01 12:10");
    let row = &summary(&runs).rows[0];
    assert_eq!((row.due_since.to_string().as_str(), row.due_seconds), ("2026-09-01T12:00:00Z", 900));
}

#[test]
fn a_deadline_before_the_first_record_says_since_when_it_is_due() {
    let step = with_evidence(due("i-1"), &json!({ "deadline": "2026-08-30T09:00:00Z" }));
    let [row] = summary(&[(vec![step], json!({}))]).rows.try_into().unwrap();
    assert_eq!((row.due_since.to_string().as_str(), row.saved), ("2026-08-30T09:00:00Z", Some(Amount::ZERO)));
}

#[test]
fn where_a_run_could_not_see_everything_nothing_is_gone() {
    let check = |more: Value, expect: DueState| {
        let mut actions = ObservedActions::default();
        actions.add(&record("reap-instances", 0, &[due("i-1")], &json!({})));
        let mut later = serde_json::to_value(record("reap-instances", 1, &[], &json!({}))).unwrap();
        later.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        actions.add(&serde_json::from_value(later).unwrap());
        assert_eq!(actions.finish().rows[0].state, expect, "{more}");
    };
    check(json!({}), DueState::Gone);
    check(json!({ "regions": ["eu-west-1"] }), DueState::StillDue);
    check(json!({ "function": "reap-volumes" }), DueState::StillDue);
    check(json!({ "run": "apply-r0-1" }), DueState::StillDue);
    let gap = json!({ "region": "us-east-1", "call": "ec2:DescribeInstances", "error": "late" });
    check(json!({ "gaps": [gap] }), DueState::StillDue);
}

#[test]
fn a_volume_saves_its_price_less_that_of_its_snapshot() {
    let mut step =
        with_evidence(step("vol-1", "snapshot", "observed"), &json!({ "rule": "orphaned", "size_gib": 730 }));
    // $73 a month; its snapshot costs at most $36.50.
    step["saves_usd_per_hour"] = json!(0.1);
    let mut actions = ObservedActions::default();
    actions.add(&record("reap-volumes", 0, std::slice::from_ref(&step), &json!({})));
    actions.add(&record("reap-volumes", 24, &[step], &json!({})));
    let [row] = actions.finish().rows.try_into().unwrap();
    assert_eq!((row.saved, row.action_in_words()), (Some(Amount::from_usd(0.1)), "snapshot and delete"));
}

#[test]
fn an_unknown_price_is_never_zero() {
    let mut unknown = due("i-2");
    unknown["saves_usd_per_hour"] = Value::Null;
    let run = || (vec![due("i-1"), unknown.clone()], json!({}));
    let both = summary(&[run(), run()]);
    assert_eq!((both.saved, both.unknown_prices), (KnownSum::new(Amount::from_usd(1.0), 1), 1));
    assert_eq!(both.rows.iter().map(|row| row.saved).collect::<Vec<_>>(), [Some(Amount::from_usd(1.0)), None]);
    assert_eq!(
        both.describe("7d")[0],
        "Enforce mode would have stopped 2 machines in the last 7d (at least $1.00; 1 without a price); none of them was \
         used again since."
    );
    let alone = summary(&[(vec![unknown.clone()], json!({}))]);
    assert_eq!(
        alone.describe("7d")[0],
        "Enforce mode would have stopped 1 machine in the last 7d, at unknown prices; none of them was used again since."
    );
}

#[test]
fn the_totals_are_by_action_and_kind() {
    let volume = with_evidence(step("vol-1", "delete", "observed"), &json!({ "rule": "orphaned" }));
    let run = || (vec![due("i-1"), due("i-2"), volume.clone(), step("snap-1", "delete", "observed")], json!({}));
    let found = summary(&[run(), run(), (vec![due("i-2")], json!({ "busy": ["i-1"], "attached": ["vol-1"] }))]);
    assert_eq!(
        found.describe("7d"),
        [
            "Enforce mode would have deleted 1 volume and stopped 2 machines in the last 7d, $4.00; 2 of them were used again \
             since.",
            "Saved is the price in the time in which runs found the action due, up to the last run that did.",
        ]
    );
    assert_eq!(summary(&[]).describe("24h"), ["Nothing was due in observe mode in the last 24h."]);
}

#[test]
fn what_is_not_due_yet_or_only_notifies_is_counted_apart() {
    let mark = with_evidence(step("i-1", "mark", "observed"), &json!({ "deadline": "2026-09-01T13:10:00Z" }));
    let notify = with_evidence(step("i-2", "notify", "observed"), &json!({ "notify_only": "local-disk" }));
    let reserved = with_evidence(step("i-3", "notify", "observed"), &json!({ "notify_only": "reserved" }));
    let found = summary(&[(vec![mark.clone(), notify, reserved], json!({})), (vec![mark], json!({}))]);
    assert_eq!(
        found.describe("7d"),
        [
            "Nothing was due in observe mode in the last 7d.",
            "1 action is announced, and not due yet.",
            "1 machine ($12.00/h) only notifies, because a stop would lose its NVMe scratch: [idle] local_disk decides that.",
        ]
    );
}

proptest! {
    /// Whatever the records say, no saving is larger than the price of the whole period.
    #[test]
    fn no_saving_is_larger_than_the_price(
        runs in proptest::collection::vec(
            (
                proptest::collection::vec(("i-[1-3]", "stop|mark|unmark|notify|terminate|start", "observed|done|failed|changed"), 0..4),
                proptest::collection::vec(("busy|young|kept|not-running|compliant|notified|marked|.{0,5}", "i-[1-3]"), 0..3),
            ),
            1..40,
        ),
    ) {
        let mut actions = ObservedActions::default();
        for (place, (steps, skips)) in runs.iter().enumerate() {
            let steps: Vec<Value> = steps.iter().map(|(id, action, outcome)| step(id, action, outcome)).collect();
            let skips: BTreeMap<&str, Vec<&str>> = skips.iter().map(|(reason, id)| (reason.as_str(), vec![id.as_str()])).collect();
            actions.add(&record("reap-instances", place, &steps, &json!(skips)));
        }
        let found = actions.finish();
        let most = Amount::from_usd(f64::from(u32::try_from(runs.len()).unwrap()));
        prop_assert!(found.rows.len() <= 3 && found.rows.iter().all(|row| row.saved.unwrap() < most));
        prop_assert!(!found.describe("7d").is_empty());
    }
}
