//! A job that is a box.

use model::instance::InstanceState;

use super::fixture::*;
use crate::boxes::{
    BoxAllowance, BoxFacts, BoxHolder, BoxInUse, BoxLimits, BoxState, BoxTerms, ExtendRequest, MountedHome,
};
use crate::*;

/// A job as a box that is to end seven hours after noon, an hour before its machine.
pub(super) fn of(mut job: Job) -> Job {
    let terms = BoxTerms {
        public_key: "ssh-ed25519 AAAA".to_owned(),
        home_gib: 200,
        idle_seconds: HOUR,
        until: noon_plus(7 * HOUR),
        remove: None,
    };
    job.gpu_box = Some(BoxState::new(&terms, noon_plus(0)));
    job.terms.gpu_box = Some(terms);
    job.terms.checkpoint = None;
    job
}

const HELD: Option<BoxFacts> = Some(BoxFacts::Held { home: None, wait: None });

fn up() -> JobInput {
    let mut given = running();
    given.job = of(given.job);
    given.facts.gpu_box = HELD;
    given.facts.heartbeat = Some(Some(given.now));
    given
}

/// So many seconds after noon.
fn at(mut given: JobInput, seconds: i64) -> JobInput {
    given.now = noon_plus(seconds);
    given
}

fn decide(given: &JobInput) -> (Job, Vec<Effect>) {
    next(&given.job, &given.facts, given.now)
}

fn ended(job: &Job) -> (JobResult, &str) {
    let Phase::Ended(end) = &job.phase else { panic!("{:?}", job.phase) };
    (end.result, &end.why)
}

/// Two others of its owner are up.
pub(super) fn too_many() -> BoxFacts {
    let up = ["a", "b"].map(|name| BoxInUse { name: format!("vision/{name}"), owner: None, is_ending: false });
    let limits = BoxLimits::from_config(&model::config::Config::default(), None);
    let BoxAllowance::Refused(too_many) = limits.judge_one_more(None, &up) else { panic!("two are up") };
    BoxFacts::TooMany(too_many)
}

fn before_launch(gpu_box: Option<BoxFacts>) -> (Job, Vec<Effect>) {
    let mut given = submitted();
    given.job = of(given.job);
    given.facts.gpu_box = gpu_box;
    decide(&given)
}

#[test]
fn it_has_the_box_before_it_has_a_machine() {
    assert_eq!(before_launch(HELD).1, [Effect::Rank]);
    let (waits, effects) = before_launch(None);
    assert_eq!((waits.phase, effects.len()), (Phase::Submitted, 0), "unknown launches nothing");
    let holder = BoxHolder { job: JobId::read("vision/llama-0a0b0c0d").unwrap(), since: noon_plus(0) };
    let (refused, _) = before_launch(Some(BoxFacts::HeldBy(holder)));
    let (result, why) = ended(&refused);
    assert!(result == JobResult::Failed && why.contains("already up since 2026-09-01T12:00:00Z"), "{why}");
    let (refused, effects) = before_launch(Some(too_many()));
    let (result, why) = ended(&refused);
    assert!(
        result == JobResult::Failed && why.contains("curfew box down vision/a") && effects.len() == 1,
        "{why} {effects:?}"
    );
    let (elsewhere, _) = before_launch(Some(BoxFacts::Elsewhere("eu-west-1".into())));
    assert!(ended(&elsewhere).1.contains("eu-west-1"));
}

#[test]
fn money_is_reserved_until_its_own_end() {
    let mut given = reserving();
    given.job = of(given.job);
    given.job.phase = Phase::Submitted;
    (given.job.reserved, given.facts.gpu_box) = (None, HELD);
    given.facts.answer = Some(EffectResult::Ranked(Ok(ranking(noon_plus(0)))));
    let (_, effects) = decide(&at(given, 0));
    // Seven hours and five minutes of four dollars, the dearest that it can run on.
    let usd = model::money::Amount::from_usd_micros(28_333_334);
    assert!(matches!(effects[..], [Effect::Reserve { usd: found, .. }] if found == usd), "{effects:?}");
}

#[test]
fn silence_ends_no_box() {
    let mut given = at(up(), 2 * HOUR);
    given.facts.heartbeat = Some(Some(noon_plus(HOUR)));
    let (silent, effects) = decide(&given);
    // A heartbeat that is not believed counts as none.
    let unread = JobFacts { heartbeat: Some(None), ..given.facts.clone() };
    assert!(matches!(next(&silent, &unread, given.now).0.phase, Phase::Running(_)));
    assert!(matches!(silent.phase, Phase::Running(_)) && effects.is_empty(), "{effects:?}");
    let said = silent.notification().unwrap();
    assert_eq!(said.fingerprint, "silent 1");
    let text = said.notification.text.to_string();
    assert!(text.contains("no heartbeat since 2026-09-01T13:00:00Z") && text.contains("ends at"), "{text}");
}

