//! Jobs after their bucket was taken over from a copy, at two o'clock: what the copy has may be older than what runs.

use model::home::{HomeRecord, StateBucket, TAKEOVER_DELAY};
use model::instance::InstanceState;

use super::fixture::*;
use crate::takeover::{FoundMachine, MACHINES_MOVE_IN, NewerMachines, Takeover};
use crate::*;

const TAKEN_OVER: i64 = 2 * HOUR;
const PROFILE: &str = "curfew-job";

fn takeover() -> Takeover {
    let bucket = |name: &str, region: &str| StateBucket { bucket: name.to_owned(), region: region.into() };
    let stack = bucket("curfew-copy", "us-west-2");
    let before = Some(bucket("curfew-state", "us-east-1"));
    Takeover::from_record(&HomeRecord { term: 2, stack, since: noon_plus(TAKEN_OVER), before }).unwrap()
}

/// Ten minutes after the delay in which a stack that takes over only observes.
fn taken(given: JobInput) -> JobInput {
    let now = noon_plus(TAKEN_OVER) + TAKEOVER_DELAY;
    JobInput { now, ..given }.facts(|facts| facts.takeover = Some(takeover()))
}

/// An instance that `run-jobs` has launched for that attempt, as EC2 shows it: in the pool of the second candidate.
pub(crate) fn found(instance: &str, attempt: u32) -> FoundMachine {
    let job = JobId::read("vision/llama-1a2b3c4d").unwrap();
    FoundMachine {
        instance: instance.into(),
        region: "us-east-1".into(),
        zone: Some("us-east-1b".to_owned()),
        instance_type: "g5.xlarge".into(),
        lifecycle: Some(Lifecycle::Spot),
        launched_at: noon_plus(TAKEN_OVER - 5 * MINUTE),
        job: job.to_string(),
        attempt: Some(attempt),
        expires_at: Some(noon_plus(8 * HOUR)),
        token: Some(launch_token(&job, attempt, 1, 7)),
        profile: Some(PROFILE.to_owned()),
    }
}

fn judge(given: &JobInput, found: &[FoundMachine]) -> NewerMachines {
    NewerMachines::judge(&given.job, &takeover(), found, &[PROFILE.to_owned()])
}

fn with_found(given: JobInput, found: &[FoundMachine]) -> JobInput {
    let newer = judge(&given, found);
    given.facts(|facts| facts.newer = newer)
}

fn with_gone_machine(given: JobInput) -> JobInput {
    given.with_machine(InstanceState::Terminated, RECLAIMED)
}

#[test]
fn a_newer_machine_is_taken_in_each_phase() {
    let phases = vec![
        submitted(),
        reserving(),
        launching(),
        waiting(),
        held(HoldReason::Budget),
        with_gone_machine(running()),
        with_gone_machine(interrupted()),
        // The state knows the machine before it, which EC2 still shows.
        running(),
    ];
    for given in phases {
        let given = taken(given).facts(|facts| facts.head = Some(None));
        let given = with_found(given.job(|job| job.ranking = Some(ranking(noon_plus(0)))), &[found("i-9", 2)]);
        let expect = "running i-9: note launched i-9, settle i-9";
        let taken = given.next();
        check(given, expect);
        let machine = taken.job.machine().unwrap();
        assert_eq!((taken.job.attempt, machine.attempt, machine.candidate, taken.job.passes), (2, 2, 1, 0));
        // Of its tag, without the margin.
        assert_eq!(machine.ends_at, noon_plus(8 * HOUR - 10 * MINUTE));
        assert!(!taken.job.is_unsettled(&takeover()));
    }
}

#[test]
fn the_machine_before_it_is_counted_and_watched() {
    let given = with_found(taken(running()), &[found("i-9", 2)]);
    let taken = given.next();
    assert_eq!(taken.job.previous_attempt.as_ref().map(|one| one.instance.as_str()), Some("i-1"));
    assert_eq!(taken.job.used.seconds, TAKEN_OVER - 5 * MINUTE);
    let later = taken.facts(|facts| {
        facts.newer = NewerMachines::None;
        facts.previous_attempt = MachineSight::Seen { state: InstanceState::Running, reason: None };
    });
    let later = JobInput { now: later.now + jiff::SignedDuration::from_mins(6), ..later }.heartbeat_at(TAKEN_OVER);
    check(later.facts(|facts| facts.head = Some(None)), "running i-9: terminate i-1");
}

#[test]
fn its_end_is_bounded_by_the_limits_of_the_job() {
    for tag in [None, Some(noon_plus(1_000 * HOUR))] {
        let machine = FoundMachine { expires_at: tag, ..found("i-9", 1) };
        let launched_at = machine.launched_at;
        let job =
            with_found(taken(submitted()), &[machine]).job(|job| job.ranking = Some(ranking(noon_plus(0)))).next();
        assert_eq!(job.job.machine().unwrap().ends_at, launched_at + jiff::SignedDuration::from_hours(8));
    }
}

