//! Snapshots that Curfew made expire, and it never touches others.

use jiff::SignedDuration;
use model::mark::AnnouncedAction;
use model::rule::ResourceAction;
use reaping::fixture::announced;

use super::*;

const RUN: &str = "2026-08-02T12-00-00Z-1";

/// One of vol-0abc, by its description.
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
            (DELETED_AT.to_owned(), "2026-08-02T12:00:00Z".to_owned()),
            ("Team".to_owned(), "vision".to_owned()),
            ("Owner".to_owned(), "ada".to_owned()),
        ]),
        description: format!("Curfew: vol-0abc before its deletion, by {RUN}"),
    };
    snapshot.tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    snapshot
}

/// What the log says about it: made by that run, its volume deleted then, and its deletion announced for a month later.
fn recorded(deleted_at: &str) -> ResourceRecord {
    let mut record = of_vanished();
    if let Some(safety) = &mut record.safety {
        safety.deleted_at = Some(time(deleted_at));
    }
    let deadline = (time(deleted_at) + SignedDuration::from_hours(30 * 24)).to_string();
    let announced = AnnouncedAction { at: time(deleted_at), ..announced(ResourceAction::Delete, &deadline) };
    ResourceRecord { announced: BTreeMap::from([(Rule::Expired, announced)]), ..record }
}

/// The same of one whose volume was there.
fn of_vanished() -> ResourceRecord {
    let safety = SafetyRecord { volume: "vol-0abc".into(), run: RUN.into(), deleted_at: None };
    ResourceRecord { safety: Some(safety), ..ResourceRecord::about(time("2026-07-01T12:00:00Z")) }
}

fn account(
    snapshots: Vec<Snapshot>,
    record: &ResourceRecord,
    volumes: impl IntoIterator<Item = VolumeBuilder>,
    config: &str,
) -> Account {
    let mut account = enforcing_account(volumes, config);
    let log = account.aws.memory.entry("us-east-1".into()).or_default();
    log.resources.extend(snapshots.iter().map(|snapshot| (snapshot.id.clone(), record.clone())));
    account.aws.storage.snapshots = snapshots;
    account
}

fn check(snapshot: Snapshot, record: &ResourceRecord, volumes: Vec<VolumeBuilder>, config: &str, expect: &str) {
    let mut account = account(vec![snapshot], record, volumes, config);
    account.run("09-01 12:00");
    assert!(account.log.contains(expect), "{} lacks {expect}", account.log);
}

const GONE: &str = "2026-08-02T12:00:00Z";

#[test]
fn it_ends_a_month_after_its_volume() {
    check(snapshot(&[]), &recorded(GONE), vec![], ENFORCED, "delete | notified");
    check(snapshot(&[]), &recorded("2026-08-02T12:00:01Z"), vec![], ENFORCED, "skipped restorable");
    check(snapshot(&[]), &recorded(GONE), vec![], "", "delete (Observed) | notified");
}

