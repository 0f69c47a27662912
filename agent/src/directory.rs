//! The checkpoint directory, as it is on the disk. All but [`make`] is done with the rights of its user, by the callers.

mod owned;
mod snapshot;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jobs::checkpoints::{
    CheckpointStep, DirectoryEntry, DirectoryWatch, MARKERS, QUIET, WriterState, check_path, is_description, is_marker,
    is_record, is_temporary, step_of,
};
use store::LocalFile;

pub(crate) use owned::make;
pub(crate) use snapshot::{KeptStep, StepSnapshot, let_go};

/// Deeper, or more, is no checkpoint, but a directory that was named by mistake.
const DEPTH_MAX: u32 = 32;
const FILES_MAX: usize = 100_000;

/// Marks a checkpoint that is a single file.
const COMPLETE: &str = ".complete";

/// So much of a marker is read, from its end.
const END_BYTES: u64 = 512;

/// What one look at the directory showed.
#[derive(Debug, Default)]
pub(crate) struct DirectoryScan {
    /// What belongs to a step.
    pub(crate) entries: Vec<DirectoryEntry>,
    /// Something whose name has no number.
    pub(crate) numberless: Option<String>,
    /// A file that is none of a checkpoint, though its name has a number.
    pub(crate) record: Option<String>,
    /// A link whose name has a number.
    pub(crate) link: Option<String>,
}

/// What is in the directory now. What vanishes while it is looked at was not there.
pub(crate) fn scan_directory(directory: &Path) -> io::Result<DirectoryScan> {
    if fs::symlink_metadata(directory)?.is_symlink() {
        return Err(owned::is_a_link(directory));
    }
    let (mut seen, mut descriptions) = (DirectoryScan::default(), Vec::new());
    for name in names(directory)? {
        let shown = name.to_string_lossy();
        // A link, such as `latest`, is another name of a checkpoint.
        let Ok(own) = fs::symlink_metadata(directory.join(&name)) else { continue };
        if shown.starts_with('.') || shown.ends_with(COMPLETE) {
            continue;
        }
        if step_of(&shown).is_none() {
            seen.numberless = Some(shown.into_owned());
            continue;
        }
        if own.is_symlink() {
            seen.link = Some(shown.into_owned());
            continue;
        }
        if own.is_file() && is_record(&shown) {
            seen.record = Some(shown.into_owned());
        } else if own.is_file() && is_description(&shown) {
            descriptions.push(name);
        } else {
            seen.entries.extend(entry_of(&name, directory));
        }
    }
    let steps: BTreeSet<_> = seen.entries.iter().map(|entry| step_of(&entry.name)).collect();
    for name in descriptions {
        let shown = name.to_string_lossy();
        if steps.contains(&step_of(&shown)) {
            seen.entries.extend(entry_of(&name, directory));
        } else {
            seen.record = Some(shown.into_owned());
        }
    }
    Ok(seen)
}

/// A step as it lies there now, where nobody writes.
pub(crate) fn step_in(directory: &Path, step: u64, now: Timestamp) -> io::Result<Option<CheckpointStep>> {
    let mut watch = DirectoryWatch::default();
    watch.observe(scan_directory(directory)?.entries, now);
    Ok(watch.steps(WriterState::Ended, now, QUIET).into_iter().find(|there| there.step == step))
}

/// What went wrong, without the number that it has in the kernel.
pub(crate) fn describe_io_error(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// What is uploaded, and what is not.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    pub(crate) files: Vec<LocalFile>,
    /// In words.
    pub(crate) missing: Vec<String>,
}

/// Every file at or below a path of the machine, by its path there. What is none, or cannot be read, loses nothing of the rest.
pub(crate) fn collect_files(path: &Path, found: &mut FoundFiles) {
    let base = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    below(path, base, DEPTH_MAX, found);
}

