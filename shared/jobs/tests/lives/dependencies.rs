//! What must hold of a job that comes after another one, and of a member of a sweep that waits for its turn.

use jobs::{DependencyState, JobResult, Phase};
use stateright::Property;

use crate::explore::{JobModel, ended};
use crate::world::ModelWorld;

pub(crate) fn dependency_properties() -> [Property<JobModel>; 5] {
    [
        Property::always("it is launched only after the other job succeeded", |_, world: &ModelWorld| {
            world.state.attempt == 0 && world.reserved.is_none() || has_succeeded(world)
        }),
        Property::always("it is launched only in its turn", |_, world: &ModelWorld| {
            world.state.attempt == 0 && world.reserved.is_none() || world.earlier_members == 0
        }),
        Property::always("it fails with the other job, and without a launch", |_, world: &ModelWorld| {
            let Phase::Ended(ended) = &world.state.phase else { return true };
            let is_by_it = ended.why.starts_with("it comes after");
            !is_by_it || world.dependency == DependencyState::Ended(JobResult::Failed) && world.machines.is_empty()
        }),
        Property::sometimes("it succeeds after the other job", |_, world: &ModelWorld| {
            ended(world) == Some(JobResult::Succeeded) && has_succeeded(world)
        }),
        Property::sometimes("it ends because the other job failed", |_, world: &ModelWorld| {
            ended(world) == Some(JobResult::Failed) && world.state.attempt == 0
        }),
    ]
}

fn has_succeeded(world: &ModelWorld) -> bool {
    world.dependency == DependencyState::Ended(JobResult::Succeeded)
}
