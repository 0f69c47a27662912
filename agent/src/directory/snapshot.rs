//! The files of a checkpoint during its upload.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobs::checkpoints::{
    COMPANION_BYTES_MAX, COMPLETE, CheckpointStep, Manifest, ManifestFile, ManifestLink, PartDigest, PathOfStep,
    PointerTarget, StepNumber, points_to, resume_path,
};
use store::{CheckpointContent, FileFingerprint, LocalFile};

use super::content::DirectoryContent;
use super::held::{base_of, copied, delete_copies};
use super::{CheckpointDirectory, changed_at, within};

const READ_BYTES: usize = 256 * 1024;

/// The largest file that is compared with a likely copy: it takes some ten seconds.
const COMPARED_BYTES_MAX: u64 = 16 << 30;

/// A checkpoint in the bucket, and its step as it was in the directory when it was uploaded or restored.
#[derive(Debug, Clone)]
pub(crate) struct KeptStep {
    pub(crate) step: CheckpointStep,
    pub(crate) manifest: Arc<Manifest>,
}

/// A checkpoint at one moment.
#[derive(Debug)]
pub(crate) struct StepSnapshot {
    pub(crate) content: CheckpointContent,
    directory: CheckpointDirectory,
    /// Its entries, with the path that each is read from.
    entries: Vec<(String, PathBuf)>,
    /// Files that may change meanwhile.
    text: Vec<LocalFile>,
    /// The files that may not, by their paths.
    seen: BTreeMap<String, FileFingerprint>,
    /// The names of entries that the command overwrites in place: all of a snapshot, and the data that goes with a step.
    overwritten: BTreeSet<String>,
    /// True if all files of these entries were copied.
    has_copies: bool,
}

impl StepSnapshot {
    /// One checkpoint of a directory. `others` are the entries of all checkpoints, and `links` the links between names.
    pub(crate) fn capture(
        directory: &CheckpointDirectory,
        step: &CheckpointStep,
        others: &[String],
        links: &[String],
    ) -> io::Result<Self> {
        let mut taken = Self {
            content: CheckpointContent {
                snapshot: step.number == StepNumber::Snapshot,
                number: step.number.named(),
                ..CheckpointContent::default()
            },
            directory: directory.clone(),
            entries: step.entries.iter().map(|name| (name.clone(), base_of(directory, name))).collect(),
            text: Vec::new(),
            seen: BTreeMap::new(),
            overwritten: match step.number {
                StepNumber::Snapshot => step.entries.iter().cloned().collect(),
                StepNumber::Named(_) | StepNumber::Ambiguous(_) => step.state.iter().cloned().collect(),
            },
            has_copies: false,
        };
        let mut paths = Vec::new();
        for (name, base) in taken.entries.clone() {
            let mut inside = DirectoryContent::beneath(directory, &base, directory.is_loose(&name));
            inside.add(&name)?;
            let found = taken.take(inside, &base)?;
            // A marker file may say the step, and is restored with it.
            let mark = format!("{name}{COMPLETE}");
            if let Ok(metadata) = fs::metadata(base.join(&mark)) {
                let found = Some(FileFingerprint::from_metadata(&metadata));
                taken.text.push(LocalFile { path: mark.clone(), from: base.join(&mark), found });
                taken.content.companions.push(mark);
            }
            paths.extend(if taken.content.snapshot { found } else { joined(name, &found) });
        }
        taken.content.resume = resume_path(&paths).map(str::to_owned);
        for name in &step.state {
            let mut inside = DirectoryContent::beneath(directory, &directory.path, true);
            inside.add(name)?;
            taken.take(inside, &directory.path)?;
            taken.entries.push((name.clone(), directory.path.clone()));
            taken.content.companions.push(name.clone());
        }
        for name in &step.copies {
            if let Some(original) = taken.original_of(&directory.path.join(name)) {
                taken.content.copies.push(ManifestLink { path: name.clone(), to: original });
            }
        }
        for name in &step.companions {
            let mut inside = DirectoryContent::beneath(directory, &directory.path, true);
            if !leads_elsewhere(&directory.path.join(name), &step.entries, others) && inside.add(name).is_ok() {
                inside.text.append(&mut inside.files);
                taken.take(inside, &directory.path)?;
                taken.content.companions.push(name.clone());
            }
        }
        for name in links {
            if let Some(link) = link_within(directory, name, |target| taken.has(target)) {
                taken.content.links.push(link);
                taken.content.companions.push(name.clone());
            }
        }
        Ok(taken)
    }

