//! The least cost with the future known, by dynamic programming from the deadline back.
//!
//! A state at the beginning of a step is what runs, how much of its restart is over, and the lag: how far the work is behind the clock. All
//! times are counted in their greatest common divisor, so nothing is rounded.

use crate::Machine;
use crate::replay::{Market, Task, usd};

struct Grid<'a, 'b> {
    market: &'a Market<'b>,
    /// Length of a step in units. The restart, the work and the deadline are counted in units as well.
    step: i64,
    restart: i64,
    work: i64,
    deadline: i64,
    unit: i64,
    /// Steps after which a restart is over.
    phases: usize,
    lags: usize,
}

fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn index(units: i64) -> usize {
    usize::try_from(units).unwrap_or_default()
}

fn units(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

impl Grid<'_, '_> {
    fn machines(&self) -> usize {
        self.market.zones.len() + 2
    }

    fn machine(number: usize) -> Machine {
        match number {
            0 => Machine::None,
            1 => Machine::OnDemand,
            zone => Machine::Spot(zone - 2),
        }
    }

    fn at(&self, machine: usize, phase: usize, lag: usize) -> usize {
        (machine * (self.phases + 1) + phase) * self.lags + lag
    }

    /// The cost from here on, where this machine runs through this step.
    fn cost_of_running(&self, machine: usize, phase: usize, now: i64, lag: usize, later: &[f64]) -> f64 {
        let rate = self.market.rate(Self::machine(machine));
        let restart_left = (self.restart - units(phase) * self.step).max(0);
        let left = self.work - (now - units(lag));
        let used = restart_left + left;
        if used <= self.step {
            return if now + used <= self.deadline { usd(rate, used * self.unit) } else { f64::INFINITY };
        }
        let lag = lag + index(restart_left.min(self.step));
        if lag >= self.lags {
            return f64::INFINITY;
        }
        usd(rate, self.step * self.unit) + later[self.at(machine, (phase + 1).min(self.phases), lag)]
    }

    fn costs_at(&self, step: usize, later: &[f64]) -> Vec<f64> {
        let now = units(step) * self.step;
        let is_there = |machine: usize| machine == 1 || machine > 1 && self.market.is_available(machine - 2, step);
        let mut costs = vec![f64::INFINITY; later.len()];
        for lag in 0..self.lags.min(index(now) + 1) {
            let is_done = now - units(lag) >= self.work;
            let waiting = lag + index(self.step);
            let mut fresh = if waiting < self.lags { later[self.at(0, 0, waiting)] } else { f64::INFINITY };
            for machine in (1..self.machines()).filter(|machine| is_there(*machine)) {
                fresh = fresh.min(self.cost_of_running(machine, 0, now, lag, later));
            }
            for machine in 0..self.machines() {
                for phase in 0..=self.phases {
                    let continues = machine > 0 && phase > 0 && is_there(machine);
                    let running =
                        if continues { self.cost_of_running(machine, phase, now, lag, later) } else { f64::INFINITY };
                    costs[self.at(machine, phase, lag)] = if is_done { 0.0 } else { fresh.min(running) };
                }
            }
        }
        costs
    }
}

pub(crate) fn optimal_usd(market: &Market<'_>, task: Task) -> f64 {
    let unit = [task.restart, task.work, task.deadline].into_iter().fold(market.step, common_divisor);
    let grid = Grid {
        market,
        step: market.step / unit,
        restart: task.restart / unit,
        work: task.work / unit,
        deadline: task.deadline / unit,
        unit,
        phases: index((task.restart + market.step - 1) / market.step),
        lags: index((task.deadline - task.work) / unit + 1),
    };
    let steps = index((task.deadline + market.step - 1) / market.step);
    let mut costs = vec![f64::INFINITY; grid.machines() * (grid.phases + 1) * grid.lags];
    for step in (0..steps).rev() {
        costs = grid.costs_at(step, &costs);
    }
    costs[grid.at(0, 0, 0)]
}
