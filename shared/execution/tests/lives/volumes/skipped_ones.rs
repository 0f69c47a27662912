//! Skipped volumes, and why.

use super::*;

const SINCE: &str = "2026-07-01T12:00:00Z";

/// An orphaned volume with this change.
fn check(change: impl FnOnce(VolumeBuilder) -> VolumeBuilder, config: &str, expect: &str) {
    let mut account = enforcing_account([change(volume())], &format!("{ENFORCED}{config}")).unattached_since(SINCE);
    account.live_jobs.insert("vision/llama-1".to_owned());
    account.run("09-01 12:00");
    assert_eq!(account.log, format!("09-01 12:00 {expect}\n"));
}

#[test]
fn each_has_its_reason() {
    check(|orphan| orphan, "", "mark orphaned=snapshot-and-delete@2026-09-04T12:00:00Z | notified");
    check(|orphan| orphan.tag("curfew:protected", ""), "", "skipped protected");
    check(|orphan| orphan.tag("curfew:keep-until", "2026-09-01"), "", "skipped kept");
    check(|orphan| orphan.tag("curfew:keep-until", "soon"), "", "skipped unreadable | notified");
    check(|orphan| orphan.tag("Curfew:Protected", ""), "", "skipped unreadable | notified");
    check(|orphan| orphan.tag("kubernetes.io/created-for/pvc/name", "data-0"), "", "skipped kubernetes");
    check(|orphan| orphan.tag("ebs.csi.aws.com/cluster", "true"), "", "skipped kubernetes");
    check(|orphan| orphan.tag("aws:cloudformation:stack-name", "db"), "", "skipped foreign-owned");
    check(|orphan| orphan.tag("aws:elasticmapreduce:job-flow-id", "j-1"), "", "skipped foreign-owned");
    check(|orphan| orphan.tag("spacelift", ""), "[managed]\ntag_keys = [\"spacelift\"]", "skipped foreign-owned");
    check(|orphan| orphan.with(|volume| volume.operator = Some("eks".to_owned())), "", "skipped foreign-owned");
    check(|orphan| orphan.with(|volume| volume.multi_attach = true), "", "skipped multi-attach");
    check(|orphan| orphan.tag("curfew:job", "vision/llama-1"), "", "skipped live-job");
    check(|orphan| orphan.tag("curfew:job", "llama"), "", "skipped unreadable | notified");
    for state in [VolumeState::Creating, VolumeState::Error, VolumeState::Deleting, VolumeState::Unknown] {
        check(|orphan| orphan.with(|volume| volume.state = state), "", "skipped not-available");
    }
}

#[test]
fn labels_and_tags_of_an_instance_have_no_effect() {
    let marked = "mark orphaned=snapshot-and-delete@2026-09-04T12:00:00Z | notified";
    for (key, value) in [
        ("curfew:idle-after", "off"),
        ("curfew:expires-at", "2020-01-01T00:00:00Z"),
        ("curfew:hours", "Mon-Fri 08:00-20:00 UTC"),
        ("curfew:stopped", "idle 2026-08-01T12:00:00Z"),
        ("curfew:marked", "orphaned=delete@2026-08-31T12:00:00Z"),
        ("curfew:marked", "yes"),
        ("curfew:unattached-since", "9999-12-30T22:00:00Z"),
        ("curfew:snapshot-of", "vol-1"),
        ("curfew:deleted-at", SINCE),
        ("curfew:job", "vision/llama-9"),
    ] {
        check(|orphan| orphan.tag(key, value), "", marked);
    }
    check(|orphan| orphan.tag("curfew:hours", "nine to five"), "", "skipped unreadable | notified");
}

#[test]
fn attached_volumes_are_skipped_and_those_on_long_stopped_instances_notified_once() {
    let mut account = enforcing_account([volume().on("i-1")], ENFORCED);
    let host = |stopped_at: &str| VolumeHost {
        id: "i-1".into(),
        region: "us-east-1".into(),
        tags: Tags::new(),
        stopped: true,
        stopped_at: Some(time(stopped_at)),
    };
    account.aws.storage.hosts = vec![host("2026-08-20T12:00:00Z")];
    account.run("09-01 12:00").run("09-03 12:00");
    assert!(
        account.messages_text[0].contains("i-1, which has been stopped since 2026-08-20T12:00:00Z"),
        "{:?}",
        account.messages_text
    );
    assert!(account.messages_text[0].contains("$40.00 a month"), "{:?}", account.messages_text);
    account.run("09-03 13:00");
    account.aws.storage.hosts = vec![host("2026-09-03T12:30:00Z")];
    account.run("09-04 13:00").run("09-17 12:30");
    account.aws.storage.hosts = vec![VolumeHost { stopped_at: None, ..host("2026-09-03T12:30:00Z") }];
    account.run("09-18 13:00");
    assert_snapshot!(account.log, @r"
    09-01 12:00 skipped attached
    09-03 12:00 skipped attached | notified
    09-03 13:00 skipped attached
    09-04 13:00 skipped attached
    09-17 12:30 skipped attached | notified
    09-18 13:00 skipped attached
    ");
}
