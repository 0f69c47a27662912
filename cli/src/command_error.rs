//! The error of a command.

use std::fmt::Display;

use cloud::CallError;
use model::fault::Passing;
use model::observation::Gap;
use store::{ConfigLoadError, StoreError};

/// An error for people: the problem, and the advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandError {
    pub(crate) problem: String,
    /// The remedy, unless the problem already names it.
    pub(crate) advice: Option<String>,
}

impl CommandError {
    /// A problem that says itself what to do.
    pub(crate) fn new(problem: impl Display) -> Self {
        Self { problem: problem.to_string(), advice: None }
    }

    pub(crate) fn with(problem: impl Display, advice: impl Display) -> Self {
        Self { problem: problem.to_string(), advice: Some(advice.to_string()) }
    }
}

/// A failed call, in words for a person who waits for it.
pub(crate) fn describe_call_error(error: &CallError) -> String {
    with_advice(error, error.passing())
}

/// Formats a gap, in words for a person who waits for the call.
pub(crate) fn describe_gap(gap: &Gap) -> String {
    format!("{} failed in {}: {}", gap.call, gap.region, gap.in_command())
}

/// Formats a failed call to the bucket, in words for a person who waits for it.
pub(crate) fn describe_store_error(error: &StoreError) -> String {
    with_advice(error, error.passing())
}

fn with_advice(error: &dyn Display, passing: Option<Passing>) -> String {
    passing.map_or_else(|| error.to_string(), |passing| format!("{error}; {}", passing.advice()))
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
        match fault {
            ConfigLoadError::Refused(error) => Self::new(error),
            ConfigLoadError::Unreachable(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use cloud::CallErrorKind;

    use super::*;

    fn check(kind: CallErrorKind, expect: &str) {
        let error = CallError::new("ec2:StartInstances", &"eu-west-1".into(), kind, "No");
        let expect = format!("ec2:StartInstances failed in eu-west-1: No{expect}");
        assert_eq!(describe_call_error(&error), expect);
        assert_eq!(describe_gap(&error.gap()), expect);
    }

    #[test]
    fn a_command_promises_no_later_run() {
        check(CallErrorKind::Other, "");
        check(CallErrorKind::Capacity, "; AWS has none at the moment; try again in a minute");
        check(CallErrorKind::Unreached, "; check the network or AWS_ENDPOINT_URL, then try again");
    }
}
