//! The journal of the parts of an input that are on the disk: lines that are only appended, in a directory of root, so that a restarted
//! agent fetches nothing twice.
//!
//! A line is written after its content was synced. A line that a power loss cut off is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use jobs::InputFile;
use serde::{Deserialize, Serialize};

use super::directory::FileState;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JournalLine {
    /// The whole file is at its path.
    File { path: String, etag: String, state: FileState },
    /// A part of a large file is in the unfinished file with this inode.
    Part { path: String, etag: String, inode: u64, start: u64 },
}

/// The parts of an unfinished file, by where they begin.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct FileParts {
    etag: String,
    inode: u64,
    starts: BTreeSet<u64>,
}

#[derive(Debug)]
pub(super) struct InputJournal {
    file: File,
    files: BTreeMap<String, (String, FileState)>,
    parts: BTreeMap<String, FileParts>,
    pending: Vec<JournalLine>,
}

impl InputJournal {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::options().create(true).append(true).read(true).open(path)?;
        let text = io::read_to_string(&mut file).unwrap_or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        let mut journal = Self { file, files: BTreeMap::new(), parts: BTreeMap::new(), pending: Vec::new() };
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(JournalLine::File { path, etag, state }) => {
                    journal.parts.remove(&path);
                    journal.files.insert(path, (etag, state));
                }
                Ok(JournalLine::Part { path, etag, inode, start }) => {
                    let parts = journal.parts.entry(path).or_default();
                    if (&parts.etag, parts.inode) != (&etag, inode) {
                        *parts = FileParts { etag, inode, starts: BTreeSet::new() };
                    }
                    parts.starts.insert(start);
                }
                Err(_) => {}
            }
        }
        Ok(journal)
    }

    /// The state of the file that has the content of this object.
    pub(super) fn find_file(&self, file: &InputFile) -> Option<FileState> {
        self.files.get(&file.path).filter(|(etag, _)| *etag == file.etag).map(|(_, state)| *state)
    }

    /// Returns the offsets of the parts that the unfinished file with that inode has.
    pub(super) fn find_parts(&self, file: &InputFile, inode: u64) -> BTreeSet<u64> {
        let found = self.parts.get(&file.path).filter(|parts| parts.etag == file.etag && parts.inode == inode);
        found.map(|parts| parts.starts.clone()).unwrap_or_default()
    }

    /// Forgets a file, so that it is fetched again.
    pub(super) fn forget_file(&mut self, file: &InputFile) {
        self.files.remove(&file.path);
    }

    /// The parts of unfinished files.
    pub(super) fn count_parts(&self) -> u64 {
        self.parts.values().map(|parts| parts.starts.len() as u64).sum()
    }

    pub(super) fn add_file(&mut self, file: &InputFile, state: FileState) {
        self.files.insert(file.path.clone(), (file.etag.clone(), state));
        self.pending.push(JournalLine::File { path: file.path.clone(), etag: file.etag.clone(), state });
    }

    pub(super) fn add_part(&mut self, file: &InputFile, inode: u64, start: u64) {
        let (path, etag) = (file.path.clone(), file.etag.clone());
        let parts = self.parts.entry(path.clone()).or_default();
        if (&parts.etag, parts.inode) != (&etag, inode) {
            *parts = FileParts { etag: etag.clone(), inode, starts: BTreeSet::new() };
        }
        parts.starts.insert(start);
        self.pending.push(JournalLine::Part { path, etag, inode, start });
    }

    /// The lines to write once the content is synced.
    pub(super) fn take_pending(&mut self) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for line in self.pending.drain(..) {
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
        }
        Ok(lines)
    }

    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(etag: &str) -> InputFile {
        InputFile { key: "p/a".to_owned(), path: "a".to_owned(), bytes: 3, etag: etag.to_owned() }
    }

    #[test]
    fn a_journal_is_read_again_up_to_what_was_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let state: FileState = serde_json::from_str(r#"{"inode":7,"bytes":3,"changed_at":[1,2]}"#).unwrap();
        let mut journal = InputJournal::open(&path).unwrap();
        journal.add_part(&file("e"), 5, 0);
        journal.add_part(&file("e"), 6, 64);
        let lines = journal.take_pending().unwrap();
        journal.append(&lines).unwrap();
        let journal = InputJournal::open(&path).unwrap();
        assert_eq!(journal.find_parts(&file("e"), 6), BTreeSet::from([64]), "the newest file only");
        assert!(journal.find_parts(&file("e"), 5).is_empty() && journal.find_parts(&file("f"), 6).is_empty());

        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"file\":{\"pa").unwrap();
        let mut journal = InputJournal::open(&path).unwrap();
        journal.add_file(&file("e"), state);
        let lines = journal.take_pending().unwrap();
        journal.append(&lines).unwrap();
        let journal = InputJournal::open(&path).unwrap();
        assert_eq!((journal.find_file(&file("e")), journal.find_file(&file("f"))), (Some(state), None));
        assert!(journal.find_parts(&file("e"), 6).is_empty(), "it is finished");
    }
}
