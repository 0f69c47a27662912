//! Checkpoints that are held from first sight, because a framework may delete each when it has written the next: by hard links, which take no space
//! before that, or by copies where the disk supports none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jobs::checkpoints::{COMPLETE, DirectoryEntry};

use super::content::DirectoryContent;
use super::{CheckpointDirectory, DirectoryScan, describe_io_error, entry_of, names};
use crate::disk::DiskSpace;

/// The directory of held entries.
const HELD: &str = ".curfew-held";

/// The directory in which a held entry is assembled.
const NEW: &str = ".new";

/// Copies of files that may be overwritten during their upload.
const COPIES: &str = ".copies";

/// A larger file changes before its copy is finished.
const COPY_BYTES_MAX: u64 = 2 << 30;

/// The most deleted steps that are held at once: an unchanged step is decided after a minute, and the agent looks every ten seconds.
const GONE_MAX: usize = 8;

/// The room on the disk of the checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiskRoom {
    free: Option<u64>,
    /// The size of the largest step: the next one takes as much before an older one goes.
    next: u64,
}

impl DiskRoom {
    /// The room at a look at the directory.
    pub(crate) fn of_scan(free: Option<u64>, scan: &DirectoryScan) -> Self {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        for entry in &scan.entries {
            if let Some(named) = entry.step() {
                let size = sizes.entry(named.step).or_default();
                *size = size.saturating_add(entry.bytes);
            }
        }
        Self { free, next: sizes.into_values().max().unwrap_or(0) }
    }

    /// The bytes that the command will lack. A tenth is added, because checkpoints grow.
    pub(crate) fn missing(self) -> u64 {
        let needed = self.next.saturating_add(self.next / 10);
        self.free.map_or(0, |free| needed.saturating_sub(free))
    }
}

#[derive(Debug, Default)]
pub(crate) struct HeldSteps {
    /// The entries as they were when they were held.
    held: BTreeMap<String, DirectoryEntry>,
    /// Entries that were partly gone at the last look, as they were then.
    shrunk: BTreeMap<String, DirectoryEntry>,
    /// The reason why something cannot be held.
    pub(crate) unheld: Option<String>,
    /// The deleted entries that the last look released, because the command needs their room.
    given_up: BTreeSet<String>,
}

impl HeldSteps {
    /// Holds the undecided entries of a look, releases the rest, and adds held entries that are gone to the look. Of deleted entries it holds what
    /// leaves room for the next checkpoint of the command: it releases the oldest first.
    pub(crate) fn update(
        &mut self,
        directory: &CheckpointDirectory,
        scan: &mut DirectoryScan,
        is_undecided: impl Fn(&DirectoryEntry) -> bool,
        disk: DiskRoom,
    ) -> io::Result<()> {
        let place = directory.path.join(HELD);
        self.unheld = None;
        for entry in &mut scan.entries {
            if is_undecided(entry) && entry.unfit.is_none() && entry.bytes > 0 {
                self.hold(directory, &place, entry);
            }
        }
        let mut gone = Vec::new();
        for name in names(&place).or_else(none_where_absent)? {
            let shown = name.to_string_lossy();
            if shown.starts_with('.') || shown.ends_with(COMPLETE) {
                continue;
            }
            let is_there = scan.entries.iter().any(|entry| entry.name == *shown && is_undecided(entry));
            match entry_of(&name, directory, &place).filter(|entry| !is_there && is_undecided(entry)) {
                Some(entry) => gone.push(entry),
                None if is_there => {}
                None => self.release(&place, &shown),
            }
        }
        gone.sort_by_key(|entry| std::cmp::Reverse(entry.changed_at));
        for entry in gone.split_off(gone.len().min(GONE_MAX)) {
            self.release(&place, &entry.name);
        }
        self.given_up.clear();
        let mut missing = disk.missing();
        while let Some(oldest) = gone.pop_if(|_| missing > 0) {
            self.release(&place, &oldest.name);
            missing = missing.saturating_sub(oldest.bytes);
            self.given_up.insert(oldest.name);
        }
        scan.entries.extend(gone);
        Ok(())
    }

    /// True if the last look released one of them to make room.
    pub(crate) fn has_given_up(&self, entries: &[String]) -> bool {
        entries.iter().any(|name| self.given_up.contains(name))
    }

