//! Machines that EC2 could not bring up: launches that came to nothing.

use model::instance::InstanceState;

use super::fixture::*;
use crate::*;

const RECLAIMED: &str = "Server.SpotInstanceTermination";
const NO_CAPACITY: &str = "Server.InsufficientInstanceCapacity";
const A_FAULT: &str = "Server.InternalError";
const A_KEY: &str = "Client.InternalError";
const STORAGE: &str = "Client.VolumeLimitExceeded";
const A_SNAPSHOT: &str = "Client.InvalidSnapshot.NotFound";
const OF_LAUNCHES: [&str; 5] = [NO_CAPACITY, A_FAULT, A_KEY, STORAGE, A_SNAPSHOT];

/// Two minutes after its launch, without a heartbeat.
fn booting() -> JobInput {
    running().without_heartbeat().at_time(2 * MINUTE)
}

fn ended(given: JobInput, code: &str) -> JobInput {
    given.with_machine(InstanceState::Terminated, Some(code))
}

/// It runs on that candidate of the ranking.
fn on(given: JobInput, candidate: u8) -> JobInput {
    given.job(|job| {
        if let Phase::Running(placed) = &mut job.phase {
            placed.candidate = candidate;
        }
    })
}

/// The number of machines before it without a heartbeat.
fn after_others(given: JobInput, launches: u32) -> JobInput {
    given.job(|job| (job.launches_without_heartbeat, job.unplaced_since) = (launches, Some(noon_plus(0))))
}

#[test]
fn it_is_no_attempt_without_progress() {
    for code in OF_LAUNCHES {
        let lost = ended(booting(), code).next();
        assert_eq!((lost.job.progress.attempts_without, lost.job.launches_without_heartbeat), (0, 1), "{code}");
        assert_eq!(
            (lost.job.unplaced_since, lost.job.used.seconds),
            (Some(noon_plus(2 * MINUTE)), 2 * MINUTE),
            "{code}"
        );
        // Whether it sent a heartbeat may be unknown.
        let unknown =
            ended(booting(), code).facts(|facts| (facts.heartbeat, facts.head, facts.exit) = (None, None, None));
        assert_eq!(unknown.next().job.progress.attempts_without, 0, "{code}");
    }
}

#[test]
fn a_machine_with_a_heartbeat_counts() {
    let signs: [fn(JobInput) -> JobInput; 3] = [
        |given| given.heartbeat_at(MINUTE),
        |given| given.facts(|facts| facts.head = Some(Some(Head { attempt: 1, ..Head::default() }))),
        |given| given.exit(Some(ExitReason::Interrupted)),
    ];
    for give_sign in signs {
        for code in OF_LAUNCHES {
            let job = ended(give_sign(after_others(booting(), 3)), code).next().job;
            assert_eq!(
                (job.progress.attempts_without, job.launches_without_heartbeat, job.unplaced_since),
                (1, 0, None),
                "{code}"
            );
        }
    }
    // Of attempt 2 what attempt 1 wrote into head says nothing.
    let second = booting().checkpoint(1, 300).job(|job| {
        job.attempt = 2;
        job.phase = Phase::Running(placed("i-1", 2));
    });
    assert_eq!(ended(second, NO_CAPACITY).next().job.progress.attempts_without, 0);
}

#[test]
fn the_time_of_a_machine_counts_with_or_without_a_heartbeat() {
    let without = |given: JobInput| given.job.progress.attempts_without;
    let silent = booting().at_time(15 * MINUTE).next();
    assert_eq!(line(&silent.job, &[]), "interrupted i-1 NoHeartbeat");
    assert_eq!(without(ended(silent, "Client.UserInitiatedShutdown").next()), 1);
    let by_itself = ended(booting(), "Client.InstanceInitiatedShutdown");
    assert_eq!(without(by_itself.clone().next()), 1);
    assert_eq!(without(by_itself.at_time(8 * HOUR).next()), 1);
    // EC2 takes back what it gave, and what it does not explain may have run.
    for code in [RECLAIMED, "Server.SomethingNew", "Something.New"] {
        let lost = ended(after_others(booting(), 3), code).next().job;
        assert_eq!(
            (lost.progress.attempts_without, lost.launches_without_heartbeat, lost.unplaced_since),
            (1, 0, None),
            "{code}"
        );
    }
    assert_eq!(without(booting().warned("i-1").next()), 1);
}

