//! Checkpoints: `checkpoints/<team>/<job>/<attempt>/<step>/`, the files in `files/`, and then `manifest.json`. What an attempt keeps of a step
//! that it has kept before lies in `<step>.1/`, `<step>.2/` and so on.
//!
//! A checkpoint is whole if its manifest is there and all its checksums hold. Whether it counts, `head.json` says; that is the
//! caller's to write. Memory is bounded whatever the sizes of files: of what is uploaded by `Memory`, and what is restored is written as
//! it comes. Each byte is hashed once.

mod fetch;
mod memory;
mod nodes;
mod owner;
mod send;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use futures::stream::{self, StreamExt, TryStreamExt};
use jobs::checkpoints::{MANIFEST_FILE, Manifest, ManifestFile, ManifestLink, StoredCheckpoint};
use jobs::{Checkpoint, JobId};
use model::fault::error_sentence;
use model::team_folder::team_folder;
use serde::Serialize;

use crate::bucket::WriteCondition;
use crate::document::{bytes_of, read};
use crate::{BYTES_MAX, Store, StoreError};
use memory::UploadMemory;

pub(crate) use fetch::{WAITING, pour};
pub use nodes::{ListedPart, NodePart};
pub use owner::FileOwner;

/// Concurrent files, and parts of one file. A small file mostly waits for S3.
const AT_ONCE: usize = 32;

/// A call that failed is made again so often, beside what the SDK repeats by itself.
const TRIES: u32 = 3;

/// The most attempts of a job, and checkpoints of an attempt, that are listed.
const FOLDERS_MAX: usize = 10_000;

/// A SHA-256 in a manifest: 64 digits, two quotation marks and a comma.
const DIGEST_BYTES: usize = 67;

const IF_LOST: &str = "the checkpoint before it is taken";

/// A file that is to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    /// Path of the file on the disk.
    pub from: PathBuf,
    /// Its path in the checkpoint directory.
    pub path: String,
    /// Fingerprint of the file when it was found, for a file that must still be the same when it is read.
    pub found: Option<FileFingerprint>,
}

/// The properties in which a rewritten or replaced file differs from the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFingerprint {
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

impl FileFingerprint {
    /// Fingerprint of the file with this metadata.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        let changed_at = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), bytes: metadata.len(), changed_at }
    }

    /// Size of the file, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time of the last change, in seconds since 1970 and nanoseconds.
    #[must_use]
    pub const fn changed_at(&self) -> (i64, i64) {
        self.changed_at
    }
}

/// Content of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointContent {
    pub files: Vec<LocalFile>,
    /// Its links to directories, and to nothing.
    pub links: Vec<ManifestLink>,
    /// The paths of its empty directories.
    pub folders: Vec<String>,
    /// `true` if the content is everything that has no number ([`Manifest::snapshot`]).
    pub snapshot: bool,
    /// The step that its names say.
    pub number: Option<u64>,
    /// True if a lower step was kept after a higher one.
    pub counts_again: bool,
    /// The path that a command resumes from.
    pub resume: Option<String>,
    /// The names of what goes with it.
    pub companions: Vec<String>,
    /// The copies of its files.
    pub copies: Vec<ManifestLink>,
    /// The checkpoints that come back with it.
    pub beside: Vec<Checkpoint>,
}

/// A file that was not uploaded.
#[derive(Debug)]
pub struct UnsentFile {
    pub file: LocalFile,
    /// Reason for not uploading it, with its name.
    pub words: String,
    /// An error of S3 that may pass.
    pub passing: Option<StoreError>,
}

