//! `curfew submit`: puts a job into the inbox, after it was checked by the reconciler's rules.

mod answer;
mod estimate;
mod role;
mod show;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use jobs::{InboxAnswer, JobId, JobSpec, ModelSizing, SpecMistake, TransferPrice};
use model::config::Config;
use model::id::TeamName;
use model::ownership::{TEAM_NAME_RULE, is_team};
use serde::Serialize;
use store::{Store, SubmittedSpec};

use self::estimate::JobEstimate;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Submit a GPU job, or estimate what it costs and where it would run
#[derive(Debug, Args)]
#[command(
    after_help = "It checks the file as Curfew does, and first shows where it would run now, and what it can cost at most. Exit codes: \
        0 submitted, or with --dry-run legal; 1 it has mistakes, was rejected, or would be held, or cannot be launched now; \
        2 error or incomplete result.\n\nExample:\n  curfew submit train.toml --team vision --dry-run\n  \
        curfew submit train.toml --team vision --wait"
)]
pub(crate) struct Submit {
    /// The job, as docs/jobs.md describes it; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Submit it for this team, on its budget [default: the only team of the configuration]
    #[arg(long, value_name = "NAME", env = "CURFEW_TEAM", hide_env_values = true)]
    team: Option<TeamName>,
    /// Only show what would happen
    #[arg(long)]
    dry_run: bool,
    /// Wait until it is accepted or rejected
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// ```json
/// {"schema": 1, "file": "train.toml", "team": "vision", "role_missing": null,
///  "sizing": {"model": "7b", "task": "lora", "precision": "bf16", "gpu_gb_min": 31,
///             "estimate": {"strategy": "data", "gpus": 1, "parameters": 7000000000, "weights_gib": 13.2, …, "total_gib": 25.6}},
///  "mistakes": [{"line": 3, "key": "gpu.count", "problem": "…"}],
///  "transfers": [{"region": "us-west-2", "bucket_region": "us-east-1", "upload_usd_per_gb": 0.02, "download_usd_per_gb": 0.02,
///                 "size_gb": 10, "upload_usd": 0.2, "upload_usd_per_day": 19.2}],
///  "estimate": {"candidates": [{"region": "us-east-1", …, "rate": 0.31, "rate_max": 0.8}],
///               "worst_case": {"seconds": 28800, "usd_per_hour": 0.8, "usd": 6.4},
///               "expected_costs": [{"within_seconds": 187200, "usd": 19.2, "usd_low": 15.1, "usd_high": 27.4}],
///               "footprint": {"type": "g5.xlarge", "region": "us-east-1",
///                             "per_hour": {"energy_kwh": {"low": 0.027, "high": 0.45}, "operational_kg_co2e": {…}, "embodied_kg_co2e": {…}},
///                             "run_seconds": 28800, "is_most": true, "run": {…}, "caveats": ["…"]}, "nowhere": null},
///  "submitted": "inbox/vision/train.toml", "job": "vision/train-1a2b3c4d", "answer": {"accepted": true, "mistakes": []}}
/// ```
/// `sizing` is null without `[gpu] model`. `expected_costs` is empty unless the deadline decides what the job runs on; `within_seconds` is null
/// without a deadline. `estimate` is null if it is unknown, `submitted` and `job` if nothing was submitted, and `answer` if the command did not
/// wait for one.
#[derive(Debug, Serialize)]
struct SubmitOutput<'a> {
    schema: u32,
    file: String,
    team: &'a TeamName,
    mistakes: Vec<SpecMistake>,
    /// Why it would be held: its machines would get no role.
    role_missing: Option<String>,
    /// How the memory of `[gpu] model` was estimated.
    sizing: Option<ModelSizing>,
    /// What checkpoints cost from each region beyond the bucket's.
    transfers: Vec<TransferPrice>,
    estimate: Option<JobEstimate>,
    submitted: Option<String>,
    job: Option<JobId>,
    answer: Option<SubmitAnswer>,
}

#[derive(Debug, Serialize)]
struct SubmitAnswer {
    accepted: bool,
    mistakes: Vec<SpecMistake>,
}