#[test]
fn a_heartbeat_resets_the_launches_without_one() {
    let given = after_others(booting(), 3).heartbeat_at(MINUTE);
    check(given.clone(), "running i-1");
    let next = given.next();
    assert_eq!((next.job.launches_without_heartbeat, next.job.unplaced_since), (0, None));
    check_nothing(next.clone());
    check_nothing(next.facts(|facts| facts.heartbeat = None));
    // Where there were none, nothing is written down.
    check_nothing(booting().heartbeat_at(MINUTE));
}

#[test]
fn without_capacity_the_rest_of_the_pass_is_tried_and_then_it_waits() {
    for (code, lost) in [(NO_CAPACITY, "NoCapacity"), (A_FAULT, "AwsFault")] {
        let second = format!("launching 2.1.1: note lost i-1 {lost}, launch g5.xlarge until 20:00:00");
        check(ended(booting(), code), &second);
        let third = format!("launching 2.1.2: note lost i-1 {lost}, launch g6e.xlarge until 20:00:00");
        check(ended(on(booting(), 1), code), &third);
        let waits = format!("waiting after 0: note lost i-1 {lost}, note waits");
        check(ended(on(booting(), 2), code), &format!("{waits}, release"));
        check(ended(booting(), code).at_time(15 * MINUTE), &format!("{waits}, release"));
        check(ended(booting(), code).job(|job| job.reserved = None), &waits);
    }
    check(ended(booting(), NO_CAPACITY).observing(), "held by observing: note lost i-1 NoCapacity, note held, release");
}

#[test]
fn a_cause_for_a_person_holds_the_job_and_is_named() {
    let held = |code: &str, by: &str, how: &str, words: &str| {
        let given = ended(booting(), code);
        check(given.clone(), &format!("held by {by}: note lost i-1 {how}, note held, release"));
        let Phase::Held(held) = given.next().job.phase else { unreachable!() };
        assert!(
            held.why.starts_with("i-1 was terminated by EC2 at its launch") && held.why.contains(words),
            "{held:?}"
        );
        assert_eq!(held.until, noon_plus(17 * MINUTE));
    };
    held(A_KEY, "permission", "KeyRefused", "create grants for the key");
    held(STORAGE, "quota", "StorageUsedUp", "quota of EBS storage is used up");
    held(A_SNAPSHOT, "unplaceable", "NoSnapshot", "name another image");
}

#[test]
fn while_the_machine_before_may_hold_the_storage_it_waits_for_a_minute_once() {
    let given = ended(booting(), STORAGE).after(MachineSight::Unknown);
    check(given.clone(), "waiting after 0: note lost i-1 StorageUsedUp, note waits, release");
    let Phase::Waiting(waiting) = given.next().job.phase else { unreachable!() };
    assert_eq!(waiting.until, noon_plus(3 * MINUTE));
    check(after_others(given, 1), "held by quota: note lost i-1 StorageUsedUp, note held, release");
}

#[test]
fn another_launch_is_nothing_yet() {
    let given = ended(booting(), NO_CAPACITY).next().launched("i-2", 3 * MINUTE).next();
    assert_eq!((given.job.unplaced_since, given.job.launches_without_heartbeat), (Some(noon_plus(2 * MINUTE)), 1));
}

/// A run of the reconciler: what it finds running EC2 has ended, and what it asks for it gets. Whether it launched anything.
fn minute(mut given: JobInput, code: &str, minute: i64) -> (JobInput, bool) {
    given = ended(given.at_time(minute * MINUTE).without_heartbeat(), code);
    let mut is_launched = false;
    for _ in 0..10 {
        let (after, effects) = given.turn();
        given = after;
        let number = given.job.machines + 1;
        let answer = effects.iter().find_map(|effect| match effect {
            Effect::Rank => Some(EffectResult::Ranked(Ok(ranking(given.now)))),
            Effect::Reserve { .. } => Some(EffectResult::Reserved(ReserveResult::Granted)),
            Effect::Launch(_) => {
                is_launched = true;
                let instance = format!("i-{number}").as_str().into();
                Some(EffectResult::Launched(LaunchResult::Launched {
                    instance,
                    members: Vec::new(),
                    launched_at: given.now,
                }))
            }
            Effect::Release(_) => Some(EffectResult::Released(true)),
            _ => None,
        });
        given.facts.answer = answer;
        if is_launched {
            return (given.next(), true);
        }
    }
    (given, false)
}

