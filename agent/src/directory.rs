//! The checkpoint directory on the disk. Callers call everything but [`make`] with the rights of its user.

mod collect;
mod content;
mod held;
mod owned;
mod snapshot;

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jobs::CheckpointSpec;
use jobs::checkpoints::{
    COMPLETE, CheckpointStep, DirectoryEntry, DirectoryWatch, Manifest, TRACKER_BYTES_MAX, Tracker, check_path,
    index_of, is_marker, is_record, is_temporary, is_whole_index, marked_as_unfinished, marked_step, marker_names,
    matches_pattern, step_of,
};
use model::fault::{InvalidValue, error_sentence};

use self::content::{DirectoryContent, target_below};

pub(crate) use collect::{FoundFiles, collect_files};
pub(crate) use held::{DiskRoom, HeldSteps, release};
pub(crate) use owned::make;
pub(crate) use snapshot::{KeptStep, StepSnapshot};

/// A deeper or larger directory is a mistake in the spec, not a checkpoint.
const DEPTH_MAX: u32 = 32;
const FILES_MAX: usize = 100_000;

/// The bytes at the end of a marker that are read.
const END_BYTES: u64 = 4096;

/// The checkpoint directory of a job, and which of its entries are part of checkpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointDirectory {
    pub(crate) path: PathBuf,
    include: Vec<String>,
    exclude: Vec<String>,
}

impl CheckpointDirectory {
    pub(crate) fn from_spec(spec: &CheckpointSpec) -> Self {
        Self { path: PathBuf::from(&spec.dir), include: spec.include.clone(), exclude: spec.exclude.clone() }
    }

    fn is_included(&self, path: &str) -> bool {
        self.include.iter().any(|pattern| matches_pattern(pattern, path))
    }

    /// Returns `true` if an entry of that name has no number.
    fn is_loose(&self, name: &str) -> bool {
        step_of(name).is_none() || self.is_included(name)
    }

    fn is_excluded(&self, path: &str) -> bool {
        self.exclude.iter().any(|pattern| matches_pattern(pattern, path))
    }
}

#[derive(Debug, Default)]
pub(crate) struct DirectoryScan {
    pub(crate) entries: Vec<DirectoryEntry>,
    /// The names of links to what lies in the directory.
    pub(crate) links: Vec<String>,
    /// Files and links that name a checkpoint.
    pub(crate) trackers: Vec<Tracker>,
    /// An entry that belongs to no checkpoint: a log, or a link that leaves the directory.
    pub(crate) left_out: Option<String>,
}

/// The present entries. One that vanishes meanwhile does not count.
pub(crate) fn scan_directory(directory: &CheckpointDirectory) -> io::Result<DirectoryScan> {
    if fs::symlink_metadata(&directory.path)?.is_symlink() {
        return Err(owned::is_a_link(&directory.path));
    }
    let mut seen = DirectoryScan::default();
    let mut names = names(&directory.path)?;
    // A command that writes its state and then the step that goes with it is never seen with that step and an older state.
    names.sort_by_key(|name| directory.is_loose(&name.to_string_lossy()));
    let all: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    for name in names {
        let shown = name.to_string_lossy();
        let Ok(own) = fs::symlink_metadata(directory.path.join(&name)) else { continue };
        if shown.starts_with('.') || shown.ends_with(COMPLETE) || directory.is_excluded(&shown) {
            continue;
        }
        if own.is_symlink() {
            if let Some(target) = target_below(&directory.path.join(&name), &directory.path) {
                let first = target.components().next().and_then(|first| first.as_os_str().to_str());
                seen.trackers.extend(first.and_then(|first| Tracker::from_link(&shown, first)));
                seen.links.push(shown.into_owned());
            } else {
                seen.left_out = Some(shown.into_owned());
            }
        } else if own.is_file() && is_record(&shown) {
            seen.left_out = Some(shown.into_owned());
        } else {
            seen.trackers.extend(tracker_of(&directory.path.join(&name), &own, &shown, &all));
            seen.entries.extend(entry_of(&name, directory, &directory.path));
        }
    }
    for mark in all.iter().filter(|name| is_temporary(name)) {
        let is_empty = fs::symlink_metadata(directory.path.join(mark)).is_ok_and(|own| own.is_file() && own.len() == 0);
        let marked = marked_as_unfinished(mark, is_empty, all.iter().map(String::as_str));
        for entry in seen.entries.iter_mut().filter(|entry| Some(entry.name.as_str()) == marked) {
            entry.unfit.get_or_insert_with(|| format!("`{mark}` says that it is still being written"));
        }
    }
    Ok(seen)
}

/// The tracker that a small file without a number is.
fn tracker_of(path: &Path, own: &Metadata, name: &str, all: &[String]) -> Option<Tracker> {
    let is_small = own.is_file() && own.len() <= TRACKER_BYTES_MAX && step_of(name).is_none();
    let text = is_small.then(|| fs::read_to_string(path).ok()).flatten()?;
    Tracker::from_text(name, &text, all)
}