#[test]
fn its_expiry_is_announced_if_its_volume_vanished() {
    let announced = "announce its deletion at 2026-10-01T12:00:00Z | notified\n";
    check(snapshot(&[]), &of_vanished(), vec![], ENFORCED, announced);
    let observed = "announce its deletion at 2026-10-01T12:00:00Z (Observed) | notified\n";
    check(snapshot(&[]), &of_vanished(), vec![], "", observed);
    let mut account = account(vec![snapshot(&[])], &of_vanished(), [], ENFORCED);
    account.run("09-01 12:00").run("09-01 13:00").run("10-01 12:00");
    assert_snapshot!(account.log, @"
    09-01 12:00 announce its deletion at 2026-10-01T12:00:00Z | notified
    09-01 13:00 skipped restorable
    10-01 12:00 delete | notified
    ");
}

#[test]
fn its_expiry_is_announced_anew_after_it_was_kept_or_only_observed() {
    let mut account = account(vec![snapshot(&[])], &recorded(GONE), [], ENFORCED);
    account.aws.storage.snapshots[0].tags.insert("curfew:keep-until".to_owned(), "2026-09-02".to_owned());
    account.run("09-02 12:00").run("09-03 12:00");
    account.config("").run("09-06 11:00").run("09-06 12:00");
    account.config(ENFORCED).run("09-06 13:00").run("09-09 13:00");
    assert_snapshot!(account.log, @"
    09-02 12:00 skipped kept
    09-03 12:00 announce its deletion at 2026-09-06T12:00:00Z | notified
    09-06 11:00 skipped restorable
    09-06 12:00 delete (Observed) | notified
    09-06 13:00 announce its deletion at 2026-09-09T13:00:00Z | notified
    09-09 13:00 delete | notified
    ");
}

#[test]
fn no_label_on_it_moves_its_expiry() {
    for (key, value) in
        [(DELETED_AT, "2020-01-01T00:00:00Z"), (DELETED_AT, "yes"), (SNAPSHOT_OF, "vol-9"), ("curfew:mode", "enforce")]
    {
        check(snapshot(&[(key, value)]), &recorded("2026-08-20T12:00:00Z"), vec![], ENFORCED, "skipped restorable");
    }
    let only_observed = "delete (Observed) | notified";
    check(snapshot(&[("curfew:mode", "enforce")]), &recorded(GONE), vec![], "", only_observed);
    check(snapshot(&[("curfew:mode", "observe")]), &recorded(GONE), vec![], ENFORCED, only_observed);
    let mut unlabelled = snapshot(&[]);
    unlabelled.tags.remove(DELETED_AT);
    let mut account = account(vec![unlabelled], &recorded(GONE), [], ENFORCED);
    account.run("09-01 12:00").run("09-01 13:00");
    assert_snapshot!(account.log, @"
    09-01 12:00 announce its deletion at 2026-09-01T12:00:00Z
    09-01 13:00 delete | notified
    ");
}

/// The notification about a snapshot whose volume was not observed, with this reason.
fn told_of(restore: &str, state: SnapshotState) -> String {
    let snapshot = Snapshot { state, ..snapshot(&[(RESTORE, restore)]) };
    let mut account = account(vec![snapshot], &of_vanished(), [], ENFORCED);
    account.run("09-01 12:00");
    account.messages_text.concat()
}

#[test]
fn a_volume_that_vanished_can_be_restored() {
    let told = told_of("us-east-1a,gp3,500,4000,", SnapshotState::Completed);
    let undo = "Undo until 2026-10-01T12:00:00Z: aws ec2 create-volume --region us-east-1 \
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
    check(snapshot(&[]), &recorded(GONE), vec![volume()], ENFORCED, "snap-1 skipped volume-exists");
    check(snapshot(&[]), &recorded(GONE), vec![volume().on("i-1")], ENFORCED, "snap-1 skipped volume-exists");
}

#[test]
fn a_protected_kept_unreadable_or_foreign_snapshot_stays() {
    let check = |snapshot: Snapshot, expect: &str| check(snapshot, &recorded(GONE), vec![], ENFORCED, expect);
    check(snapshot(&[("curfew:protected", "")]), "skipped protected");
    check(snapshot(&[("curfew:keep-until", "2026-10-01")]), "skipped kept");
    check(snapshot(&[("curfew:protectd", "")]), "skipped unreadable | notified");
    let foreign = "skipped foreign-owned";
    check(Snapshot { of_volume: "vol-ffffffff".into(), ..snapshot(&[]) }, foreign);
    check(Snapshot { started_at: time("2026-07-02T12:00:00Z"), ..snapshot(&[]) }, foreign);
    for description in ["", "before the upgrade", "Curfew: vol-0abc before its deletion, by another-run"] {
        check(Snapshot { description: description.to_owned(), ..snapshot(&[]) }, foreign);
    }
}

#[test]
fn a_description_without_a_record_proves_nothing() {
    let mut account = enforcing_account([], ENFORCED);
    account.aws.storage.snapshots = vec![snapshot(&[])];
    account.run("09-01 12:00");
    assert_eq!(account.log, "09-01 12:00 skipped foreign-owned\n");
}

#[test]
fn one_behind_an_image_is_tried_once_a_day() {
    let mut account = account(vec![snapshot(&[])], &recorded(GONE), [], ENFORCED);
    account.aws.refuses_for_good =
        Some((RefusedCall::DeleteSnapshot, "OperationNotPermitted", "The snapshot is locked"));
    account.run("09-01 12:00").run("09-01 13:00").run("09-02 11:00").run("09-02 12:00");
    account.aws.refuses_for_good = None;
    account.run("09-02 13:00").run("09-03 12:00");
    assert_snapshot!(account.log, @"
    09-01 12:00 delete (Failed) | notified
    09-01 13:00 skipped refused
    09-02 11:00 skipped refused
    09-02 12:00 delete (Failed) | notified
    09-02 13:00 skipped refused
    09-03 12:00 delete | notified
    ");
}

#[test]
fn expiries_above_the_limits_are_held() {
    let snapshots =
        (0..30).map(|number| Snapshot { id: ResourceId::new(format!("snap-{number}")), ..snapshot(&[]) }).collect();
    let mut account = account(snapshots, &recorded(GONE), [], ENFORCED);
    account.run("09-01 12:00");
    assert_eq!(account.aws.storage.snapshots.len(), 30);
}

/// An orphan whose deletion was announced for noon of August 31st, with a snapshot that its log says Curfew made.
fn orphan(safety: Snapshot) -> Account {
    let mut account = account(vec![safety], &of_vanished(), [volume().tag(MARKED, "")], ENFORCED);
    let announced = announced(ResourceAction::SnapshotAndDelete, "2026-08-31T12:00:00Z");
    let record = ResourceRecord {
        announced: BTreeMap::from([(Rule::Orphaned, announced)]),
        ..ResourceRecord::about(time("2026-06-01T12:00:00Z"))
    };
    account.aws.memory.entry("us-east-1".into()).or_default().resources.insert("vol-0abc".into(), record);
    account.run("09-01 12:00");
    account
}

#[test]
fn only_its_own_snapshot_since_it_is_unattached_lets_a_volume_go() {
    let log = orphan(snapshot(&[])).log;
    assert!(log.contains("vol-0abc delete, kept by snap-1"), "{log}");
    for useless in [
        Snapshot { of_volume: "vol-ffffffff".into(), ..snapshot(&[]) },
        Snapshot { size_gib: 100, ..snapshot(&[]) },
        Snapshot { region: "us-west-2".into(), ..snapshot(&[]) },
        Snapshot { started_at: time("2026-05-31T12:00:00Z"), ..snapshot(&[]) },
        Snapshot { description: "Curfew: vol-0abc before its deletion, by another".to_owned(), ..snapshot(&[]) },
    ] {
        let log = orphan(useless).log;
        assert!(log.contains("vol-0abc snapshot"), "{log}");
    }
}

#[test]
fn a_protected_snapshot_gets_no_expiry_when_its_volume_goes() {
    let mut protected = snapshot(&[("curfew:protected", "")]);
    protected.tags.remove(DELETED_AT);
    let account = orphan(protected.clone());
    assert!(account.log.contains("vol-0abc delete, kept by snap-1"), "{}", account.log);
    assert_eq!(account.aws.storage.snapshots, [protected]);
}
