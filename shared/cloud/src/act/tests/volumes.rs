//! Volumes: what is written on them, and what a step makes of the volume as it is by then.

use model::curfew_tags::{KEEP_UNTIL, PROTECTED, SNAPSHOT_OF, UNATTACHED_SINCE};
use model::mark::{AnnouncedAction, Mark};
use model::rule::{ResourceAction, Rule};
use model::volume::{Volume, VolumeState};
use plan::{AnnouncedActions, Evidence, Facts, OrphanedEvidence, VolumeAction};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, attached_xml, aws, page_of, snapshot_xml, volume_xml};

mod deletion;
mod snapshot;

/// Tags as they are on a volume, or a snapshot.
type Written = &'static [(&'static str, &'static str)];

const MARK: &str = "orphaned=snapshot-and-delete@2026-09-01T12:00:00Z";
const SINCE: &str = "2026-08-10T12:00:00Z";
const BOTH: Written = &[("Team", "vision"), (MARKED, MARK), (UNATTACHED_SINCE, SINCE)];
const OF_IT: Written = &[(SNAPSHOT_OF, "vol-0abc")];

const LOOK: &str = "DescribeVolumes VolumeId.1=vol-0abc";
const LOOK_AT_SNAPSHOT: &str = "DescribeSnapshots SnapshotId.1=snap-1";
const DELETION: &str = "DeleteVolume VolumeId=vol-0abc";
const DATED: &str = "CreateTags ResourceId.1=snap-1 ResourceId.2=snap-2 Tag.1.Key=curfew:deleted-at \
                     Tag.1.Value=2026-09-01T13:00:00Z";

fn mark() -> Mark {
    Mark::earliest(announced()).unwrap()
}

fn announced() -> AnnouncedActions {
    let deadline = "2026-09-01T12:00:00Z".parse().unwrap();
    let ending = ResourceAction::SnapshotAndDelete;
    AnnouncedActions::from([(Rule::Orphaned, AnnouncedAction { ending, mode: Mode::Enforce, at: deadline, deadline })])
}

/// A step to enforce on vol-0abc, which is attached to nothing.
fn step(action: VolumeAction, tags: &[(&str, &str)]) -> Step {
    step_on(volume(tags), action)
}

