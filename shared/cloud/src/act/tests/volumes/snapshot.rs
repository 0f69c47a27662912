//! Beginning a snapshot: once, whatever is answered.

use std::time::Duration;

use aws_sdk_ec2::config::retry::RetryConfig;

use super::*;
use crate::replay::aws_that_repeats;

const CREATION: &str = "CreateSnapshot Description=Curfew: vol-0abc before its deletion, by run-1 \
                        TagSpecification.1.ResourceType=snapshot TagSpecification.1.Tag.1.Key=Team \
                        TagSpecification.1.Tag.1.Value=vision TagSpecification.1.Tag.2.Key=curfew:restore \
                        TagSpecification.1.Tag.2.Value=a,gp3,100,, TagSpecification.1.Tag.3.Key=curfew:snapshot-of \
                        TagSpecification.1.Tag.3.Value=vol-0abc VolumeId=vol-0abc";
const SEARCH: &str = "DescribeSnapshots Filter.1.Name=volume-id Filter.1.Value.1=vol-0abc Filter.2.Name=description \
                      Filter.2.Value.1=Curfew: * Owner.1=self";

fn unanswered() -> ReplayAnswer {
    ReplayAnswer::Raw(500, IN_TROUBLE.into())
}

/// Begins a snapshot, is not answered, and then finds these.
async fn unanswered_where(found: impl Fn() -> ReplayAnswer + Send + Sync + 'static) -> (StepOutcome, Vec<String>) {
    carried_out_where(&step(snapshot(), BOTH), move |_, call| match call.name.as_str() {
        "CreateSnapshot" => Some(unanswered()),
        "DescribeSnapshots" => Some(found()),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_snapshot_has_all_its_tags_from_its_first_moment() {
    let (outcome, calls) = carried_out(&step(snapshot(), BOTH)).await;
    assert_eq!(outcome, done());
    called(&calls, &[LOOK, CREATION]);
}

/// What the SDK's retries make of these answers: how often what was called.
async fn calls_with(retries: RetryConfig, answer: fn() -> ReplayAnswer) -> (StepOutcome, Vec<String>) {
    let step = step(snapshot(), BOTH);
    let (as_seen, looks) = (as_seen(&step), std::sync::atomic::AtomicUsize::new(0));
    let retries = retries.with_max_attempts(4).with_initial_backoff(Duration::from_millis(1));
    // Only silence lasts so long.
    let timeout = Duration::from_secs(2);
    let (aws, calls) = aws_that_repeats(retries, timeout, move |call| match call.name.as_str() {
        "CreateSnapshot" => answer(),
        "DescribeVolumes" if looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => unanswered(),
        "DescribeSnapshots" => page_of("snapshotSet", &[], None),
        _ => as_seen(call),
    });
    let outcome = carry_out(&aws, &step, &run()).await;
    (outcome, calls.said())
}

#[tokio::test]
async fn no_retry_of_the_sdk_begins_a_second_snapshot() {
    let open: [fn() -> ReplayAnswer; 5] = [
        unanswered,
        || ReplayAnswer::Raw(500, Vec::new()),
        || ReplayAnswer::Raw(503, b"<html>".into()),
        || ReplayAnswer::Raw(200, Vec::new()),
        || ReplayAnswer::Silence,
    ];
    for retries in [RetryConfig::standard(), RetryConfig::adaptive()] {
        for answer in open {
            let (outcome, calls) = calls_with(retries.clone(), answer).await;
            assert_eq!(outcome.kind, OutcomeKind::Failed);
            assert!(outcome.error.unwrap().starts_with("ec2:CreateSnapshot failed"));
            // The look, which may be repeated, is.
            called(&calls, &[LOOK, LOOK, CREATION, SEARCH]);
        }
        let (outcome, calls) = calls_with(retries, throttled).await;
        assert_eq!(outcome.kind, OutcomeKind::Failed);
        called(&calls, &[LOOK, LOOK, CREATION]);
    }
}

#[tokio::test]
async fn a_snapshot_that_was_begun_and_not_answered_is_found() {
    for state in ["pending", "completed"] {
        let found = move || {
            let older = by_another_run(snapshot_xml("snap-1", "vol-0abc", "error", OF_IT));
            page_of("snapshotSet", &[older, snapshot_xml("snap-2", "vol-0abc", state, &[])], None)
        };
        let (outcome, calls) = unanswered_where(found).await;
        assert_eq!(outcome, done(), "{state}");
        called(&calls, &[LOOK, CREATION, SEARCH]);
    }
}

fn by_another_run(snapshot: String) -> String {
    snapshot.replace("by run-1", "by run-0")
}

#[tokio::test]
async fn another_snapshot_is_not_the_one_that_was_not_answered() {
    let whole = snapshot_xml("snap-1", "vol-0abc", "completed", OF_IT);
    let others = [
        String::new(),
        by_another_run(whole.clone()),
        whole.replace("Curfew: vol-0abc", "Curfew: vol-1"),
        whole.replace("Curfew: vol-0abc before its deletion, by run-1", "weekly backup"),
        // A copy has the description, and another volume.
        whole.replace("<volumeId>vol-0abc", "<volumeId>vol-ffffffff"),
        whole.replace("<startTime>2026-08-20T12:00:00.000Z</startTime>", ""),
    ];
    for other in others {
        let item = other.clone();
        let (outcome, calls) =
            unanswered_where(move || page_of("snapshotSet", std::slice::from_ref(&item), None)).await;
        assert_eq!(outcome.kind, OutcomeKind::Failed, "{other}");
        assert!(outcome.error.unwrap().starts_with("ec2:CreateSnapshot failed in us-east-1: InternalError"));
        called(&calls, &[LOOK, CREATION, SEARCH]);
    }
}

#[tokio::test]
async fn a_search_that_fails_finds_nothing() {
    let failed: [fn() -> ReplayAnswer; 3] = [denied, unanswered, || cut_off("DescribeSnapshots", "snapshotSet")];
    for answer in failed {
        let (outcome, _) = unanswered_where(answer).await;
        assert_eq!(outcome.kind, OutcomeKind::Failed);
        assert!(outcome.error.unwrap().starts_with("ec2:CreateSnapshot failed in us-east-1: InternalError"));
    }
}

#[tokio::test]
async fn a_refused_snapshot_is_not_searched_for() {
    let failed = OutcomeKind::Failed;
    let table = [
        ("UnauthorizedOperation", failed, "grant ec2:CreateSnapshot to the role that asked"),
        ("ConcurrentSnapshotLimitExceeded", failed, "so many snapshots at once are all that EC2 makes"),
        ("SnapshotCreationPerVolumeRateExceeded", failed, "so many snapshots at once are all that EC2 makes"),
        ("RequestLimitExceeded", failed, "the account makes too many calls"),
        ("SnapshotLimitExceeded", failed, "SnapshotLimitExceeded: No"),
        ("IncorrectState", OutcomeKind::Changed, "its state has changed"),
    ];
    for (code, expected, advice) in table {
        let (outcome, calls) =
            carried_out_with(&step(snapshot(), BOTH), "CreateSnapshot", || ReplayAnswer::error(code, "No")).await;
        assert_eq!(outcome.kind, expected, "{code}");
        let error = outcome.error.unwrap();
        assert!(error.starts_with(&format!("ec2:CreateSnapshot failed in us-east-1: {code}: No")), "{error}");
        assert!(error.ends_with(advice), "{error}");
        called(&calls, &[LOOK, CREATION]);
    }
}