#[test]
fn no_word_of_its_machine_ends_it_while_that_runs() {
    let mut given = up();
    given.facts.exit = running().exit(Some(ExitReason::Succeeded)).facts.exit;
    assert!(matches!(decide(&given).0.phase, Phase::Running(_)));
    given.facts.machine = MachineSight::Seen { state: InstanceState::ShuttingDown, reason: None };
    assert_eq!(ended(&decide(&given).0).0, JobResult::Succeeded);
}

#[test]
fn it_is_ended_from_outside_after_its_end() {
    let (near, _) = decide(&at(up(), 7 * HOUR - 600));
    assert!(near.notification().unwrap().fingerprint.starts_with("ends "));
    let (still, _) = decide(&at(up(), 7 * HOUR + 299));
    assert!(matches!(still.phase, Phase::Running(_)), "its agent has five minutes");
    let (over, effects) = decide(&at(up(), 7 * HOUR + 300));
    assert_eq!(ended(&over).0, JobResult::Expired);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Terminate(_))), "{effects:?}");
}

fn extended(until: i64) -> JobInput {
    let mut given = up();
    let request = ExtendRequest { at: given.now, until: noon_plus(until), by: None };
    given.facts.extend = Some(Some(request));
    given
}

#[test]
fn extending_reserves_first() {
    let mut given = extended(7 * HOUR + 1_800);
    let (asked, effects) = decide(&given);
    assert!(matches!(effects[..], [Effect::Reserve { .. }]), "{effects:?}");
    assert_eq!(asked.gpu_box.as_ref().unwrap().soft_end, noon_plus(7 * HOUR), "not before it is granted");
    given.job = asked;
    given.facts.answer = Some(EffectResult::Reserved(ReserveResult::Granted));
    let (granted, effects) = decide(&given);
    assert_eq!(granted.gpu_box.as_ref().unwrap().soft_end, noon_plus(7 * HOUR + 1_800));
    assert_eq!(effects, [Effect::Settle(vec!["i-1".into()])]);
    let near = at(given.clone(), 7 * HOUR - 60);
    assert!(!decide(&near).0.gpu_box.unwrap().end_is_near, "its end moved");
    given.facts.answer = Some(EffectResult::Reserved(ReserveResult::Refused("spent".to_owned())));
    let (refused, _) = decide(&given);
    let gpu_box = refused.gpu_box.as_ref().unwrap();
    assert_eq!(
        (gpu_box.soft_end, gpu_box.extended.as_ref().unwrap().refused.as_deref()),
        (noon_plus(7 * HOUR), Some("spent"))
    );
    assert_eq!(refused.reserved.map(|one| one.usd), given.job.reserved.map(|one| one.usd), "what it had, it keeps");
    let told = refused.notification().unwrap();
    assert!(told.fingerprint.ends_with(" refused 2026-09-01T13:00:00Z"), "{}", told.fingerprint);
    assert!(told.notification.text.contains("the request to keep it longer is refused: spent; "), "{told:?}");
    let mut again = given.clone();
    (again.job, again.facts.answer) = (refused, None);
    assert_eq!(decide(&again).1, [], "it is answered");
}

#[test]
fn a_link_keeps_what_ends_soon_and_can_be_kept() {
    let link = |given: &JobInput, may_act| {
        decide(given).0.notification_in(may_act).unwrap().notification.facts.ending_box.map(|ending| ending.ends_at)
    };
    let soon = |end: i64, now: i64| {
        let mut given = at(up(), now);
        given.job.gpu_box.as_mut().unwrap().soft_end = noon_plus(end);
        given
    };
    let near = soon(4 * HOUR, 4 * HOUR - 600);
    assert_eq!(link(&near, true), Some(noon_plus(4 * HOUR)));
    assert_eq!(link(&near, false), None, "Curfew only observes");
    assert_eq!(link(&soon(4 * HOUR, 4 * HOUR - 601), true), None, "its end is not near");
    assert_eq!(link(&soon(6 * HOUR, 6 * HOUR - 60), true), None, "its machine ends in less than three hours");
}

