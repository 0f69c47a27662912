//! Restores the checkpoint of a round of a gang, and checkpoints that a gang has written: all parts, because frameworks load as if the disk were
//! shared.

use std::path::PathBuf;
use std::sync::Arc;

use jobs::checkpoints::{Manifest, to_restore};
use jobs::node_gang::{NODES_MIN, RestoreScope, restore_plan};
use jobs::{Checkpoint, Head, JobId};
use store::{CheckpointError, FileOwner};

use super::{RestoreCandidates, RestoredCheckpoint, prepare_directory, restore, restore_first};
use crate::agent::{Agent, StartError};
use crate::directory::CheckpointDirectory;
use crate::user::User;

/// Restores the checkpoint that the round of a gang names, or else that of the job which this one begins with. The inner error says why it is
/// damaged.
pub(crate) async fn restore_round(
    agent: &Arc<Agent>,
    checkpoint: Option<Checkpoint>,
    head: &Head,
    begins_with: Option<&JobId>,
    directory: &CheckpointDirectory,
    user: &User,
) -> Result<Result<RestoredCheckpoint, String>, StartError> {
    let Some(checkpoint) = checkpoint else {
        let none = RestoreCandidates::default();
        return Box::pin(restore(agent, none, begins_with, directory, user)).await.map(Ok);
    };
    let owner = &user.file_owner();
    prepare_directory(agent, &directory.path, owner).await?;
    let others = to_restore(head).into_iter().filter(|other| *other != checkpoint);
    let mut candidates = RestoreCandidates {
        in_order: std::iter::once(checkpoint).chain(others).collect(),
        is_first_only: true,
        unverified: head.unverified.clone(),
        ..RestoreCandidates::default()
    };
    let job = &agent.identity.job;
    let restored = Box::pin(restore_first(agent, job, &mut candidates, directory, owner)).await?;
    Ok(match restored {
        Some(restored) => Ok(restored.among(candidates)),
        None => Err(candidates.skipped.last().cloned().unwrap_or_default()),
    })
}

/// Fetches the files of a checkpoint of one machine, or those of all parts of a gang's.
pub(super) async fn fetch(
    agent: &Agent,
    job: &JobId,
    checkpoint: Checkpoint,
    into: PathBuf,
    owner: &FileOwner,
) -> Result<Manifest, CheckpointError> {
    let is_gang = agent.identity.nodes >= NODES_MIN;
    if is_gang && let Some(manifest) = fetch_parts(agent, job, checkpoint, into.clone(), owner).await? {
        return Ok(manifest);
    }
    let whole = agent.store().restore_checkpoint(job, checkpoint, into.clone(), owner).await;
    // Another job may have had several nodes.
    if !is_gang
        && *job != agent.identity.job
        && matches!(whole, Err(CheckpointError::Damaged(_)))
        && let Some(manifest) = fetch_parts(agent, job, checkpoint, into, owner).await?
    {
        return Ok(manifest);
    }
    whole
}

/// `None` if no gang has written it.
async fn fetch_parts(
    agent: &Agent,
    job: &JobId,
    checkpoint: Checkpoint,
    into: PathBuf,
    owner: &FileOwner,
) -> Result<Option<Manifest>, CheckpointError> {
    let Some(parts) = agent.store().read_parts(job, checkpoint).await? else { return Ok(None) };
    let own = agent.seat().map_or(0, |seat| seat.node);
    let plan = restore_plan(own, &parts, agent.identity.nodes, RestoreScope::All);
    let plan = plan.map_err(|refused| CheckpointError::Unrestorable(refused.to_string()))?;
    agent.store().restore_parts(job, checkpoint, &plan, into, owner).await?;
    Ok(Some(plan.manifest))
}
