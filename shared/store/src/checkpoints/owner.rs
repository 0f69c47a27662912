//! The user whose files are read and written.

use std::io;
use std::process::abort;

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getgroups, getuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A user of this machine, with the groups of that user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    /// The user.
    pub uid: u32,
    /// The group of new files.
    pub gid: u32,
    /// The other groups.
    pub groups: Vec<u32>,
}

impl FileOwner {
    /// The user of this process.
    #[must_use]
    pub fn current() -> Self {
        Self { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups: Vec::new() }
    }

    /// Opens, makes, links or deletes files with the rights of this user and no others, on the calling thread. The kernel refuses what it
    /// would refuse this user, whatever a path or a link leads to by then. Linux keeps credentials by thread, and a thread without
    /// effective uid 0 has no capability to pass over file permissions: Linux manual, `credentials(7)` and `capabilities(7)`, "Effect of
    /// user ID changes on capabilities". Real and saved uid stay, so that this user can neither signal nor trace the thread.
    ///
    /// # Errors
    /// What `run` gives, or that the process is not root and cannot take another user's rights.
    pub fn run<T>(&self, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if geteuid().as_raw() == self.uid {
            return run();
        }
        let _rights = SavedRights::assume(self)?;
        run()
    }
}

/// The rights of a thread before it took those of a user. It takes them back when it is dropped.
struct SavedRights {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl SavedRights {
    fn assume(owner: &FileOwner) -> io::Result<Self> {
        let before = getgroups()?;
        let groups: Vec<Gid> = owner.groups.iter().copied().chain([owner.gid]).map(Gid::from_raw).collect();
        set_thread_groups(&groups)?;
        // From here on the drop takes back what was done.
        let own = Self { uid: geteuid(), gid: getegid(), groups: before };
        set_thread_res_gid(getgid(), Gid::from_raw(owner.gid), own.gid)?;
        set_thread_res_uid(getuid(), Uid::from_raw(owner.uid), own.uid)?;
        Ok(own)
    }

    fn restore(&self) -> io::Result<()> {
        set_thread_res_uid(getuid(), self.uid, self.uid)?;
        set_thread_res_gid(getgid(), self.gid, self.gid)?;
        Ok(set_thread_groups(&self.groups)?)
    }
}

impl Drop for SavedRights {
    fn drop(&mut self) {
        if self.restore().is_err() {
            // The kernel always restores a saved uid. A thread with unknown rights must not continue.
            abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const NOBODY: u32 = 65534;

    #[test]
    fn a_thread_has_the_rights_of_the_user_and_then_its_own_again() {
        if geteuid().as_raw() != 0 {
            eprintln!("skipped: only root can take the rights of another user");
            return;
        }
        let nobody = FileOwner { uid: NOBODY, gid: NOBODY, groups: Vec::new() };
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
        let (secret, made) = (folder.join("secret"), folder.join("made"));
        fs::write(&secret, "of root").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let read = nobody.run(|| fs::read(&secret));
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        nobody.run(|| fs::write(&made, "")).unwrap();
        let metadata = fs::metadata(&made).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (NOBODY, NOBODY));
        assert!(catch_unwind(AssertUnwindSafe(|| nobody.run(|| -> io::Result<()> { panic!("planned") }))).is_err());
        assert_eq!(fs::read(&secret).unwrap(), b"of root", "the thread is root again");
    }
}
