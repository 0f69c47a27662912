//! Checkpoints: `checkpoints/<team>/<job>/<attempt>/<step>/`, the files in `files/`, and then `manifest.json`. What an attempt keeps of a step
//! that it has kept before lies in `<step>.1/`, `<step>.2/` and so on.
//!
//! A checkpoint is whole if its manifest is there and all its checksums hold. Whether it counts, `head.json` says; that is the
//! caller's to write. Memory is bounded whatever the sizes of files: of what is uploaded by [`Memory`], and what is restored is written as
//! it comes. Each byte is hashed once.

mod fetch;
mod memory;
mod send;

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use domain::job::checkpoints::{File, Link, MANIFEST_FILE, Manifest, Stored};
use domain::job::{Checkpoint, JobId};

use crate::bucket::Condition;
use crate::document::{bytes_of, read};
use crate::{BYTES_MAX, Store, StoreError};
use memory::Memory;

/// So many files, and parts of one file, are begun at once. Of a small file most is waiting for S3.
const AT_ONCE: usize = 32;

/// A call that failed is made again so often, beside what the SDK repeats by itself.
const TRIES: u32 = 3;

/// So many objects of a job's checkpoints are listed.
const KEYS_MAX: usize = 200_000;

/// A SHA-256 in a manifest: 64 digits, two quotation marks and a comma.
const DIGEST_BYTES: usize = 67;

const IF_LOST: &str = "the checkpoint before it is taken";

/// A file that is to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Where it lies.
    pub from: PathBuf,
    /// Its path in the checkpoint directory.
    pub path: String,
    /// Which file it was when it was found, for one that must still be that one when it is read.
    pub found: Option<Fingerprint>,
}

/// What a file that is written again, or replaced, has not in common with the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

impl Fingerprint {
    /// Of the file that this was read of.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let changed_at = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), bytes: metadata.len(), changed_at }
    }

    /// How large it was.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When it was changed last, in seconds since 1970 and nanoseconds.
    #[must_use]
    pub const fn changed_at(&self) -> (i64, i64) {
        self.changed_at
    }
}

/// What a checkpoint consists of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// Its files.
    pub files: Vec<Local>,
    /// Its links to directories, and to nothing.
    pub links: Vec<Link>,
    /// The paths of its empty directories.
    pub folders: Vec<String>,
}

/// A file that was not uploaded.
#[derive(Debug)]
pub struct Unsent {
    /// Which.
    pub file: Local,
    /// Why not, with its name.
    pub words: String,
    /// What S3 said, where it may say otherwise the next time.
    pub passing: Option<StoreError>,
}

/// Why a checkpoint was not uploaded, or not restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is not whole, or was changed while it was read.
    #[error("{0}")]
    Damaged(String),
    /// It could be uploaded, and never be restored.
    #[error("{0}")]
    Unrestorable(String),
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
    /// Every checkpoint of a job of which there is anything, whole or not, in no order.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn list_checkpoints(&self, job: &JobId) -> Result<Vec<Stored>, StoreError> {
        let folder = job_folder(job);
        let listed = self.bucket.list(&folder, KEYS_MAX).await?;
        Ok(stored(listed.iter().filter_map(|object| object.key.strip_prefix(&folder))))
    }

    /// Uploads a checkpoint: the files, several at once, and then its manifest. The files must not change meanwhile.
    ///
    /// # Errors
    /// Where a file changed or could not be read, its manifest would be too large to be read again, or S3 refused; then it has no
    /// manifest.
    pub async fn upload_checkpoint(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        content: Content,
        now: jiff::Timestamp,
    ) -> Result<Manifest, CheckpointError> {
        let folder = folder(job, checkpoint);
        let Content { files, links, folders } = content;
        let files = foreseen(files).await?;
        let files = send::files(&self.bucket, &format!("{folder}files/"), files, &Memory::new()).await?;
        let manifest = Manifest {
            schema: domain::job::SCHEMA,
            attempt: checkpoint.attempt,
            step: checkpoint.step,
            rewrite: checkpoint.rewrite,
            at: now,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
            links,
            folders,
        };
        let key = format!("{folder}{MANIFEST_FILE}");
        let bytes = bytes_of(&manifest, &self.bucket.address(&key))?;
        check_size(bytes.len())?;
        send::again(async || self.bucket.put(&key, bytes.clone(), Condition::None).await).await?;
        Ok(manifest)
    }

    /// Writes a checkpoint's files into a directory that exists, and compares each of its parts with its checksum. Until that is done nobody
    /// should look at them. Its links and empty directories are left to the caller.
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
            // Another version of Curfew may restore it.
            Err(error @ StoreError::UnknownSchema { .. }) => return Err(error.into()),
            Err(error) => return Err(damaged(error.to_string())),
        };
        manifest.check(checkpoint).map_err(damaged)?;
        fetch::files(&self.bucket, &format!("{folder}files/"), &manifest.files, into).await?;
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

/// Uploads files below a folder of the bucket, which ends on `/`, each by itself. What could not be.
pub(crate) async fn upload_each(bucket: &crate::bucket::Bucket, folder: &str, files: Vec<Local>) -> Vec<Unsent> {
    send::each(bucket, folder, files, &Memory::new()).await
}

fn job_folder(job: &JobId) -> String {
    format!("checkpoints/{}/{}/", crate::budgets::folder(&job.team), job.job)
}

