//! `curfew logs`: the log of a job.

mod nodes;
mod printed;

use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::SignedDuration;
use jobs::node_gang::{GangLaunch, GangListing, NODES_MAX, Node};
use jobs::{Job, JobId, JobOverview, Phase, describe_attempt_end};
use serde::Serialize;
use store::{JobDocuments as _, LogName, LogTail, MachineDocument, MachineDocuments as _, Store, StoreError};

use self::nodes::{ShownLogs, describe_gang_end, newest_gang};
use self::printed::{PrintedAttempt, PrintedLog};
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::resolve_job::{check_node, resolve_job};
use crate::{screen, world};

/// The agent uploads its log as often while it is followed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time after the end of a job in which its last lines may still be uploaded: the agent writes its result first.
const LAST_LINES_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// Interval at which the agent is told that somebody follows the log.
const MARK_EVERY: Duration = Duration::from_mins(1);

/// Limit of the logs of nodes that are read at once.
const NODES_AT_ONCE: usize = 8;

/// Show the log of a job's command
#[derive(Debug, Args)]
#[command(
    after_help = "Prints the end of the log, as the agent last uploaded it. Of a job on several machines each line begins with the number of its \
                        node; after a failure, the node that failed first comes last. Exit codes: 0 printed; 1 there is no log; 2 error or \
                        incomplete result.\n\nExample:\n  curfew logs llama\n  curfew logs llama --whole\n  \
                        curfew logs vision/llama-1a2b3c4d --attempt 1\n  curfew logs llama --follow\n  curfew logs llama --node 2"
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
    /// Show the log of this node alone, of a job on several machines
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(..i64::from(NODES_MAX)))]
    node: Option<Node>,
}

#[derive(Serialize)]
struct LogsOutput<'a> {
    job: &'a JobId,
    attempt: Option<u32>,
    log: Option<String>,
}

/// The ends of the logs of an attempt, by node; `None`: the one machine of the attempt.
type LogTails = Vec<(Option<Node>, LogTail)>;

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
        check_node(&job, self.node)?;
        if self.follow {
            let (shown, _) = follow(&store, job, self.attempt, self.node).await?;
            return Ok(if shown { CommandStatus::Success } else { CommandStatus::Findings });
        }
        let mut shown = ShownLogs::of_job(&job, self.node);
        if self.whole {
            return print_whole(&store, &job, self.attempt, &shown).await;
        }
        shown.end_with_failure(&store, &job).await?;
        let found = read_newest_logs(&store, &job, self.attempt, &shown).await?;
        if context.global.json {
            let (attempt, tails) = found.unzip();
            let log = tails.map(|tails| String::from_utf8_lossy(&shown.join(&tails)).into_owned());
            let ending = if log.is_some() { CommandStatus::Success } else { CommandStatus::Findings };
            screen::json(&LogsOutput { job: &job.job, attempt, log })?;
            return Ok(ending);
        }
        let Some((attempt, tails)) = found else { return Ok(report_no_log(&job)) };
        screen::progress(format!("{}, attempt {attempt}", job.job));
        note_earlier_lines(&tails);
        screen::print_log(&shown.join(&tails));
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

fn note_earlier_lines(tails: &LogTails) {
    if tails.iter().any(|(_, tail)| tail.start > 0) {
        screen::progress("(earlier lines: add --whole)");
    }
}

