//! The directory that a job brings along.

use std::path::Path;

use ::workdir::{LeftOut, LeftOutReason, PackedWorkdir, StrayLink, pack};
use jiff::Timestamp;
use jobs::{JobSpec, SpecMistake, WorkdirDigest, document_keys};
use model::bytes::format_bytes;
use model::id::TeamName;
use serde::Serialize;
use store::Store;

use crate::command_error::CommandError;
use crate::screen;

/// The most warnings of one kind.
const NAMED_MAX: usize = 5;

/// The facts about a working directory that the command shows.
#[derive(Debug, Serialize)]
pub(super) struct SubmittedWorkdir {
    digest: String,
    /// Files, directories and links.
    entries: usize,
    /// The bytes of its files.
    bytes: u64,
    archive_bytes: usize,
    /// `true` if it was uploaded now; the bucket may have had it.
    pub(super) uploaded: bool,
}

impl From<&PackedWorkdir> for SubmittedWorkdir {
    fn from(packed: &PackedWorkdir) -> Self {
        Self {
            digest: packed.digest.to_string(),
            entries: packed.entries,
            bytes: packed.bytes,
            archive_bytes: packed.archive.len(),
            uploaded: false,
        }
    }
}

pub(super) fn pack_directory(directory: &Path) -> Result<PackedWorkdir, CommandError> {
    let packed = pack(directory).map_err(CommandError::new)?;
    warn_of_each(&packed.left_out, |LeftOut { path, reason }| match reason {
        LeftOutReason::NoFile => format!("{} is not a file, directory or link, and is left out", path.display()),
        LeftOutReason::Vanished => format!("{} vanished while it was packed, and is left out", path.display()),
    });
    warn_of_each(&packed.stray_links, |StrayLink { path, target }| {
        format!(
            "{} is a link to {}, which is not packed: on the machine it leads to nothing, unless the image or the command has that. Read data \
             from a bucket (`inputs`)",
            path.display(),
            target.display()
        )
    });
    let (entries, bytes) = (packed.entries, format_bytes(packed.archive.len()));
    screen::progress(format!("packed {}, {entries} files and directories: {bytes}", directory.display()));
    Ok(packed)
}

fn warn_of_each<T>(all: &[T], words: impl Fn(&T) -> String) {
    for one in all.iter().take(NAMED_MAX) {
        screen::warn(words(one));
    }
    if let Some(more) = all.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        screen::warn(format!("and {more} more like this"));
    }
}

/// The document with the key that names the archive.
pub(super) fn add_digest(document: &[u8], spec: &JobSpec, packed: &PackedWorkdir) -> Result<Vec<u8>, Vec<SpecMistake>> {
    if spec.work.workdir.is_some() {
        return Err(vec![SpecMistake {
            line: 0,
            key: "workdir".to_owned(),
            problem: "the document names an archive already; leave out the key, or --workdir".to_owned(),
        }]);
    }
    Ok(document_keys::with_first_key(document, &format!("workdir = \"{}\"", packed.digest)))
}

/// Uploads the archive unless the bucket has it. Returns whether it did.
pub(super) async fn upload_archive(
    store: &Store,
    team: &TeamName,
    digest: &WorkdirDigest,
    packed: Option<PackedWorkdir>,
    now: Timestamp,
) -> Result<bool, CommandError> {
    if store.has_workdir(team, digest, now).await? {
        return Ok(false);
    }
    let Some(PackedWorkdir { archive, .. }) = packed else {
        return Err(CommandError::with(
            format!("the bucket does not have {}, or not for long enough", store.workdir_address(team, digest)),
            "bring the directory along again, by --workdir; each team has archives of its own",
        ));
    };
    let (whole, mut shown) = (archive.len(), 0);
    let progress = |sent: usize| {
        let tenths = sent * 10 / whole.max(1);
        if tenths > shown {
            screen::progress(format!("uploaded {} of {}", format_bytes(sent), format_bytes(whole)));
            shown = tenths;
        }
    };
    store.upload_workdir(team, digest, archive, progress).await?;
    Ok(true)
}
