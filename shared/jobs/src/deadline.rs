//! Where a job with a deadline runs next: on Spot, on on-demand, or nowhere for a while.
//!
//! [`choose_capacity`] is the whole of the decision. It knows the past only, and keeps one promise whatever Spot does: while the work
//! left, one restart and one decision interval fit into the time left, a job that follows it finishes on time, provided that on-demand
//! capacity can be had. So it takes on-demand at the last moment at which an interval that yields nothing would still be made up for.
//!
//! Before that moment it spends the spare time where that saves most. Spare time is spent in two ways: by waiting for Spot, and by
//! restarts. `plan.rs` says how long to wait and how long to distrust Spot that has just come back, so that the work is paced to
//! end at the deadline. It is made anew at every decision, so a job that falls behind waits less, and one that is ahead waits more.

mod forecast;
mod history;
mod plan;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::Timestamp;
use model::money::Rate;
use serde::{Deserialize, Serialize};

pub use forecast::{ExpectedCost, expected_costs};
pub use history::SpotHistory;
use plan::WaitingPlanner;
pub(crate) use state::CHECKPOINT_SEEN_AFTER;
pub use state::JobDeadline;

/// What a decision about a job with a deadline depends on, beside what was seen of Spot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineSituation {
    /// What the job would still take on a machine that is never lost.
    pub work_left_seconds: i64,
    /// Until the deadline.
    pub time_left_seconds: i64,
    /// What a restart takes: boot, restore, and the work since the last checkpoint.
    pub restart_seconds: i64,
    /// Until the next decision at the latest.
    pub interval_seconds: i64,
    /// What on-demand costs now.
    pub on_demand: Rate,
    /// What Spot costs now.
    pub spot: Rate,
    /// What the job ran on until now.
    pub running: Capacity,
    /// Whether Spot can be had now. A Spot machine that was just lost cannot be kept.
    pub spot_is_available: bool,
    /// Whether a job on demand can see that Spot is back, and since when. EC2 shows it only by accepting a launch, and a job that must take Spot to
    /// see it cannot wait to trust it.
    pub sees_spot_return: bool,
}

/// What a job runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// Nothing: it waits.
    None,
    /// A Spot machine.
    Spot,
    /// An on-demand machine.
    OnDemand,
}

/// What a job is to run on until the next decision, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityDecision {
    /// What it runs on.
    pub capacity: Capacity,
    /// Why.
    pub reason: CapacityReason,
}

/// Why a job runs on what it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapacityReason {
    /// The job is done.
    NoWorkLeft,
    /// The spare time does not cover another restart.
    NoTimeToLose,
    /// Spot costs as much as on-demand.
    SpotSavesNothing,
    /// It runs on Spot.
    SpotRuns,
    /// Spot can be had, and is expected to stay long enough to pay for the restart.
    SpotPays,
    /// Spot can be had, and is expected to go too soon to pay for the restart.
    SpotIsYoung,
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
            Self::SpotPays => "Spot capacity is available and pays for a restart",
            Self::SpotIsYoung => "Spot capacity has just returned and may not last long enough to pay for a restart",
            Self::SpotMayReturn => "Spot capacity may return and the deadline leaves time to wait",
            Self::SpotStaysAway => "Spot capacity has been away too long to wait for it",
        })
    }
}

impl DeadlineSituation {
    /// How long the job could stand still from now on and finish on time on a machine that needs no restart.
    #[must_use]
    pub fn slack_seconds(&self) -> i64 {
        self.time_left_seconds.saturating_sub(self.work_left_seconds)
    }

    /// What can be spent on waiting and restarts, once a restart on on-demand and an interval that yields nothing are set aside.
    #[must_use]
    pub fn spare_seconds(&self) -> i64 {
        self.slack_seconds().saturating_sub(self.restart_seconds).saturating_sub(self.interval_seconds)
    }
}

/// What the job runs on until the next decision.
///
/// Nothing but on-demand is chosen unless a whole interval can be lost and on-demand started afterwards. That is the promise: spare time
/// falls by at most an interval from one decision to the next, and on-demand loses nothing but the restart that was set aside for it.
#[must_use]
pub fn choose_capacity(situation: &DeadlineSituation, history: &SpotHistory, now: Timestamp) -> CapacityDecision {
    let (capacity, reason) = if situation.work_left_seconds <= 0 {
        (Capacity::None, CapacityReason::NoWorkLeft)
    } else if situation.spare_seconds() < 0 {
        (Capacity::OnDemand, CapacityReason::NoTimeToLose)
    } else if situation.spot >= situation.on_demand {
        (Capacity::OnDemand, CapacityReason::SpotSavesNothing)
    } else {
        spend_spare_time(situation, history, now)
    };
    CapacityDecision { capacity, reason }
}

fn spend_spare_time(
    situation: &DeadlineSituation,
    history: &SpotHistory,
    now: Timestamp,
) -> (Capacity, CapacityReason) {
    if situation.spot_is_available && situation.running == Capacity::Spot {
        return (Capacity::Spot, CapacityReason::SpotRuns);
    }
    let plan = WaitingPlanner::new(situation, history, now).cheapest_plan();
    let hours = history.hours_since_change(now);
    match (situation.spot_is_available, situation.running) {
        (true, Capacity::OnDemand) if hours < plan.distrust_hours => (Capacity::OnDemand, CapacityReason::SpotIsYoung),
        (true, _) => (Capacity::Spot, CapacityReason::SpotPays),
        // Its restart is paid: to stop for a while would only buy another one.
        (false, Capacity::OnDemand) => (Capacity::OnDemand, CapacityReason::SpotStaysAway),
        (false, _) if hours < plan.wait_hours => (Capacity::None, CapacityReason::SpotMayReturn),
        (false, _) => (Capacity::OnDemand, CapacityReason::SpotStaysAway),
    }
}
