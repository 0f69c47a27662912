//! The directory of code that the job brought along, unpacked in the user's home.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobs::WorkdirDigest;
use model::fault::error_sentence;
use workdir::{InTheWay, MovedEntry, UnpackError, UnpackedWorkdir, unpack};

use crate::agent::{Agent, StartError};
use crate::disk::on_disk;
use crate::retry_timeout::read_with_retries;
use crate::user::User;

/// The most lines about what was in the way.
const NAMED_MAX: usize = 10;

/// Fetches and unpacks it, with the rights of the user, and retries while S3 does not answer. On a box people have worked in it since the first
/// attempt, and what they have changed stays.
pub(crate) async fn restore_workdir(
    agent: &Arc<Agent>,
    digest: &WorkdirDigest,
    user: &User,
    is_box: bool,
) -> Result<(), StartError> {
    agent.set_activity("unpacking the working directory");
    let mut archive = fetch(agent, digest).await?;
    if WorkdirDigest::from_archive(&archive) != *digest {
        agent
            .log
            .write_line("the archive of the working directory is another one than was submitted: it is read again");
        archive = fetch(agent, digest).await?;
    }
    let (digest, into) = (digest.clone(), PathBuf::from(&user.home));
    let has_own_work = agent.has_run_before || (is_box && agent.identity.attempt > 1);
    let in_the_way = if has_own_work { InTheWay::Keep } else { InTheWay::MoveAside };
    // The result of the disk, and in it that of the archive.
    let unpacked = on_disk(&user.file_owner(), move || Ok(unpack(&archive, &digest, &into, in_the_way))).await;
    match unpacked {
        Ok(Ok(unpacked)) => {
            log_unpacked(agent, &unpacked, &user.home);
            Ok(())
        }
        Ok(Err(error)) => Err(describe(agent, &error)),
        Err(error) => {
            Err(StartError::broken(format!("the working directory cannot be unpacked: {}", error_sentence(&error))))
        }
    }
}

async fn fetch(agent: &Agent, digest: &WorkdirDigest) -> Result<Vec<u8>, StartError> {
    let team = &agent.identity.job.team;
    let what = "the working directory";
    let archive = read_with_retries(agent, what, async || agent.store().fetch_workdir(team, digest).await).await;
    let archive = archive.map_err(|error| StartError::from_store(&error, format!("{what} cannot be read: {error}")))?;
    archive.ok_or_else(|| {
        let address = agent.store().workdir_address(team, digest);
        StartError::cannot_run(format!("the archive of its working directory is gone ({address}){SUBMIT_AGAIN}"))
    })
}

fn log_unpacked(agent: &Agent, unpacked: &UnpackedWorkdir, home: &str) {
    let UnpackedWorkdir { entries, moved, kept, .. } = unpacked;
    let moved = moved.iter().map(|MovedEntry { from, to }| {
        format!("{} was in the way of the working directory, and is {} now", from.display(), to.display())
    });
    let kept = kept.iter().map(|path: &PathBuf| {
        format!("{} stays as the job has made it, and is not unpacked again", Path::new(home).join(path).display())
    });
    let lines: Vec<String> = moved.chain(kept).collect();
    for line in lines.iter().take(NAMED_MAX) {
        agent.log.write_line(line);
    }
    if let Some(more) = lines.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        agent.log.write_line(&format!("and {more} more like this"));
    }
    agent.log.write_line(&format!("unpacked {entries} files and directories of the working directory in {home}"));
}

const SUBMIT_AGAIN: &str = "; submit the job again with --workdir";

fn describe(agent: &Agent, error: &UnpackError) -> StartError {
    let why = format!("the working directory cannot be unpacked: {error}");
    match error {
        UnpackError::Disk { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
            StartError::from_io(agent, error, format!("{why}; set `root_volume_gib`"))
        }
        UnpackError::Disk { error, .. } => StartError::from_io(agent, error, why),
        UnpackError::OtherContent(_)
        | UnpackError::NotAnArchive(_)
        | UnpackError::IllegalEntry { .. }
        | UnpackError::LeadsOut(_)
        | UnpackError::TooLarge => StartError::cannot_run(format!("{why}{SUBMIT_AGAIN}")),
    }
}
