//! The directory of code that the job brought along, unpacked in the user's home.

use std::path::PathBuf;
use std::sync::Arc;

use jobs::WorkdirDigest;
use workdir::{UnpackError, UnpackedWorkdir, unpack};

use crate::agent::{Agent, AttemptEnd};
use crate::disk::on_disk;
use crate::retry_timeout::read_with_retries;
use crate::user::User;

/// Fetches and unpacks it, with the rights of the user, and retries while S3 does not answer.
pub(crate) async fn restore_workdir(agent: &Arc<Agent>, digest: &WorkdirDigest, user: &User) -> Result<(), AttemptEnd> {
    agent.set_activity("unpacking the working directory");
    let archive = fetch(agent, digest).await?;
    let (digest, into) = (digest.clone(), PathBuf::from(&user.home));
    // The result of the disk, and in it that of the archive.
    let unpacked = on_disk(&user.file_owner(), move || Ok(unpack(&archive, &digest, &into))).await;
    match unpacked {
        Ok(Ok(UnpackedWorkdir { entries, .. })) => {
            agent.log.write_line(&format!(
                "unpacked {entries} files and directories of the working directory in {}",
                user.home
            ));
            Ok(())
        }
        Ok(Err(error)) => Err(AttemptEnd::broken(describe(&error))),
        Err(error) => Err(AttemptEnd::broken(format!("the working directory cannot be unpacked: {error}"))),
    }
}

async fn fetch(agent: &Agent, digest: &WorkdirDigest) -> Result<Vec<u8>, AttemptEnd> {
    let team = &agent.identity.job.team;
    let what = "the working directory";
    let archive = read_with_retries(agent, what, async || agent.store.fetch_workdir(team, digest).await).await;
    let archive = archive.map_err(|error| AttemptEnd::broken(format!("{what} cannot be read: {error}")))?;
    archive.ok_or_else(|| {
        let address = agent.store.workdir_address(team, digest);
        let why =
            format!("the archive of its working directory is gone ({address}); submit the job again with --workdir");
        AttemptEnd::broken(why)
    })
}

fn describe(error: &UnpackError) -> String {
    let hint = match error {
        UnpackError::OtherContent(_) | UnpackError::NotAnArchive(_) => "; submit the job again with --workdir",
        UnpackError::Disk { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => "; set `root_volume_gib`",
        _ => "",
    };
    format!("the working directory cannot be unpacked: {error}{hint}")
}
