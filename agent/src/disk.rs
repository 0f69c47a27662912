//! A thread that reads the checkpoint directory, so that the agent hears a warning while a disk is slow.
//!
//! It is always the same thread: the allocator keeps some memory of a large directory for each thread that read it, and the runtime has as
//! many threads as files in transfer.

use std::io;
use std::path::Path;
use std::thread;

use rustix::fs::statvfs;
use store::FileOwner;
use tokio::sync::{mpsc, oneshot};

/// The room of a file system for users other than root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskSpace {
    pub(crate) free_bytes: u64,
    pub(crate) free_files: u64,
    pub(crate) files_max: u64,
    /// Less than a hundredth of its bytes are free.
    pub(crate) is_nearly_full: bool,
    /// Less than a hundredth of its files are free.
    pub(crate) is_short_of_files: bool,
}

impl DiskSpace {
    /// `None` if the kernel does not say.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let disk = statvfs(path).ok()?;
        let is_low = |free: u64, all: u64| free < all / 100;
        Some(Self {
            free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            free_files: disk.f_favail,
            files_max: disk.f_files,
            is_nearly_full: is_low(disk.f_bavail, disk.f_blocks),
            is_short_of_files: is_low(disk.f_favail, disk.f_files),
        })
    }
}

type DiskTask = Box<dyn FnOnce() + Send>;

/// The thread, after the first work.
#[derive(Debug)]
pub(crate) struct Disk {
    owner: FileOwner,
    thread: Option<mpsc::UnboundedSender<DiskTask>>,
}

impl Disk {
    /// Creates a disk whose work all has the rights of this owner. The first work starts the thread.
    pub(crate) const fn with_rights_of(owner: FileOwner) -> Self {
        Self { owner, thread: None }
    }

    /// Does the work after all earlier work, also if its caller stops waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (send_result, result) = oneshot::channel();
        let owner = self.owner.clone();
        let thread = self.thread()?;
        // A caller that stopped waiting gets no result.
        let _ = thread.send(Box::new(move || drop(send_result.send(owner.run(work)))));
        result.await.map_err(|_| io::Error::other("a thread of the agent has panicked"))?
    }

    /// Replaces a thread that has panicked.
    fn thread(&mut self) -> io::Result<&mpsc::UnboundedSender<DiskTask>> {
        self.thread.take_if(|thread| thread.is_closed());
        if let Some(ref thread) = self.thread {
            return Ok(thread);
        }
        let (thread, mut given) = mpsc::unbounded_channel::<DiskTask>();
        thread::Builder::new().name("disk".to_owned()).spawn(move || {
            while let Some(work) = given.blocking_recv() {
                work();
            }
        })?;
        Ok(self.thread.insert(thread))
    }
}

/// Does the work on any thread with the rights of this owner.
pub(crate) async fn on_disk<T: Send + 'static>(
    owner: &FileOwner,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let owner = owner.clone();
    tokio::task::spawn_blocking(move || owner.run(work)).await.map_err(io::Error::other)?
}