fn volume(tags: &[(&str, &str)]) -> Volume {
    Volume {
        id: "vol-0abc".into(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        volume_type: "gp3".to_owned(),
        size_gib: 100,
        iops: None,
        throughput_mibps: None,
        state: VolumeState::Available,
        attached_to: Vec::new(),
        multi_attach: false,
        created_at: "2026-08-01T12:00:00Z".parse().unwrap(),
        tags: tags_of(tags),
        from_snapshot: None,
        operator: None,
    }
}

fn step_on(seen: Volume, action: VolumeAction) -> Step {
    let facts = OrphanedEvidence {
        unattached_since: SINCE.parse().unwrap(),
        size_gib: 100,
        volume_type: "gp3".to_owned(),
        usd_per_month: None,
        last_attached_to: None,
    };
    let evidence = Evidence::new(Rule::Orphaned, Facts::Orphaned(facts), "unattached and unused");
    Step::bare(target("vol-0abc"), Action::Volume(seen, action), evidence, Mode::Enforce)
}

/// The same on i-1 by then.
fn step_on_attached(action: VolumeAction, tags: &[(&str, &str)]) -> Step {
    step_on(Volume { state: VolumeState::InUse, attached_to: vec!["i-1".into()], ..volume(tags) }, action)
}

fn snapshot() -> VolumeAction {
    VolumeAction::Snapshot {
        tags: tags_of(&[("Team", "vision"), (SNAPSHOT_OF, "vol-0abc"), ("curfew:restore", "a,gp3,100,,")]),
    }
}

fn delete(safety: Option<&str>, expiring: &[&str]) -> VolumeAction {
    VolumeAction::Delete {
        safety: safety.map(Into::into),
        expiring: expiring.iter().map(|id| (*id).into()).collect(),
        at: "2026-09-01T13:00:00Z".parse().unwrap(),
        kept_until: "2026-10-01T13:00:00Z".parse().unwrap(),
    }
}

fn volumes(item: String) -> ReplayAnswer {
    page_of("volumeSet", &[item], None)
}

/// EC2 sees the volume as the step does, has a snapshot from which it can be restored, and takes every write.
fn as_seen(step: &Step) -> impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static {
    let Action::Volume(seen, _) = &step.action else { panic!("a volume") };
    let tags: Vec<(String, String)> = seen.tags.clone().into_iter().collect();
    let on = seen.attached_to.first().map(ToString::to_string);
    move |call| {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        match (call.name.as_str(), &on) {
            ("DescribeVolumes", None) => volumes(volume_xml("vol-0abc", "available", &tags, "")),
            ("DescribeVolumes", Some(on)) => volumes(volume_xml("vol-0abc", "in-use", &tags, &attached_xml(on))),
            ("DescribeSnapshots", _) => {
                page_of("snapshotSet", &[snapshot_xml("snap-1", "vol-0abc", "completed", OF_IT)], None)
            }
            ("CreateSnapshot", _) => ReplayAnswer::ok("<snapshotId>snap-3</snapshotId><status>pending</status>"),
            _ => ReplayAnswer::ok("<return>true</return>"),
        }
    }
}

/// Carries the step out where EC2 answers as seen, unless `answer` overrides it; it gets the number of the call, from 0 on.
async fn carried_out_where(
    step: &Step,
    answer: impl Fn(usize, &ReplayedCall) -> Option<ReplayAnswer> + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    let (as_seen, count) = (as_seen(step), std::sync::atomic::AtomicUsize::new(0));
    let (aws, calls) = aws(move |call| {
        let nth = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        answer(nth, call).unwrap_or_else(|| as_seen(call))
    });
    let outcome = carry_out(&aws, step, &run()).await;
    (outcome, calls.said())
}

async fn carried_out(step: &Step) -> (StepOutcome, Vec<String>) {
    carried_out_where(step, |_, _| None).await
}

/// The same where calls of that name are answered like that.
async fn carried_out_with(
    step: &Step,
    name: &'static str,
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (StepOutcome, Vec<String>) {
    carried_out_where(step, move |_, call| (call.name == name).then(&answer)).await
}

fn called(calls: &[String], expected: &[&str]) {
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn a_mark_says_since_when_in_the_same_call() {
    let marked = format!("CreateTags ResourceId.1=vol-0abc Tag.1.Key=curfew:marked Tag.1.Value={MARK}");
    let both = format!("{marked} Tag.2.Key=curfew:unattached-since Tag.2.Value={SINCE}");
    let table: [(Written, &str); 4] = [
        (&[("Team", "vision")], &both),
        (&[(UNATTACHED_SINCE, SINCE)], &marked),
        (&[(UNATTACHED_SINCE, SINCE), (MARKED, "orphaned=delete@2026-09-01T12:00:00Z")], &marked),
        (&[(UNATTACHED_SINCE, "2026-08-09T12:00:00Z")], &both),
    ];
    for (tags, expected) in table {
        let (outcome, calls) = carried_out(&step(Announcement::Mark(announced()).into(), tags)).await;
        assert_eq!(outcome, done());
        called(&calls, &[LOOK, expected]);
    }
}

#[tokio::test]
async fn the_first_sight_is_one_tag() {
    let date = VolumeAction::TagUnattachedSince(SINCE.parse().unwrap());
    let (outcome, calls) = carried_out(&step(date, &[("Team", "vision")])).await;
    assert_eq!(outcome, done());
    let written = format!("CreateTags ResourceId.1=vol-0abc Tag.1.Key=curfew:unattached-since Tag.1.Value={SINCE}");
    called(&calls, &[LOOK, &written]);
}

#[tokio::test]
async fn unmarking_removes_exactly_what_is_there_of_curfews_keys() {
    let unmark = |remaining, also: bool| {
        VolumeAction::from(Announcement::Unmark { remaining, also: also.then_some(UNATTACHED_SINCE) })
    };
    let kept = format!("CreateTags ResourceId.1=vol-0abc Tag.1.Key=curfew:marked Tag.1.Value={MARK}");
    let marked = "DeleteTags ResourceId.1=vol-0abc Tag.1.Key=curfew:marked";
    let since = "DeleteTags ResourceId.1=vol-0abc Tag.1.Key=curfew:unattached-since";
    let both = "DeleteTags ResourceId.1=vol-0abc Tag.1.Key=curfew:marked Tag.2.Key=curfew:unattached-since";
    let table: [(VolumeAction, Written, &[&str]); 8] = [
        (unmark(None, false), BOTH, &[LOOK, marked]),
        (unmark(None, true), BOTH, &[LOOK, both]),
        (unmark(None, true), &BOTH[..2], &[LOOK, marked]),
        (unmark(None, true), &BOTH[2..], &[LOOK, since]),
        (unmark(Some(mark()), true), BOTH, &[LOOK, &kept, since]),
        (unmark(Some(mark()), false), BOTH, &[LOOK, &kept]),
        // DeleteTags without tags would remove all: there is no call.
        (unmark(None, true), &BOTH[..1], &[LOOK]),
        (unmark(None, true), &[], &[LOOK]),
    ];
    for (action, tags, expected) in table {
        let (outcome, calls) = carried_out(&step_on_attached(action, tags)).await;
        assert_eq!(outcome, done());
        called(&calls, expected);
    }
}

#[tokio::test]
async fn an_unmarking_that_was_not_answered_is_done_where_the_tags_are_gone() {
    let unmark = step(Announcement::Unmark { remaining: None, also: Some(UNATTACHED_SINCE) }.into(), BOTH);
    let left: [(Written, OutcomeKind); 3] =
        [(&BOTH[..1], OutcomeKind::Done), (&BOTH[..2], OutcomeKind::Failed), (BOTH, OutcomeKind::Failed)];
    for (left, expected) in left {
        let (outcome, calls) = carried_out_where(&unmark, move |nth, _| match nth {
            1 => Some(ReplayAnswer::Raw(500, IN_TROUBLE.into())),
            2 => Some(volumes(volume_xml("vol-0abc", "available", left, ""))),
            _ => None,
        })
        .await;
        assert_eq!((outcome.kind, calls.len()), (expected, 3), "{left:?}");
    }
}

/// Every action, and what it is done to.
fn all_steps() -> Vec<Step> {
    vec![
        step(Announcement::Mark(announced()).into(), BOTH),
        step(VolumeAction::TagUnattachedSince(SINCE.parse().unwrap()), BOTH),
        step(Announcement::Unmark { remaining: None, also: Some(UNATTACHED_SINCE) }.into(), BOTH),
        step(snapshot(), BOTH),
        step(delete(Some("snap-1"), &["snap-1"]), BOTH),
        step(delete(None, &["snap-1"]), BOTH),
    ]
}

#[tokio::test]
async fn a_volume_that_changed_since_the_look_is_left_alone() {
    let with = |more: &[(&str, &str)]| volume_xml("vol-0abc", "available", &[BOTH, more].concat(), "");
    let seen = with(&[]);
    let table = [
        volume_xml("vol-0abc", "in-use", BOTH, &attached_xml("i-1")),
        volume_xml("vol-0abc", "in-use", BOTH, ""),
        volume_xml("vol-0abc", "available", BOTH, &attached_xml("i-1")),
        volume_xml("vol-0abc", "error", BOTH, ""),
        volume_xml("vol-0abc", "hovering", BOTH, ""),
        volume_xml("vol-0abc", "available", &BOTH[..2], ""),
        volume_xml("vol-0abc", "available", &BOTH[1..], ""),
        volume_xml("vol-0abc", "available", BOTH, "<iops>4000</iops>"),
        volume_xml("vol-0abc", "available", BOTH, "<multiAttachEnabled>true</multiAttachEnabled>"),
        volume_xml("vol-0abc", "available", BOTH, "<operator><managed>true</managed></operator>"),
        with(&[(PROTECTED, "")]),
        with(&[(KEEP_UNTIL, "2030-01-01")]),
        with(&[("kubernetes.io/created-for/pvc/name", "data")]),
        seen.replace("<size>100", "<size>200"),
        seen.replace("gp3", "gp2"),
        seen.replace("2026-08-01T", "2026-08-02T"),
    ];
    for now in table {
        assert_ne!(now, seen);
        for step in all_steps() {
            let answer = now.clone();
            let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", move || volumes(answer.clone())).await;
            assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::Changed), "{:?}: {now}", step.action);
            called(&calls, &[LOOK]);
        }
    }
}

#[tokio::test]
async fn a_volume_that_is_gone_is_gone() {
    for step in all_steps() {
        for state in ["deleting", "deleted"] {
            let going = move || volumes(volume_xml("vol-0abc", state, BOTH, ""));
            let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", going).await;
            assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::AlreadyGone), "{state}");
            called(&calls, &[LOOK]);
        }
        let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", || gone("InvalidVolume.NotFound")).await;
        assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::AlreadyGone));
        called(&calls, &[LOOK]);
    }
}

