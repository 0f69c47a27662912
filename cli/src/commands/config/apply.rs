//! `curfew config apply`.

use std::path::PathBuf;

use clap::Args;

use super::document;
use super::replace::{Replacement, ReplacementReason};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;

/// Check a configuration, show what it changes and for whom, and put it in place
///
/// A file with a mistake is refused. The document that it replaces is kept: `curfew config rollback` puts that back. If somebody else changes
/// the configuration in the meantime, nothing is written.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it is in place; 1 mistakes, or it was not confirmed; 2 an error, nothing was changed.\n\n\
                  Example:\n  curfew config apply curfew.toml"
)]
pub(crate) struct Apply {
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
}

impl Apply {
    pub(super) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let bytes = document::read(&self.file)?;
        let context = CommandContext::connect(global).await?;
        let replacement = Replacement {
            context: &context,
            deployed: context.needs_deployed().await.map_err(|failure| context.blame(failure))?,
            name: document::named(&self.file),
            bytes,
            reason: ReplacementReason::Apply,
        };
        replacement.carry_out(self.yes).await.map_err(|failure| context.blame(failure))
    }
}
