//! `curfew completions`.

use clap::Args;
use clap_complete::Shell;

use crate::arguments;
use crate::command_status::CommandStatus;
use crate::screen;

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  curfew completions bash > ~/.local/share/bash-completion/completions/curfew")]
pub(crate) struct Completions {
    /// Print them for this shell
    pub(crate) shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> CommandStatus {
        // Writing to stdout itself would panic if the pipe is closed.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut arguments::command(), "curfew", &mut script);
        screen::print_document(String::from_utf8_lossy(&script).trim_end());
        CommandStatus::Success
    }
}
