use jiff::SignedDuration;
use model::curfew_tags::{DELETED_AT, UNATTACHED_SINCE};
use model::instance::Tags;
use model::moment::after;
use model::notification_log::{NotificationLog, SafetyRecord};
use model::volume::{SnapshotState, VolumeState};

use super::*;
use crate::fixture::{NOW, VolumeBuilder, announced, enforcing, record_of_labels, time, volume};

const ENFORCED: &str = "mode = \"enforce\"";
const LONG_AGO: &str = "2026-08-10T12:00:00Z";

fn explained(storage: &ObservedStorage, used: Option<VolumeUse>, config: &str, id: &str) -> Explanation {
    let answers = used.map(|used| (ResourceId::from(id), used)).into_iter().collect();
    explain(storage, &answers, &LiveJobs::new(), &logged(storage), &enforcing(config), time(NOW), &id.into()).unwrap()
}

/// The log of Curfew, which wrote the labels of these volumes and snapshots.
fn logged(storage: &ObservedStorage) -> NotificationLogs {
    let label = |tags: &Tags, key: &str| tags.get(key).map(|at| time(at));
    let volume_records = storage.volumes.items.iter().filter_map(|volume| {
        let since = label(&volume.tags, UNATTACHED_SINCE)?;
        Some((volume.id.clone(), record_of_labels(since, &volume.tags)))
    });
    let snapshot_records = storage.snapshots.iter().map(|snapshot| {
        let deleted_at = label(&snapshot.tags, DELETED_AT);
        let expires_at = deleted_at.map(|at| after(at, SignedDuration::from_hours(30 * 24)).to_string());
        let announced = expires_at.map(|at| (Rule::Expired, announced(ResourceAction::Delete, &at)));
        let safety = Some(SafetyRecord { volume: "vol-0abc".into(), run: "run-1".into(), deleted_at });
        let announced = announced.into_iter().collect();
        (snapshot.id.clone(), ResourceRecord { announced, safety, ..ResourceRecord::about(snapshot.started_at) })
    });
    let resources = volume_records.chain(snapshot_records).collect();
    NotificationLogs::from([("us-east-1".into(), NotificationLog { resources, ..NotificationLog::default() })])
}

fn show(explained: &Explanation) -> String {
    let [row] = &explained.rules[..] else { panic!("{explained:?}") };
    let skipped = explained.skipped.as_ref().map(|skipped| format!(" [{}]", skipped.words)).unwrap_or_default();
    format!("{:?}: {}; {}{skipped}", row.verdict, row.evidence, row.when)
}

/// `verdict: evidence; when [why it is skipped]`.
fn check(builder: VolumeBuilder, used: Option<VolumeUse>, config: &str, expect: &str) {
    let storage = ObservedStorage {
        volumes: Observation { items: vec![builder.build()], gaps: Vec::new() },
        ..ObservedStorage::default()
    };
    assert_eq!(show(&explained(&storage, used, config, "vol-0abc")), expect);
}

fn orphan() -> VolumeBuilder {
    volume().tag("curfew:unattached-since", LONG_AGO)
}

