//! From a directory to an archive.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};
use jobs::{WORKDIR_ARCHIVE_BYTES_MAX, WORKDIR_ENTRIES_MAX, WORKDIR_UNPACKED_BYTES_MAX, WorkdirDigest};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};

/// Patterns of paths that stay out of the archive, in the format of `.gitignore`.
const IGNORE_FILE: &str = ".curfewignore";

/// The largest parts of a directory that an error names.
const NAMED_MAX: usize = 3;

const MIB: u64 = 1024 * 1024;

/// A packed directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedWorkdir {
    pub archive: Vec<u8>,
    pub digest: WorkdirDigest,
    /// Files, directories and links.
    pub entries: usize,
    /// The bytes of its files.
    pub bytes: u64,
    /// Sockets, devices and pipes, which are left out.
    pub skipped: Vec<PathBuf>,
}

/// Why a directory was not packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("{} is no directory; name one that exists", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{directory} cannot be read: {error}", directory = .directory.display())]
    Walk { directory: PathBuf, error: ignore::Error },
    #[error("every file in {} is ignored; add `!PATTERN` to a {IGNORE_FILE} there, or name another directory", .0.display())]
    Empty(PathBuf),
    #[error(
        "{} has more than {WORKDIR_ENTRIES_MAX} files and directories; leave some out by a {IGNORE_FILE} (the format of .gitignore)",
        .0.display()
    )]
    TooMany(PathBuf),
    #[error(
        "{} has {} MiB {what}, and {} are allowed; leave data out by a {IGNORE_FILE} (the format of .gitignore), and read it from a \
         bucket instead. The largest: {largest}",
        directory.display(), bytes.div_ceil(MIB), bytes_max / MIB
    )]
    TooLarge { directory: PathBuf, bytes: u64, bytes_max: u64, what: &'static str, largest: String },
}

/// Packs a directory: all its files except what git ignores (`.gitignore`, `.git/info/exclude`, the user's own excludes), what a
/// `.curfewignore` names, and `.git`. A file that git tracks although a pattern ignores it stays out as well. Links stay links.
///
/// # Errors
/// If something cannot be read, or a limit is exceeded.
pub fn pack(directory: &Path) -> Result<PackedWorkdir, PackError> {
    if !directory.is_dir() {
        return Err(PackError::NoDirectory(directory.to_owned()));
    }
    let found = find(directory)?;
    let bytes: u64 = found.iter().map(|entry| entry.bytes).sum();
    let too_large = |bytes, bytes_max, what| PackError::TooLarge {
        directory: directory.to_owned(),
        bytes,
        bytes_max,
        what,
        largest: name_largest(&found),
    };
    if bytes > WORKDIR_UNPACKED_BYTES_MAX {
        return Err(too_large(bytes, WORKDIR_UNPACKED_BYTES_MAX, "of files"));
    }
    let (mut builder, mut skipped) = (Builder::new(Vec::new()), Vec::new());
    for entry in &found {
        if !append(&mut builder, directory, entry)? {
            skipped.push(entry.path.clone());
        }
    }
    if found.len() == skipped.len() {
        return Err(PackError::Empty(directory.to_owned()));
    }
    let unreadable = |error| PackError::Unreadable { path: directory.to_owned(), error };
    let archive = compress_to_vec(builder.into_inner().map_err(unreadable)?.as_slice(), CompressionLevel::Fastest);
    if archive.len() > WORKDIR_ARCHIVE_BYTES_MAX {
        let bytes_of = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        return Err(too_large(bytes_of(archive.len()), bytes_of(WORKDIR_ARCHIVE_BYTES_MAX), "when packed"));
    }
    let digest = WorkdirDigest::from_archive(&archive);
    Ok(PackedWorkdir { digest, entries: found.len() - skipped.len(), bytes, skipped, archive })
}

/// One file, directory or link, by its path in the directory.
struct FoundEntry {
    path: PathBuf,
    bytes: u64,
}

/// All of them, sorted by path.
fn find(directory: &Path) -> Result<Vec<FoundEntry>, PackError> {
    let mut walk = WalkBuilder::new(directory);
    // git's rules up to the root of its repository; without one those of the directory itself. Files of ripgrep (`.ignore`) are none of them.
    let is_in_repository = is_in_repository(directory);
    walk.require_git(is_in_repository).parents(is_in_repository);
    walk.hidden(false).ignore(false).add_custom_ignore_filename(IGNORE_FILE);
    walk.sort_by_file_path(Path::cmp).filter_entry(|entry| entry.file_name() != ".git");
    let mut found = Vec::new();
    for entry in walk.build() {
        let walked = |error| PackError::Walk { directory: directory.to_owned(), error };
        let entry = entry.map_err(walked)?;
        let Some(path) = below(&entry, directory) else { continue };
        let metadata = entry.metadata().map_err(walked)?;
        found.push(FoundEntry { path, bytes: if metadata.is_file() { metadata.len() } else { 0 } });
        if found.len() > WORKDIR_ENTRIES_MAX {
            return Err(PackError::TooMany(directory.to_owned()));
        }
    }
    Ok(found)
}

fn is_in_repository(directory: &Path) -> bool {
    let absolute = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    absolute.ancestors().any(|place| place.join(".git").exists())
}

/// Its path in the directory; `None` for the directory itself.
fn below(entry: &DirEntry, directory: &Path) -> Option<PathBuf> {
    let path = entry.path().strip_prefix(directory).ok()?;
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

/// Returns whether it is something that can be packed.
fn append(builder: &mut Builder<Vec<u8>>, directory: &Path, entry: &FoundEntry) -> Result<bool, PackError> {
    let full = directory.join(&entry.path);
    let unreadable = |error| PackError::Unreadable { path: full.clone(), error };
    let metadata = fs::symlink_metadata(&full).map_err(unreadable)?;
    let mut header = Header::new_gnu();
    let appended = if metadata.is_file() {
        let content = fs::read(&full).map_err(unreadable)?;
        let is_executable = metadata.permissions().mode() & 0o111 != 0;
        header.set_mode(if is_executable { 0o755 } else { 0o644 });
        header.set_size(u64::try_from(content.len()).unwrap_or(u64::MAX));
        builder.append_data(&mut header, &entry.path, content.as_slice())
    } else if metadata.is_dir() {
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        builder.append_data(&mut header, &entry.path, io::empty())
    } else if metadata.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        builder.append_link(&mut header, &entry.path, fs::read_link(&full).map_err(unreadable)?)
    } else {
        return Ok(false);
    };
    appended.map(|()| true).map_err(unreadable)
}

/// The largest entries of the directory itself, each with all below it.
fn name_largest(found: &[FoundEntry]) -> String {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for entry in found {
        let top = entry.path.components().next().map(|top| top.as_os_str().to_string_lossy().into_owned());
        let size = sizes.entry(top.unwrap_or_default()).or_default();
        *size = size.saturating_add(entry.bytes);
    }
    let mut sizes: Vec<(String, u64)> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let named: Vec<String> =
        sizes.iter().take(NAMED_MAX).map(|(name, bytes)| format!("{name} ({} MiB)", bytes.div_ceil(MIB))).collect();
    named.join(", ")
}
