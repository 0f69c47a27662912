//! What a checkpoint consists of while it is uploaded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobs::checkpoints::{CheckpointStep, Manifest, ManifestFile, ManifestLink, PartDigest};
use store::{CheckpointContent, FileFingerprint, LocalFile};

use super::{DEPTH_MAX, DirectoryContent, walk, within};

/// Where files are held that their writer may delete.
const HELD: &str = ".curfew-held";

/// So much of a file is read at once, in bytes.
const READ_BYTES: usize = 256 * 1024;

/// A checkpoint that is in the bucket, and its step as it lay in the directory when it was kept or put back.
#[derive(Debug)]
pub(crate) struct KeptStep {
    pub(crate) step: CheckpointStep,
    pub(crate) manifest: Arc<Manifest>,
}

/// A checkpoint, as it was at one moment.
#[derive(Debug)]
pub(crate) struct StepSnapshot {
    pub(crate) content: CheckpointContent,
    directory: PathBuf,
    entries: Vec<String>,
    seen: BTreeMap<PathBuf, FileFingerprint>,
}

impl StepSnapshot {
    /// Of these entries of the directory.
    pub(crate) fn capture(directory: &Path, entries: &[String]) -> io::Result<Self> {
        let mut inside = DirectoryContent::beneath(directory);
        for entry in entries {
            walk(&directory.join(entry), DEPTH_MAX, &mut inside)?;
        }
        let named = |path: &Path| within(path, directory).map_err(io::Error::other);
        let mut content = CheckpointContent::default();
        let mut seen = BTreeMap::new();
        for (from, metadata) in &inside.files {
            let found = FileFingerprint::from_metadata(metadata);
            content.files.push(LocalFile { path: named(from)?, from: from.clone(), found: Some(found) });
            seen.insert(from.clone(), found);
        }
        for (from, to) in &inside.links {
            let unnamed = || io::Error::other(format!("{} leads to what is no UTF-8", from.display()));
            let to = to.to_str().ok_or_else(unnamed)?.to_owned();
            content.links.push(ManifestLink { path: named(from)?, to });
        }
        for folder in &inside.folders {
            content.folders.push(named(folder)?);
        }
        Ok(Self { content, directory: directory.to_owned(), entries: entries.to_vec(), seen })
    }

    /// Whether it has as many files, and as many bytes, as were looked at before: else some of it is gone already, or came since.
    pub(crate) fn is_all_of(&self, step: &CheckpointStep) -> bool {
        let bytes: u64 = self.seen.values().map(FileFingerprint::bytes).sum();
        (u64::try_from(self.seen.len()), bytes) == (Ok(step.files), step.bytes)
    }

    /// Holds its files by further names, so that they can be read to the end though their writer deletes them. It takes no room before that.
    /// Where not all of them can be, none is.
    pub(crate) fn hold(&mut self) -> io::Result<()> {
        let_go(&self.directory);
        let held = self.directory.join(HELD);
        let names: io::Result<Vec<PathBuf>> = self.content.files.iter().map(|file| hold_one(file, &held)).collect();
        let names = names.inspect_err(|_| let_go(&self.directory))?;
        for (file, name) in self.content.files.iter_mut().zip(names) {
            file.from = name;
        }
        Ok(())
    }

    /// A file that was written since, or came to it. One that is gone was read before.
    pub(crate) fn changed(&self) -> Option<PathBuf> {
        let mut now = DirectoryContent::beneath(&self.directory);
        for entry in &self.entries {
            // What cannot be looked at is being deleted.
            let _ = walk(&self.directory.join(entry), DEPTH_MAX, &mut now);
        }
        let changed = |(path, metadata): &(PathBuf, Metadata)| {
            self.seen.get(path) != Some(&FileFingerprint::from_metadata(metadata))
        };
        now.files.into_iter().find(changed).map(|(path, _)| path)
    }

    /// Whether it is what a manifest describes, byte for byte, though it was touched since. What was changed last is read first: where it
    /// is something else, that shows soon. Given up, it is an error.
    pub(crate) fn is_still(&self, manifest: &Manifest, given_up: &AtomicBool) -> io::Result<bool> {
        let CheckpointContent { files, links, folders } = &self.content;
        let link = |link: &ManifestLink| (link.path.clone(), link.to.clone());
        let same_links = sorted(links.iter().map(link)) == sorted(manifest.links.iter().map(link));
        let described: BTreeMap<&str, &ManifestFile> =
            manifest.files.iter().map(|file| (file.path.as_str(), file)).collect();
        let pairs: Option<Vec<_>> =
            files.iter().map(|file| Some((file, *described.get(file.path.as_str())?))).collect();
        let Some(mut pairs) = pairs.filter(|pairs| pairs.len() == described.len()) else { return Ok(false) };
        let size = |file: &LocalFile| file.found.map(|found| found.bytes());
        let same_sizes = pairs.iter().all(|(file, described)| size(file) == Some(described.bytes));
        if !same_links || !same_sizes || sorted(folders) != sorted(&manifest.folders) {
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

    /// Whether some of it was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.seen.keys().any(|path| !path.exists())
    }
}

fn sorted<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    all.into_iter().collect()
}

