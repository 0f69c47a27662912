//! `curfew submit`: puts a job into the inbox, after it was checked by the reconciler's rules.

mod answer;
mod container;
pub(super) mod estimate;
mod inputs;
mod role;
mod show;
pub(in crate::commands) mod trigger;
mod workdir;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ::workdir::PackedWorkdir;
use clap::Args;
use jiff::Timestamp;
use jobs::team_access::check_team;
use jobs::{InboxAnswer, JobId, JobName, JobSpec, ModelSizing, SpecMistake, TransferPrice};
use model::config::Config;
use model::id::TeamName;
use model::money::Amount;
use model::ownership::{TEAM_NAME_RULE, is_team};
use serde::Serialize;
use store::{Documents as _, MachineDocuments as _, Store, SubmittedSpec, SweepDocuments as _};

use self::estimate::JobEstimate;
use self::estimate::SweepEstimate;
use self::role::JobRole;
use self::workdir::{SubmittedWorkdir, add_digest, pack_directory, upload_archive};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Submit a GPU job, or estimate what it costs and where it would run
#[derive(Debug, Args)]
#[command(
    after_help = "It checks the file as Curfew does, and first shows where it would run now, and what it can cost at most. Exit codes: \
        0 submitted, or with --dry-run legal; 1 it has mistakes, was rejected, or would be held, or cannot be launched now; \
        2 error or incomplete result. It asks before a job that can cost more than [jobs] confirm_above_usd; without a terminal such a job \
        needs --yes.\n\nExample:\n  curfew submit train.toml --team vision --dry-run\n  \
        curfew submit train.toml --team vision --workdir . --wait"
)]
pub(crate) struct Submit {
    /// The job, as docs/jobs.md describes it; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bring this directory along: each attempt finds its files in the home of its user, except what git ignores
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    options: SubmitOptions,
    /// Wait until it is accepted or rejected
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Make it the trigger of this name, which submits a job for what arrives in a bucket ([trigger] in FILE)
    #[arg(long, value_name = "NAME", conflicts_with = "wait")]
    trigger: Option<String>,
}

/// The team that a document is of.
#[derive(Debug, Args)]
pub(crate) struct TeamOption {
    /// The team, whose budget pays [default: the only team of the configuration]
    #[arg(long, value_name = "NAME", env = "CURFEW_TEAM", hide_env_values = true)]
    pub(crate) team: Option<TeamName>,
}

/// The options of a submission.
#[derive(Debug, Args)]
pub(crate) struct SubmitOptions {
    #[command(flatten)]
    pub(crate) team: TeamOption,
    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Submit it without asking, whatever it can cost
    #[arg(long)]
    pub(crate) yes: bool,
}

/// The source of a document that options make: nobody sees its lines and keys.
pub(crate) const COMMAND_LINE: &str = "the command line";

/// A document to submit.
pub(crate) struct JobDocument {
    /// The name of the document in messages.
    pub(crate) source: String,
    /// The name of its file, which a job without `name` takes.
    pub(crate) file_name: String,
    pub(crate) bytes: Vec<u8>,
}

impl JobDocument {
    /// Reads the file; `-` is standard input.
    pub(in crate::commands) fn read(file: &Path) -> Result<Self, CommandError> {
        let file_name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { source: named(file), file_name, bytes: read(file)? })
    }
}

