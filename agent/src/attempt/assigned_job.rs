//! The spec of the job that the attempt runs.

use std::sync::Arc;

use jobs::{CheckpointSpec, JobSpec, Workload};
use model::config::Config;

use crate::agent::{Agent, StartError};
use crate::command;
use crate::container::Container;
use crate::retry_timeout::{RetryTimeout, read_with_retries};
use crate::user::{self, User};

pub(crate) struct AssignedJob {
    pub(crate) work: Workload,
    pub(crate) checkpoint: Option<CheckpointSpec>,
    /// The number of checkpoints to keep; `None` if unknown: then nothing may be deleted.
    pub(crate) keep: Option<u32>,
}

/// Reads the spec, and retries while S3 does not answer.
pub(crate) async fn read_spec(agent: &Agent) -> Result<AssignedJob, StartError> {
    let job = &agent.identity.job;
    let text = read_with_retries(agent, "the spec", async || agent.store().read_spec(job).await).await;
    let text = text.map_err(|error| StartError::from_store(&error, format!("the spec cannot be read: {error}")))?;
    let text =
        text.ok_or_else(|| StartError::cannot_run(format!("there is no spec of the job {job}; submit it again")))?;
    // It takes only the number of checkpoints to keep from the configuration, which may have changed since.
    let read = JobSpec::accepted(&text, &Config::default()).map_err(|mistakes| {
        let first = mistakes.first().map(|mistake| format!("{}: {}", mistake.key, mistake.problem)).unwrap_or_default();
        StartError::cannot_run(format!("this agent cannot read the spec that was accepted: {first}"))
    });
    let (work, checkpoint) = read?;
    let keep = if checkpoint.is_some() { read_keep(agent).await } else { None };
    Ok(AssignedJob { work, checkpoint, keep })
}

/// The user of the command, and its container if it has one. What the image lacks is found before anything is fetched.
pub(super) async fn find_user(
    agent: &Arc<Agent>,
    asked: &AssignedJob,
    container: &mut Option<Container>,
) -> Result<User, StartError> {
    let mut user = user::find(asked.work.user.as_deref(), rustix::process::getuid().as_raw())?;
    if let Some(image) = &asked.work.container {
        let earlier = container.insert(Container::of_attempt(agent));
        agent.unless_it_ends(earlier.remove_earlier(image)).await??;
        user = earlier.make_home(agent, user)?;
    }
    if container.is_none()
        && let Err(error) = command::find_shell(asked.work.shell)
    {
        return Err(StartError::Impossible { code: StartError::NOT_FOUND, why: error.to_string() });
    }
    Ok(user)
}

/// Reads how many checkpoints the accepted job keeps, and retries while S3 does not answer.
async fn read_keep(agent: &Agent) -> Option<u32> {
    let mut timeout = RetryTimeout::default();
    let why = loop {
        match agent.store().read_keep(&agent.identity.job).await {
            Ok(Some(keep)) => return Some(keep),
            Ok(None) => break "state.json does not have it".to_owned(),
            Err(error) if error.lasts() => break error.to_string(),
            Err(error) if timeout.pause_and_retry(agent, "state.json cannot be read yet", &error).await => {}
            Err(error) => break error.to_string(),
        }
    };
    agent.log.write_line(&format!("the number of checkpoints to keep is unknown, so none is deleted: {why}"));
    None
}
