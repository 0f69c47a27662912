//! `curfew logs`: the log of a job.

use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt as _, stream};
use jiff::SignedDuration;
use jobs::{Job, JobId, JobOverview, Phase, describe_attempt_end};
use serde::Serialize;
use store::{JobDocuments as _, LOG_PARTS_MAX, LogTail, MachineDocument, MachineDocuments as _, Store, StoreError};

use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::resolve_job;
use crate::{screen, world};

/// The agent uploads its log as often while it is followed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time after the end of a job in which its last lines may still be uploaded: the agent writes its result first.
const LAST_LINES_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// Interval at which the agent is told that somebody follows the log.
const MARK_EVERY: Duration = Duration::from_mins(1);

/// Limit of parts that are read at once, of up to 8 MiB each.
const PARTS_AT_ONCE: usize = 4;

/// Show the log of a job's command
#[derive(Debug, Args)]
#[command(
    after_help = "Prints the end of the log, as the agent last uploaded it. Exit codes: 0 printed; 1 there is no log; 2 error or \
                        incomplete result.\n\nExample:\n  curfew logs llama\n  curfew logs llama --whole\n  \
                        curfew logs vision/llama-1a2b3c4d --attempt 1\n  curfew logs llama --follow"
)]
pub(crate) struct Logs {
    /// Name of the job: <team>/<job>, or a unique part of it
    #[arg(value_name = "JOB")]
    job: String,
    /// Follow the log until the job has ended
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Show the whole log of each attempt, and how each ended
    #[arg(long, conflicts_with_all = ["json", "follow"])]
    whole: bool,
    /// Show the log of this attempt [default: the newest with a log]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
}

#[derive(Serialize)]
struct LogsOutput<'a> {
    job: &'a JobId,
    attempt: Option<u32>,
    log: Option<String>,
}

/// The log of an attempt, and how much of it was printed.
#[derive(Default)]
struct PrintedLog {
    attempt: u32,
    position: LogPosition,
    parts: u32,
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
        if self.whole {
            return print_whole(&store, &job, self.attempt).await;
        }
        let found = read_newest_log(&store, &job, self.attempt).await?;
        if context.global.json {
            let (attempt, log) = found.map(|(attempt, tail)| (attempt, tail.bytes)).unzip();
            let log = log.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let ending = if log.is_some() { CommandStatus::Success } else { CommandStatus::Findings };
            screen::json(&LogsOutput { job: &job.job, attempt, log })?;
            return Ok(ending);
        }
        let Some((attempt, tail)) = found else { return Ok(report_no_log(&job)) };
        screen::progress(format!("{}, attempt {attempt}", job.job));
        note_earlier_lines(&tail);
        screen::print_log(&tail.bytes);
        Ok(CommandStatus::Success)
    }
}

fn report_no_log(job: &Job) -> CommandStatus {
    let JobOverview { state, why, over, .. } = JobOverview::from_job(job, world::clock());
    let yet = if over { "" } else { " yet" };
    let why = if why.is_empty() { why } else { format!(": {why}") };
    screen::progress(format!("{} has no log{yet}: it is {state}{why}", job.job));
    CommandStatus::Findings
}

fn note_earlier_lines(tail: &LogTail) {
    if tail.start > 0 {
        screen::progress("(earlier lines: add --whole)");
    }
}

/// Prints all that the bucket has of each attempt, or of the named one, and in between how it ended.
async fn print_whole(store: &Store, job: &Job, attempt: Option<u32>) -> Result<CommandStatus, CommandError> {
    let (attempts, mut is_any) = (attempt.map_or(1..=job.attempt, |attempt| attempt..=attempt), false);
    for attempt in attempts {
        let tail = store.read_log_end(&job.job, attempt).await?;
        is_any |= tail.is_some();
        if let Some(tail) = tail {
            screen::progress(format!("{}, attempt {attempt}", job.job));
            PrintedLog { attempt, ..PrintedLog::default() }.print_new(store, &job.job, &tail).await?;
        }
        let (heartbeat, exit) =
            futures::join!(store.read_heartbeat(&job.job, attempt), store.read_exit(&job.job, attempt));
        let (heartbeat, exit) = (heartbeat?.into_parts().0, exit?.into_parts().0);
        let heartbeat = heartbeat.as_ref().map(|heartbeat| (heartbeat.at, &heartbeat.heartbeat));
        let has_ended = attempt < job.attempt || matches!(job.phase, Phase::Ended(_));
        if has_ended && let Some(line) = describe_attempt_end(attempt, heartbeat, exit.as_ref()) {
            screen::print_log(format!("[curfew] {}\n", screen::plain(&line)).as_bytes());
        }
    }
    Ok(if is_any { CommandStatus::Success } else { report_no_log(job) })
}

/// The end of the log of the named attempt, or of the newest that has one.
async fn read_newest_log(store: &Store, job: &Job, attempt: Option<u32>) -> Result<Option<(u32, LogTail)>, StoreError> {
    let attempts = match attempt {
        Some(attempt) => attempt..=attempt,
        None => 1..=job.attempt,
    };
    for attempt in attempts.rev() {
        if let Some(tail) = store.read_log(&job.job, attempt).await? {
            return Ok(Some((attempt, tail)));
        }
    }
    Ok(None)
}

