//! The cancellation of all jobs of a sweep.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jobs::{CancelRequest, JobId, JobOverview, Sweep, SweepSummary};
use serde::Serialize;
use store::{Store, StoreError};

use super::whole_seconds;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::states;
use crate::screen;
use crate::world;

/// Concurrent writes.
const AT_ONCE: usize = 16;

#[derive(Serialize)]
struct CancelSweepOutput<'a> {
    /// `cancelled`; `unchanged` if all are over or were cancelled before; `declined` if the person said no.
    outcome: &'static str,
    sweep: &'a JobId,
    cancelled: usize,
}

/// Also of members that have not begun yet: they end as they begin.
pub(super) async fn cancel(
    context: &CommandContext,
    store: &Store,
    sweep: &Sweep,
    yes: bool,
) -> Result<CommandStatus, CommandError> {
    let names: Vec<JobId> = sweep.numbers().map(|number| sweep.sweep.member(number)).collect();
    let read = states(store, names.clone()).await.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
    let read: Vec<JobOverview> = read.iter().map(|job| JobOverview::from_job(job, context.now)).collect();
    let is_over = |name: &JobId| read.iter().any(|job| job.over && job.job == *name);
    let left: Vec<JobId> = names.into_iter().filter(|name| !is_over(name)).collect();
    if left.is_empty() {
        return said(context, sweep, "unchanged", 0);
    }
    let states = SweepSummary::from_members(&read).describe();
    let (count, id) = (screen::counted(left.len(), "unfinished job"), &sweep.sweep);
    let question = format!("Cancel {count} of the sweep {id} ({states}), and terminate their machines?");
    if !screen::confirm(question, yes)? {
        return said(context, sweep, "declined", 0);
    }
    let wish = CancelRequest { at: whole_seconds(context.now), by: world::variable("USER") };
    let writes = left.iter().map(|job| store.cancel(job, &wish));
    let written: Vec<CancelRequest> = stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await?;
    // A member that was cancelled before has an earlier request.
    let cancelled = written.iter().filter(|request| **request == wish).count();
    said(context, sweep, if cancelled > 0 { "cancelled" } else { "unchanged" }, cancelled)
}

fn said(
    context: &CommandContext,
    sweep: &Sweep,
    outcome: &'static str,
    cancelled: usize,
) -> Result<CommandStatus, CommandError> {
    let sweep = &sweep.sweep;
    if context.global.json {
        screen::json(&CancelSweepOutput { outcome, sweep, cancelled })?;
    } else {
        let name = sweep.to_string();
        screen::print_line(match outcome {
            "cancelled" => {
                let count = screen::counted(cancelled, "job");
                format!("{name}: {count} cancelled; follow it with:  curfew jobs {}", sweep.to_shell_word())
            }
            "declined" => format!("{name}: not cancelled, it was not confirmed"),
            _ => format!("{name}: all its jobs are over or cancelled (unchanged)"),
        });
    }
    Ok(if outcome == "declined" { CommandStatus::Findings } else { CommandStatus::Success })
}
