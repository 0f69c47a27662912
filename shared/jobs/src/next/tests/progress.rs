//! What is progress, and how many attempts may do without it.

use model::instance::InstanceState;

use super::fixture::*;
use crate::*;

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
fn an_unverified_checkpoint_is_progress_if_its_step_is_higher_or_it_overwrote_one_that_counts() {
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

#[test]
fn a_checkpoint_of_a_command_that_began_again_is_progress_once_its_step_is_higher() {
    for (step, began_again, counts) in [(300, Some(3), false), (301, Some(3), true), (300, Some(2), true)] {
        let given = third().checkpoint(3, step).facts(|facts| {
            let head = facts.head.iter_mut().flatten();
            head.for_each(|head| head.began_again = began_again);
        });
        assert_eq!(given.next().job.progress.attempt == 3, counts, "{step} {began_again:?}");
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
    let then = warned.next().released().facts(|facts| (facts.warned, facts.cancel) = (None, Some(None)));
    let wanted = needed_facts(&then.job, false, then.now);
    assert!(wanted.head && wanted.previous_attempt);
    // Once it is gone, it writes nothing more.
    let gone = then.clone().facts(|facts| {
        (facts.head, facts.previous_attempt) =
            (Some(None), MachineSight::Seen { state: InstanceState::Terminated, reason: None });
    });
    check(gone.at_time(HOUR + MINUTE), "failed, closed: note over, forget");
    check_nothing(then.clone().at_time(HOUR + 3 * MINUTE));
    check_nothing(then.clone().at_time(HOUR + MINUTE).facts(|facts| facts.head = Some(None)));
    let read = then.at_time(HOUR + 3 * MINUTE);
    check(read.clone().facts(|facts| facts.head = Some(None)), "failed: note over");
    check(read.clone().checkpoint(3, 301), "submitted: rank");
    check(read.result(3, true), "succeeded: note over");
}

#[test]
fn a_job_without_progress_names_the_loss_of_its_last_machine() {
    let given = third().with_machine(InstanceState::Terminated, Some("Client.InternalError"));
    let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
    assert!(
        ended.why.contains("Its last machine was terminated by EC2 at its launch (Client.InternalError)"),
        "{}",
        ended.why
    );
}

#[test]
fn a_job_without_progress_says_why_its_last_machine_could_not_run_it() {
    let broken = third().with_machine(InstanceState::Terminated, ITSELF).exit(Some(ExitReason::Broken));
    let why = |message: &str| {
        let given = broken.clone().facts(|facts| {
            facts.exit.iter_mut().flatten().for_each(|exit| message.clone_into(&mut exit.why));
        });
        let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
        ended.why
    };
    let explained = why("there is no user \u{1b}nobody2");
    assert!(explained.ends_with(". Its last machine could not run it: there is no user  nobody2"), "{explained}");
    let silent = why("");
    assert!(silent.ends_with(". Its last machine shut itself down and left no result"), "{silent}");
}
