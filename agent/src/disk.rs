//! A thread of its own for what looks at the checkpoint directory: a disk takes its time, and a warning has to be heard meanwhile.
//!
//! It is always the same one. Of what a look at many files takes, the allocator keeps a part for each thread that it ever ran on, and the
//! runtime has as many as there are files on their way.

use std::io;
use std::thread;

use store::FileOwner;
use tokio::sync::{mpsc, oneshot};

type DiskTask = Box<dyn FnOnce() + Send>;

/// The thread, once there was something to do.
#[derive(Debug)]
pub(crate) struct Disk {
    owner: FileOwner,
    thread: Option<mpsc::UnboundedSender<DiskTask>>,
}

impl Disk {
    /// Begins no thread yet. All work is done with the rights of this owner.
    pub(crate) const fn with_rights_of(owner: FileOwner) -> Self {
        Self { owner, thread: None }
    }

    /// What comes of the work, which is done after all that came before, also where nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (tell, told) = oneshot::channel();
        let owner = self.owner.clone();
        let thread = self.thread()?;
        // What is not taken is not told either.
        let _ = thread.send(Box::new(move || drop(tell.send(owner.run(work)))));
        told.await.map_err(|_| io::Error::other("a thread of the agent has panicked"))?
    }

    /// Another one, where it has panicked.
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

/// What comes of the work, on some thread and with the rights of this owner.
pub(crate) async fn on_disk<T: Send + 'static>(
    owner: &FileOwner,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let owner = owner.clone();
    tokio::task::spawn_blocking(move || owner.run(work)).await.map_err(io::Error::other)?
}
