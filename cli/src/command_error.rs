//! Why a command could not do what it was asked.

use std::fmt::Display;

use cloud::CallError;
use model::observation::Gap;
use store::{ConfigLoadError, StoreError};

/// For people: what went wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandError {
    /// What went wrong.
    pub(crate) problem: String,
    /// What to do, where there is more to say than the problem says.
    pub(crate) advice: Option<String>,
}

impl CommandError {
    /// A problem that says by itself what to do.
    pub(crate) fn new(problem: impl Display) -> Self {
        Self { problem: problem.to_string(), advice: None }
    }

    /// A problem and what to do.
    pub(crate) fn with(problem: impl Display, advice: impl Display) -> Self {
        Self { problem: problem.to_string(), advice: Some(advice.to_string()) }
    }
}

/// A call that failed, in words for somebody who waits for it.
pub(crate) fn describe_call_error(error: &CallError) -> String {
    for_who_waits(&error.to_string())
}

/// The same of a gap.
pub(crate) fn describe_gap(Gap { region, call, error, .. }: &Gap) -> String {
    for_who_waits(&format!("{call} failed in {region}: {error}"))
}

/// The same of the bucket.
pub(crate) fn describe_store_error(error: &StoreError) -> String {
    for_who_waits(&error.to_string())
}

/// What the functions say: whoever reads of them waits for nothing.
const NEXT_RUN: [&str; 4] =
    ["the next run tries again", "the next run looks again", "the next run asks again", "the next run reads it again"];

/// No run follows a command: it says what its reader can do.
pub(crate) fn for_who_waits(said: &str) -> String {
    let next = advise(said);
    let mine = NEXT_RUN.iter().fold(said.to_owned(), |said, of_run| said.replace(of_run, next));
    if was_unreached(said) && !mine.contains(next) { format!("{mine}; {next}") } else { mine }
}

/// What to do about what somebody waits for. Where AWS was not reached at all, waiting is no advice.
pub(crate) fn advise(said: &str) -> &'static str {
    if was_unreached(said) { "check the network or AWS_ENDPOINT_URL, then try again" } else { "try again in a minute" }
}

/// By the SDK's words for it.
pub(crate) fn was_unreached(said: &str) -> bool {
    said.contains("dispatch failure")
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> Self {
        Self::new(describe_call_error(&error))
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::new(describe_store_error(&error))
    }
}

impl From<ConfigLoadError> for CommandError {
    fn from(fault: ConfigLoadError) -> Self {
        Self::new(for_who_waits(&fault.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &str, expect: &str) {
        assert_eq!(for_who_waits(said), expect);
    }

    #[test]
    fn nobody_waits_for_a_run_that_does_not_come() {
        check("No; grant s3:GetObject", "No; grant s3:GetObject");
        check(
            "Slow down; the next run tries again (and 2 more like it)",
            "Slow down; try again in a minute (and 2 more like it)",
        );
        check("gone; the next run looks again", "gone; try again in a minute");
    }

    #[test]
    fn who_was_not_reached_is_looked_for() {
        const NEXT: &str = "check the network or AWS_ENDPOINT_URL, then try again";
        check("dispatch failure: refused; the next run tries again", &format!("dispatch failure: refused; {NEXT}"));
        check("dispatch failure: refused", &format!("dispatch failure: refused; {NEXT}"));
    }
}
