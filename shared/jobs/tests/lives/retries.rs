//! What must hold of a job whose command may fail, and is retried.

use jobs::{Head, JobResult, Phase};
use stateright::Property;

use crate::explore::{JobModel, ended};
use crate::world::ModelWorld;

pub(crate) fn retry_properties() -> [Property<JobModel>; 4] {
    [
        Property::always("a failure uses up one retry", |explored: &JobModel, world: &ModelWorld| {
            let used = world.state.retries.used;
            used <= u32::from(world.failures) && used <= explored.bounds.retries
        }),
        Property::always("it fails only after its retries", |explored: &JobModel, world: &ModelWorld| {
            let Phase::Ended(ended) = &world.state.phase else { return true };
            let by_failure = ended.result == JobResult::Failed && ended.why.starts_with("the command has failed");
            let is_refused = ended.why.contains("not retried");
            !by_failure || is_refused || u32::from(world.failures) > explored.bounds.retries
        }),
        Property::always("what a limit ended is not retried", |_, world: &ModelWorld| {
            let is_final = |head: &&Head| head.result.as_ref().is_some_and(|result| result.is_final);
            world.head.iter().find(is_final).is_none_or(|head| world.state.retries.attempt < head.attempt)
        }),
        Property::sometimes("it succeeds after a failure", |_, world: &ModelWorld| {
            ended(world) == Some(JobResult::Succeeded) && world.failures > 0
        }),
    ]
}