#[test]
fn orphaned_ones() {
    let unused = Some(VolumeUse::None);
    check(
        orphan(),
        unused,
        ENFORCED,
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; the next run notifies its subscribers and marks it; snapshotted and deleted from 2026-09-04T12:00:00Z on, counted from now",
    );
    check(
        orphan(),
        unused,
        "",
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; never in observe mode; in enforce mode snapshotted and deleted from 2026-09-04T12:00:00Z on",
    );
    check(
        orphan(),
        unused,
        "mode = \"enforce\"\n[volumes]\naction = \"notify\"",
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; notify only: the configured action is notify",
    );
    check(
        orphan(),
        None,
        ENFORCED,
        "Unknown: unattached since 2026-08-10T12:00:00Z; its usage since then is unknown; not while this is unknown",
    );
    check(
        orphan(),
        Some(VolumeUse::UsedAt(time("2026-08-30T12:00:00Z"))),
        ENFORCED,
        "Compliant: it was in use at 2026-08-30T12:00:00Z; announced at 2026-09-15T12:00:00Z at the earliest, snapshotted and deleted from 2026-09-18T12:00:00Z on",
    );
    let marked = |at: &str| orphan().tag("curfew:marked", &format!("orphaned=snapshot-and-delete@{at}"));
    check(
        marked("2026-09-02T12:00:00Z"),
        unused,
        ENFORCED,
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; snapshotted and deleted by the first run from 2026-09-02T12:00:00Z on that finds it still violated",
    );
    check(
        marked("2026-09-01T11:00:00Z"),
        unused,
        ENFORCED,
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; the next run starts its snapshot, unless that run exceeds [limits]; the first run that finds the snapshot complete deletes the volume",
    );
}

#[test]
fn a_volume_in_use_again() {
    let describe = |builder: VolumeBuilder| {
        let storage = ObservedStorage {
            volumes: Observation { items: vec![builder.on("i-0abc").build()], gaps: Vec::new() },
            ..ObservedStorage::default()
        };
        explained(&storage, None, ENFORCED, "vol-0abc").decision.describe()
    };
    assert_eq!(describe(orphan()), "the next run removes curfew:unattached-since: it is in use again");
    assert_eq!(
        describe(orphan().tag("curfew:marked", "orphaned=snapshot-and-delete@2026-09-02T12:00:00Z")),
        "the next run notifies its subscribers, and calls off what it announced for orphaned",
    );
}

#[test]
fn others() {
    check(
        volume(),
        None,
        ENFORCED,
        "Compliant: first seen unattached now; orphaned after 14d; announced at 2026-09-15T12:00:00Z at the earliest, snapshotted and deleted from 2026-09-18T12:00:00Z on",
    );
    check(
        volume().tag("curfew:unattached-since", "2026-08-30T12:00:00Z"),
        None,
        ENFORCED,
        "Compliant: unattached since 2026-08-30T12:00:00Z; orphaned after 14d; announced at 2026-09-13T12:00:00Z at the earliest, snapshotted and deleted from 2026-09-16T12:00:00Z on",
    );
    check(volume().on("i-0abc"), None, ENFORCED, "Compliant: it is attached to i-0abc; not while it complies");
    check(
        orphan().with(|volume| volume.state = VolumeState::Error),
        None,
        ENFORCED,
        "NotJudged: it is error; not before it is available [it is being created or deleted, or has failed]",
    );
    check(
        orphan().tag("curfew:protected", ""),
        Some(VolumeUse::None),
        ENFORCED,
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; not while it is skipped [it carries curfew:protected; Curfew does not touch it until that tag is removed]",
    );
    check(
        orphan().tag("kubernetes.io/created-for/pvc/name", "x"),
        Some(VolumeUse::None),
        ENFORCED,
        "Violated: unattached and unused since 2026-08-10T12:00:00Z; not while it is skipped [it belongs to a Kubernetes claim, which may be scaled to zero; delete the claim]",
    );
    check(
        orphan().tag("curfew:mode", "on"),
        Some(VolumeUse::None),
        ENFORCED,
        "NotJudged: one of its tags cannot be read; not while a tag cannot be read [the tag curfew:mode=on cannot be read: write `enforce` or `observe`; skipped until that is corrected]",
    );
}

fn check_snapshot(volume_exists: bool, tags: &[(&str, &str)], config: &str, expect: &str) {
    check_described("Curfew: vol-0abc before its deletion, by run-1", volume_exists, tags, config, expect);
}

