use model::instance::InstanceState;

use super::fixture::*;
use crate::*;

#[test]
fn a_machine_that_is_well_is_left_alone() {
    check_nothing(running());
    check_nothing(running().at_time(8 * HOUR).heartbeat_at(8 * HOUR - MINUTE));
    check_nothing(running().with_machine(InstanceState::Pending, None));
    check_nothing(running().heartbeat_at(2 * HOUR));
}

#[test]
fn an_unknown_fact_is_no_reason_to_act() {
    check_nothing(running().knowing_nothing());
    check_nothing(running().knowing_nothing().at_time(31 * 24 * HOUR));
    check_nothing(running().sight(MachineSight::Unknown).without_heartbeat().at_time(31 * 24 * HOUR));
    check_nothing(running().sight(MachineSight::Unknown).heartbeat_at(0).at_time(31 * 24 * HOUR));
    check_nothing(running().with_machine(InstanceState::Unknown, RECLAIMED).heartbeat_at(0).at_time(9 * HOUR));
    check_nothing(running().facts(|facts| facts.heartbeat = None).at_time(7 * HOUR));
    check_nothing(running().heartbeat_at(0).head_unknown());
    for state in GOING {
        check_nothing(running().with_machine(state, None).heartbeat_at(0));
        check_nothing(running().with_machine(state, ITSELF).head_unknown());
        check_nothing(running().with_machine(state, ITSELF).facts(|facts| facts.exit = None));
        check_nothing(running().with_machine(state, A_PERSON).head_unknown());
    }
}

#[test]
fn only_a_warning_of_its_own_spot_machine_counts() {
    let on_spot = running().job;
    assert!(on_spot.is_warned_by(&ResourceId::from("i-1")) && !on_spot.is_warned_by(&ResourceId::from("i-2")));
    let on_demand = running()
        .job(|job| job.phase = Phase::Running(JobMachine { lifecycle: Lifecycle::OnDemand, ..placed("i-1", 1) }));
    assert!(!on_demand.job.is_warned_by(&ResourceId::from("i-1")));
    assert!(launching().job.is_warned_by(&ResourceId::from("i-1")), "its machine is not known yet");
}

#[test]
fn a_warning_launches_the_next_attempt_at_once_whatever_else_is_unknown() {
    // An hour and two minutes are used; the pool that was lost comes last.
    check(running().warned("i-1"), "launching 2.1.1: note lost i-1 Reclaimed, launch g5.xlarge until 19:58:00");
    let given = running().warned("i-1").next();
    assert_eq!(given.job.used.seconds, HOUR + 2 * MINUTE);
    assert_eq!(given.job.used.usd.usd_micros(), 1_033_333 + 1);
    let previous_attempt = JobMachine { ends_at: noon_plus(HOUR + 2 * MINUTE), ..placed("i-1", 1) };
    assert_eq!((given.job.previous_attempt, given.job.lost), (Some(previous_attempt), Some(LossReason::Reclaimed)));
}

#[test]
fn the_same_warning_again_or_one_for_another_machine_changes_nothing() {
    let second = running().warned("i-1").next().launched("i-2", HOUR).next();
    assert_eq!(line(&second.job, &[]), "running i-2");
    check_nothing(second.clone());
    check_nothing(running().warned("i-9"));
    check_nothing(waiting().warned("i-1"));
}

#[test]
fn two_warnings_are_two_attempts() {
    let second = running().warned("i-1").next().launched("i-2", HOUR).next();
    check(
        second.at_time(HOUR + MINUTE).warned("i-2"),
        "launching 3.1.0: note lost i-2 Reclaimed, launch g6.xlarge until 19:56:00",
    );
}

#[test]
fn a_warning_without_enough_money_reserved_ranks_anew() {
    let given = running().warned("i-1").job(|job| job.reserved = None);
    check(given, "submitted: note lost i-1 Reclaimed, rank");
}

#[test]
fn a_warning_in_observe_mode_holds_the_job() {
    check(running().warned("i-1").observing(), "held by observing: note lost i-1 Reclaimed, note held, release");
}

#[test]
fn a_lost_warning_is_noticed_by_the_interruption() {
    let lost = |given: JobInput| given.with_machine(InstanceState::Terminated, RECLAIMED);
    check(lost(soon()), "launching 2.1.1: note lost i-1 Reclaimed, launch g5.xlarge until 20:00:00");
    check(lost(running()), "submitted: note lost i-1 Reclaimed, rank");
    assert_eq!(lost(running()).next().job.previous_attempt, None);
    for state in [InstanceState::ShuttingDown, InstanceState::Stopping, InstanceState::Stopped] {
        let job = running().with_machine(state, RECLAIMED).next().job;
        assert_eq!(job.previous_attempt.unwrap().ends_at, noon_plus(HOUR), "{state:?}");
    }
}

