//! Files from the bucket, each part compared with its checksum before it is written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::job::checkpoints::File as Described;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;

use super::send::{again, blocking};
use super::{CheckpointError, permits};
use crate::StoreError;
use crate::bucket::Bucket;

/// So many files, and parts of one file, are begun at once; how many of them are in memory the budget says.
const AT_ONCE: usize = 8;

pub(super) async fn files(
    bucket: &Bucket,
    folder: &str,
    files: &[Described],
    into: PathBuf,
    budget: &Arc<Semaphore>,
) -> Result<(), CheckpointError> {
    let fetched = stream::iter(files).map(async |file| one(bucket, folder, file, into.join(&file.path), budget).await);
    fetched.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn one(
    bucket: &Bucket,
    folder: &str,
    described: &Described,
    path: PathBuf,
    budget: &Arc<Semaphore>,
) -> Result<(), CheckpointError> {
    let file = Arc::new(create(path.clone(), described.bytes).await?);
    let target = Target { bucket, key: format!("{folder}{}", described.path), file, path, budget };
    let parts = Described::parts(described.bytes, described.part_bytes);
    let fetched = stream::iter(parts.into_iter().zip(&described.sha256));
    let fetched = fetched.map(|((start, length), digest)| target.part(start, length, digest));
    fetched.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

struct Target<'a> {
    bucket: &'a Bucket,
    key: String,
    file: Arc<File>,
    path: PathBuf,
    budget: &'a Arc<Semaphore>,
}

/// Why a part was not taken.
enum Refused {
    /// It is not what was uploaded.
    Damaged(String),
    /// S3 refused, or did not answer.
    Store(StoreError),
}

impl From<Refused> for CheckpointError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Damaged(words) => Self::Damaged(words),
            Refused::Store(error) => Self::Store(error),
        }
    }
}

impl Target<'_> {
    async fn part(&self, start: u64, length: u64, digest: &str) -> Result<(), CheckpointError> {
        let held = self.budget.acquire_many(permits(length)).await;
        let _held = held.map_err(|error| CheckpointError::Damaged(error.to_string()))?;
        let part = again(async || self.checked(start, length, digest).await).await?;
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let write = move || file.write_all_at(&part, start).map_err(|error| CheckpointError::Disk { path, error });
        blocking(&self.path, write).await
    }

    async fn checked(&self, start: u64, length: u64, digest: &str) -> Result<Vec<u8>, Refused> {
        let range = (start, length);
        let Some(part) = self.bucket.get_range(&self.key, range).await.map_err(Refused::Store)? else {
            return Err(Refused::Damaged(format!("{} is not there, or shorter", self.bucket.address(&self.key))));
        };
        // Of 16 MiB, which takes some milliseconds: not where everything else waits for it.
        let hashed = tokio::task::spawn_blocking(move || (Described::digest(&part), part)).await;
        match hashed {
            Ok((found, part)) if found == digest => Ok(part),
            Ok(_) => {
                let address = self.bucket.address(&self.key);
                Err(Refused::Damaged(format!("{address} does not have its checksum from byte {start} on")))
            }
            Err(error) => Err(Refused::Damaged(error.to_string())),
        }
    }
}

/// An empty file that will have that size: where the disk is too small for it, nothing is fetched in vain.
async fn create(path: PathBuf, bytes: u64) -> Result<File, CheckpointError> {
    blocking(&path.clone(), move || {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let created = std::fs::create_dir_all(folder).and_then(|()| File::create(&path));
        let sized = created.and_then(|file| file.set_len(bytes).map(|()| file));
        sized.map_err(|error| CheckpointError::Disk { path: path.clone(), error })
    })
    .await
}
