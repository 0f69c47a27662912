//! How a command ends, for scripts: as `diff` and `grep` do.

use std::process::ExitCode;

/// The exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandStatus {
    /// 0: all is well, there is nothing, or it was done.
    Success,
    /// 1: there is something: a finding, a mistake in a file, something that was not done.
    Findings,
    /// 2: nobody can say: wrong usage, or a call that failed.
    Error,
}

impl From<CommandStatus> for ExitCode {
    fn from(ending: CommandStatus) -> Self {
        Self::from(ending as u8)
    }
}
