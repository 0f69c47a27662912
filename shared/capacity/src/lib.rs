//! The choice of capacity for a job with a deadline: it runs next on Spot, on on-demand, or nowhere for a while.
//!
//! [`choose_by_launch`] is the whole of the decision. It knows the past only, and keeps one promise whatever Spot does: while the work
//! left, one restart and one decision interval fit into the time left, a job that follows it finishes on time, provided that on-demand
//! capacity can be had. So it takes on-demand at the last moment at which an interval that yields nothing would still be made up for.
//!
//! The time to spare before that moment is spent where that saves most: on waiting for Spot, and on restarts. `lookahead.rs` compares what is
//! expected to be paid until the deadline, and `market.rs` says what is expected of Spot. Only a launch shows that Spot is back. One that
//! is refused costs nothing, and one that is accepted is the move, which costs a restart. `run-jobs` and the examples ask in this one way.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod forecast;
mod history;
mod lookahead;
mod market;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use model::money::Rate;
use serde::{Deserialize, Serialize};

pub use forecast::{ExpectedCost, ForecastJob};
pub use history::SpotHistory;
use lookahead::Lookahead;
use market::SpotSight;

/// The facts on which a decision about a job with a deadline depends, beside the history of Spot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineSituation {
    /// Time that the job would still take on a machine that is never lost.
    pub work_left_seconds: i64,
    /// Time until the deadline.
    pub time_left_seconds: i64,
    /// Time that a restart takes: boot, restore, and the work since the last checkpoint.
    pub restart_seconds: i64,
    /// Longest time until the next decision.
    pub interval_seconds: i64,
    /// Present price of on-demand capacity.
    pub on_demand: Rate,
    /// Present price of Spot capacity.
    pub spot: Rate,
    /// Capacity on which the job ran until now.
    pub running: Capacity,
    /// A launch on Spot was refused just now, a Spot machine was just lost, or no Spot candidate costs little enough to be asked for.
    pub spot_is_refused: bool,
}

/// The capacity on which a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// No machine: the job waits.
    None,
    /// A Spot machine.
    Spot,
    /// An on-demand machine.
    OnDemand,
}

/// The capacity on which a job runs until the next decision, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityDecision {
    /// The chosen capacity.
    pub capacity: Capacity,
    /// The reason for the choice.
    pub reason: CapacityReason,
}

/// The reason for a choice of capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapacityReason {
    /// The job is done.
    NoWorkLeft,
    /// The spare time does not cover another restart.
    NoTimeToLose,
    /// Spot costs as much as on-demand.
    SpotSavesNothing,
    /// The job runs on Spot.
    SpotRuns,
    /// Spot is asked for: it is expected to pay for the restart.
    SpotPays,
    /// Spot is to be asked for later: it may not be back, or too young to pay for the restart.
    #[serde(alias = "spot_is_young")]
    AskingLaterPays,
    /// Spot has not been away for long, and there is time to wait for it.
    SpotMayReturn,
    /// Spot has been away for so long that waiting costs more time than it saves.
    SpotStaysAway,
}

impl fmt::Display for CapacityReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWorkLeft => "the job is done",
            Self::NoTimeToLose => "the deadline leaves no time for another restart",
            Self::SpotSavesNothing => "Spot capacity costs as much as on-demand capacity",
            Self::SpotRuns => "Spot capacity is running",
            Self::SpotPays => "Spot capacity pays for a restart",
            Self::AskingLaterPays => "asking for Spot capacity later is expected to save more",
            Self::SpotMayReturn => "Spot capacity may return and the deadline leaves time to wait",
            Self::SpotStaysAway => "Spot capacity has been away too long to wait for it",
        })
    }
}

impl DeadlineSituation {
    /// Returns the time that the job could stand still from now on and finish on time, on a machine that needs no restart.
    #[must_use]
    pub fn slack_seconds(&self) -> i64 {
        self.time_left_seconds.saturating_sub(self.work_left_seconds)
    }

