//! Files to the bucket.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_sdk_s3::types::CompletedPart;
use futures::stream::{self, StreamExt, TryStreamExt};
use jobs::checkpoints::{ManifestFile as Described, PartDigest, check_path};

use super::memory::{UploadBuffer, UploadMemory};
use super::{AT_ONCE, CheckpointError, FileFingerprint, FileOwner, LocalFile, TRIES, UnsentFile};
use crate::bucket::{Bucket, Payload};

/// The bytes that are read and then hashed at once, so that the hash finds them in the processor's cache.
const READ_BYTES: usize = 256 * 1024;

pub(super) async fn send_files(
    bucket: &Bucket,
    folder: &str,
    files: Vec<LocalFile>,
    owner: &FileOwner,
    memory: &Arc<UploadMemory>,
) -> Result<Vec<Described>, CheckpointError> {
    for file in &files {
        check_path(&file.path).map_err(|wrong| CheckpointError::Damaged(wrong.to_string()))?;
    }
    let sent = stream::iter(files).map(|file| async move { send_file(bucket, folder, file, owner, memory).await });
    let mut sent: Vec<Described> = sent.buffer_unordered(AT_ONCE).try_collect().await?;
    sent.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(sent)
}

/// Each by itself: what could not be sent.
pub(super) async fn send_each(
    bucket: &Bucket,
    folder: &str,
    files: Vec<LocalFile>,
    owner: &FileOwner,
    memory: &Arc<UploadMemory>,
) -> Vec<UnsentFile> {
    let sent = stream::iter(files).map(|file| async move {
        if let Err(wrong) = check_path(&file.path) {
            return Some(UnsentFile { file, words: wrong.to_string(), passing: None });
        }
        match send_file(bucket, folder, file.clone(), owner, memory).await {
            Ok(_) => None,
            Err(CheckpointError::Store(error)) => {
                let words = format!("{}: {error}", file.from.display());
                Some(UnsentFile { file, words, passing: Some(error).filter(|error| !error.lasts()) })
            }
            // The others name the file.
            Err(error) => Some(UnsentFile { file, words: error.to_string(), passing: None }),
        }
    });
    sent.buffer_unordered(AT_ONCE).filter_map(async |unsent| unsent).collect().await
}

/// One file; afterwards it must still be the one that it was before.
async fn send_file(
    bucket: &Bucket,
    folder: &str,
    local: LocalFile,
    owner: &FileOwner,
    memory: &Arc<UploadMemory>,
) -> Result<Described, CheckpointError> {
    let (file, before) = open(local.from.clone(), owner).await?;
    let (file, bytes, before) = (Arc::new(file), before.len(), FileFingerprint::from_metadata(&before));
    if local.found.is_some_and(|found| found != before) {
        return Err(changed(&local.from));
    }
    let part_bytes = Described::part_bytes_of(bytes);
    let parts = Described::parts(bytes, part_bytes);
    let source =
        FileUpload { bucket, key: format!("{folder}{}", local.path), file, path: local.from, part_bytes, memory };
    let sha256 = match parts.as_slice() {
        [] => source.whole(0).await.map(|_| Vec::new())?,
        [_] => vec![source.whole(bytes).await?],
        _ => source.in_parts(&parts).await?,
    };
    let (_, after) = open(source.path.clone(), owner).await?;
    if before != FileFingerprint::from_metadata(&after) {
        return Err(changed(&source.path));
    }
    Ok(Described { path: local.path, bytes, part_bytes, sha256 })
}

struct FileUpload<'a> {
    bucket: &'a Bucket,
    key: String,
    file: Arc<File>,
    path: PathBuf,
    part_bytes: u64,
    memory: &'a Arc<UploadMemory>,
}

impl FileUpload<'_> {
    /// Uploads the file in one request. Returns its checksum.
    async fn whole(&self, length: u64) -> Result<String, CheckpointError> {
        let payload = self.read(0, length).await?;
        retry(async || self.bucket.put_file(&self.key, &payload).await).await?;
        Ok(payload.sha256)
    }

    /// Uploads the file in several parts, at once. An upload that was begun and fails is aborted, so that nothing is paid for it.
    async fn in_parts(&self, parts: &[(u64, u64)]) -> Result<Vec<String>, CheckpointError> {
        let upload = retry(async || self.bucket.begin_upload(&self.key).await).await?;
        let sent = stream::iter((1..).zip(parts.iter().copied()))
            .map(|(number, part)| self.part(&upload, number, part))
            .buffered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await;
        let ended = match sent {
            Ok(sent) => {
                let (digests, done): (Vec<String>, Vec<CompletedPart>) = sent.into_iter().unzip();
                let complete = async || self.bucket.complete_upload(&self.key, &upload, done.clone(), &digests).await;
                retry(complete).await.map(|()| digests.clone())
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
        let payload = self.read(start, length).await?;
        let done = retry(async || self.bucket.put_part(&self.key, upload, number, &payload).await).await?;
        Ok((payload.sha256, done))
    }

    /// Some of the file, once there is room for it.
    async fn read(&self, start: u64, length: u64) -> Result<Payload, CheckpointError> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let room = self.memory.reserve(size(length), size(self.part_bytes)).await;
        let room = room.map_err(|error| CheckpointError::Disk { path: self.path.clone(), error })?;
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        blocking(&self.path, move || {
            fill(&file, start, room).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => changed(&path),
                _ => CheckpointError::Disk { path, error },
            })
        })
        .await
    }
}

/// A part, from where it begins in the file.
fn fill(file: &File, start: u64, mut part: UploadBuffer) -> std::io::Result<Payload> {
    let (mut at, mut digest) = (start, PartDigest::default());
    for piece in part.bytes_mut().chunks_mut(READ_BYTES) {
        file.read_exact_at(piece, at)?;
        digest.update(piece);
        at = at.saturating_add(u64::try_from(piece.len()).unwrap_or_default());
    }
    Ok(Payload { bytes: part.shared(), sha256: digest.hex() })
}

async fn open(path: PathBuf, owner: &FileOwner) -> Result<(File, Metadata), CheckpointError> {
    let owner = owner.clone();
    blocking(&path.clone(), move || {
        let opened = owner.run(|| File::open(&path));
        let opened = opened.and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => changed(&path),
            _ => CheckpointError::Disk { path, error },
        })
    })
    .await
}

fn changed(path: &Path) -> CheckpointError {
    CheckpointError::Damaged(format!("{} was changed or removed while it was read", path.display()))
}

/// Runs work on a disk on a thread for blocking work, so that it does not hold up everything else.
pub(super) async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(CheckpointError::Disk { path: path.to_owned(), error: std::io::Error::other(error) }),
    }
}

/// Repeats a failed call at most twice, with a pause before each repeat. An error of the disk is not repeated: the disk would refuse it
/// again.
pub(super) async fn retry<T, E: Into<CheckpointError>>(
    mut call: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, CheckpointError> {
    for tried in 1..TRIES {
        match call().await.map_err(Into::into) {
            Ok(done) => return Ok(done),
            Err(error @ CheckpointError::Disk { .. }) => return Err(error),
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(250 << tried)).await,
        }
    }
    call().await.map_err(Into::into)
}