/// Reason for not uploading, or not restoring, a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The checkpoint is not whole, or was changed while it was read.
    #[error("{0}")]
    Damaged(String),
    /// The checkpoint could be uploaded, and never be restored.
    #[error("{0}")]
    Unrestorable(String),
    /// The machine's own disk.
    #[error("{}: {}", path.display(), error_sentence(error))]
    Disk {
        /// The file.
        path: PathBuf,
        /// Error of the disk.
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
    /// Every checkpoint of a job, complete or not. Each takes one call, with any number of files.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn list_checkpoints(&self, job: &JobId) -> Result<Vec<StoredCheckpoint>, StoreError> {
        let folder = job_folder(job);
        let mut all = Vec::new();
        for attempt in self.bucket.folders(&folder, FOLDERS_MAX).await? {
            let steps = self.bucket.folders(&attempt, FOLDERS_MAX).await?;
            all.extend(steps.iter().filter_map(|step| read_place(step.strip_prefix(&folder)?)));
        }
        let stored = stream::iter(all).map(async |checkpoint| {
            let whole = self.bucket.has(&format!("{folder}{}{MANIFEST_FILE}", place(checkpoint))).await?;
            Ok(StoredCheckpoint { checkpoint, whole })
        });
        stored.buffered(AT_ONCE).try_collect().await
    }

    /// Uploads a checkpoint: the files, several at once, and then its manifest. The files must not change meanwhile, and are read with the
    /// rights of their owner.
    ///
    /// # Errors
    /// Where a file changed or could not be read, its manifest would be too large to be read again, or S3 refused; then it has no
    /// manifest.
    pub async fn upload_checkpoint(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        content: CheckpointContent,
        owner: &FileOwner,
        now: jiff::Timestamp,
    ) -> Result<Manifest, CheckpointError> {
        let folder = folder(job, checkpoint);
        let manifest = self.upload_files(&folder, checkpoint, content, owner, now).await?;
        self.write_manifest(&format!("{folder}{MANIFEST_FILE}"), &manifest).await?;
        Ok(manifest)
    }

    /// Uploads the files of a checkpoint below `folder`, several at once, and describes them.
    async fn upload_files(
        &self,
        folder: &str,
        checkpoint: Checkpoint,
        content: CheckpointContent,
        owner: &FileOwner,
        now: jiff::Timestamp,
    ) -> Result<Manifest, CheckpointError> {
        let Checkpoint { attempt, step, rewrite } = checkpoint;
        let CheckpointContent {
            files,
            links,
            folders,
            snapshot,
            number,
            counts_again,
            resume,
            companions,
            copies,
            beside,
        } = content;
        let described =
            files.iter().map(|file| described_bytes(&file.path, file.found.map_or(0, |found| found.bytes())));
        check_size(described.sum())?;
        let files =
            send::send_files(&self.bucket, &format!("{folder}files/"), files, owner, &UploadMemory::new()).await?;
        Ok(Manifest {
            schema: jobs::documents::SCHEMA,
            attempt,
            step,
            number,
            counts_again,
            rewrite,
            at: now,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
            links,
            folders,
            snapshot,
            resume,
            companions,
            copies,
            beside,
        })
    }

    async fn write_manifest(&self, key: &str, manifest: &impl Serialize) -> Result<(), CheckpointError> {
        let bytes = bytes_of(manifest, &self.bucket.address(key))?;
        check_size(bytes.len())?;
        send::retry(async || self.bucket.put(key, bytes.clone(), WriteCondition::None).await).await.map(drop)
    }

    /// Writes a checkpoint's files into an existing directory, and compares each part with its checksum. Until then no process should read them.
    /// The caller creates its links and empty directories. Files and directories belong to the owner, who must have the right to make them.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] where it is not whole; else where the disk or S3 refused. Some files may have been written.
    pub async fn restore_checkpoint(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        into: PathBuf,
        owner: &FileOwner,
    ) -> Result<Manifest, CheckpointError> {
        let folder = folder(job, checkpoint);
        let key = format!("{folder}{MANIFEST_FILE}");
        let damaged = CheckpointError::Damaged;
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else {
            return Err(damaged("it has no manifest".to_owned()));
        };
        let manifest: Manifest = match read(&object.bytes, &self.bucket.address(&key), IF_LOST) {
            Ok(manifest) => manifest,
            // Another version of Curfew may restore it.
            Err(error @ StoreError::UnknownSchema { .. }) => return Err(error.into()),
            Err(error) => return Err(damaged(error.to_string())),
        };
        manifest.check(checkpoint).map_err(|wrong| damaged(wrong.to_string()))?;
        fetch::fetch_files(&self.bucket, &format!("{folder}files/"), &manifest.files, into, owner).await?;
        Ok(manifest)
    }

    /// Deletes a checkpoint, however many files it has, and all that it cost: first its manifest, so that it is never half there.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn delete_checkpoint(&self, job: &JobId, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let folder = folder(job, checkpoint);
        self.bucket.delete_versions(&format!("{folder}{MANIFEST_FILE}")).await?;
        self.bucket.delete_versions(&folder).await
    }
}

/// Uploads files below a folder of the bucket, which ends on `/`, each by itself. What could not be.
pub(crate) async fn upload_each(
    bucket: &crate::bucket::Bucket,
    folder: &str,
    files: Vec<LocalFile>,
    owner: &FileOwner,
) -> Vec<UnsentFile> {
    send::send_each(bucket, folder, files, owner, &UploadMemory::new()).await
}

