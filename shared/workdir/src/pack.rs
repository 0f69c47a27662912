//! Packing a directory into an archive.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};
use jobs::{WORKDIR_ARCHIVE_BYTES_MAX, WORKDIR_ENTRIES_MAX, WORKDIR_UNPACKED_BYTES_MAX, WorkdirDigest};
use model::fault::error_sentence;
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
    /// Paths that are left out, and why.
    pub left_out: Vec<LeftOut>,
    /// Links that may lead to nothing on the machine.
    pub stray_links: Vec<StrayLink>,
}

/// An entry that is not in the archive, by its path in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub path: PathBuf,
    pub reason: LeftOutReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutReason {
    /// A socket, a device or a pipe.
    NoFile,
    /// Entry that existed when the directory was listed, but not when it was read.
    Vanished,
}

/// A link whose target is not in the archive, by its path in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrayLink {
    pub path: PathBuf,
    pub target: PathBuf,
}

/// Reason for not packing a directory.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("{} is not a directory; name one that exists", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} cannot be read: {}", path.display(), error_sentence(error))]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} cannot be read: {}", directory.display(), error_sentence(error))]
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
    let too_large = |bytes, bytes_max, what| PackError::TooLarge {
        directory: directory.to_owned(),
        bytes,
        bytes_max,
        what,
        largest: name_largest(&found),
    };
    let (mut builder, mut bytes) = (Builder::new(Vec::new()), found.iter().map(|entry| entry.bytes).sum());
    if bytes > WORKDIR_UNPACKED_BYTES_MAX {
        return Err(too_large(bytes, WORKDIR_UNPACKED_BYTES_MAX, "of files"));
    }
    let (mut packed, mut left_out, mut links) = (BTreeSet::new(), Vec::new(), Vec::new());
    bytes = 0;
    for FoundEntry { path, .. } in &found {
        let leave_out = |reason| LeftOut { path: path.clone(), reason };
        match append(&mut builder, directory, path) {
            Ok(Appended::File(size)) => bytes = size.saturating_add(bytes),
            Ok(Appended::Link(target)) => links.push(StrayLink { path: path.clone(), target }),
            Ok(Appended::Directory) => {}
            Ok(Appended::NoFile) => {
                left_out.push(leave_out(LeftOutReason::NoFile));
                continue;
            }
            Err(error) if has_vanished(&error) => {
                left_out.push(leave_out(LeftOutReason::Vanished));
                continue;
            }
            Err(error) => return Err(PackError::Unreadable { path: directory.join(path), error }),
        }
        packed.insert(path.as_path());
    }
    if packed.is_empty() {
        return Err(PackError::Empty(directory.to_owned()));
    }
    // A file may have grown meanwhile.
    if bytes > WORKDIR_UNPACKED_BYTES_MAX {
        return Err(too_large(bytes, WORKDIR_UNPACKED_BYTES_MAX, "of files"));
    }
    let unreadable = |error| PackError::Unreadable { path: directory.to_owned(), error };
    let archive = compress_to_vec(builder.into_inner().map_err(unreadable)?.as_slice(), CompressionLevel::Fastest);
    if archive.len() > WORKDIR_ARCHIVE_BYTES_MAX {
        let bytes_of = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        return Err(too_large(bytes_of(archive.len()), bytes_of(WORKDIR_ARCHIVE_BYTES_MAX), "when packed"));
    }
    links.retain(|link| is_stray(directory, link, &packed));
    let (digest, entries) = (WorkdirDigest::from_archive(&archive), packed.len());
    Ok(PackedWorkdir { digest, entries, bytes, left_out, stray_links: links, archive })
}

/// True if an error says that what was listed is gone, or has become something else.
fn has_vanished(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, StaleNetworkFileHandle};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory | StaleNetworkFileHandle)
}

/// True if a link leads out of the directory, or to something in it that is not in the archive. What a link names that does not exist yet, the
/// command may make.
fn is_stray(directory: &Path, link: &StrayLink, packed: &BTreeSet<&Path>) -> bool {
    let mut place: Vec<&OsStr> = link.path.parent().into_iter().flat_map(Path::iter).collect();
    for part in link.target.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::ParentDir if !place.is_empty() => drop(place.pop()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    let place: PathBuf = place.into_iter().collect();
    !place.as_os_str().is_empty() && !packed.contains(place.as_path()) && directory.join(place).exists()
}

/// One file, directory or link, by its path in the directory.
struct FoundEntry {
    path: PathBuf,
    bytes: u64,
}

/// Lists the entries of a directory that belong in the archive, sorted by path.
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
        let entry = match entry {
            // A directory that vanished has been listed already, by its parent.
            Err(error) if error.depth() != Some(0) && error.io_error().is_some_and(has_vanished) => continue,
            entry => entry.map_err(walked)?,
        };
        let Some(path) = below(&entry, directory) else { continue };
        // An entry that vanished is noticed when it is read.
        let bytes = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(_) => 0,
            Err(error) if error.io_error().is_some_and(has_vanished) => 0,
            Err(error) => return Err(walked(error)),
        };
        found.push(FoundEntry { path, bytes });
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

/// The content of the archive.
enum Appended {
    /// File of this many bytes.
    File(u64),
    Directory,
    /// Link to this target.
    Link(PathBuf),
    /// No entry: the path is a socket, a device or a pipe.
    NoFile,
}

fn append(builder: &mut Builder<Vec<u8>>, directory: &Path, path: &Path) -> io::Result<Appended> {
    let full = directory.join(path);
    let metadata = fs::symlink_metadata(&full)?;
    let mut header = Header::new_gnu();
    if metadata.is_file() {
        let content = fs::read(&full)?;
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let is_executable = metadata.permissions().mode() & 0o111 != 0;
        header.set_mode(if is_executable { 0o755 } else { 0o644 });
        header.set_size(bytes);
        builder.append_data(&mut header, path, content.as_slice())?;
        Ok(Appended::File(bytes))
    } else if metadata.is_dir() {
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        builder.append_data(&mut header, path, io::empty())?;
        Ok(Appended::Directory)
    } else if metadata.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        let target = fs::read_link(&full)?;
        builder.append_link(&mut header, path, &target)?;
        Ok(Appended::Link(target))
    } else {
        Ok(Appended::NoFile)
    }
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