impl Submit {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let bytes = read(&self.file)?;
        let store = context.needs_deployed().await?.store;
        let config = store.read_config().await?;
        let team = self.team(&config)?;
        let mut document = SubmitOutput {
            schema: screen::SCHEMA,
            file: named(&self.file),
            team: &team,
            mistakes: Vec::new(),
            role_missing: None,
            sizing: None,
            transfers: Vec::new(),
            estimate: None,
            submitted: None,
            job: None,
            answer: None,
        };
        let name = self.file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let spec = match JobSpec::read_bytes(&bytes, &name, Some(&team), &config, context.aws.home(), context.now) {
            Ok(spec) => spec,
            Err(mistakes) => {
                document.mistakes = mistakes;
                return finish(context, &document, CommandStatus::Findings);
            }
        };
        if !config.teams.is_empty() && config.team(&team).is_none() {
            screen::warn(format!("the configuration has no team {team}; it has {}", teams(&config)));
        }
        document.sizing.clone_from(&spec.sizing);
        document.transfers = spec.terms.transfer_prices();
        document.role_missing = role::missing(context, &store, &config, &team, &spec.terms).await;
        document.estimate = estimate::estimate_job(context, &store, &config, &spec.terms).await;
        if !context.global.json {
            show::estimate(&spec, document.estimate.as_ref());
            if let Some(missing) = &document.role_missing {
                screen::warn(format!("it would be held: {missing}"));
            }
        }
        if self.dry_run {
            let ending = match &document.estimate {
                None => CommandStatus::Error,
                Some(JobEstimate { nowhere: Some(_), .. }) => CommandStatus::Findings,
                Some(_) if document.role_missing.is_some() => CommandStatus::Findings,
                Some(_) => CommandStatus::Success,
            };
            return finish(context, &document, ending);
        }
        let submitted = put(&store, &team, &spec, &bytes).await?;
        document.job = Some(JobId::from_object(team.clone(), &spec.name, &submitted.object));
        document.submitted = Some(submitted.key.clone());
        if !context.global.json {
            show::submitted(&document);
        }
        if !self.wait {
            return finish(context, &document, CommandStatus::Success);
        }
        let answered = answer::wait(&store, &submitted).await?;
        let ending = if answered.job.is_some() { CommandStatus::Success } else { CommandStatus::Findings };
        document.answer = Some(SubmitAnswer::from(&answered));
        document.job = answered.job;
        finish(context, &document, ending)
    }

    fn team(&self, config: &Config) -> Result<TeamName, CommandError> {
        if let Some(team) = &self.team {
            if is_team(team.as_str()) {
                return Ok(team.clone());
            }
            return Err(CommandError::with(format!("--team {:?} names no team", team.as_str()), TEAM_NAME_RULE));
        }
        let mut names = config.teams.keys();
        match (names.next(), names.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(CommandError::new("no team: name it by --team or CURFEW_TEAM")),
            _ => Err(CommandError::new(format!(
                "no team: name it by --team or CURFEW_TEAM; the configuration has {}",
                teams(config)
            ))),
        }
    }
}

fn teams(config: &Config) -> String {
    config.teams.keys().map(TeamName::as_str).collect::<Vec<_>>().join(", ")
}

/// Not over an unanswered document: it would never be answered.
async fn put(store: &Store, team: &TeamName, spec: &JobSpec, bytes: &[u8]) -> Result<SubmittedSpec, CommandError> {
    if let Some(key) = answer::unanswered(store, team, &spec.name).await? {
        return Err(CommandError::with(
            format!("{key} exists already, and has no answer yet"),
            "wait for its answer, or use another name; if none comes, run curfew doctor",
        ));
    }
    let text = String::from_utf8_lossy(bytes);
    Ok(store.submit(team, &spec.name, &text).await?)
}

fn finish(
    context: &CommandContext,
    document: &SubmitOutput<'_>,
    ending: CommandStatus,
) -> Result<CommandStatus, CommandError> {
    if context.global.json {
        screen::json(document)?;
    } else {
        show::end(document);
    }
    Ok(ending)
}

/// The bytes of a file, up to one more than the limit; `-` is standard input.
fn read(file: &Path) -> Result<Vec<u8>, CommandError> {
    let bytes_max = u64::try_from(JobSpec::BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(bytes_max).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(bytes_max).read_to_end(&mut bytes))
    };
    read.map_err(|error| CommandError::new(format!("{} cannot be read: {error}", named(file))))?;
    Ok(bytes)
}

fn named(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

impl From<&InboxAnswer> for SubmitAnswer {
    fn from(answered: &InboxAnswer) -> Self {
        Self { accepted: answered.job.is_some(), mistakes: answered.mistakes.clone() }
    }
}
