//! The answer of the inbox.

use std::time::Duration;

use jobs::inbox::submission_key;
use jobs::{InboxAnswer, JobName};
use model::id::TeamName;
use store::{InboxDocuments as _, Store, SubmittedSpec};
use tokio::time::{Instant, sleep};

use crate::command_error::CommandError;
use crate::screen;

/// An event starts run-jobs at once, and its schedule a minute later at most.
const TIMEOUT: Duration = Duration::from_mins(3);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Waits until this very document is answered.
///
/// # Errors
/// If there is no answer in time.
pub(super) async fn wait(store: &Store, submitted: &SubmittedSpec) -> Result<InboxAnswer, CommandError> {
    screen::progress("waiting for the answer");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(answer) = store.read_answers(&submitted.key).await?.to(&submitted.object) {
            return Ok(answer.clone());
        }
        if Instant::now() + LOOK_EVERY > deadline {
            return Err(CommandError::with(
                format!("{} was submitted, and got no answer within {TIMEOUT:?}", submitted.key),
                "curfew doctor checks whether run-jobs runs; the answer comes as soon as it does",
            ));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The key of an unanswered document of that name; `None` if there is none.
pub(super) async fn unanswered(store: &Store, team: &TeamName, name: &JobName) -> Result<Option<String>, CommandError> {
    let key = submission_key(team, name);
    Ok(store.awaits_answer(&key).await?.then_some(key))
}
