//! `curfew config show`.

use std::path::PathBuf;

use clap::Args;
use domain::config::Setting;
use serde::Serialize;

use super::document::{self, Document};
use crate::arguments::Global;
use crate::context::Context;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::screen;

/// Show every value that is in force, and where it comes from
#[derive(Debug, Args)]
#[command(after_help = "The result is a configuration: save it, change it, and check it.\n\nExample:\n  \
                        curfew config show > curfew.toml")]
pub(crate) struct Show {
    /// This file instead of what is deployed; - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Shown {
    schema: u32,
    from: String,
    values: Vec<Setting>,
}

impl Show {
    pub(super) async fn run(self, global: Global) -> Result<Ending, Failure> {
        let as_json = global.json;
        let Document { settings, from, .. } = if let Some(file) = self.file {
            document::of_file(&file)?
        } else {
            let context = Context::connect(global).await?;
            document::deployed(&context).await.map_err(|failure| context.blame(failure))?
        };
        if as_json {
            screen::json(&Shown { schema: screen::SCHEMA, from, values: settings.values().collect() })?;
        } else {
            screen::say(format_args!("# {from}"));
            screen::say(settings.to_string().trim_end());
        }
        Ok(Ending::Fine)
    }
}
