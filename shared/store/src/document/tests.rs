use model::id::ResourceId;
use model::notification_log::{NotificationEntry, NotificationKey, ResourceRecord};
use model::rule::Rule;

use super::*;

const ADDRESS: &str = "s3://curfew/notices/reap-instances/eu-central-1.json";

fn notices() -> NotificationLog {
    let told = NotificationEntry { at: "2026-11-20T18:35:00Z".parse().unwrap(), what: "idle since 12:00".to_owned() };
    let instance = ResourceId::from("i-0abc");
    let mut record = ResourceRecord::about("2026-09-01T10:00:00Z".parse().unwrap());
    record.notified.insert(NotificationKey::would(Rule::Idle), told);
    let mut notices = NotificationLog::default();
    notices.resources.insert(instance, record);
    notices
}

fn check_refused<T: StoredDocument + std::fmt::Debug>(text: &str, sentence: &str) {
    assert_eq!(decode::<T>(text.as_bytes(), ADDRESS).unwrap_err().to_string(), sentence);
}

#[test]
fn a_document_survives_writing_and_reading() {
    let bytes = encode(&notices(), ADDRESS).unwrap();
    assert_eq!(decode::<NotificationLog>(&bytes, ADDRESS), Ok(notices()));
}

#[test]
fn the_schema_stands_beside_the_fields() {
    let json: Value = serde_json::from_slice(&encode(&notices(), ADDRESS).unwrap()).unwrap();
    assert_eq!(json["schema"], 2);
    assert_eq!(json["resources"]["i-0abc"]["since"], "2026-09-01T10:00:00Z");
    assert_eq!(json["resources"]["i-0abc"]["notified"]["would-idle"]["what"], "idle since 12:00");
}

#[test]
fn a_field_that_is_missing_is_its_default() {
    assert_eq!(decode::<NotificationLog>(br#"{"schema": 2}"#, ADDRESS), Ok(NotificationLog::default()));
}

#[test]
fn an_unknown_schema_is_refused_before_anything_else_is_read() {
    let refused = |found: &str| {
        format!(
            "{ADDRESS} has schema {found}, and this version of Curfew knows schema 2; deploy the version that wrote it, or delete \
             it: without it everything is announced anew, with the whole grace, and no snapshot is known as Curfew's own"
        )
    };
    check_refused::<NotificationLog>(r#"{"schema": 3, "resources": "in another shape"}"#, &refused("3"));
    check_refused::<NotificationLog>(r#"{"schema": "1"}"#, &refused("\"1\""));
    check_refused::<NotificationLog>(r#"{"schema": null}"#, &refused("none"));
    check_refused::<NotificationLog>("{}", &refused("none"));
}

#[test]
fn what_curfew_never_wrote_is_refused() {
    let refused = |problem: &str| {
        format!(
            "{ADDRESS} cannot be understood ({problem}); delete it: without it everything is announced anew, with the whole grace, \
             and no snapshot is known as Curfew's own"
        )
    };
    check_refused::<NotificationLog>("", &refused("EOF while parsing a value at line 1 column 0"));
    let error = decode::<NotificationLog>(b"{\"schema\": 2, \"\xff\": 0}", ADDRESS).unwrap_err().to_string();
    assert!(error.contains("(no UTF-8 at line 1 column 16)"), "{error}");
    check_refused::<NotificationLog>("null", &refused("invalid type: null, expected an object at line 1 column 4"));
    let error = decode::<NotificationLog>(br#"{"schema": 2, "resources": []}"#, ADDRESS).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    let error = decode::<ActivityCache>(br#"{"schema": 1, "instances": {"i-0abc": {}}}"#, ADDRESS).unwrap_err();
    assert!(error.to_string().ends_with("; delete it: it is only a cache"), "{error}");
}

#[test]
fn an_error_repeats_no_more_than_a_message_can_hold_and_says_where() {
    let long = "x".repeat(1_000_000);
    let error = decode::<NotificationLog>(
        format!(r#"{{"schema": 2, "resources": {{"i-0abc": "{long}"}}}}"#).as_bytes(),
        ADDRESS,
    );
    let sentence = error.unwrap_err().to_string();
    assert!(sentence.len() < 1_000 && sentence.contains("xxx… at line 1 column 1000040); delete it"), "{sentence}");
    let error = decode::<NotificationLog>(format!(r#"{{"schema": "{long}"}}"#).as_bytes(), ADDRESS);
    assert!(error.unwrap_err().to_string().len() < 1_000);
}

/// What the first schema announced stood in tags, which are believed no more.
#[test]
fn a_log_of_the_first_schema_counts_as_lost() {
    let first = br#"{"schema": 1, "shadow_marks": {"i-0abc": "i-0abc idle=stop@2026-09-01T12:00:00Z"}}"#;
    assert_eq!(decode::<NotificationLog>(first, ADDRESS), Ok(NotificationLog::default()));
    assert!(decode::<ActivityCache>(br#"{"schema": 2}"#, ADDRESS).is_err());
}