#[test]
fn the_word_of_its_machine_about_a_sync_is_bounded() {
    let check = |said: i64, expect: Option<i64>| {
        let mut given = up();
        given.facts.box_synced_at = Some(noon_plus(said));
        assert_eq!(decide(&given).0.gpu_box.unwrap().synced_at, expect.map(noon_plus), "{said}");
    };
    check(HOUR - 5, Some(HOUR - 5));
    check(HOUR + 30, Some(HOUR));
    check(HOUR + 61, None);
    check(-1, None);
    let mut given = at(up(), 7 * HOUR + 300);
    let told = |given: &JobInput| decide(given).0.notification().unwrap().notification.text.to_string();
    assert!(told(&given).contains("No sync of its home was known by then"));
    given.facts.box_synced_at = Some(noon_plus(7 * HOUR));
    assert!(told(&given).contains("its home was last synced at 2026-09-01T19:00:00Z"));
}

#[test]
fn extending_never_passes_the_end_of_the_machine() {
    let (refused, effects) = decide(&extended(9 * HOUR));
    let gpu_box = refused.gpu_box.unwrap();
    let why = gpu_box.extended.unwrap().refused.unwrap();
    assert!(why.contains("2026-09-01T19:55:00Z") && effects.is_empty(), "{why}");
    let (kept, effects) = decide(&extended(3 * HOUR));
    let gpu_box = kept.gpu_box.unwrap();
    assert_eq!((gpu_box.soft_end, gpu_box.kept_until), (noon_plus(7 * HOUR), noon_plus(3 * HOUR)));
    assert!(effects.is_empty());
}

#[test]
fn a_machine_that_aws_takes_back_is_replaced_for_people() {
    let mut given = up();
    given.facts.warned = Some("i-1".into());
    given.facts.box_in_use_at = Some(given.now);
    let (again, _) = decide(&given);
    assert!(!matches!(again.phase, Phase::Ended(_)), "{:?}", again.phase);
    given.facts.box_in_use_at = None;
    assert!(!matches!(decide(&given).0.phase, Phase::Ended(_)), "somebody waits for it");
    given.facts.box_in_use_at = Some(noon_plus(HOUR - 901));
    let (down, _) = decide(&given);
    assert!(ended(&down).1.contains("nobody had used it"));
    let said = down.notification().unwrap().notification.text.to_string();
    assert!(said.contains("it went down at"), "{said}");
}

#[test]
fn its_next_machine_says_what_the_loss_took() {
    let mut job = up().job;
    (job.machines, job.lost) = (2, Some(LossReason::Reclaimed));
    let said = job.notification().unwrap().notification.text.to_string();
    assert!(
        said.contains("was taken back by AWS: what ran there, and what was outside of the home, is lost, and no sync of its home is known"),
        "{said}"
    );
}

#[test]
fn it_is_not_over_before_its_box_is_given_back() {
    let mut given = up();
    given.facts.cancel = Some(Some(CancelRequest { at: given.now, by: None }));
    given.facts.machine = MachineSight::Seen { state: InstanceState::Terminated, reason: None };
    (given.job, _) = decide(&given);
    (given.facts.cancel, given.facts.answer) = (None, Some(EffectResult::Released(true)));
    given.job = decide(&given).0;
    assert!(!given.job.is_closed());
    given.facts.gpu_box = Some(BoxFacts::Free);
    assert!(decide(&given).0.is_closed());
}

#[test]
fn its_machine_learns_of_the_home() {
    let home = MountedHome { volume: "vol-1".into(), machine: "i-1".into(), is_empty: true };
    let mut given = up();
    given.facts.gpu_box = Some(BoxFacts::Held { home: Some(home.clone()), wait: None });
    assert_eq!(decide(&given).0.gpu_box.unwrap().home, Some(home.clone()));
    let other = MountedHome { machine: "i-9".into(), ..home };
    given.facts.gpu_box = Some(BoxFacts::Held { home: Some(other), wait: None });
    assert_eq!(decide(&given).0.gpu_box.unwrap().home, None, "it is another machine's");
}

#[test]
fn a_removal_launches_nothing() {
    let mut given = submitted();
    given.job = of(given.job);
    given.job.terms.gpu_box.as_mut().unwrap().remove = Some(crate::boxes::BoxRemoval::Volume);
    for waits in [None, HELD] {
        given.facts.gpu_box = waits;
        let (job, effects) = decide(&given);
        assert_eq!((job.phase, effects.len()), (Phase::Submitted, 0));
    }
    given.facts.gpu_box = Some(BoxFacts::Free);
    assert_eq!(ended(&decide(&given).0), (JobResult::Succeeded, "the box is removed"));
}
