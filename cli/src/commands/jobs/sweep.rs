//! A sweep: where each of its members stands.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use jobs::{JobId, JobOverview, Sweep, SweepSummary, parameter_sweep};
use serde::Serialize;
use store::{Store, SweepDocuments as _};

use super::show::{describe_step, length};
use super::{ShownJobs, overviews};
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{AT_ONCE, states};
use crate::screen::{self, ColumnAlignment, Table};

/// The reason: a narrow terminal shows the rest first.
const SPARED: usize = 1;

/// ```json
/// {"schema": 1, "at": "2026-11-22T05:00:00Z", "sweep": "vision/tune-1a2b3c4d", "max_parallel": 4, "members": 10,
///  "summary": {"states": {"running": 4, "succeeded": 5, "waiting": 1}, "seconds": 7200, "cost_usd_max": 3.1},
///  "jobs": [{"job": "vision/tune-0001-1a2b3c4d", "sweep": {"number": 1, "parameters": [["lr", "1e-4"], ["seed", "1"]]}, …}], "problems": []}
/// ```
/// Each of `jobs` is as in the list of jobs. Members that have not begun yet are not among them.
#[derive(Serialize)]
struct SweepOutput<'a> {
    at: Timestamp,
    sweep: &'a JobId,
    max_parallel: Option<u32>,
    members: u32,
    summary: &'a SweepSummary,
    jobs: &'a [JobOverview],
    problems: Vec<String>,
}

/// Reads the number of members of each sweep of these jobs, without unreadable sweeps.
pub(super) async fn read_sizes(store: &Store, jobs: &[JobOverview]) -> BTreeMap<JobId, u32> {
    let sweeps: BTreeSet<JobId> = jobs.iter().filter_map(JobOverview::sweep_id).collect();
    let read = stream::iter(sweeps).map(|id| async move { store.read_sweep(&id).await.ok().flatten() });
    let sizes = read.buffered(AT_ONCE).filter_map(async |sweep| sweep.map(|sweep| (sweep.sweep, sweep.plan.members())));
    sizes.collect().await
}

/// The members that have begun, and why some could not be read.
pub(super) struct SweepMembers {
    jobs: Vec<JobOverview>,
    problems: Vec<String>,
}

impl SweepMembers {
    pub(super) async fn read(store: &Store, sweep: &Sweep, now: Timestamp) -> Self {
        let names = sweep.numbers().map(|number| sweep.sweep.member(number)).collect();
        let (mut begun, mut problems) = (Vec::new(), Vec::new());
        for read in states(store, names).await {
            match read {
                Ok(job) => begun.push(job),
                Err(error) => problems.push(format!("a job could not be read: {}", describe_store_error(&error))),
            }
        }
        Self { jobs: overviews(store, begun, now).await, problems }
    }

    pub(super) fn show(
        self,
        context: &CommandContext,
        sweep: &Sweep,
        now: Timestamp,
    ) -> Result<ShownJobs, CommandError> {
        let Self { jobs, problems } = self;
        problems.iter().for_each(screen::warn);
        let status = if !problems.is_empty() {
            CommandStatus::Error
        } else if jobs.iter().any(|job| matches!(job.state, "failed" | "expired" | "cancelled")) {
            CommandStatus::Findings
        } else {
            CommandStatus::Success
        };
        let (summary, members) = (SweepSummary::from_members(&jobs), sweep.plan.members());
        let is_final = jobs.iter().all(|job| job.over) && u32::try_from(jobs.len()) == Ok(members);
        if context.global.json {
            screen::json(&SweepOutput {
                at: now,
                sweep: &sweep.sweep,
                max_parallel: sweep.plan.max_parallel,
                members,
                summary: &summary,
                jobs: &jobs,
                problems,
            })?;
        } else {
            print(sweep, &jobs, &summary, now);
        }
        Ok(ShownJobs { status, is_final })
    }
}

fn print(sweep: &Sweep, jobs: &[JobOverview], summary: &SweepSummary, now: Timestamp) {
    let mut table = Table::new([
        ("member", ColumnAlignment::Right),
        ("parameters", ColumnAlignment::Whole),
        ("state", ColumnAlignment::Left),
        ("attempts", ColumnAlignment::Right),
        ("step", ColumnAlignment::Right),
        ("ran", ColumnAlignment::Right),
        ("cost at most", ColumnAlignment::Right),
        ("why", ColumnAlignment::Left),
    ])
    .sparing(SPARED);
    for (job, member) in jobs.iter().filter_map(|job| Some((job, job.sweep.as_ref()?))) {
        table.row([
            member.number.to_string(),
            parameter_sweep::describe_parameters(&member.parameters),
            job.state.to_owned(),
            job.attempts.to_string(),
            describe_step(job, now),
            length(job.seconds),
            job.cost_usd_max.to_string(),
            job.why.clone(),
        ]);
    }
    let Sweep { sweep: id, plan, .. } = sweep;
    let members = plan.members();
    let at_once = plan.max_parallel.map(|most| format!(", at most {most} unfinished at once")).unwrap_or_default();
    let budget = plan.max_usd.map(|usd| format!(" of {usd}")).unwrap_or_default();
    screen::print_line(format!("{id}: {members} jobs{at_once}: {}", summary.describe()));
    screen::print_line(format!("together {} at most{budget}\n", summary.cost_usd_max));
    table.print();
    let first = id.member(1).to_shell_word();
    screen::progress(format!("\nDetails:  curfew jobs {first}"));
    screen::progress(format!("Its log:  curfew logs {first}"));
}
