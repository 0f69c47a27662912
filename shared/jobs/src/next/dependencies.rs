//! Before its first launch: a job waits until the jobs that it comes after have succeeded.

use std::ops::ControlFlow;

use super::limits::TimeLeft;
use super::{JobDecision, over};
use crate::{DependencyState, Job, JobFacts, JobResult};

/// Goes on with a job that waits for no other. An unknown dependency is waited for; one that ended otherwise than with success ends the job.
pub(super) fn await_dependencies(
    mut job: Job,
    facts: &JobFacts,
    now: jiff::Timestamp,
) -> ControlFlow<JobDecision, Job> {
    if job.waits_for.is_empty() {
        return ControlFlow::Continue(job);
    }
    let known = |name: &String| facts.dependencies.get(name).copied();
    let failed = job.waits_for.iter().find_map(|name| Some((name, known(name)?.obstacle()?)));
    if let Some((name, obstacle)) = failed {
        let why = format!("it comes after {name}, which {obstacle}");
        return ControlFlow::Break(over::end(job, JobResult::Failed, why, facts, now));
    }
    job.waits_for.retain(|name| known(name) != Some(DependencyState::Ended(JobResult::Succeeded)));
    if job.waits_for.is_empty() {
        return ControlFlow::Continue(job);
    }
    let left = TimeLeft::on_any_machine(&job, now);
    if left.is_over() {
        let why = format!("it still waits for {}: {}", job.waits_for.join(", "), left.describe(&job));
        return ControlFlow::Break(over::end(job, JobResult::Expired, why, facts, now));
    }
    ControlFlow::Break((job, Vec::new()))
}
