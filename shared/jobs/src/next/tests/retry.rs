use model::instance::InstanceState;
use model::money::Amount;

use super::fixture::*;
use crate::*;

/// `i-1` runs, and its document allows so many retries.
fn with_retries(retries: u32) -> JobInput {
    running().job(|job| job.terms.retries = retries)
}

/// The command on `i-1` failed at one o'clock, and the first of two retries follows a minute later.
pub(crate) fn retrying() -> JobInput {
    with_retries(2).result(1, false).next()
}

/// The same once its machine is gone.
pub(crate) fn alone(given: JobInput) -> JobInput {
    given.with_machine(InstanceState::Terminated, ITSELF).next().released()
}

fn seen(state: InstanceState) -> MachineSight {
    MachineSight::Seen { state, reason: None }
}

fn used(given: &JobInput) -> (u32, u32) {
    (given.job.retries.used, given.job.retries.attempt)
}

#[track_caller]
fn wait_of(given: &JobInput) -> &RetryWait {
    match &given.job.phase {
        Phase::Retrying(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

/// Why a job whose command failed is over.
#[track_caller]
fn check_failed(given: JobInput, expect: &str) {
    match given.next().job.phase {
        Phase::Ended(JobEnd { result: JobResult::Failed, why, .. }) => assert_eq!(why, expect),
        other => panic!("{other:?}"),
    }
}

fn with_code(given: JobInput, code: Option<i32>) -> JobInput {
    given.facts(|facts| {
        facts.head.iter_mut().flatten().flat_map(|head| &mut head.result).for_each(|one| one.code = code);
    })
}

#[test]
fn a_failed_command_is_retried_while_retries_are_left() {
    check(with_retries(1).result(1, false), "retrying with i-1: note waits");
    check(with_retries(0).result(1, false), "failed with i-1: note over, release");
    let given = retrying();
    assert_eq!(used(&given), (1, 1));
    let RetryWait { why, until, .. } = wait_of(&given);
    assert_eq!(why, "attempt 1: the command has failed with exit code 3; retry 1 of 2 at 13:01 UTC");
    assert_eq!(*until, noon_plus(HOUR + MINUTE));
    let last = with_retries(2).job(|job| job.retries = JobRetries { used: 2, attempt: 0 });
    let why = "the command has failed with exit code 3; its retries are used up (2 of 2)";
    check_failed(last.result(1, false), why);
}

#[test]
fn what_a_limit_of_the_job_ended_is_not_retried() {
    let ended = with_code(with_retries(2).result(1, false), None).facts(|facts| {
        for result in facts.head.iter_mut().flatten().flat_map(|head| &mut head.result) {
            (result.is_final, result.why) = (true, "every GPU was idle".to_owned());
        }
    });
    check_failed(ended.clone(), "every GPU was idle; it is not retried");
    check_failed(ended.job(|job| job.terms.retries = 0), "every GPU was idle");
    let in_exit = with_retries(2).exit(Some(ExitReason::Failed)).facts(|facts| {
        facts.exit.iter_mut().flatten().for_each(|exit| exit.is_final = true);
    });
    check_failed(in_exit, "said so; it is not retried");
}

#[test]
fn a_failure_is_read_from_the_exit_record_as_well() {
    check(with_retries(1).exit(Some(ExitReason::Failed)), "retrying with i-1: note waits");
    check(with_retries(1).result(1, false).exit(Some(ExitReason::Failed)), "retrying with i-1: note waits");
}

#[test]
fn a_failure_is_counted_once() {
    check_nothing(retrying());
    let second = running().job(|job| {
        (job.attempt, job.terms.retries) = (2, 2);
        job.retries = JobRetries { used: 1, attempt: 1 };
        job.phase = Phase::Running(placed("i-2", 2));
    });
    check_nothing(second.clone().result(1, false));
    check(second.clone().result(2, false), "retrying with i-2: note waits");
    assert_eq!(used(&second.result(2, false).next()), (2, 2));
}

#[test]
fn the_wait_grows_up_to_fifteen_minutes() {
    for (before, minutes) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 15), (9, 15)] {
        let given = with_retries(10).job(|job| job.retries.used = before).result(1, false).next();
        assert_eq!(wait_of(&given).until, noon_plus(HOUR + minutes * MINUTE), "{before}");
    }
}

#[test]
fn the_failed_machine_is_gone_before_the_next_launch() {
    let is_there = |seconds| retrying().at_time(HOUR + seconds).with_machine(InstanceState::Running, None);
    check(is_there(4 * MINUTE + 59), "retrying with i-1");
    check(is_there(5 * MINUTE), "retrying with i-1: terminate i-1");
    check_nothing(is_there(5 * MINUTE).observing());
    check_nothing(is_there(5 * MINUTE).answered(EffectResult::Terminated));
    check_nothing(retrying().at_time(2 * HOUR).sight(MachineSight::Unknown));
    let gone = |seconds| retrying().at_time(HOUR + seconds).with_machine(InstanceState::Terminated, ITSELF);
    check(gone(MINUTE - 1), "retrying");
    check(gone(MINUTE), "submitted: rank");
    assert_eq!(gone(MINUTE).next().job.used.seconds, HOUR + MINUTE);
    let older = |sight| alone(retrying()).at_time(HOUR + MINUTE).after(sight);
    check(older(seen(InstanceState::Running)), "retrying");
    check(older(seen(InstanceState::Running)).at_time(HOUR + 5 * MINUTE), "retrying: terminate i-0");
    check(older(seen(InstanceState::Terminated)), "submitted: rank");
}

/// Until then it counts against the quota, and a launch would be refused.
#[test]
fn the_failed_machine_has_shut_down_before_the_next_launch() {
    let leaving = retrying().at_time(HOUR + MINUTE).with_machine(InstanceState::ShuttingDown, ITSELF);
    check(leaving.clone(), "retrying");
    let leaving = leaving.next().released();
    let previous_attempt = JobMachine { ends_at: noon_plus(HOUR + MINUTE), ..placed("i-1", 1) };
    assert_eq!(leaving.job.previous_attempt, Some(previous_attempt));
    assert_eq!(leaving.job.used.seconds, HOUR + MINUTE);
    let seen_later =
        |state| leaving.clone().at_time(HOUR + 10 * MINUTE).facts(|facts| facts.previous_attempt = seen(state));
    check_nothing(seen_later(InstanceState::ShuttingDown));
    check(seen_later(InstanceState::Terminated), "submitted: rank");
    assert_eq!(seen_later(InstanceState::Terminated).next().job.used.seconds, HOUR + MINUTE);
    let older = retrying().after(seen(InstanceState::Running)).with_machine(InstanceState::ShuttingDown, ITSELF);
    assert_eq!(older.next().job.previous_attempt.unwrap().instance, "i-0".into(), "it may still cost money");
}

#[test]
fn a_tag_holds_the_failed_machine_too() {
    let held = |seconds| {
        let given = retrying().at_time(HOUR + seconds).with_machine(InstanceState::Running, None);
        given.facts(|facts| facts.machine_hold = Some(MachineHold::Protected))
    };
    check_nothing(held(4 * MINUTE));
    check(held(5 * MINUTE), "retrying with i-1");
    assert_eq!(held(5 * MINUTE).next().job.machine_hold, Some(MachineHold::Protected));
    let released = held(5 * MINUTE).next().facts(|facts| facts.machine_hold = None);
    check(released, "retrying with i-1: terminate i-1");
}

#[test]
fn the_next_attempt_takes_the_fence_from_the_failure() {
    let given = alone(retrying()).at_time(HOUR + MINUTE);
    let given = given.next().answered(EffectResult::Ranked(Ok(ranking(noon_plus(HOUR + MINUTE)))));
    let (given, effects) = given.next().answered(EffectResult::Reserved(ReserveResult::Granted)).turn();
    assert_eq!(line(&given.job, &effects), "launching 2.1.0: launch g6.xlarge until 20:01:00");
    let Some(Effect::Launch(launch)) = effects.first() else { panic!("{effects:?}") };
    assert_eq!((launch.attempt, launch.retry_of), (2, 1));
    let head = given.facts.head.clone().flatten().unwrap();
    assert!(head.admits(launch.attempt, "0b", launch.retry_of) && !head.admits(launch.attempt, "0b", 0));
    let given = given.launched("i-2", HOUR + 2 * MINUTE).next();
    check_nothing(given.with_machine(InstanceState::Pending, None).heartbeat_at(HOUR).exit(None));
}

/// A machine was warned, and its replacement requested, before anybody read that the command had failed.
#[test]
fn a_failure_that_is_read_after_the_next_launch_is_retried_by_a_later_attempt() {
    let second = running().warned("i-1").job(|job| job.terms.retries = 2).next();
    let second = second.facts(|facts| facts.warned = None).launched("i-2", HOUR).next();
    let failed = second.with_machine(InstanceState::Running, None).result(1, false).exit(None);
    check(failed.clone(), "retrying with i-2: note waits");
    assert_eq!(used(&failed.next()), (1, 1));
    // A refused launch leaves the job without a machine, and its next one is another attempt.
    let refused = launching().job(|job| (job.attempt, job.terms.retries) = (2, 2)).no_capacity().result(1, false);
    check(refused.clone(), "retrying: note waits, release");
    assert_eq!((refused.next().job.passes, used(&refused.next())), (0, (1, 1)));
}

#[test]
fn an_interruption_uses_up_no_retry() {
    let second = |given: JobInput| {
        given.job(|job| {
            (job.attempt, job.terms.retries) = (2, 2);
            job.retries = JobRetries { used: 1, attempt: 1 };
            job.phase = Phase::Running(placed("i-2", 2));
        })
    };
    let lost = second(running()).with_machine(InstanceState::Terminated, RECLAIMED).next();
    assert_eq!((used(&lost), lost.job.lost), ((1, 1), Some(LossReason::Reclaimed)));
    let broken = with_retries(2).with_machine(InstanceState::Terminated, ITSELF).exit(Some(ExitReason::Broken)).next();
    assert_eq!((used(&broken), broken.job.lost), ((0, 0), Some(LossReason::ShutDown)));
    assert_eq!(broken.job.progress.attempts_without, 1);
    let failed = with_retries(2).result(1, false).next();
    assert_eq!(failed.job.progress.attempts_without, 0);
}

#[test]
fn a_person_ends_a_job_that_waits_to_be_retried() {
    check(retrying().cancelled(), "cancelled with i-1: note over, terminate i-1");
    check(alone(retrying()).cancelled(), "cancelled, closed: note over, forget");
    let why = "the command has failed with exit code 3; it is not retried: a person has cancelled the job";
    check_failed(with_retries(2).result(1, false).cancelled(), why);
}

#[test]
fn a_success_that_is_read_late_ends_the_wait() {
    check(alone(retrying()).result(1, true), "succeeded, closed: note over, forget");
}

#[test]
fn a_command_that_cannot_be_run_is_not_retried() {
    for code in [126, 127] {
        let why = format!(
            "the command has failed with exit code {code}; it is not retried: exit code {code} says that a command cannot be run"
        );
        check_failed(with_code(with_retries(2).result(1, false), Some(code)), &why);
    }
    for code in [None, Some(1), Some(137), Some(-1)] {
        check(with_code(with_retries(2).result(1, false), code), "retrying with i-1: note waits");
    }
}

#[test]
fn limits_count_over_all_attempts() {
    let until = |seconds| with_retries(2).job(|job| job.terms.finish_by = Some(noon_plus(seconds))).result(1, false);
    check(until(HOUR + 16 * MINUTE), "retrying with i-1: note waits");
    let left = "the command has failed with exit code 3; it is not retried: until its finish_by, 2026-09-01T13:15:59Z, 14m59s are left; \
                no attempt is begun with less than 15m";
    check_failed(until(HOUR + 16 * MINUTE - 1), left);
    let late = alone(until(HOUR + 16 * MINUTE).next());
    check(late.clone().at_time(HOUR + MINUTE), "submitted: rank");
    check(late.clone().at_time(HOUR + MINUTE + 1), "expired, closed: note over, forget");
    check(late.clone().observing().at_time(HOUR + MINUTE + 1), "expired, closed: note over, forget");
    let behind = late.clone().after(seen(InstanceState::Running));
    check(behind.clone().at_time(HOUR + MINUTE), "retrying");
    check(behind.clone().at_time(HOUR + MINUTE + 1), "expired: note over, terminate i-0");
    check(behind.head_unknown().at_time(HOUR + 5 * MINUTE), "submitted: terminate i-0");
    let spent = with_retries(2).job(|job| job.terms.max_usd = Some(Amount::from_usd(1.1))).result(1, false);
    assert!(matches!(spent.next().job.phase, Phase::Ended(JobEnd { result: JobResult::Failed, .. })));
}

#[test]
fn in_observe_mode_a_failure_is_read_and_nothing_is_launched() {
    check(with_retries(2).observing().result(1, false), "retrying with i-1: note waits");
    let due = alone(retrying()).at_time(2 * HOUR);
    check_nothing(due.clone().observing());
    check(due, "submitted: rank");
}

#[test]
fn money_is_reserved_again_before_a_retry() {
    let due = alone(retrying()).at_time(HOUR + MINUTE).job(|job| job.reserved = None).next();
    let ranked = due.answered(EffectResult::Ranked(Ok(ranking(noon_plus(HOUR + MINUTE)))));
    check(ranked.clone(), "reserving: reserve $28.00 until 21:01");
    let refused = EffectResult::Reserved(ReserveResult::Refused("the budget is spent".to_owned()));
    let held = ranked.next().answered(refused);
    check(held.clone(), "held by budget: note held, release");
    let held = held.next().released();
    assert_eq!(used(&held), (1, 1));
    check(held.at_time(HOUR + 6 * MINUTE), "submitted: rank");
}

/// Of two runs that read the same failure one writes it, and the other does nothing.
#[test]
fn a_second_run_that_reads_the_failure_changes_nothing() {
    let given = with_retries(2).result(1, false);
    let decide = || {
        let Reconciliation::Observe(decision) = Reconciliation::begin(Box::new(given.job.clone()), None) else {
            panic!("it observes")
        };
        decision.decide(given.facts.clone(), given.now)
    };
    let (Reconciliation::Write(first), Reconciliation::Write(second)) = (decide(), decide()) else {
        panic!("both write")
    };
    assert_eq!(first.job(), second.job());
    assert_eq!(second.lost(), Reconciliation::Lost);
    let Reconciliation::CarryOut(Effect::Record(_), rest) = first.written() else { panic!("it records") };
    let Reconciliation::Done(written) = rest.carried_out(None) else { panic!("nothing else is done") };
    check_nothing(JobInput { job: *written, ..given });
}
