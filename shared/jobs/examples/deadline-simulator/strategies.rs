//! The policies that are compared.

use jiff::{SignedDuration, Timestamp};
use jobs::{Capacity, DeadlineSituation, SpotHistory, choose_by_launch};
use model::money::Rate;

use crate::Machine;
use crate::replay::{Market, Observation, Strategy, Task};

fn first_zone(spot: &[bool]) -> Option<Machine> {
    spot.iter().position(|is_available| *is_available).map(Machine::Spot)
}

fn slack(task: Task, seen: &Observation<'_>) -> i64 {
    task.deadline - seen.elapsed - (task.work - seen.done)
}

pub(crate) struct OnDemandOnly;

impl Strategy for OnDemandOnly {
    fn decide(&mut self, _: &Observation<'_>) -> Machine {
        Machine::OnDemand
    }
}

/// Spot whenever it can be had, and on-demand for good once the slack is gone.
pub(crate) struct Greedy {
    task: Task,
    step: i64,
    has_given_up: bool,
}

impl Greedy {
    pub(crate) fn new(task: Task, step: i64) -> Self {
        Self { task, step, has_given_up: false }
    }
}

impl Strategy for Greedy {
    fn decide(&mut self, seen: &Observation<'_>) -> Machine {
        self.has_given_up |= slack(self.task, seen) < self.task.restart + self.step;
        if self.has_given_up { Machine::OnDemand } else { first_zone_or_stay(seen).unwrap_or(Machine::None) }
    }
}

fn first_zone_or_stay(seen: &Observation<'_>) -> Option<Machine> {
    if matches!(seen.running, Machine::Spot(_)) { Some(seen.running) } else { first_zone(seen.spot) }
}

/// Uniform Progress, from the rules of "Can't Be Late" (NSDI 2024): progress is expected to grow evenly until the deadline.
pub(crate) struct UniformProgress {
    task: Task,
    step: i64,
}

impl UniformProgress {
    pub(crate) fn new(task: Task, step: i64) -> Self {
        Self { task, step }
    }

    fn expected_progress(&self, elapsed: i64) -> i64 {
        self.task.work * elapsed / self.task.deadline
    }
}

impl Strategy for UniformProgress {
    fn decide(&mut self, seen: &Observation<'_>) -> Machine {
        let restart = self.task.restart;
        let slack = slack(self.task, seen);
        // Safety net: on-demand while two restarts still fit.
        if slack < 2 * restart.max(self.step) {
            let may_stay = matches!(seen.running, Machine::Spot(_)) && slack >= restart + self.step;
            return if may_stay { seen.running } else { Machine::OnDemand };
        }
        // Exploitation: Spot until it is lost, and whenever it is there.
        if let Some(spot) = first_zone_or_stay(seen) {
            return spot;
        }
        // Hysteresis: on-demand until the line two restarts ahead is reached.
        let ahead = if seen.running == Machine::OnDemand { 2 * restart } else { 0 };
        if seen.done < self.expected_progress(seen.elapsed + ahead) { Machine::OnDemand } else { Machine::None }
    }
}

/// The product's policy. Like `run-jobs` it asks zone by zone, last where it was just lost.
pub(crate) struct Curfew {
    task: Task,
    step: i64,
    on_demand: Rate,
    spot: Rate,
    history: SpotHistory,
    /// The machine that ran in the last step.
    last: Machine,
}

impl Curfew {
    pub(crate) fn new(task: Task, market: &Market<'_>) -> Self {
        Self {
            task,
            step: market.step,
            on_demand: market.on_demand,
            spot: market.spot,
            history: SpotHistory::default(),
            last: Machine::None,
        }
    }
}

impl Strategy for Curfew {
    fn decide(&mut self, seen: &Observation<'_>) -> Machine {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seen.elapsed);
        let time_left = self.task.deadline - seen.elapsed;
        let situation = DeadlineSituation {
            work_left_seconds: self.task.work - seen.done,
            time_left_seconds: time_left - time_left % self.step,
            restart_seconds: self.task.restart,
            interval_seconds: self.step,
            on_demand: self.on_demand,
            spot: self.spot,
            running: seen.running.capacity(),
            spot_is_refused: false,
        };
        let zone = first_zone(seen.spot);
        let has_lost = matches!(self.last, Machine::Spot(_)) && seen.running == Machine::None;
        let (running, is_available) =
            if has_lost { (Capacity::Spot, false) } else { (situation.running, zone.is_some()) };
        let situation = DeadlineSituation { running, ..situation };
        let mut decision = choose_by_launch(&situation, &mut self.history, is_available, now);
        if has_lost && zone.is_some() {
            let situation = DeadlineSituation { running: Capacity::None, ..situation };
            decision = choose_by_launch(&situation, &mut self.history, true, now);
        }
        self.last = match decision.capacity {
            Capacity::None => Machine::None,
            Capacity::OnDemand => Machine::OnDemand,
            Capacity::Spot if matches!(seen.running, Machine::Spot(_)) => seen.running,
            Capacity::Spot => zone.unwrap_or(Machine::None),
        };
        self.last
    }
}
