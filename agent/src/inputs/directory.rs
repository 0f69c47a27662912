//! The directory of an input. Its files are written with the rights of its user, below the directory and through no link: what an earlier start of
//! the command has put in the way is removed.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jobs::input;
use model::digest::sha256_hex;
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, mkdirat, open, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The properties in which a changed or replaced file differs. Its user can set every time but that of the change of status (Linux manual, `inode(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

impl FileState {
    fn from_metadata(metadata: &Metadata) -> Self {
        let changed_at = (metadata.ctime(), metadata.ctime_nsec());
        Self { inode: metadata.ino(), bytes: metadata.len(), changed_at }
    }
}

#[derive(Debug)]
pub(super) struct InputDirectory {
    root: OwnedFd,
}

impl InputDirectory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { root: open(path, FOLDER, Mode::empty())? })
    }

    /// Writes all that was written to its disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    /// The unfinished file of a path, and its inode. It keeps what an earlier start has written.
    pub(super) fn open_part(&self, path: &str, bytes: u64) -> io::Result<(File, u64)> {
        let name = part_name(path);
        let create = || openat(&self.root, name.as_str(), FILE | OFlags::CREATE, Mode::from_raw_mode(0o600));
        let opened = match create() {
            // A link, or a complete file that an earlier start has not renamed any more.
            Err(Errno::LOOP | Errno::ACCESS) => {
                unlinkat(&self.root, name.as_str(), AtFlags::empty())?;
                create()?
            }
            opened => opened?,
        };
        let file = File::from(opened);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other(format!("{name} is not a file; delete it")));
        }
        file.set_len(bytes)?;
        Ok((file, metadata.ino()))
    }

    /// Forgets an unfinished file.
    pub(super) fn discard_part(&self, path: &str) -> io::Result<()> {
        Ok(unlinkat(&self.root, part_name(path).as_str(), AtFlags::empty())?)
    }

    /// Puts a complete file to its path, read-only.
    pub(super) fn finish(&self, file: &File, path: &str) -> io::Result<FileState> {
        fchmod(file, Mode::from_raw_mode(0o444))?;
        let part = part_name(path);
        match self.folder_of(path, true)? {
            (Some(folder), name) => renameat(&self.root, part.as_str(), &folder, name)?,
            (None, name) => renameat(&self.root, part.as_str(), &self.root, name)?,
        }
        Ok(FileState::from_metadata(&file.metadata()?))
    }

    /// Returns `true` if the file at a path is unchanged.
    pub(super) fn is_intact(&self, path: &str, state: FileState) -> bool {
        let opened = || -> io::Result<File> {
            let opened = match self.folder_of(path, false)? {
                (Some(folder), name) => openat(&folder, name, FILE_TO_CHECK, Mode::empty()),
                (None, name) => openat(&self.root, name, FILE_TO_CHECK, Mode::empty()),
            };
            Ok(File::from(opened?))
        };
        let found = opened().and_then(|file| file.metadata());
        found.is_ok_and(|metadata| metadata.is_file() && FileState::from_metadata(&metadata) == state)
    }

    /// Deletes the unfinished files of objects that are gone.
    pub(super) fn delete_parts(path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(input::OWN_NAMES) && entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// The directory of a path, `None` for the root, and the name in it. Each directory on the way is opened in the one before, so no link leads
    /// elsewhere.
    fn folder_of<'a>(&self, path: &'a str, create: bool) -> io::Result<(Option<OwnedFd>, &'a str)> {
        let (above, name) = path.rsplit_once('/').map_or(("", path), |(above, name)| (above, name));
        let mut at = None;
        for part in above.split('/').filter(|part| !part.is_empty()) {
            let within = at.as_ref().unwrap_or(&self.root);
            let opened = match openat(within, part, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) if create => make_folder(within, part),
                // A link or a file, which no object calls for.
                Err(Errno::LOOP | Errno::NOTDIR) if create => {
                    unlinkat(within, part, AtFlags::empty())?;
                    make_folder(within, part)
                }
                opened => opened,
            };
            at = Some(opened?);
        }
        Ok((at, name))
    }
}

/// Flags that open a file only to check it: the call must not wait for a pipe that somebody has put there.
const FILE_TO_CHECK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn make_folder(within: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    mkdirat(within, name, Mode::from_raw_mode(0o755))?;
    openat(within, name, FOLDER, Mode::empty())
}

/// One for each path, of any length.
fn part_name(path: &str) -> String {
    let digest = sha256_hex(path.as_bytes());
    format!("{}part-{}", input::OWN_NAMES, digest.get(..32).unwrap_or(&digest))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    fn scratch() -> (TempDir, InputDirectory) {
        let scratch = tempfile::tempdir().unwrap();
        let to = scratch.path().join("to");
        fs::create_dir(&to).unwrap();
        (scratch, InputDirectory::open(&to).unwrap())
    }

    fn put(directory: &InputDirectory, path: &str) -> FileState {
        let (mut file, _) = directory.open_part(path, 3).unwrap();
        file.write_all(b"new").unwrap();
        directory.finish(&file, path).unwrap()
    }

    #[test]
    fn a_file_is_known_again_until_it_is_changed() {
        let (scratch, directory) = scratch();
        let state = put(&directory, "a/b");
        let file = scratch.path().join("to/a/b");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o444);
        assert!(
            directory.is_intact("a/b", state) && !directory.is_intact("a", state) && !directory.is_intact("b", state)
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!directory.is_intact("a/b", state), "even its mode");
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (scratch, directory) = scratch();
        let (outside, to) = (scratch.path().join("outside"), scratch.path().join("to"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("b"), "old").unwrap();
        symlink(&outside, to.join("a")).unwrap();
        symlink(outside.join("b"), to.join("c")).unwrap();
        symlink(outside.join("b"), to.join(part_name("d"))).unwrap();
        fs::write(to.join("e"), "a file in the way of a directory").unwrap();
        for path in ["a/b", "c", "d", "e/f"] {
            put(&directory, path);
            assert_eq!(fs::read(to.join(path)).unwrap(), b"new", "{path}");
        }
        assert_eq!(fs::read(outside.join("b")).unwrap(), b"old");
        assert!(
            fs::symlink_metadata(to.join("a")).unwrap().is_dir()
                && fs::symlink_metadata(to.join("c")).unwrap().is_file()
        );
        fs::create_dir_all(to.join("g/h")).unwrap();
        let (file, _) = directory.open_part("g", 0).unwrap();
        assert!(directory.finish(&file, "g").is_err(), "a directory is not replaced by a file");
        InputDirectory::delete_parts(&to).unwrap();
        assert!(!to.join(part_name("g")).exists());
    }
}
