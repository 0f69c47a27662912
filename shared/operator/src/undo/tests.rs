use billing::price::PriceBook;
use model::curfew_tags::{RESTORE, SNAPSHOT_OF, STOPPED};
use model::instance::Tags;
use model::rule::ResourceAction;
use model::volume::own_tags;
use reaping::fixture::{InstanceBuilder, NOW, instance, time, volume};

use super::*;

fn stopped() -> InstanceBuilder {
    instance().state(InstanceState::Stopped)
}

fn by_curfew(rule: Rule) -> CarriedOut {
    CarriedOut { rule, action: ResourceAction::Stop, at: time("2026-09-01T11:00:00Z") }
}

/// The rule by which it was stopped, or words of why it is not started.
fn check(given: InstanceBuilder, expect: Result<&str, &str>) {
    check_recorded(given, Some(by_curfew(Rule::Idle)), expect);
}

fn check_recorded(given: InstanceBuilder, recorded: Option<CarriedOut>, expect: Result<&str, &str>) {
    match (stop_to_undo(&given.build(), recorded), expect) {
        (Ok(stopped), Ok(rule)) => assert_eq!(stopped.rule.as_str(), rule),
        (
            Err(NothingToUndo::NeverChanged(why) | NothingToUndo::Gone(why) | NothingToUndo::NotByCurfew(why)),
            Err(words),
        ) => {
            assert!(why.contains(words), "{why}");
        }
        (found, _) => panic!("{found:?}, and not {expect:?}"),
    }
}

#[test]
fn what_curfew_stopped_is_started() {
    check(stopped(), Ok("idle"));
    check(stopped().tag(PROTECTED, ""), Ok("idle"));
}

#[test]
fn what_somebody_else_stopped_is_not() {
    let by_hand = "aws ec2 start-instances --region us-east-1 --instance-ids i-0abc";
    check_recorded(stopped(), None, Err(by_hand));
    check_recorded(stopped().tag(STOPPED, "idle 2026-09-01T11:00:00Z"), None, Err(by_hand));
    check(stopped().launched("2026-09-01T11:30:00Z"), Err(by_hand));
}

#[test]
fn what_is_not_stopped_has_nothing_to_undo() {
    check(stopped().state(InstanceState::Running), Err("it is not stopped"));
    check(stopped().state(InstanceState::Stopping), Err("in a minute"));
    check(stopped().state(InstanceState::Terminated), Err("which cannot be undone"));
    let marked = instance().tag(MARKED, "idle=stop@2026-09-01T13:00:00Z");
    check(marked, Err("an action may be announced: curfew explain i-0abc"));
}

fn check_next(given: InstanceBuilder, expect: &str) {
    check_next_after(Rule::Idle, given, expect);
}

fn check_next_after(rule: Rule, given: InstanceBuilder, expect: &str) {
    let next = describe_next_action(&given.build(), by_curfew(rule), time(NOW));
    assert!(next.contains(expect), "{next}");
}

