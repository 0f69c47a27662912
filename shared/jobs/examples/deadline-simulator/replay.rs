//! One job, in steps. Spot that is available at the beginning of a step stays for the whole of it.

use model::money::{Amount, Rate};

use crate::Machine;

/// One job. All times are in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) work: i64,
    pub(crate) deadline: i64,
    pub(crate) restart: i64,
}

/// Zones and prices at which the job can run.
pub(crate) struct Market<'a> {
    /// Availability of Spot: one list per zone, with one value per step.
    pub(crate) zones: &'a [&'a [bool]],
    pub(crate) step: i64,
    pub(crate) on_demand: Rate,
    pub(crate) spot: Rate,
}

/// The facts that a strategy sees at the beginning of a step.
pub(crate) struct Observation<'a> {
    pub(crate) elapsed: i64,
    pub(crate) done: i64,
    /// The machine that runs now. A Spot machine that was just lost does not run.
    pub(crate) running: Machine,
    /// Availability of Spot, by zone.
    pub(crate) spot: &'a [bool],
}

pub(crate) trait Strategy {
    fn decide(&mut self, seen: &Observation<'_>) -> Machine;
}

pub(crate) struct Outcome {
    pub(crate) usd: f64,
    pub(crate) is_late: bool,
}

impl Market<'_> {
    /// Beyond the end of a trace Spot cannot be had.
    pub(crate) fn is_available(&self, zone: usize, step: usize) -> bool {
        self.zones[zone].get(step).copied().unwrap_or(false)
    }

    pub(crate) fn rate(&self, machine: Machine) -> Rate {
        match machine {
            Machine::None => Rate::ZERO,
            Machine::Spot(_) => self.spot,
            Machine::OnDemand => self.on_demand,
        }
    }
}

pub(crate) fn usd(rate: Rate, seconds: i64) -> f64 {
    Amount::from_rate(rate, seconds.unsigned_abs()).usd()
}

pub(crate) fn replay(market: &Market<'_>, task: Task, strategy: &mut dyn Strategy) -> Outcome {
    let (mut elapsed, mut done, mut running, mut restart_left, mut cost) = (0, 0, Machine::None, 0, 0.0);
    // A strategy that has missed the deadline by so much is late, and may never end.
    for step in 0.. {
        if done >= task.work || elapsed > 2 * task.deadline {
            break;
        }
        let spot: Vec<bool> = (0..market.zones.len()).map(|zone| market.is_available(zone, step)).collect();
        if matches!(running, Machine::Spot(zone) if !spot[zone]) {
            running = Machine::None;
        }
        let next = strategy.decide(&Observation { elapsed, done, running, spot: &spot });
        assert!(!matches!(next, Machine::Spot(zone) if !spot[zone]), "a strategy took Spot that is not there");
        if next != running {
            restart_left = task.restart;
        }
        let mut used = market.step;
        if next != Machine::None {
            used = used.min(restart_left + task.work - done);
            done += (used - restart_left).max(0);
            restart_left = (restart_left - used).max(0);
        }
        cost += usd(market.rate(next), used);
        elapsed += used;
        running = next;
    }
    Outcome { usd: cost, is_late: elapsed > task.deadline }
}
