//! Files from the bucket: each part is written as it comes, and compared with its checksum at its end.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use jobs::checkpoints::{ManifestFile as Described, PartDigest};
use tokio::sync::{Semaphore, mpsc};

use super::send::{blocking, retry};
use super::{AT_ONCE, CheckpointError, FileOwner};
use crate::StoreError;
use crate::bucket::{Bucket, ObjectStream};

/// Concurrent parts. S3 sends 85 to 90 MB/s for one request (Amazon S3 user guide, "Performance design patterns for Amazon S3").
const COMING: usize = 16;

/// The bytes of a part in one write; it usually arrives in smaller pieces.
const WRITE_BYTES: usize = 256 * 1024;

/// The pieces that wait for the disk. With those that are received and written that is slightly more than 1 MiB of each part.
pub(crate) const WAITING: usize = 2;

pub(super) async fn fetch_files(
    bucket: &Bucket,
    folder: &str,
    files: &[Described],
    into: PathBuf,
    owner: &FileOwner,
) -> Result<(), CheckpointError> {
    let coming = Semaphore::new(COMING);
    let fetched = stream::iter(files)
        .map(async |file| fetch_file(bucket, folder, file, into.join(&file.path), owner, &coming).await);
    fetched.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn fetch_file(
    bucket: &Bucket,
    folder: &str,
    described: &Described,
    path: PathBuf,
    owner: &FileOwner,
    coming: &Semaphore,
) -> Result<(), CheckpointError> {
    let file = Arc::new(create(path.clone(), described.bytes, owner).await?);
    let target = FileDownload { bucket, key: format!("{folder}{}", described.path), file, path, coming };
    let parts = Described::parts(described.bytes, described.part_bytes);
    let fetched = stream::iter(parts.into_iter().zip(&described.sha256));
    let fetched = fetched.map(|((start, length), digest)| target.part(start, length, digest));
    fetched.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

struct FileDownload<'a> {
    bucket: &'a Bucket,
    key: String,
    file: Arc<File>,
    path: PathBuf,
    coming: &'a Semaphore,
}

impl FileDownload<'_> {
    async fn part(&self, start: u64, length: u64, digest: &str) -> Result<(), CheckpointError> {
        let _comes = self.coming.acquire().await.map_err(|error| CheckpointError::Damaged(error.to_string()))?;
        retry(async || self.once(start, length, digest).await).await
    }

    async fn once(&self, start: u64, length: u64, digest: &str) -> Result<(), CheckpointError> {
        let damaged = |what: String| CheckpointError::Damaged(format!("{} {what}", self.bucket.address(&self.key)));
        let Some(pieces) = self.bucket.get_range(&self.key, (start, length)).await? else {
            return Err(damaged("is not there, or shorter".to_owned()));
        };
        let (sender, received) = mpsc::channel(WAITING);
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let write = move || {
            let written = write(&file, start, received);
            written.map_err(|error| CheckpointError::Disk { path, error })
        };
        let (poured, written) = futures::join!(pour(pieces, sender), blocking(&self.path, write));
        // Where the disk refused, nothing more was poured.
        let found = written?;
        poured?;
        if found == digest {
            return Ok(());
        }
        Err(damaged(format!("does not have its checksum from byte {start} on")))
    }
}

/// Passes the pieces to the writer, as long as it is there.
pub(crate) async fn pour(mut pieces: ObjectStream, sender: mpsc::Sender<Vec<Bytes>>) -> Result<(), StoreError> {
    let (mut waiting, mut bytes) = (Vec::new(), 0);
    loop {
        let piece = pieces.next().await?;
        let over = piece.is_none();
        bytes += piece.as_ref().map_or(0, Bytes::len);
        waiting.extend(piece);
        if bytes >= WRITE_BYTES || over {
            let taken = sender.send(std::mem::take(&mut waiting)).await;
            bytes = 0;
            if over || taken.is_err() {
                return Ok(());
            }
        }
    }
}

/// Writes all bytes that come. Returns their digest.
fn write(file: &File, start: u64, mut received: mpsc::Receiver<Vec<Bytes>>) -> std::io::Result<String> {
    let (mut at, mut digest) = (start, PartDigest::default());
    while let Some(pieces) = received.blocking_recv() {
        for piece in pieces {
            digest.update(&piece);
            file.write_all_at(&piece, at)?;
            at = at.saturating_add(u64::try_from(piece.len()).unwrap_or_default());
        }
    }
    Ok(digest.hex())
}

/// A file of that size. Its disk is asked for the room as it is written.
async fn create(path: PathBuf, bytes: u64, owner: &FileOwner) -> Result<File, CheckpointError> {
    let owner = owner.clone();
    blocking(&path.clone(), move || {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let created = owner.run(|| std::fs::create_dir_all(folder).and_then(|()| File::create(&path)));
        let sized = created.and_then(|file| file.set_len(bytes).map(|()| file));
        sized.map_err(|error| CheckpointError::Disk { path: path.clone(), error })
    })
    .await
}
