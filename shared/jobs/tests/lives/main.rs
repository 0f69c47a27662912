//! Every life of one job within bounds: stateright explores the very loop of `jobs` that `execution` drives, in a world of the state
//! bucket, of EC2, of a budget, and of machines with their agents. Reconcilers go round in it one step at a time.
//!
//! Proven, within the bounds, of every reachable state: at most one attempt is past the fence, and what an earlier one writes does not
//! count; one machine runs of an attempt (strays aside, below); a token never has two sets of parameters; the state knows every running
//! machine, or the run that launched it and lost the swap terminates it; a machine without heartbeats is terminated before it is replaced;
//! money is reserved before it is spent, and held only for what runs or is launched; a job computes no longer than it may; a machine that never ran is no attempt without progress; the
//! job succeeds only by head; its end is final, and once it is closed nothing runs; a failure uses up one retry, and a job whose command
//! fails ends only after its retries, or at once if a limit of the job ended it; a job that comes after another one is launched only once that has succeeded, and ends with it if that
//! fails; a member of a sweep is launched only in its turn. And from each moment without reconcilers, and so from every crash, it ends by itself, off the index
//! and released, if no more faults follow: whether agents work, never end, or stop sending heartbeats, whether nothing can be launched any
//! more, or EC2 ends every machine before it runs (`fair.rs`).
//!
//! What happens, in any order: one or two reconcilers that read, write by compare-and-swap, carry out an effect, lose its response, crash,
//! or pause at each of these, for as long as Lambda lets an invocation run; warnings that come, are repeated, come late, or never;
//! responses of EC2 that lag, and failed reads; refusals by capacity, quota and permission, by the budget and of the ranking; machines
//! interrupted with and without a warning, or ended by EC2 before they run, commands that fail, hanging agents, agents that give up, timers
//! that fail, people who terminate, stop and cancel; `CURFEW_MODE` that changes; a clock that moves to the next deadline, or over hours
//! without a reconciler.
//!
//! Bounds: one job of two hours in six, or of an estimated half hour in less than two whose deadline decides what it runs on; two pools
//! under one quota, three attempts without progress, one retry or none, one other job and one earlier member of its sweep that it waits for, or none. [`ModelBounds`] says how much goes wrong in one life, and how often
//! the clock moves on. Everything else is without bound, and the states are still finite.
//!
//! Assumed of EC2: one client token is one instance (for 24 hours; a refusal is not remembered, so the same token may succeed later);
//! `DescribeInstances` has an instance 10 minutes after its launch, and its end a minute later; it interrupts a machine two minutes after
//! its warning; a terminated machine writes for a while, and is gone by the next deadline. Of S3: reads follow writes, and a conditional
//! write compares. A second request of a refused token may come through late: such a stray machine is a launch without a decision. The
//! fence admits one launch of an attempt, and the other ends itself; so do its timer and `reap-instances`. The budget drops a reservation
//! that comes as late at its end.
//!
//! Left out: a state that becomes, in every byte, what it was before is not told apart from it by a swap that is still to come; the facts
//! of one look are of one moment; and EC2 alone ends the warned machine before one that is lost too.
//!
//! That the properties can fail is shown by faults put into the world on purpose ([`PlantedFault`]). `cargo test` explores the least;
//! `make simulate-model` more, optimised; `make simulate-model-all` the most.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics where something is not as it must be")]

mod agent;
mod dependencies;
mod ec2;
mod explore;
mod fair;
mod job;
mod planted_fault;
mod retries;
mod run;
mod time;
mod world;

use std::fmt::Write as _;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

use explore::{JobModel, ModelAction, ModelBounds};
use planted_fault::PlantedFault;
use world::ModelWorld;

/// As many as a small machine of continuous integration has.
const THREADS: usize = 2;

/// Explores all that can happen, and expects that nothing of it breaks a property.
fn explore(reconcilers: usize, faults: u8, jumps: u8) {
    explore_within(ModelBounds { reconcilers, faults, jumps, ..ModelBounds::default() });
}