/// Prints all that the bucket has of each attempt, or of the named one, and in between how it ended.
async fn print_whole(
    store: &Store,
    job: &Job,
    attempt: Option<u32>,
    shown: &ShownLogs,
) -> Result<CommandStatus, CommandError> {
    let (attempts, mut is_any) = (attempt.map_or(1..=job.attempt, |attempt| attempt..=attempt), false);
    for attempt in attempts {
        let mut is_named = false;
        for node in &shown.nodes {
            let log = LogName { job: &job.job, attempt, node: *node };
            let Some(tail) = store.read_log_end(log).await? else { continue };
            if !is_named {
                screen::progress(format!("{}, attempt {attempt}", job.job));
            }
            (is_any, is_named) = (true, true);
            let mut printed = PrintedLog::whole(shown.printer(*node));
            printed.print_new(store, log, &tail).await?;
            printed.finish();
        }
        if job.terms.is_gang() {
            if let Some(gang) = find_ended_gang(store, job, attempt).await? {
                print_ends(attempt, &describe_gang_end(store, &gang).await?);
            }
            continue;
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

/// The gang of an attempt that is over; `None` where it runs, or left nothing.
async fn find_ended_gang(store: &Store, job: &Job, attempt: u32) -> Result<Option<GangLaunch>, StoreError> {
    match newest_gang(job).filter(|gang| gang.attempt == attempt) {
        Some(_) if matches!(job.phase, Phase::Running(_)) => Ok(None),
        Some(gang) => Ok(Some(gang)),
        // The state names only the newest machines.
        None => store.find_gang(&job.job, attempt, job.terms.gpu.nodes).await,
    }
}

fn print_ends(attempt: u32, lines: &[String]) {
    for line in lines {
        screen::print_log(format!("[curfew] attempt {attempt}: {}\n", screen::plain(line)).as_bytes());
    }
}

/// The ends of the logs of the named attempt, or of the newest that has one.
async fn read_newest_logs(
    store: &Store,
    job: &Job,
    attempt: Option<u32>,
    shown: &ShownLogs,
) -> Result<Option<(u32, LogTails)>, StoreError> {
    let attempts = match attempt {
        Some(attempt) => attempt..=attempt,
        None => 1..=job.attempt,
    };
    for attempt in attempts.rev() {
        let reads = shown.nodes.iter().map(|node| async move {
            let tail = store.read_log(LogName { job: &job.job, attempt, node: *node }).await?;
            Ok::<_, StoreError>(tail.map(|tail| (*node, tail)))
        });
        let tails: Vec<Option<_>> = stream::iter(reads).buffered(NODES_AT_ONCE).try_collect().await?;
        let tails: LogTails = tails.into_iter().flatten().collect();
        if !tails.is_empty() {
            return Ok(Some((attempt, tails)));
        }
    }
    Ok(None)
}

/// Prints the log of the named attempt, or of all from the newest on, and of a gang those of all nodes or of the named one, until the job is over and its whole log was read. Until
/// there is any it says why, at each change of the state. Returns whether there was any, and the job as it is then. A failure that may pass is a
/// warning.
pub(crate) async fn follow(
    store: &Store,
    mut job: Job,
    attempt: Option<u32>,
    node: Option<Node>,
) -> Result<(bool, Job), CommandError> {
    let (mut printed, shown) = (PrintedAttempt::default(), ShownLogs::of_job(&job, node));
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
        match look_once(store, &job, attempt, (&mut printed, &shown)).await {
            Ok(Look::Complete) => {
                printed.finish();
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
    (printed, shown): (&mut PrintedAttempt, &ShownLogs),
) -> Result<Look, StoreError> {
    // Read before the log: what is uploaded later is of no interest.
    let is_over = match &job.phase {
        Phase::Ended(end) => world::clock().duration_since(end.at) > LAST_LINES_TIMEOUT || has_exit(store, job).await?,
        _ => attempt.is_some_and(|of| of < job.attempt),
    };
    if let Some((found, tails)) = read_newest_logs(store, job, attempt, shown).await? {
        if found != printed.attempt {
            printed.finish();
            screen::progress(format!("{}, attempt {found}", job.job));
            note_earlier_lines(&tails);
            *printed = PrintedAttempt::new(found);
        }
        printed.print_new(store, &job.job, &tails, shown).await?;
    }
    if is_over {
        return Ok(Look::Complete);
    }
    Ok(Look::Unfinished(Box::new(store.read_job(&job.job).await?.value.unwrap_or_else(|| job.clone()))))
}

/// Returns `true` if the agent, or that of each node, has written its last: the exit record comes after the log. Without a machine there is no agent to
/// wait for.
async fn has_exit(store: &Store, job: &Job) -> Result<bool, StoreError> {
    if let Some(gang) = newest_gang(job) {
        let listing = store.read_gang(&gang, &GangListing::default()).await?;
        return Ok(listing.exits.len() >= usize::from(gang.nodes));
    }
    let attempt = job.machine_attempt();
    Ok(attempt == 0 || !matches!(store.read_exit(&job.job, attempt).await?, MachineDocument::Absent))
}

fn describe_state(job: &Job) -> &'static str {
    JobOverview::from_job(job, job.submitted_at).state
}
