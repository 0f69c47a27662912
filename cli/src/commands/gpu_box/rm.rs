//! `curfew box rm`: removes a box, whole or all but its last snapshot.

use std::time::Duration;

use clap::Args;
use jobs::boxes::{BoxRemoval, GpuBox};
use jobs::{BoxJob, Job, JobId, JobResult, Phase};
use serde::Serialize;
use store::{JobDocuments as _, Store};
use tokio::time::{Instant, sleep};

use super::find::{BoxId, find_box, find_holder};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::submit::{COMMAND_LINE, refuse_unanswered, wait_for_job};
use crate::context::CommandContext;
use crate::{screen, world};

/// Most removals are a matter of seconds; one may wait for a snapshot.
const TIMEOUT: Duration = Duration::from_mins(5);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Remove a box that is down
#[derive(Debug, Args)]
#[command(
    after_help = "Its volume is deleted once a snapshot has all that is in it; that snapshot stays, and `curfew box up` makes the home anew from it. \
                  With --everything its snapshots go, too: then nothing brings its files back. The box of another person needs its full name, \
                  <team>/<name>. Exit codes: 0 removed; 1 not removed; 2 error, or not done within 5 minutes.\n\nExample:\n  curfew box rm my-box\n  \
                  curfew box rm vision/my-box --everything"
)]
pub(crate) struct Rm {
    /// Name of the box: <name>, or <team>/<name>
    #[arg(value_name = "NAME")]
    name: String,
    /// Delete its snapshots as well, for good
    #[arg(long)]
    everything: bool,
    /// Act without asking
    #[arg(long)]
    yes: bool,
    /// The person who asks
    #[arg(long, value_name = "NAME", env = "CURFEW_OWNER", hide_env_values = true)]
    owner: Option<String>,
}

#[derive(Serialize)]
struct RmOutput<'a> {
    /// `removed`; `failed`; `declined` if the person said no.
    outcome: &'static str,
    #[serde(rename = "box")]
    name: String,
    job: Option<&'a JobId>,
    /// The reason for the outcome, where there is one.
    why: Option<String>,
}

impl Rm {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let (id, gpu_box) = find_box(&store, &self.name).await?;
        let holder = find_holder(&store, &gpu_box).await?;
        if holder.as_ref().is_some_and(Job::is_removal) {
            return Err(CommandError::with(
                format!("{} is being removed already", id.full()),
                "curfew box ls shows it until that is done",
            ));
        }
        if holder.is_some() {
            let advice = format!("end it first:  curfew box down {}", id.to_shell_word());
            return Err(CommandError::with(format!("{} is up", id.full()), advice));
        }
        let person = self.owner.clone().or_else(|| world::variable("USER"));
        let owner = gpu_box.owner.as_ref().filter(|owner| Some(*owner) != person.as_ref());
        if let Some(owner) = owner.filter(|_| !self.name.contains('/')) {
            let advice = format!("write its full name:  curfew box rm {}", id.to_shell_word());
            return Err(CommandError::with(format!("{} belongs to {owner}", id.full()), advice));
        }
        let mut output = RmOutput { outcome: "declined", name: id.full(), job: None, why: None };
        if !screen::confirm(question(&id, &gpu_box, self.everything), self.yes)? {
            return show(context, &output, format!("{}: stays, it was not confirmed", id.full()));
        }
        let what = if self.everything { BoxRemoval::Everything } else { BoxRemoval::Volume };
        let document = BoxJob::removal(id.name.as_str(), person.as_deref(), what);
        refuse_unanswered(&store, &id.team, &id.name).await?;
        let submitted = store.submit(&id.team, &id.name, &document).await?;
        let Some(job) = wait_for_job(&store, &submitted, COMMAND_LINE).await? else {
            return Ok(CommandStatus::Findings);
        };
        let (result, why) = wait(&store, &id, &job).await?;
        output.job = Some(&job);
        let line = match result {
            JobResult::Succeeded if self.everything => format!("{}: removed, with its snapshots", id.full()),
            JobResult::Succeeded => format!(
                "{}: its volume is deleted. Bring it back from its snapshot:  curfew box up {}",
                id.full(),
                id.to_shell_word()
            ),
            _ => format!("{}: not removed: {why}", id.full()),
        };
        (output.outcome, output.why) =
            if result == JobResult::Succeeded { ("removed", None) } else { ("failed", Some(why)) };
        show(context, &output, line)
    }
}

async fn wait(store: &Store, id: &BoxId, job: &JobId) -> Result<(JobResult, String), CommandError> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(Phase::Ended(end)) = store.read_job(job).await?.value.map(|job| job.phase) {
            return Ok((end.result, end.why));
        }
        if Instant::now() + LOOK_EVERY > deadline {
            return Err(CommandError::with(
                format!("{} is not removed within {TIMEOUT:?}; it goes on", id.full()),
                "curfew box ls shows it until that is done; a snapshot may take a while",
            ));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn question(id: &BoxId, gpu_box: &GpuBox, everything: bool) -> String {
    let owner = gpu_box.owner.as_deref().map(|owner| format!(" of {owner}")).unwrap_or_default();
    let (name, size) = (id.full(), gpu_box.home.size_gib);
    if everything {
        return format!(
            "Delete the home of the box {name}{owner} ({size} GB) and its snapshots? Nothing brings its files back."
        );
    }
    format!("Delete the home of the box {name}{owner} ({size} GB)? Its last snapshot stays, and `up` makes it anew.")
}

fn show(context: &CommandContext, output: &RmOutput<'_>, line: String) -> Result<CommandStatus, CommandError> {
    if context.global.json {
        screen::json(output)?;
    } else {
        screen::print_line(line);
    }
    Ok(if output.outcome == "removed" { CommandStatus::Success } else { CommandStatus::Findings })
}
