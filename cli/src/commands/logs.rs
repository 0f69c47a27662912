//! `curfew logs`: the log of a job.

mod new_bytes;

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use clap::Args;
use jiff::SignedDuration;
use jobs::{Job, JobId, Phase};
use serde::Serialize;
use store::{MachineDocument, Store, StoreError};

use self::new_bytes::{legible, new_bytes};
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::resolve_job;
use crate::{screen, world};

/// The agent uploads its log as often while it is followed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long after the end of a job its last lines may still be uploaded: the agent writes its result first.
const LAST_LINES_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// How often the agent is told that somebody follows the log.
const MARK_EVERY: Duration = Duration::from_mins(1);

/// Show the log of a job's command
#[derive(Debug, Args)]
#[command(
    after_help = "Prints the end of the log, as the agent last uploaded it. Exit codes: 0 printed; 1 there is no log; 2 error or \
                        incomplete result.\n\nExample:\n  curfew logs llama\n  curfew logs vision/llama-1a2b3c4d --attempt 1\n  \
                        curfew logs llama --follow"
)]
pub(crate) struct Logs {
    /// Name of the job: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB")]
    job: String,
    /// Follow the log until the job has ended
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Show the log of this attempt [default: the newest with a log]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
}

#[derive(Serialize)]
struct LogsOutput<'a> {
    schema: u32,
    job: &'a JobId,
    attempt: Option<u32>,
    log: Option<String>,
}

/// The part of a log that was shown.
#[derive(Default)]
struct ShownLog {
    attempt: u32,
    bytes: Vec<u8>,
}

impl Logs {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let job = resolve_job(&store, &self.job).await?;
        if let Some(attempt) = self.attempt.filter(|attempt| *attempt > job.attempt) {
            let most = match job.attempt {
                0 => "it has none yet".to_owned(),
                newest => format!("the newest is {newest}"),
            };
            return Err(CommandError::new(format!("{} has no attempt {attempt}; {most}", job.job)));
        }
        if self.follow {
            let (shown, _) = follow(&store, job, self.attempt).await?;
            return Ok(if shown { CommandStatus::Success } else { CommandStatus::Findings });
        }
        let found = read_newest_log(&store, &job, self.attempt).await?;
        if context.global.json {
            let (attempt, log) = found.map(|found| (found.attempt, found.bytes)).unzip();
            let log = log.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let ending = if log.is_some() { CommandStatus::Success } else { CommandStatus::Findings };
            screen::json(&LogsOutput { schema: screen::SCHEMA, job: &job.job, attempt, log })?;
            return Ok(ending);
        }
        let Some(found) = found else {
            screen::progress(format!("{} has no log yet: it is {}", job.job, describe_state(&job)));
            return Ok(CommandStatus::Findings);
        };
        screen::progress(format!("{}, attempt {}", job.job, found.attempt));
        write(&found.bytes);
        Ok(CommandStatus::Success)
    }
}

/// The log of the named attempt, or of the newest that has one.
async fn read_newest_log(store: &Store, job: &Job, attempt: Option<u32>) -> Result<Option<ShownLog>, StoreError> {
    let attempts = match attempt {
        Some(attempt) => attempt..=attempt,
        None => 1..=job.attempt,
    };
    for attempt in attempts.rev() {
        if let Some(bytes) = store.read_log(&job.job, attempt).await? {
            return Ok(Some(ShownLog { attempt, bytes }));
        }
    }
    Ok(None)
}

/// Prints the log of the named attempt, or of all from the newest on, until the job is over and its whole log was read. Returns whether there was
/// any, and the job as it is then. A failure that may pass is a warning.
pub(crate) async fn follow(store: &Store, mut job: Job, attempt: Option<u32>) -> Result<(bool, Job), CommandError> {
    let mut shown = ShownLog::default();
    // The next time to tell the agent; none once that is refused.
    let (mut mark_at, mut is_failing) = (Some(Instant::now()), false);
    loop {
        if mark_at.is_some_and(|at| at <= Instant::now()) {
            mark_at = Some(Instant::now() + MARK_EVERY);
            if let Err(error) = store.mark_followed(&job.job).await
                && error.lasts()
            {
                screen::warn(format!("new lines come once a minute: {}", describe_store_error(&error)));
                mark_at = None;
            }
        }
        match look_once(store, &job, attempt, &mut shown).await {
            Ok(Look::Complete) => {
                screen::progress(format!("{}: {}", job.job, describe_state(&job)));
                return Ok((shown.attempt > 0, job));
            }
            Ok(Look::Unfinished(newer)) => (job, is_failing) = (*newer, false),
            Err(error) if error.lasts() => return Err(error.into()),
            Err(error) => {
                if !is_failing {
                    screen::warn(format!("trying again: {}", describe_store_error(&error)));
                }
                is_failing = true;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

enum Look {
    /// The job is over, and its whole log was read.
    Complete,
    /// The job as it is now.
    Unfinished(Box<Job>),
}

/// Prints what is new.
async fn look_once(store: &Store, job: &Job, attempt: Option<u32>, shown: &mut ShownLog) -> Result<Look, StoreError> {
    // Read before the log: what is uploaded later is of no interest.
    let is_over = match &job.phase {
        Phase::Ended(end) => world::clock().duration_since(end.at) > LAST_LINES_TIMEOUT || has_exit(store, job).await?,
        _ => attempt.is_some_and(|of| of < job.attempt),
    };
    if let Some(found) = read_newest_log(store, job, attempt).await? {
        if found.attempt != shown.attempt {
            screen::progress(format!("{}, attempt {}", job.job, found.attempt));
            *shown = ShownLog { attempt: found.attempt, bytes: Vec::new() };
        }
        let found_bytes = new_bytes(&shown.bytes, &found.bytes);
        if found_bytes.skipped {
            screen::progress("(some lines in between are missing)");
        }
        write(found_bytes.bytes);
        *shown = found;
    }
    if is_over {
        return Ok(Look::Complete);
    }
    Ok(Look::Unfinished(Box::new(store.read_job(&job.job).await?.value.unwrap_or_else(|| job.clone()))))
}

/// Whether the agent has written its last: the exit record comes after the log. Without a machine there is none to wait for.
async fn has_exit(store: &Store, job: &Job) -> Result<bool, StoreError> {
    let attempt = job.machine_attempt();
    Ok(attempt == 0 || !matches!(store.read_exit(&job.job, attempt).await?, MachineDocument::Absent))
}

fn describe_state(job: &Job) -> &'static str {
    jobs::JobOverview::from_job(job, job.submitted_at).state
}

/// Unchanged; on a terminal without characters that would move the cursor.
fn write(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let bytes = if out.is_terminal() { legible(bytes).into_bytes() } else { bytes.to_vec() };
    // A reader that has enough (`head`) closes the pipe, which is no error.
    let _ = out.write_all(&bytes).and_then(|()| out.flush());
}