/// The same of a job whose deadline decides what it runs on.
fn explore_deadline(reconcilers: usize, faults: u8, jumps: u8) {
    explore_within(ModelBounds { reconcilers, faults, jumps, has_deadline: true, ..ModelBounds::default() });
}

/// The same of a job whose command fails, and is retried once.
fn explore_retry(reconcilers: usize, faults: u8, jumps: u8) {
    explore_within(ModelBounds { reconcilers, faults, jumps, retries: 1, ..ModelBounds::default() });
}

/// The same of a member of a sweep that comes after another job, and waits for its turn.
fn explore_after(reconcilers: usize, faults: u8, jumps: u8) {
    explore_within(ModelBounds { reconcilers, faults, jumps, waits: true, ..ModelBounds::default() });
}

fn explore_within(bounds: ModelBounds) {
    let begun = Instant::now();
    let checker = JobModel::new(bounds, None).checker().threads(THREADS).finish_when(HasDiscoveries::AnyFailures);
    // Depth first: what is still to be explored is little.
    let checker = checker.spawn_dfs().join();
    println!(
        "{bounds:?}: {} states, {} steps between them, {} in a row at most, {:.0} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    let found = checker.discoveries();
    let (always, sometimes): (Vec<_>, Vec<_>) =
        checker.model().properties().into_iter().partition(|property| property.expectation == Expectation::Always);
    for property in always {
        if let Some(path) = found.get(property.name) {
            panic!("not so: {}\n{}", property.name, describe_path(path));
        }
    }
    let missing: Vec<_> =
        sometimes.iter().map(|property| property.name).filter(|name| !found.contains_key(name)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

/// Explores a world with a fault in it, and expects that what is broken first is that property.
fn finds(planted: PlantedFault, expect: &str) {
    finds_within(ModelBounds { reconcilers: 2, faults: 1, ..ModelBounds::default() }, planted, expect);
}

fn finds_within(bounds: ModelBounds, planted: PlantedFault, expect: &str) {
    let explored = JobModel::new(bounds, Some(planted));
    let checker = explored.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = checker.unique_state_count();
    let found = checker.discoveries();
    let Some(path) = found.get(expect) else { panic!("{planted:?}: in {states} states only {:?}", found.keys()) };
    println!("{planted:?}: after {states} states, not so: {expect}\n{}", describe_path(path));
}

/// How it came about, step by step.
fn describe_path(path: &Path<ModelWorld, ModelAction>) -> String {
    let mut text = String::new();
    for (world, action) in path.clone().into_vec() {
        let phase = format!("{:?}", world.state.phase);
        let phase = phase.split(['(', ' ']).next().unwrap_or_default();
        let action = action.map(|action| format!("{action:?}")).unwrap_or_default();
        writeln!(text, "{} attempt {} {phase:12} {action}", world.now, world.state.attempt).unwrap();
    }
    let last = path.last_state();
    writeln!(text, "state {:?}\nused {:?}", last.state.phase, last.state.used).unwrap();
    writeln!(
        text,
        "{:?}\nhead {:?}\nreserved {:?}\nbroken {:?}",
        last.state.progress, last.head, last.reserved, last.broken
    )
    .unwrap();
    writeln!(text, "previous attempt {:?}\n{:#?}", last.state.previous_attempt, last.machines).unwrap();
    text
}

#[test]
fn one_reconciler_one_fault() {
    explore(1, 1, 0);
}

#[test]
fn two_reconcilers_one_fault() {
    explore(2, 1, 0);
}

#[test]
fn two_reconcilers_while_time_passes() {
    explore(2, 0, 1);
}

#[test]
fn two_reconcilers_with_a_deadline_while_time_passes() {
    explore_deadline(2, 0, 1);
}

#[test]
fn two_reconcilers_with_a_retry_while_time_passes() {
    explore_retry(2, 0, 1);
}

#[test]
fn two_reconcilers_after_others_while_time_passes() {
    explore_after(2, 0, 1);
}

#[test]
fn one_reconciler_after_others_one_fault() {
    explore_after(1, 1, 0);
}

#[test]
#[ignore = "explored optimised: make simulate-model"]
fn simulate_two_reconcilers_after_others_one_fault() {
    explore_after(2, 1, 0);
}

#[test]
#[ignore = "explored optimised: make simulate-model"]
fn simulate_one_reconciler_with_a_retry_one_fault_while_time_passes() {
    explore_retry(1, 1, 1);
}

#[test]
#[ignore = "explored optimised: make simulate-model"]
fn simulate_one_reconciler_with_a_deadline_one_fault_while_time_passes() {
    explore_deadline(1, 1, 1);
}

#[test]
#[ignore = "explored optimised: make simulate-model"]
fn simulate_one_reconciler_two_faults() {
    explore(1, 2, 0);
}

#[test]
#[ignore = "explored optimised: make simulate-model"]
fn simulate_two_reconcilers_while_time_passes_twice() {
    explore(2, 0, 2);
}

#[test]
#[ignore = "explored optimised: make simulate-model"]
fn simulate_two_reconcilers_one_fault_while_time_passes() {
    explore(2, 1, 1);
}

#[test]
#[ignore = "takes minutes and gigabytes: make simulate-model-all"]
fn deep_two_reconcilers_two_faults() {
    explore(2, 2, 0);
}

#[test]
#[ignore = "takes minutes and gigabytes: make simulate-model-all"]
fn deep_one_reconciler_two_faults_while_time_passes() {
    explore(1, 2, 1);
}

#[test]
fn a_token_that_is_dropped_is_found() {
    finds(PlantedFault::TokenDropped, "one machine runs of an attempt");
}

#[test]
fn a_swap_that_is_ignored_is_found() {
    finds(PlantedFault::SwapIgnored, "no machine is forgotten");
}

#[test]
fn a_fence_that_is_not_bumped_is_found() {
    finds(PlantedFault::FenceNotBumped, "what a fenced attempt writes does not count");
}

#[test]
fn a_fenced_reconciler_that_keeps_writing_is_found() {
    finds(PlantedFault::LoserKeepsWriting, "no machine is forgotten");
}

#[test]
fn a_loser_that_leaves_its_machine_is_found() {
    finds(PlantedFault::LoserLeaves, "who loses the swap of a launch ends its machine");
}

#[test]
fn effects_that_are_not_done_again_are_found() {
    finds(PlantedFault::EffectsOnce, "it comes to an end");
}

#[test]
fn money_that_is_not_given_back_is_found() {
    finds(PlantedFault::ReleaseForgotten, "money is held only for what runs");
}

#[test]
fn a_late_release_of_what_was_reserved_since_is_found() {
    let bounds = ModelBounds { reconcilers: 2, faults: 1, jumps: 1, ..ModelBounds::default() };
    finds_within(bounds, PlantedFault::ReleaseUnnumbered, "money is reserved before it is spent");
}

#[test]
fn an_imagined_heartbeat_is_found() {
    finds(PlantedFault::HeartbeatImagined, "what never ran is no attempt without progress");
}

#[test]
fn a_failure_that_its_retry_leaves_in_head_is_found() {
    let bounds = ModelBounds { reconcilers: 1, jumps: 1, retries: 1, ..ModelBounds::default() };
    finds_within(bounds, PlantedFault::FailureKept, "it fails only after its retries");
}

#[test]
fn a_job_that_begins_before_the_other_is_done_is_found() {
    let bounds = ModelBounds { reconcilers: 1, waits: true, ..ModelBounds::default() };
    finds_within(bounds, PlantedFault::SuccessImagined, "it is launched only after the other job succeeded");
}

#[test]
fn a_member_that_begins_before_its_turn_is_found() {
    let bounds = ModelBounds { reconcilers: 1, waits: true, ..ModelBounds::default() };
    finds_within(bounds, PlantedFault::TurnImagined, "it is launched only in its turn");
}
