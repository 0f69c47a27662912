//! What the end of a command means, and its exit record.

use std::path::Path;
use std::process::ExitStatus;

use jobs::{ExitReason, HeadResult, Workload, said_by_machine};

use super::AssignedJob;
use crate::agent::{Agent, AttemptEnd, EndCause, StartError};
use crate::fence::FenceError;
use crate::retry_timeout::RetryTimeout;
use crate::user::User;
use crate::world::now;
use crate::{directory, outputs};

/// Writes the result of the command, or of its setup, to head: only then it counts.
pub(super) async fn outcome(
    agent: &Agent,
    asked: &AssignedJob,
    user: &User,
    status: ExitStatus,
    what: &str,
    lost: Vec<String>,
) -> AttemptEnd {
    let succeeded = status.success();
    let mut why = describe_exit(status, what);
    if !succeeded && let Some(full) = full_disk(asked) {
        why = format!("{why}; {full}");
    }
    for lost in lost {
        why = format!("{why}; {lost}");
    }
    let Workload { outputs: wanted, .. } = &asked.work;
    if !wanted.is_empty() {
        let uploaded = agent.in_time(outputs::upload(agent, wanted, &user.file_owner())).await;
        if let (None, Some(cause)) = (&uploaded, agent.interruption())
            && succeeded
        {
            return unfinished(cause, "its outputs");
        }
        if let Some(words) = uploaded.unwrap_or_else(|| Some("there was no time to upload its outputs".to_owned())) {
            why = format!("{why}; {words}");
        }
    }
    agent.log.write_line(&why);
    let why = said_by_machine(&why);
    let result = HeadResult { succeeded, code: status.code(), why, at: now() };
    settle(agent, result).await
}

/// Ends an attempt whose command does not begin.
pub(super) async fn not_started(agent: &Agent, error: StartError) -> AttemptEnd {
    match error {
        StartError::Ended(end) => end,
        StartError::Impossible { code, why } => {
            agent.log.write_line(&why);
            settle(agent, HeadResult { succeeded: false, code: Some(code), why: said_by_machine(&why), at: now() })
                .await
        }
    }
}

/// Writes the result to head, as long as there is time.
async fn settle(agent: &Agent, result: HeadResult) -> AttemptEnd {
    let end = AttemptEnd { reason: result.reason(), code: result.code, why: result.why.clone() };
    match agent.in_time(write_result(agent, &result)).await {
        Some(Ok(())) => end,
        Some(Err(FenceError::Fenced(why))) => EndCause::fenced(why).into(),
        Some(Err(FenceError::Store(error))) => unwritten(end, ExitReason::Broken, &error.to_string()),
        None => match agent.interruption() {
            Some(cause) => unwritten(end, cause.reason, &cause.why),
            None => unwritten(end, ExitReason::Broken, "there was no time"),
        },
    }
}

/// The command succeeded, but the machine ends before the upload is complete: the next attempt uploads the rest.
pub(super) fn unfinished(cause: EndCause, what: &str) -> AttemptEnd {
    AttemptEnd {
        reason: cause.reason,
        code: Some(0),
        why: format!("the command has ended with success, but there was no time to upload {what}: {}", cause.why),
    }
}

fn unwritten(end: AttemptEnd, reason: ExitReason, why: &str) -> AttemptEnd {
    AttemptEnd { reason, why: format!("{}, but the result could not be written: {why}", end.why), ..end }
}

async fn write_result(agent: &Agent, result: &HeadResult) -> Result<(), FenceError> {
    let mut timeout = RetryTimeout::default();
    loop {
        match agent.fence.swap(|head| head.result = Some(result.clone())).await {
            Ok(_) => return Ok(()),
            Err(FenceError::Store(error))
                if timeout.pause_and_retry(agent, "the result cannot be written yet", &error).await => {}
            Err(shut) => return Err(shut),
        }
    }
}

pub(super) fn describe_exit(status: ExitStatus, what: &str) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => format!("{what} has ended with success"),
        (Some(code), _) => format!("{what} has failed with exit code {code}"),
        (None, Some(9)) => {
            format!("{what} was killed by signal 9; unless a person killed it, the machine ran out of memory")
        }
        (None, signal) => format!("{what} was ended by signal {}", signal.unwrap_or_default()),
    }
}

fn full_disk(asked: &AssignedJob) -> Option<String> {
    let places = [asked.checkpoint.as_ref().map_or("/", |checkpoint| &checkpoint.dir), "/", "/tmp"];
    let (place, free) = places.into_iter().find_map(|place| Some((place, directory::full(Path::new(place))?)))?;
    Some(format!("the disk of {place} is full ({} MiB are left): set `root_volume_gib`", free / (1024 * 1024)))
}