fn check_described(description: &str, volume_exists: bool, tags: &[(&str, &str)], config: &str, expect: &str) {
    let mut all = volume().build().tags;
    all.insert("curfew:snapshot-of".to_owned(), "vol-0abc".to_owned());
    all.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let snapshot = Snapshot {
        id: "snap-0abc".into(),
        region: "us-east-1".into(),
        of_volume: "vol-0abc".into(),
        state: SnapshotState::Completed,
        started_at: time(LONG_AGO),
        size_gib: 500,
        tags: all,
        description: description.to_owned(),
    };
    let items = if volume_exists { vec![volume().build()] } else { Vec::new() };
    let storage = ObservedStorage {
        volumes: Observation { items, gaps: Vec::new() },
        snapshots: vec![snapshot],
        ..ObservedStorage::default()
    };
    assert_eq!(show(&explained(&storage, None, config, "snap-0abc")), expect);
}

#[test]
fn snapshots() {
    check_snapshot(true, &[], ENFORCED, "Compliant: vol-0abc exists; not while it complies");
    check_snapshot(
        false,
        &[],
        ENFORCED,
        "Compliant: vol-0abc is gone; the next run announces that; deleted by the first run from 2026-10-01T12:00:00Z on",
    );
    check_snapshot(
        false,
        &[("curfew:deleted-at", "2026-08-20T12:00:00Z")],
        ENFORCED,
        "Compliant: vol-0abc was deleted at 2026-08-20T12:00:00Z, and can be restored from it; deleted by the first run from 2026-09-19T12:00:00Z on",
    );
    // Announced for that moment, before it was to be kept for longer.
    check_snapshot(
        false,
        &[("curfew:deleted-at", "2026-08-20T12:00:00Z")],
        &format!("{ENFORCED}\n[volumes]\nkeep_snapshots = \"60d\""),
        "Compliant: vol-0abc was deleted at 2026-08-20T12:00:00Z, and can be restored from it; deleted by the first run from 2026-10-19T12:00:00Z on",
    );
    check_snapshot(
        false,
        &[("curfew:deleted-at", "2026-07-20T12:00:00Z")],
        ENFORCED,
        "Violated: the safety snapshot of vol-0abc (deleted at 2026-07-20T12:00:00Z) was kept until 2026-08-19T12:00:00Z; deleted by the next run",
    );
    check_snapshot(
        false,
        &[("curfew:deleted-at", "2026-07-20T12:00:00Z")],
        "",
        "Violated: the safety snapshot of vol-0abc (deleted at 2026-07-20T12:00:00Z) was kept until 2026-08-19T12:00:00Z; never in observe mode; in enforce mode deleted from 2026-08-19T12:00:00Z on",
    );
    check_snapshot(
        false,
        &[("curfew:protected", "")],
        ENFORCED,
        "NotJudged: it is skipped; not while it is skipped [it carries curfew:protected; Curfew does not touch it until that tag is removed]",
    );
    // Neither the labels nor a description prove that Curfew made it.
    let old = [("curfew:deleted-at", "2026-07-20T12:00:00Z")];
    let foreign = "NotJudged: it is skipped; not while it is skipped [it is a copy, or Curfew did not make it]";
    check_described("weekly backup", false, &old, ENFORCED, foreign);
    check_described("Curfew: vol-0abc before its deletion, by run-2", false, &old, ENFORCED, foreign);
    check_described("Curfew: vol-0def before its deletion, by run-1", false, &old, ENFORCED, foreign);
}

#[test]
fn only_an_answer_that_matters_is_asked_for() {
    let asked = |builder: VolumeBuilder| {
        let storage = ObservedStorage {
            volumes: Observation { items: vec![builder.build()], gaps: Vec::new() },
            ..ObservedStorage::default()
        };
        let id = ResourceId::from("vol-0abc");
        full_use_query(&storage, &LiveJobs::new(), &logged(&storage), &enforcing(""), time(NOW), &id)
            .map(|ask| ask.since)
    };
    assert_eq!(asked(orphan()), Some(time(LONG_AGO)));
    assert_eq!(asked(volume()), None);
    assert_eq!(asked(orphan().on("i-0abc")), None);
}