#[test]
fn a_warning_at_the_end_of_all_time_leaves_two_minutes_for_a_result() {
    let given = running().at_time(7 * HOUR + 50 * MINUTE).warned("i-1");
    check(given.clone(), "submitted: note lost i-1 Reclaimed");
    let then = given.next().facts(|facts| (facts.warned, facts.cancel, facts.head) = (None, Some(None), Some(None)));
    check(then.clone().result(1, true), "succeeded: note over, release");
    check(then.clone(), "submitted: release");
    let then = then.released();
    check_nothing(then.clone().at_time(7 * HOUR + 51 * MINUTE));
    check(then.at_time(7 * HOUR + 52 * MINUTE), "expired: note over");
}

#[test]
fn a_previous_machine_is_watched_until_it_is_gone() {
    let seen = |state| MachineSight::Seen { state, reason: None };
    let has = |sight: MachineSight| running().after(sight).next().job.previous_attempt.is_some();
    assert_eq!(
        [
            MachineSight::Unknown,
            seen(InstanceState::Running),
            seen(InstanceState::ShuttingDown),
            seen(InstanceState::Terminated),
            MachineSight::Absent
        ]
        .map(has),
        [true, true, true, false, false]
    );
    let young = running().at_time(10 * MINUTE).heartbeat_at(9 * MINUTE).after(MachineSight::Absent);
    assert!(young.next().job.previous_attempt.is_some(), "EC2 may not know it yet");
}

#[test]
fn an_older_machine_is_watched_after_the_newer_one_is_gone() {
    let there = MachineSight::Seen { state: InstanceState::Running, reason: None };
    let older = |given: JobInput| given.job.previous_attempt.map(|placed| placed.instance.to_string());
    let lost = running().after(there.clone()).exit(None).facts(|facts| facts.head = Some(None));
    let gone = lost.clone().with_machine(InstanceState::Terminated, Some("Client.InstanceInitiatedShutdown"));
    assert_eq!(older(gone.next()).as_deref(), Some("i-0"));
    let going = lost.clone().with_machine(InstanceState::ShuttingDown, Some("Client.InstanceInitiatedShutdown"));
    assert_eq!(older(going.next()).as_deref(), Some("i-1"), "it is the one that may still write");
    // It is known of that one, and not of the one that was lost, that it is there: past its end it is terminated.
    let overdue = gone.job(|job| job.progress.attempts_without = 9).at_time(2 * HOUR);
    check(overdue, "failed: note lost i-1 ShutDown, note over, terminate i-0");
}

#[test]
fn a_previous_machine_that_stays_is_terminated() {
    let there = MachineSight::Seen { state: InstanceState::Running, reason: None };
    let since =
        |given: JobInput, seconds: i64| given.at_time(HOUR + seconds).heartbeat_at(HOUR + seconds).after(there.clone());
    check_nothing(since(running(), 5 * MINUTE - 1));
    check_nothing(since(running(), 5 * MINUTE).observing());
    check(since(running(), 5 * MINUTE), "running i-1: terminate i-0");
    check_nothing(since(running(), 5 * MINUTE).answered(EffectResult::Terminated));
    let waits = || {
        waiting().job(|job| {
            job.phase = Phase::Waiting(CapacityWait { until: noon_plus(9 * HOUR), passes: 9, message: String::new() });
        })
    };
    check(since(waits(), 5 * MINUTE), "waiting after 9: terminate i-0");
    let holds = held(HoldReason::Quota).job(|job| {
        if let Phase::Held(held) = &mut job.phase {
            held.until = noon_plus(9 * HOUR);
        }
    });
    check(since(holds, 5 * MINUTE), "held by quota: terminate i-0");
}

#[test]
fn facts_of_the_previous_machine_are_not_those_of_the_lost_one() {
    let there = MachineSight::Seen { state: InstanceState::Running, reason: None };
    let given =
        interrupted().at_time(7 * HOUR + 50 * MINUTE).after(there).with_machine(InstanceState::ShuttingDown, A_PERSON);
    check(given.clone(), "expired: note lost i-1 HeartbeatStopped, note over, release");
    assert_eq!(given.next().job.previous_attempt.unwrap().instance, "i-1".into());
}
