//! The checkpoint directory, as it is on the disk.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use domain::job::checkpoints::{Entry, MARKERS, is_temporary, step_of};
use jiff::Timestamp;
use store::Local;

use crate::user::User;

/// Deeper, or more, is no checkpoint, but a directory that was named by mistake.
const DEPTH_MAX: u32 = 32;
const FILES_MAX: usize = 100_000;

/// Marks a checkpoint that is a single file.
const COMPLETE: &str = ".complete";

/// What is in the directory now. What vanishes while it is looked at was not there.
pub(crate) fn look(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for name in names(directory)? {
        let Some(name) = name.to_str() else { continue };
        let path = directory.join(name);
        // A link, such as `latest`, is another name of a checkpoint.
        let Ok(own) = fs::symlink_metadata(&path) else { continue };
        if own.is_symlink() || name.starts_with('.') || step_of(name).is_none() || name.ends_with(COMPLETE) {
            continue;
        }
        if let Some(entry) = entry_of(name.to_owned(), &path, directory)? {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// The files of these entries, by their paths in the directory.
pub(crate) fn files(directory: &Path, entries: &[String]) -> io::Result<Vec<Local>> {
    let mut found = Vec::new();
    for entry in entries {
        walk(&directory.join(entry), DEPTH_MAX, &mut found)?;
    }
    let local = |(from, _): (PathBuf, Metadata)| {
        let path = from.strip_prefix(directory).ok().and_then(Path::to_str).map(str::to_owned);
        let unnamed = || io::Error::other(format!("{} is no UTF-8, and has no name in the bucket", from.display()));
        Ok(Local { path: path.ok_or_else(unnamed)?, from })
    };
    found.into_iter().map(local).collect()
}

/// What is uploaded, and what is not.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<Local>,
    /// In words.
    pub(crate) missing: Vec<String>,
}

/// Every file at or below a path of the machine, by its path there. What is none, or cannot be read, loses nothing of the rest.
pub(crate) fn all(path: &Path, found: &mut Found) {
    below(path, DEPTH_MAX, found);
}

fn below(path: &Path, depth_left: u32, found: &mut Found) {
    let mut lacks = |why: &dyn std::fmt::Display| found.missing.push(format!("{} ({why})", path.display()));
    let (own, target) = match fs::symlink_metadata(path).and_then(|own| Ok((own, fs::metadata(path)?))) {
        Ok(both) => both,
        Err(error) => return lacks(&error),
    };
    if target.is_dir() {
        if own.is_symlink() {
            return lacks(&"a link to a directory, which may lead anywhere");
        }
        if depth_left == 0 {
            return lacks(&"too many levels");
        }
        match names(path) {
            Ok(inside) => inside.iter().for_each(|name| below(&path.join(name), depth_left - 1, found)),
            Err(error) => lacks(&error),
        }
    } else if !target.is_file() {
        lacks(&"neither a file nor a directory");
    } else if found.files.len() >= FILES_MAX {
        lacks(&"too many files");
    } else if let Some(name) = path.to_str() {
        found.files.push(Local { path: name.trim_start_matches('/').to_owned(), from: path.to_owned() });
    } else {
        lacks(&"it is no UTF-8, and has no name in the bucket");
    }
}

/// Makes the directory, and gives it to the user.
pub(crate) fn make(directory: &Path, user: &User) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(directory)?;
    missing.into_iter().chain([directory]).try_for_each(|path| chown(path, Some(user.uid), Some(user.gid)))
}

/// Gives all that is in it to the user.
pub(crate) fn give(path: &Path, user: &User) -> io::Result<()> {
    chown(path, Some(user.uid), Some(user.gid))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// How many bytes are free for whoever is not root, where that is below a hundredth: the disk is full.
pub(crate) fn full(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    (disk.f_bavail < disk.f_blocks / 100).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn names(directory: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

fn entry_of(name: String, path: &Path, directory: &Path) -> io::Result<Option<Entry>> {
    let mut files = Vec::new();
    match walk(path, DEPTH_MAX, &mut files) {
        Ok(()) => {}
        // It is being written, renamed or deleted; the next look sees what came of it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let marked = if path.is_dir() {
        MARKERS.iter().any(|marker| path.join(marker).is_file())
    } else {
        directory.join(format!("{name}{COMPLETE}")).is_file()
    };
    let inner = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_temporary);
    Ok(Some(Entry {
        temporary: is_temporary(&name) || (!marked && files.iter().any(|(path, _)| inner(path))),
        bytes: files.iter().map(|(_, metadata)| metadata.len()).sum(),
        files: u64::try_from(files.len()).unwrap_or(u64::MAX),
        changed_at: files.iter().map(|(_, metadata)| changed_at(metadata)).max().unwrap_or(Timestamp::MIN),
        marked,
        name,
    }))
}

fn changed_at(metadata: &Metadata) -> Timestamp {
    let nanosecond = i32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Timestamp::new(metadata.mtime(), nanosecond).unwrap_or(Timestamp::MIN)
}

/// Every file at or below a path. A link to a file counts as that file; one to a directory may lead anywhere.
fn walk(path: &Path, depth_left: u32, found: &mut Vec<(PathBuf, Metadata)>) -> io::Result<()> {
    let too = |what: &str| io::Error::other(format!("{} has too many {what} to be a checkpoint", path.display()));
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        found.push((path.to_owned(), metadata));
        return if found.len() > FILES_MAX { Err(too("files")) } else { Ok(()) };
    }
    if !metadata.is_dir() {
        return Ok(());
    }
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other(format!(
            "{} is a link to a directory, which no checkpoint may hold",
            path.display()
        )));
    }
    if depth_left == 0 {
        return Err(too("levels"));
    }
    for name in names(path)? {
        walk(&path.join(name), depth_left - 1, found)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of the test's own, which goes with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("curfew-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(self, path: &str) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "12345").unwrap();
            self
        }

        fn look(&self) -> Vec<(String, u64, bool, bool)> {
            let seen = look(&self.0).unwrap().into_iter();
            let mut seen: Vec<_> = seen.map(|entry| (entry.name, entry.bytes, entry.marked, entry.temporary)).collect();
            seen.sort_unstable();
            seen
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn seen(name: &str, bytes: u64, marked: bool, temporary: bool) -> (String, u64, bool, bool) {
        (name.to_owned(), bytes, marked, temporary)
    }

    #[test]
    fn each_framework_is_seen_as_it_writes() {
        let trainer = "checkpoint-500/trainer_state.json";
        let scratch = Scratch::new("frameworks").file(trainer).file("checkpoint-500/model/a.bin");
        let scratch = scratch.file("step_7/.metadata").file("step_7/__0_0.distcp").file("epoch=1-step=20.ckpt");
        let scratch =
            scratch.file("model-30.pt").file("model-30.pt.complete").file("tmp-checkpoint-600/a").file("last.ckpt");
        let expect = [
            seen("checkpoint-500", 10, true, false),
            seen("epoch=1-step=20.ckpt", 5, false, false),
            seen("model-30.pt", 5, true, false),
            seen("step_7", 10, true, false),
            seen("tmp-checkpoint-600", 5, false, true),
        ];
        assert_eq!(scratch.look(), expect);
    }

    #[test]
    fn what_holds_something_temporary_is_temporary() {
        let scratch = Scratch::new("temporary").file("step-1/a.bin").file("step-1/b.bin.tmp");
        assert_eq!(scratch.look(), [seen("step-1", 10, false, true)]);
    }

    #[test]
    fn a_link_is_no_checkpoint_and_leads_nowhere() {
        let scratch = Scratch::new("links").file("step-1/a.bin");
        std::os::unix::fs::symlink("step-1", scratch.0.join("latest-1")).unwrap();
        assert_eq!(scratch.look(), [seen("step-1", 5, false, false)]);
        std::os::unix::fs::symlink("/", scratch.0.join("step-1/root")).unwrap();
        assert!(look(&scratch.0).unwrap_err().to_string().contains("link to a directory"));
    }

    #[test]
    fn what_is_no_file_loses_nothing_of_the_rest() {
        let scratch = Scratch::new("outputs").file("a/one.txt").file("a/two.txt");
        std::os::unix::fs::symlink("/nowhere/at-all", scratch.0.join("a/absent")).unwrap();
        std::os::unix::fs::symlink("/", scratch.0.join("a/root")).unwrap();
        let mut found = Found::default();
        all(&scratch.0, &mut found);
        let mut files: Vec<PathBuf> = found.files.into_iter().map(|file| Path::new("/").join(file.path)).collect();
        files.sort_unstable();
        assert_eq!(files, [scratch.0.join("a/one.txt"), scratch.0.join("a/two.txt")]);
        let mut missing = found.missing;
        missing.sort_unstable();
        assert_eq!(missing.len(), 2);
        assert!(missing[0].contains("a/absent (No such file") && missing[1].contains("a/root (a link to a directory"));
    }

    #[test]
    fn files_are_named_by_their_place_in_the_directory() {
        let scratch = Scratch::new("files").file("step-1/deep/a.bin").file("step-1/b.bin").file("step-2.pt");
        let mut paths: Vec<String> = files(&scratch.0, &["step-1".to_owned(), "step-2.pt".to_owned()])
            .unwrap()
            .into_iter()
            .map(|file| file.path)
            .collect();
        paths.sort_unstable();
        assert_eq!(paths, ["step-1/b.bin", "step-1/deep/a.bin", "step-2.pt"]);
    }
}