/// A checkpoint as it is now, after its writers have ended.
pub(crate) fn step_in(
    directory: &CheckpointDirectory,
    manifest: &Manifest,
    now: Timestamp,
) -> io::Result<Option<CheckpointStep>> {
    let mut watch = DirectoryWatch::default();
    watch.observe(scan_directory(directory)?.entries, now);
    Ok(watch.step_of_manifest(manifest, now))
}

/// The error without the kernel's number, which std appends.
pub(crate) fn describe_io_error(error: &io::Error) -> String {
    let text = error_sentence(error);
    let number = error.raw_os_error().map(|code| format!(" (os error {code})")).unwrap_or_default();
    text.strip_suffix(&number).unwrap_or(&text).to_owned()
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// `None` while it is renamed or deleted; the next look sees the result. `base`: the directory, or where it is held.
fn entry_of(name: &OsStr, directory: &CheckpointDirectory, base: &Path) -> Option<DirectoryEntry> {
    let (path, name) = (base.join(name), name.to_string_lossy().into_owned());
    let mut inside = DirectoryContent::beneath(directory, base, directory.is_loose(&name));
    let unreadable = match inside.add(&name) {
        Ok(()) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Some(describe_io_error(&error)),
    };
    let folder = path.is_dir();
    let (marked_at, marked_step) = find_marker(&path, &name, folder, base);
    let unfit = unreadable.or_else(|| unfit(&name, marked_at.is_some(), &inside, base));
    let DirectoryContent { files, .. } = inside;
    Some(DirectoryEntry {
        folder,
        bytes: files.iter().map(|(_, metadata)| metadata.len()).sum(),
        files: u64::try_from(files.len()).unwrap_or(u64::MAX),
        begun_at: files.iter().map(|(_, metadata)| changed_at(metadata)).min().unwrap_or(Timestamp::MIN),
        changed_at: files.iter().map(|(_, metadata)| changed_at(metadata)).max().unwrap_or(Timestamp::MIN),
        marked_at,
        marked_step,
        is_included: directory.is_included(&name),
        unfit,
        name,
    })
}

/// Returns the time when an entry was marked, and the step that its marker names.
fn find_marker(path: &Path, name: &str, folder: bool, base: &Path) -> (Option<Timestamp>, Option<u64>) {
    let own = if folder { path.join(COMPLETE) } else { base.join(format!("{name}{COMPLETE}")) };
    let marked_step = marker_at(&own, |_| true).and_then(|_| marked_step(&end_of(&own).ok()?));
    let marked_at = if folder {
        marker_names().filter_map(|marker| marker_at(&path.join(marker), |end| is_marker(marker, end))).max()
    } else {
        let index = || index_of(name).and_then(|index| marker_at(&base.join(index), is_whole_index));
        marker_at(&own, |_| true).or_else(index)
    };
    (marked_at, marked_step)
}

/// Returns the time when the file was written, if its last bytes make it a marker.
fn marker_at(path: &Path, is_whole: impl Fn(&[u8]) -> bool) -> Option<Timestamp> {
    // A pipe of that name would be waited for.
    let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
    end_of(path).is_ok_and(|end| is_whole(&end)).then(|| changed_at(&metadata))
}

fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut end) = (fs::File::open(path)?, Vec::new());
    let from = file.metadata()?.len().saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(from))?;
    file.take(END_BYTES).read_to_end(&mut end)?;
    Ok(end)
}

/// Returns the reason why an entry of that name and content is no checkpoint.
fn unfit(name: &str, marked: bool, inside: &DirectoryContent<'_>, base: &Path) -> Option<String> {
    if is_temporary(name) {
        return Some("its name says that it is still being written".to_owned());
    }
    let is_unfinished =
        |path: &Path| path.file_name().and_then(OsStr::to_str).is_some_and(|inner| !marked && is_temporary(inner));
    inside.paths().find_map(|path| match within(path, base) {
        Err(problem) => Some(problem.to_string()),
        Ok(shown) if is_unfinished(path) => Some(format!("the name of `{shown}` says that it is still being written")),
        Ok(_) => None,
    })
}

/// A path in the directory, as the bucket has it.
fn within(path: &Path, directory: &Path) -> Result<String, InvalidValue> {
    let inner = path.strip_prefix(directory).unwrap_or(path);
    let is_foreign = || InvalidValue::new(format!("`{}` is not UTF-8, so the bucket cannot hold it", inner.display()));
    let shown = inner.to_str().ok_or_else(is_foreign)?;
    check_path(shown).map(|()| shown.to_owned())
}

fn changed_at(metadata: &Metadata) -> Timestamp {
    let nanosecond = i32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Timestamp::new(metadata.mtime(), nanosecond).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
