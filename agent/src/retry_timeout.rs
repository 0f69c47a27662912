//! How long something that S3 refuses, or does not answer, is tried again.

use std::time::Instant;

use jiff::SignedDuration;
use jobs::FIRST_HEARTBEAT_AFTER;
use store::StoreError;

use crate::agent::Agent;

/// Between one try and the next.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// What does not pass, such as a permission that lacks, is tried so often: one that was just granted takes a while to be known everywhere
/// (IAM user guide, "Troubleshoot IAM": changes are eventually consistent).
const TRIES: u32 = 6;

/// For errors that may pass: as long as an attempt without heartbeats does not count as lost.
const AT_MOST: SignedDuration = FIRST_HEARTBEAT_AFTER;

/// The patience with one thing.
#[derive(Debug, Default)]
pub(crate) struct RetryTimeout {
    since: Option<Instant>,
    tries: u32,
    lasting: u32,
    said: String,
}

impl RetryTimeout {
    /// Whether another try is worth it, after a pause. It logs each reason once.
    pub(crate) async fn pause_and_retry(&mut self, agent: &Agent, what: &str, error: &StoreError) -> bool {
        let words = format!("{what}: {error}");
        if self.said != words {
            agent.log.write_line(&words);
            self.said = words;
        }
        let bears = self.should_retry(agent, error);
        if bears {
            agent.pace.sleep(AGAIN).await;
        }
        bears
    }

    /// Whether another try is worth it after that one; without a pause, and without a word.
    pub(crate) fn should_retry(&mut self, agent: &Agent, error: &StoreError) -> bool {
        self.tries += 1;
        self.lasting += u32::from(error.lasts());
        let since = self.since.get_or_insert_with(Instant::now).elapsed();
        self.lasting < TRIES && (self.tries < TRIES || since < agent.pace.wait(AT_MOST))
    }
}
