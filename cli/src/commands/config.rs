//! `curfew config`: checks a configuration before its deployment, and shows it afterwards.

mod check;
mod document;
mod show;

use std::path::Path;

use clap::Subcommand;

use crate::arguments::Global;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;

/// Check a configuration before you deploy it, or show the deployed one
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Check(check::Check),
    Show(show::Show),
}

impl Config {
    /// A file needs neither region nor credentials, so it connects only when a call is needed.
    pub(crate) async fn run(self, global: Global) -> Result<CommandStatus, CommandError> {
        match self {
            Self::Check(check) => check.run(global).await,
            Self::Show(show) => show.run(global).await,
        }
    }
}

/// Reads the configuration of a file; `-` is standard input.
pub(super) fn read_config_file(file: &Path) -> Result<model::config::Config, CommandError> {
    Ok(document::read_document_file(file)?.config)
}
