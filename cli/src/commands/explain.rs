//! `curfew explain`.

mod account;
mod gone;
mod outcome;
mod show;

use clap::Args;
use serde::Serialize;

use self::account::ExplainAccount;
use self::outcome::{ExplainedResource, Unexplained};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::named_resource::ResourceArgument;
use crate::screen;

/// Explain how each rule judges a resource, and when Curfew would act on it
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 explained; 2 not found, error or incomplete result.\n\nExample:\n  curfew explain i-0123456789abcdef0"
)]
pub(crate) struct Explain {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0, or snap-0123456789abcdef0 of a snapshot that Curfew made; or the Name
    /// of a GPU instance
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<ResourceArgument>,
}

#[derive(Serialize)]
struct ExplainOutput {
    explained: Vec<ExplainedResource>,
    unexplained: Vec<ExplainFailure>,
}

#[derive(Serialize)]
struct ExplainFailure {
    resource: String,
    error: String,
}

impl Explain {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let account = ExplainAccount::load(context).await?;
        let mut all = ExplainOutput { explained: Vec::new(), unexplained: Vec::new() };
        for named in &account.everywhere.resolve(context, &self.resources).await? {
            let explained = execution::catch_bug(Box::pin(account.explain(named))).await;
            match explained.unwrap_or_else(|bug| Err(Unexplained(bug.to_string()))) {
                Ok(explained) => all.explained.push(explained),
                Err(Unexplained(error)) => {
                    all.unexplained.push(ExplainFailure { resource: named.id.to_string(), error });
                }
            }
        }
        if context.global.json {
            screen::json(&all)?;
        } else {
            for (place, explained) in all.explained.iter().enumerate() {
                if place > 0 {
                    screen::print_line("");
                }
                show::print_resource(explained);
            }
        }
        for ExplainFailure { resource, error } in &all.unexplained {
            screen::complain(&CommandError::new(format!("{resource}: {error}")));
        }
        Ok(if all.unexplained.is_empty() { CommandStatus::Success } else { CommandStatus::Error })
    }
}