/// ```json
/// {"schema": 1, "file": "train.toml", "team": "vision", "role_missing": null, "inputs_denied": [],
///  "sizing": {"model": "7b", "task": "lora", "precision": "bf16", "gpu_gb_min": 31, "host_gib_min": 0,
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
///  "sweep": {"members": 10, "max_parallel": 4, "first": [["lr", "1e-4"], ["seed", "1"]], "last": [["lr", "3e-4"], ["seed", "5"]],
///            "worst_case_usd": 64.0},
///  "nodes": 1, "workdir": {"digest": "sha256:…", "entries": 12, "bytes": 4096, "archive_bytes": 1234, "uploaded": true},
///  "submitted": "inbox/vision/train.toml", "job": "vision/train-1a2b3c4d", "answer": {"accepted": true, "mistakes": []}}
/// ```
/// `sweep` is null unless the document has `[sweep]`: then `estimate` is that of one member, and `worst_case_usd` that of all. `workdir` is null without `--workdir`, and `sizing` without `[gpu] model`. Of a job on several machines `nodes` says how many, the prices of `estimate` are of all together, and `estimate.gang` is the first candidate: `{"nodes": 4, "type": "g6.12xlarge", …, "quota": "L-3819A6DF", "vcpus": 192, "root_volume_gib": 65}`. `expected_costs` is empty unless the deadline decides what the job runs on; `within_seconds` is null
/// without a deadline. `estimate` is null if it is unknown, `submitted` and `job` if nothing was submitted, and `answer` if the command did not
/// wait for one.
#[derive(Debug, Serialize)]
struct SubmitOutput<'a> {
    file: String,
    team: &'a TeamName,
    mistakes: Vec<SpecMistake>,
    /// The reason why the job would be held: its machines would get no role.
    role_missing: Option<String>,
    /// Inputs that the role of its machines may not read, and what lets it.
    inputs_denied: Vec<String>,
    /// The estimate of the memory of `[gpu] model`.
    sizing: Option<ModelSizing>,
    /// The prices of checkpoints from each region beyond the bucket's.
    transfers: Vec<TransferPrice>,
    /// The estimate of the job; if the document is a sweep, that of one member.
    estimate: Option<JobEstimate>,
    sweep: Option<SweepEstimate>,
    nodes: u8,
    workdir: Option<SubmittedWorkdir>,
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
        let document = JobDocument::read(&self.file)?;
        if let Some(name) = &self.trigger {
            let workdir = self.workdir.as_deref();
            return Box::pin(trigger::submit_trigger(context, document, &self.options, name, workdir)).await;
        }
        let submitted = Box::pin(submit(context, document, &self.options, self.workdir.as_deref(), self.wait)).await?;
        Ok(submitted.ending)
    }
}

pub(crate) struct Submitted {
    pub(crate) ending: CommandStatus,
    /// `None` if nothing was submitted.
    pub(crate) object: Option<SubmittedSpec>,
    /// The job that the object becomes once it is accepted.
    pub(crate) job: Option<JobId>,
}

/// Checks a document as `run-jobs` does, shows where it would run and what it can cost, and submits it unless it has mistakes. With a `workdir`
/// that directory is packed and uploaded before.
pub(crate) async fn submit(
    context: &CommandContext,
    document: JobDocument,
    options: &SubmitOptions,
    workdir: Option<&Path>,
    wait: bool,
) -> Result<Submitted, CommandError> {
    let document = JobDocument { bytes: container::pin_image(context, document.bytes).await?, ..document };
    let packed = workdir.map(pack_directory).transpose()?;
    let store = context.needs_deployed().await?.store;
    let config = store.read_config().await?;
    let team = options.team(&config)?;
    let mut output = SubmitOutput::new(document.source.clone(), &team, packed.as_ref());
    let read = |bytes: &[u8]| {
        JobSpec::read_bytes(bytes, &document.file_name, Some(&team), &config, context.aws.home(), context.now)
    };
    let read_all = judge_document(&store, &team, &document, packed.as_ref(), read).await?;
    let (spec, bytes) = match read_all {
        Ok(read) => read,
        Err(mistakes) => {
            output.mistakes = mistakes;
            return finish(context, &output, CommandStatus::Findings);
        }
    };
    if let Some(ending) = output.preview(context, &store, &config, (&spec, &document.bytes), options).await {
        return finish(context, &output, ending);
    }
    if !output.is_confirmed(&spec, &config, output.worst_case_usd(), options)? {
        return finish(context, &output, CommandStatus::Findings);
    }
    refuse_unanswered(&store, &team, &spec.name).await?;
    output.bring_archive(&store, &spec, packed, context.now).await?;
    let submitted = store.submit(&team, &spec.name, &String::from_utf8_lossy(&bytes)).await?;
    output.job = Some(JobId::from_object(team.clone(), &spec.name, &submitted.object));
    output.submitted = Some(submitted.key.clone());
    if !context.global.json {
        show::submitted(&output);
    }
    if !wait {
        let finished = finish(context, &output, CommandStatus::Success)?;
        return Ok(Submitted { object: Some(submitted), ..finished });
    }
    let answered = match answer::wait(&store, &submitted).await {
        Ok(answered) => answered,
        Err(unanswered) => {
            // A program learns from the document which job may still start.
            if context.global.json {
                screen::json(&output)?;
            }
            return Err(unanswered);
        }
    };
    let ending = if answered.job.is_some() { CommandStatus::Success } else { CommandStatus::Findings };
    output.answer = Some(SubmitAnswer::from(&answered));
    output.job = answered.job;
    finish(context, &output, ending)
}

