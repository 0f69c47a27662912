//! The wait before the first launch: a job waits until the jobs that it comes after have succeeded, and for its turn in its sweep.

use std::ops::ControlFlow;

use jiff::Timestamp;

use super::limits::TimeLeft;
use super::{JobDecision, over};
use crate::{DependencyState, Job, JobFacts, JobResult};

/// Goes on with a job that waits for no other. What is unknown is waited for; a dependency that ended otherwise than with success ends the job.
pub(super) fn await_others(mut job: Job, facts: &JobFacts, now: Timestamp) -> ControlFlow<JobDecision, Job> {
    if job.waits_for.is_empty() && job.awaits_turn().is_none() {
        return ControlFlow::Continue(job);
    }
    let known = |name: &String| facts.dependencies.get(name).copied();
    let failed = job.waits_for.iter().find_map(|name| Some((name, known(name)?.obstacle()?)));
    if let Some((name, obstacle)) = failed {
        let why = format!("it comes after {name}, which {obstacle}");
        return ControlFlow::Break(over::end(job, JobResult::Failed, why, facts, now));
    }
    job.waits_for.retain(|name| known(name) != Some(DependencyState::Ended(JobResult::Succeeded)));
    // The first unfinished members are those whose turn it is. They only become more, so no two runs can let too many begin.
    if let Some(member) = &mut job.sweep {
        member.max_parallel =
            member.max_parallel.filter(|most| facts.earlier_members.is_none_or(|earlier| earlier >= *most));
    }
    if job.waits_for.is_empty() && job.awaits_turn().is_none() {
        return ControlFlow::Continue(job);
    }
    let left = TimeLeft::on_any_machine(&job, now);
    if left.is_over() {
        let why = format!("it still waits: {}; {}", job.describe_wait(), left.describe(&job));
        return ControlFlow::Break(over::end(job, JobResult::Expired, why, facts, now));
    }
    ControlFlow::Break((job, Vec::new()))
}