    /// Adds the content found below `base`, and returns the paths of the files that count.
    fn take(&mut self, inside: DirectoryContent<'_>, base: &Path) -> io::Result<Vec<PathOfStep>> {
        let named = |path: &Path| within(path, base).map_err(io::Error::other);
        let mut paths = Vec::new();
        for (from, metadata) in &inside.files {
            let (path, found) = (named(from)?, FileFingerprint::from_metadata(metadata));
            paths.push(PathOfStep { path: path.clone(), bytes: metadata.len(), changed_at: changed_at(metadata) });
            self.seen.insert(path.clone(), found);
            self.content.files.push(LocalFile { path, from: from.clone(), found: Some(found) });
        }
        for (from, metadata) in &inside.text {
            let found = Some(FileFingerprint::from_metadata(metadata));
            self.text.push(LocalFile { path: named(from)?, from: from.clone(), found });
        }
        for (from, to) in &inside.links {
            let unnamed = || io::Error::other(format!("{} leads to a path that is not UTF-8", from.display()));
            let to = to.to_str().ok_or_else(unnamed)?.to_owned();
            self.content.links.push(ManifestLink { path: named(from)?, to });
        }
        for folder in &inside.folders {
            self.content.folders.push(named(folder)?);
        }
        Ok(paths)
    }