#[test]
fn what_follows_a_start_is_said() {
    check_next(stopped(), "announces the stop again if it stays idle. Keep it: curfew keep i-0abc 1d");
    check_next_after(Rule::Untagged, stopped(), "a required tag is missing");
    check_next_after(Rule::Lifetime, stopped(), "judges it again");
    check_next(stopped().tag("curfew:keep-until", "2026-09-30"), "kept until 2026-10-01T00:00:00Z");
    check_next(stopped().tag(PROTECTED, ""), "skips it");
    check_next(stopped().tag("curfew:mode", "?"), "until that is corrected");
    check_next(stopped().tag(EXPIRES_AT, "2026-09-01T10:00:00Z"), "(2026-09-01T10:00:00Z) has passed");
    check_next(stopped().tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC"), "its hours end at 2026-09-01T20:00:00Z");
    check_next(stopped().tag("curfew:hours", "Mon-Fri 08:00-11:00 UTC"), "which begin at 2026-09-02T08:00:00Z");
}

const ORIGIN: &str = "us-east-1a,gp3,500,6000,250";

fn snapshot(id: &str, started_at: &str, state: SnapshotState, tags: &[(&str, &str)]) -> Snapshot {
    let own = [(SNAPSHOT_OF, "vol-0abc"), (RESTORE, ORIGIN), (DELETED_AT, "2026-08-31T12:00:00Z"), ("Team", "vision")];
    let tags: Tags = own.iter().chain(tags).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Snapshot {
        id: id.into(),
        region: "us-east-1".into(),
        of_volume: "vol-0abc".into(),
        state,
        started_at: time(started_at),
        size_gib: 500,
        tags,
        description: "Curfew: vol-0abc before its deletion, by run-1".to_owned(),
    }
}

fn whole(id: &str, started_at: &str) -> Snapshot {
    snapshot(id, started_at, SnapshotState::Completed, &[])
}

/// The snapshot from which it is made again, or words of why it is not; none where there is no snapshot.
fn check_deleted(snapshots: &[Snapshot], expect: Result<&str, &str>) {
    match (restoration_of_deleted(&"vol-0abc".into(), snapshots), expect) {
        (Ok((restoration, _)), Ok(snapshot)) => assert_eq!(restoration.snapshot.as_str(), snapshot),
        (Err(NothingToUndo::NoSnapshot), Err("")) => {}
        (
            Err(NothingToUndo::NeverChanged(why) | NothingToUndo::Gone(why) | NothingToUndo::NotByCurfew(why)),
            Err(words),
        ) => {
            assert!(why.contains(words), "{why}");
        }
        (found, _) => panic!("{found:?}, and not {expect:?}"),
    }
}

#[test]
fn a_volume_is_made_again_from_the_newest_whole_snapshot_of_curfews() {
    let (old, new) = (whole("snap-1", "2026-08-20T12:00:00Z"), whole("snap-2", "2026-08-30T12:00:00Z"));
    let pending = snapshot("snap-3", "2026-08-31T12:00:00Z", SnapshotState::Pending, &[]);
    let other_volume = Snapshot { of_volume: "vol-0def".into(), ..whole("snap-4", "2026-08-31T12:00:00Z") };
    let failed = snapshot("snap-5", "2026-08-31T12:00:00Z", SnapshotState::Error, &[]);
    check_deleted(&[old.clone(), new, pending.clone(), other_volume.clone()], Ok("snap-2"));
    check_deleted(&[pending, failed.clone()], Err("its snapshot snap-3 is not complete yet"));
    check_deleted(&[failed, other_volume], Err(""));
    check_deleted(&[], Err(""));
    for restore in ["large", "us-east-1a,gp3,16000,6000,250", "us-east-1a,gp3,0,,"] {
        let meddled = snapshot("snap-6", "2026-08-31T12:00:00Z", SnapshotState::Completed, &[(RESTORE, restore)]);
        check_deleted(&[old.clone(), meddled], Err("--snapshot-id snap-6"));
    }
}

#[test]
fn it_is_made_as_it_was_with_its_owners_tags_alone() {
    let (restoration, deleted_at) = restoration_of_deleted(&"vol-0abc".into(), &[whole("snap-1", NOW)]).unwrap();
    assert_eq!(restoration.origin.to_string(), ORIGIN);
    assert_eq!(restoration.tags, Tags::from([("Team".to_owned(), "vision".to_owned())]));
    assert_eq!(deleted_at, Some(time("2026-08-31T12:00:00Z")));
    let same = volume().with(|volume| (volume.iops, volume.throughput_mibps) = (Some(6000), Some(250))).build();
    let prices = PriceBook::dated();
    assert_eq!(restoration.costs(&prices), prices.volume_cost(&same));
    assert!(own_tags(&same.tags).eq(Restoration::of_volume(&same, &"snap-1".into()).tags.iter()));
}

#[test]
fn a_volume_that_was_made_again_is_known() {
    let (restoration, _) = restoration_of_deleted(&"vol-0abc".into(), &[whole("snap-1", NOW)]).unwrap();
    let made = |id: &str, from: &str, state| {
        volume().id(id).with(|volume| (volume.from_snapshot, volume.state) = (Some(from.into()), state)).build()
    };
    let others = [made("vol-1", "snap-2", VolumeState::Available), made("vol-2", "snap-1", VolumeState::Deleting)];
    assert_eq!(restored_already(&restoration, &others), None);
    let restored = made("vol-3", "snap-1", VolumeState::InUse);
    assert_eq!(restored_already(&restoration, std::slice::from_ref(&restored)), Some(&restored));
}

#[test]
fn a_volume_that_exists_has_nothing_to_undo() {
    let why = |volume| match volume_without_undo(&volume) {
        Some(NothingToUndo::NeverChanged(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(volume().build()), "it was not deleted, so there is nothing to undo");
    let marked = volume().tag(MARKED, "orphaned=snapshot-and-delete@2026-09-03T12:00:00Z");
    assert!(why(marked.build()).contains("curfew explain vol-0abc"));
    assert_eq!(volume_without_undo(&volume().with(|volume| volume.state = VolumeState::Deleting).build()), None);
}

#[test]
fn a_notebook_instance_that_curfew_stopped_is_started() {
    use model::fixture::{SageMakerBuilder, app, endpoint, notebook};
    let check = |given: SageMakerBuilder, recorded: Option<CarriedOut>, expect: Result<&str, &str>| match (
        notebook_stop_to_undo(&given.build(), recorded),
        expect,
    ) {
        (Ok(stopped), Ok(rule)) => assert_eq!(stopped.rule.as_str(), rule),
        (
            Err(NothingToUndo::NeverChanged(why) | NothingToUndo::Gone(why) | NothingToUndo::NotByCurfew(why)),
            Err(words),
        ) => assert!(why.contains(words), "{why}"),
        (found, _) => panic!("{found:?}, and not {expect:?}"),
    };
    let stopped = || notebook().status(SageMakerStatus::Stopped);
    let by_hand = "aws sagemaker start-notebook-instance --region us-east-1 --notebook-instance-name research";
    check(stopped(), Some(by_curfew(Rule::Idle)), Ok("idle"));
    check(stopped().tag(STOPPED, "idle 2026-09-01T11:00:00Z"), None, Err(by_hand));
    // Somebody has started and stopped it since; or it is another one with its name.
    check(stopped().modified("2026-09-02T12:00:00Z"), Some(by_curfew(Rule::Idle)), Err(by_hand));
    check(stopped().created("2026-09-02T12:00:00Z"), Some(by_curfew(Rule::Idle)), Err(by_hand));
    check(notebook(), None, Err("it was neither stopped nor deleted"));
    check(app().status(SageMakerStatus::Deleted), None, Err("open the app again in Studio"));
    let mark = "idle=delete@2026-09-01T13:00:00Z";
    check(endpoint().tag(MARKED, mark), None, Err("curfew explain endpoint/llm"));
}

#[test]
fn an_inference_component_gets_back_the_copies_that_curfew_took() {
    use model::fixture::{inference_component, time};
    let none = || inference_component().status(SageMakerStatus::Stopped).modified("2026-09-01T12:05:00Z").build();
    let recorded = |at: &str| Some((time(at), 2));
    assert_eq!(copies_to_restore(&none(), recorded("2026-09-01T12:00:00Z")), Ok(2));
    let refused = |given: &SageMakerResource, recorded| match copies_to_restore(given, recorded) {
        Err(NothingToUndo::NeverChanged(why) | NothingToUndo::NotByCurfew(why)) => why,
        found => panic!("{found:?}"),
    };
    // Somebody has scaled it since.
    assert!(refused(&none(), recorded("2026-09-01T11:00:00Z")).contains("no audit record"));
    assert!(refused(&none(), None).contains("--inference-component-name llama"));
    assert!(refused(&inference_component().build(), recorded("2026-09-01T12:00:00Z")).contains("it has copies"));
}
