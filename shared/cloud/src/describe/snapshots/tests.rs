use super::*;
use crate::error::CallErrorKind;
use crate::replay::{ReplayAnswer, ReplayedCalls, aws, page_of, snapshot_xml};

/// What becomes of this answer when one snapshot is asked for; and the calls.
async fn asked(
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<Snapshot, CallError>, ReplayedCalls) {
    let (aws, calls) = aws(move |_| answer());
    let region = Region::from("us-east-1");
    (snapshot(&aws.ec2(&region), &region, &"snap-1".into()).await, calls)
}

fn set(snapshots: Vec<String>) -> impl Fn() -> ReplayAnswer + Send + Sync + 'static {
    move || page_of("snapshotSet", &snapshots, None)
}

#[tokio::test]
async fn a_snapshot_keeps_what_ec2_says() {
    let tags = [("curfew:snapshot-of", "vol-1"), ("Team", "vision")];
    let (snapshot, calls) = asked(set(vec![snapshot_xml("snap-1", "vol-1", "completed", &tags)])).await;
    let expected = Snapshot {
        id: "snap-1".into(),
        region: "us-east-1".into(),
        of_volume: "vol-1".into(),
        state: SnapshotState::Completed,
        started_at: "2026-08-20T12:00:00Z".parse().unwrap(),
        size_gib: 100,
        tags: tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        description: "Curfew: vol-1 before its deletion, by run-1".to_owned(),
    };
    assert_eq!(snapshot.unwrap(), expected);
    assert_eq!(calls.said(), ["DescribeSnapshots SnapshotId.1=snap-1"]);
}

#[tokio::test]
async fn states() {
    let table = [
        ("pending", SnapshotState::Pending),
        ("completed", SnapshotState::Completed),
        ("error", SnapshotState::Error),
        ("recoverable", SnapshotState::Unknown),
        ("recovering", SnapshotState::Unknown),
        ("hovering", SnapshotState::Unknown),
    ];
    for (name, expected) in table {
        let snapshot = asked(set(vec![snapshot_xml("snap-1", "vol-1", name, &[])])).await.0.unwrap();
        assert_eq!(snapshot.state, expected, "{name}");
    }
    assert_eq!(state(None), SnapshotState::Unknown);
}

#[tokio::test]
async fn a_snapshot_of_which_too_little_is_said_is_not_one_that_is_gone() {
    let whole = snapshot_xml("snap-1", "vol-1", "completed", &[]);
    let parts = [
        "<volumeId>vol-1</volumeId>",
        "<startTime>2026-08-20T12:00:00.000Z</startTime>",
        "<volumeSize>100</volumeSize>",
    ];
    for part in parts {
        assert!(whole.contains(part), "{part}");
        let error = asked(set(vec![whole.replace(part, "")])).await.0.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Other, "{part}");
        assert!(error.to_string().contains("EC2 left out what must be known of snap-1"), "{error}");
    }
}

#[tokio::test]
async fn only_ec2s_word_says_that_a_snapshot_is_not_there() {
    let nothing = asked(set(vec![])).await.0.unwrap_err();
    let said = "EC2 answered without snap-1, and not that it is gone";
    assert_eq!((nothing.kind, nothing.message.as_str()), (CallErrorKind::Other, said));
    let another = asked(set(vec![snapshot_xml("snap-2", "vol-1", "completed", &[])])).await.0.unwrap_err();
    assert_eq!(another.kind, CallErrorKind::Other);
    let said = || ReplayAnswer::error("InvalidSnapshot.NotFound", "The snapshot 'snap-1' does not exist.");
    assert_eq!(asked(said).await.0.unwrap_err().kind, CallErrorKind::NotFound);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_of_the_call() {
    let item = snapshot_xml("snap-1", "vol-1", "completed", &[]);
    let whole = format!("<DescribeSnapshotsResponse><snapshotSet>{item}</snapshotSet></DescribeSnapshotsResponse>");
    let table = [
        (whole.replace("</DescribeSnapshotsResponse>", ""), "the answer ends within an element"),
        (whole.replace("<snapshotId>snap-1</snapshotId>", ""), "the answer has one without snapshotId"),
        (whole.replace("12:00:00", "noon"), "a startTime of \"2026-08-20Tnoon.000Z\""),
    ];
    for (body, expected) in table {
        let said = asked(move || ReplayAnswer::Raw(200, body.clone().into())).await.0.unwrap_err().to_string();
        assert!(said.starts_with("ec2:DescribeSnapshots failed in us-east-1: HTTP status 200: "), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
