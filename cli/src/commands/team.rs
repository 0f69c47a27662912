//! `curfew team`: the role of each team's machines.

mod create;
mod delete;
mod list;

use std::time::Duration;

use clap::Subcommand;
use cloud::operator::{TeamStack, team_stack};
use model::id::TeamName;
use model::team_role::team_role;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// CloudFormation creates a role within a minute; its instance profile takes two.
const TIMEOUT: Duration = Duration::from_mins(10);
const POLL_EVERY: Duration = Duration::from_secs(3);

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

/// Waits until `CloudFormation` is done with a stack. Returns its state, or that it is gone.
async fn wait(context: &CommandContext, stack: &str) -> Result<Option<TeamStack>, CommandError> {
    let poll = async {
        loop {
            let found = team_stack(&context.aws, stack).await?;
            if found.as_ref().is_none_or(|found| !found.status.ends_with("_IN_PROGRESS")) {
                return Ok(found);
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    let late = |_| {
        CommandError::with(
            format!("CloudFormation is still at work on the stack {stack}"),
            format!("check it: aws cloudformation describe-stack-events --stack-name {stack}"),
        )
    };
    tokio::time::timeout(TIMEOUT, poll).await.map_err(late)?
}

/// The error of a stack in an unexpected state.
fn not_done(stack: &str, found: Option<&TeamStack>) -> CommandError {
    let status = found.map_or("gone", |found| found.status.as_str());
    let reason =
        found.and_then(|found| found.reason.as_deref()).map(|reason| format!(": {reason}")).unwrap_or_default();
    CommandError::with(
        format!("the stack {stack} is {status}{}", screen::plain(&reason)),
        format!("its events have the reason: aws cloudformation describe-stack-events --stack-name {stack}"),
    )
}
