use model::instance::InstanceState;
use model::rule::Rule;

use super::fixture::*;
use crate::*;

const RECLAIMED: Option<&str> = Some("Server.SpotInstanceTermination");
const ITSELF: Option<&str> = Some("Client.InstanceInitiatedShutdown");
const A_PERSON: Option<&str> = Some("Client.UserInitiatedShutdown");
const GOING: [InstanceState; 4] =
    [InstanceState::ShuttingDown, InstanceState::Terminated, InstanceState::Stopping, InstanceState::Stopped];

/// The ranking of noon is still young.
fn soon() -> JobInput {
    running().at_time(14 * MINUTE).heart(13 * MINUTE)
}

#[test]
fn a_machine_that_is_well_is_left_alone() {
    check_nothing(running());
    check_nothing(running().at_time(8 * HOUR).heart(8 * HOUR - MINUTE));
    check_nothing(running().with_machine(InstanceState::Pending, None));
    check_nothing(running().heart(2 * HOUR));
}

#[test]
fn what_nobody_knows_is_no_reason_to_act() {
    check_nothing(running().knowing_nothing());
    check_nothing(running().knowing_nothing().at_time(31 * 24 * HOUR));
    check_nothing(running().sight(MachineSight::Unknown).never_heard().at_time(31 * 24 * HOUR));
    check_nothing(running().sight(MachineSight::Unknown).heart(0).at_time(31 * 24 * HOUR));
    check_nothing(running().with_machine(InstanceState::Unknown, RECLAIMED).heart(0).at_time(9 * HOUR));
    check_nothing(running().facts(|facts| facts.heartbeat = None).at_time(7 * HOUR));
    check_nothing(running().heart(0).head_unknown());
    for state in GOING {
        check_nothing(running().with_machine(state, None).heart(0));
        check_nothing(running().with_machine(state, ITSELF).head_unknown());
        check_nothing(running().with_machine(state, ITSELF).facts(|facts| facts.exit = None));
        check_nothing(running().with_machine(state, A_PERSON).head_unknown());
    }
}

#[test]
fn only_a_warning_of_its_own_machine_on_spot_is_heeded() {
    let on_spot = running().job;
    assert!(on_spot.is_warned_by(&ResourceId::from("i-1")) && !on_spot.is_warned_by(&ResourceId::from("i-2")));
    let on_demand = running()
        .job(|job| job.phase = Phase::Running(JobMachine { lifecycle: Lifecycle::OnDemand, ..placed("i-1", 1) }));
    assert!(!on_demand.job.is_warned_by(&ResourceId::from("i-1")));
    assert!(launching().job.is_warned_by(&ResourceId::from("i-1")), "nobody has heard yet which machine it is");
}

