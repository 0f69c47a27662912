//! `curfew logs`: the log of a job.

mod new_bytes;

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use clap::Args;
use jobs::{Job, JobId, Phase};
use serde::Serialize;
use store::Store;

use self::new_bytes::{legible, new_bytes};
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::resolve_job;
use crate::screen;

/// The agent uploads its log as often while it is followed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

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
        let found = newest(&store, &job, self.attempt).await?;
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
async fn newest(store: &Store, job: &Job, attempt: Option<u32>) -> Result<Option<ShownLog>, CommandError> {
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
/// any, and the job as it is then.
pub(crate) async fn follow(store: &Store, mut job: Job, attempt: Option<u32>) -> Result<(bool, Job), CommandError> {
    // The next time to tell the agent; none once that is refused.
    let (mut shown, mut mark_at) = (ShownLog::default(), Some(Instant::now()));
    loop {
        if mark_at.is_some_and(|at| at <= Instant::now()) {
            mark_at = match store.mark_followed(&job.job).await {
                Ok(()) => Some(Instant::now() + MARK_EVERY),
                Err(error) => {
                    screen::warn(format!("new lines come once a minute: {}", describe_store_error(&error)));
                    None
                }
            };
        }
        let was_over = matches!(job.phase, Phase::Ended(_)) || attempt.is_some_and(|of| of < job.attempt);
        if let Some(found) = newest(store, &job, attempt).await? {
            if found.attempt != shown.attempt {
                screen::progress(format!("{}, attempt {}", job.job, found.attempt));
                shown = ShownLog { attempt: found.attempt, bytes: Vec::new() };
            }
            let found_bytes = new_bytes(&shown.bytes, &found.bytes);
            if found_bytes.skipped {
                screen::progress("(some lines in between are missing)");
            }
            write(found_bytes.bytes);
            shown = found;
        }
        if was_over {
            screen::progress(format!("{}: {}", job.job, describe_state(&job)));
            return Ok((shown.attempt > 0, job));
        }
        tokio::time::sleep(LOOK_EVERY).await;
        job = store.read_job(&job.job).await?.value.unwrap_or(job);
    }
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
