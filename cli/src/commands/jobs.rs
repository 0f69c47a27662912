//! `curfew jobs`: the states of jobs, or one of them in full.

mod nodes;
mod read;
mod show;
mod sweep;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use jobs::{Job, JobCompletion, JobOverview, Phase};
use model::id::TeamName;
use serde::Serialize;
use store::{MachineDocument, MachineDocuments as _, ReconcilerDocuments as _, Store};

use self::read::JobDetails;
use self::sweep::SweepMembers;
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::node_heartbeats::read_node_heartbeats;
use crate::resolve_job::{AT_ONCE, NameUse, NamedWork, resolve, states};
use crate::{screen, world};

/// The states change once a minute at most, except at an event.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// List unfinished jobs, with each sweep as one row, or show one job or sweep in full
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 unfinished or succeeded; 1 the named job, or one of the named sweep, failed, expired or was \
                        cancelled; 2 error or incomplete result.\n\nExample:\n  curfew jobs\n  curfew jobs --all --team vision\n  curfew jobs llama\n  curfew jobs tune-1a2b3c4d\n  \
                        curfew jobs llama --watch"
)]
pub(crate) struct Jobs {
    /// Name of the job or sweep: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB", conflicts_with_all = ["all", "team"])]
    job: Option<String>,
    /// Also list finished jobs
    #[arg(long)]
    all: bool,
    /// List jobs of this team only
    #[arg(long, value_name = "TEAM")]
    team: Option<TeamName>,
    /// Show it again every five seconds, until the named job has ended
    #[arg(long, short, conflicts_with = "json")]
    watch: bool,
}

/// ```json
/// {"schema": 1, "at": "2026-11-22T05:00:00Z",
///  "jobs": [{"job": "vision/llama-1a2b3c4d", "owner": "ada", "state": "running", "over": false, "why": "", "submitted_at": "…",
///            "attempts": 1, "machine": {"instance": "i-…", …}, "step": 1200, "step_at": "…", "slack_seconds": null,
///            "seconds": 3600, "cost_usd_max": 0.41,
///            "footprint": {"energy_kwh": {"low": 0.027, "high": 0.45}, "operational_kg_co2e": {…}, "embodied_kg_co2e": {…}}, "until": "…"}],
///  "problems": []}
/// ```
/// `machine` is null if there is none. `until` is when the job ended; for a running job the absolute end of its attempt; for a waiting or held job
/// its next try. `step_at` is null if the time of the step is unknown, or was in an earlier attempt. A job of a sweep has `sweep`, with its number and parameters. `slack_seconds` is the time to spare of a job whose deadline decides what it runs on. `problems` says what could not be read.
#[derive(Serialize)]
struct JobListOutput<'a> {
    at: Timestamp,
    jobs: &'a [JobOverview],
    problems: Vec<String>,
}

/// One job, with its terms and its agent's last heartbeat: `heartbeat.problem` is the agent's warning. Of a job on several machines, `heartbeat` is
/// that of the node which was silent the longest, and `nodes` has each: `[{"node": 0, "instance": "i-…", "address": "10.0.1.11", "doing": "running",
/// "step": 120, "gpu_percent": 97.0, "at": "…"}]`, with null for what is unknown; `stop` says why all end. `trigger` has the variables of the trigger
/// that made it, and `outputs` is the folder of its outputs, once it has succeeded. `completion` is null unless its document says
/// how many steps it takes.
#[derive(Serialize)]
struct JobOutput<'a> {
    at: Timestamp,
    #[serde(flatten)]
    overview: &'a JobOverview,
    #[serde(flatten)]
    details: &'a JobDetails,
    terms: &'a jobs::JobTerms,
    completion: Option<JobCompletion>,
    problems: &'a [String],
}

/// Builds the overviews, with the time of the step if a machine runs. A heartbeat that cannot be read leaves that time out.
async fn overviews(store: &Store, jobs: Vec<Job>, now: Timestamp) -> Vec<JobOverview> {
    let overviews = jobs.into_iter().map(|job| async move {
        let overview = JobOverview::from_job(&job, now);
        if overview.step.is_none() || !matches!(job.phase, Phase::Running(_)) {
            return overview;
        }
        if let Some(gang) = job.machine().and_then(|machine| machine.gang(&job.job)) {
            return overview.with_node_step_times(&read_node_heartbeats(store, &gang).await.0);
        }
        match store.read_heartbeat(&job.job, job.machine_attempt()).await {
            Ok(MachineDocument::Believed(beat)) => overview.with_step_time(&beat.heartbeat, beat.at),
            Ok(MachineDocument::Absent | MachineDocument::Refused(_)) | Err(_) => overview,
        }
    });
    stream::iter(overviews).buffered(AT_ONCE).collect().await
}

/// The status of the jobs as shown, and whether they can still change.
struct ShownJobs {
    status: CommandStatus,
    is_final: bool,
}