fn folder(job: &JobId, checkpoint: Checkpoint) -> String {
    format!("{}{}", job_folder(job), place(checkpoint))
}

/// Below the job's folder.
fn place(checkpoint: Checkpoint) -> String {
    let Checkpoint { attempt, step, rewrite } = checkpoint;
    if rewrite == 0 { format!("{attempt}/{step}/") } else { format!("{attempt}/{step}.{rewrite}/") }
}

/// What lies at these paths below a job's folder.
fn stored<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Stored> {
    let mut found: BTreeMap<(u32, u64, u32), bool> = BTreeMap::new();
    for (Checkpoint { attempt, step, rewrite }, rest) in paths.filter_map(read_place) {
        *found.entry((attempt, step, rewrite)).or_default() |= rest == MANIFEST_FILE;
    }
    let stored =
        |((attempt, step, rewrite), whole)| Stored { checkpoint: Checkpoint { attempt, step, rewrite }, whole };
    found.into_iter().map(stored).collect()
}

/// `<attempt>/<step>/` or `<attempt>/<step>.<rewrite>/`, and the rest.
fn read_place(path: &str) -> Option<(Checkpoint, &str)> {
    let (attempt, rest) = path.split_once('/')?;
    let (name, rest) = rest.split_once('/')?;
    let (step, rewrite) = name.split_once('.').unwrap_or((name, "0"));
    let (attempt, step, rewrite) = (attempt.parse().ok()?, step.parse().ok()?, rewrite.parse().ok()?);
    let checkpoint = Checkpoint { attempt, step, rewrite };
    // Only what is written so is Curfew's own.
    (path == format!("{}{rest}", place(checkpoint))).then_some((checkpoint, rest))
}

/// The same files, where a manifest of them can be read again: before they are all uploaded in vain.
async fn foreseen(files: Vec<Local>) -> Result<Vec<Local>, CheckpointError> {
    send::blocking(&PathBuf::new(), move || {
        // One that vanishes is missed when it is read.
        let size = |file: &Local| std::fs::metadata(&file.from).map_or(0, |metadata| metadata.len());
        check_size(files.iter().map(|file| described_bytes(&file.path, size(file))).sum())?;
        Ok(files)
    })
    .await
}

/// How many bytes a manifest has for a file.
fn described_bytes(path: &str, bytes: u64) -> usize {
    let file = File { path: path.to_owned(), bytes, part_bytes: File::part_bytes_of(bytes), sha256: Vec::new() };
    let digests = File::parts(bytes, file.part_bytes).len() * DIGEST_BYTES;
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

    fn check(paths: &[&str], expect: &[(u32, u64, bool)]) {
        let found = stored(paths.iter().copied()).into_iter();
        let found: Vec<_> =
            found.map(|stored| (stored.checkpoint.attempt, stored.checkpoint.step, stored.whole)).collect();
        assert_eq!(found, expect, "{paths:?}");
    }

    #[test]
    fn a_checkpoint_is_whole_by_its_manifest() {
        check(&["2/500/files/a.pt", "2/500/manifest.json"], &[(2, 500, true)]);
        check(&["2/500/files/a.pt", "1/500/files/manifest.json"], &[(1, 500, false), (2, 500, false)]);
        check(&["2/files/500/manifest.json", "2/500", "a/5/manifest.json", "02/5/manifest.json"], &[]);
        let again = ["2/500.1/manifest.json", "2/500.10/files/a.pt"];
        assert_eq!(
            stored(again.into_iter()).iter().map(|stored| stored.checkpoint.rewrite).collect::<Vec<_>>(),
            [1, 10]
        );
        check(&["2/500.0/manifest.json", "2/500.01/manifest.json", "2/500./a", "2/500.1.2/a", "2/.1/a"], &[]);
    }

    #[test]
    fn a_manifest_that_could_not_be_read_again_is_foreseen() {
        for bytes in [0, 1, 17 << 20, 1 << 40] {
            let part_bytes = File::part_bytes_of(bytes);
            let sha256: Vec<String> =
                File::parts(bytes, part_bytes).iter().map(|_| File::digest(b"some of it")).collect();
            let path = "step-1/a \"b\".bin".to_owned();
            let written = serde_json::to_vec(&File { path: path.clone(), bytes, part_bytes, sha256 }).unwrap().len();
            let foreseen = described_bytes(&path, bytes);
            assert!((written..=written + 1).contains(&foreseen), "{bytes}: {written}, {foreseen}");
        }
        assert!(check_size(BYTES_MAX).is_ok());
        assert!(check_size(BYTES_MAX + 1).unwrap_err().to_string().contains("would have 17 MiB, and 16 are read"));
    }

    #[test]
    fn a_job_has_one_folder_and_its_checkpoints_one_each() {
        let job = JobId { team: domain::id::TeamName::from("a/b"), job: "llama-1a2b3c4d".to_owned() };
        let checkpoint = Checkpoint { attempt: 3, step: 1200, rewrite: 0 };
        assert_eq!(folder(&job, checkpoint), "checkpoints/a%2Fb/llama-1a2b3c4d/3/1200/");
        let again = Checkpoint { rewrite: 2, ..checkpoint };
        assert_eq!(folder(&job, again), "checkpoints/a%2Fb/llama-1a2b3c4d/3/1200.2/");
    }
}
