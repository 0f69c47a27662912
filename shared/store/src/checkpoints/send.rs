//! Files to the bucket.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::CompletedPart;
use domain::job::checkpoints::{File as Described, check_path};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;

use super::{CheckpointError, Local, TRIES, permits};
use crate::bucket::Bucket;

/// So many files, and parts of one file, are begun at once; how many of them are in memory the budget says.
const AT_ONCE: usize = 8;

pub(super) async fn files(
    bucket: &Bucket,
    folder: &str,
    files: Vec<Local>,
    budget: &Arc<Semaphore>,
) -> Result<Vec<Described>, CheckpointError> {
    for file in &files {
        check_path(&file.path).map_err(CheckpointError::Damaged)?;
    }
    let sent = stream::iter(files).map(|file| async move { one(bucket, folder, file, budget).await });
    let mut sent: Vec<Described> = sent.buffer_unordered(AT_ONCE).try_collect().await?;
    sent.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(sent)
}

/// Each by itself: what could not be sent, in words.
pub(super) async fn each(bucket: &Bucket, folder: &str, files: Vec<Local>, budget: &Arc<Semaphore>) -> Vec<String> {
    let sent = stream::iter(files).map(|file| async move {
        let path = file.from.display().to_string();
        if let Err(words) = check_path(&file.path) {
            return Some(words);
        }
        match one(bucket, folder, file, budget).await {
            Ok(_) => None,
            // These name the file.
            Err(error @ (CheckpointError::Damaged(_) | CheckpointError::Disk { .. })) => Some(error.to_string()),
            Err(error) => Some(format!("{path}: {error}")),
        }
    });
    sent.buffer_unordered(AT_ONCE).filter_map(async |words| words).collect().await
}

/// One file; afterwards it must still be the one that it was before.
async fn one(
    bucket: &Bucket,
    folder: &str,
    local: Local,
    budget: &Arc<Semaphore>,
) -> Result<Described, CheckpointError> {
    let (file, before) = open(local.from.clone()).await?;
    let file = Arc::new(file);
    let bytes = before.len();
    let part_bytes = Described::part_bytes_of(bytes);
    let parts = Described::parts(bytes, part_bytes);
    let source = Source { bucket, key: format!("{folder}{}", local.path), file, path: local.from, budget };
    let sha256 = match parts.as_slice() {
        [] => source.whole(0).await.map(|_| Vec::new())?,
        [_] => vec![source.whole(bytes).await?],
        _ => source.in_parts(&parts).await?,
    };
    let (_, after) = open(source.path.clone()).await?;
    if fingerprint(&before) != fingerprint(&after) {
        return Err(changed(&source.path));
    }
    Ok(Described { path: local.path, bytes, part_bytes, sha256 })
}

struct Source<'a> {
    bucket: &'a Bucket,
    key: String,
    file: Arc<File>,
    path: PathBuf,
    budget: &'a Arc<Semaphore>,
}

impl Source<'_> {
    /// In one request. Gives its checksum.
    async fn whole(&self, length: u64) -> Result<String, CheckpointError> {
        let _held = self.hold(length).await?;
        let (bytes, digest) = self.read(0, length).await?;
        let body = || ByteStream::from(bytes.clone());
        again(async || self.bucket.put_file(&self.key, body()).await).await?;
        Ok(digest)
    }

    /// In several, at once. What was begun and does not come to its end is given up, so that nothing is paid for it.
    async fn in_parts(&self, parts: &[(u64, u64)]) -> Result<Vec<String>, CheckpointError> {
        let upload = again(async || self.bucket.begin_upload(&self.key).await).await?;
        let sent = stream::iter((1..).zip(parts.iter().copied()))
            .map(|(number, part)| self.part(&upload, number, part))
            .buffered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await;
        let ended = match sent {
            Ok(sent) => {
                let (digests, done): (Vec<String>, Vec<CompletedPart>) = sent.into_iter().unzip();
                let complete = async || self.bucket.complete_upload(&self.key, &upload, done.clone()).await;
                again(complete).await.map(|()| digests)
            }
            Err(error) => Err(error),
        };
        if ended.is_err() {
            self.bucket.abort_upload(&self.key, &upload).await;
        }
        ended
    }

    async fn part(
        &self,
        upload: &str,
        number: i32,
        (start, length): (u64, u64),
    ) -> Result<(String, CompletedPart), CheckpointError> {
        let _held = self.hold(length).await?;
        let (bytes, digest) = self.read(start, length).await?;
        let body = || ByteStream::from(bytes.clone());
        let done = again(async || self.bucket.put_part(&self.key, upload, number, body()).await).await?;
        Ok((digest, done))
    }

    async fn hold(&self, length: u64) -> Result<tokio::sync::SemaphorePermit<'_>, CheckpointError> {
        self.budget.acquire_many(permits(length)).await.map_err(|error| CheckpointError::Damaged(error.to_string()))
    }

    /// Some of the file, and its checksum.
    async fn read(&self, start: u64, length: u64) -> Result<(bytes::Bytes, String), CheckpointError> {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        blocking(&self.path, move || {
            let mut part = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            file.read_exact_at(&mut part, start).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => changed(&path),
                _ => CheckpointError::Disk { path: path.clone(), error },
            })?;
            let digest = Described::digest(&part);
            Ok((part.into(), digest))
        })
        .await
    }
}

async fn open(path: PathBuf) -> Result<(File, Metadata), CheckpointError> {
    blocking(&path.clone(), move || {
        let opened = File::open(&path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => changed(&path),
            _ => CheckpointError::Disk { path, error },
        })
    })
    .await
}

fn fingerprint(metadata: &Metadata) -> (u64, u64, i64, i64) {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn changed(path: &Path) -> CheckpointError {
    CheckpointError::Damaged(format!("{} was changed or removed while it was read", path.display()))
}

/// What reads or writes a disk must not hold up everything else.
pub(super) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(CheckpointError::Disk { path: path.to_owned(), error: std::io::Error::other(error) }),
    }
}

/// Once more, and once more, with a pause in between.
pub(super) async fn again<T, E: Into<CheckpointError>>(
    mut call: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, CheckpointError> {
    for tried in 1..TRIES {
        if let Ok(done) = call().await {
            return Ok(done);
        }
        tokio::time::sleep(std::time::Duration::from_millis(250 << tried)).await;
    }
    call().await.map_err(Into::into)
}
