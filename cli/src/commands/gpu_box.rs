//! `curfew box`: GPU machines that people work on.

mod connect;
mod down;
mod extend;
mod find;
mod follow;
mod ls;
mod rm;
mod ssh_files;
mod up;

use clap::Subcommand;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;

/// Bring up a GPU machine to work on, whose home stays when it ends
#[derive(Debug, Subcommand)]
pub(crate) enum GpuBox {
    Up(Box<up::Up>),
    Ls(ls::Ls),
    Extend(extend::Extend),
    Down(down::Down),
    Rm(rm::Rm),
    #[command(hide = true)]
    Connect(connect::Connect),
}

impl GpuBox {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        match self {
            Self::Up(up) => Box::pin(up.run(context)).await,
            Self::Ls(ls) => ls.run(context).await,
            Self::Extend(extend) => extend.run(context).await,
            Self::Down(down) => down.run(context).await,
            Self::Rm(rm) => Box::pin(rm.run(context)).await,
            Self::Connect(connect) => connect.run(context).await,
        }
    }
}
