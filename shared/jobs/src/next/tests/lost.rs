//! How a machine is lost, and what follows.

use model::instance::InstanceState;
use model::rule::Rule;

use super::fixture::*;
use crate::*;

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
fn a_machine_that_ended_at_its_deadline_is_not_replaced_without_time_left() {
    let given = running().at_time(8 * HOUR - 5 * MINUTE).with_machine(InstanceState::Terminated, ITSELF);
    check(given.clone().exit(Some(ExitReason::Expired)), "expired: note lost i-1 Overdue, note over, release");
    let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
    assert_eq!(ended.why, "of its max_runtime of 8h 5m are left; no attempt is begun with less than 15m");
}

#[test]
fn a_machine_that_began_late_is_replaced_after_its_end_for_the_time_that_is_left() {
    let given = running().at_time(8 * HOUR).with_machine(InstanceState::Terminated, ITSELF).job(|job| {
        if let Phase::Running(placed) = &mut job.phase {
            placed.launched_at = noon_plus(3 * HOUR);
        }
    });
    check(given, "submitted: note lost i-1 Overdue, rank");
}

#[test]
fn a_job_whose_machine_a_person_ended_is_not_launched_again() {
    for state in GOING {
        let given = running().with_machine(state, A_PERSON);
        check(given.clone(), "cancelled: note over, release");
        let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
        let stopped = matches!(state, InstanceState::Stopping | InstanceState::Stopped);
        let expect =
            if stopped { "i-1 was stopped by a person; it stays stopped" } else { "i-1 was terminated by a person" };
        assert!(ended.why.starts_with(expect), "{}", ended.why);
        assert_eq!(given.next().job.used.seconds, HOUR);
    }
}

#[test]
fn a_result_counts_before_what_a_person_did_to_the_machine() {
    check(running().with_machine(InstanceState::Terminated, A_PERSON).result(1, true), "succeeded: note over, release");
}

#[test]
fn a_machine_that_the_reaper_ends_at_its_time_has_expired() {
    let given = running().at_time(8 * HOUR + 10 * MINUTE).with_machine(InstanceState::ShuttingDown, A_PERSON);
    // It may still be going; the sight of it is that of a previous machine now.
    check(given, "expired: note lost i-1 Overdue, note over, release");
}

#[test]
fn a_machine_that_curfew_ended_says_so() {
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
        why.starts_with("i-1 was stopped by Curfew, for the rule over-budget, as was announced; it stays"),
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
fn a_machine_that_ec2_does_not_know_is_gone_only_after_a_while_and_in_silence() {
    let absent = |seconds| running().sight(MachineSight::Absent).at_time(seconds);
    check_nothing(absent(15 * MINUTE - 1).without_heartbeat());
    check_nothing(absent(15 * MINUTE).heartbeat_at(14 * MINUTE));
    check_nothing(absent(HOUR).facts(|facts| facts.heartbeat = None));
    check_nothing(absent(HOUR).heartbeat_at(0).head_unknown());
    check(absent(HOUR).heartbeat_at(0), "submitted: note lost i-1 Gone, rank");
    check(absent(15 * MINUTE).without_heartbeat(), "submitted: note lost i-1 Gone, rank");
}

#[test]
fn a_machine_without_any_heartbeat_is_terminated_first() {
    check_nothing(running().without_heartbeat().at_time(15 * MINUTE - 1));
    check(
        running().without_heartbeat().at_time(15 * MINUTE),
        "interrupted i-1 NoHeartbeat: note ended i-1, terminate i-1",
    );
    check_nothing(running().without_heartbeat().observing());
}

#[test]
fn a_machine_without_heartbeats_is_terminated_first() {
    check_nothing(running().heartbeat_at(HOUR - 10 * MINUTE + 1));
    check(
        running().heartbeat_at(HOUR - 10 * MINUTE),
        "interrupted i-1 HeartbeatStopped: note ended i-1, terminate i-1",
    );
    check_nothing(running().heartbeat_at(0).observing());
}

#[test]
fn silence_before_the_end_of_all_time_ends_the_job() {
    let given = running().at_time(7 * HOUR + 50 * MINUTE).heartbeat_at(7 * HOUR);
    check(given, "expired with i-1: note over, terminate i-1");
}

#[test]
fn a_machine_that_outlives_its_end_is_terminated() {
    let given = |seconds: i64| running().at_time(8 * HOUR + seconds).heartbeat_at(8 * HOUR + seconds);
    check_nothing(given(5 * MINUTE - 1));
    check(given(5 * MINUTE), "expired with i-1: note over, terminate i-1");
    check_nothing(given(5 * MINUTE).observing());
    check(given(5 * MINUTE).head_unknown(), "interrupted i-1 Overdue: note ended i-1, terminate i-1");
    let late = given(5 * MINUTE).job(|job| {
        if let Phase::Running(placed) = &mut job.phase {
            placed.launched_at = noon_plus(3 * HOUR);
        }
    });
    check(late, "interrupted i-1 Overdue: note ended i-1, terminate i-1");
}

#[test]
fn a_clock_that_goes_back_a_little_changes_nothing() {
    check_nothing(running().at_time(-MINUTE));
    check_nothing(running().at_time(-MINUTE).without_heartbeat());
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
