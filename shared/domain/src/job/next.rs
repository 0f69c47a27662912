//! The state machine.

use jiff::Timestamp;

use super::{Effect, Facts, Job, Wants};

/// What has to be looked at before [`next()`] is asked. `warned` as in [`Facts::warned`].
#[must_use]
pub fn wants(_job: &Job, _warned: bool, _now: Timestamp) -> Wants {
    Wants::default()
}

/// Where a job stands now, and what is to be done.
#[must_use]
pub fn next(job: &Job, _facts: &Facts, _now: Timestamp) -> (Job, Vec<Effect>) {
    (job.clone(), Vec::new())
}
