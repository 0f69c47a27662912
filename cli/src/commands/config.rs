//! `curfew config`: checks a configuration, puts it in place, takes it back, and shows it.

mod apply;
mod check;
mod document;
mod replace;
mod rollback;
mod show;

use std::path::Path;

use clap::Subcommand;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::global_options::GlobalOptions;

/// Check a configuration, put it in place or take it back, or show the deployed one
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Check(check::Check),
    Apply(apply::Apply),
    Rollback(rollback::Rollback),
    Show(show::Show),
}

impl Config {
    /// A file needs neither region nor credentials, so it connects only when a call is needed.
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        match self {
            Self::Check(check) => Box::pin(check.run(global)).await,
            Self::Apply(apply) => apply.run(global).await,
            Self::Rollback(rollback) => Box::pin(rollback.run(global)).await,
            Self::Show(show) => show.run(global).await,
        }
    }
}

/// Reads the configuration of a file; `-` is standard input.
pub(super) fn read_config_file(file: &Path) -> Result<model::config::Config, CommandError> {
    Ok(document::read_document_file(file)?.config)
}
