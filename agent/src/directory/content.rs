//! What lies at or below a path of the checkpoint directory.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use jobs::checkpoints::{is_record, is_temporary, is_text};

use super::{CheckpointDirectory, DEPTH_MAX, FILES_MAX, names};

/// What is at or below a path.
#[derive(Debug)]
pub(super) struct DirectoryContent<'a> {
    directory: &'a CheckpointDirectory,
    /// Where the path is: the directory, or where it is held.
    base: &'a Path,
    /// Whether it has no number: then logs and temporary files are left out, and a change of text does not count as a change.
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
                return names.iter().try_for_each(|name| self.walk(&path.join(name), depth_left - 1));
            }
            _ if own.is_symlink() && metadata.as_ref().is_none_or(Metadata::is_dir) => {
                self.links.push((path.to_owned(), fs::read_link(path)?));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether the target of a link is at or below a directory. If the link changes meanwhile, the rights of the user still apply.
pub(super) fn leads_below(link: &Path, directory: &Path) -> bool {
    let both = link.canonicalize().and_then(|target| Ok((target, directory.canonicalize()?)));
    both.is_ok_and(|(target, directory)| target.starts_with(directory))
}
