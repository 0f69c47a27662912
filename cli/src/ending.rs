//! How a command ends, for scripts: as `diff` and `grep` do.

use std::process::ExitCode;

/// The exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// 0: all is well, there is nothing, or it was done.
    Fine,
    /// 1: there is something: a finding, a mistake in a file, something that was not done.
    Found,
    /// 2: nobody can say: wrong usage, or a call that failed.
    Trouble,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending as u8)
    }
}