#[test]
fn only_what_curfew_launched_is_taken() {
    let given = taken(submitted());
    let no = |change: &dyn Fn(&mut FoundMachine)| {
        let mut one = found("i-9", 1);
        change(&mut one);
        judge(&given, &[one])
    };
    let unproven = NewerMachines::Unproven(vec!["i-9".into()]);
    assert!(matches!(judge(&given, &[found("i-9", 1)]), NewerMachines::Launched(_)));
    // Tags alone; the token without the profile, and of another job or attempt; far ahead.
    assert_eq!(no(&|one| (one.token, one.profile) = (None, None)), unproven);
    assert_eq!(no(&|one| one.profile = None), unproven);
    assert_eq!(no(&|one| one.profile = Some("admin".to_owned())), unproven);
    assert_eq!(no(&|one| one.token = None), unproven);
    assert_eq!(no(&|one| one.attempt = None), unproven);
    assert_eq!(no(&|one| one.attempt = Some(2)), unproven);
    let other = JobId::read("vision/other-1a2b3c4d").unwrap();
    assert_eq!(no(&|one| one.token = Some(launch_token(&other, 1, 1, 7))), unproven);
    assert_eq!(judge(&given, &[found("i-9", 51)]), unproven);
    assert_eq!(judge(&given, &[found("i-9", u32::MAX)]), unproven);
    // Not of this job, or launched after the stack before could.
    assert_eq!(no(&|one| one.job = other.to_string()), NewerMachines::None);
    assert_eq!(no(&|one| one.launched_at = given.now), NewerMachines::None);
    assert_eq!(judge(&given, &[]), NewerMachines::None);
}

#[test]
fn the_latest_attempt_is_taken_and_no_earlier_one() {
    let taken_of = |given: &JobInput, found: &[FoundMachine]| match judge(given, found) {
        NewerMachines::Launched(one) => Some(one.instance.to_string()),
        _ => None,
    };
    let given = taken(running());
    let all = [found("i-8", 2), found("i-9", 3), found("i-7", 1)];
    assert_eq!(taken_of(&given, &all).as_deref(), Some("i-9"));
    // Of its own attempt the state has the machine; another one of it is fenced.
    assert_eq!(judge(&given, &[found("i-7", 1)]), NewerMachines::None);
    let own = FoundMachine { instance: "i-1".into(), ..found("i-1", 1) };
    assert_eq!(judge(&given, &[own]), NewerMachines::None);
    // In a later pass of the same attempt.
    let later = FoundMachine { token: Some(launch_token(&given.job.job, 1, 40, 0)), ..found("i-9", 1) };
    assert_eq!(taken_of(&taken(waiting()), &[later]).as_deref(), Some("i-9"));
}

#[test]
fn without_a_price_it_is_ranked_and_nothing_is_launched_beside_it() {
    let strange = FoundMachine { instance_type: "p5.48xlarge".into(), ..found("i-9", 2) };
    let given = with_found(taken(submitted()), &[strange]);
    check(given.clone(), "submitted: rank");
    let ranked = given.clone().answered(EffectResult::Ranked(Ok(ranking(given.now))));
    check(ranked.clone(), "submitted");
    // The ranking is young: it is not asked for each minute.
    check_nothing(ranked.next());
    check_nothing(given.clone().observing());
    let priced = with_found(taken(submitted()), &[found("i-9", 2)]);
    let priced = priced.answered(EffectResult::Ranked(Ok(ranking(given.now))));
    check(priced, "running i-9: note launched i-9, settle i-9");
}

#[test]
fn nothing_is_launched_while_a_region_or_an_instance_is_unclear_and_not_for_ever() {
    for newer in [NewerMachines::Unknown, NewerMachines::Unproven(vec!["i-9".into()])] {
        for given in [submitted(), waiting().at_time(TAKEN_OVER), with_gone_machine(running()), launching()] {
            let given = taken(given).facts(|facts| {
                facts.newer = newer.clone();
                facts.head = Some(None);
            });
            check_nothing(given.clone());
            check_nothing(given.clone().cancelled());
            let later = given.at_time(TAKEN_OVER + HOUR).next();
            assert!(!later.job.is_unsettled(&takeover()), "{newer:?}");
        }
    }
    // What is there goes on meanwhile.
    let ends = taken(running()).result(1, true);
    check(ends, "succeeded with i-1: note over, release");
    check(taken(submitted()).facts(|facts| facts.newer = NewerMachines::None), "submitted: rank");
    check_nothing(taken(submitted()).facts(|facts| facts.newer = NewerMachines::None).head_unknown());
}