fn below(path: &Path, base: &Path, depth_left: u32, found: &mut FoundFiles) {
    let mut lacks = |why: &dyn std::fmt::Display| found.missing.push(format!("{} ({why})", path.display()));
    let (own, target) = match fs::symlink_metadata(path).and_then(|own| Ok((own, fs::metadata(path)?))) {
        Ok(both) => both,
        Err(error) => return lacks(&describe_io_error(&error)),
    };
    if target.is_dir() {
        if own.is_symlink() {
            return lacks(&"a link to a directory, which may lead anywhere");
        }
        if depth_left == 0 {
            return lacks(&"too many levels");
        }
        match names(path) {
            Ok(inside) => inside.iter().for_each(|name| below(&path.join(name), base, depth_left - 1, found)),
            Err(error) => lacks(&describe_io_error(&error)),
        }
    } else if !target.is_file() {
        lacks(&"neither a file nor a directory");
    } else if own.is_symlink() && !leads_below(path, base) {
        lacks(&format!("a link to a file outside of {}", base.display()));
    } else if found.files.len() >= FILES_MAX {
        lacks(&"too many files");
    } else if let Some(name) = path.to_str() {
        let path_there = name.trim_start_matches('/').to_owned();
        found.files.push(LocalFile { path: path_there, from: path.to_owned(), found: None });
    } else {
        lacks(&"it is no UTF-8, and has no name in the bucket");
    }
}

/// Whether a link leads to what lies at or below a directory. The rights of the user are what holds where it is changed just then.
fn leads_below(link: &Path, directory: &Path) -> bool {
    let both = link.canonicalize().and_then(|target| Ok((target, directory.canonicalize()?)));
    both.is_ok_and(|(target, directory)| target.starts_with(directory))
}

/// How many bytes are free for whoever is not root, where that is below a hundredth: the disk is full.
pub(crate) fn full(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    (disk.f_bavail < disk.f_blocks / 100).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// `None` where it is being renamed or deleted; the next look sees what came of it.
fn entry_of(name: &OsStr, directory: &Path) -> Option<DirectoryEntry> {
    let (path, name) = (directory.join(name), name.to_string_lossy().into_owned());
    let mut inside = DirectoryContent::beneath(directory);
    let unreadable = match walk(&path, DEPTH_MAX, &mut inside) {
        Ok(()) => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Some(describe_io_error(&error)),
    };
    let folder = path.is_dir();
    let marked_at = if folder {
        MARKERS.iter().filter_map(|marker| marker_at(&path.join(marker), marker)).max()
    } else {
        marker_at(&directory.join(format!("{name}{COMPLETE}")), COMPLETE)
    };
    let unfit = unreadable.or_else(|| unfit(&name, marked_at.is_some(), &inside, directory));
    let DirectoryContent { files, .. } = inside;
    Some(DirectoryEntry {
        folder,
        bytes: files.iter().map(|(_, metadata)| metadata.len()).sum(),
        files: u64::try_from(files.len()).unwrap_or(u64::MAX),
        changed_at: files.iter().map(|(_, metadata)| changed_at(metadata)).max().unwrap_or(Timestamp::MIN),
        marked_at,
        unfit,
        name,
    })
}

/// When it was written, where it is one.
fn marker_at(path: &Path, name: &str) -> Option<Timestamp> {
    // A pipe of that name would be waited for.
    let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
    end_of(path).is_ok_and(|end| is_marker(name, &end)).then(|| changed_at(&metadata))
}

fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut end) = (fs::File::open(path)?, Vec::new());
    let from = file.metadata()?.len().saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(from))?;
    file.take(END_BYTES).read_to_end(&mut end)?;
    Ok(end)
}

/// Why something of that name, with that in it, is no checkpoint.
fn unfit(name: &str, marked: bool, inside: &DirectoryContent, directory: &Path) -> Option<String> {
    if is_temporary(name) {
        return Some("its name says that it is still being written".to_owned());
    }
    let is_unfinished =
        |path: &Path| path.file_name().and_then(OsStr::to_str).is_some_and(|inner| !marked && is_temporary(inner));
    inside.paths().find_map(|path| match within(path, directory) {
        Err(problem) => Some(problem),
        Ok(shown) if is_unfinished(path) => Some(format!("the name of `{shown}` says that it is still being written")),
        Ok(_) => None,
    })
}

/// The path of something in the directory, as the bucket has it.
fn within(path: &Path, directory: &Path) -> Result<String, String> {
    let inner = path.strip_prefix(directory).unwrap_or(path);
    let shown =
        inner.to_str().ok_or_else(|| format!("`{}` is no UTF-8, and has no name in the bucket", inner.display()));
    shown.and_then(|shown| check_path(shown).map(|()| shown.to_owned()))
}

fn changed_at(metadata: &Metadata) -> Timestamp {
    let nanosecond = i32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Timestamp::new(metadata.mtime(), nanosecond).unwrap_or(Timestamp::MIN)
}

