//! What a checkpoint consists of while it is uploaded.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use domain::job::checkpoints::{Link, Step};
use store::{Content, Fingerprint, Local};

use super::{DEPTH_MAX, Inside, walk, within};

/// Where files are held that their writer may delete.
const HELD: &str = ".curfew-held";

/// A checkpoint, as it was at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) content: Content,
    directory: PathBuf,
    entries: Vec<String>,
    seen: BTreeMap<PathBuf, Fingerprint>,
}

impl Snapshot {
    /// Of these entries of the directory.
    pub(crate) fn take(directory: &Path, entries: &[String]) -> io::Result<Self> {
        let mut inside = Inside::default();
        for entry in entries {
            walk(&directory.join(entry), DEPTH_MAX, &mut inside)?;
        }
        let named = |path: &Path| within(path, directory).map_err(io::Error::other);
        let mut content = Content::default();
        let mut seen = BTreeMap::new();
        for (from, metadata) in &inside.files {
            let found = Fingerprint::of(metadata);
            content.files.push(Local { path: named(from)?, from: from.clone(), found: Some(found) });
            seen.insert(from.clone(), found);
        }
        for (from, to) in &inside.links {
            let unnamed = || io::Error::other(format!("{} leads to what is no UTF-8", from.display()));
            let to = to.to_str().ok_or_else(unnamed)?.to_owned();
            content.links.push(Link { path: named(from)?, to });
        }
        for folder in &inside.folders {
            content.folders.push(named(folder)?);
        }
        Ok(Self { content, directory: directory.to_owned(), entries: entries.to_vec(), seen })
    }

    /// Whether it has as many files, and as many bytes, as were looked at before: else some of it is gone already, or came since.
    pub(crate) fn is_all_of(&self, step: &Step) -> bool {
        let bytes: u64 = self.seen.values().map(Fingerprint::bytes).sum();
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
        let mut now = Inside::default();
        for entry in &self.entries {
            // What cannot be looked at is being deleted.
            let _ = walk(&self.directory.join(entry), DEPTH_MAX, &mut now);
        }
        let changed = |(path, metadata): &(PathBuf, Metadata)| self.seen.get(path) != Some(&Fingerprint::of(metadata));
        now.files.into_iter().find(changed).map(|(path, _)| path)
    }

    /// Whether some of it was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.seen.keys().any(|path| !path.exists())
    }
}

/// Where a file can be read from now on.
fn hold_one(file: &Local, held: &Path) -> io::Result<PathBuf> {
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
    use domain::job::checkpoints::{QUIET, Watch, Writer};

    use super::super::look;
    use super::super::tests::Scratch;
    use super::*;

    fn snapshot(scratch: &Scratch) -> Snapshot {
        Snapshot::take(&scratch.0, &["step-1".to_owned()]).unwrap()
    }

    #[test]
    fn what_is_no_file_is_part_of_it_as_well() {
        let scratch = Scratch::new("content").file("step-1/deep/a.bin").file("step-2.pt");
        fs::create_dir(scratch.0.join("step-1/empty")).unwrap();
        for (name, to) in [("to-directory", "deep"), ("to-file", "deep/a.bin"), ("to-nothing", "/nowhere/at-all")] {
            std::os::unix::fs::symlink(to, scratch.0.join("step-1").join(name)).unwrap();
        }
        let Content { files, links, folders } = snapshot(&scratch).content;
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
        let entries = look(&scratch.0).unwrap().entries;
        let (now, mut watch) = (crate::world::now(), Watch::default());
        watch.look(entries, now);
        let step = watch.steps(Writer::Ended, now, QUIET).remove(0);
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
