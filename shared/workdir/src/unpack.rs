//! Unpacking an archive into a directory.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use jobs::{WORKDIR_ENTRIES_MAX, WORKDIR_UNPACKED_BYTES_MAX, WorkdirDigest, input};
use model::fault::error_sentence;
use ruzstd::decoding::StreamingDecoder;
use tar::{Archive, Entry, EntryType};

/// Result of unpacking an archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnpackedWorkdir {
    /// Files, directories and links.
    pub entries: usize,
    /// The bytes of its files.
    pub bytes: u64,
    /// A path that was in the way, and its place now.
    pub moved: Vec<MovedEntry>,
    /// Paths that were in the way and stay. The archive's own entry there, and everything below it, is not unpacked.
    pub kept: BTreeSet<PathBuf>,
}

/// Entry that was moved out of the way. Its paths are relative to the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedEntry {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// The fate of a directory in the way of a file or link, and to a file or link in the way of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// Moves it aside, because it came with the machine. An empty directory is removed.
    MoveAside,
    /// The job may have made it of what was unpacked before: it stays.
    Keep,
}

/// Reason for unpacking nothing, or only a part of an archive.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("it is another archive than the one that was submitted: it is {0}")]
    OtherContent(WorkdirDigest),
    #[error("it is not an archive of a directory: {}", error_sentence(.0))]
    NotAnArchive(io::Error),
    #[error("it has {} ({kind:?}), which is not a file, directory or link", path.display())]
    IllegalEntry { path: PathBuf, kind: EntryType },
    #[error("{} leads out of the directory", .0.display())]
    LeadsOut(PathBuf),
    #[error("it has more than {WORKDIR_ENTRIES_MAX} files and directories, or more than {} MiB", WORKDIR_UNPACKED_BYTES_MAX / (1024 * 1024))]
    TooLarge,
    /// The disk refused.
    #[error("{}: {}", path.display(), error_sentence(error))]
    Disk { path: PathBuf, error: io::Error },
}

/// Unpacks an archive into an existing directory, over files of the same name, once its digest is the expected one. Nothing is written
/// outside of the directory, and no file gets an owner, a time, or a mode beyond `rwxrwxrwx`.
///
/// # Errors
/// If it is not the expected one, or the disk refused; then a part of it may have been written.
pub fn unpack(
    archive: &[u8],
    digest: &WorkdirDigest,
    into: &Path,
    in_the_way: InTheWay,
) -> Result<UnpackedWorkdir, UnpackError> {
    let found = WorkdirDigest::from_archive(archive);
    if found != *digest {
        return Err(UnpackError::OtherContent(found));
    }
    unpack_checked(archive, into, in_the_way)
}

/// Unpacks an archive that was submitted, without a check of its digest. It may contain anything: its team's own program may have made it.
pub(crate) fn unpack_checked(
    archive: &[u8],
    into: &Path,
    in_the_way: InTheWay,
) -> Result<UnpackedWorkdir, UnpackError> {
    let decoder = StreamingDecoder::new(archive).map_err(|error| UnpackError::NotAnArchive(io::Error::other(error)))?;
    // A header takes 512 bytes, and a long path as many again.
    let headers = u64::try_from(4 * 512 * WORKDIR_ENTRIES_MAX).unwrap_or(u64::MAX);
    let bytes_max = WORKDIR_UNPACKED_BYTES_MAX.saturating_add(headers);
    let mut tar = Archive::new(decoder.take(bytes_max));
    tar.set_preserve_mtime(false);
    let mut unpacking = Unpacking { into, in_the_way, leaves: HashSet::new(), done: UnpackedWorkdir::default() };
    for entry in tar.entries().map_err(UnpackError::NotAnArchive)? {
        unpacking.unpack(entry.map_err(UnpackError::NotAnArchive)?)?;
    }
    Ok(unpacking.done)
}

struct Unpacking<'a> {
    into: &'a Path,
    in_the_way: InTheWay,
    /// The files and links of the archive itself: what is below one of them is refused.
    leaves: HashSet<PathBuf>,
    done: UnpackedWorkdir,
}

impl Unpacking<'_> {
    fn unpack(&mut self, mut entry: Entry<'_, impl Read>) -> Result<(), UnpackError> {
        let path = entry.path().map_err(UnpackError::NotAnArchive)?.into_owned();
        self.done.entries += 1;
        self.done.bytes = self.done.bytes.saturating_add(entry.size());
        if self.done.entries > WORKDIR_ENTRIES_MAX || self.done.bytes > WORKDIR_UNPACKED_BYTES_MAX {
            return Err(UnpackError::TooLarge);
        }
        let kind = entry.header().entry_type();
        // Of a sparse file the header states the size, and its zeros take no bytes in the archive.
        if !matches!(kind, EntryType::Regular | EntryType::Directory | EntryType::Symlink) {
            return Err(UnpackError::IllegalEntry { path, kind });
        }
        let place: Option<PathBuf> = path
            .components()
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
            .map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
            .collect();
        let Some(place) = place else { return Err(UnpackError::LeadsOut(path)) };
        let disk = |error| UnpackError::Disk { path: path.clone(), error };
        if !self.make_way(&place, kind.is_dir()).map_err(disk)? {
            return Ok(());
        }
        if !entry.unpack_in(self.into).map_err(disk)? {
            return Err(UnpackError::LeadsOut(path));
        }
        if !kind.is_dir() {
            self.leaves.insert(place);
        }
        Ok(())
    }

    /// Returns whether the entry is to be unpacked.
    fn make_way(&mut self, path: &Path, is_directory: bool) -> io::Result<bool> {
        let (mut names, mut place) = (path.iter().peekable(), PathBuf::new());
        while let Some(name) = names.next() {
            place.push(name);
            let found = match fs::symlink_metadata(self.into.join(&place)) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
            };
            if found.is_dir() == (is_directory || names.peek().is_some()) {
                continue;
            }
            if self.leaves.contains(&place) {
                return Ok(true);
            }
            if self.in_the_way == InTheWay::Keep {
                self.done.kept.insert(place);
                return Ok(false);
            }
            return self.move_aside(place, found.is_dir()).map(|()| true);
        }
        Ok(true)
    }

    fn move_aside(&mut self, from: PathBuf, is_directory: bool) -> io::Result<()> {
        let place = self.into.join(&from);
        if is_directory && fs::remove_dir(&place).is_ok() {
            return Ok(());
        }
        for number in 1_u32.. {
            let to = from.with_file_name(format!("{}before-unpacking-{number}", input::OWN_NAMES));
            // A rename would replace a file.
            if fs::symlink_metadata(self.into.join(&to)).is_err() {
                fs::rename(place, self.into.join(&to))?;
                self.done.moved.push(MovedEntry { from, to });
                return Ok(());
            }
        }
        Ok(())
    }
}