/// Whether a file has the digest of each part of one that is described.
fn has_digests(path: &Path, described: &ManifestFile, given_up: &AtomicBool) -> io::Result<bool> {
    let (mut file, mut piece) = (fs::File::open(path)?, vec![0; READ_BYTES]);
    let parts = ManifestFile::parts(described.bytes, described.part_bytes);
    for ((_, length), expected) in parts.into_iter().zip(&described.sha256) {
        let (mut digest, mut left) = (PartDigest::default(), length);
        while left > 0 {
            if given_up.load(Ordering::Relaxed) {
                return Err(io::Error::other("nobody waits for it any more"));
            }
            let most = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
            file.read_exact(&mut piece[..most])?;
            digest.update(&piece[..most]);
            left -= u64::try_from(most).unwrap_or(left);
        }
        if digest.hex() != *expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where a file can be read from now on.
fn hold_one(file: &LocalFile, held: &Path) -> io::Result<PathBuf> {
    // Of a link there would be another link.
    if fs::symlink_metadata(&file.from)?.is_symlink() {
        return Ok(file.from.clone());
    }
    let name = held.join(&file.path);
    fs::create_dir_all(name.parent().unwrap_or(held))?;
    fs::hard_link(&file.from, &name)?;
    Ok(name)
}

/// Lets go of what was held there.
pub(crate) fn let_go(directory: &Path) {
    let _ = fs::remove_dir_all(directory.join(HELD));
}

#[cfg(test)]
mod tests {
    use jobs::checkpoints::{DirectoryWatch, QUIET, WriterState};

    use super::super::scan_directory;
    use super::super::tests::Scratch;
    use super::*;

    fn snapshot(scratch: &Scratch) -> StepSnapshot {
        StepSnapshot::capture(&scratch.0, &["step-1".to_owned()]).unwrap()
    }

    #[test]
    fn what_is_no_file_is_part_of_it_as_well() {
        let scratch = Scratch::new("content").file("step-1/deep/a.bin").file("step-2.pt");
        fs::create_dir(scratch.0.join("step-1/empty")).unwrap();
        for (name, to) in [("to-directory", "deep"), ("to-file", "deep/a.bin"), ("to-nothing", "/nowhere/at-all")] {
            std::os::unix::fs::symlink(to, scratch.0.join("step-1").join(name)).unwrap();
        }
        let CheckpointContent { files, links, folders } = snapshot(&scratch).content;
        let mut paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["step-1/deep/a.bin", "step-1/to-file"]);
        let mut links: Vec<_> = links.into_iter().map(|link| (link.path, link.to)).collect();
        links.sort_unstable();
        let link = |path: &str, to: &str| (path.to_owned(), to.to_owned());
        assert_eq!(links, [link("step-1/to-directory", "deep"), link("step-1/to-nothing", "/nowhere/at-all")]);
        assert_eq!(folders, ["step-1/empty"]);
    }

    #[test]
    fn what_is_no_longer_all_that_was_looked_at_is_noticed() {
        let scratch = Scratch::new("less").file("step-1/a.bin").file("step-1/b.bin");
        let entries = scan_directory(&scratch.0).unwrap().entries;
        let (now, mut watch) = (crate::world::now(), DirectoryWatch::default());
        watch.observe(entries, now);
        let step = watch.steps(WriterState::Ended, now, QUIET).remove(0);
        assert!(snapshot(&scratch).is_all_of(&step));
        fs::remove_file(scratch.0.join("step-1/b.bin")).unwrap();
        assert!(!snapshot(&scratch).is_all_of(&step));
        fs::write(scratch.0.join("step-1/a.bin"), "1234567890").unwrap();
        assert!(!snapshot(&scratch).is_all_of(&step));
        let scratch = scratch.file("step-1/a.bin").file("step-1/c.bin");
        assert!(snapshot(&scratch).is_all_of(&step));
    }

    #[test]
    fn what_comes_or_changes_is_noticed_and_what_goes_was_read() {
        let scratch = Scratch::new("changes").file("step-1/a.bin").file("step-1/b.bin");
        let taken = snapshot(&scratch);
        fs::remove_file(scratch.0.join("step-1/b.bin")).unwrap();
        assert_eq!((taken.changed(), taken.is_deleted()), (None, true));
        let scratch = scratch.file("step-1/c.bin");
        assert_eq!(taken.changed(), Some(scratch.0.join("step-1/c.bin")));
        let scratch = scratch.file("step-1/b.bin");
        let taken = snapshot(&scratch);
        fs::write(scratch.0.join("step-1/a.bin"), "123456").unwrap();
        assert_eq!(taken.changed(), Some(scratch.0.join("step-1/a.bin")));
    }

    /// As it would be described once it is uploaded.
    fn manifest(taken: &StepSnapshot) -> Manifest {
        let described = |file: &LocalFile| {
            let bytes = fs::read(&file.from).unwrap();
            let size = u64::try_from(bytes.len()).unwrap();
            ManifestFile {
                path: file.path.clone(),
                bytes: size,
                part_bytes: 4,
                sha256: bytes.chunks(4).map(ManifestFile::digest).collect(),
            }
        };
        let CheckpointContent { files, links, folders } = &taken.content;
        let files: Vec<ManifestFile> = files.iter().map(described).collect();
        let (bytes, links, folders) = (files.iter().map(|file| file.bytes).sum(), links.clone(), folders.clone());
        Manifest { schema: 1, attempt: 1, step: 1, rewrite: 0, at: crate::world::now(), bytes, files, links, folders }
    }

    fn check_still(name: &str, change: impl Fn(&Path), expect: bool) {
        let scratch = Scratch::new(name).file("step-1/a.bin").file("step-1/b.bin");
        fs::create_dir(scratch.0.join("step-1/empty")).unwrap();
        std::os::unix::fs::symlink("empty", scratch.0.join("step-1/link")).unwrap();
        let before = manifest(&snapshot(&scratch));
        change(&scratch.0.join("step-1"));
        let still = snapshot(&scratch).is_still(&before, &AtomicBool::new(false));
        assert_eq!(still.unwrap(), expect, "{name}");
    }

    #[test]
    fn what_is_only_touched_is_still_the_same_and_each_other_change_is_seen() {
        check_still("same", |_| {}, true);
        check_still("touched", |step| fs::write(step.join("a.bin"), "12345").unwrap(), true);
        check_still("first-part", |step| fs::write(step.join("a.bin"), "12945").unwrap(), false);
        check_still("last-part", |step| fs::write(step.join("b.bin"), "12349").unwrap(), false);
        check_still("longer", |step| fs::write(step.join("a.bin"), "123456").unwrap(), false);
        check_still("more", |step| fs::write(step.join("c.bin"), "").unwrap(), false);
        check_still("less", |step| fs::remove_file(step.join("a.bin")).unwrap(), false);
        check_still("renamed", |step| fs::rename(step.join("a.bin"), step.join("c.bin")).unwrap(), false);
        check_still("folders", |step| fs::create_dir(step.join("another")).unwrap(), false);
        check_still("links", |step| fs::remove_file(step.join("link")).unwrap(), false);
    }

    #[test]
    fn a_comparison_that_nobody_waits_for_is_given_up() {
        let scratch = Scratch::new("given-up").file("step-1/a.bin");
        let taken = snapshot(&scratch);
        assert!(taken.is_still(&manifest(&taken), &AtomicBool::new(true)).is_err());
    }

    #[test]
    fn what_is_held_can_be_read_though_it_is_deleted() {
        let scratch = Scratch::new("held").file("step-1/deep/a.bin");
        let mut taken = snapshot(&scratch);
        taken.hold().unwrap();
        assert_eq!(taken.changed(), None);
        fs::remove_dir_all(scratch.0.join("step-1")).unwrap();
        assert_eq!(fs::read(&taken.content.files[0].from).unwrap(), b"12345");
        assert_eq!(taken.content.files[0].path, "step-1/deep/a.bin");
        let_go(&scratch.0);
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_held_stays_where_it_is() {
        let scratch = Scratch::new("unheld").file("step-1/a.bin").file("step-1/b.bin");
        let mut taken = snapshot(&scratch);
        let last = taken.content.files.last().unwrap().from.clone();
        fs::remove_file(&last).unwrap();
        // A directory has no further names, as a file has none on another disk.
        fs::create_dir(&last).unwrap();
        assert!(taken.hold().is_err());
        let from: Vec<&PathBuf> = taken.content.files.iter().map(|file| &file.from).collect();
        assert!(from.iter().all(|from| from.starts_with(scratch.0.join("step-1"))), "{from:?}");
        assert!(!scratch.0.join(HELD).exists());
    }
}