/// The spec, and the bytes to submit; or every mistake, with the lines of the file as it is.
async fn judge_document(
    store: &Store,
    team: &TeamName,
    document: &JobDocument,
    packed: Option<&PackedWorkdir>,
    read: impl Fn(&[u8]) -> Result<JobSpec, Vec<SpecMistake>>,
) -> Result<Result<(JobSpec, Vec<u8>), Vec<SpecMistake>>, CommandError> {
    let bytes = &document.bytes;
    let read_all = read(bytes).and_then(|spec| match packed {
        Some(packed) => add_digest(bytes, &spec, packed).and_then(|bytes| Ok((read(&bytes)?, bytes))),
        None => Ok((spec, bytes.clone())),
    });
    let Ok((spec, _)) = &read_all else { return Ok(read_all) };
    let look = async |id: JobId| store.read_dependency(&id).await;
    let mistakes = store.find_reference_mistakes(team, &spec.work.after, &spec.terms, bytes, look).await?;
    Ok(if mistakes.is_empty() { read_all } else { Err(mistakes) })
}

/// Waits until a submitted document is answered, and shows the mistakes of a rejected one. Returns the job of an accepted one.
pub(crate) async fn wait_for_job(
    store: &Store,
    submitted: &SubmittedSpec,
    source: &str,
) -> Result<Option<JobId>, CommandError> {
    let answered = answer::wait(store, submitted).await?;
    if answered.job.is_none() {
        show::rejection(source, &answered.mistakes);
    }
    Ok(answered.job)
}

impl<'a> SubmitOutput<'a> {
    fn new(file: String, team: &'a TeamName, packed: Option<&PackedWorkdir>) -> Self {
        Self {
            file,
            team,
            mistakes: Vec::new(),
            role_missing: None,
            inputs_denied: Vec::new(),
            sizing: None,
            transfers: Vec::new(),
            estimate: None,
            sweep: None,
            nodes: 1,
            workdir: packed.map(SubmittedWorkdir::from),
            submitted: None,
            job: None,
            answer: None,
        }
    }

    /// Estimates what would come of the submission.
    async fn foresee(&mut self, context: &CommandContext, store: &Store, config: &Config, spec: &JobSpec) {
        self.sizing.clone_from(&spec.sizing);
        self.nodes = spec.terms.gpu.nodes;
        self.transfers = spec.terms.transfer_prices();
        let role = role::find(context, store, config, self.team, &spec.terms).await;
        self.inputs_denied = Box::pin(inputs::find_denied(context, self.team, &role, spec)).await;
        if let JobRole::Missing(why) = role {
            self.role_missing = Some(why);
        }
        self.estimate = estimate::estimate_job(context, store, config, (&spec.terms, self.team)).await;
        self.sweep = spec.sweep.as_ref().map(|plan| SweepEstimate::from_plan(plan, self.estimate.as_ref()));
    }

    /// Uploads the archive that the job brings along, unless the bucket has it.
    async fn bring_archive(
        &mut self,
        store: &Store,
        spec: &JobSpec,
        packed: Option<PackedWorkdir>,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        let Some(digest) = &spec.work.workdir else { return Ok(()) };
        let was_uploaded = upload_archive(store, self.team, digest, packed, now).await?;
        if let Some(workdir) = &mut self.workdir {
            workdir.uploaded = was_uploaded;
        }
        Ok(())
    }

