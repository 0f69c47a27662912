//! The files of outputs: those to upload, and those that are missing.

use std::fs;
use std::path::Path;

use store::LocalFile;

use super::content::leads_below;
use super::{DEPTH_MAX, FILES_MAX, describe_io_error, names};

#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    pub(crate) files: Vec<LocalFile>,
    /// The unreadable files with their reasons, for people.
    pub(crate) missing: Vec<String>,
}

/// Every file at or below a path of the machine. An unreadable file does not affect the others.
pub(crate) fn collect_files(path: &Path, found: &mut FoundFiles) {
    let base = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    below(path, base, DEPTH_MAX, found);
}

fn below(path: &Path, base: &Path, depth_left: u32, found: &mut FoundFiles) {
    let mut report = |why: &dyn std::fmt::Display| found.missing.push(format!("{} ({why})", path.display()));
    let (own, target) = match fs::symlink_metadata(path).and_then(|own| Ok((own, fs::metadata(path)?))) {
        Ok(both) => both,
        Err(error) => return report(&describe_io_error(&error)),
    };
    if target.is_dir() {
        if own.is_symlink() {
            return report(&"a link to a directory, which may lead anywhere");
        }
        if depth_left == 0 {
            return report(&"too many levels");
        }
        match names(path) {
            Ok(inside) => inside.iter().for_each(|name| below(&path.join(name), base, depth_left - 1, found)),
            Err(error) => report(&describe_io_error(&error)),
        }
    } else if !target.is_file() {
        report(&"neither a file nor a directory");
    } else if own.is_symlink() && !leads_below(path, base) {
        report(&format!("a link to a file outside of {}", base.display()));
    } else if found.files.len() >= FILES_MAX {
        report(&"too many files");
    } else if let Some(name) = path.to_str() {
        let path_there = name.trim_start_matches('/').to_owned();
        found.files.push(LocalFile { path: path_there, from: path.to_owned(), found: None });
    } else {
        report(&"it is not UTF-8, so the bucket cannot hold it");
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::tests::Scratch;
    use super::*;

    #[test]
    fn an_unreadable_file_does_not_lose_the_others() {
        let scratch = Scratch::new().file("a/one.txt").file("a/two.txt");
        std::os::unix::fs::symlink("/nowhere/at-all", scratch.path().join("a/absent")).unwrap();
        std::os::unix::fs::symlink("/", scratch.path().join("a/root")).unwrap();
        let mut found = FoundFiles::default();
        collect_files(scratch.path(), &mut found);
        let mut files: Vec<PathBuf> = found.files.into_iter().map(|file| Path::new("/").join(file.path)).collect();
        files.sort_unstable();
        assert_eq!(files, [scratch.path().join("a/one.txt"), scratch.path().join("a/two.txt")]);
        let mut missing = found.missing;
        missing.sort_unstable();
        assert_eq!(missing.len(), 2);
        assert!(missing[0].contains("a/absent (No such file") && missing[1].contains("a/root (a link to a directory"));
    }
}