    /// Holds an entry as it is. If it is being deleted, the earlier hold stays, and the look shows that.
    fn hold(&mut self, directory: &CheckpointDirectory, place: &Path, entry: &mut DirectoryEntry) {
        let name = entry.name.clone();
        if self.held.get(&name) == Some(entry) {
            return;
        }
        if let Some(held) = self.held.get(&name).filter(|held| is_less(entry, held))
            && self.shrunk.insert(name.clone(), entry.clone()).as_ref() != Some(entry)
        {
            *entry = held.clone();
            return;
        }
        self.shrunk.remove(&name);
        match hold_entry(directory, place, &name) {
            // It may have changed since, or is being deleted.
            Ok(()) => match entry_of(OsStr::new(&name), directory, &place.join(NEW)) {
                Some(new) if !is_less(&new, entry) => {
                    self.release(place, &name);
                    let moved = fs::rename(place.join(NEW).join(&name), place.join(&name));
                    let mark = format!("{name}{COMPLETE}");
                    let _ = fs::rename(place.join(NEW).join(&mark), place.join(&mark));
                    if moved.is_ok() {
                        self.held.insert(name, entry.clone());
                    }
                }
                _ => {}
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.unheld = Some(describe_io_error(&error));
                self.release(place, &name);
            }
        }
        let _ = fs::remove_dir_all(place.join(NEW));
    }

    fn release(&mut self, place: &Path, name: &str) {
        self.held.remove(name);
        self.shrunk.remove(name);
        let path = place.join(name);
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        let _ = fs::remove_file(place.join(format!("{name}{COMPLETE}")));
    }
}

/// Returns `true` if a part of the entry is gone, and no other part is newer.
fn is_less(now: &DirectoryEntry, before: &DirectoryEntry) -> bool {
    now.files < before.files && now.bytes <= before.bytes && now.changed_at <= before.changed_at
}

fn none_where_absent(error: io::Error) -> io::Result<Vec<std::ffi::OsString>> {
    if error.kind() == io::ErrorKind::NotFound { Ok(Vec::new()) } else { Err(error) }
}

/// Assembles an entry and the marker file beside it anew.
fn hold_entry(directory: &CheckpointDirectory, place: &Path, name: &str) -> io::Result<()> {
    let new = place.join(NEW);
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(&new)?;
    let mut inside = DirectoryContent::beneath(directory, &directory.path, directory.is_loose(name));
    inside.add(name)?;
    let at = |path: &Path| new.join(path.strip_prefix(&directory.path).unwrap_or(path));
    let with_parent = |to: PathBuf| {
        fs::create_dir_all(to.parent().unwrap_or(&new))?;
        io::Result::Ok(to)
    };
    for (from, metadata) in inside.files.iter().chain(&inside.text) {
        link_or_copy(from, &with_parent(at(from))?, metadata)?;
    }
    for (from, to) in &inside.links {
        symlink(to, with_parent(at(from))?)?;
    }
    inside.folders.iter().try_for_each(|folder| fs::create_dir_all(at(folder)))?;
    let mark = directory.path.join(format!("{name}{COMPLETE}"));
    if let Ok(metadata) = fs::metadata(&mark) {
        link_or_copy(&mark, &at(&mark), &metadata)?;
    }
    Ok(())
}

/// A hard link to a file, or else a copy.
fn link_or_copy(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    // A hard link to a symbolic link would be another symbolic link.
    let target = from.canonicalize()?;
    match fs::hard_link(&target, to) {
        Err(error) if metadata.len() > COPY_BYTES_MAX => Err(error),
        Err(_) => copy(&target, to, metadata),
        Ok(()) => Ok(()),
    }
}

/// A copy with the time of the original. It shares its blocks if the disk supports that.
fn copy(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(metadata.modified()?)
}

/// Returns the directory from which an entry of a checkpoint is read: that of held entries if it is held, or else the checkpoint directory.
pub(super) fn base_of(directory: &CheckpointDirectory, name: &str) -> PathBuf {
    let place = directory.path.join(HELD);
    if fs::symlink_metadata(place.join(name)).is_ok() { place } else { directory.path.clone() }
}

/// A copy of a file that may be overwritten meanwhile; `None` if it is too large, or leaves no room to write the file again.
pub(super) fn copied(directory: &Path, path: &str, from: &Path, metadata: &Metadata) -> io::Result<Option<PathBuf>> {
    let room = metadata.len().saturating_mul(2);
    if metadata.len() > COPY_BYTES_MAX || DiskSpace::read(directory).is_some_and(|disk| disk.free_bytes < room) {
        return Ok(None);
    }
    let to = directory.join(HELD).join(COPIES).join(path);
    fs::create_dir_all(to.parent().unwrap_or(directory))?;
    copy(from, &to, metadata)?;
    Ok(Some(to))
}

pub(super) fn delete_copies(directory: &Path) {
    let _ = fs::remove_dir_all(directory.join(HELD).join(COPIES));
    // Removes the directory if nothing else is held.
    let _ = fs::remove_dir(directory.join(HELD));
}

/// Releases everything that an earlier start held there.
pub(crate) fn release(directory: &Path) {
    let _ = fs::remove_dir_all(directory.join(HELD));
}

#[cfg(test)]
mod tests {
    use super::super::scan_directory;
    use super::super::tests::Scratch;
    use super::*;

