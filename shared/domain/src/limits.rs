//! The blast radius: above its limits a run carries out none of the ends it inferred, and asks a person.

use crate::config::Limits;
use crate::plan::{LimitsExceeded, Step};

/// Below so many instances a share of the fleet means little.
const FLEET_MIN_FOR_SHARE: usize = 10;

/// Holds every inferred end of a plan that exceeds a limit. Marks, messages, starts, and ends that owners wrote down are
/// never counted and never held.
pub fn hold_where_exceeded(steps: &mut [Step], fleet: usize, limits: &Limits) {
    let ends = steps.iter().filter(|step| step.is_inferred_end()).count();
    let share_max = usize::from(limits.fleet_share_max_percent.get());
    let too_many = ends > usize::try_from(limits.actions_max).unwrap_or(usize::MAX);
    let too_large_a_share = fleet >= FLEET_MIN_FOR_SHARE && ends * 100 > fleet * share_max;
    if !too_many && !too_large_a_share {
        return;
    }
    let exceeded = LimitsExceeded {
        ends,
        fleet,
        actions_max: limits.actions_max,
        fleet_share_max_percent: limits.fleet_share_max_percent.get(),
    };
    for step in steps.iter_mut().filter(|step| step.is_inferred_end()) {
        step.held = Some(exceeded);
    }
}
