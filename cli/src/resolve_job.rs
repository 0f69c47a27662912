//! Resolves the name of a job.

use futures::{StreamExt as _, stream};
use jobs::node_gang::Node;
use jobs::{Job, JobId, Sweep, resolve_job_name};
use store::{JobDocuments as _, Store, StoreError, SweepDocuments as _};

use crate::command_error::CommandError;

/// Concurrent reads of states.
pub(crate) const AT_ONCE: usize = 16;

/// The job with its state, or the sweep, that a person names.
pub(crate) enum NamedWork {
    Job(Box<Job>),
    Sweep(Box<Sweep>),
}

impl NamedWork {
    pub(crate) fn id(&self) -> &JobId {
        match self {
            Self::Job(job) => &job.job,
            Self::Sweep(sweep) => &sweep.sweep,
        }
    }
}

/// The use of a name by a command, which decides what a part of a name means that fits several jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameUse {
    /// The only unfinished one may be taken.
    Show,
    /// No job is taken.
    Act,
}

/// The job or the sweep, by its whole name or a part of it; the name of a sweep does not mean its members.
///
/// # Errors
/// If there is none, or several; or the states cannot be read.
pub(crate) async fn resolve(store: &Store, named: &str, name_use: NameUse) -> Result<NamedWork, CommandError> {
    if let Ok(id) = JobId::read(named)
        && let Some(found) = read_named(store, &id).await?
    {
        return Ok(found);
    }
    let (active, jobs) = futures::try_join!(store.active_and_sweeps(), store.jobs(None))?;
    let id = resolve_job_name(named, &jobs, &active, name_use == NameUse::Show)
        .map_err(|why| CommandError::with(why, "curfew jobs --all lists every job; a part of a name is enough"))?;
    let found = read_named(store, &id).await?;
    found.ok_or_else(|| CommandError::new(format!("of {id} nothing is written but its name; look at curfew doctor")))
}

/// Refuses a node that the job does not have.
pub(crate) fn check_node(job: &Job, node: Option<Node>) -> Result<(), CommandError> {
    let nodes = job.terms.gpu.nodes;
    match node.filter(|node| *node >= nodes) {
        None => Ok(()),
        Some(_) if nodes == 1 => Err(CommandError::new(format!("{} runs on one machine, node 0", job.job))),
        Some(node) => {
            Err(CommandError::new(format!("{} has no node {node}: it has nodes 0 to {}", job.job, nodes - 1)))
        }
    }
}

/// The job alone, to show it.
///
/// # Errors
/// As [`resolve`], and if it is a sweep.
pub(crate) async fn resolve_job(store: &Store, named: &str) -> Result<Job, CommandError> {
    match resolve(store, named, NameUse::Show).await? {
        NamedWork::Job(job) => Ok(*job),
        NamedWork::Sweep(sweep) => {
            let problem = format!("{} is a sweep, and this command takes one job", sweep.sweep);
            Err(CommandError::with(problem, name_member(&sweep.sweep)))
        }
    }
}

/// The advice to name a job of a sweep, for people to paste.
pub(crate) fn name_member(sweep: &JobId) -> String {
    let (first, sweep) = (sweep.member(1).to_shell_word(), sweep.to_shell_word());
    format!("name one of its jobs, such as {first}; curfew jobs {sweep} lists them")
}

async fn read_named(store: &Store, id: &JobId) -> Result<Option<NamedWork>, CommandError> {
    if let Some(job) = store.read_job(id).await?.value {
        return Ok(Some(NamedWork::Job(Box::new(job))));
    }
    let sweep = store.read_sweep(id).await?;
    Ok(sweep.map(|sweep| NamedWork::Sweep(Box::new(sweep))))
}

/// The states of these jobs, in their order; an unreadable one is an error of its own.
pub(crate) async fn states(store: &Store, jobs: Vec<JobId>) -> Vec<Result<Job, StoreError>> {
    let read = stream::iter(jobs).map(|id| async move { store.read_job(&id).await.map(|read| read.value) });
    // A job that was deleted meanwhile is left out.
    read.buffered(AT_ONCE).filter_map(|read| async move { read.transpose() }).collect().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_can_be_pasted_whatever_a_team_is_called() {
        let sweep = JobId::read("Bild $(reboot)/tune-1a2b3c4d").unwrap();
        assert_eq!(
            name_member(&sweep),
            "name one of its jobs, such as 'Bild $(reboot)/tune-0001-1a2b3c4d'; curfew jobs 'Bild $(reboot)/tune-1a2b3c4d' lists them"
        );
    }
}
