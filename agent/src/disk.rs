//! A thread that reads the checkpoint directory, so that the agent hears a warning while a disk is slow.
//!
//! It is always the same thread: the allocator keeps some memory of a large directory for each thread that read it, and the runtime has as
//! many threads as files in transfer.

use std::io;
use std::thread;

use store::FileOwner;
use tokio::sync::{mpsc, oneshot};

type DiskTask = Box<dyn FnOnce() + Send>;

/// The thread, after the first work.
#[derive(Debug)]
pub(crate) struct Disk {
    owner: FileOwner,
    thread: Option<mpsc::UnboundedSender<DiskTask>>,
}

impl Disk {
    /// All work has the rights of this owner. The first work starts the thread.
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
