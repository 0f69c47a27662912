//! `curfew team`: the role of each team's machines.

mod create;
mod delete;
mod list;

use clap::Subcommand;
use model::id::TeamName;
use model::team_role::team_role;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;

/// Create, list or delete the roles of teams' machines
#[derive(Debug, Subcommand)]
pub(crate) enum Team {
    Create(create::Create),
    List(list::List),
    Delete(delete::Delete),
}

impl Team {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        match self {
            Self::Create(create) => create.run(context).await,
            Self::List(list) => list.run(context).await,
            Self::Delete(delete) => delete.run(context).await,
        }
    }
}

fn role_of(team: &TeamName) -> Result<String, CommandError> {
    match team.as_str().trim() {
        "" => Err(CommandError::new("the team's name is empty; use the name of its inbox folder")),
        name if name != team.as_str() => {
            Err(CommandError::new(format!("{:?} has blanks at its ends, which no team's name has", team.as_str())))
        }
        _ => team_role(team).map_err(CommandError::new),
    }
}