impl PrintedLog {
    /// Prints what is new, with the parts before the tail.
    async fn print_new(&mut self, store: &Store, job: &JobId, tail: &LogTail) -> Result<(), StoreError> {
        if self.position.is_before(tail.start) {
            let (attempt, numbers) = (self.attempt, self.parts..tail.parts.min(LOG_PARTS_MAX));
            let mut parts =
                stream::iter(numbers).map(|number| store.read_log_part(job, attempt, number)).buffered(PARTS_AT_ONCE);
            while let Some(part) = parts.next().await {
                let Some(part) = part? else { break };
                self.print(part.start, &part.bytes);
            }
        }
        self.parts = tail.parts;
        self.print(tail.start, &tail.bytes);
        Ok(())
    }

    fn print(&mut self, start: u64, bytes: &[u8]) {
        let found = self.position.advance(start, bytes);
        if found.missing > 0 {
            // In the output, because only there `here` is still true in a file.
            screen::print_log(format!("\n[curfew] {} bytes of the log are missing here\n", found.missing).as_bytes());
        }
        screen::print_log(found.bytes);
    }
}

/// Prints the log of the named attempt, or of all from the newest on, until the job is over and its whole log was read. Until
/// there is any it says why, at each change of the state. Returns whether there was any, and the job as it is then. A failure that may pass is a
/// warning.
pub(crate) async fn follow(store: &Store, mut job: Job, attempt: Option<u32>) -> Result<(bool, Job), CommandError> {
    let mut printed = PrintedLog::default();
    // The next time to tell the agent; none once that is refused.
    let (mut mark_at, mut is_failing) = (Some(Instant::now()), false);
    let mut state_without_log = None;
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
        match look_once(store, &job, attempt, &mut printed).await {
            Ok(Look::Complete) => {
                screen::progress(format!("{}: {}", job.job, describe_state(&job)));
                return Ok((printed.attempt > 0, job));
            }
            Ok(Look::Unfinished(newer)) => {
                let state = describe_state(&job);
                if printed.attempt == 0 && state_without_log.replace(state) != Some(state) {
                    report_no_log(&job);
                }
                (job, is_failing) = (*newer, false);
            }
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
async fn look_once(
    store: &Store,
    job: &Job,
    attempt: Option<u32>,
    printed: &mut PrintedLog,
) -> Result<Look, StoreError> {
    // Read before the log: what is uploaded later is of no interest.
    let is_over = match &job.phase {
        Phase::Ended(end) => world::clock().duration_since(end.at) > LAST_LINES_TIMEOUT || has_exit(store, job).await?,
        _ => attempt.is_some_and(|of| of < job.attempt),
    };
    if let Some((found, tail)) = read_newest_log(store, job, attempt).await? {
        if found != printed.attempt {
            screen::progress(format!("{}, attempt {found}", job.job));
            note_earlier_lines(&tail);
            *printed = PrintedLog { attempt: found, position: LogPosition::at(tail.start), parts: tail.parts };
        }
        printed.print_new(store, &job.job, &tail).await?;
    }
    if is_over {
        return Ok(Look::Complete);
    }
    Ok(Look::Unfinished(Box::new(store.read_job(&job.job).await?.value.unwrap_or_else(|| job.clone()))))
}

/// Returns `true` if the agent has written its last: the exit record comes after the log. Without a machine there is no agent to wait for.
async fn has_exit(store: &Store, job: &Job) -> Result<bool, StoreError> {
    let attempt = job.machine_attempt();
    Ok(attempt == 0 || !matches!(store.read_exit(&job.job, attempt).await?, MachineDocument::Absent))
}

fn describe_state(job: &Job) -> &'static str {
    JobOverview::from_job(job, job.submitted_at).state
}

/// The number of bytes of a log that were printed or are missing.
#[derive(Debug, Default)]
struct LogPosition(u64);

/// Bytes that were not printed yet.
#[derive(Debug, PartialEq)]
struct NewLogBytes<'a> {
    bytes: &'a [u8],
    /// The number of bytes that are missing before them.
    missing: u64,
}

impl LogPosition {
    const fn at(position: u64) -> Self {
        Self(position)
    }

    const fn is_before(&self, position: u64) -> bool {
        self.0 < position
    }

    /// The new part of bytes that begin at `start`. The machine said where, so any position may be wrong.
    fn advance<'a>(&mut self, start: u64, bytes: &'a [u8]) -> NewLogBytes<'a> {
        let printed = usize::try_from(self.0.saturating_sub(start)).unwrap_or(usize::MAX);
        let missing = start.saturating_sub(self.0);
        self.0 = self.0.max(start.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
        NewLogBytes { bytes: bytes.get(printed..).unwrap_or_default(), missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_new_once_and_missing_ones_are_counted() {
        let mut position = LogPosition::at(0);
        let mut check = |start, bytes: &'static str, expect: &str, missing| {
            let found = position.advance(start, bytes.as_bytes());
            assert_eq!(found, NewLogBytes { bytes: expect.as_bytes(), missing });
        };
        check(0, "one\n", "one\n", 0);
        check(0, "one\n", "", 0);
        check(0, "one\ntwo\n", "two\n", 0);
        check(4, "two\nthree\n", "three\n", 0);
        check(20, "five\n", "five\n", 6);
        check(0, "", "", 0);
        check(u64::MAX, "lie\n", "lie\n", u64::MAX - 25);
        check(0, "more\n", "", 0);
    }
}
