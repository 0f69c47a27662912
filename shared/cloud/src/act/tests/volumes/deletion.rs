//! Deleting a volume: only where it can be restored, and reported truthfully.

use model::rule::Rule;

use super::*;

fn deletion() -> Step {
    step(delete(Some("snap-1"), &["snap-1", "snap-2"]), BOTH)
}

/// Deletes it where that is answered like this, and then EC2 says that of the volume.
async fn deleted(
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
    then: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    carried_out_where(&deletion(), move |nth, call| match (call.name.as_str(), nth) {
        ("DeleteVolume", _) => Some(answer()),
        ("DescribeVolumes", 1..) => Some(then()),
        _ => None,
    })
    .await
}

fn in_trouble() -> ReplayAnswer {
    ReplayAnswer::Raw(500, IN_TROUBLE.into())
}

fn is_gone() -> ReplayAnswer {
    gone("InvalidVolume.NotFound")
}

fn in_state(state: &str) -> ReplayAnswer {
    volumes(volume_xml("vol-0abc", state, BOTH, ""))
}

#[tokio::test]
async fn a_volume_is_deleted_once_volume_and_snapshot_are_as_they_were() {
    let (outcome, calls) = carried_out(&deletion()).await;
    assert_eq!(outcome, done());
    called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION, DATED]);
}

#[tokio::test]
async fn where_no_snapshot_is_wanted_none_is_read() {
    let (outcome, calls) = carried_out(&step(delete(None, &[]), BOTH)).await;
    assert_eq!(outcome, done());
    called(&calls, &[LOOK, DELETION]);
    let (outcome, calls) = carried_out(&step(delete(None, &["snap-1", "snap-2"]), BOTH)).await;
    assert_eq!(outcome, done());
    called(&calls, &[LOOK, DELETION, DATED]);
}

/// Tries to delete it where its snapshot is read again like that.
async fn with_snapshot(step: &Step, answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static) -> StepOutcome {
    let (outcome, calls) = carried_out_with(step, "DescribeSnapshots", answer).await;
    called(&calls, &[LOOK, LOOK_AT_SNAPSHOT]);
    outcome
}

#[tokio::test]
async fn nothing_is_deleted_that_could_not_be_restored() {
    let whole = snapshot_xml("snap-1", "vol-0abc", "completed", OF_IT);
    let in_state = |state: &str| snapshot_xml("snap-1", "vol-0abc", state, OF_IT);
    let table = [
        in_state("pending"),
        in_state("error"),
        in_state("recoverable"),
        in_state("recovering"),
        in_state("hovering"),
        snapshot_xml("snap-1", "vol-1", "completed", OF_IT),
        snapshot_xml("snap-1", "vol-ffffffff", "completed", OF_IT),
        whole.replace("Curfew: vol-0abc", "Curfew: vol-1"),
        whole.replace("Curfew: vol-0abc before its deletion, by run-1", "weekly backup"),
        whole.replace("2026-08-20T12:00:00.000Z", "2026-08-10T11:59:59.999Z"),
        whole.replace("<volumeSize>100", "<volumeSize>99"),
        whole.replace("<volumeSize>100", "<volumeSize>101"),
    ];
    for now in table {
        assert_ne!(now, whole);
        let item = now.clone();
        let outcome =
            with_snapshot(&deletion(), move || page_of("snapshotSet", std::slice::from_ref(&item), None)).await;
        let expected = StepOutcome::with(OutcomeKind::Changed, "snap-1 is no longer what it can be restored from");
        assert_eq!(outcome, expected, "{now}");
    }
    let outcome = with_snapshot(&deletion(), || gone("InvalidSnapshot.NotFound")).await;
    assert_eq!(outcome.kind, OutcomeKind::Changed);
    assert!(outcome.error.unwrap().starts_with("ec2:DescribeSnapshots failed in us-east-1: InvalidSnapshot.NotFound"));
}

#[tokio::test]
async fn no_volume_is_deleted_while_its_restorability_is_unknown() {
    let unsure: [fn() -> ReplayAnswer; 7] = [
        denied,
        throttled,
        in_trouble,
        || cut_off("DescribeSnapshots", "snapshotSet"),
        || page_of("snapshotSet", &[], None),
        || page_of("snapshotSet", &[snapshot_xml("snap-2", "vol-0abc", "completed", OF_IT)], None),
        || {
            let item = snapshot_xml("snap-1", "vol-0abc", "completed", OF_IT);
            page_of("snapshotSet", &[item.replace("<volumeSize>100</volumeSize>", "")], None)
        },
    ];
    for answer in unsure {
        let outcome = with_snapshot(&deletion(), answer).await;
        assert_eq!(outcome.kind, OutcomeKind::Failed);
        assert!(outcome.error.unwrap().starts_with("ec2:DescribeSnapshots failed"));
    }
}

