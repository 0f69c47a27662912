//! The earlier content of the checkpoint directory.

use std::path::{Path, PathBuf};
use std::{fs, io};

use store::FileOwner;

use crate::agent::Agent;
use crate::directory;
use crate::disk::on_disk;

/// Prefix of the place for earlier content; a number follows.
const ASIDE: &str = ".curfew-before-";

/// Moves earlier content aside: an earlier start of this machine may have left it incomplete.
pub(super) fn set_aside(agent: &Agent, directory: &Path) -> io::Result<()> {
    let mut aside = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let shown = name.to_string_lossy();
        if shown.starts_with('.') {
            continue;
        }
        let folder = match &aside {
            Some(folder) => folder,
            None => aside.insert(folder_beside(directory)?),
        };
        let (from, to) = (directory.join(&name), folder.join(&name));
        match fs::rename(&from, to) {
            // Its user may rename a directory that a container made as root, but not move it into another: rename it over an empty one.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::rename(&from, folder_beside(directory)?)?;
            }
            renamed => renamed?,
        }
    }
    if let Some(folder) = aside {
        let words = "the earlier contents of the checkpoint directory are moved to";
        agent.log.write_line(&format!("{words} {}", folder.display()));
    }
    Ok(())
}

/// `.curfew-before-1` in the directory, or the next free number: a rename stays on one disk.
fn folder_beside(directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let folder = directory.join(format!("{ASIDE}{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Deletes the contents that were moved aside. Returns whether there were any.
pub(super) async fn clear_away(agent: &Agent, directory: &Path, owner: &FileOwner) -> bool {
    let within = directory.to_owned();
    let cleared = on_disk(owner, move || {
        let mut cleared = false;
        for entry in fs::read_dir(&within)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(ASIDE) {
                fs::remove_dir_all(entry.path())?;
                cleared = true;
            }
        }
        Ok(cleared)
    });
    cleared.await.unwrap_or_else(|error| {
        let (place, words) = (directory.display(), directory::describe_io_error(&error));
        agent.log.write_line(&format!("the earlier contents in {place} cannot be deleted: {words}"));
        false
    })
}
