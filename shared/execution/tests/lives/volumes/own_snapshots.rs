//! Snapshots that Curfew made expire, and it never touches others.

use super::*;

fn snapshot(tags: &[(&str, &str)]) -> Snapshot {
    let mut snapshot = Snapshot {
        id: "snap-1".into(),
        region: "us-east-1".into(),
        of_volume: "vol-0abc".into(),
        state: SnapshotState::Completed,
        started_at: time("2026-07-01T12:00:00Z"),
        size_gib: 500,
        tags: Tags::from([
            (SNAPSHOT_OF.to_owned(), "vol-0abc".to_owned()),
            ("Team".to_owned(), "vision".to_owned()),
            ("Owner".to_owned(), "ada".to_owned()),
        ]),
    };
    snapshot.tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    snapshot
}

fn check(snapshot: Snapshot, volumes: Vec<VolumeBuilder>, config: &str, expect: &str) {
    let mut account = enforcing_account(volumes, config);
    account.aws.storage.snapshots = vec![snapshot];
    account.run("09-01 12:00");
    assert!(account.log.contains(expect), "{} lacks {expect}", account.log);
}

const GONE: (&str, &str) = (DELETED_AT, "2026-08-02T12:00:00Z");

#[test]
fn it_ends_a_month_after_its_volume() {
    check(snapshot(&[GONE]), vec![], ENFORCED, "delete | notified");
    check(snapshot(&[(DELETED_AT, "2026-08-02T12:00:01Z")]), vec![], ENFORCED, "skipped restorable");
    check(snapshot(&[GONE]), vec![], "", "delete (Observed) | notified");
}

#[test]
fn it_gets_an_expiry_and_a_notification_if_its_volume_vanished() {
    check(snapshot(&[]), vec![], ENFORCED, "curfew:deleted-at=2026-09-01T12:00:00Z | notified\n");
    check(snapshot(&[]), vec![], "", "curfew:deleted-at=2026-09-01T12:00:00Z (Observed)\n");
}

/// The notification about a snapshot whose volume was not observed, with this reason.
fn told_of(restore: &str, state: SnapshotState) -> String {
    let mut account = enforcing_account([], ENFORCED);
    account.aws.storage.snapshots = vec![Snapshot { state, ..snapshot(&[(RESTORE, restore)]) }];
    account.run("09-01 12:00");
    account.messages_text.concat()
}

#[test]
fn a_volume_that_vanished_can_be_restored() {
    let told = told_of("us-east-1a,gp3,500,4000,", SnapshotState::Completed);
    let undo = "its volume is gone.\nUndo until 2026-10-01T12:00:00Z: aws ec2 create-volume --region us-east-1 \
                --availability-zone us-east-1a --snapshot-id snap-1 --volume-type gp3 --size 500 --iops 4000 \
                --tag-specifications '[{\"ResourceType\":\"volume\",\"Tags\":[{\"Key\":\"Owner\",\"Value\":\"ada\"},\
                {\"Key\":\"Team\",\"Value\":\"vision\"}]}]'";
    assert!(told.contains(undo), "{told} lacks {undo}");
}

#[test]
fn no_command_contains_foreign_text() {
    for restore in ["us-east-1a;reboot,gp3,500,,", "us-east-1a,gp3,a lot,,", "us-east-1a,gp3,500", "", "a,b,1,2,3,4"] {
        let told = told_of(restore, SnapshotState::Completed);
        assert!(told.contains("its volume is gone.") && !told.contains("Undo"), "{told}");
    }
    assert!(!told_of("us-east-1a,gp3,500,,", SnapshotState::Error).contains("Undo"));
}

#[test]
fn a_snapshot_stays_while_its_volume_exists() {
    check(snapshot(&[GONE]), vec![volume()], ENFORCED, "snap-1 skipped volume-exists");
    check(snapshot(&[GONE]), vec![volume().on("i-1")], ENFORCED, "snap-1 skipped volume-exists");
}

#[test]
fn a_protected_kept_unreadable_or_copied_snapshot_stays() {
    check(snapshot(&[GONE, ("curfew:protected", "")]), vec![], ENFORCED, "skipped protected");
    check(snapshot(&[GONE, ("curfew:keep-until", "2026-10-01")]), vec![], ENFORCED, "skipped kept");
    check(snapshot(&[(DELETED_AT, "long ago")]), vec![], ENFORCED, "skipped unreadable | notified");
    check(snapshot(&[GONE, ("curfew:protectd", "")]), vec![], ENFORCED, "skipped unreadable | notified");
    let copy = Snapshot { of_volume: "vol-ffffffff".into(), ..snapshot(&[GONE]) };
    check(copy, vec![], ENFORCED, "skipped foreign-owned");
}

#[test]
fn any_number_of_announced_expiries_is_enforced_at_once() {
    let mut account = enforcing_account([], ENFORCED);
    account.aws.storage.snapshots =
        (0..30).map(|number| Snapshot { id: ResourceId::new(format!("snap-{number}")), ..snapshot(&[GONE]) }).collect();
    account.run("09-01 12:00");
    assert_eq!(account.aws.storage.snapshots, []);
}

#[test]
fn no_copy_of_the_tag_makes_a_snapshot_proof_of_a_volume() {
    let orphan = volume().tag(UNATTACHED_SINCE, "2026-06-01T12:00:00Z");
    let marked = || orphan_marked(volume().tag(UNATTACHED_SINCE, "2026-06-01T12:00:00Z"));
    check(snapshot(&[]), vec![orphan_marked(orphan)], ENFORCED, "vol-0abc delete, kept by snap-1");
    for useless in [
        Snapshot { of_volume: "vol-ffffffff".into(), ..snapshot(&[]) },
        Snapshot { size_gib: 100, ..snapshot(&[]) },
        Snapshot { region: "us-west-2".into(), ..snapshot(&[]) },
        Snapshot { started_at: time("2026-05-31T12:00:00Z"), ..snapshot(&[]) },
        snapshot(&[(SNAPSHOT_OF, "vol-1")]),
    ] {
        check(useless, vec![marked()], ENFORCED, "vol-0abc snapshot");
    }
}

#[test]
fn a_protected_snapshot_gets_no_expiry_when_its_volume_goes() {
    let mut account =
        enforcing_account([orphan_marked(volume().tag(UNATTACHED_SINCE, "2026-06-01T12:00:00Z"))], ENFORCED);
    let protected = Snapshot { id: "snap-0".into(), ..snapshot(&[("curfew:protected", "")]) };
    account.aws.storage.snapshots = vec![protected.clone(), snapshot(&[])];
    account.run("09-01 12:00");
    assert!(account.log.contains("vol-0abc delete, kept by snap-0"), "{}", account.log);
    assert_eq!(account.aws.storage.snapshots[0], protected);
    assert!(account.aws.storage.snapshots[1].tags.contains_key(DELETED_AT));
}

fn orphan_marked(volume: VolumeBuilder) -> VolumeBuilder {
    volume.tag(MARKED, "vol-0abc orphaned=snapshot-and-delete@2026-08-31T12:00:00Z")
}
