//! `curfew box down`: ends a box; its home stays.

use clap::Args;
use jobs::boxes::GpuBox;
use jobs::{CancelRequest, Job, JobId};
use serde::Serialize;

use super::find::{BoxId, find_box, find_holder};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::cancel::whole_seconds;
use crate::context::CommandContext;
use crate::{screen, world};

/// End a box; its home stays
#[derive(Debug, Args)]
#[command(
    after_help = "Its machine is terminated within a minute or two. What runs, its memory and all files outside of the home are lost; then a \
                  snapshot of the home is taken. The home costs as long as it exists.\n\nExample:\n  curfew box down my-box\n  \
                  curfew box down vision/my-box --yes"
)]
pub(crate) struct Down {
    /// Name of the box: <name>, or <team>/<name>
    #[arg(value_name = "NAME")]
    name: String,
    /// Act without asking
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct DownOutput<'a> {
    /// `cancelled`; `unchanged` if it was down already; `declined` if the person said no.
    outcome: &'static str,
    #[serde(rename = "box")]
    name: String,
    job: Option<&'a JobId>,
    cancel: Option<CancelRequest>,
}

impl Down {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let (id, gpu_box) = find_box(&store, &self.name).await?;
        let mut output = DownOutput { outcome: "unchanged", name: id.full(), job: None, cancel: None };
        let Some(job) = find_holder(&store, &gpu_box).await? else {
            return show(context, &output, format!("{}: is down already (unchanged)", id.full()));
        };
        if job.is_removal() {
            return Err(CommandError::with(
                format!("{} is being removed", id.full()),
                "curfew box ls shows it until that is done",
            ));
        }
        output.job = Some(&job.job);
        if !screen::confirm(question(&id, &gpu_box, &job), self.yes)? {
            output.outcome = "declined";
            return show(context, &output, format!("{}: stays up, it was not confirmed", id.full()));
        }
        let wish = CancelRequest { at: whole_seconds(context.now), by: world::variable("USER") };
        output.cancel = Some(store.cancel(&job.job, &wish).await?);
        output.outcome = "cancelled";
        show(
            context,
            &output,
            format!("{}: ends within a minute or two; its home stays. See it:  curfew box ls", id.full()),
        )
    }
}

/// The question names the owner: a colleague may end a box, too.
fn question(id: &BoxId, gpu_box: &GpuBox, job: &Job) -> String {
    let owner = gpu_box.owner.as_deref().map(|owner| format!(" of {owner}")).unwrap_or_default();
    let machine =
        job.machine().map(|machine| format!(", and terminate {} ({})", machine.instance, machine.instance_type));
    format!(
        "End the box {}{owner}{}? What runs, its memory and all files outside of the home are lost; the home stays.",
        id.full(),
        machine.unwrap_or_default()
    )
}

fn show(context: &CommandContext, output: &DownOutput<'_>, line: String) -> Result<CommandStatus, CommandError> {
    if context.global.json {
        screen::json(output)?;
    } else {
        screen::print_line(line);
    }
    Ok(if output.outcome == "declined" { CommandStatus::Findings } else { CommandStatus::Success })
}
