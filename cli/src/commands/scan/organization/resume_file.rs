//! The file of `--resume`.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use operator::organization::{AccountSummary, ResumeHeader, ResumedScan, read_resume_file, to_line};

use crate::command_error::CommandError;
use crate::screen;

/// Size of a file, in bytes: 2,000 accounts, each with 50 teams, take less.
const BYTES_MAX: u64 = 128 << 20;

/// The open file, if there is one. It is locked, so that no two scans write it.
pub(super) struct ResumeFile(Option<File>);

impl ResumeFile {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Opens the file, and reads the accounts in it. A file that is not of this scan stays as it is.
    pub(super) fn open(
        path: &Path,
        header: &ResumeHeader,
        now: Timestamp,
    ) -> Result<(Self, Vec<AccountSummary>), CommandError> {
        let advice = "name another file by --resume, or delete this one to begin anew";
        let wrong = |why: &dyn std::fmt::Display| {
            CommandError::with(format_args!("--resume: {}: {why}", path.display()), advice)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(|why| wrong(&why))?;
        let facts = file.metadata().map_err(|why| wrong(&why))?;
        if !facts.is_file() || facts.len() > BYTES_MAX {
            return Err(wrong(&"it is none of a scan of accounts"));
        }
        file.try_lock().map_err(|_| wrong(&"another scan is writing it"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|why| wrong(&why))?;
        let ResumedScan { accounts, whole_bytes } = read_resume_file(&text, header, now).map_err(|why| wrong(&why))?;
        if whole_bytes < text.len() {
            let whole = u64::try_from(whole_bytes).unwrap_or_default();
            file.set_len(whole).map_err(|why| wrong(&why))?;
        }
        if whole_bytes == 0 {
            let line = to_line(header).map_err(|why| wrong(&why))?;
            file.write_all(line.as_bytes()).map_err(|why| wrong(&why))?;
        }
        Ok((Self(Some(file)), accounts))
    }

    /// Adds a finished account. A failure costs only the possibility to continue.
    pub(super) fn append(&mut self, account: &AccountSummary) {
        let Some(file) = &mut self.0 else { return };
        let line = to_line(account).map_err(std::io::Error::from);
        if let Err(why) = line.and_then(|line| file.write_all(line.as_bytes())) {
            screen::warn(format_args!(
                "the file of --resume could not be written, so the scan can only begin anew: {why}"
            ));
            self.0 = None;
        }
    }
}
