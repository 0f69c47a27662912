//! `curfew config show`.

use std::path::PathBuf;

use clap::Args;
use model::config::Setting;
use serde::Serialize;

use super::document::{self, ConfigDocument};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;
use crate::screen;

/// Show every value in force, and its source
#[derive(Debug, Args)]
#[command(after_help = "The result is a configuration: save it, change it, and check it.\n\nExample:\n  \
                        curfew config show > curfew.toml")]
pub(crate) struct Show {
    /// Show this file instead of the deployed one; - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct ConfigOutput {
    from: String,
    values: Vec<Setting>,
}

impl Show {
    pub(super) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let as_json = global.json;
        let ConfigDocument { settings, from, .. } = if let Some(file) = self.file {
            document::read_document_file(&file)?
        } else {
            let context = CommandContext::connect(global).await?;
            document::deployed(&context).await.map_err(|failure| context.blame(failure))?
        };
        if as_json {
            screen::json(&ConfigOutput { from, values: settings.values().collect() })?;
        } else {
            screen::print_line(format_args!("# {from}"));
            screen::print_document(settings.to_string().trim_end());
        }
        Ok(CommandStatus::Success)
    }
}