#[tokio::test]
async fn a_volume_that_cannot_be_read_again_is_left_alone() {
    let unsure: [fn() -> ReplayAnswer; 6] = [
        denied,
        throttled,
        || cut_off("DescribeVolumes", "volumeSet"),
        || page_of("volumeSet", &[], None),
        || volumes(volume_xml("vol-0abc", "available", BOTH, "").replace("<size>100</size>", "")),
        || ReplayAnswer::Raw(500, IN_TROUBLE.into()),
    ];
    for answer in unsure {
        for step in all_steps() {
            let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", answer).await;
            assert_eq!(outcome.kind, OutcomeKind::Failed);
            assert!(outcome.error.unwrap().starts_with("ec2:DescribeVolumes failed"));
            called(&calls, &[LOOK]);
        }
    }
}

#[tokio::test]
async fn a_volume_that_goes_before_the_write_is_gone() {
    for (step, name) in all_steps().into_iter().zip(["CreateTags", "CreateTags", "DeleteTags", "CreateSnapshot"]) {
        let (outcome, calls) = carried_out_with(&step, name, || gone("InvalidVolume.NotFound")).await;
        assert_eq!((outcome, calls.len()), (StepOutcome::from_kind(OutcomeKind::AlreadyGone), 2), "{name}");
    }
}

