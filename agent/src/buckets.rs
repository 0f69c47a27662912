//! The bucket that this attempt writes to: its own, or the copy of that in another region once the attempt has moved there.

use store::Store;
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct StateBuckets {
    own: Store,
    copy: Option<Store>,
    has_moved: watch::Sender<bool>,
}

impl StateBuckets {
    pub(crate) fn new(own: Store, copy: Option<Store>) -> Self {
        Self { own, copy, has_moved: watch::Sender::new(false) }
    }

    /// The own bucket, wherever the attempt writes.
    pub(crate) const fn own(&self) -> &Store {
        &self.own
    }

    /// The copy, wherever the attempt writes; `None` if the bucket had none at the launch.
    pub(crate) const fn copy(&self) -> Option<&Store> {
        self.copy.as_ref()
    }

    /// The bucket that the attempt writes to.
    pub(crate) fn current(&self) -> &Store {
        self.copy.as_ref().filter(|_| self.has_moved()).unwrap_or(&self.own)
    }

    pub(crate) fn has_moved(&self) -> bool {
        *self.has_moved.borrow()
    }

    /// Makes the copy the current bucket. Only [`Fence`](crate::fence::Fence) does, which holds what it has read of the other.
    pub(crate) fn note_move(&self) {
        self.has_moved.send_replace(true);
    }

    /// Returns once the attempt has moved.
    pub(crate) async fn wait_for_move(&self) {
        // The sender lives as long as this.
        let _ = self.has_moved.subscribe().wait_for(|has_moved| *has_moved).await;
    }
}
