//! `curfew run`: a command as a job, from its submission to its exit code.

use std::path::PathBuf;

use clap::Args;
use jobs::{CancelRequest, CommandJob, Job, JobId, JobResult, Phase};
use model::config::Config;
use model::duration;
use recommend::GpuRequest;
use store::{Documents as _, JobDocuments as _, MachineDocument, MachineDocuments as _, Store, SubmittedSpec};
use tokio::signal::ctrl_c;

use super::cancel::whole_seconds;
use super::logs::follow;
use super::submit::{COMMAND_LINE, JobDocument, SubmitOptions, submit, wait_for_job};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::{screen, world};

/// Exit code of a shell after Ctrl-C: 128 and the number of SIGINT (POSIX.1-2024, "Exit Status for Commands").
const INTERRUPTED: u8 = 130;

/// The limit of a command without one: days are meant seldom, and are money.
const MAX_RUNTIME: &str = "24h";

/// Run a command on a GPU machine, and follow it to its end
#[derive(Debug, Args)]
#[command(
    after_help = "Submits a job, prints its log, and ends with the exit code of the command. Ctrl-C asks whether to cancel the job or to let it \
                  run. A command without --checkpoint-dir starts at zero whenever its machine is lost. Exit codes: of the command; 1 it could not \
                  run, was ended by a signal, cancelled or rejected; 2 error or incomplete result; 130 cancelled by Ctrl-C; 0 with --detach, --dry-run, or \
                  detached.\n\nExample:\n  curfew run --gpu a10g --workdir . --max-runtime 8h -- python train.py --lr 3e-4"
)]
pub(crate) struct Run {
    /// The command and its arguments; one word is a line of shell
    #[arg(value_name = "COMMAND", required = true, last = true)]
    words: Vec<String>,
    /// Run on this GPU, and at least so many: a10g, h100:8, a100-80gb, 24gb, or an instance type
    #[arg(long, value_name = "GPU[:COUNT]", required_unless_present_any = ["cpu", "memory_gib"], conflicts_with_all = ["cpu", "memory_gib"])]
    gpu: Option<GpuRequest>,
    /// Run without a GPU, on a machine with at least so many vCPUs
    #[arg(long, value_name = "COUNT")]
    cpu: Option<u32>,
    /// Run without a GPU, on a machine with at least this much memory
    #[arg(long, value_name = "GIB")]
    memory_gib: Option<u32>,
    /// Bring this directory along: the command runs in the home of its user, which has its files, except what git ignores
    #[arg(long, value_name = "DIRECTORY")]
    workdir: Option<PathBuf>,
    /// Run this line of shell before the command, in every attempt
    #[arg(long, value_name = "LINE")]
    setup: Option<String>,
    /// Run both by this shell: bash, dash, ksh, sh or zsh [default: bash, in which a pipeline fails with any of its parts]
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,
    /// Run it, and --setup, in a container of this image, such as pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime
    #[arg(long, value_name = "IMAGE")]
    container: Option<String>,
    /// Set this variable for the command
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_variable)]
    env: Vec<(String, String)>,
    /// Set this variable to the value of a secret, or of a parameter of Systems Manager
    #[arg(long, value_name = "NAME=ARN", value_parser = read_variable)]
    secret: Vec<(String, String)>,
    /// Keep checkpoints that the command writes into this directory
    #[arg(long, value_name = "DIRECTORY")]
    checkpoint_dir: Option<String>,
    /// Put the objects of a folder of S3 into a directory before the command; may be repeated
    #[arg(long, value_name = "s3://BUCKET/PREFIX/=DIRECTORY", value_parser = read_input)]
    input: Vec<(String, String)>,
    /// Retry this many times after the command fails
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    retries: u32,
    /// End it after this long on machines, such as 8h [default: 24h, or [lifetime] max of the configuration if that is less]
    #[arg(long, value_name = "DURATION")]
    max_runtime: Option<String>,
    /// Spend at most this many USD
    #[arg(long, value_name = "USD", value_parser = read_usd)]
    max_usd: Option<f64>,
    /// End it once every GPU has been idle for so long, such as 2h
    #[arg(long, value_name = "DURATION")]
    idle: Option<String>,
    /// Do not run on Spot
    #[arg(long)]
    on_demand: bool,
    /// Name the job [default: after the command's script]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Notify this person
    #[arg(long, value_name = "NAME", env = "CURFEW_OWNER", hide_env_values = true)]
    owner: Option<String>,
    #[command(flatten)]
    options: SubmitOptions,
    /// Submit it and leave it running
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
}

pub(super) fn read_variable(text: &str) -> Result<(String, String), String> {
    let read = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    read.ok_or_else(|| "write NAME=VALUE".to_owned())
}

/// A path of S3 may have `=` in it, as `date=2026-11-24/`.
pub(super) fn read_input(text: &str) -> Result<(String, String), String> {
    let read = text.rsplit_once("=/").map(|(from, to)| (from.to_owned(), format!("/{to}")));
    read.ok_or_else(|| "write an address and an absolute path, such as s3://datasets/vision/=/data".to_owned())
}

