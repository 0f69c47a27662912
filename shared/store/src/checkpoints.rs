//! Checkpoints: `checkpoints/<team>/<job>/<attempt>/<step>/`, the files in `files/`, and then `manifest.json`.
//!
//! A checkpoint is whole if its manifest is there and all its checksums hold. Whether it counts, `head.json` says; that is the
//! caller's to write. Memory is bounded: at most [`IN_FLIGHT_MIB`] of parts are held at once, whatever the sizes of files.

mod fetch;
mod send;

use std::path::PathBuf;
use std::sync::Arc;

use domain::job::checkpoints::{MANIFEST_FILE, Manifest};
use domain::job::{Checkpoint, JobId};
use tokio::sync::Semaphore;

use crate::bucket::Condition;
use crate::document::{bytes_of, read};
use crate::{BYTES_MAX, Store, StoreError};

/// So much of checkpoints is in memory at once, in MiB.
const IN_FLIGHT_MIB: u32 = 64;

/// A call that failed is made again so often, beside what the SDK repeats by itself.
const TRIES: u32 = 3;

/// So many objects of a job's checkpoints are listed.
const KEYS_MAX: usize = 200_000;

const IF_LOST: &str = "the checkpoint before it is taken";

/// A file that is to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Where it lies.
    pub from: PathBuf,
    /// Its path in the checkpoint directory.
    pub path: String,
}

/// Why a checkpoint was not uploaded, or not restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is not whole, or was changed while it was read.
    #[error("{0}")]
    Damaged(String),
    /// The machine's own disk.
    #[error("{path}: {error}", path = path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: std::io::Error,
    },
    /// S3 refused, or did not answer.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for CheckpointError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Store {
    /// Every checkpoint of a job that has a manifest, in no order.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn list_checkpoints(&self, job: &JobId) -> Result<Vec<Checkpoint>, StoreError> {
        let folder = job_folder(job);
        let listed = self.bucket.list(&folder, KEYS_MAX).await?;
        let suffix = format!("/{MANIFEST_FILE}");
        let named = |key: &str| read_place(key.strip_prefix(&folder)?.strip_suffix(&suffix)?);
        Ok(listed.iter().filter_map(|object| named(&object.key)).collect())
    }

    /// Uploads a checkpoint: the files, several at once, and then its manifest. The files must not change meanwhile.
    ///
    /// # Errors
    /// Where a file changed or could not be read, or S3 refused; then it has no manifest.
    pub async fn upload_checkpoint(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        files: Vec<Local>,
        now: jiff::Timestamp,
    ) -> Result<Manifest, CheckpointError> {
        let folder = folder(job, checkpoint);
        let files = send::files(&self.bucket, &format!("{folder}files/"), files, &budget()).await?;
        let manifest = Manifest {
            schema: domain::job::SCHEMA,
            attempt: checkpoint.attempt,
            step: checkpoint.step,
            at: now,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
        };
        let key = format!("{folder}{MANIFEST_FILE}");
        let bytes = bytes_of(&manifest, &self.bucket.address(&key))?;
        send::again(async || self.bucket.put(&key, bytes.clone(), Condition::None).await).await?;
        Ok(manifest)
    }

    /// Writes a checkpoint's files into a directory that exists, after each of its parts was compared with its checksum.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] where it is not whole; else where the disk or S3 refused. Some files may have been written.
    pub async fn restore_checkpoint(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        into: PathBuf,
    ) -> Result<Manifest, CheckpointError> {
        let folder = folder(job, checkpoint);
        let key = format!("{folder}{MANIFEST_FILE}");
        let damaged = CheckpointError::Damaged;
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else {
            return Err(damaged("it has no manifest".to_owned()));
        };
        let manifest: Manifest = match read(&object.bytes, &self.bucket.address(&key), IF_LOST) {
            Ok(manifest) => manifest,
            Err(error) => return Err(damaged(error.to_string())),
        };
        manifest.check(checkpoint.attempt, checkpoint.step).map_err(damaged)?;
        fetch::files(&self.bucket, &format!("{folder}files/"), &manifest.files, into, &budget()).await?;
        Ok(manifest)
    }

    /// Deletes a checkpoint: first its manifest, so that it is never half there.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn delete_checkpoint(&self, job: &JobId, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let folder = folder(job, checkpoint);
        self.bucket.delete_all(&[format!("{folder}{MANIFEST_FILE}")]).await?;
        let listed = self.bucket.list(&folder, KEYS_MAX).await?;
        let keys: Vec<String> = listed.into_iter().map(|object| object.key).collect();
        self.bucket.delete_all(&keys).await?;
        Ok(())
    }
}

/// Uploads files below a folder of the bucket, which ends on `/`, each by itself. What could not be, in words.
pub(crate) async fn upload_each(bucket: &crate::bucket::Bucket, folder: &str, files: Vec<Local>) -> Vec<String> {
    send::each(bucket, folder, files, &budget()).await
}

/// What bounds the memory of one upload or restore.
fn budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(IN_FLIGHT_MIB).unwrap_or(1)))
}

/// What a part takes of the budget: all of it at most, so that a part of any size is taken in the end.
fn permits(part_bytes: u64) -> u32 {
    u32::try_from(part_bytes.div_ceil(1024 * 1024)).unwrap_or(u32::MAX).clamp(1, IN_FLIGHT_MIB)
}

fn job_folder(job: &JobId) -> String {
    format!("checkpoints/{}/{}/", crate::budgets::folder(&job.team), job.job)
}

fn folder(job: &JobId, checkpoint: Checkpoint) -> String {
    format!("{}{}/{}/", job_folder(job), checkpoint.attempt, checkpoint.step)
}

/// `<attempt>/<step>`.
fn read_place(place: &str) -> Option<Checkpoint> {
    let (attempt, step) = place.split_once('/')?;
    Some(Checkpoint { attempt: attempt.parse().ok()?, step: step.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(place: &str, expect: Option<(u32, u64)>) {
        assert_eq!(read_place(place), expect.map(|(attempt, step)| Checkpoint { attempt, step }), "{place}");
    }

    #[test]
    fn a_place_is_an_attempt_and_a_step() {
        check("2/500", Some((2, 500)));
        check("2/files/500", None);
        check("2", None);
        check("a/5", None);
    }

    #[test]
    fn a_job_has_one_folder_and_its_checkpoints_one_each() {
        let job = JobId { team: domain::id::TeamName::from("a/b"), job: "llama-1a2b3c4d".to_owned() };
        let checkpoint = Checkpoint { attempt: 3, step: 1200 };
        assert_eq!(folder(&job, checkpoint), "checkpoints/a%2Fb/llama-1a2b3c4d/3/1200/");
    }

    #[test]
    fn a_part_of_any_size_fits_the_budget() {
        assert_eq!([permits(0), permits(16 << 20), permits((16 << 20) + 1), permits(1 << 40)], [1, 16, 17, 64]);
    }
}
