//! `curfew uninstall`: lists what stays of Curfew and costs, and removes what a person names.
//!
//! It takes no machine down. Snapshots are deleted only where Curfew's own record proves that it made them.

mod find;
mod remove;

use clap::{Args, ValueEnum};
use cloud::operator::Stack;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;
use find::Leftovers;

/// List what stays when Curfew goes, and remove what you name
///
/// Without options it only lists. The state bucket stays in any case, and so do the tags that people have set. It may be repeated: what is
/// gone already is no error.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 listed, or everything was removed; 1 it was not confirmed; 2 refused, or some of it could not be read or \
                  removed.\n\n\
                  Example:\n  curfew uninstall\n  curfew uninstall --delete-stack --remove labels,team-stacks"
)]
pub(crate) struct Uninstall {
    /// Remove these; may be repeated
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    remove: Vec<Removal>,
    /// Delete the stack, before all else
    #[arg(long)]
    delete_stack: bool,
    /// Go on although jobs are unfinished: their machines run until their own deadline, and nothing replaces them
    #[arg(long)]
    with_running_jobs: bool,
    /// Act without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Removal {
    /// Labels of Curfew on instances and volumes
    Labels,
    /// Snapshots that Curfew made of volumes that it deleted: the only copy of their data
    Snapshots,
    /// Stacks with the roles of teams
    TeamStacks,
    /// Stacks that forward events of other regions
    Forwarders,
    /// Stacks with the public address of links in messages
    ReplyUrls,
}

/// `outcome` is `listed`; `removed`; `incomplete`; `declined` if the person said no.
#[derive(Serialize)]
struct UninstallOutput<'a> {
    outcome: &'static str,
    leftovers: &'a [LeftoverItem],
    /// Failed reads.
    gaps: &'a [String],
    removed: &'a [String],
    /// Failed removals, each with its reason.
    failures: &'a [String],
}

/// One kind of thing that stays.
#[derive(Debug, Serialize)]
struct LeftoverItem {
    kind: &'static str,
    count: usize,
    /// The finding, in words for people.
    found: String,
    /// The options that remove it, or what else to do.
    remedy: String,
}

impl Uninstall {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        screen::progress("Looking for what Curfew leaves, in every region …");
        let found = Leftovers::find(context).await;
        let items = found.items(context);
        if !context.global.json {
            show_items(&items);
        }
        found.gaps.iter().for_each(screen::warn);
        if self.remove.is_empty() && !self.delete_stack {
            let ending = if found.gaps.is_empty() { CommandStatus::Success } else { CommandStatus::Error };
            return show(context, "listed", &found, &items, &remove::RemovalReport::default()).map(|()| ending);
        }
        self.refuse_what_surprises(context, &found)?;
        if !screen::confirm(self.question(&found), self.yes)? {
            show(context, "declined", &found, &items, &remove::RemovalReport::default())?;
            return Ok(CommandStatus::Findings);
        }
        let report = self.carry_out(context, &found).await?;
        let is_whole = report.failures.is_empty() && found.gaps.is_empty();
        show(context, if is_whole { "removed" } else { "incomplete" }, &found, &items, &report)?;
        Ok(if is_whole { CommandStatus::Success } else { CommandStatus::Error })
    }

    /// Refuses what would take effect on more than a person may expect.
    fn refuse_what_surprises(&self, context: &CommandContext, found: &Leftovers) -> Result<(), CommandError> {
        let is_about_stack = self.delete_stack || self.remove.contains(&Removal::Labels);
        if is_about_stack && !found.is_stack_known {
            return Err(CommandError::with(
                format!(
                    "whether {} is there, and is one of Curfew, is unknown; nothing was removed",
                    context.global.stack
                ),
                "see the warning above: grant cloudformation:DescribeStacks, or name another --stack",
            ));
        }
        let stack_bucket = found.stack.as_ref().and_then(Stack::state_bucket);
        if self.delete_stack && stack_bucket.is_some() && stack_bucket != found.bucket.as_ref() {
            return Err(CommandError::with(
                "--bucket (or CURFEW_BUCKET) is not the state bucket of the stack; nothing was removed",
                "leave it out, or name the stack of that bucket by --stack",
            ));
        }
        let forwarders = found.forwarders().count();
        if self.remove.contains(&Removal::Forwarders)
            && forwarders > 0
            && found.other_deployments.as_deref() != Some(&[])
        {
            return Err(CommandError::with(
                format!("{}; nothing was removed", found.count(Removal::Forwarders)),
                "leave forwarders out, or delete their stacks in CloudFormation once no stack of Curfew in the home region needs them",
            ));
        }
        let is_about_jobs = self.delete_stack || self.remove.contains(&Removal::TeamStacks);
        let jobs = match &found.jobs {
            Some(jobs) if jobs.is_empty() => None,
            Some(jobs) => Some(format!("there are {}", screen::counted(jobs.len(), "unfinished job"))),
            None => Some("whether there are unfinished jobs is unknown".to_owned()),
        };
        if let Some(problem) = jobs.filter(|_| is_about_jobs && !self.with_running_jobs) {
            return Err(CommandError::with(
                format!("{problem}; nothing was removed"),
                "cancel them: curfew jobs, curfew cancel JOB; or add --with-running-jobs: then their machines run until their own deadline",
            ));
        }
        if self.remove.contains(&Removal::Labels) && found.stack.is_some() && !self.delete_stack {
            return Err(CommandError::with(
                "the functions would set the labels again while the stack is there; nothing was removed",
                "add --delete-stack",
            ));
        }
        Ok(())
    }

    fn question(&self, found: &Leftovers) -> String {
        let stack = found.stack.as_ref().filter(|_| self.delete_stack).map(|stack| format!("the stack {}", stack.name));
        let parts: Vec<String> =
            stack.into_iter().chain(self.remove.iter().map(|removal| found.count(*removal))).collect();
        format!("Remove {}?", if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") })
    }
}

fn show_items(items: &[LeftoverItem]) {
    if items.is_empty() {
        screen::print_line("Nothing of Curfew was found");
    }
    for LeftoverItem { found, remedy, .. } in items {
        screen::print_line(found);
        screen::print_styled(&[(screen::DIM, "  -> "), (screen::NORMAL, remedy)]);
    }
}

fn show(
    context: &CommandContext,
    outcome: &'static str,
    found: &Leftovers,
    items: &[LeftoverItem],
    report: &remove::RemovalReport,
) -> Result<(), CommandError> {
    if context.global.json {
        let (leftovers, gaps) = (items, found.gaps.as_slice());
        let (removed, failures) = (report.removed.as_slice(), report.failures.as_slice());
        return screen::json(&UninstallOutput { outcome, leftovers, gaps, removed, failures });
    }
    report.removed.iter().for_each(|line| screen::print_line(format!("removed: {line}")));
    report.failures.iter().for_each(|line| screen::print_line(format!("not removed: {line}")));
    match outcome {
        "listed" => screen::progress("Nothing was removed: --delete-stack and --remove name what is."),
        "declined" => screen::print_line("Nothing was removed, it was not confirmed"),
        _ => {}
    }
    Ok(())
}
