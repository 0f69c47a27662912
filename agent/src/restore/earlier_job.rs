//! Restores the checkpoint of the job that this one begins with, the key `resume_from`.

use jobs::JobId;
use store::{FileOwner, MachineDocument, MachineDocuments as _};

use super::{RestoreCandidates, RestoredCheckpoint, restore_first};
use crate::agent::{Agent, StartError};
use crate::directory::CheckpointDirectory;
use crate::retry_timeout::read_with_retries;

/// Restores its newest undamaged checkpoint, as if the command had written it: its next upload makes it a checkpoint of this job. A job that still
/// runs may delete all that its head named meanwhile, so its head is read again before there is none. `skipped` has the reasons to begin anew.
pub(super) async fn restore(
    agent: &Agent,
    job: &JobId,
    skipped: Vec<String>,
    directory: &CheckpointDirectory,
    owner: &FileOwner,
) -> Result<RestoredCheckpoint, StartError> {
    let (mut tried, mut why) = (Vec::new(), format!("{job} has no checkpoint to resume from"));
    loop {
        let mut candidates = read_candidates(agent, job).await?;
        if candidates.in_order.is_empty() || candidates.in_order == tried {
            let why =
                format!("{why}; run the job from its beginning: curfew rerun {}", agent.identity.job.to_shell_word());
            return Err(StartError::cannot_run(why));
        }
        tried.clone_from(&candidates.in_order);
        candidates.skipped.clone_from(&skipped);
        if let Some(restored) = Box::pin(restore_first(agent, job, &mut candidates, directory, owner)).await? {
            let skipped = candidates.skipped;
            return Ok(RestoredCheckpoint { checkpoint: None, original: None, has_others: false, skipped, ..restored });
        }
        let damaged = candidates.skipped.last().map(String::as_str).unwrap_or_default();
        why = format!("{job} has no checkpoint left that can be restored ({damaged})");
    }
}

async fn read_candidates(agent: &Agent, job: &JobId) -> Result<RestoreCandidates, StartError> {
    let read = read_with_retries(agent, "the checkpoints of a job", async || agent.store().read_head(job).await).await;
    let head = match read {
        Ok(MachineDocument::Absent) => return Ok(RestoreCandidates::default()),
        Ok(MachineDocument::Believed(head)) => Ok(head),
        Ok(MachineDocument::Refused(error)) | Err(error) => Err(error),
    };
    let head = head
        .map_err(|error| StartError::from_store(&error, format!("the checkpoints of {job} cannot be read: {error}")))?;
    Ok(RestoreCandidates::from_head(&head))
}
