//! The pace of messages to the topic that people subscribe to.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// Messages of `run-jobs` a second. It runs every minute and at each warning, so that it shares its seconds with every other function; those
/// have schedules that never begin in the same minute.
///
/// Together they are 5: Amazon SNS suspends an e-mail subscription that gets more than 10 messages in a second (SNS developer guide, "Email
/// subscription setup and management").
const OF_JOBS_PER_SECOND: usize = 2;
/// Messages of each other function a second.
const OF_OTHERS_PER_SECOND: usize = 3;

const RUN_JOBS: &str = "run-jobs";
const SECOND: Duration = Duration::from_secs(1);

/// The shares of the functions.
#[derive(Debug)]
pub(crate) struct MessagePace {
    jobs: PaceShare,
    others: PaceShare,
}

impl Default for MessagePace {
    fn default() -> Self {
        Self { jobs: PaceShare::new(OF_JOBS_PER_SECOND), others: PaceShare::new(OF_OTHERS_PER_SECOND) }
    }
}

impl MessagePace {
    /// Waits for a slot of the function, which the caller keeps until SNS has answered.
    pub(crate) async fn slot(&self, function: &str) -> MessageSlot<'_> {
        let share = if function == RUN_JOBS { &self.jobs } else { &self.others };
        share.slot().await
    }
}

/// Slots for messages. A message occupies one from its call until a second after the answer, so at most as many messages as there are
/// slots reach SNS in any second, however long a call takes.
#[derive(Debug)]
struct PaceShare {
    slots: Semaphore,
    free_at: Mutex<VecDeque<Instant>>,
}

impl PaceShare {
    fn new(per_second: usize) -> Self {
        let free_at = Mutex::new(std::iter::repeat_n(Instant::now(), per_second).collect());
        Self { slots: Semaphore::new(per_second), free_at }
    }

    async fn slot(&self) -> MessageSlot<'_> {
        let permit = self.slots.acquire().await.ok();
        let free_at = self.moments().pop_front();
        let slot = MessageSlot { share: self, _permit: permit };
        if let Some(free_at) = free_at {
            sleep_until(free_at).await;
        }
        slot
    }

    fn moments(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.free_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for one message. It is free a second after it is dropped.
pub(crate) struct MessageSlot<'a> {
    share: &'a PaceShare,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Drop for MessageSlot<'_> {
    fn drop(&mut self) {
        self.share.moments().push_back(Instant::now() + SECOND);
    }
}

#[cfg(test)]
mod tests;
