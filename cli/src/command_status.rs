//! The exit code of a command, for scripts, like those of `diff` and `grep`.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandStatus {
    /// 0: nothing was found, or everything was done.
    Success,
    /// 1: a finding, a mistake in a file, or something was not done.
    Findings,
    /// 2: error or incomplete result, such as wrong usage, or a failed call.
    Error,
    /// The exit code of a job's command.
    OfJob(u8),
}

impl From<CommandStatus> for ExitCode {
    fn from(ending: CommandStatus) -> Self {
        Self::from(match ending {
            CommandStatus::Success => 0,
            CommandStatus::Findings => 1,
            CommandStatus::Error => 2,
            CommandStatus::OfJob(code) => code,
        })
    }
}
