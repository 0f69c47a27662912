//! The time for which a call that AWS refuses or does not answer is retried.

use std::fmt::Display;
use std::time::Instant;

use jiff::SignedDuration;
use store::{CheckpointError, InputError, StoreError};

use crate::agent::Agent;

const RETRY_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// The tries after a permanent error, such as a missing permission: a permission that was just granted takes a while to propagate (IAM user guide,
/// "Troubleshoot IAM": changes are eventually consistent).
const TRIES_MAX: u32 = 6;

/// The retries of one call.
#[derive(Debug, Default)]
pub(crate) struct RetryTimeout {
    /// `true` if the tries are those of an attempt that has moved to the copy of its bucket.
    has_moved: bool,
    since: Option<Instant>,
    tries: u32,
    lasting: u32,
    said: String,
}

pub(crate) trait FailedCall: Display {
    /// True if it fails again however often it is repeated, until somebody changes something.
    fn lasts(&self) -> bool;
}

impl FailedCall for StoreError {
    fn lasts(&self) -> bool {
        Self::lasts(self)
    }
}

/// The failure of a read, which may be one of S3.
pub(crate) trait ReadFailure {
    fn of_store(&self) -> Option<&StoreError>;
}

impl ReadFailure for StoreError {
    fn of_store(&self) -> Option<&StoreError> {
        Some(self)
    }
}

impl ReadFailure for InputError {
    fn of_store(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self { Some(error) } else { None }
    }
}

impl ReadFailure for CheckpointError {
    fn of_store(&self) -> Option<&StoreError> {
        if let Self::Store(error) = self { Some(error) } else { None }
    }
}

/// Reads what an attempt needs from S3 at its start, and retries while S3 does not answer. `what` begins the messages.
///
/// # Errors
/// The last error.
pub(crate) async fn read_with_retries<T, E: ReadFailure>(
    agent: &Agent,
    what: &str,
    mut read: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut timeout = RetryTimeout::default();
    loop {
        let read = read().await;
        match read.as_ref().err().and_then(ReadFailure::of_store) {
            Some(error) if timeout.pause_and_retry(agent, &format!("{what} cannot be read yet"), error).await => {}
            _ => return read,
        }
    }
}

impl RetryTimeout {
    /// Returns `true`, after a pause, if the caller may try again. Logs each reason once.
    pub(crate) async fn pause_and_retry(&mut self, agent: &Agent, what: &str, error: &impl FailedCall) -> bool {
        let words = format!("{what}: {error}");
        if self.said != words {
            agent.log.write_line(&words);
            self.said = words;
        }
        let bears = self.should_retry(agent, error);
        if bears {
            agent.pace.sleep(RETRY_EVERY).await;
        }
        bears
    }

    /// Returns `true` if the caller may try again, without a pause and without a line in the log. What may pass is tried for as long as an attempt
    /// without heartbeats does not count as lost. Failures of the bucket from which the attempt has moved do not count.
    pub(crate) fn should_retry(&mut self, agent: &Agent, error: &impl FailedCall) -> bool {
        if agent.buckets.has_moved() != self.has_moved {
            (self.has_moved, self.since, self.tries, self.lasting) = (true, None, 0, 0);
        }
        self.tries += 1;
        self.lasting += u32::from(error.lasts());
        let since = self.since.get_or_insert_with(Instant::now).elapsed();
        self.lasting < TRIES_MAX && (self.tries < TRIES_MAX || since < agent.pace.wait(agent.outage_timeout()))
    }
}
