use model::instance::InstanceState;

use super::fixture::*;
use crate::*;

/// In every phase in which there may be a result of the first attempt.
fn phases() -> Vec<(JobInput, &'static str)> {
    let second = |given: JobInput| given.job(|job| job.attempt = job.attempt.max(1));
    vec![
        (second(submitted()), ""),
        (second(reserving()), ""),
        (running(), " with i-1"),
        (interrupted(), " with i-1"),
        (second(waiting()), ""),
        (second(held(HoldReason::Budget)), ""),
        (second(held(HoldReason::Observing)).observing(), ""),
    ]
}

#[test]
fn a_result_ends_the_job_in_every_phase() {
    for (given, machine) in phases() {
        let closes =
            if given.job.unreleased().is_some() { ": note over, release" } else { ", closed: note over, forget" };
        check(given.clone().result(1, true), &format!("succeeded{machine}{closes}"));
        check(given.clone().result(1, true).cancelled(), &format!("succeeded{machine}{closes}"));
        check(given.clone().result(1, false), &format!("failed{machine}{closes}"));
        let ended = given.result(1, false).next();
        let Phase::Ended(ended) = ended.job.phase else { unreachable!() };
        assert_eq!(ended.why, "the command has failed with exit code 3");
    }
}

#[test]
fn an_end_is_notified_once_in_the_words_of_its_source() {
    let why = |given: JobInput| match given.next().job.phase {
        Phase::Ended(ended) => ended.why,
        other => panic!("{other:?}"),
    };
    let in_head = |message: &str| {
        why(running().result(1, false).facts(|facts| {
            let result = facts.head.iter_mut().flatten().find_map(|head| head.result.as_mut());
            message.clone_into(&mut result.unwrap().why);
        }))
    };
    assert_eq!(in_head("`setup` has failed with exit code 3"), "`setup` has failed with exit code 3");
    assert_eq!(in_head(""), "the command has failed with exit code 3");
    assert_eq!(why(running().result(1, true)), "the command has succeeded");
    assert_eq!(why(running().exit(Some(ExitReason::Succeeded))), "said so");
}

#[test]
fn a_cancel_ends_the_job_in_every_phase() {
    for (given, machine) in phases() {
        let does = match (machine.is_empty(), given.job.unreleased().is_some()) {
            (false, _) => ": note over, terminate i-1",
            (true, true) => ": note over, release",
            (true, false) => ", closed: note over, forget",
        };
        check(given.clone().cancelled(), &format!("cancelled{machine}{does}"));
        check(given.head_unknown().cancelled(), &format!("cancelled{machine}{does}"));
    }
}

#[test]
fn what_is_not_known_to_be_cancelled_is_not() {
    for (given, _) in phases() {
        let unknown = given.clone().facts(|facts| facts.cancel = None);
        assert_eq!(unknown.next().job, given.next().job);
    }
}

#[test]
fn a_result_of_an_attempt_that_was_never_launched_is_none() {
    check_nothing(running().result(2, true));
}

#[test]
fn a_record_of_another_attempt_is_no_result() {
    let given = running().exit(Some(ExitReason::Succeeded)).facts(|facts| {
        facts.exit.iter_mut().flatten().for_each(|exit| exit.attempt = 2);
    });
    check_nothing(given);
    check_nothing(waiting().exit(Some(ExitReason::Succeeded)));
    check_nothing(running().exit(Some(ExitReason::Expired)));
}

#[test]
fn the_agent_has_five_minutes_to_shut_down_after_a_result() {
    for result in [JobResult::Succeeded, JobResult::Failed] {
        let word = format!("{result:?}").to_lowercase();
        let given = || ended(result).job(release).with_machine(InstanceState::Running, None);
        check_nothing(given().at_time(HOUR + 5 * MINUTE - 1));
        check(given().at_time(HOUR + 5 * MINUTE), &format!("{word} with i-1: terminate i-1"));
        check_nothing(given().at_time(HOUR + 5 * MINUTE).observing());
    }
}

fn release(job: &mut Job) {
    if let Phase::Ended(ended) = &mut job.phase {
        ended.released = true;
    }
}

#[test]
fn a_cancelled_or_expired_job_terminates_its_machine_until_it_is_gone() {
    for result in [JobResult::Cancelled, JobResult::Expired] {
        let word = format!("{result:?}").to_lowercase();
        check(ended(result), &format!("{word} with i-1: terminate i-1"));
        check(ended(result).knowing_nothing().at_time(48 * HOUR), &format!("{word} with i-1: terminate i-1"));
        check(ended(result).observing(), &format!("{word} with i-1: release"));
    }
}

#[test]
fn money_is_given_back_whether_the_machine_could_be_ended_or_not() {
    check(ended(JobResult::Cancelled).answered(EffectResult::Terminated), "cancelled with i-1: release");
    let given = ended(JobResult::Cancelled).answered(EffectResult::Released(true));
    check(given, "cancelled with i-1");
    check_nothing(ended(JobResult::Cancelled).answered(EffectResult::Released(false)));
}

#[test]
fn it_is_closed_once_its_machine_is_gone_and_its_money_is_given_back() {
    let gone = || ended(JobResult::Cancelled).with_machine(InstanceState::Terminated, None);
    check(gone(), "cancelled: release");
    check(gone().next().answered(EffectResult::Released(true)), "cancelled, closed: forget");
    check(gone().job(release), "cancelled, closed: forget");
    assert_eq!(gone().next().job.used.seconds, HOUR);
    let closed = gone().job(release).next();
    check(closed.clone(), "cancelled, closed: forget");
    check(closed.knowing_nothing().result(1, true).cancelled(), "cancelled, closed: forget");
}

