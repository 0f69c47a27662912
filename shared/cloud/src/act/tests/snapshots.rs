use model::curfew_tags::{DELETED_AT, PROTECTED, RESTORE, SNAPSHOT_OF};
use model::refusal::RefusalReason;
use model::rule::Rule;
use model::volume::{Snapshot, SnapshotState};
use plan::{Evidence, ExpiryAnnouncement, Facts, SnapshotAction};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, attached_xml, aws, page_of, snapshot_xml, volume_xml};

const DELETED: &str = "2026-08-21T12:00:00Z";
const OF_IT: &[(&str, &str)] = &[(SNAPSHOT_OF, "vol-0abc"), (RESTORE, "us-east-1a,gp3,100,3000,125")];
const DATED: &[(&str, &str)] = &[OF_IT[0], OF_IT[1], (DELETED_AT, DELETED)];

const LOOK: &str = "DescribeSnapshots SnapshotId.1=snap-1";
const LOOK_AT_VOLUME: &str = "DescribeVolumes VolumeId.1=vol-0abc";
const DELETION: &str = "DeleteSnapshot SnapshotId=snap-1";

/// What EC2 answers, and what is said of that.
type Said = (fn() -> ReplayAnswer, &'static str);

/// A step to enforce on snap-1, of a volume that is gone.
fn step(action: SnapshotAction, tags: &[(&str, &str)]) -> Step {
    let seen = Snapshot {
        id: "snap-1".into(),
        region: "us-east-1".into(),
        of_volume: "vol-0abc".into(),
        state: SnapshotState::Completed,
        started_at: "2026-08-20T12:00:00Z".parse().unwrap(),
        size_gib: 100,
        tags: tags_of(tags),
        description: "Curfew: vol-0abc before its deletion, by run-1".to_owned(),
    };
    let facts = Facts::SnapshotExpired {
        volume: "vol-0abc".into(),
        deleted_at: DELETED.parse().unwrap(),
        expires_at: "2026-09-20T12:00:00Z".parse().unwrap(),
    };
    let evidence = Evidence::new(Rule::Expired, facts, "it is over").unscheduled();
    Step::bare(target("snap-1"), Action::Snapshot(seen, action), evidence, Mode::Enforce)
}

fn deletion() -> Step {
    step(SnapshotAction::Delete, DATED)
}

fn date() -> Step {
    let expiry = ExpiryAnnouncement {
        deleted_at: DELETED.parse().unwrap(),
        kept_until: "2026-09-20T12:00:00Z".parse().unwrap(),
    };
    step(SnapshotAction::AnnounceExpiry(expiry), OF_IT)
}

fn page(item: String) -> ReplayAnswer {
    page_of("snapshotSet", &[item], None)
}

fn volume_is_gone() -> ReplayAnswer {
    gone("InvalidVolume.NotFound")
}

/// Carries the step out where EC2 sees the snapshot as the step does, and knows no volume, and takes every write, unless
/// `answer` says otherwise.
async fn carried_out_where(
    step: &Step,
    answer: impl Fn(&ReplayedCall) -> Option<ReplayAnswer> + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    let Action::Snapshot(seen, _) = &step.action else { panic!("a snapshot") };
    let tags: Vec<(String, String)> = seen.tags.clone().into_iter().collect();
    let (aws, calls) = aws(move |call| {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        answer(call).unwrap_or_else(|| match call.name.as_str() {
            "DescribeSnapshots" => page(snapshot_xml("snap-1", "vol-0abc", "completed", &tags)),
            "DescribeVolumes" => volume_is_gone(),
            _ => ReplayAnswer::ok("<return>true</return>"),
        })
    });
    let outcome = carry_out(&aws, step, &run()).await;
    (outcome, calls.said())
}

/// The same where calls of that name are answered like that.
async fn carried_out_with(
    step: &Step,
    name: &'static str,
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    carried_out_where(step, move |call| (call.name == name).then(&answer)).await
}

#[tokio::test]
async fn what_outlived_its_volume_is_deleted_once_that_is_known_to_be_gone() {
    let (outcome, calls) = carried_out_where(&deletion(), |_| None).await;
    assert_eq!((outcome, &calls[..]), (done(), &[LOOK, LOOK_AT_VOLUME, DELETION].map(str::to_owned)[..]));
}

#[tokio::test]
async fn the_date_is_written_once_the_volume_is_known_to_be_gone() {
    let (outcome, calls) = carried_out_where(&date(), |_| None).await;
    let written = "CreateTags ResourceId.1=snap-1 Tag.1.Key=curfew:deleted-at Tag.1.Value=2026-08-21T12:00:00Z";
    assert_eq!((outcome, &calls[..]), (done(), &[LOOK, LOOK_AT_VOLUME, written].map(str::to_owned)[..]));
}

#[tokio::test]
async fn nothing_is_written_while_the_volume_exists() {
    for state in ["creating", "available", "in-use", "deleting", "error", "hovering"] {
        for step in [deletion(), date()] {
            let exists = move || page_of("volumeSet", &[volume_xml("vol-0abc", state, &[], "")], None);
            let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", exists).await;
            assert_eq!(outcome, StepOutcome::with(OutcomeKind::Changed, "vol-0abc exists"), "{state}");
            assert_eq!(calls, [LOOK, LOOK_AT_VOLUME], "{state}");
        }
    }
    let attached = || page_of("volumeSet", &[volume_xml("vol-0abc", "in-use", &[], &attached_xml("i-1"))], None);
    let (outcome, calls) = carried_out_with(&deletion(), "DescribeVolumes", attached).await;
    assert_eq!((outcome.kind, calls.len()), (OutcomeKind::Changed, 2));
}

#[tokio::test]
async fn only_ec2s_word_says_that_the_volume_is_gone() {
    let another = || page_of("volumeSet", &[volume_xml("vol-1", "available", &[], "")], None);
    let half = || {
        let item = volume_xml("vol-0abc", "available", &[], "").replace("<volumeType>gp3</volumeType>", "");
        page_of("volumeSet", &[item], None)
    };
    let unsure: [Said; 9] = [
        (denied, "grant ec2:DescribeVolumes"),
        (throttled, "the account makes too many calls"),
        (|| cut_off("DescribeVolumes", "volumeSet"), "the answer ends within an element"),
        (|| page_of("volumeSet", &[], None), "EC2 answered without vol-0abc"),
        (another, "EC2 answered without vol-0abc"),
        (half, "EC2 left out what must be known of vol-0abc"),
        (|| ReplayAnswer::Raw(200, Vec::new()), "HTTP status 200"),
        (|| ReplayAnswer::Raw(500, IN_TROUBLE.into()), "InternalError"),
        (|| gone("InvalidVolumeID.Malformed"), "InvalidVolumeID.Malformed"),
    ];
    for (answer, said) in unsure {
        for step in [deletion(), date()] {
            let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", answer).await;
            assert_eq!(
                (outcome.kind, &calls[..]),
                (OutcomeKind::Failed, &[LOOK, LOOK_AT_VOLUME].map(str::to_owned)[..])
            );
            let error = outcome.error.unwrap();
            assert!(error.starts_with("ec2:DescribeVolumes failed") && error.contains(said), "{error}");
        }
    }
}

#[tokio::test]
async fn a_snapshot_that_changed_since_the_look_is_left_alone() {
    let with = |more: &[(&str, &str)]| snapshot_xml("snap-1", "vol-0abc", "completed", &[DATED, more].concat());
    let table = [
        with(&[(PROTECTED, "")]),
        with(&[("curfew:keep-until", "2030-01-01")]),
        with(&[("Team", "vision")]),
        snapshot_xml("snap-1", "vol-0abc", "completed", &[(SNAPSHOT_OF, "vol-0abc"), (DELETED_AT, DELETED)]),
        snapshot_xml("snap-1", "vol-0abc", "completed", OF_IT),
        snapshot_xml("snap-1", "vol-0abc", "error", DATED),
        snapshot_xml("snap-1", "vol-0abc", "recovering", DATED),
        snapshot_xml("snap-1", "vol-1", "completed", DATED),
    ];
    for now in table {
        let answer = now.clone();
        let (outcome, calls) = carried_out_with(&deletion(), "DescribeSnapshots", move || page(answer.clone())).await;
        assert_eq!(
            (outcome, &calls[..]),
            (StepOutcome::from_kind(OutcomeKind::Changed), &[LOOK.to_owned()][..]),
            "{now}"
        );
    }
}

#[tokio::test]
async fn a_snapshot_that_is_gone_is_gone() {
    for step in [deletion(), date()] {
        let (outcome, calls) = carried_out_with(&step, "DescribeSnapshots", || gone("InvalidSnapshot.NotFound")).await;
        assert_eq!((outcome, &calls[..]), (StepOutcome::from_kind(OutcomeKind::AlreadyGone), &[LOOK.to_owned()][..]));
    }
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_again_is_left_alone() {
    let unsure: [fn() -> ReplayAnswer; 5] = [
        denied,
        throttled,
        || cut_off("DescribeSnapshots", "snapshotSet"),
        || page_of("snapshotSet", &[], None),
        || ReplayAnswer::Raw(500, IN_TROUBLE.into()),
    ];
    for answer in unsure {
        let (outcome, calls) = carried_out_with(&deletion(), "DescribeSnapshots", answer).await;
        assert_eq!((outcome.kind, &calls[..]), (OutcomeKind::Failed, &[LOOK.to_owned()][..]), "{outcome:?}");
        assert!(outcome.error.unwrap().starts_with("ec2:DescribeSnapshots failed"));
    }
}

#[tokio::test]
async fn a_snapshot_behind_an_ami_stays_and_its_owner_hears_why() {
    let in_use = || ReplayAnswer::error("InvalidSnapshot.InUse", "The snapshot snap-1 is currently in use by ami-1");
    let (outcome, calls) = carried_out_with(&deletion(), "DeleteSnapshot", in_use).await;
    let said = "ec2:DeleteSnapshot failed in us-east-1: InvalidSnapshot.InUse: The snapshot snap-1 is currently in use by \
                ami-1; an AMI is made of it, and deregistering that AMI frees it";
    let refusal = Some(RefusalReason::UsedByImage);
    assert_eq!(outcome, StepOutcome { refusal, ..StepOutcome::with(OutcomeKind::Failed, said) });
    assert_eq!(calls, [LOOK, LOOK_AT_VOLUME, DELETION]);
}

#[tokio::test]
async fn a_refused_deletion_is_a_failure() {
    let (outcome, calls) = carried_out_with(&deletion(), "DeleteSnapshot", denied).await;
    assert_eq!((outcome.kind, calls.len()), (OutcomeKind::Failed, 3));
    assert!(outcome.error.unwrap().ends_with("grant ec2:DeleteSnapshot to the role that asked"));
}

/// Deletes it where that is answered like this, and then EC2 says that of it.
async fn deleted(
    answer: ReplayAnswer,
    then: impl Fn() -> Option<ReplayAnswer> + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    let answer = std::sync::Mutex::new(Some(answer));
    carried_out_where(&deletion(), move |call| match call.name.as_str() {
        "DeleteSnapshot" => answer.lock().unwrap().take(),
        "DescribeSnapshots" if answer.lock().unwrap().is_none() => then(),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_deletion_that_was_not_answered_is_done_where_it_is_gone() {
    for answer in [ReplayAnswer::Raw(500, IN_TROUBLE.into()), throttled(), gone("InvalidSnapshot.NotFound")] {
        let (outcome, calls) = deleted(answer, || Some(gone("InvalidSnapshot.NotFound"))).await;
        assert_eq!((outcome, &calls[..]), (done(), &[LOOK, LOOK_AT_VOLUME, DELETION, LOOK].map(str::to_owned)[..]));
    }
    let (outcome, calls) = deleted(gone("InvalidSnapshot.NotFound"), || None).await;
    assert_eq!((outcome, calls.len()), (StepOutcome::from_kind(OutcomeKind::AlreadyGone), 4), "EC2 finds it again");
    for still in [None, Some(page_of("snapshotSet", &[], None)), Some(denied())] {
        let still = std::sync::Mutex::new(still);
        let in_trouble = ReplayAnswer::Raw(500, IN_TROUBLE.into());
        let (outcome, calls) = deleted(in_trouble, move || still.lock().unwrap().take()).await;
        assert_eq!((outcome.kind, calls.len()), (OutcomeKind::Failed, 4));
        assert!(outcome.error.unwrap().starts_with("ec2:DeleteSnapshot failed in us-east-1: InternalError"));
    }
}

#[tokio::test]
async fn a_snapshot_that_goes_before_its_date_is_written_is_gone() {
    let (outcome, calls) = carried_out_with(&date(), "CreateTags", || gone("InvalidSnapshot.NotFound")).await;
    assert_eq!((outcome, calls.len()), (StepOutcome::from_kind(OutcomeKind::AlreadyGone), 3));
}

#[tokio::test]
async fn observing_looks_and_writes_nothing() {
    for step in [deletion(), date()] {
        let step = Step { mode: Mode::Observe, ..step };
        let (outcome, calls) = carried_out_where(&step, |_| None).await;
        let looks = [LOOK, LOOK_AT_VOLUME].map(str::to_owned);
        assert_eq!((outcome, &calls[..]), (StepOutcome::from_kind(OutcomeKind::Observed), &looks[..]));
        let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", denied).await;
        assert_eq!((outcome.kind, &calls[..]), (OutcomeKind::Failed, &looks[..]));
        let repeated = Step { already_notified: true, ..step };
        let (outcome, calls) = carried_out_where(&repeated, |_| None).await;
        assert_eq!((outcome, calls), (StepOutcome::from_kind(OutcomeKind::Observed), Vec::new()));
    }
}
