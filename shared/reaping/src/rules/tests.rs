use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

#[test]
fn the_rules_are_in_their_order() {
    assert_eq!(RUNNING.map(RunningRule::rule), Rule::RUNNING);
}

#[test]
fn evidence_in_few_words() {
    let check_action = |action: &str, evidence: Value, expect: &str| {
        let evidence: RecordedEvidence = serde_json::from_value(evidence).unwrap();
        assert_eq!(summarize(&evidence, action), expect);
    };
    let check = |evidence: Value, expect: &str| check_action("stop", evidence, expect);
    check(
        json!({ "rule": "idle", "from": "2026-09-01T10:50:00Z", "gpu_max_percent": 0.4, "cpu_max_vcpus": 0.12 }),
        "GPU at 0 %, CPU 0.1 vCPUs since 2026-09-01T10:50",
    );
    check(json!({ "rule": "job", "attempt": 2, "why": "interrupted" }), "attempt 2: interrupted");
    check(json!({ "rule": "untagged", "missing": ["Team", "Owner"] }), "lacks Team, Owner");
    check(json!({ "rule": "lifetime", "launched_at": "2026-08-01T00:00:00Z" }), "runs since 2026-08-01T00:00");
    let hours = || json!({ "rule": "hours", "hours": "Mon-Fri 08:00-20:00 UTC", "at": "2026-09-01T20:00:00Z" });
    check(hours(), "outside Mon-Fri 08:00-20:00 UTC");
    check_action("notify", hours(), "outside Mon-Fri 08:00-20:00 UTC");
    check_action("start", hours(), "within Mon-Fri 08:00-20:00 UTC");
    check_action("mark", hours(), "Mon-Fri 08:00-20:00 UTC end at 20:00 UTC");
    check_action("mark", json!({ "rule": "hours", "hours": "Mon" }), "hours Mon");
    check(
        json!({ "rule": "orphaned", "size_gib": 500, "volume_type": "gp3", "unattached_since": "2026-08-01T00:00:00Z" }),
        "500 GiB gp3 unused since 2026-08-01T00:00",
    );
    check(json!({ "rule": "expired", "expires_at": "2026-09-01T11:00:00Z" }), "expired 2026-09-01T11:00");
    check(
        json!({ "rule": "expired", "volume": "vol-1", "expires_at": "2026-09-01T11:00:00Z" }),
        "of vol-1, kept until 2026-09-01T11:00",
    );
    check(json!({ "rule": "unlisted-project", "tag": "Project", "project": "doom" }), "Project doom is not listed");
    check(json!({ "rule": "untagged", "missing": [], "disowned_by": "vision/a-1" }), "not launched by vision/a-1");
    check(json!({ "rule": "idle", "resolved": true }), "called off");
    check(json!({ "rule": "idle", "devices": 1, "by": "x" }), "by x, devices 1");
    check(json!({ "rule": "a-later-rule" }), "");
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        prop::collection::vec(".{0,9}", 0..3).prop_map(Value::from),
    ]
}

proptest! {
    /// No record, whatever it holds, ends the command that reviews it.
    #[test]
    fn any_evidence_has_words(
        action in "stop|start|mark|.{0,9}",
        rule in "idle|untagged|unlisted-project|lifetime|hours|orphaned|expired|.{0,9}",
        evidence in prop::collection::btree_map(
            "from|gpu_max_percent|cpu_max_vcpus|missing|launched_at|hours|at|size_gib|volume_type|unattached_since|expires_at|\
             volume|resolved|tag|project|.{0,9}",
            any_value(),
            0..6,
        ),
    ) {
        let mut details: Map<String, Value> = evidence.into_iter().collect();
        details.insert("rule".to_owned(), rule.into());
        let evidence: Option<RecordedEvidence> = serde_json::from_value(Value::Object(details)).ok();
        if let Some(evidence) = evidence {
            prop_assert_eq!(summarize(&evidence, &action), summarize(&evidence, &action));
        }
    }
}
