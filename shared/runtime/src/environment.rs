//! The two things that are read of the world: its variables and its clock.

use std::ffi::OsString;

use jiff::Timestamp;

/// The value of an environment variable.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn clock() -> Timestamp {
    Timestamp::now()
}