    /// Shows that. Returns the exit code if nothing is submitted. The bytes are those in which mistakes have their lines.
    async fn preview(
        &mut self,
        context: &CommandContext,
        store: &Store,
        config: &Config,
        (spec, document): (&JobSpec, &[u8]),
        options: &SubmitOptions,
    ) -> Option<CommandStatus> {
        self.foresee(context, store, config, spec).await;
        spec.hints().iter().for_each(|hint| screen::progress(format!("hint: {hint}")));
        for unknown in spec.terms.gpu.types_of_unknown_families() {
            screen::warn(format!(
                "gpu.types names {unknown}, of a family that Curfew does not know: the job runs on it only if EC2 offers it"
            ));
        }
        let gang = self.estimate.as_ref().and_then(|estimate| estimate.gang.as_ref());
        gang.and_then(|gang| gang.warn_of_disk(&spec.terms)).into_iter().for_each(screen::warn);
        if !context.global.json {
            self.sweep.iter().for_each(show::sweep);
            show::estimate(spec, self.estimate.as_ref(), self.role_missing.as_deref());
        }
        if let Some(estimate) = &self.estimate {
            self.mistakes = spec.refuse_max_usd(document, &estimate.candidates);
            let refused = estimate.refused_network.iter();
            self.mistakes.extend(refused.flat_map(|why| JobSpec::refuse_network(document, why)));
        }
        if !self.inputs_denied.is_empty() || !self.mistakes.is_empty() {
            return Some(CommandStatus::Findings);
        }
        options.dry_run.then(|| self.expected_ending())
    }

    /// Returns the most that the job, or all members of the sweep, can cost.
    fn worst_case_usd(&self) -> Option<Amount> {
        match &self.sweep {
            Some(sweep) => sweep.worst_case_usd,
            None => self.estimate.as_ref()?.worst_case.map(|worst| worst.usd),
        }
    }

    /// Returns the status of the command, by whether the job could be launched now.
    const fn expected_ending(&self) -> CommandStatus {
        match &self.estimate {
            None => CommandStatus::Error,
            Some(JobEstimate { nowhere: Some(_), .. }) => CommandStatus::Findings,
            Some(_) if self.role_missing.is_some() => CommandStatus::Findings,
            Some(_) => CommandStatus::Success,
        }
    }
}

impl SubmitOptions {
    pub(super) fn team(&self, config: &Config) -> Result<TeamName, CommandError> {
        self.team.find(config)
    }
}

impl TeamOption {
    /// [`Self::find`], where a team that has no jobs is a mistake.
    pub(super) fn find_with_jobs(&self, config: &Config) -> Result<TeamName, CommandError> {
        let team = self.find(config)?;
        check_team(&team, config).map_err(CommandError::new)?;
        Ok(team)
    }

    /// Finds the team: the named one, or the only one of the configuration.
    pub(super) fn find(&self, config: &Config) -> Result<TeamName, CommandError> {
        if let Some(team) = &self.team {
            if is_team(team.as_str()) {
                return Ok(team.clone());
            }
            return Err(CommandError::with(format!("--team {:?} names no team", team.as_str()), TEAM_NAME_RULE));
        }
        let mut names = config.named_teams();
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
    config.named_teams().map(TeamName::as_str).collect::<Vec<_>>().join(", ")
}

/// Not over an unanswered document: it would never be answered.
pub(crate) async fn refuse_unanswered(store: &Store, team: &TeamName, name: &JobName) -> Result<(), CommandError> {
    match answer::unanswered(store, team, name).await? {
        None => Ok(()),
        Some(key) => Err(CommandError::with(
            format!("{key} exists already, and has no answer yet"),
            "wait for its answer, or use another name; if none comes, run curfew doctor",
        )),
    }
}

fn finish(
    context: &CommandContext,
    output: &SubmitOutput<'_>,
    ending: CommandStatus,
) -> Result<Submitted, CommandError> {
    if context.global.json {
        screen::json(output)?;
    } else {
        show::end(output);
    }
    Ok(Submitted { ending, object: None, job: output.job.clone() })
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
