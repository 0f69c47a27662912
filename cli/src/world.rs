//! The inputs besides AWS: the clock, and variables.

use jiff::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is the one place of the command")]
pub(crate) fn clock() -> Timestamp {
    Timestamp::now()
}

/// The value of a variable, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "this is the one place of the command")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
