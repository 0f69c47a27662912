//! The pace of messages to the topic that people subscribe to.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// Messages of a function a second, in one process. Amazon SNS suspends an e-mail subscription that gets more than 10 messages in a second (SNS
/// developer guide, "Email subscription setup and management"). All schedules but the daily report's begin in different minutes, and two functions
/// at once are the most that is likely. Nothing bounds the invocations of `run-jobs` for Spot warnings: each rarely has more than one message,
/// and that to the teams' topic alone.
const PER_SECOND: usize = 2;

const SECOND: Duration = Duration::from_secs(1);

/// Slots for messages. A message occupies one from its call until a second after the answer, so at most as many messages as there are
/// slots reach SNS in any second, however long a call takes.
#[derive(Debug)]
pub(crate) struct MessagePace {
    slots: Semaphore,
    free_at: Mutex<VecDeque<Instant>>,
}

impl Default for MessagePace {
    fn default() -> Self {
        let free_at = Mutex::new(std::iter::repeat_n(Instant::now(), PER_SECOND).collect());
        Self { slots: Semaphore::new(PER_SECOND), free_at }
    }
}

impl MessagePace {
    /// Waits for a slot, which the caller keeps until SNS has answered.
    pub(crate) async fn slot(&self) -> MessageSlot<'_> {
        let permit = self.slots.acquire().await.ok();
        let free_at = self.moments().pop_front();
        let slot = MessageSlot { pace: self, _permit: permit };
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
    pace: &'a MessagePace,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Drop for MessageSlot<'_> {
    fn drop(&mut self) {
        self.pace.moments().push_back(Instant::now() + SECOND);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    /// Arrivals at SNS of calls that take so long each, all begun at once.
    async fn arrivals(calls: usize, latency: Duration) -> Vec<Instant> {
        let pace = MessagePace::default();
        let send = async || {
            let _slot = pace.slot().await;
            sleep(latency).await;
            Instant::now()
        };
        join_all((0..calls).map(|_| send())).await
    }

    #[tokio::test]
    async fn no_second_has_more_messages_than_the_pace_allows() {
        for latency in [Duration::ZERO, Duration::from_millis(300)] {
            let arrivals = arrivals(5, latency).await;
            let in_second = |from: Instant| arrivals.iter().filter(|&&at| at >= from && at < from + SECOND).count();
            let most = arrivals.iter().map(|&at| in_second(at)).max();
            assert_eq!(most, Some(PER_SECOND), "with a latency of {latency:?}");
        }
    }

    #[tokio::test]
    async fn the_first_messages_do_not_wait() {
        let begun = Instant::now();
        arrivals(PER_SECOND, Duration::ZERO).await;
        assert!(begun.elapsed() < SECOND / 2);
    }
}
