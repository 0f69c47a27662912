//! The data of a job, on the machine before its `setup`.

mod directory;
mod fetch;
mod journal;
mod mount;

use std::sync::Arc;

use jobs::{Heartbeat, InputMode, InputSpec};
use model::team_role::grant_read_command;
use store::{InputError, StoreError};

use crate::agent::{Agent, StartError};
use crate::aws;
use crate::user::User;

pub(crate) use mount::{MountedInput, is_mount};

/// The mounted inputs. Dropping this list unmounts them.
pub(crate) type MountedInputs = Vec<MountedInput>;

/// Mounts or fetches each input, one after the other.
pub(crate) async fn provide(
    agent: &Arc<Agent>,
    inputs: &[InputSpec],
    user: &User,
) -> Result<MountedInputs, StartError> {
    let mut mounted = MountedInputs::new();
    if inputs.is_empty() {
        return Ok(mounted);
    }
    let config = aws::config(agent.identity.region.to_string()).await;
    let mut inputs: Vec<_> = inputs.iter().enumerate().collect();
    // What cannot be mounted is known before anything is fetched.
    inputs.sort_by_key(|(_, input)| input.mode == InputMode::Fetch);
    for (index, input) in inputs {
        match input.mode {
            InputMode::Fetch => {
                agent.set_activity(Heartbeat::FETCHING);
                let journal = agent.state.join(format!("input-{index}.journal"));
                Box::pin(fetch::fetch(agent, input, &config, journal, user)).await?;
            }
            InputMode::Mount => {
                agent.set_activity("mounting inputs");
                mounted.push(mount::mount(agent, input, user).await?);
            }
        }
    }
    Ok(mounted)
}

/// Describes why the command does not begin without this input.
fn describe(agent: &Agent, input: &InputSpec, error: &InputError) -> StartError {
    let source = &input.from;
    match error {
        InputError::Unfit(why) => StartError::cannot_run(format!("the input {source} cannot be fetched: {why}")),
        InputError::Refused(why) => StartError::broken(format!("the input {source} cannot be read: {why}")),
        InputError::Disk { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
            StartError::cannot_run(format!("the input {source} does not fit on the disk: set `root_volume_gib`"))
        }
        InputError::Disk { path, error } => {
            let (to, path) = (&input.to, path.display());
            let why = format!("the input {source} cannot be written to {to}: {path}: {error}");
            StartError::from_io(agent, error, why)
        }
        InputError::Store(error @ StoreError::Call { .. }) if error.lasts() => {
            let grant = grant_read_command(&agent.identity.job.team, &source.to_string());
            StartError::cannot_run(format!(
                "the input {source} cannot be read: {error}. To let the role of the team read it: {grant}"
            ))
        }
        InputError::Store(error) => {
            StartError::from_store(error, format!("the input {source} cannot be read: {error}"))
        }
    }
}