fn job_folder(job: &JobId) -> String {
    format!("checkpoints/{}/{}/", team_folder(&job.team), job.job)
}

fn folder(job: &JobId, checkpoint: Checkpoint) -> String {
    format!("{}{}", job_folder(job), place(checkpoint))
}

/// Below the job's folder.
fn place(checkpoint: Checkpoint) -> String {
    let Checkpoint { attempt, step, rewrite } = checkpoint;
    if rewrite == 0 { format!("{attempt}/{step}/") } else { format!("{attempt}/{step}.{rewrite}/") }
}

/// The checkpoint in `<attempt>/<step>/` or `<attempt>/<step>.<rewrite>/`.
fn read_place(path: &str) -> Option<Checkpoint> {
    let (attempt, name) = path.strip_suffix('/')?.split_once('/')?;
    let (step, rewrite) = name.split_once('.').unwrap_or((name, "0"));
    let (attempt, step, rewrite) = (attempt.parse().ok()?, step.parse().ok()?, rewrite.parse().ok()?);
    let checkpoint = Checkpoint { attempt, step, rewrite };
    // Only what is written so is Curfew's own.
    (path == place(checkpoint)).then_some(checkpoint)
}

/// Bytes that a manifest has for a file.
fn described_bytes(path: &str, bytes: u64) -> usize {
    let file = ManifestFile {
        path: path.to_owned(),
        bytes,
        part_bytes: ManifestFile::part_bytes_of(bytes),
        sha256: Vec::new(),
    };
    let digests = ManifestFile::parts(bytes, file.part_bytes).len() * DIGEST_BYTES;
    serde_json::to_vec(&file).map_or(0, |written| written.len()) + digests
}

fn check_size(bytes: usize) -> Result<(), CheckpointError> {
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    Err(CheckpointError::Unrestorable(format!(
        "its manifest would have {} MiB, and {} are read at most; write fewer files, with shorter names",
        bytes.div_ceil(1024 * 1024),
        BYTES_MAX / (1024 * 1024)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expect: Option<(u32, u64, u32)>) {
        let found = read_place(path).map(|found| (found.attempt, found.step, found.rewrite));
        assert_eq!(found, expect, "{path}");
    }

    #[test]
    fn a_checkpoint_is_known_by_its_folder() {
        check("2/500/", Some((2, 500, 0)));
        check("2/500.1/", Some((2, 500, 1)));
        check("2/500.10/", Some((2, 500, 10)));
        for other in
            ["2/500", "2/files/", "a/5/", "02/5/", "2/500.0/", "2/500.01/", "2/500./", "2/500.1.2/", "2/.1/", "2/5/6/"]
        {
            check(other, None);
        }
    }

    #[test]
    fn a_manifest_that_could_not_be_read_again_is_foreseen() {
        for bytes in [0, 1, 17 << 20, 1 << 40] {
            let part_bytes = ManifestFile::part_bytes_of(bytes);
            let sha256: Vec<String> =
                ManifestFile::parts(bytes, part_bytes).iter().map(|_| ManifestFile::digest(b"some of it")).collect();
            let path = "step-1/a \"b\".bin".to_owned();
            let written =
                serde_json::to_vec(&ManifestFile { path: path.clone(), bytes, part_bytes, sha256 }).unwrap().len();
            let foreseen = described_bytes(&path, bytes);
            assert!((written..=written + 1).contains(&foreseen), "{bytes}: {written}, {foreseen}");
        }
        assert!(check_size(BYTES_MAX).is_ok());
        assert!(check_size(BYTES_MAX + 1).unwrap_err().to_string().contains("would have 17 MiB, and 16 are read"));
    }

    #[test]
    fn a_job_has_one_folder_and_its_checkpoints_one_each() {
        let job = JobId { team: model::id::TeamName::from("a/b"), job: "llama-1a2b3c4d".to_owned() };
        let checkpoint = Checkpoint { attempt: 3, step: 1200, rewrite: 0 };
        assert_eq!(folder(&job, checkpoint), "checkpoints/a%2Fb/llama-1a2b3c4d/3/1200/");
        let again = Checkpoint { rewrite: 2, ..checkpoint };
        assert_eq!(folder(&job, again), "checkpoints/a%2Fb/llama-1a2b3c4d/3/1200.2/");
    }
}
