//! Any bytes as a document: it is read completely, or an error names the object and the place.

use model::rule::Rule;
use proptest::prelude::*;

use super::*;
use mutate::mutated;

#[path = "../../../operator/tests/fuzz/mutate.rs"]
mod mutate;

const ADDRESS: &str = "s3://curfew/notices/reap-instances/eu-central-1.json";

/// The longest sentence, in characters.
const SENTENCE_MAX: usize = 2_000;

/// Documents as Curfew writes them, and a few that differ a little.
fn samples() -> Vec<Vec<u8>> {
    let announced = |action: &str| {
        let (at, deadline) = ("2026-09-01T11:00:00Z", "2026-09-01T12:00:00Z");
        serde_json::json!({ "action": action, "mode": "enforce", "at": at, "deadline": deadline })
    };
    let told = serde_json::json!({ "at": "2026-11-20T18:35:00Z", "what": "stop@2026-09-01T12:00:00Z" });
    let notices: NotificationLog = serde_json::from_value(serde_json::json!({
        "resources": {
            "i-0abc": {
                "since": "2026-09-01T10:00:00Z", "expiry_seen": "2026-09-02T12:00:00Z",
                "announced": { "untagged": announced("stop"), "idle": announced("terminate") },
                "carried_out": { "rule": "idle", "action": "stop", "at": "2026-09-01T12:00:00Z" },
                "notified": { (Rule::Idle.as_str()): told },
            },
            "vol-0abc": { "snapshot_runs": ["run-1"], "last_host": "i-0abc" },
            "snap-0abc": { "safety": { "volume": "vol-0abc", "run": "run-1", "deleted_at": "2026-09-01T12:00:00Z" } },
        },
        "gaps": { "us-east-1 ec2:DescribeInstances": told },
        "undelivered": [{ "team": "vision", "severity": "action", "text": "i-0abc was stopped.\n" }],
    }))
    .unwrap();
    let activity: ActivityCache = serde_json::from_value(serde_json::json!({
        "instances": {
            "i-0abc": {
                "at": "2026-09-01T12:00:00Z", "busy_until": "2026-09-01T11:55:00Z",
                "idle_not_before": "2026-09-01T13:05:00Z",
            },
            "i-0def": {
                "at": "2026-09-01T12:00:00.5Z", "found_idle_reserved": true, "idle_not_before": "2026-09-01T12:00:00Z",
            },
        }
    }))
    .unwrap();
    let budget: Budget = serde_json::from_value(serde_json::json!({
        "team": "vision", "month": "2026-11", "as_of": "2026-11-20T18:45:00Z", "budget_usd": 5000, "spent_usd": 4071.2,
        "usd_per_hour": 1.006, "verdict": "hold", "mode": "enforce",
        "top": [{ "resource": "i-0abc", "region": "us-east-1", "what": "g5.xlarge", "usd": 12.072, "usd_per_hour": 1.006, "running": true }],
        "unpriced": [{ "resource": "i-0def", "region": "us-east-1", "what": "p9.48xlarge", "seconds": 3600 }],
        "reservations": { "vision/llama-0123abcd": {
            "usd": 120, "since": "2026-11-20T12:00:00Z", "until": "2026-11-20T20:00:00Z" } },
    }))
    .unwrap();
    let pretty: Value = serde_json::from_slice(&encode(&notices, ADDRESS).unwrap()).unwrap();
    let mut samples = vec![
        encode(&notices, ADDRESS).unwrap(),
        encode(&activity, ADDRESS).unwrap(),
        encode(&NotificationLog::default(), ADDRESS).unwrap(),
        encode(&budget, ADDRESS).unwrap(),
        serde_json::to_vec_pretty(&pretty).unwrap(),
        br#"{"schema": 1, "instances": {}, "schema": 2}"#.to_vec(),
        br#"{"schema": 1.0}"#.to_vec(),
        b"[1, {}, {}]".to_vec(),
        b"[1]".to_vec(),
        br#"{"schema": 3, "resources": {}}"#.to_vec(),
    ];
    // As an editor on another system saves it.
    let utf_16 = String::from_utf8(samples[0].clone()).unwrap();
    samples.push(utf_16.encode_utf16().flat_map(u16::to_le_bytes).collect());
    samples.push([b"\xef\xbb\xbf", samples[0].as_slice()].concat());
    samples
}

fn check<T: StoredDocument + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    match decode::<T>(bytes, ADDRESS) {
        Ok(value) => {
            // Unknown fields may have invalid text, such as half a surrogate pair.
            if let Ok(json) = serde_json::from_slice::<Value>(bytes) {
                let schema = json["schema"].as_u64().and_then(|schema| u32::try_from(schema).ok());
                assert!(schema == Some(T::SCHEMA) || schema == T::LOST_SCHEMA, "{json}");
            }
            let written = encode(&value, ADDRESS).unwrap();
            assert_eq!(decode::<T>(&written, ADDRESS), Ok(value));
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(sentence.starts_with(ADDRESS) && sentence.ends_with(T::IF_LOST), "{sentence}");
            assert!(sentence.chars().count() <= SENTENCE_MAX, "{} characters", sentence.chars().count());
            let says_where = match error {
                StoreError::Unreadable { problem, .. } => problem.contains(" at line "),
                StoreError::UnknownSchema { .. } => true,
                _ => false,
            };
            assert!(says_where, "{sentence}");
        }
    }
}

#[test]
fn the_samples_are_read_or_refused_as_meant() {
    let read: Vec<bool> = samples().iter().map(|bytes| decode::<NotificationLog>(bytes, ADDRESS).is_ok()).collect();
    // Of other documents the schema is that of a lost log.
    assert_eq!(read, [true, true, true, true, true, false, false, false, false, false, false, false]);
    assert!(decode::<ActivityCache>(&samples()[1], ADDRESS).is_ok_and(|activity| activity.instances.len() == 2));
    assert!(decode::<Budget>(&samples()[3], ADDRESS).is_ok_and(|budget| budget.reservations.len() == 1));
}

/// Documents as deep and as large as an object that is read may be.
#[test]
fn deep_or_large_documents_are_refused_at_once() {
    for opening in ["[", "{\"schema\":", "{\"told\":{\"i\":"] {
        let deep = opening.repeat(crate::BYTES_MAX / 16);
        check::<NotificationLog>(deep.as_bytes());
        check::<ActivityCache>(format!("{{\"schema\":1,\"instances\":{deep}").as_bytes());
        check::<Budget>(format!("{{\"schema\":1,\"reservations\":{deep}").as_bytes());
    }
    let runs = "\"run-1\",".repeat(10_000);
    check::<NotificationLog>(
        format!(r#"{{"schema":2,"resources":{{"vol-1":{{"snapshot_runs":[{runs}"run-1"]}}}}}}"#).as_bytes(),
    );
}

proptest! {
    #![proptest_config({
        let own = ProptestConfig::default();
        ProptestConfig { cases: own.cases * 16, failure_persistence: None, ..own }
    })]

    #[test]
    fn any_bytes_are_read_whole_or_refused_with_their_place(bytes in mutated(samples())) {
        check::<NotificationLog>(&bytes);
        check::<ActivityCache>(&bytes);
        check::<Budget>(&bytes);
    }
}