/// What becomes of it, and in which minutes it was launched.
fn in_vain(mut given: JobInput, code: &str, minutes: i64) -> (JobInput, Vec<i64>) {
    let mut launched = Vec::new();
    for now in 0..minutes {
        let is_launched;
        (given, is_launched) = minute(given, code, now);
        launched.extend(is_launched.then_some(now));
    }
    (given, launched)
}

#[test]
fn again_and_again_it_is_tried_at_growing_intervals_until_its_own_limits_end_it() {
    let a_day = submitted().job(|job| job.terms.finish_by = Some(noon_plus(24 * HOUR)));
    let (given, launched) = in_vain(a_day, NO_CAPACITY, 25 * 60);
    let Phase::Ended(ended) = &given.job.phase else { panic!("{:?}", given.job.phase) };
    assert_eq!((ended.result, given.job.progress.attempts_without), (JobResult::Expired, 0));
    assert!(ended.why.starts_with("until its finish_by, 2026-09-02T12:00:00Z, "), "{}", ended.why);
    let says = format!(
        "; its last {} machines sent no heartbeat: the last one was terminated by EC2 at its launch ({NO_CAPACITY})",
        launched.len()
    );
    assert!(ended.why.contains(&says), "{}", ended.why);
    // Three pools in a pass, a minute each; then a quarter of an hour, more or less, until the next.
    assert_eq!(launched.get(..3), Some([0, 1, 2].as_slice()));
    let pauses: Vec<i64> = launched.windows(2).map(|pair| pair[1] - pair[0]).skip(2).step_by(3).collect();
    let longest = [2, 3, 5, 10].into_iter().chain(std::iter::repeat(19));
    assert!(
        pauses.iter().zip(longest).all(|(pause, longest)| (longest / 2..=longest + 1).contains(pause)),
        "{pauses:?}"
    );
    assert!(pauses.len() > 70, "{pauses:?}");
}

#[test]
fn without_a_deadline_the_time_of_each_machine_counts() {
    let half_an_hour = submitted().job(|job| job.terms.max_runtime_seconds = 30 * MINUTE);
    let (given, launched) = in_vain(half_an_hour, A_FAULT, 12 * 60);
    let Phase::Ended(ended) = &given.job.phase else { panic!("{:?}", given.job.phase) };
    assert_eq!(
        (ended.result, launched.len()),
        (JobResult::Expired, 16),
        "a minute each, and 14 are too few for another"
    );
    assert!(ended.why.starts_with("of its max_runtime of 30m 14m are left"), "{}", ended.why);
}

#[test]
fn its_team_hears_of_it_once_and_when_it_is_over() {
    let (mut given, mut fingerprints) = (submitted(), Vec::new());
    for now in 0..300 {
        (given, _) = minute(given, NO_CAPACITY, now);
        let fingerprint = given
            .job
            .notification()
            .map(|notification| notification.fingerprint)
            .filter(|fingerprint| given.job.notified.as_ref() != Some(fingerprint));
        if let Some(fingerprint) = fingerprint {
            given.job.notified = Some(fingerprint.clone());
            fingerprints.push(fingerprint);
        }
    }
    assert_eq!(fingerprints, ["runs 1", "runs 2", "unplaced 0: waits"]);
    let last = JobMachine { attempt: 99, ..placed("i-99", 99) };
    let given = given
        .job(|job| job.phase = Phase::Running(last))
        .with_machine(InstanceState::Running, None)
        .heartbeat_at(300 * MINUTE)
        .next();
    let notification = given.job.notification().unwrap();
    assert_eq!(notification.fingerprint, "runs 99");
    assert!(
        notification.notification.text.contains("its previous machine was terminated by EC2 at its launch"),
        "{}",
        notification.notification.text
    );
}
