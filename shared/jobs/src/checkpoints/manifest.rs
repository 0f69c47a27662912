//! The manifest of a checkpoint, which lists its files: `checkpoints/<team>/<job>/<attempt>/<step>/manifest.json`, written when all else is
//! there.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::digest::to_hex;
use model::fault::InvalidValue;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::Checkpoint;
use super::super::documents::is_first;

/// The name of the manifest in a checkpoint's folder. The files lie in `files/` beside it.
pub const MANIFEST_FILE: &str = "manifest.json";

/// The smallest part of a multipart upload except the last, in bytes.
const PART_BYTES: u64 = 16 * 1024 * 1024;

/// More are not taken (Amazon S3 user guide, "Amazon S3 multipart upload limits": 10,000).
const PARTS_MAX: u64 = 9_000;

/// A framework has one or two, such as `last` and `best`.
const COPIES_MAX: usize = 20;

/// A key has 1,024 bytes at most (Amazon S3 user guide, "Naming Amazon S3 objects"); the folder takes some.
const PATH_BYTES_MAX: usize = 700;

/// A whole checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`SCHEMA`](crate::documents::SCHEMA).
    pub schema: u32,
    /// The attempt that wrote the checkpoint.
    pub attempt: u32,
    pub step: u64,
    /// The step that its names say. Absent in manifests of earlier versions, and where they say none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Number of the rewrite of that attempt and step ([`Checkpoint::rewrite`]).
    #[serde(default, skip_serializing_if = "is_first")]
    pub rewrite: u32,
    /// Time of the upload.
    pub at: Timestamp,
    pub bytes: u64,
    /// Every file, in order of paths.
    pub files: Vec<ManifestFile>,
    /// Every link that leads to a directory, or to nothing; a link to a file is that file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<ManifestLink>,
    /// The paths of directories with nothing in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// `true` if the checkpoint is all that has no number, written over again and again: its step is that of the checkpoint before it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub snapshot: bool,
    /// True if its attempt, or one before, kept a lower step after a higher one: then a lower step does not say that a command did not resume.
    #[serde(default, skip_serializing_if = "is_false")]
    pub counts_again: bool,
    /// The path that a command resumes from. Absent in manifests of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// The names of what goes with it and is no entry of its own, such as `latest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub companions: Vec<String>,
    /// The files without a number that are copies of one of its files, each with that: some frameworks resume only from such a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<ManifestLink>,
    /// The checkpoints that the framework kept on purpose beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Checkpoint>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A symbolic link, kept as such: what it leads to is not part of the checkpoint, unless it lies in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestLink {
    /// Its path in the checkpoint directory, with `/`.
    pub path: String,
    /// The target that the link says, which may be anything.
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its path in the checkpoint directory, with `/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The size of each of its parts but the last.
    pub part_bytes: u64,
    /// The SHA-256 of each part, in hex.
    pub sha256: Vec<String>,
}

impl ManifestFile {
    /// Returns the size of the parts of a file of so many bytes.
    #[must_use]
    pub fn part_bytes_of(bytes: u64) -> u64 {
        PART_BYTES.max(bytes.div_ceil(PARTS_MAX).next_multiple_of(1024 * 1024))
    }

    /// Returns the offset and the length of each part.
    #[must_use]
    pub fn parts(bytes: u64, part_bytes: u64) -> Vec<(u64, u64)> {
        let step = usize::try_from(part_bytes.max(1)).unwrap_or(usize::MAX);
        (0..bytes).step_by(step).map(|start| (start, part_bytes.min(bytes.saturating_sub(start)))).collect()
    }

    /// The digest of a part.
    #[must_use]
    pub fn digest(part: &[u8]) -> String {
        let mut digest = PartDigest::default();
        digest.update(part);
        digest.hex()
    }
}

/// The digest of a part that comes piece by piece.
#[derive(Debug, Clone, Default)]
pub struct PartDigest(Sha256);

impl PartDigest {
    /// The next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the digest of all pieces that were taken, in hex.
    #[must_use]
    pub fn hex(self) -> String {
        to_hex(&self.0.finalize())
    }
}

impl Manifest {
    /// Checks that the manifest is that of its place, and can be restored without leaving its directory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, checkpoint: Checkpoint) -> Result<(), InvalidValue> {
        let Self { attempt, step, rewrite, .. } = *self;
        if (Checkpoint { attempt, step, rewrite }) != checkpoint {
            return Err(InvalidValue::new(format!(
                "its manifest is that of step {step} of attempt {attempt}, rewritten {rewrite} times"
            )));
        }
        if self.files.is_empty() {
            return Err(InvalidValue::new("its manifest names no file"));
        }
        let bytes = self.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.bytes));
        if bytes != Some(self.bytes) {
            return Err(InvalidValue::new("the sizes in its manifest do not add up"));
        }
        self.resume.as_deref().map_or(Ok(()), check_path)?;
        self.check_links()?;
        self.check_copies()?;
        self.check_places()?;
        self.files.iter().try_for_each(|file| {
            check_path(&file.path)?;
            let parts = if file.part_bytes == 0 { 0 } else { file.bytes.div_ceil(file.part_bytes) };
            if u64::try_from(file.sha256.len()) != Ok(parts) || (file.bytes > 0 && parts == 0) {
                return Err(InvalidValue::new(format!(
                    "its manifest does not have a checksum for each part of `{}`",
                    file.path
                )));
            }
            Ok(())
        })
    }

    /// A copy is beside the file that it is of, and is no other file.
    fn check_copies(&self) -> Result<(), InvalidValue> {
        let has = |path: &String| self.files.iter().any(|file| file.path == *path);
        let is_wrong = |copy: &&ManifestLink| {
            let is_at_top = check_path(&copy.path).is_ok() && !copy.path.contains('/') && !copy.to.contains('/');
            !is_at_top || has(&copy.path) || !has(&copy.to)
        };
        let wrong = self.copies.iter().find(is_wrong).or_else(|| self.copies.get(COPIES_MAX));
        wrong.map_or(Ok(()), |copy| {
            Err(InvalidValue::new(format!("in its manifest `{}` is no copy of `{}`", copy.path, copy.to)))
        })
    }

    /// A file has a place of its own, and nothing lies below it.
    fn check_places(&self) -> Result<(), InvalidValue> {
        let mut files = BTreeSet::new();
        if let Some(twice) = self.files.iter().find(|file| !files.insert(file.path.as_str())) {
            return Err(InvalidValue::new(format!("its manifest has `{}` twice", twice.path)));
        }
        let below = |path: &&str| with_parents(path).skip(1).any(|parent| files.contains(parent));
        let folders = self.folders.iter().map(String::as_str);
        let others = folders.clone().chain(self.links.iter().map(|link| link.path.as_str()));
        match files.iter().copied().chain(others).find(below) {
            Some(path) => Err(InvalidValue::new(format!("in its manifest `{path}` lies below a file"))),
            None => match folders.clone().find(|path| files.contains(path)) {
                Some(path) => Err(InvalidValue::new(format!("in its manifest `{path}` is a file and a directory"))),
                None => Ok(()),
            },
        }
    }

    /// A link may lead anywhere, so nothing of the checkpoint may lie behind one.
    fn check_links(&self) -> Result<(), InvalidValue> {
        self.folders.iter().try_for_each(|path| check_path(path))?;
        let files = self.files.iter().map(|file| file.path.as_str());
        let others: Vec<&str> = files.chain(self.folders.iter().map(String::as_str)).collect();
        let mut links = BTreeSet::new();
        for ManifestLink { path, to } in &self.links {
            check_path(path)?;
            if to.is_empty() || to.contains('\0') || !links.insert(path.as_str()) {
                return Err(InvalidValue::new(format!("its manifest has a link `{path}` that is none")));
            }
        }
        let behind = |path: &&&str| with_parents(path).any(|parent| links.contains(parent));
        match others.iter().find(behind) {
            Some(path) => Err(InvalidValue::new(format!("in its manifest `{path}` lies behind a link"))),
            None if links.iter().any(|path| with_parents(path).skip(1).any(|parent| links.contains(parent))) => {
                Err(InvalidValue::new("in its manifest a link lies behind another one"))
            }
            None => Ok(()),
        }
    }
}

/// A path, and those of all directories above it.
fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(parent, _)| parent))
}

/// Checks that a text is a path in the directory, which S3 takes as a part of a key.
///
/// # Errors
/// What is wrong with it.
pub fn check_path(path: &str) -> Result<(), InvalidValue> {
    let inside = path.split('/').all(|name| !name.is_empty() && name != "." && name != "..");
    let printable = !path.chars().any(char::is_control);
    if inside && printable && path.len() <= PATH_BYTES_MAX {
        return Ok(());
    }
    let what = "has to stay in the directory, without control characters, and with 700 bytes at most";
    Err(InvalidValue::new(format!(
        "the path `{}` {what}",
        model::fault::shortened(&path.escape_debug().to_string(), 200)
    )))
}