impl Jobs {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        if self.watch && !screen::is_terminal() {
            return Err(CommandError::with("--watch needs a terminal", "use --json in a loop of your own"));
        }
        let store = context.needs_deployed().await?.store;
        // What a name means is found once: a watched screen does not jump to another job.
        let mut named = self.job.clone();
        loop {
            let now = if self.watch { world::clock() } else { context.now };
            let shown = match &mut named {
                Some(named) => self.show_named(context, &store, named, now).await?,
                None => self.list(context, &store, now).await?,
            };
            if !self.watch || shown.is_final {
                return Ok(shown.status);
            }
            screen::progress("Ctrl-C leaves this screen, and no job");
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    async fn list(&self, context: &CommandContext, store: &Store, now: Timestamp) -> Result<ShownJobs, CommandError> {
        let names = if self.all { store.jobs(self.team.as_ref()).await? } else { store.active().await? };
        let of_team = |team: &TeamName| self.team.as_ref().is_none_or(|wanted| wanted == team);
        let names = names.into_iter().filter(|id| of_team(&id.team)).collect();
        let (mut read_jobs, mut problems) = (Vec::new(), Vec::new());
        for read in states(store, names).await {
            match read {
                Ok(job) => read_jobs.push(job),
                Err(error) => problems.push(format!("a job could not be read: {}", describe_store_error(&error))),
            }
        }
        let mut jobs = overviews(store, read_jobs, now).await;
        jobs.sort_by_key(|job| (job.over, std::cmp::Reverse(job.submitted_at)));
        self.clear();
        for problem in &problems {
            screen::warn(problem);
        }
        if jobs.is_empty() && problems.is_empty() {
            self.warn_of_unknown_team(store).await?;
        }
        let status = if problems.is_empty() { CommandStatus::Success } else { CommandStatus::Error };
        if context.global.json {
            screen::json(&JobListOutput { at: now, jobs: &jobs, problems })?;
        } else {
            // With --all each row counts all members.
            let sizes = if self.all { BTreeMap::new() } else { sweep::read_sizes(store, &jobs).await };
            show::print_jobs(&jobs, &sizes, self.all, now);
        }
        Ok(ShownJobs { status, is_final: false })
    }

    async fn warn_of_unknown_team(&self, store: &Store) -> Result<(), CommandError> {
        let Some(team) = &self.team else { return Ok(()) };
        let teams = store.teams_with_jobs().await?;
        if !teams.contains(team) {
            let teams: Vec<&str> = teams.iter().map(TeamName::as_str).collect();
            let others = if teams.is_empty() { String::new() } else { format!("; there are of {}", teams.join(", ")) };
            screen::warn(format!("there are no jobs of a team {team}{others}"));
        }
        Ok(())
    }

    async fn show_named(
        &self,
        context: &CommandContext,
        store: &Store,
        named: &mut String,
        now: Timestamp,
    ) -> Result<ShownJobs, CommandError> {
        let work = resolve(store, named, NameUse::Show).await?;
        *named = work.id().to_string();
        match work {
            NamedWork::Job(job) => self.show_one_job(context, store, &job, now).await,
            NamedWork::Sweep(sweep) => {
                let members = SweepMembers::read(store, &sweep, now).await;
                self.clear();
                members.show(context, &sweep, now)
            }
        }
    }

    async fn show_one_job(
        &self,
        context: &CommandContext,
        store: &Store,
        job: &Job,
        now: Timestamp,
    ) -> Result<ShownJobs, CommandError> {
        let (details, problems) = Box::pin(JobDetails::read(store, job)).await;
        let overview = JobOverview::from_job(job, now);
        let overview = match details.heartbeat.as_ref().and_then(|heartbeat| heartbeat.gpus.as_ref()) {
            Some(work) => overview.with_gpu_work(job, work, now),
            None => overview,
        };
        let overview = match details.heartbeat.as_ref().zip(details.heartbeat_at) {
            Some(_) if !details.beats.is_empty() => overview.with_node_step_times(&details.beats),
            Some((heartbeat, at)) => overview.with_step_time(heartbeat, at),
            None => overview,
        };
        let completion = JobCompletion::from_job(job, details.heartbeat.as_ref(), now);
        self.clear();
        for problem in &problems {
            screen::warn(problem);
        }
        if context.global.json {
            screen::json(&JobOutput {
                at: now,
                overview: &overview,
                details: &details,
                terms: &job.terms,
                completion,
                problems: &problems,
            })?;
        } else {
            show::print_job(job, &overview, &details, completion.as_ref(), now);
        }
        let status = match overview.state {
            _ if !problems.is_empty() => CommandStatus::Error,
            "failed" | "expired" | "cancelled" => CommandStatus::Findings,
            _ => CommandStatus::Success,
        };
        Ok(ShownJobs { status, is_final: overview.over })
    }

    /// Empties the terminal before the next picture.
    fn clear(&self) {
        if self.watch {
            screen::clear();
        }
    }
}
