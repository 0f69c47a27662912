//! `curfew cancel`: cancels a job, or all jobs of a sweep.

mod sweep;

use clap::Args;
use jiff::Timestamp;
use jobs::{CancelRequest as Wish, Job, JobOverview};
use serde::Serialize;
use store::ReconcilerDocuments as _;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{NameUse, NamedWork, resolve};
use crate::screen;
use crate::world;

/// Cancel a job, or all jobs of a sweep, whatever their state
#[derive(Debug, Args)]
#[command(
    after_help = "Its machine is terminated within a minute or two; its checkpoints and its log stay. What it wrote since its newest \
                  complete checkpoint is lost. A job that is cancelled does not come back: submit it again.\n\n\
                  Example:\n  curfew cancel llama\n  curfew cancel vision/llama-1a2b3c4d --yes\n  curfew cancel tune-1a2b3c4d"
)]
pub(crate) struct Cancel {
    /// Name of the job or sweep: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB")]
    job: String,
    /// Act without asking
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct CancelOutput<'a> {
    /// `cancelled`; `unchanged` if it was already over or cancelled; `declined` if the person said no.
    outcome: &'static str,
    cancel: Option<&'a Wish>,
    #[serde(flatten)]
    overview: &'a JobOverview,
}

impl Cancel {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let job = match resolve(&store, &self.job, NameUse::Act).await? {
            NamedWork::Job(job) => job,
            NamedWork::Sweep(sweep) => return sweep::cancel(context, &store, &sweep, self.yes).await,
        };
        let overview = JobOverview::from_job(&job, context.now);
        if overview.over {
            return said(context, &overview, "unchanged", None);
        }
        if let Some(before) = store.read_cancel(&job.job).await? {
            return said(context, &overview, "unchanged", Some(&before));
        }
        if !screen::confirm(question(&job, &overview), self.yes)? {
            return said(context, &overview, "declined", None);
        }
        let wish = Wish { at: whole_seconds(context.now), by: world::variable("USER") };
        let there = store.cancel(&job.job, &wish).await?;
        said(context, &overview, if there == wish { "cancelled" } else { "unchanged" }, Some(&there))
    }
}

pub(crate) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn question(job: &Job, overview: &JobOverview) -> String {
    let machine = match &overview.machine {
        Some(machine) => format!(", and terminate {} ({})", machine.name_instances(), machine.name_type()),
        None => String::new(),
    };
    let kept = match (job.terms.checkpoint.is_some(), overview.step) {
        (_, Some(step)) => format!(" Its checkpoint of step {step} stays."),
        (true, None) => " It has no known complete checkpoint.".to_owned(),
        (false, None) => String::new(),
    };
    format!("Cancel {}, which is {}{machine}?{kept}", overview.job, overview.state)
}

fn said(
    context: &CommandContext,
    overview: &JobOverview,
    outcome: &'static str,
    cancel: Option<&Wish>,
) -> Result<CommandStatus, CommandError> {
    if context.global.json {
        screen::json(&CancelOutput { outcome, cancel, overview })?;
    } else {
        let job = overview.job.to_string();
        screen::print_line(match (outcome, cancel) {
            ("cancelled", _) => {
                format!("{job}: is cancelled; follow it with:  curfew jobs {}", overview.job.to_shell_word())
            }
            ("declined", _) => format!("{job}: not cancelled, it was not confirmed"),
            (_, Some(before)) => format!("{job}: was cancelled at {} (unchanged)", before.at),
            (_, None) => format!("{job}: has {} (unchanged)", past(overview.state)),
        });
    }
    Ok(if outcome == "declined" { CommandStatus::Findings } else { CommandStatus::Success })
}

fn past(state: &str) -> String {
    if state == "cancelled" { "been cancelled".to_owned() } else { state.to_owned() }
}
