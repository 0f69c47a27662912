//! `curfew mode`: the brake, and its release.
//!
//! Before the update that brakes it makes one call, which reads the parameters that the update has to name.

use clap::Args;
use cloud::operator::{Stack, change_parameter, read_stack};
use model::mode::Mode;
use operator::mode_change::{describe, describe_enforced};
use operator::stack_state::{check_updatable, is_complete};
use serde::Serialize;
use store::Documents as _;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use crate::stack_wait::{explain_failure, operation_token, wait};

/// The parameter of the stack.
const PARAMETER: &str = "Mode";

const BRAKE: &str =
    "to stop every run at once, set the reserved concurrency of the functions to 0 (docs/safety.md, How to stop it)";

/// Set what the deployment may do: only observe, or enforce
///
/// Updates the stack with its own template: nothing is built, and every other parameter stays. A run that begins before CloudFormation has
/// updated its function still has the earlier mode.
#[derive(Debug, Args)]
#[command(
    after_help = "Observe needs no question: it takes every permission to change your resources from the functions. Enforce asks.\n\n\
                  Exit codes: 0 it is so; 1 it was not confirmed; 2 an error.\n\n\
                  Example:\n  curfew mode observe\n  curfew mode enforce --yes"
)]
pub(crate) struct SetMode {
    /// observe or enforce
    #[arg(value_name = "MODE", value_parser = read_mode)]
    mode: Mode,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
    /// Do not wait until CloudFormation is done
    #[arg(long)]
    no_wait: bool,
}

/// ```json
/// {"schema": 1, "stack": "curfew", "outcome": "updated", "from": "enforce", "to": "observe", "status": "UPDATE_COMPLETE"}
/// ```
/// `outcome` is `updated`; `started` without waiting; `unchanged` if it was so; `declined` if the person said no.
#[derive(Serialize)]
struct ModeOutput<'a> {
    stack: &'a str,
    outcome: &'static str,
    from: &'a str,
    to: Mode,
    status: String,
}

fn read_mode(text: &str) -> Result<Mode, String> {
    Mode::read(text).ok_or_else(|| "it is observe or enforce".to_owned())
}

impl SetMode {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let name = &context.global.stack;
        let stack = read_stack(&context.aws, name).await?.ok_or_else(|| no_stack(context))?;
        let Some(from) = stack.parameters.get(PARAMETER).cloned() else {
            let problem = format!("the stack {name} has no parameter {PARAMETER}, so it is not one of Curfew's");
            return Err(CommandError::with(problem, "name another by --stack"));
        };
        if from == self.mode.as_str() && (is_complete(&stack.status) || stack.status == "UPDATE_ROLLBACK_COMPLETE") {
            return self.show(context, "unchanged", &from, &stack.status);
        }
        check_updatable(name, &stack.status)
            .map_err(|not_ready| CommandError::with(not_ready.problem, format!("{}; {BRAKE}", not_ready.advice)))?;
        screen::propose(describe(Some(&from), self.mode));
        if self.mode == Mode::Enforce {
            screen::propose(describe_whom(context).await);
            if !screen::confirm(format!("Let the stack {name} act?"), self.yes)? {
                return self.show(context, "declined", &from, &stack.status);
            }
        }
        self.update(context, &stack, &from).await
    }

    async fn update(&self, context: &CommandContext, stack: &Stack, from: &str) -> Result<CommandStatus, CommandError> {
        let (name, token) = (&stack.name, operation_token(context.now));
        if !change_parameter(&context.aws, stack, PARAMETER, self.mode.as_str(), &token).await? {
            return self.show(context, "unchanged", from, &stack.status);
        }
        if self.no_wait {
            return self.show(context, "started", from, "UPDATE_IN_PROGRESS");
        }
        let found = wait(context, name).await?;
        match found {
            Some(found) if is_complete(&found.status) => self.show(context, "updated", from, &found.status),
            found => {
                let error = explain_failure(context, name, found.as_ref(), &token).await;
                if found.is_some_and(|found| found.status == "UPDATE_ROLLBACK_COMPLETE") {
                    return Err(CommandError {
                        problem: format!("the mode is still {from}: {}", error.problem),
                        ..error
                    });
                }
                let mixed = format!("some functions may have the mode {}, and others {from}", self.mode.as_str());
                let advice = error.advice.iter().map(String::as_str).chain([BRAKE]).collect::<Vec<_>>().join("; ");
                Err(CommandError::with(format!("{mixed}: {}", error.problem), advice))
            }
        }
    }

    fn show(
        &self,
        context: &CommandContext,
        outcome: &'static str,
        from: &str,
        status: &str,
    ) -> Result<CommandStatus, CommandError> {
        let (stack, to) = (context.global.stack.as_str(), self.mode);
        if context.global.json {
            let status = status.to_owned();
            screen::json(&ModeOutput { stack, outcome, from, to, status })?;
        } else {
            let mode = to.as_str();
            screen::print_line(match outcome {
                "updated" => format!("{stack}: the mode is {mode} (it was {from})"),
                "started" => format!("{stack}: CloudFormation has begun to set the mode {mode}; it is still {from}"),
                "declined" => format!("{stack}: the mode is still {from}, it was not confirmed"),
                _ => format!("{stack}: the mode is {mode} (unchanged)"),
            });
        }
        Ok(if outcome == "declined" { CommandStatus::Findings } else { CommandStatus::Success })
    }
}

/// The teams that enforce mode concerns; an unreadable configuration is no reason to refuse.
async fn describe_whom(context: &CommandContext) -> String {
    let read = async {
        let store = context.needs_deployed().await?.store;
        Ok::<_, CommandError>(store.read_config().await?)
    };
    match read.await {
        Ok(config) => describe_enforced(&config),
        Err(error) => format!("Whom that concerns is unknown: {}", error.problem),
    }
}

pub(super) fn no_stack(context: &CommandContext) -> CommandError {
    CommandError::with(
        format!("there is no stack {} in {}", context.global.stack, context.aws.home()),
        "name the deployment's --region and its --stack",
    )
}
