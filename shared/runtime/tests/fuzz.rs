//! Any bytes as an event: only what a function knows wakes it, and whatever else it was is said.

#![expect(clippy::unwrap_used, reason = "a property that fails says so by panicking")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use runtime::{Event, EventKind};
use serde_json::Value;

use mutate::mutated;

#[path = "../../operator/tests/fuzz/mutate.rs"]
mod mutate;

/// The longest sentence, in characters.
const SENTENCE_MAX: usize = 500;

/// Every file of `events/`, and what only looks like one.
fn samples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events");
    let of = |name| fs::read_dir(folder.join(name)).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let unusual = [
        r#"{"source":"aws.events","detail-type":"Scheduled Event"}"#,
        r#"{"source":"aws.ec2","source":"aws.events","detail-type":"Scheduled Event","detail":null}"#,
        r#"{"source":"\u0061ws.events","detail_type":"Scheduled Event"}"#,
        r#"["aws.events","Scheduled Event"]"#,
        r#"{"Records":[{"source":"aws.events","detail-type":"Scheduled Event"}]}"#,
        r#"{"detail":{"source":"aws.events","detail-type":"Scheduled Event"}}"#,
        r#"{"Records":[{"EventSource":"aws:sns"},{"EventSource":"aws:s3"}]}"#,
        r#"{"Records":[],"source":"aws.events","detail-type":"Scheduled Event"}"#,
        r#"{"Records":[{"eventSource":"aws:sqs","body":"{\"source\":\"aws.events\",\"detail-type\":\"Scheduled Event\"}"}]}"#,
    ];
    let unusual = unusual.into_iter().map(|text| text.as_bytes().to_vec());
    of("reap-instances").chain(of("enforce-budgets")).chain(of("foreign")).chain(unusual).collect()
}

fn is_of_the_schedule(bytes: &[u8]) -> bool {
    let Ok(Value::Object(event)) = serde_json::from_slice(bytes) else { return false };
    let says = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    ["aws.events", "aws.scheduler"].contains(&says("source")) && says("detail-type") == "Scheduled Event"
}

fn is_of_sns(bytes: &[u8]) -> bool {
    let Ok(Value::Object(event)) = serde_json::from_slice(bytes) else { return false };
    let records = event.get("Records").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    !records.is_empty()
        && records.iter().all(|record| record["EventSource"] == "aws:sns" || record["eventSource"] == "aws:sns")
}

fn check(bytes: &[u8]) {
    check_for(&[EventKind::Scheduled], "Scheduled Event", bytes);
    check_for(
        &[EventKind::Scheduled, EventKind::BudgetNotification],
        "Scheduled Event or a notification by SNS",
        bytes,
    );
}

fn check_for(known: &[EventKind], listed: &str, bytes: &[u8]) {
    match Event::read(bytes, known) {
        Ok(event) => {
            let is_it = if event == Event::Scheduled { is_of_the_schedule(bytes) } else { is_of_sns(bytes) };
            assert!(is_it && known.contains(&event.kind()), "{}", String::from_utf8_lossy(bytes));
        }
        Err(unexpected) => {
            let sentence = unexpected.to_string();
            assert!(sentence.starts_with(&format!("this function is woken by {listed}, and got ")), "{sentence}");
            assert!(sentence.chars().count() <= SENTENCE_MAX, "{sentence}");
        }
    }
}

#[test]
fn samples_of_both_kinds_are_there() {
    for known in [EventKind::Scheduled, EventKind::BudgetNotification] {
        let woken = samples().iter().filter(|bytes| Event::read(bytes, &[known]).is_ok()).count();
        assert!((1..samples().len() - 3).contains(&woken), "{woken} of {}", samples().len());
    }
}

#[test]
fn what_nests_deeply_or_is_large_is_refused_at_once() {
    for opening in ["[", "{\"detail\":", "{\"source\":\"aws.events\",\"detail\":["] {
        check(opening.repeat(10_000).as_bytes());
        check(opening.repeat(1_000_000).as_bytes());
    }
}

proptest! {
    #![proptest_config({
        let own = ProptestConfig::default();
        ProptestConfig { cases: own.cases * 16, failure_persistence: None, ..own }
    })]

    #[test]
    fn only_what_is_known_wakes(bytes in mutated(samples())) {
        check(&bytes);
    }
}