pub(super) fn read_usd(text: &str) -> Result<f64, String> {
    let usd = text.parse().ok().filter(|usd: &f64| usd.is_finite() && *usd > 0.0);
    usd.ok_or_else(|| "write an amount above 0, such as 20".to_owned())
}

impl Run {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        if context.global.json && !self.detach && !self.options.dry_run {
            return Err(CommandError::with("--json cannot print the log of a command", "add --detach or --dry-run"));
        }
        let mut max_runtime = self.max_runtime;
        if max_runtime.is_none() {
            let config = context.needs_deployed().await?.store.read_config().await?;
            max_runtime = default_max_runtime(&config, !context.global.json);
        }
        let gpu = self.gpu.unwrap_or_default();
        let document = JobDocument {
            source: COMMAND_LINE.to_owned(),
            file_name: "run".to_owned(),
            bytes: CommandJob {
                words: self.words,
                name: self.name,
                owner: self.owner,
                setup: self.setup,
                shell: self.shell,
                container: self.container,
                env: self.env,
                secrets: self.secret,
                gpus: gpu.gpus,
                gpu_name: gpu.name,
                memory_gib_min: gpu.memory_gib_min,
                types: gpu.types,
                vcpus: self.cpu,
                memory_gib: self.memory_gib,
                retries: self.retries,
                on_demand: self.on_demand,
                max_runtime,
                max_usd: self.max_usd,
                idle: self.idle,
                checkpoint_dir: self.checkpoint_dir,
                inputs: self.input,
            }
            .to_document()
            .into_bytes(),
        };
        let submitted =
            Box::pin(submit(context, document, &self.options, self.workdir.as_deref(), self.detach)).await?;
        let (Some(job), Some(object)) = (submitted.job, submitted.object) else { return Ok(submitted.ending) };
        let store = context.needs_deployed().await?.store;
        tokio::select! {
            // First, so that it is caught from here on.
            biased;
            _ = ctrl_c() => cancel_or_detach(&store, &job, keeps_running(&job)).await,
            ended = follow_to_end(&store, &object) => ended.map_err(|failure| CommandError {
                advice: failure.advice.or_else(|| Some(keeps_running(&job))),
                ..failure
            }),
        }
    }
}

/// `None`: `[lifetime] max` of the configuration is less, and holds by itself.
fn default_max_runtime(config: &Config, is_shown: bool) -> Option<String> {
    let has_more = duration::parse(MAX_RUNTIME).is_ok_and(|most| config.lifetime.max > most);
    if has_more && is_shown {
        screen::print_line(format!("Without --max-runtime the command ends after {MAX_RUNTIME}"));
    }
    has_more.then(|| MAX_RUNTIME.to_owned())
}

fn keeps_running(job: &JobId) -> String {
    let word = job.to_shell_word();
    format!("{job} keeps running. Follow it:  curfew logs {word} --follow   Cancel it:  curfew cancel {word}")
}

async fn follow_to_end(store: &Store, object: &SubmittedSpec) -> Result<CommandStatus, CommandError> {
    let Some(id) = wait_for_job(store, object, COMMAND_LINE).await? else { return Ok(CommandStatus::Findings) };
    let job = store.read_job(&id).await?.value;
    let job = job.ok_or_else(|| CommandError::new(format!("{id} was accepted, and has no state")))?;
    let (_, job) = follow(store, job, None, None).await?;
    let Phase::Ended(end) = &job.phase else { return Ok(CommandStatus::Error) };
    if end.result == JobResult::Succeeded {
        return Ok(CommandStatus::Success);
    }
    screen::progress(&end.why);
    Ok(exit_code(store, &job).await?.map_or(CommandStatus::Findings, CommandStatus::OfJob))
}

/// The exit code that ended the job; `None` if a signal ended its command, or none ran. The fence has it, of the attempt that counts.
async fn exit_code(store: &Store, job: &Job) -> Result<Option<u8>, CommandError> {
    let MachineDocument::Believed(head) = store.read_head(&job.job).await? else { return Ok(None) };
    let code = head.result.and_then(|result| result.code);
    Ok(code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0))
}

/// Asks whether to cancel the job. Without a terminal, or at a second Ctrl-C, the job is left running: only a person ends it.
pub(super) async fn cancel_or_detach(
    store: &Store,
    job: &JobId,
    keeps_running: String,
) -> Result<CommandStatus, CommandError> {
    let question = format!("Cancel {job}? Without that it keeps running.");
    let asked = tokio::task::spawn_blocking(move || screen::confirm(question, false).unwrap_or(false));
    let is_cancelled = tokio::select! {
        answer = asked => answer.unwrap_or(false),
        _ = ctrl_c() => false,
    };
    if is_cancelled {
        let wish = CancelRequest { at: whole_seconds(world::clock()), by: world::variable("USER") };
        store.cancel(job, &wish).await?;
        screen::progress(format!("{job} is cancelled"));
        return Ok(CommandStatus::OfJob(INTERRUPTED));
    }
    screen::progress(keeps_running);
    Ok(CommandStatus::Success)
}
