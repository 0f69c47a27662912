//! What a job's agent and its owner last said.

use std::fmt::Display;

use domain::job::{Cancel, Exit, Head, Heartbeat, Job};
use jiff::Timestamp;
use serde::Serialize;
use store::{Store, StoreError};

use crate::failure::of_store;

/// Of the latest attempt, but for the fence, which is of all.
#[derive(Debug, Default, Serialize)]
pub(super) struct Details {
    /// The fence.
    pub(super) head: Option<Head>,
    /// What the heart last said.
    pub(super) heartbeat: Option<Heartbeat>,
    /// When it last beat, by S3's clock.
    pub(super) heartbeat_at: Option<Timestamp>,
    /// What the agent left behind as its last.
    pub(super) exit: Option<Exit>,
    /// That somebody wants it to end.
    pub(super) cancel: Option<Cancel>,
}

impl Details {
    /// All that can be read, and what cannot.
    pub(super) async fn of(store: &Store, job: &Job) -> (Self, Vec<String>) {
        let (id, attempt) = (&job.job, job.attempt);
        let mut troubles = Vec::new();
        let (head, cancel) = futures::join!(store.read_head(id), store.read_cancel(id));
        let mut details = Self {
            head: known(head, "how far it is", &mut troubles),
            cancel: known(cancel, "whether it is cancelled", &mut troubles),
            ..Self::default()
        };
        if attempt > 0 {
            let (beat, exit) = futures::join!(store.read_heartbeat(id, attempt), store.read_exit(id, attempt));
            let beat = known(beat, "what its agent does", &mut troubles);
            details.heartbeat_at = beat.as_ref().map(|beat| beat.at);
            let said = beat.map(|beat| beat.said).transpose();
            details.heartbeat = known(said, "what its agent does", &mut troubles);
            details.exit = known(exit, "how its agent ended", &mut troubles);
        }
        (details, troubles)
    }
}

fn known<T>(read: Result<Option<T>, StoreError>, what: impl Display, troubles: &mut Vec<String>) -> Option<T> {
    read.unwrap_or_else(|error| {
        troubles.push(format!("{what} cannot be read: {}", of_store(&error)));
        None
    })
}
