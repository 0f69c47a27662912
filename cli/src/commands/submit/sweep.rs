//! The number of jobs of a sweep, and their total cost.

use jobs::{ParameterSweep, WorstCase};
use model::money::Amount;
use serde::Serialize;

use super::estimate::JobEstimate;

#[derive(Debug, Serialize)]
pub(super) struct SweepEstimate {
    pub(super) members: u32,
    pub(super) max_parallel: Option<u32>,
    /// The parameters of the first member, and of the last.
    pub(super) first: Vec<(String, String)>,
    pub(super) last: Vec<(String, String)>,
    /// The most that all members together can cost, if they were launched now; `None` if that is unknown.
    pub(super) worst_case_usd: Option<Amount>,
}

impl SweepEstimate {
    /// `of_one`: the estimate of one member.
    pub(super) fn from_plan(plan: &ParameterSweep, of_one: Option<&JobEstimate>) -> Self {
        let members = plan.members();
        let worst: Option<WorstCase> = of_one.and_then(|of_one| of_one.worst_case);
        Self {
            members,
            max_parallel: plan.max_parallel,
            first: plan.parameters_of(1),
            last: plan.parameters_of(members),
            worst_case_usd: worst.map(|worst| worst.usd.scaled(u64::from(members), 1)),
        }
    }
}
