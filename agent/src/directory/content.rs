//! The content at or below a path of the checkpoint directory.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use jobs::checkpoints::{is_record, is_temporary, is_text, marked_as_unfinished};

use super::{CheckpointDirectory, DEPTH_MAX, FILES_MAX, names};

/// The files, links and directories at or below a path.
#[derive(Debug)]
pub(super) struct DirectoryContent<'a> {
    directory: &'a CheckpointDirectory,
    /// The directory that has the path: the checkpoint directory, or the one of held entries.
    base: &'a Path,
    /// `true` if the entry has no number: then logs and temporary files are left out, and a change of text does not count as a change.
    is_loose: bool,
    pub(super) files: Vec<(PathBuf, Metadata)>,
    /// Files that belong to it and may change meanwhile.
    pub(super) text: Vec<(PathBuf, Metadata)>,
    /// Links to directories and broken links, with their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Empty directories.
    pub(super) folders: Vec<PathBuf>,
}

impl<'a> DirectoryContent<'a> {
    pub(super) const fn beneath(directory: &'a CheckpointDirectory, base: &'a Path, is_loose: bool) -> Self {
        Self { directory, base, is_loose, files: Vec::new(), text: Vec::new(), links: Vec::new(), folders: Vec::new() }
    }

    /// Adds everything at or below a name.
    pub(super) fn add(&mut self, name: &str) -> io::Result<()> {
        self.walk(&self.base.join(name), DEPTH_MAX)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.iter().chain(&self.text).map(|(path, _)| path.as_path());
        files.chain(self.links.iter().map(|(path, _)| path.as_path())).chain(self.folders.iter().map(PathBuf::as_path))
    }

    fn len(&self) -> usize {
        self.files.len() + self.text.len() + self.links.len() + self.folders.len()
    }

    /// A link to a file of the checkpoint directory counts as that file. A link to a file elsewhere is an error, because its target would be
    /// neither uploaded nor restored. A link to a directory may lead anywhere and is uploaded as a link. Sockets and pipes are left out.
    fn walk(&mut self, path: &Path, depth_left: u32) -> io::Result<()> {
        let too_many =
            |what: &str| io::Error::other(format!("{} has too many {what} to be a checkpoint", path.display()));
        if self.len() >= FILES_MAX {
            return Err(too_many("files"));
        }
        let own = fs::symlink_metadata(path)?;
        let shown = path.strip_prefix(self.base).unwrap_or(path).to_string_lossy().into_owned();
        let name = shown.rsplit('/').next().unwrap_or_default();
        if self.directory.is_excluded(&shown) || (self.is_loose && (is_record(name) || is_temporary(name))) {
            return Ok(());
        }
        let metadata = match fs::metadata(path) {
            // Dangling, or in a circle.
            Err(_) if own.is_symlink() => None,
            metadata => Some(metadata?),
        };
        match metadata {
            Some(metadata) if metadata.is_file() && own.is_symlink() && !leads_below(path, &self.directory.path) => {
                return Err(io::Error::other(format!(
                    "`{shown}` is a link to a file outside of the checkpoint directory, which is not read: copy the file there"
                )));
            }
            Some(metadata) if metadata.is_file() => {
                let is_text = self.is_loose && shown.contains('/') && is_text(name);
                let files = if is_text { &mut self.text } else { &mut self.files };
                files.push((path.to_owned(), metadata));
            }
            Some(metadata) if metadata.is_dir() && !own.is_symlink() => {
                if depth_left == 0 {
                    return Err(too_many("levels"));
                }
                let names = names(path)?;
                if names.is_empty() {
                    self.folders.push(path.to_owned());
                }
                let unfinished = if self.is_loose { unfinished_beside_marks(&names) } else { BTreeSet::new() };
                let mut whole = names.iter().filter(|name| !unfinished.contains(*name));
                return whole.try_for_each(|name| self.walk(&path.join(name), depth_left - 1));
            }
            _ if own.is_symlink() && metadata.as_ref().is_none_or(Metadata::is_dir) => {
                self.links.push((path.to_owned(), fs::read_link(path)?));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The names that a mark beside them calls unfinished: they are left out of what has no number, as the marks are.
fn unfinished_beside_marks(names: &[OsString]) -> BTreeSet<OsString> {
    let all = || names.iter().filter_map(|name| name.to_str());
    all().filter_map(|mark| marked_as_unfinished(mark, false, all())).map(OsString::from).collect()
}

/// Returns `true` if the target of a link is at or below a directory. If the link changes meanwhile, the rights of the user still apply.
pub(super) fn leads_below(link: &Path, directory: &Path) -> bool {
    target_below(link, directory).is_some()
}

/// The target of a link that leads to something at or below a directory, from there.
pub(super) fn target_below(link: &Path, directory: &Path) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    target.strip_prefix(directory.canonicalize().ok()?).ok().map(Path::to_owned)
}
