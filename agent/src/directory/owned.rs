//! Makes the checkpoint directory of a user, with root's rights if only root may make it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use rustix::fs::{Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, mkdirat, open, openat};
use store::FileOwner;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A restricted deletion flag, and the right of the group or of others to write: Linux manual, `inode(7)`.
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Makes the directory, and makes the user its owner. If the user may not make it, root does, but only below directories that only root can change,
/// and never through a link: so no user can make root give away anything else.
///
/// # Errors
/// It is a link or no directory; the user may not make it and others than root may change the path; or the disk refuses.
pub(crate) fn make(directory: &Path, owner: &FileOwner) -> io::Result<()> {
    let made = owner.run(|| {
        fs::create_dir_all(directory)?;
        fs::symlink_metadata(directory)
    });
    match made {
        Ok(own) if own.is_symlink() => Err(is_a_link(directory)),
        Ok(own) if own.uid() == owner.uid => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => make_as_root(directory, owner),
    }
}

pub(super) fn is_a_link(directory: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotADirectory, format!("{} is a link, and is not followed", directory.display()))
}

fn make_as_root(directory: &Path, owner: &FileOwner) -> io::Result<()> {
    let mut at = open("/", FOLDER, Mode::empty())?;
    for part in directory.components().skip(1) {
        let Component::Normal(name) = part else { return Err(io::Error::other("a path with `..` in it")) };
        if !is_roots_alone(&fstat(&at)?) {
            let words = format!("{} may be changed by others than root", directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        let is_new = match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        at = openat(&at, name, FOLDER, Mode::empty())?;
        if is_new {
            // The agent's umask may be anything.
            fchmod(&at, Mode::from_raw_mode(0o755))?;
        }
    }
    fchown(&at, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
    Ok(())
}

/// Returns `true` if only root can change the entries of a directory.
fn is_roots_alone(directory: &Stat) -> bool {
    directory.st_uid == 0 && (directory.st_mode & WRITABLE_BY_OTHERS == 0 || directory.st_mode & STICKY != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    use super::super::tests::Scratch;
    use super::super::{CheckpointDirectory, DiskRoom, FoundFiles, HeldSteps, collect_files, scan_directory};
    use super::*;

    const NOBODY: u32 = 65534;

    /// A directory of root with a user's directory `home` in it; `None` if the test is not run by root.
    fn scratch() -> Option<(Scratch, FileOwner)> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can take the rights of another user");
            return None;
        }
        let scratch = Scratch::new().file("secret/step-1/key");
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = FileOwner { uid: NOBODY, gid: NOBODY, groups: Vec::new() };
        let home = scratch.path().join("home");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        let key = scratch.path().join("secret/step-1/key");
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
        Some((scratch, user))
    }

    fn owner_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().uid()
    }

    #[test]
    fn root_makes_a_directory_for_its_user() {
        let Some((scratch, user)) = scratch() else { return };
        let directory = scratch.path().join("var/curfew/checkpoints");
        make(&directory, &user).unwrap();
        assert_eq!((owner_of(&directory), owner_of(&scratch.path().join("var/curfew"))), (NOBODY, 0));
        make(&directory, &user).unwrap();
        let own = scratch.path().join("home/checkpoints");
        make(&own, &user).unwrap();
        assert_eq!(owner_of(&own), NOBODY);
    }

    fn check_refused(directory: &Path, user: &FileOwner, secret: &Path, expect: &str) {
        let error = make(directory, user).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
        assert_eq!(owner_of(secret), 0, "{}", directory.display());
    }

    #[test]
    fn a_user_cannot_make_root_give_a_directory_away() {
        let Some((scratch, user)) = scratch() else { return };
        let (secret, home) = (scratch.path().join("secret"), scratch.path().join("home"));
        symlink(&secret, home.join("checkpoints")).unwrap();
        check_refused(&home.join("checkpoints"), &user, &secret, "is a link, and is not followed");
        let directory = CheckpointDirectory { path: home.join("checkpoints"), ..CheckpointDirectory::default() };
        assert!(scan_directory(&directory).unwrap_err().to_string().contains("is a link"));
        check_refused(&home.join("checkpoints/new"), &user, &secret, "may be changed by others than root");
        assert!(!secret.join("new").exists());
        // A directory of root that the user has renamed.
        fs::create_dir(home.join("roots")).unwrap();
        check_refused(&home.join("roots"), &user, &home.join("roots"), "may be changed by others than root");
    }

    #[test]
    fn a_link_does_not_read_what_the_user_may_not() {
        let Some((scratch, user)) = scratch() else { return };
        let (key, directory): (PathBuf, PathBuf) =
            (scratch.path().join("secret/step-1/key"), scratch.path().join("home"));
        for step in ["step-1", "step-2"] {
            fs::create_dir(directory.join(step)).unwrap();
        }
        symlink(&key, directory.join("step-1/key")).unwrap();
        // Possible if `fs.protected_hardlinks` is 0.
        fs::hard_link(&key, directory.join("step-2/key")).unwrap();
        let checkpoints = CheckpointDirectory { path: directory.clone(), ..CheckpointDirectory::default() };
        let mut scan = user.run(|| scan_directory(&checkpoints)).unwrap();
        let entries = scan.entries.clone();
        let unfit = |name: &str| entries.iter().find(|entry| entry.name == name).and_then(|entry| entry.unfit.clone());
        let expect = "`step-1/key` is a link to a file outside of the checkpoint directory";
        assert!(unfit("step-1").is_some_and(|words| words.contains(expect)), "{entries:?}");
        let linked = directory.join("step-2/key");
        assert_eq!(user.run(|| fs::read(&linked)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let mut held = HeldSteps::default();
        user.run(|| held.update(&checkpoints, &mut scan, |_| true, DiskRoom::default())).unwrap();
        assert_eq!(held.unheld.as_deref(), Some("Permission denied"));
        let mut found = FoundFiles::default();
        collect_files(&directory.join("step-1"), &mut found);
        assert!(found.files.is_empty() && found.missing[0].contains("a link to a file outside of"), "{found:?}");
    }
}
