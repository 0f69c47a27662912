//! The job that somebody means.

use futures::{StreamExt as _, stream};
use jobs::{Job, JobId, find};
use store::{Store, StoreError};

use crate::command_error::CommandError;

/// So many states are read at once.
const AT_ONCE: usize = 16;

/// Its name, and where it stands: by its whole name, or a part of it that is only its own. Those that are not over come first.
///
/// # Errors
/// Where it is none, or could be several; or nobody can say.
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

/// Where each of them stands, in their order; what could not be read is an error of its own.
pub(crate) async fn states(store: &Store, jobs: Vec<JobId>) -> Vec<Result<Job, StoreError>> {
    let read = stream::iter(jobs).map(|id| async move { store.read_job(&id).await.map(|read| read.value) });
    // One that is gone meanwhile is no job any more.
    read.buffered(AT_ONCE).filter_map(|read| async move { read.transpose() }).collect().await
}
