//! `curfew schedule`: jobs at the moments of a cron expression.

mod add;
mod ls;
mod rm;

use clap::Subcommand;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;

/// Add, list or remove schedules, which submit a job at the moments of a cron expression
#[derive(Debug, Subcommand)]
pub(crate) enum Schedule {
    Add(add::Add),
    Ls(ls::Ls),
    Rm(rm::Rm),
}

impl Schedule {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        match self {
            Self::Add(add) => Box::pin(add.run(context)).await,
            Self::Ls(ls) => ls.run(context).await,
            Self::Rm(rm) => rm.run(context).await,
        }
    }
}