    /// The file at the top of the checkpoint with the bytes of that one. One that cannot be read is no copy.
    fn original_of(&self, copy: &Path) -> Option<String> {
        let bytes = fs::metadata(copy).ok()?.len();
        let may_be = |file: &&LocalFile| {
            !file.path.contains('/')
                && file.found.is_some_and(|found| found.bytes() == bytes)
                && bytes <= COMPARED_BYTES_MAX
        };
        let is_same = |file: &&LocalFile| has_same_bytes(copy, &file.from).unwrap_or(false);
        self.content.files.iter().filter(may_be).find(is_same).map(|file| file.path.clone())
    }

    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(entry, _)| entry == name) || self.content.companions.iter().any(|one| one == name)
    }

    /// Returns `true` if the snapshot has as many files and bytes as the step had at the last look. Otherwise some were deleted or added
    /// since.
    pub(crate) fn is_all_of(&self, step: &CheckpointStep) -> bool {
        let bytes: u64 = self.seen.values().map(FileFingerprint::bytes).sum();
        (u64::try_from(self.seen.len()), bytes) == (Ok(step.files), step.bytes)
    }

    /// Copies files that may be overwritten during the upload: text, and the files of entries without a number, unless they are too large. What
    /// cannot be copied must not change.
    pub(crate) fn freeze(&mut self) -> io::Result<()> {
        delete_copies(&self.directory.path);
        for mut file in std::mem::take(&mut self.text) {
            // A file that is being written, or is gone, was no part of the last look.
            if self.freeze_file(&mut file).is_ok_and(|is_copied| is_copied) {
                self.content.files.push(file);
            }
        }
        if self.overwritten.is_empty() {
            return Ok(());
        }
        let mut files = std::mem::take(&mut self.content.files);
        let is_overwritten = |path: &str| path.split('/').next().is_some_and(|name| self.overwritten.contains(name));
        let counts = |file: &LocalFile| self.seen.contains_key(&file.path) && is_overwritten(&file.path);
        let mut has_copies = true;
        for file in files.iter_mut().filter(|file| counts(file)) {
            has_copies &= self.freeze_file(file)?;
        }
        self.content.files = files;
        if let Some(path) = self.changed() {
            return Err(io::Error::other(format!("{} was changed while it was copied", path.display())));
        }
        if has_copies {
            // The originals may change from now on.
            self.entries.retain(|(name, _)| !self.overwritten.contains(name));
        }
        self.has_copies = has_copies;
        Ok(())
    }

    fn freeze_file(&self, file: &mut LocalFile) -> io::Result<bool> {
        let Some(copy) = copied(&self.directory.path, &file.path, &file.from, &fs::metadata(&file.from)?)? else {
            return Ok(false);
        };
        (file.found, file.from) = (Some(FileFingerprint::from_metadata(&fs::metadata(&copy)?)), copy);
        Ok(true)
    }

    /// True if it is read from copies.
    pub(crate) const fn has_copies(&self) -> bool {
        self.has_copies
    }

    /// Deletes the copies.
    pub(crate) fn thaw(&self) {
        delete_copies(&self.directory.path);
    }

    /// A file that was written or added since. A deleted file was already read.
    pub(crate) fn changed(&self) -> Option<PathBuf> {
        self.entries.iter().find_map(|(name, base)| {
            let mut now = DirectoryContent::beneath(&self.directory, base, self.directory.is_loose(name));
            // An unreadable path is being deleted.
            let _ = now.add(name);
            let is_changed =
                |path: &Path, found| within(path, base).is_ok_and(|path| self.seen.get(&path) != Some(&found));
            let changed = now
                .files
                .into_iter()
                .find(|(path, metadata)| is_changed(path, FileFingerprint::from_metadata(metadata)));
            changed.map(|(path, _)| path)
        })
    }

    /// Returns `true` if the snapshot has the bytes of a manifest, although it was touched since. Reads the last changed files first,
    /// because a difference shows there first. An abandoned comparison is an error.
    pub(crate) fn is_still(&self, manifest: &Manifest, given_up: &AtomicBool) -> io::Result<bool> {
        let own = |path: &str| self.entries.iter().any(|(entry, _)| path.split('/').next() == Some(entry));
        let text: BTreeSet<&str> = self.text.iter().map(|file| file.path.as_str()).collect();
        let described: BTreeMap<&str, &ManifestFile> = manifest
            .files
            .iter()
            .filter(|file| own(&file.path) && !text.contains(file.path.as_str()))
            .map(|file| (file.path.as_str(), file))
            .collect();
        let CheckpointContent { files, links, folders, .. } = &self.content;
        let ends = |links: &[ManifestLink]| {
            let own = links.iter().filter(|link| own(&link.path));
            own.map(|link| (link.path.clone(), link.to.clone())).collect::<BTreeSet<_>>()
        };
        let sorted = |all: &[String]| all.iter().filter(|path| own(path)).cloned().collect::<BTreeSet<_>>();
        let pairs: Option<Vec<_>> =
            files.iter().map(|file| Some((file, *described.get(file.path.as_str())?))).collect();
        let Some(mut pairs) = pairs.filter(|pairs| pairs.len() == described.len()) else { return Ok(false) };
        let size = |file: &LocalFile| file.found.map(|found| found.bytes());
        let same_sizes = pairs.iter().all(|(file, described)| size(file) == Some(described.bytes));
        if ends(links) != ends(&manifest.links) || !same_sizes || sorted(folders) != sorted(&manifest.folders) {
            return Ok(false);
        }
        pairs.sort_by_key(|(file, _)| Reverse(file.found.map(|found| found.changed_at())));
        for (file, described) in pairs {
            if !has_digests(&file.from, described, given_up)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The path of an entry, with the size of everything found in it.
fn joined(name: String, found: &[PathOfStep]) -> Vec<PathOfStep> {
    let changed_at = found.iter().map(|path| path.changed_at).max();
    let bytes = found.iter().map(|path| path.bytes).sum();
    changed_at.map(|changed_at| PathOfStep { path: name, bytes, changed_at }).into_iter().collect()
}

/// Returns `true` if a small file names another checkpoint: restored with this one it would mislead.
fn leads_elsewhere(path: &Path, entries: &[String], others: &[String]) -> bool {
    let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= COMPANION_BYTES_MAX);
    let text = if is_small { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    points_to(&text, entries, others) == PointerTarget::Other
}

/// A link to a path that is restored with it.
fn link_within(directory: &CheckpointDirectory, name: &str, has: impl Fn(&str) -> bool) -> Option<ManifestLink> {
    let link = directory.path.join(name);
    let (target, below) = (link.canonicalize().ok()?, directory.path.canonicalize().ok()?);
    let first = target.strip_prefix(&below).ok()?.components().next()?;
    let to = fs::read_link(&link).ok()?.to_str()?.to_owned();
    let path = within(&link, &directory.path).ok()?;
    has(first.as_os_str().to_str()?).then_some(ManifestLink { path, to })
}

/// True if two files of the same size have the same bytes.
fn has_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (fs::File::open(one)?, fs::File::open(other)?);
    let (mut piece, mut other_piece) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
    loop {
        let length = one.read(&mut piece)?;
        other.read_exact(&mut other_piece[..length])?;
        if length == 0 || piece[..length] != other_piece[..length] {
            return Ok(length == 0);
        }
    }
}

/// Returns `true` if a file has the digests of the parts in a manifest.
fn has_digests(path: &Path, described: &ManifestFile, given_up: &AtomicBool) -> io::Result<bool> {
    let (mut file, mut piece) = (fs::File::open(path)?, vec![0; READ_BYTES]);
    let parts = ManifestFile::parts(described.bytes, described.part_bytes);
    for ((_, length), expected) in parts.into_iter().zip(&described.sha256) {
        let (mut digest, mut left) = (PartDigest::default(), length);
        while left > 0 {
            if given_up.load(Ordering::Relaxed) {
                return Err(io::Error::other("the comparison was cancelled"));
            }
            let most = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
            file.read_exact(&mut piece[..most])?;
            digest.update(&piece[..most]);
            left = left.saturating_sub(u64::try_from(most).unwrap_or(left));
        }
        if digest.hex() != *expected {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