    fn look(held: &mut HeldSteps, scratch: &Scratch, kept: u64) -> Vec<(String, u64)> {
        look_at_disk(held, scratch, kept, DiskRoom::default())
    }

    fn look_at_disk(held: &mut HeldSteps, scratch: &Scratch, kept: u64, disk: DiskRoom) -> Vec<(String, u64)> {
        let directory = scratch.directory();
        let mut scan = scan_directory(&directory).unwrap();
        let is_undecided = |entry: &DirectoryEntry| entry.step().is_some_and(|named| named.step > kept);
        held.update(&directory, &mut scan, is_undecided, disk).unwrap();
        let mut seen: Vec<_> = scan.entries.into_iter().map(|entry| (entry.name, entry.files)).collect();
        seen.sort_unstable();
        seen
    }

    fn files(scratch: &Scratch, name: &str) -> usize {
        let directory = scratch.directory();
        let base = base_of(&directory, name);
        let mut inside = DirectoryContent::beneath(&directory, &base, false);
        inside.add(name).map_or(0, |()| inside.files.len())
    }

    #[test]
    fn a_deleted_step_is_held_until_it_is_decided() {
        let scratch =
            Scratch::new().file("step-1/deep/a.bin").file("step-2.pt").file("step-2.pt.complete").file("last.pt");
        let mut held = HeldSteps::default();
        let all = [("last.pt".to_owned(), 1), ("step-1".to_owned(), 1), ("step-2.pt".to_owned(), 1)];
        assert_eq!(look(&mut held, &scratch, 0), all);
        fs::remove_dir_all(scratch.path().join("step-1")).unwrap();
        fs::remove_file(scratch.path().join("step-2.pt")).unwrap();
        assert_eq!(look(&mut held, &scratch, 0), all);
        let base = base_of(&scratch.directory(), "step-1");
        assert_eq!(fs::read(base.join("step-1/deep/a.bin")).unwrap(), b"12345");
        let scan = entry_of(OsStr::new("step-2.pt"), &scratch.directory(), &base).unwrap();
        assert!(scan.marked_at.is_some());
        assert_eq!(look(&mut held, &scratch, 1), [all[0].clone(), all[2].clone()]);
        assert_eq!(look(&mut held, &scratch, 2), [all[0].clone()]);
        assert_eq!(names(&scratch.path().join(HELD)).unwrap().len(), 0, "nothing is left");
    }

    #[test]
    fn a_step_under_deletion_keeps_its_snapshot_and_a_tidied_one_does_not() {
        let scratch = Scratch::new().file("step-1/a.bin").file("step-1/b.bin");
        let mut held = HeldSteps::default();
        look(&mut held, &scratch, 0);
        fs::remove_file(scratch.path().join("step-1/b.bin")).unwrap();
        assert_eq!(look(&mut held, &scratch, 0), [("step-1".to_owned(), 2)]);
        assert_eq!(files(&scratch, "step-1"), 2);
        assert_eq!(look(&mut held, &scratch, 0), [("step-1".to_owned(), 1)], "it stays so");
        assert_eq!(files(&scratch, "step-1"), 1);
        let scratch = scratch.file("step-1/c.bin").file("step-1/d.bin");
        look(&mut held, &scratch, 0);
        assert_eq!(files(&scratch, "step-1"), 3);
    }

    #[test]
    fn the_newest_deleted_steps_are_held() {
        let (mut scratch, mut held) = (Scratch::new(), HeldSteps::default());
        for step in 1..=12 {
            scratch = scratch.file(&format!("step-{step}"));
        }
        look(&mut held, &scratch, 0);
        for step in 1..=12 {
            fs::remove_file(scratch.path().join(format!("step-{step}"))).unwrap();
        }
        let seen = look(&mut held, &scratch, 0);
        assert_eq!(seen.len(), GONE_MAX);
        assert!(
            seen.iter().all(|(name, _)| !["step-1", "step-2", "step-3", "step-4"].contains(&name.as_str())),
            "{seen:?}"
        );
        let room = |free| DiskRoom { free: Some(free), next: 10 };
        assert_eq!(look_at_disk(&mut held, &scratch, 0, room(11)).len(), GONE_MAX, "the next one has room");
        let left = look_at_disk(&mut held, &scratch, 0, room(2));
        assert_eq!(left.len(), GONE_MAX - 2, "each of them has five bytes");
        assert!(left.iter().any(|(name, _)| name == "step-12"), "{left:?}");
        assert!(held.has_given_up(&["step-5".to_owned()]) && !held.has_given_up(&["step-12".to_owned()]));
        assert_eq!(
            look_at_disk(&mut held, &scratch, 0, DiskRoom { free: Some(0), next: 100 }),
            [],
            "a full disk holds nothing that is gone"
        );
        assert_eq!(names(&scratch.path().join(HELD)).unwrap().len(), 0);
    }
}