/// What lies at or below a path.
#[derive(Debug)]
struct DirectoryContent<'a> {
    /// The checkpoint directory.
    directory: &'a Path,
    files: Vec<(PathBuf, Metadata)>,
    /// Links to directories, and to nothing, with what they say.
    links: Vec<(PathBuf, PathBuf)>,
    /// Empty directories.
    folders: Vec<PathBuf>,
}

impl<'a> DirectoryContent<'a> {
    const fn beneath(directory: &'a Path) -> Self {
        Self { directory, files: Vec::new(), links: Vec::new(), folders: Vec::new() }
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.iter().map(|(path, _)| path.as_path());
        files.chain(self.links.iter().map(|(path, _)| path.as_path())).chain(self.folders.iter().map(PathBuf::as_path))
    }

    fn len(&self) -> usize {
        self.files.len() + self.links.len() + self.folders.len()
    }
}

/// A link to a file of the checkpoint directory counts as that file, and one to a file elsewhere is an error: what it leads to would neither be
/// kept nor come back. A link to a directory may lead anywhere, and is kept as the link that it is. Sockets and pipes are nothing that could
/// be kept.
fn walk(path: &Path, depth_left: u32, found: &mut DirectoryContent<'_>) -> io::Result<()> {
    let too_many = |what: &str| io::Error::other(format!("{} has too many {what} to be a checkpoint", path.display()));
    if found.len() >= FILES_MAX {
        return Err(too_many("files"));
    }
    let own = fs::symlink_metadata(path)?;
    let metadata = match fs::metadata(path) {
        // Dangling, or in a circle.
        Err(_) if own.is_symlink() => None,
        metadata => Some(metadata?),
    };
    match metadata {
        Some(metadata) if metadata.is_file() && own.is_symlink() && !leads_below(path, found.directory) => {
            let link = path.strip_prefix(found.directory).unwrap_or(path).display();
            return Err(io::Error::other(format!(
                "`{link}` is a link to a file outside of the checkpoint directory, which is not read: copy the file there"
            )));
        }
        Some(metadata) if metadata.is_file() => found.files.push((path.to_owned(), metadata)),
        Some(metadata) if metadata.is_dir() && !own.is_symlink() => {
            if depth_left == 0 {
                return Err(too_many("levels"));
            }
            let names = names(path)?;
            if names.is_empty() {
                found.folders.push(path.to_owned());
            }
            return names.iter().try_for_each(|name| walk(&path.join(name), depth_left - 1, found));
        }
        _ if own.is_symlink() && metadata.as_ref().is_none_or(Metadata::is_dir) => {
            found.links.push((path.to_owned(), fs::read_link(path)?));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of the test's own, which goes with it.
    pub(super) struct Scratch(pub(super) PathBuf);

    impl Scratch {
        pub(super) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("curfew-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(super) fn file(self, path: &str) -> Self {
            self.with(path, "12345")
        }

        fn with(self, path: &str, text: &str) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn look(&self) -> Vec<Seen> {
            let seen = scan_directory(&self.0).unwrap().entries.into_iter();
            let mut seen: Vec<_> =
                seen.map(|entry| (entry.name, entry.bytes, entry.marked_at.is_some(), entry.unfit)).collect();
            seen.sort_unstable();
            seen
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Name, bytes, whether it is marked, and why it is no checkpoint.
    type Seen = (String, u64, bool, Option<String>);

    fn seen(name: &str, bytes: u64, marked: bool, unfit: Option<&str>) -> Seen {
        (name.to_owned(), bytes, marked, unfit.map(str::to_owned))
    }

    #[test]
    fn each_framework_is_seen_as_it_writes() {
        let trainer = "checkpoint-500/trainer_state.json";
        let scratch = Scratch::new("frameworks").with(trainer, "{\n }\n").file("checkpoint-500/model/a.bin");
        let scratch = scratch.file("step_7/.metadata").file("step_7/__0_0.distcp").file("epoch=1-step=20.ckpt");
        let scratch =
            scratch.file("model-30.pt").file("model-30.pt.complete").file("tmp-checkpoint-600/a").file("last.ckpt");
        let expect = [
            seen("checkpoint-500", 10, true, None),
            seen("epoch=1-step=20.ckpt", 5, false, None),
            seen("model-30.pt", 5, true, None),
            seen("step_7", 10, true, None),
            seen("tmp-checkpoint-600", 5, false, Some("its name says that it is still being written")),
        ];
        assert_eq!(scratch.look(), expect);
    }

    #[test]
    fn a_marker_that_is_cut_off_marks_nothing() {
        let scratch = Scratch::new("torn").with("step-1/trainer_state.json", "{\"a\":").with("step-2/.metadata", "");
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(2000));
        let scratch = scratch.with("step-3/_SUCCESS", "").with("step-4/trainer_state.json", &long);
        let marked: Vec<bool> = scratch.look().into_iter().map(|(.., marked, _)| marked).collect();
        assert_eq!(marked, [false, false, true, true]);
    }

    #[test]
    fn a_log_is_no_checkpoint_and_a_configuration_is_none_by_itself() {
        let scratch = Scratch::new("records").file("train-900.log").file("model-5.pt").file("config-5.json");
        assert_eq!(scan_directory(&scratch.0).unwrap().record.as_deref(), Some("train-900.log"));
        fs::remove_file(scratch.0.join("train-900.log")).unwrap();
        let scratch = scratch.file("metrics-6.csv").file("step-7.json/a");
        let names: Vec<String> = scratch.look().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["config-5.json", "model-5.pt", "step-7.json"]);
        assert_eq!(scan_directory(&scratch.0).unwrap().record.as_deref(), Some("metrics-6.csv"));
    }

    #[test]
    fn what_holds_something_temporary_is_temporary() {
        let scratch = Scratch::new("temporary").file("step-1/a.bin").file("step-1/b.bin.tmp").file("step-2/.zarray");
        let unfit = "the name of `step-1/b.bin.tmp` says that it is still being written";
        assert_eq!(scratch.look(), [seen("step-1", 10, false, Some(unfit)), seen("step-2", 5, false, None)]);
    }

    #[test]
    fn a_link_is_no_checkpoint_and_leads_nowhere() {
        let scratch = Scratch::new("links").file("step-1/a.bin");
        std::os::unix::fs::symlink("step-1", scratch.0.join("latest-1")).unwrap();
        std::os::unix::fs::symlink("/", scratch.0.join("step-1/root")).unwrap();
        std::os::unix::fs::symlink("..", scratch.0.join("step-1/circle")).unwrap();
        assert_eq!(scratch.look(), [seen("step-1", 5, false, None)]);
        assert_eq!(scan_directory(&scratch.0).unwrap().link.as_deref(), Some("latest-1"));
    }

    #[test]
    fn what_could_not_be_brought_back_stops_nothing_else() {
        let scratch = Scratch::new("unfit").file("step-1/a.bin").file("step-2/a\nb");
        fs::create_dir_all(scratch.0.join("step-3").join("deep/".repeat(40))).unwrap();
        let seen = scratch.look();
        assert_eq!(seen[0], super::tests::seen("step-1", 5, false, None));
        let why = |index: usize| seen[index].3.as_deref().unwrap_or_default();
        assert!(why(1).contains(r"the path `step-2/a\nb` has to stay"), "{}", why(1));
        assert!(why(2).contains("too many levels"), "{}", why(2));
    }

    #[test]
    fn a_name_without_a_number_is_noticed() {
        let scratch = Scratch::new("numberless").file("last.ckpt");
        assert_eq!(scan_directory(&scratch.0).unwrap().numberless.as_deref(), Some("last.ckpt"));
    }

    #[test]
    fn what_is_no_file_loses_nothing_of_the_rest() {
        let scratch = Scratch::new("outputs").file("a/one.txt").file("a/two.txt");
        std::os::unix::fs::symlink("/nowhere/at-all", scratch.0.join("a/absent")).unwrap();
        std::os::unix::fs::symlink("/", scratch.0.join("a/root")).unwrap();
        let mut found = FoundFiles::default();
        collect_files(&scratch.0, &mut found);
        let mut files: Vec<PathBuf> = found.files.into_iter().map(|file| Path::new("/").join(file.path)).collect();
        files.sort_unstable();
        assert_eq!(files, [scratch.0.join("a/one.txt"), scratch.0.join("a/two.txt")]);
        let mut missing = found.missing;
        missing.sort_unstable();
        assert_eq!(missing.len(), 2);
        assert!(missing[0].contains("a/absent (No such file") && missing[1].contains("a/root (a link to a directory"));
    }
}