#[test]
fn a_warning_launches_the_next_attempt_at_once_whatever_else_is_unknown() {
    // An hour and two minutes are used; the pool that was lost comes last.
    check(running().warned("i-1"), "launching 2.1.1: note lost i-1 Reclaimed, launch g5.xlarge until 19:58:00");
    let given = running().warned("i-1").next();
    assert_eq!(given.job.used.seconds, HOUR + 2 * MINUTE);
    assert_eq!(given.job.used.usd.usd_micros(), 1_033_333 + 1);
    let previous_attempt = JobMachine { ends_at: at(HOUR + 2 * MINUTE), ..placed("i-1", 1) };
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
fn a_warning_where_curfew_only_observes_holds_it() {
    check(running().warned("i-1").observing(), "held by observing: note lost i-1 Reclaimed, note held");
}

#[test]
fn a_warning_that_was_lost_is_seen_by_what_it_led_to() {
    let lost = |given: JobInput| given.with_machine(InstanceState::Terminated, RECLAIMED);
    check(lost(soon()), "launching 2.1.1: note lost i-1 Reclaimed, launch g5.xlarge until 20:00:00");
    check(lost(running()), "submitted: note lost i-1 Reclaimed, rank");
    assert_eq!(lost(running()).next().job.previous_attempt, None);
    for state in [InstanceState::ShuttingDown, InstanceState::Stopping, InstanceState::Stopped] {
        let job = running().with_machine(state, RECLAIMED).next().job;
        assert_eq!(job.previous_attempt.unwrap().ends_at, at(HOUR), "{state:?}");
    }
}

#[test]
fn a_machine_that_shut_itself_down_without_a_result_is_replaced() {
    check(
        soon().with_machine(InstanceState::ShuttingDown, ITSELF),
        "launching 2.1.1: note lost i-1 ShutDown, launch g5.xlarge until 20:00:00",
    );
    let interrupted = running().with_machine(InstanceState::ShuttingDown, ITSELF).exit(Some(ExitReason::Interrupted));
    check(interrupted, "submitted: note lost i-1 Reclaimed, rank");
    let broken = running().with_machine(InstanceState::ShuttingDown, ITSELF).exit(Some(ExitReason::Broken));
    check(broken, "submitted: note lost i-1 ShutDown, rank");
}

#[test]
fn a_machine_that_shut_itself_down_with_a_result_is_not() {
    let given = || running().with_machine(InstanceState::Terminated, ITSELF);
    check(given().result(1, true), "succeeded: note over, release");
    check(given().exit(Some(ExitReason::Failed)), "failed: note over, release");
    check(given().exit(Some(ExitReason::Succeeded)), "succeeded: note over, release");
}

#[test]
fn a_machine_that_ended_at_its_end_is_not_replaced_where_nothing_is_left() {
    let given = running().at_time(8 * HOUR - 5 * MINUTE).with_machine(InstanceState::Terminated, ITSELF);
    check(given.clone().exit(Some(ExitReason::Expired)), "expired: note lost i-1 Overdue, note over, release");
    let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
    assert_eq!(ended.why, "of its max_runtime of 8h 5m are left; no attempt is begun with less than 15m");
}

#[test]
fn a_machine_that_began_late_is_replaced_after_its_end_for_the_time_that_is_left() {
    let given = running().at_time(8 * HOUR).with_machine(InstanceState::Terminated, ITSELF).job(|job| {
        if let Phase::Running(placed) = &mut job.phase {
            placed.launched_at = at(3 * HOUR);
        }
    });
    check(given, "submitted: note lost i-1 Overdue, rank");
}

#[test]
fn whom_a_person_has_ended_is_not_launched_again() {
    for state in GOING {
        let given = running().with_machine(state, A_PERSON);
        check(given.clone(), "cancelled: note over, release");
        let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
        let stopped = matches!(state, InstanceState::Stopping | InstanceState::Stopped);
        let expect =
            if stopped { "i-1 was stopped by a person; it is left as it is" } else { "i-1 was terminated by a person" };
        assert!(ended.why.starts_with(expect), "{}", ended.why);
        assert_eq!(given.next().job.used.seconds, HOUR);
    }
}

#[test]
fn a_result_counts_before_what_a_person_did_to_the_machine() {
    check(running().with_machine(InstanceState::Terminated, A_PERSON).result(1, true), "succeeded: note over, release");
}

#[test]
fn what_the_reaper_ends_at_its_time_has_expired() {
    let given = running().at_time(8 * HOUR + 10 * MINUTE).with_machine(InstanceState::ShuttingDown, A_PERSON);
    // It may still be going; the sight of it is that of a previous machine now.
    check(given, "expired: note lost i-1 Overdue, note over, release");
}

#[test]
fn whom_curfew_itself_has_ended_says_so() {
    let ended = |state, rule| {
        let given = running().with_machine(state, A_PERSON).facts(|facts| facts.reaped = Some(rule));
        let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
        (ended.result, ended.why)
    };
    let (result, why) = ended(InstanceState::Terminated, Rule::Expired);
    assert_eq!(result, JobResult::Expired);
    assert!(why.starts_with("i-1 was terminated by Curfew, at the time that its tag curfew:expires-at says"), "{why}");
    let (result, why) = ended(InstanceState::Stopped, Rule::OverBudget);
    assert_eq!(result, JobResult::Failed);
    assert!(
        why.starts_with("i-1 was stopped by Curfew, for the rule over-budget, as was announced; it is left"),
        "{why}"
    );
    let succeeded =
        running().with_machine(InstanceState::Terminated, A_PERSON).facts(|facts| facts.reaped = Some(Rule::Untagged));
    check(succeeded.result(1, true), "succeeded: note over, release");
}

#[test]
fn any_other_end_is_a_loss_and_says_which() {
    let lost = |reason: &str, how: &str| {
        let given = running().with_machine(InstanceState::Terminated, Some(reason));
        check(given, &format!("submitted: note lost i-1 {how}, rank"));
    };
    lost("Client.InternalError", "KeyRefused");
    lost("Client.VolumeLimitExceeded", "StorageUsedUp");
    lost("Client.InvalidSnapshot.NotFound", "NoSnapshot");
    lost("Server.InsufficientInstanceCapacity", "NoCapacity");
    lost("Server.InternalError", "AwsFault");
    lost("Server.ScheduledStop", "Reclaimed");
    lost("Something.New", "Gone");
}

#[test]
fn a_job_that_ends_for_want_of_progress_says_what_became_of_its_last_machine() {
    let given = third().with_machine(InstanceState::Terminated, Some("Client.InternalError"));
    let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
    assert!(
        ended.why.contains("Its last machine was terminated by EC2 at its launch (Client.InternalError)"),
        "{}",
        ended.why
    );
}

#[test]
fn a_machine_that_ec2_does_not_know_is_gone_only_after_a_while_and_in_silence() {
    let absent = |seconds| running().sight(MachineSight::Absent).at_time(seconds);
    check_nothing(absent(15 * MINUTE - 1).never_heard());
    check_nothing(absent(15 * MINUTE).heart(14 * MINUTE));
    check_nothing(absent(HOUR).facts(|facts| facts.heartbeat = None));
    check_nothing(absent(HOUR).heart(0).head_unknown());
    check(absent(HOUR).heart(0), "submitted: note lost i-1 Gone, rank");
    check(absent(15 * MINUTE).never_heard(), "submitted: note lost i-1 Gone, rank");
}

#[test]
fn a_machine_that_is_never_heard_of_is_terminated_first() {
    check_nothing(running().never_heard().at_time(15 * MINUTE - 1));
    check(running().never_heard().at_time(15 * MINUTE), "interrupted i-1 NoHeartbeat: note ended i-1, terminate i-1");
    check_nothing(running().never_heard().observing());
}

#[test]
fn a_machine_whose_heart_has_stopped_is_terminated_first() {
    check_nothing(running().heart(HOUR - 10 * MINUTE + 1));
    check(running().heart(HOUR - 10 * MINUTE), "interrupted i-1 HeartbeatStopped: note ended i-1, terminate i-1");
    check_nothing(running().heart(0).observing());
}

#[test]
fn silence_before_the_end_of_all_time_ends_the_job() {
    let given = running().at_time(7 * HOUR + 50 * MINUTE).heart(7 * HOUR);
    check(given, "expired with i-1: note over, terminate i-1");
}

#[test]
fn a_machine_that_outlives_its_end_is_terminated() {
    let given = |seconds: i64| running().at_time(8 * HOUR + seconds).heart(8 * HOUR + seconds);
    check_nothing(given(5 * MINUTE - 1));
    check(given(5 * MINUTE), "expired with i-1: note over, terminate i-1");
    check_nothing(given(5 * MINUTE).observing());
    check(given(5 * MINUTE).head_unknown(), "interrupted i-1 Overdue: note ended i-1, terminate i-1");
    let late = given(5 * MINUTE).job(|job| {
        if let Phase::Running(placed) = &mut job.phase {
            placed.launched_at = at(3 * HOUR);
        }
    });
    check(late, "interrupted i-1 Overdue: note ended i-1, terminate i-1");
}

#[test]
fn a_clock_that_goes_back_a_little_changes_nothing() {
    check_nothing(running().at_time(-MINUTE));
    check_nothing(running().at_time(-MINUTE).never_heard());
    let given = running().at_time(-MINUTE).warned("i-1").next();
    assert_eq!(given.job.used.seconds, MINUTE);
    let long_ago = running().at_time(-HOUR).warned("i-1").next();
    assert_eq!(long_ago.job.used.seconds, 0);
}

#[test]
fn an_interrupted_machine_is_terminated_until_it_is_seen_gone() {
    check(interrupted(), "interrupted i-1 HeartbeatStopped: terminate i-1");
    check(interrupted().sight(MachineSight::Unknown), "interrupted i-1 HeartbeatStopped: terminate i-1");
    check(interrupted().with_machine(InstanceState::Stopped, None), "interrupted i-1 HeartbeatStopped: terminate i-1");
    check_nothing(interrupted().answered(EffectResult::Terminated));
    check_nothing(interrupted().observing());
    check(
        interrupted().with_machine(InstanceState::ShuttingDown, A_PERSON),
        "submitted: note lost i-1 HeartbeatStopped, rank",
    );
    check(
        interrupted().with_machine(InstanceState::Terminated, A_PERSON),
        "submitted: note lost i-1 HeartbeatStopped, rank",
    );
}

#[test]
fn an_interrupted_machine_that_ec2_does_not_know_is_gone_after_a_while() {
    let absent = |seconds| interrupted().sight(MachineSight::Absent).at_time(HOUR + seconds);
    check(absent(15 * MINUTE - 1), "interrupted i-1 HeartbeatStopped: terminate i-1");
    check(absent(15 * MINUTE), "submitted: note lost i-1 HeartbeatStopped, rank");
}

#[test]
fn an_interrupted_machine_is_replaced_from_a_ranking_that_is_young() {
    let given = interrupted().at_time(14 * MINUTE).with_machine(InstanceState::Terminated, None);
    check(given, "launching 2.1.1: note lost i-1 HeartbeatStopped, launch g5.xlarge until 20:00:00");
}

#[test]
fn an_interrupted_machine_that_cannot_be_ended_ends_the_job_when_its_time_is_over() {
    check(interrupted().at_time(7 * HOUR + 46 * MINUTE), "expired with i-1: note over, terminate i-1");
}

#[test]
fn a_result_or_a_cancel_ends_an_interrupted_job() {
    check(interrupted().result(1, true), "succeeded with i-1: note over, release");
    check(interrupted().cancelled(), "cancelled with i-1: note over, terminate i-1");
}

#[test]
fn an_attempt_with_a_new_checkpoint_made_progress() {
    let given = running().checkpoint(1, 300).next();
    let expect = JobProgress { step: Some(300), attempt: 1, attempts_without: 0 };
    assert_eq!(given.job.progress, expect);
    let lost = |given: JobInput| given.warned("i-1").next().job.progress;
    assert_eq!(lost(given.clone()), expect, "it made progress, whatever came after");
    let without = third().job(|job| job.progress = JobProgress { step: Some(300), attempt: 2, attempts_without: 0 });
    assert_eq!(lost(without.clone()).attempts_without, 1);
    // What an earlier attempt wrote is none, and neither is what is of an attempt that was not launched yet.
    for (attempt, step) in [(2, 300), (2, 299), (1, 300), (4, 400)] {
        assert_eq!(lost(without.clone().checkpoint(attempt, step).next()).attempts_without, 1, "{attempt} {step}");
    }
}

#[test]
fn a_checkpoint_of_the_same_or_a_lower_step_is_progress_of_the_attempt_that_wrote_it() {
    for step in [300, 120] {
        let progress = third().checkpoint(3, step).next().job.progress;
        assert_eq!(progress, JobProgress { step: Some(300), attempt: 3, attempts_without: 0 }, "the step never falls");
        check(
            third().checkpoint(3, step).with_machine(InstanceState::Terminated, RECLAIMED),
            "submitted: note lost i-1 Reclaimed, rank",
        );
    }
}

#[test]
fn one_that_may_be_cut_off_is_progress_where_its_step_is_higher_or_it_was_written_over_one_that_counts() {
    let before = |step| Checkpoint { attempt: 2, step, rewrite: 0 };
    let cases = [(299, 299, false), (300, 200, false), (300, 300, true), (301, 200, true)];
    for (step, kept, counts) in cases {
        let given = third().checkpoint(3, step).facts(|facts| {
            let head = facts.head.iter_mut().flatten();
            head.for_each(|head| {
                head.unverified.extend(head.checkpoint);
                head.kept = vec![before(kept)];
            });
        });
        let progress = given.next().job.progress;
        assert_eq!(progress.attempt == 3 && progress.attempts_without == 0, counts, "{step}");
    }
}

/// Attempt 3, and only attempt 0 wrote a checkpoint.
fn third() -> JobInput {
    running().job(|job| {
        job.attempt = 3;
        job.progress = JobProgress { step: Some(300), attempt: 0, attempts_without: 2 };
        if let Phase::Running(placed) = &mut job.phase {
            placed.attempt = 3;
        }
    })
}

#[test]
fn attempts_without_progress_end_the_job() {
    let given = third().with_machine(InstanceState::Terminated, RECLAIMED);
    check(given.clone(), "failed: note lost i-1 Reclaimed, note over, release");
    let Phase::Ended(ended) = given.clone().next().job.phase else { unreachable!() };
    assert!(ended.why.starts_with("3 attempts in a row made no progress"), "{}", ended.why);
    check(given.clone().checkpoint(3, 301), "submitted: note lost i-1 Reclaimed, rank");
    check(given.facts(|facts| facts.no_progress_attempts_max = 4), "submitted: note lost i-1 Reclaimed, rank");
}

#[test]
fn whether_an_attempt_made_progress_is_read_before_the_job_ends_and_after_its_last_two_minutes() {
    let warned = third().warned("i-1");
    check(warned.clone(), "submitted: note lost i-1 Reclaimed");
    let then = warned.next().facts(|facts| (facts.warned, facts.cancel) = (None, Some(None)));
    let wanted = wants(&then.job, false, then.now);
    assert!(wanted.head && wanted.previous_attempt);
    // Once it is gone, it writes nothing more.
    let gone = then.clone().facts(|facts| {
        (facts.head, facts.previous_attempt) =
            (Some(None), MachineSight::Seen { state: InstanceState::Terminated, reason: None });
    });
    check(gone.at_time(HOUR + MINUTE), "failed: note over, release");
    check_nothing(then.clone().at_time(HOUR + 3 * MINUTE));
    check_nothing(then.clone().at_time(HOUR + MINUTE).facts(|facts| facts.head = Some(None)));
    let read = then.at_time(HOUR + 3 * MINUTE);
    check(read.clone().facts(|facts| facts.head = Some(None)), "failed: note over, release");
    check(read.clone().checkpoint(3, 301), "submitted: rank");
    check(read.result(3, true), "succeeded: note over, release");
}

#[test]
fn a_warning_at_the_end_of_all_time_leaves_two_minutes_for_a_result() {
    let given = running().at_time(7 * HOUR + 50 * MINUTE).warned("i-1");
    check(given.clone(), "submitted: note lost i-1 Reclaimed");
    let then = given.next().facts(|facts| (facts.warned, facts.cancel, facts.head) = (None, Some(None), Some(None)));
    check_nothing(then.clone().at_time(7 * HOUR + 51 * MINUTE));
    check(then.clone().at_time(7 * HOUR + 52 * MINUTE), "expired: note over, release");
    check(then.result(1, true), "succeeded: note over, release");
}

#[test]
fn a_predecessor_is_watched_until_it_is_gone() {
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
    let young = running().at_time(10 * MINUTE).heart(9 * MINUTE).after(MachineSight::Absent);
    assert!(young.next().job.previous_attempt.is_some(), "EC2 may not know it yet");
}

#[test]
fn an_older_predecessor_is_not_forgotten_where_the_newer_machine_is_gone() {
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
fn a_predecessor_that_does_not_go_is_terminated() {
    let there = MachineSight::Seen { state: InstanceState::Running, reason: None };
    let since =
        |given: JobInput, seconds: i64| given.at_time(HOUR + seconds).heart(HOUR + seconds).after(there.clone());
    check_nothing(since(running(), 5 * MINUTE - 1));
    check_nothing(since(running(), 5 * MINUTE).observing());
    check(since(running(), 5 * MINUTE), "running i-1: terminate i-0");
    check_nothing(since(running(), 5 * MINUTE).answered(EffectResult::Terminated));
    let waits = || {
        waiting()
            .job(|job| job.phase = Phase::Waiting(CapacityWait { until: at(9 * HOUR), passes: 9, said: String::new() }))
    };
    check(since(waits(), 5 * MINUTE), "waiting after 9: terminate i-0");
    let holds = held(HoldReason::Quota).job(|job| {
        if let Phase::Held(held) = &mut job.phase {
            held.until = at(9 * HOUR);
        }
    });
    check(since(holds, 5 * MINUTE), "held by quota: terminate i-0");
}

#[test]
fn what_is_known_of_the_machine_before_is_not_taken_for_what_is_known_of_the_one_that_was_lost() {
    let there = MachineSight::Seen { state: InstanceState::Running, reason: None };
    let given =
        interrupted().at_time(7 * HOUR + 50 * MINUTE).after(there).with_machine(InstanceState::ShuttingDown, A_PERSON);
    check(given.clone(), "expired: note lost i-1 HeartbeatStopped, note over, release");
    assert_eq!(given.next().job.previous_attempt.unwrap().instance, "i-1".into());
}