#[test]
fn a_gang_is_waited_for_and_replaced_as_a_whole() {
    let gang = |given: JobInput| given.job(|job| job.terms.gpu.nodes = 2);
    let given = with_found(gang(taken(submitted())), &[found("i-8", 1), found("i-9", 1)]);
    check_nothing(given.clone());
    let gone = with_found(given, &[]);
    check(gone, "submitted: rank");
}

#[test]
fn a_later_attempt_in_head_is_passed_and_its_result_counts() {
    let settled = |given: JobInput| taken(given).facts(|facts| facts.newer = NewerMachines::None);
    let passed = settled(submitted()).checkpoint(3, 700).next();
    assert_eq!((passed.job.attempt, passed.job.passes, passed.job.progress.step), (3, 0, None));
    assert_eq!(passed.next().job.progress.step, Some(700));
    let ends = settled(with_gone_machine(running())).result(2, true);
    check(ends, "succeeded: note over, release");
    // While EC2 is not known, head alone moves nothing.
    let unknown = taken(submitted()).checkpoint(3, 700);
    check_nothing(unknown);
}

#[test]
fn a_failure_before_the_machine_that_is_taken_was_retried() {
    let given = taken(running()).job(|job| job.terms.retries = 2).result(1, false);
    let taken = with_found(given, &[found("i-9", 2)]).next();
    assert!(matches!(taken.job.phase, Phase::Running(_)), "{:?}", taken.job.phase);
    assert_eq!(taken.job.retries, JobRetries { used: 1, attempt: 1 });
}

#[test]
fn its_next_reservation_is_later_than_all_that_a_newer_budget_has() {
    let numbered = |given: JobInput| given.next().job.reserved.map(|reserved| (reserved.number, reserved.released));
    let settled = |given: JobInput| taken(given).facts(|facts| facts.newer = NewerMachines::None);
    assert_eq!(numbered(settled(submitted())), Some((1_000, true)));
    let asked = settled(reserving()).job(|job| job.ranking = Some(ranking(noon_plus(TAKEN_OVER + 10 * MINUTE))));
    assert_eq!(numbered(asked.clone()), Some((1_001, false)));
    check(asked, "reserving: reserve $32.00 until 21:00");
    assert_eq!(numbered(with_found(taken(running()), &[found("i-9", 2)])), Some((1_001, false)));
}

#[test]
fn a_heartbeat_from_before_the_launch_is_of_another_machine() {
    let launched = running().job(|job| {
        job.phase = Phase::Running(JobMachine { launched_at: noon_plus(50 * MINUTE), ..placed("i-1", 1) });
    });
    let late = taken(launched).heartbeat_at(20 * MINUTE).at_time(TAKEN_OVER + MACHINES_MOVE_IN.as_secs());
    let late = late.facts(|facts| facts.newer = NewerMachines::None);
    check(late, "interrupted i-1 NoHeartbeat: note ended i-1, terminate i-1");
}

#[test]
fn a_machine_has_time_to_move_before_its_silence_counts() {
    let silent = |seconds: i64| {
        let given = taken(running()).heartbeat_at(HOUR).at_time(TAKEN_OVER + seconds);
        given.facts(|facts| facts.newer = NewerMachines::None)
    };
    let moves_in = MACHINES_MOVE_IN.as_secs();
    let quiet = silent(moves_in - 1).next();
    assert!(matches!(quiet.job.phase, Phase::Running(_)));
    check(silent(moves_in), "interrupted i-1 HeartbeatStopped: note ended i-1, terminate i-1");
    check(silent(moves_in).without_heartbeat(), "interrupted i-1 NoHeartbeat: note ended i-1, terminate i-1");
}

#[test]
fn a_first_stack_searches_nothing_and_writes_nothing_new() {
    let record = HomeRecord {
        term: 1,
        stack: StateBucket { bucket: "curfew-state".to_owned(), region: "us-east-1".into() },
        since: noon_plus(0),
        before: None,
    };
    assert_eq!(Takeover::from_record(&record), None);
    let job = submitted().job;
    assert!(!serde_json::to_string(&job).unwrap().contains("settled"));
    // A job that was submitted long after the takeover was never in the bucket before.
    assert!(job.is_unsettled(&takeover()));
    assert!(!Job { submitted_at: noon_plus(TAKEN_OVER + 24 * HOUR), ..job.clone() }.is_unsettled(&takeover()));
    assert!(!Job { phase: ended(JobResult::Failed).job.phase, ..job }.is_unsettled(&takeover()));
}

#[test]
fn a_warning_waits_for_no_search() {
    let warned = taken(running()).warned("i-1").facts(|facts| facts.takeover = Some(takeover()));
    let next = warned.next();
    assert!(matches!(next.job.phase, Phase::Launching(_)), "{:?}", next.job.phase);
}
