//! The things around a command: what the agent provides before, and between the restore and the command.

use std::process::ExitStatus;
use std::sync::Arc;

use jobs::Heartbeat;

use super::assigned_job::find_user;
use super::{AssignedJob, EndedCommand, ExitEvidence, REAP_EVERY};
use crate::agent::{Agent, StartError};
use crate::command::{RunningCommand, ShellLine};
use crate::container::Container;
use crate::gpu_box::{self, BoxHome};
use crate::inputs::{MountedInputs, provide};
use crate::user::User;
use crate::variables::VariableMap;
use crate::workdir::restore_workdir;
use crate::{metadata, outputs, secrets};

/// The things around a command that outlive a restore of its checkpoint.
pub(crate) struct Surroundings {
    pub(crate) user: User,
    /// The variables of jobs before it.
    pub(crate) fetched: VariableMap,
    pub(crate) mounted: MountedInputs,
}

/// Provides all that is there before a checkpoint is restored: the user, the working directory and the inputs.
pub(crate) async fn provide_surroundings(
    agent: &Arc<Agent>,
    asked: &AssignedJob,
    container: &mut Option<Container>,
    home: &mut Option<BoxHome>,
) -> Result<Surroundings, StartError> {
    let user = find_user(agent, asked, container).await?;
    metadata::close(agent, asked, &user).await;
    // Before anything is written to it.
    if asked.work.is_box {
        agent.unless_it_ends(Box::pin(gpu_box::mount_home(agent, &user, home))).await??;
    }
    let fetched = agent.unless_it_ends(Box::pin(outputs::find_earlier(agent, &asked.work.after))).await??;
    // Before checkpoints are restored: what the archive has in their directory is set aside.
    if let Some(digest) = &asked.work.workdir {
        agent.unless_it_ends(Box::pin(restore_workdir(agent, digest, &user, asked.work.is_box))).await??;
    }
    let mounted = agent.unless_it_ends(Box::pin(provide(agent, &asked.work.inputs, &user))).await??;
    Ok(Surroundings { user, fetched, mounted })
}

/// Creates the container if there is one, and returns the secrets.
pub(crate) async fn create_container(
    agent: &Agent,
    asked: &AssignedJob,
    user: &User,
    container: Option<&Container>,
) -> Result<VariableMap, StartError> {
    if let (Some(container), Some(image)) = (container, &asked.work.container) {
        agent.unless_it_ends(Box::pin(container.create(agent, image, asked, user))).await??;
    }
    if asked.work.secrets.is_empty() {
        return Ok(VariableMap::new());
    }
    let secrets = agent.unless_it_ends(Box::pin(secrets::read(agent, &asked.work.secrets))).await??;
    Ok(secrets)
}

/// Runs `setup`, if there is one. Returns its end if it has failed.
pub(crate) async fn set_up(
    agent: &Agent,
    asked: &AssignedJob,
    user: &User,
    variables: &VariableMap,
    container: Option<&Container>,
) -> Result<Option<EndedCommand>, StartError> {
    let Some(line) = &asked.work.setup else { return Ok(None) };
    agent.set_activity(Heartbeat::SETUP);
    let evidence = ExitEvidence::begin(agent, asked, user);
    let line = ShellLine { line, shell: asked.work.shell };
    let status = agent.unless_it_ends(run_setup(agent, line, user, variables, container)).await??;
    if status.success() {
        return Ok(None);
    }
    evidence.end().await;
    let why = evidence.describe(agent, status, "`setup`");
    Ok(Some(EndedCommand { status, why, gpu_fault: None }))
}

async fn run_setup(
    agent: &Agent,
    line: ShellLine<'_>,
    user: &User,
    variables: &VariableMap,
    container: Option<&Container>,
) -> Result<ExitStatus, StartError> {
    let words = |error: &std::io::Error| format!("`setup` could not be run: {error}");
    let running = RunningCommand::begin(line, user, variables, container, &agent.log);
    let mut running = running.map_err(|error| StartError::from_io(agent, &error, words(&error)))?;
    let ended = running.ended(agent.pace.wait(REAP_EVERY)).await;
    let status = ended.map_err(|error| StartError::broken(words(&error)))?;
    running.drained().await;
    Ok(status)
}
