//! A box on its way up: one line a step, until people can log in.

use std::time::Duration;

use jobs::boxes::overview::describe_start;
use jobs::boxes::{BoxReport, GpuBox};
use jobs::{CancelRequest, Job, JobId, JobOverview, Phase};
use store::{JobDocuments as _, ReconcilerDocuments as _, Store};
use tokio::time::{Instant, sleep};

use super::find::{BoxId, find_heartbeat, find_holder, find_report};
use super::ssh_files::SshFolder;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::cancel::whole_seconds;
use crate::commands::plans::minute;
use crate::context::CommandContext;
use crate::{screen, world};

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The longest wait for a machine to be ready: its home may wait for a first snapshot.
const READY_TIMEOUT: Duration = Duration::from_hours(2);

/// Follows the job until people can log in, or it has ended. Without a machine after `wait` it is cancelled: no machine starts when nobody waits for it.
pub(super) async fn follow(
    context: &CommandContext,
    store: &Store,
    id: &BoxId,
    job: &JobId,
    wait: Duration,
) -> Result<CommandStatus, CommandError> {
    let begun = Instant::now();
    let mut shown = String::new();
    loop {
        let state = store.read_job(job).await?.value;
        let state = state.ok_or_else(|| CommandError::new(format!("{job} was accepted, and has no state")))?;
        if let Phase::Ended(end) = &state.phase {
            // Somebody else has brought it up in the same moment.
            let gpu_box = store.read_box(&id.team, id.name.as_str()).await?.value;
            if let Some(gpu_box) =
                gpu_box.filter(|gpu_box| gpu_box.holder.as_ref().is_some_and(|holder| holder.job != *job))
                && say_if_up(context, store, id, &gpu_box).await?
            {
                return Ok(CommandStatus::Success);
            }
            screen::print_line(format!("{} is not up: {}", id.full(), end.why));
            return Ok(CommandStatus::Findings);
        }
        let heartbeat = find_heartbeat(store, &state).await?;
        if let Some(report) = heartbeat.as_ref().and_then(|heartbeat| heartbeat.gpu_box.as_ref()) {
            write_ssh(context, id, &state, report)?;
            screen::print_line(format!("ready: ssh {}", id.name.as_str()));
            return Ok(CommandStatus::Success);
        }
        let step = describe_start(&state, heartbeat.as_ref().map(|heartbeat| heartbeat.doing.as_str()));
        if step != shown {
            screen::print_line(&step);
            shown = step;
        }
        if state.machine().is_none() && begun.elapsed() >= wait {
            return cancel(store, id, &state, wait).await;
        }
        if begun.elapsed() >= READY_TIMEOUT {
            let advice = format!("end it:  curfew box down {}", id.to_shell_word());
            return Err(CommandError::with(
                format!("{} is not ready after {READY_TIMEOUT:?}: {shown}", id.full()),
                advice,
            ));
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn cancel(store: &Store, id: &BoxId, job: &Job, wait: Duration) -> Result<CommandStatus, CommandError> {
    let wish = CancelRequest { at: whole_seconds(world::clock()), by: world::variable("USER") };
    store.cancel(&job.job, &wish).await?;
    let why = JobOverview::from_job(job, wish.at).why;
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let minutes = wait.as_secs() / 60;
    screen::print_line(format!(
        "{} has no machine after {minutes} minutes{why}, and is cancelled, so that none starts later. Try another --gpu, --spot, or a longer --wait",
        id.full()
    ));
    Ok(CommandStatus::Findings)
}

/// Says that a box is up, or starting; `false` if it is down.
pub(super) async fn say_if_up(
    context: &CommandContext,
    store: &Store,
    id: &BoxId,
    gpu_box: &GpuBox,
) -> Result<bool, CommandError> {
    let (Some(job), Some(holder)) = (find_holder(store, gpu_box).await?, &gpu_box.holder) else { return Ok(false) };
    if job.is_removal() {
        let problem = format!("{} is being removed, since {} UTC", id.full(), minute(holder.since));
        return Err(CommandError::with(problem, "curfew box ls shows it until that is done; then bring it up again"));
    }
    let report = find_report(store, &job).await?;
    let since = report.as_ref().map_or(holder.since, |report| report.ready_at);
    if context.global.json {
        screen::json(&jobs::boxes::BoxOverview::new(gpu_box, Some(&job), report.as_ref(), context.now))?;
    }
    let Some(report) = report else {
        screen::progress(format!(
            "{} is starting since {} UTC: {}",
            id.full(),
            minute(since),
            describe_start(&job, None)
        ));
        screen::progress(format!("See it:  curfew box ls   End it:  curfew box down {}", id.to_shell_word()));
        return Ok(true);
    };
    screen::progress(format!("{} is already up since {} UTC", id.full(), minute(since)));
    write_ssh(context, id, &job, &report)?;
    if !context.global.json {
        screen::print_line(format!("ready: ssh {}", id.name.as_str()));
    }
    Ok(true)
}

/// Writes the configuration of ssh, if this computer has the key of the box.
fn write_ssh(context: &CommandContext, id: &BoxId, job: &Job, report: &BoxReport) -> Result<(), CommandError> {
    let folder = SshFolder::open()?;
    let opens = job.terms.gpu_box.as_ref().map(|terms| terms.public_key.as_str());
    if folder.read_key(id).as_deref() != opens {
        screen::warn(format!(
            "{} was brought up with the key of another computer or person: only that one opens it",
            id.full()
        ));
    }
    match job.machine() {
        Some(machine) => folder.write(context, id, &machine.instance, report),
        None => Ok(()),
    }
}