    /// Returns the time for waiting and restarts, after a restart on on-demand and an interval that yields nothing are set aside.
    #[must_use]
    pub fn spare_seconds(&self) -> i64 {
        self.slack_seconds().saturating_sub(self.restart_seconds).saturating_sub(self.interval_seconds)
    }
}

/// Decides for a job that learns of Spot only by its launches and losses. `is_available` is what a launch on Spot would meet now, or the machine on
/// Spot that runs: it counts only where the job asks, or runs on Spot.
#[must_use]
pub fn choose_by_launch(
    situation: &DeadlineSituation,
    history: &mut SpotHistory,
    is_available: bool,
    now: Timestamp,
) -> CapacityDecision {
    let choose = |situation: &DeadlineSituation, history: &SpotHistory| choose_capacity(situation, history, now);
    choose_and_launch(situation, history, is_available, now, choose)
}

fn choose_and_launch(
    situation: &DeadlineSituation,
    history: &mut SpotHistory,
    is_available: bool,
    now: Timestamp,
    choose: impl Fn(&DeadlineSituation, &SpotHistory) -> CapacityDecision,
) -> CapacityDecision {
    let mut situation = *situation;
    if situation.running == Capacity::Spot && !is_available {
        history.observe(false, now);
        (situation.running, situation.spot_is_refused) = (Capacity::None, true);
    }
    let decision = choose(&situation, history);
    if decision.capacity != Capacity::Spot {
        return decision;
    }
    history.observe(is_available, now);
    if is_available {
        return decision;
    }
    choose(&DeadlineSituation { spot_is_refused: true, ..situation }, history)
}

/// Decides what the job runs on until the next decision. Spot means that it is asked for, unless the job runs on it.
#[must_use]
pub fn choose_capacity(situation: &DeadlineSituation, history: &SpotHistory, now: Timestamp) -> CapacityDecision {
    let sight = SpotSight::new(history, now);
    keep_promise(situation, &sight, || Cow::Owned(Lookahead::new(situation, history, now)))
}

/// Chooses on-demand unless a whole interval can be lost and on-demand started afterwards. That is the promise: spare time falls by at most
/// an interval from one decision to the next, and on-demand loses only the restart that was set aside for it.
fn keep_promise<'a>(
    situation: &DeadlineSituation,
    sight: &SpotSight,
    look_ahead: impl Fn() -> Cow<'a, Lookahead>,
) -> CapacityDecision {
    let (capacity, reason) = if situation.work_left_seconds <= 0 {
        (Capacity::None, CapacityReason::NoWorkLeft)
    } else if situation.spare_seconds() < 0 {
        (Capacity::OnDemand, CapacityReason::NoTimeToLose)
    } else if situation.spot >= situation.on_demand {
        (Capacity::OnDemand, CapacityReason::SpotSavesNothing)
    } else {
        spend_spare_time(situation, sight, look_ahead)
    };
    CapacityDecision { capacity, reason }
}

fn spend_spare_time<'a>(
    situation: &DeadlineSituation,
    sight: &SpotSight,
    look_ahead: impl Fn() -> Cow<'a, Lookahead>,
) -> (Capacity, CapacityReason) {
    match (situation.running, situation.spot_is_refused) {
        (Capacity::Spot, false) => (Capacity::Spot, CapacityReason::SpotRuns),
        // A start is due in any case.
        (Capacity::None, false) => (Capacity::Spot, CapacityReason::SpotPays),
        (Capacity::OnDemand, false) if look_ahead().asks(situation, sight) => {
            (Capacity::Spot, CapacityReason::SpotPays)
        }
        (Capacity::OnDemand, false) => (Capacity::OnDemand, CapacityReason::AskingLaterPays),
        (Capacity::None | Capacity::Spot, true) if look_ahead().waits(situation, sight) => {
            (Capacity::None, CapacityReason::SpotMayReturn)
        }
        // A job on on-demand stays there: its restart is paid.
        (_, true) => (Capacity::OnDemand, CapacityReason::SpotStaysAway),
    }
}