#[tokio::test]
async fn without_a_moment_since_when_no_snapshot_is_new_enough() {
    let evidence = Evidence::resolved(Rule::Orphaned);
    let step = Step { evidence, ..deletion() };
    let whole = || page_of("snapshotSet", &[snapshot_xml("snap-1", "vol-0abc", "completed", OF_IT)], None);
    assert_eq!(with_snapshot(&step, whole).await.kind, OutcomeKind::Changed);
}

#[tokio::test]
async fn a_volume_that_was_attached_under_the_write_is_a_change() {
    let in_use = || ReplayAnswer::error("VolumeInUse", "Volume vol-0abc is currently attached to i-1");
    let (outcome, calls) = carried_out_with(&deletion(), "DeleteVolume", in_use).await;
    let said = "ec2:DeleteVolume failed in us-east-1: VolumeInUse: Volume vol-0abc is currently attached to i-1; it is \
                attached again";
    assert_eq!(outcome, StepOutcome::with(OutcomeKind::Changed, said));
    called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION]);
}

#[tokio::test]
async fn a_refused_deletion_dates_nothing() {
    let protected =
        || ReplayAnswer::error("UnauthorizedOperation", "with an explicit deny in an identity-based policy");
    let (outcome, calls) = carried_out_with(&deletion(), "DeleteVolume", protected).await;
    assert_eq!(outcome.kind, OutcomeKind::Failed);
    assert!(outcome.error.unwrap().ends_with("as Curfew's own does for what carries curfew:protected"));
    called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION]);
}

#[tokio::test]
async fn what_an_earlier_try_or_somebody_else_deleted_is_done() {
    let (outcome, calls) = deleted(is_gone, is_gone).await;
    assert_eq!(outcome, done());
    called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION, LOOK, DATED]);
}

#[tokio::test]
async fn what_ec2_finds_again_is_not_told_to_be_deleted() {
    let (outcome, calls) = deleted(is_gone, || in_state("available")).await;
    assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::AlreadyGone));
    called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION, LOOK]);
}

/// What is said of a deletion that may have been carried out. The last two come of a repeat of one that was.
const OPEN: [fn() -> ReplayAnswer; 4] = [
    in_trouble,
    || ReplayAnswer::Raw(503, Vec::new()),
    throttled,
    || ReplayAnswer::error("IncorrectState", "The volume is in the state 'deleting'"),
];

#[tokio::test]
async fn a_deletion_that_was_not_answered_is_done_where_the_volume_is_gone() {
    let by_then: [fn() -> ReplayAnswer; 3] = [is_gone, || in_state("deleting"), || in_state("deleted")];
    for answer in OPEN {
        for then in by_then {
            let (outcome, calls) = deleted(answer, then).await;
            assert_eq!(outcome, done());
            called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION, LOOK, DATED]);
        }
    }
}

#[tokio::test]
async fn a_deletion_that_was_not_answered_nor_carried_out_dates_nothing() {
    let by_then: [fn() -> ReplayAnswer; 6] = [
        || in_state("available"),
        || in_state("in-use"),
        denied,
        in_trouble,
        || page_of("volumeSet", &[], None),
        || cut_off("DescribeVolumes", "volumeSet"),
    ];
    for answer in OPEN {
        for then in by_then {
            let (outcome, calls) = deleted(answer, then).await;
            let error = outcome.error.unwrap();
            let changed = error.contains("IncorrectState");
            assert_eq!(outcome.kind, if changed { OutcomeKind::Changed } else { OutcomeKind::Failed }, "{error}");
            assert!(error.starts_with("ec2:DeleteVolume failed"), "{error}");
            called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION, LOOK]);
        }
    }
}

#[tokio::test]
async fn a_date_that_is_not_written_does_not_undo_the_deletion() {
    let unwritten: [fn() -> ReplayAnswer; 3] = [denied, in_trouble, || gone("InvalidSnapshot.NotFound")];
    for answer in unwritten {
        let (outcome, calls) = carried_out_with(&deletion(), "CreateTags", answer).await;
        assert_eq!(outcome.kind, OutcomeKind::Done);
        let error = outcome.error.unwrap();
        assert!(error.starts_with("deleted, but its snapshots carry no date yet: ec2:CreateTags failed"), "{error}");
        called(&calls, &[LOOK, LOOK_AT_SNAPSHOT, DELETION, DATED]);
    }
}
