use model::instance::InstanceState;

use super::fixture::*;
use super::retry::{alone, retrying};
use crate::*;

#[track_caller]
fn check(given: JobInput, warned: bool, expect: &str) {
    let needed = needed_facts(&given.job, warned, given.now);
    let fields = [
        (needed.machine, "machine"),
        (needed.previous_attempt, "previous_attempt"),
        (needed.head, "head"),
        (needed.heartbeat, "heartbeat"),
        (needed.exit, "exit"),
        (needed.cancel, "cancel"),
        (needed.dependencies, "dependencies"),
        (needed.earlier_members, "earlier members"),
    ];
    let names: Vec<&str> = fields.into_iter().filter_map(|(wanted, name)| wanted.then_some(name)).collect();
    assert_eq!(names.join(" "), expect);
}

#[test]
fn nothing_is_looked_at_between_a_warning_and_the_next_launch() {
    check(running().after(MachineSight::Unknown), true, "");
    check(running().warned("i-1").next(), true, "");
    check(launching(), true, "");
    check(launching().at_time(HOUR), true, "");
}

#[test]
fn a_launch_that_was_just_decided_wants_nothing() {
    check(launching(), false, "");
    check(launching().at_time(49), false, "");
    check(launching().at_time(MINUTE), false, "head cancel");
}

#[test]
fn a_running_job_wants_all_facts() {
    check(running(), false, "machine head heartbeat exit cancel");
    check(running().after(MachineSight::Unknown), false, "machine previous_attempt head heartbeat exit cancel");
    check(interrupted(), false, "machine head exit cancel");
}

#[test]
fn a_job_without_a_launch_leaves_nothing() {
    for given in [submitted(), reserving(), held(HoldReason::Budget)] {
        check(given, false, "cancel");
    }
    check(waiting(), false, "head cancel");
    for given in [waiting(), submitted().job(|job| job.attempt = 1), reserving().job(|job| job.attempt = 1)] {
        check(given.after(MachineSight::Unknown), false, "previous_attempt head cancel");
    }
}

#[test]
fn a_job_that_is_retried_watches_its_machine_until_that_is_gone() {
    check(retrying(), false, "machine head cancel");
    check(alone(retrying()), false, "head cancel");
    check(alone(retrying()).after(MachineSight::Unknown), false, "previous_attempt head cancel");
}

#[test]
fn an_ended_job_only_watches_its_machines() {
    check(ended(JobResult::Cancelled), false, "machine");
    let gone = ended(JobResult::Cancelled).with_machine(InstanceState::Terminated, None).next();
    check(gone.clone().after(MachineSight::Unknown), false, "previous_attempt");
    check(gone.clone(), false, "");
    check(gone.answered(EffectResult::Released(true)).next(), false, "");
}
