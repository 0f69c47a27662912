//! `curfew run-now`: one run of a function, now.

use clap::Args;
use clap::builder::PossibleValuesParser;
use cloud::CallErrorKind;
use cloud::operator::{Invocation, invoke};
use model::foreign_text::shell_word;
use operator::doctor::runs::FUNCTIONS;
use operator::run_summary::RunSummary;
use serde::Serialize;
use serde_json::{Value, json};

use super::mode::no_stack;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Run a function now, instead of waiting for its schedule
///
/// It does what a scheduled run does, in the mode of the deployment, and prints what came of it. `curfew plans` shows the run in full.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the run did everything; 1 a step failed, or something could not be read; 2 the run failed, or did not begin.\n\n\
                  Example:\n  curfew run-now reap-instances"
)]
pub(crate) struct RunNow {
    /// The function
    #[arg(value_name = "FUNCTION", value_parser = PossibleValuesParser::new(FUNCTIONS.map(|one| one.function)))]
    function: String,
}

#[derive(Serialize)]
struct RunNowOutput<'a> {
    function: &'a str,
    #[serde(flatten)]
    summary: &'a RunSummary,
    /// The whole response of the function.
    response: &'a Value,
}

impl RunNow {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let function = &self.function;
        let stack = context.stack().await?.ok_or_else(|| no_stack(context))?;
        let Some(deployed) = stack.functions.get(function) else {
            let problem = format!("the stack {} has no function {function}", stack.stack);
            return Err(CommandError::with(problem, "deploy the version of this command: curfew version"));
        };
        screen::progress(format!("{function} runs as {} …", deployed.name));
        let response = match invoke(&context.aws, &deployed.name, &event()).await {
            Ok(Invocation::Response(response)) => response,
            Ok(Invocation::Failed { kind, message }) => {
                let problem = format!("the run of {function} failed: {}", screen::plain(&message));
                let log = stack.log_groups().find(|(name, _)| name == function);
                let log = log
                    .map_or_else(String::new, |(_, group)| format!("aws logs tail {} --since 15m", shell_word(&group)));
                return Err(CommandError::with(problem, format!("({}) its log: {log}", screen::plain(&kind))));
            }
            Err(error) if error.kind == CallErrorKind::Throttled => {
                let name = shell_word(&deployed.name);
                return Err(CommandError::with(
                    error,
                    format!(
                        "it is paused if this prints 0: aws lambda get-function-concurrency --function-name {name}; else try again"
                    ),
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(summary) = RunSummary::from_response(&response) else {
            let problem = format!("{} answered with something that is not the response of a run", deployed.name);
            return Err(CommandError::with(problem, "check that the versions fit: curfew version"));
        };
        self.show(context, &summary, &response)?;
        Ok(if summary.is_incomplete() { CommandStatus::Findings } else { CommandStatus::Success })
    }

    fn show(&self, context: &CommandContext, summary: &RunSummary, response: &Value) -> Result<(), CommandError> {
        let function = self.function.as_str();
        if context.global.json {
            return screen::json(&RunNowOutput { function, summary, response });
        }
        let run = summary.run.as_deref().unwrap_or_default();
        let mode = summary.mode.as_deref().map(|mode| format!(" in {mode} mode")).unwrap_or_default();
        screen::print_line(format!("{function}: run {run}{mode}"));
        for line in summary.to_lines() {
            screen::print_line(format!("  {line}"));
        }
        screen::progress(format!("All of it:  curfew plans {}", shell_word(run)));
        Ok(())
    }
}

/// The event of the schedule, with what the functions read of it (`shared/runtime/src/event.rs`).
fn event() -> Value {
    json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} })
}
