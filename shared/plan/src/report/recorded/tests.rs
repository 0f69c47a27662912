use serde_json::{Value, json};

use super::*;
use crate::NotifyOnlyReason;

fn record(run: &str, steps: Value) -> Value {
    json!({
        "schema": 1,
        "function": "reap-instances",
        "run": run,
        "at": "2026-09-01T12:00:00Z",
        "mode": "enforce",
        "regions": ["us-east-1"],
        "seen": 3,
        "steps": steps,
        "skipped": { "protected": ["i-9"] },
        "gaps": [],
    })
}

fn step(action: &str, rule: &str, outcome: &str) -> Value {
    json!({
        "region": "us-east-1",
        "resource": "i-1",
        "team": "vision",
        "action": action,
        "evidence": { "rule": rule },
        "saves_usd_per_hour": 1.006,
        "outcome": outcome,
        "error": null,
    })
}

fn read(value: Value) -> RunRecord {
    serde_json::from_value(value).unwrap()
}

#[test]
fn it_is_written_again_as_it_was_read() {
    let mut written = record("run-1", json!([step("stop", "idle", "done")]));
    let read = read(written.clone());
    assert_eq!(read.key(), "plans/2026-09-01/reap-instances/run-1.json");
    written.as_object_mut().unwrap().remove("schema");
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}

#[test]
fn what_a_later_version_adds_is_passed_over_and_what_is_needed_must_be_there() {
    let mut newer = record("run-1", json!([step("stop", "idle", "done")]));
    newer["steps"][0]["colour"] = json!("red");
    newer["evidence"] = json!("so");
    read(newer);
    for missing in ["function", "run", "at", "mode", "steps"] {
        let mut damaged = record("run-1", json!([]));
        damaged.as_object_mut().unwrap().remove(missing);
        assert!(serde_json::from_value::<RunRecord>(damaged).is_err(), "{missing}");
    }
    let strange = record("run-1", json!([step("stop", "idle", "perhaps")]));
    assert!(serde_json::from_value::<RunRecord>(strange).is_err());
}

#[test]
fn a_price_is_exact_and_none_where_there_is_none() {
    let check = |usd: Value, expect: Option<u64>| {
        let mut priced = step("stop", "idle", "done");
        priced["saves_usd_per_hour"] = usd;
        let read = read(record("run-1", json!([priced])));
        assert_eq!(read.steps[0].saves_usd_per_hour.map(Rate::usd_micros_per_hour), expect);
    };
    check(json!(1.006), Some(1_006_000));
    check(json!(0), Some(0));
    check(json!(0.000_001), Some(1));
    check(json!(null), None);
    check(json!(-1.0), None);
    check(json!(1e300), None);
}

/// `true` if a step awaits approval.
fn check_waits(run: &str, action: &str, rule: &str, outcome: &str, expect: bool) {
    let read = read(record(run, json!([step(action, rule, outcome)])));
    assert_eq!(read.waiting().count(), usize::from(expect), "{run} {action} {rule} {outcome}");
    assert_eq!(read.tally().waiting, usize::from(expect));
}

#[test]
fn inferred_ends_that_were_not_reached_wait_for_a_person() {
    for (action, rule) in [("stop", "idle"), ("terminate", "untagged"), ("stop", "lifetime"), ("delete", "orphaned")] {
        check_waits("run-1", action, rule, "not-reached", true);
        for outcome in ["done", "observed", "already-gone", "changed", "failed"] {
            check_waits("run-1", action, rule, outcome, false);
        }
    }
}

#[test]
fn nothing_else_does() {
    check_waits("run-1", "stop", "expired", "not-reached", false);
    check_waits("run-1", "stop", "hours", "not-reached", false);
    check_waits("run-1", "delete", "expired", "not-reached", false);
    check_waits("run-1", "stop", "a-later-rule", "not-reached", false);
    for action in ["mark", "unmark", "notify", "start", "snapshot", "launch"] {
        check_waits("run-1", action, "idle", "not-reached", false);
    }
    check_waits("apply-run-1-20260901T120000Z", "stop", "idle", "not-reached", false);
    let mut observed = record("run-1", json!([step("stop", "idle", "not-reached")]));
    observed["mode"] = json!("observe");
    assert_eq!(read(observed).waiting().count(), 0);
}

#[test]
fn a_run_in_figures() {
    let steps = json!([
        step("stop", "idle", "done"),
        step("mark", "idle", "done"),
        step("stop", "idle", "observed"),
        step("stop", "idle", "not-reached"),
        step("mark", "idle", "not-reached"),
        step("stop", "idle", "changed"),
        step("stop", "idle", "already-gone"),
        step("stop", "idle", "failed"),
    ]);
    let rate = |usd_micros| KnownSum::new(Rate::from_usd_micros_per_hour(usd_micros), 0);
    assert_eq!(
        read(record("run-1", steps)).tally(),
        RunTally {
            done: 2,
            ended: 1,
            observed: 1,
            overtaken: 2,
            failed: 1,
            not_reached: 1,
            waiting: 1,
            saved: rate(1_006_000),
            would_save: rate(1_006_000),
            at_stake: rate(1_006_000),
            unknown_prices: None,
        }
    );
}

#[test]
fn a_sum_without_a_price_is_unknown() {
    let mut unpriced = step("stop", "idle", "done");
    unpriced["saves_usd_per_hour"] = Value::Null;
    let mut mark = unpriced.clone();
    mark["action"] = json!("mark");
    let tally = read(record("run-1", json!([unpriced, mark]))).tally();
    assert_eq!(
        (tally.saved, tally.would_save, tally.unknown_prices),
        (KnownSum::new(Rate::ZERO, 1), KnownSum::default(), NonZeroU64::new(1))
    );
    let json = serde_json::to_value(tally).unwrap();
    assert_eq!((&json["saved_usd_per_hour"], &json["would_save_usd_per_hour"]), (&Value::Null, &json!(0.0)));
    let waits = ApprovalStatus { waiting: 1, at_stake: KnownSum::new(Rate::ZERO, 1), ..ApprovalStatus::default() };
    assert_eq!(tally.after_approval(&waits).unknown_prices, NonZeroU64::new(2));
}

#[test]
fn a_record_keeps_the_reason_for_notify_only() {
    let check = |why: Value, expect: Option<NotifyOnlyReason>| {
        let evidence: RecordedEvidence = serde_json::from_value(json!({ "rule": "idle", "notify_only": why })).unwrap();
        assert_eq!(evidence.notify_only(), expect);
    };
    check(json!("configured"), Some(NotifyOnlyReason::Configured));
    check(json!("local-disk"), Some(NotifyOnlyReason::LocalDisk));
    check(json!("a-later-reason"), None);
    check(json!(null), None);
}

#[test]
fn idleness_that_local_disk_withholds_is_counted() {
    let notified = |rule: &str, why: &str| {
        let mut notified = step("notify", rule, "observed");
        notified["evidence"]["notify_only"] = json!(why);
        notified
    };
    let steps = json!([
        notified("idle", "local-disk"),
        notified("untagged", "local-disk"),
        notified("idle", "reserved"),
        step("stop", "idle", "done"),
    ]);
    assert_eq!(read(record("run-1", steps)).withheld_by_local_disk().count(), 1);
}
