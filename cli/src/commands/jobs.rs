//! `curfew jobs`: where jobs stand, or one of them in full.

mod read;
mod show;

use clap::Args;
use jiff::Timestamp;
use jobs::{Job, JobOverview};
use model::id::TeamName;
use serde::Serialize;

use self::read::JobDetails;
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{resolve_job, states};
use crate::screen;

/// List unfinished jobs, or show one in full
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it goes on, or has succeeded; 1 one that was named failed, expired or was cancelled; 2 nobody can \
                        say.\n\nExample:\n  curfew jobs\n  curfew jobs --all --team vision\n  curfew jobs llama"
)]
pub(crate) struct Jobs {
    /// One job: <team>/<job>, or a part of that which no other job has
    #[arg(value_name = "JOB", conflicts_with_all = ["all", "team"])]
    job: Option<String>,
    /// Also those that are over
    #[arg(long)]
    all: bool,
    /// Of one team only
    #[arg(long, value_name = "TEAM")]
    team: Option<TeamName>,
}

/// ```json
/// {"schema": 1, "at": "2026-11-22T05:00:00Z",
///  "jobs": [{"job": "vision/llama-1a2b3c4d", "owner": "ada", "state": "running", "over": false, "why": "", "submitted_at": "…",
///            "attempts": 1, "machine": {"instance": "i-…", …}, "step": 1200, "seconds": 3600, "cost_usd_max": 0.41, "until": "…"}],
///  "troubles": []}
/// ```
/// `machine` is null where there is none. `until` is when it ended; of one that runs the absolute end of its attempt; of one that waits
/// or is held when it is tried again. `troubles` says what could not be read.
#[derive(Serialize)]
struct JobListOutput<'a> {
    schema: u32,
    at: Timestamp,
    jobs: &'a [JobOverview],
    troubles: Vec<String>,
}

/// The same of one, and besides what it was asked for by, and what its agent last said: `heartbeat.trouble` is what that found out.
#[derive(Serialize)]
struct JobOutput<'a> {
    schema: u32,
    at: Timestamp,
    #[serde(flatten)]
    overview: &'a JobOverview,
    #[serde(flatten)]
    details: &'a JobDetails,
    terms: &'a jobs::JobTerms,
    troubles: &'a [String],
}

impl Jobs {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        match &self.job {
            Some(named) => show_one_job(context, named).await,
            None => self.list(context).await,
        }
    }

    async fn list(&self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let names = if self.all { store.jobs(self.team.as_ref()).await? } else { store.active().await? };
        let of_team = |team: &TeamName| self.team.as_ref().is_none_or(|wanted| wanted == team);
        let names = names.into_iter().filter(|id| of_team(&id.team)).collect();
        let (mut jobs, mut troubles) = (Vec::new(), Vec::new());
        for read in states(&store, names).await {
            match read {
                Ok(job) => jobs.push(JobOverview::from_job(&job, context.now)),
                Err(error) => troubles.push(format!("a job could not be read: {}", describe_store_error(&error))),
            }
        }
        jobs.sort_by_key(|job| (job.over, std::cmp::Reverse(job.submitted_at)));
        for trouble in &troubles {
            screen::warn(trouble);
        }
        let ending = if troubles.is_empty() { CommandStatus::Success } else { CommandStatus::Error };
        if context.global.json {
            screen::json(&JobListOutput { schema: screen::SCHEMA, at: context.now, jobs: &jobs, troubles })?;
        } else {
            show::print_jobs(&jobs, self.all, context.now);
        }
        Ok(ending)
    }
}

async fn show_one_job(context: &CommandContext, named: &str) -> Result<CommandStatus, CommandError> {
    let store = context.needs_deployed().await?.store;
    let job: Job = resolve_job(&store, named).await?;
    let overview = JobOverview::from_job(&job, context.now);
    let (details, troubles) = Box::pin(JobDetails::read(&store, &job)).await;
    for trouble in &troubles {
        screen::warn(trouble);
    }
    if context.global.json {
        screen::json(&JobOutput {
            schema: screen::SCHEMA,
            at: context.now,
            overview: &overview,
            details: &details,
            terms: &job.terms,
            troubles: &troubles,
        })?;
    } else {
        show::print_job(&job, &overview, &details, context.now);
    }
    Ok(match overview.state {
        _ if !troubles.is_empty() => CommandStatus::Error,
        "failed" | "expired" | "cancelled" => CommandStatus::Findings,
        _ => CommandStatus::Success,
    })
}
