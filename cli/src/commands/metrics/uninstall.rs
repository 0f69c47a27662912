//! `curfew metrics uninstall`: takes back what `install` wrote, in every region that lets it.

use clap::Args;
use cloud::operator::uninstall_agent;
use model::id::Region;
use model::observation::Observation;
use serde::Serialize;

use super::Regions;
use crate::command_error::{CommandError, describe_call_error, describe_gap};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Take back what install wrote
///
/// Systems Manager drops Curfew's part of the configuration from the agents that run, and their metrics end. An agent without another configuration
/// stops. The agent stays installed: to remove it, use the document AWS-ConfigureAWSPackage. A machine that is stopped meanwhile keeps the
/// configuration.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, or nothing is there; 1 it was not confirmed; 2 an error, or a region failed.\n\n\
                        Example:\n  curfew metrics uninstall"
)]
pub(crate) struct Remove {
    #[command(flatten)]
    regions: Regions,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
}

/// `outcome` is `removed`; `incomplete`; `nothing-to-do`; `declined`.
#[derive(Default, Serialize)]
struct RemoveOutput {
    outcome: &'static str,
    regions: Vec<Region>,
    /// Commands of Run Command, with the result of each machine.
    commands: Vec<SentCommand>,
    /// Regions in which it failed, each with its reason.
    failures: Vec<String>,
}

#[derive(Serialize)]
struct SentCommand {
    region: Region,
    id: String,
}

impl Remove {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let config = self.regions.config(context).await?;
        let Observation { items: regions, gaps } = cloud::regions(&context.aws, &config).await;
        gaps.iter().map(describe_gap).for_each(screen::warn);
        let show = |output: RemoveOutput, text: &str| {
            if context.global.json {
                return screen::json(&output);
            }
            screen::print_line(text);
            for SentCommand { region, id } in &output.commands {
                screen::print_line(format!("What each machine did: Systems Manager in {region}, Run Command {id}."));
            }
            for line in &output.failures {
                screen::print_line(format!("not removed: {line}"));
            }
            Ok(())
        };
        screen::propose(
            "It deletes Curfew's associations of Systems Manager, and takes its part of the configuration from the agents that run. An agent \
             without another configuration stops. Without these metrics Curfew judges no instance by its utilisation. The agent itself stays.",
        );
        if !screen::confirm("Remove it?", self.yes)? {
            show(RemoveOutput { outcome: "declined", ..RemoveOutput::default() }, "Nothing was removed.")?;
            return Ok(CommandStatus::Findings);
        }
        let mut output = RemoveOutput::default();
        for region in regions {
            match uninstall_agent(&context.aws, &region).await {
                Ok(None) => {}
                Ok(Some(id)) => {
                    if !id.is_empty() {
                        output.commands.push(SentCommand { region: region.clone(), id: screen::plain(&id) });
                    }
                    output.regions.push(region);
                }
                Err(error) => output.failures.push(describe_call_error(&error)),
            }
        }
        let names: Vec<&str> = output.regions.iter().map(Region::as_str).collect();
        let text = match names.as_slice() {
            [] if output.failures.is_empty() => "These regions have no association of Curfew.".to_owned(),
            [] => "Nothing was removed.".to_owned(),
            names => format!("Removed in {}.", names.join(", ")),
        };
        let is_whole = gaps.is_empty() && output.failures.is_empty();
        output.outcome = match () {
            () if !output.failures.is_empty() => "incomplete",
            () if output.regions.is_empty() => "nothing-to-do",
            () => "removed",
        };
        show(output, &text)?;
        Ok(if is_whole { CommandStatus::Success } else { CommandStatus::Error })
    }
}