#[test]
fn a_machine_that_ec2_does_not_know_may_not_be_there_yet() {
    let absent = |seconds| ended(JobResult::Cancelled).job(release).sight(MachineSight::Absent).at_time(seconds);
    check(
        absent(15 * MINUTE - 1).job(|job| {
            if let Phase::Ended(ended) = &mut job.phase {
                ended.at = noon_plus(0);
            }
        }),
        "cancelled with i-1: terminate i-1",
    );
    check(absent(HOUR), "cancelled, closed: forget");
}

#[test]
fn a_job_is_not_closed_while_its_previous_machine_exists() {
    let there = MachineSight::Seen { state: InstanceState::Running, reason: None };
    let given =
        |sight| ended(JobResult::Succeeded).job(release).with_machine(InstanceState::Terminated, None).after(sight);
    check(given(MachineSight::Unknown), "succeeded");
    check(given(there.clone()), "succeeded: terminate i-0");
    check(given(there).observing(), "succeeded");
    check(given(MachineSight::Seen { state: InstanceState::ShuttingDown, reason: None }), "succeeded");
    check(given(MachineSight::Absent), "succeeded, closed: forget");
}

#[test]
fn a_job_for_which_nothing_was_reserved_is_closed_at_once() {
    check(submitted().cancelled(), "cancelled, closed: note over, forget");
}

#[test]
fn a_job_expires_if_its_time_is_over_before_its_first_launch() {
    let late = |given: JobInput| given.job(|job| job.terms.finish_by = Some(noon_plus(HOUR))).at_time(50 * MINUTE);
    check(late(submitted()), "expired, closed: note over, forget");
    check(
        late(held(HoldReason::Budget).job(|job| job.phase = held_until(9 * HOUR))),
        "expired, closed: note over, forget",
    );
    let waits = waiting().job(|job| job.phase = waiting_until(9 * HOUR));
    check(late(waits), "expired, closed: note over, forget");
    let Phase::Ended(ended) = late(submitted()).next().job.phase else { unreachable!() };
    assert!(ended.why.starts_with("until its finish_by, 2026-09-01T13:00:00Z, 10m are left"), "{}", ended.why);
}

fn held_until(seconds: i64) -> Phase {
    Phase::Held(LaunchHold { by: HoldReason::Budget, why: String::new(), until: noon_plus(seconds), passes: 0 })
}

fn waiting_until(seconds: i64) -> Phase {
    Phase::Waiting(CapacityWait { until: noon_plus(seconds), passes: 9, message: String::new() })
}

#[test]
fn a_job_whose_money_lasts_for_no_candidate_expires() {
    let given = submitted().job(|job| job.terms.max_usd = Some(model::money::Amount::from_usd(0.2)));
    let given = given.answered(EffectResult::Ranked(Ok(ranking(noon_plus(0)))));
    check(given.clone(), "expired, closed: note over, forget");
    let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
    assert!(ended.why.starts_with("of its max_usd of $0.20 $0.20 are left, which last for 12m"), "{}", ended.why);
}

#[test]
fn an_unreadable_result_ends_the_job_an_hour_after_its_machine() {
    let itself = Some("Client.InstanceInitiatedShutdown");
    let gone = running().with_machine(InstanceState::Terminated, itself).head_unknown();
    check_nothing(gone.clone().at_time(9 * HOUR - 1));
    check(gone.clone().at_time(9 * HOUR), "expired: note over, release");
    check(gone.clone().sight(MachineSight::Absent).at_time(9 * HOUR), "expired: note over, release");
    let Phase::Ended(ended) = gone.clone().at_time(9 * HOUR).next().job.phase else { unreachable!() };
    assert!(ended.why.starts_with("head.json could not be read"), "{}", ended.why);
    // It may still be there, it was not read, or it is read after all.
    check_nothing(gone.clone().sight(MachineSight::Unknown).at_time(9 * HOUR));
    let warned = gone.clone().warned("i-1").at_time(9 * HOUR).next();
    assert!(!matches!(warned.job.phase, Phase::Ended(_)));
    check(gone.result(1, true).at_time(9 * HOUR), "succeeded: note over, release");
}

#[test]
fn a_job_without_a_readable_head_is_over_an_hour_after_its_end() {
    let given = running().job(|job| {
        job.phase = Phase::Submitted;
        job.used.seconds = job.terms.max_runtime_seconds;
    });
    check(given.clone().head_unknown(), "submitted: release");
    let given = given.released();
    check_nothing(given.clone().head_unknown().at_time(9 * HOUR - 1));
    check(given.clone().head_unknown().at_time(9 * HOUR), "expired, closed: note over, forget");
    check_nothing(given.clone().head_unknown().after(MachineSight::Unknown).at_time(9 * HOUR));
    check(given.result(1, true).at_time(9 * HOUR), "succeeded, closed: note over, forget");
}

#[test]
fn an_unreadable_exit_record_does_not_keep_a_job_for_ever() {
    let given =
        running().with_machine(InstanceState::Terminated, Some("Client.InstanceInitiatedShutdown")).facts(|facts| {
            (facts.exit, facts.head) = (None, Some(None));
        });
    check_nothing(given.clone().at_time(9 * HOUR - 1));
    check(given.at_time(9 * HOUR), "expired: note lost i-1 Overdue, note over, release");
}
