//! Any bytes as an event: the schedule's and nothing else wakes a function, and whatever else it was is said.

#![expect(clippy::unwrap_used, reason = "a property that fails says so by panicking")]

use std::fs;
use std::path::Path;

use mutate::mutated;
use proptest::prelude::*;
use runtime::Event;
use serde_json::Value;

#[path = "../../domain/tests/fuzz/mutate.rs"]
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
    ];
    let unusual = unusual.into_iter().map(|text| text.as_bytes().to_vec());
    of("reap-instances").chain(of("foreign")).chain(unusual).collect()
}

fn is_of_the_schedule(bytes: &[u8]) -> bool {
    let Ok(Value::Object(event)) = serde_json::from_slice(bytes) else { return false };
    let says = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    ["aws.events", "aws.scheduler"].contains(&says("source")) && says("detail-type") == "Scheduled Event"
}

fn check(bytes: &[u8]) {
    match Event::read(bytes) {
        Ok(Event::Scheduled) => assert!(is_of_the_schedule(bytes), "{}", String::from_utf8_lossy(bytes)),
        Err(unexpected) => {
            let sentence = unexpected.to_string();
            assert!(sentence.starts_with("this function is woken by Scheduled Event, and got "), "{sentence}");
            assert!(sentence.chars().count() <= SENTENCE_MAX, "{sentence}");
        }
    }
}

#[test]
fn samples_of_both_kinds_are_there() {
    let woken = samples().iter().filter(|bytes| Event::read(bytes).is_ok()).count();
    assert!((3..samples().len() - 3).contains(&woken), "{woken} of {}", samples().len());
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
    fn only_the_schedule_wakes(bytes in mutated(samples())) {
        check(&bytes);
    }
}
