//! From an archive to a directory.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jobs::{WORKDIR_ENTRIES_MAX, WORKDIR_UNPACKED_BYTES_MAX, WorkdirDigest};
use ruzstd::decoding::StreamingDecoder;
use tar::{Archive, EntryType};

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackedWorkdir {
    /// Files, directories and links.
    pub entries: usize,
    /// The bytes of its files.
    pub bytes: u64,
}

/// Why an archive was not unpacked, or only a part of it.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("it is another archive than the one that was submitted: it is {0}")]
    OtherContent(WorkdirDigest),
    #[error("it is no archive of a directory: {0}")]
    NotAnArchive(io::Error),
    #[error("it has {} ({kind:?}), which is no file, directory or link", path.display())]
    IllegalEntry { path: PathBuf, kind: EntryType },
    #[error("{} leads out of the directory", .0.display())]
    LeadsOut(PathBuf),
    #[error("it has more than {WORKDIR_ENTRIES_MAX} files and directories, or more than {} MiB", WORKDIR_UNPACKED_BYTES_MAX / (1024 * 1024))]
    TooLarge,
    /// The disk refused.
    #[error("{}: {error}", path.display())]
    Disk { path: PathBuf, error: io::Error },
}

/// Unpacks an archive into an existing directory, over files of the same name, once its digest is the expected one. Nothing is written
/// outside of the directory, and no file gets an owner, a time, or a mode beyond `rwxrwxrwx`.
///
/// # Errors
/// If it is not the expected one, or the disk refused; then a part of it may have been written.
pub fn unpack(archive: &[u8], digest: &WorkdirDigest, into: &Path) -> Result<UnpackedWorkdir, UnpackError> {
    let found = WorkdirDigest::from_archive(archive);
    if found != *digest {
        return Err(UnpackError::OtherContent(found));
    }
    unpack_checked(archive, into)
}

/// The same of an archive that is what was submitted, and may still be anything: its team's own program may have made it.
pub(crate) fn unpack_checked(archive: &[u8], into: &Path) -> Result<UnpackedWorkdir, UnpackError> {
    let decoder = StreamingDecoder::new(archive).map_err(|error| UnpackError::NotAnArchive(io::Error::other(error)))?;
    // A header takes 512 bytes, and a long path as many again.
    let headers = u64::try_from(4 * 512 * WORKDIR_ENTRIES_MAX).unwrap_or(u64::MAX);
    let bytes_max = WORKDIR_UNPACKED_BYTES_MAX.saturating_add(headers);
    let mut tar = Archive::new(decoder.take(bytes_max));
    tar.set_preserve_mtime(false);
    let mut unpacked = UnpackedWorkdir { entries: 0, bytes: 0 };
    for entry in tar.entries().map_err(UnpackError::NotAnArchive)? {
        let mut entry = entry.map_err(UnpackError::NotAnArchive)?;
        let path = entry.path().map_err(UnpackError::NotAnArchive)?.into_owned();
        unpacked.entries += 1;
        unpacked.bytes = unpacked.bytes.saturating_add(entry.size());
        if unpacked.entries > WORKDIR_ENTRIES_MAX || unpacked.bytes > WORKDIR_UNPACKED_BYTES_MAX {
            return Err(UnpackError::TooLarge);
        }
        let kind = entry.header().entry_type();
        // Of a sparse file the header states the size, and its zeros take no bytes in the archive.
        if !matches!(kind, EntryType::Regular | EntryType::Directory | EntryType::Symlink) {
            return Err(UnpackError::IllegalEntry { path, kind });
        }
        match entry.unpack_in(into) {
            Ok(true) => {}
            Ok(false) => return Err(UnpackError::LeadsOut(path)),
            Err(error) => return Err(UnpackError::Disk { path, error }),
        }
    }
    Ok(unpacked)
}
