//! `curfew team delete`.

use clap::Args;
use cloud::operator::{delete_stack, read_stack};
use jobs::JobId;
use model::id::TeamName;
use model::team_folder::team_folder;
use model::team_role::team_stack_name;
use serde::Serialize;

use super::role_of;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use crate::stack_wait::{not_done, operation_token, wait};

/// Delete the role of a team's machines
#[derive(Debug, Args)]
#[command(
    after_help = "Machines with the role lose its permissions at once, and with them their checkpoints and results. So it is refused \
                  while the team has unfinished jobs. What the team keeps in the state bucket stays.\n\n\
                  Example:\n  curfew team delete vision"
)]
pub(crate) struct Delete {
    /// The team
    #[arg(value_name = "TEAM")]
    team: TeamName,
    /// Delete it although the team has unfinished jobs
    #[arg(long)]
    force: bool,
    /// Act without asking
    #[arg(long)]
    yes: bool,
}

/// ```json
/// {"schema": 1, "team": "vision", "outcome": "refused", "stack": "curfew-team-vision", "unfinished_jobs": ["vision/llama-1a2b3c4d"]}
/// ```
/// `outcome` is `deleted`; `unchanged` if there was none; `refused` for its unfinished jobs; `declined` if the person said no.
#[derive(Serialize)]
struct TeamDeleteOutput<'a> {
    team: &'a TeamName,
    outcome: &'static str,
    stack: &'a str,
    unfinished_jobs: Vec<JobId>,
}

impl Delete {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let (role, stack) = (role_of(&self.team)?, team_stack_name(&self.team));
        let store = context.needs_deployed().await?.store;
        let active = store.active().await?;
        let unfinished_jobs: Vec<JobId> = active.into_iter().filter(|job| job.team == self.team).collect();
        let count = unfinished_jobs.len();
        let outcome = match read_stack(&context.aws, &stack).await? {
            None => "unchanged",
            Some(found) if found.parameters.get("Team") != Some(&team_folder(&self.team)) => {
                return Err(CommandError::new(format!(
                    "the stack {stack} is not that of the team {}; nothing was deleted",
                    self.team
                )));
            }
            Some(_) if count > 0 && !self.force => "refused",
            Some(_) if !screen::confirm(format!("Delete the role {role} and its instance profile?"), self.yes)? => {
                "declined"
            }
            Some(_) => {
                delete_stack(&context.aws, context.aws.home(), &stack, &operation_token(context.now)).await?;
                match wait(context, &stack).await? {
                    None => "deleted",
                    Some(found) if found.status == "DELETE_COMPLETE" => "deleted",
                    Some(found) => return Err(not_done(&stack, Some(&found))),
                }
            }
        };
        let is_done = matches!(outcome, "deleted" | "unchanged");
        if context.global.json {
            screen::json(&TeamDeleteOutput { team: &self.team, outcome, stack: &stack, unfinished_jobs })?;
        } else {
            screen::print_line(match outcome {
                "deleted" => format!("{}: the role {role} is deleted", self.team),
                "refused" => format!(
                    "{}: not deleted, it has {}: cancel them first, or add --force",
                    self.team,
                    screen::counted(count, "unfinished job")
                ),
                "declined" => format!("{}: not deleted, it was not confirmed", self.team),
                _ => format!("{}: there is no stack {stack} (unchanged)", self.team),
            });
        }
        Ok(if is_done { CommandStatus::Success } else { CommandStatus::Findings })
    }
}
