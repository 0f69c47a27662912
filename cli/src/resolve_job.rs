//! Resolves the name of a job.

use futures::{StreamExt as _, stream};
use jobs::{Job, JobId, find};
use store::{Store, StoreError};

use crate::command_error::CommandError;

/// Concurrent reads of states.
const AT_ONCE: usize = 16;

/// The job and its state, by its whole name or a unique part of it. Unfinished jobs come first.
///
/// # Errors
/// If there is none, or several; or the states cannot be read.
pub(crate) async fn resolve_job(store: &Store, named: &str) -> Result<Job, CommandError> {
    if let Ok(id) = JobId::read(named)
        && let Some(job) = store.read_job(&id).await?.value
    {
        return Ok(job);
    }
    let active = store.active().await?;
    let id = match find(named, &active) {
        Ok(id) => id,
        Err(_) => find(named, &store.jobs(None).await?)
            .map_err(|why| CommandError::with(why, "curfew jobs --all lists every job; a part of a name is enough"))?,
    };
    let job = store.read_job(&id).await?.value;
    job.ok_or_else(|| CommandError::new(format!("of {id} nothing is written but its name; look at curfew doctor")))
}

/// The states of these jobs, in their order; an unreadable one is an error of its own.
pub(crate) async fn states(store: &Store, jobs: Vec<JobId>) -> Vec<Result<Job, StoreError>> {
    let read = stream::iter(jobs).map(|id| async move { store.read_job(&id).await.map(|read| read.value) });
    // A job that was deleted meanwhile is left out.
    read.buffered(AT_ONCE).filter_map(|read| async move { read.transpose() }).collect().await
}
