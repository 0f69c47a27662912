//! `curfew config show`.

use std::path::PathBuf;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use model::config::{self, HubStatus, IgnoredLine, Setting};
use model::duration::format_duration;
use serde::Serialize;
use store::ConfigWithHub;

use super::document::{self, ConfigDocument};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::global_options::GlobalOptions;
use crate::screen;

/// The stack names no hub, and a bucket that is named has no copy of its configuration.
const NO_HUB: &str = "this account has no hub, as far as its stack or bucket shows";

/// Show every value in force, and its source
#[derive(Debug, Args)]
#[command(after_help = "The result is a configuration: save it, change it, and check it.\n\nExample:\n  \
                        curfew config show > curfew.toml")]
pub(crate) struct Show {
    /// Show this file instead of the deployed one; - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show what counts beside the configuration of the organization's hub, and the lines that do not count
    #[arg(long, conflicts_with = "file")]
    effective: bool,
}

#[derive(Serialize)]
struct ConfigOutput {
    from: String,
    values: Vec<Setting>,
}

/// The values in force, and the account's own lines that do not count.
#[derive(Serialize)]
struct EffectiveOutput {
    from: String,
    /// Null if the account has no hub.
    hub: Option<HubOutput>,
    values: Vec<Setting>,
    ignored: Vec<IgnoredLine>,
}

/// The hub's configuration; both are null if it is unknown.
#[derive(Serialize)]
struct HubOutput {
    /// Time at which it was read from the hub.
    read_at: Option<Timestamp>,
    seconds_old: Option<i64>,
    /// Reason for lines that are unknown.
    unknown: Option<String>,
}

impl Show {
    pub(super) async fn run(self, global: GlobalOptions) -> Result<CommandStatus, CommandError> {
        let as_json = global.json;
        if self.effective {
            let context = CommandContext::connect(global).await?;
            return Box::pin(show_effective(&context)).await.map_err(|failure| context.blame(failure));
        }
        let ConfigDocument { settings, from, .. } = if let Some(file) = self.file {
            document::read_document_file(&file)?
        } else {
            let context = CommandContext::connect(global).await?;
            let (deployed, has_hub) = read_deployed(&context).await.map_err(|failure| context.blame(failure))?;
            if has_hub {
                screen::warn("the hub's configuration counts as well: curfew config show --effective");
            }
            deployed
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

/// The deployed document, and whether lines of an organization's hub count beside it.
async fn read_deployed(context: &CommandContext) -> Result<(ConfigDocument, bool), CommandError> {
    let deployed = document::deployed(context).await?;
    let has_hub = match &deployed.store {
        Some(store) => store.has_hub().await?,
        None => false,
    };
    Ok((deployed, has_hub))
}

async fn show_effective(context: &CommandContext) -> Result<CommandStatus, CommandError> {
    let deployed = context.needs_deployed().await?;
    let own = format!("s3://{}/{}", deployed.bucket, config::KEY);
    let Some(ConfigWithHub { overlay, hub }) = deployed.store.read_config_with_hub().await? else {
        let ConfigDocument { settings, from, .. } = document::deployed(context).await?;
        let output = EffectiveOutput { from, hub: None, values: settings.values().collect(), ignored: Vec::new() };
        return print_effective(context, &output, &settings.to_string(), NO_HUB);
    };
    let (hub, heading) = match hub {
        HubStatus::Known { read_at, .. } => {
            let age = context.now.duration_since(read_at).max(SignedDuration::ZERO);
            let heading = format!("the hub's configuration was read at {read_at}, {} ago", format_duration(age));
            (HubOutput { read_at: Some(read_at), seconds_old: Some(age.as_secs()), unknown: None }, heading)
        }
        HubStatus::NoHub => (HubOutput { read_at: None, seconds_old: None, unknown: None }, String::new()),
        HubStatus::Unknown(reason) => {
            (HubOutput { read_at: None, seconds_old: None, unknown: Some(reason.clone()) }, reason)
        }
    };
    let values = overlay.settings.values().collect();
    let output = EffectiveOutput { from: own, hub: Some(hub), values, ignored: overlay.ignored };
    print_effective(context, &output, &overlay.settings.to_string(), &heading)
}

fn print_effective(
    context: &CommandContext,
    output: &EffectiveOutput,
    document: &str,
    heading: &str,
) -> Result<CommandStatus, CommandError> {
    if context.global.json {
        screen::json(output)?;
        return Ok(CommandStatus::Success);
    }
    screen::print_line(format_args!("# {}; {heading}", output.from));
    screen::print_document(document.trim_end());
    for ignored in &output.ignored {
        screen::print_line(format_args!("# {ignored}"));
    }
    Ok(CommandStatus::Success)
}