#[tokio::test]
async fn a_refused_write_is_a_failure() {
    for (step, name) in all_steps().into_iter().zip(["CreateTags", "CreateTags", "DeleteTags", "CreateSnapshot"]) {
        let (outcome, calls) = carried_out_with(&step, name, denied).await;
        assert_eq!((outcome.kind, calls.len()), (OutcomeKind::Failed, 2), "{name}");
        let error = outcome.error.unwrap();
        assert!(error.ends_with(&format!("grant ec2:{name} to the role that asked")), "{error}");
    }
}

#[tokio::test]
async fn observing_looks_and_writes_nothing() {
    for step in all_steps() {
        let with_safety = matches!(step.action, Action::Volume(_, VolumeAction::Delete { safety: Some(_), .. }));
        let looks: &[&str] = if with_safety { &[LOOK, LOOK_AT_SNAPSHOT] } else { &[LOOK] };
        let step = Step { mode: Mode::Observe, ..step };
        let (outcome, calls) = carried_out(&step).await;
        assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::Observed));
        called(&calls, looks);
        let protected = || volumes(volume_xml("vol-0abc", "available", &[(PROTECTED, "")], ""));
        let (outcome, calls) = carried_out_with(&step, "DescribeVolumes", protected).await;
        assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::Changed));
        called(&calls, &[LOOK]);
        let (outcome, calls) = carried_out(&Step { already_notified: true, ..step }).await;
        assert_eq!(outcome, StepOutcome::from_kind(OutcomeKind::Observed));
        called(&calls, &[]);
    }
}

#[tokio::test]
async fn what_is_only_told_calls_nothing() {
    for (mode, expected) in [(Mode::Enforce, OutcomeKind::Done), (Mode::Observe, OutcomeKind::Observed)] {
        let (outcome, calls) = carried_out(&Step { mode, ..step(Announcement::Notify.into(), BOTH) }).await;
        assert_eq!(outcome, StepOutcome::from_kind(expected));
        called(&calls, &[]);
    }
}
