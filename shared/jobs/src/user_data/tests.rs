//! The user data of a machine: parsed, and run by `/bin/sh`.

use model::fixture::time;

use super::*;
use crate::JobId;

fn identity() -> MachineIdentity {
    MachineIdentity {
        schema: 1,
        bucket: "curfew-state-123456789012".to_owned(),
        region: "eu-west-1".into(),
        job: JobId::read("vision/llama-ft-0123abcd").unwrap(),
        attempt: 3,
        retry_of: 2,
        launch: "0a1b2c3d".to_owned(),
        ends_at: time("2026-09-01T20:00:00Z"),
        agent_sha256: "0123456789abcdef".repeat(4),
    }
}

#[test]
fn it_is_ascii_within_the_limit_and_says_the_end() {
    let text = user_data(&identity());
    assert!(text.is_ascii() && text.len() < USER_DATA_BYTES_MAX, "{}", text.len());
    assert!(text.contains("\nend=1788292800 #") && text.contains("\ncalendar='2026-09-01 20:00:00 UTC'\n"), "{text}");
    for place in
        ["@END@", "@CALENDAR@", "@IDENTITY@", "@FETCH@", "@UNIT@", "@BUCKET@", "@HOST@", "@REGION@", "@SHA256@"]
    {
        assert!(!text.contains(place), "{place} is not filled: {text}");
    }
}

#[test]
fn the_bucket_is_at_the_host_of_its_partition() {
    let check = |region: &str, expect: &str| assert_eq!(s3_host(region), expect, "{region}");
    check("eu-west-1", "s3.eu-west-1.amazonaws.com");
    check("us-gov-west-1", "s3.us-gov-west-1.amazonaws.com");
    check("cn-north-1", "s3.cn-north-1.amazonaws.com.cn");
    check("eusc-de-east-1", "");
    check("evil.example/", "");
}
