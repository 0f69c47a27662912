//! The outcome of an attempt, from the end of its command, and its exit record.

use std::process::ExitStatus;

use jobs::{ExitReason, HeadResult, Workload, clean_machine_text};
use store::{MachineDocument, MachineDocuments as _};

use super::AssignedJob;
use crate::agent::{Agent, AttemptEnd, EndCause, StartError};
use crate::fence::FenceError;
use crate::gpu::GpuFault;
use crate::outputs;
use crate::retry_timeout::RetryTimeout;
use crate::user::User;
use crate::world::now;

/// A command that has ended by itself.
pub(crate) struct EndedCommand {
    pub(crate) status: ExitStatus,
    /// Its end, for people.
    pub(crate) why: String,
    /// The reason why it could not use a GPU.
    pub(crate) gpu_fault: Option<GpuFault>,
}

impl EndedCommand {
    /// True if it has failed, and another machine may do better.
    pub(crate) fn is_fault_of_machine(&self) -> bool {
        !self.status.success() && self.gpu_fault.as_ref().is_some_and(|fault| fault.is_of_machine)
    }
}

/// The beginning of the words about a fault.
pub(crate) const GPU_FAULT: &str = "not every GPU can be used";

/// The end of the attempt: its result, unless another machine may do better. `notes`: what else there is to say.
pub(super) async fn outcome(
    agent: &Agent,
    asked: &AssignedJob,
    user: &User,
    ended: EndedCommand,
    notes: Vec<String>,
) -> AttemptEnd {
    let is_fault_of_machine = ended.is_fault_of_machine();
    let EndedCommand { status, why, gpu_fault } = ended;
    let fault = gpu_fault.map(|fault| format!("{GPU_FAULT}: {}", fault.words));
    let mut why = std::iter::once(why).chain(fault).chain(notes).collect::<Vec<_>>().join("; ");
    if is_fault_of_machine && !Box::pin(had_gpu_fault_before(agent)).await {
        agent.log.write_line(&format!("{why}: another machine tries"));
        return AttemptEnd { code: status.code(), ..AttemptEnd::broken(clean_machine_text(&why)) };
    }
    let succeeded = status.success();
    let Workload { outputs: wanted, .. } = &asked.work;
    if !wanted.is_empty() {
        let uploaded = agent.upload_in_time(outputs::upload(agent, wanted, &user.file_owner())).await;
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
    let why = clean_machine_text(&why);
    let result = HeadResult { succeeded, code: status.code(), why, at: now(), is_final: false };
    settle(agent, result).await
}

/// True if the machine of the previous attempt had such a fault as well: then it is none of a single machine.
async fn had_gpu_fault_before(agent: &Agent) -> bool {
    let Some(before @ 1..) = agent.identity.attempt.checked_sub(1) else { return false };
    let exit = Box::pin(agent.in_time(agent.store().read_exit(&agent.identity.job, before))).await;
    matches!(exit, Some(Ok(MachineDocument::Believed(exit))) if exit.reason == ExitReason::Broken && exit.why.contains(GPU_FAULT))
}

/// Ends an attempt whose command does not begin.
pub(super) async fn not_started(agent: &Agent, error: StartError) -> AttemptEnd {
    match error {
        StartError::Ended(end) => end,
        StartError::Impossible { code, why } => {
            agent.log.write_line(&why);
            settle(
                agent,
                HeadResult {
                    succeeded: false,
                    code: Some(code),
                    why: clean_machine_text(&why),
                    at: now(),
                    is_final: false,
                },
            )
            .await
        }
    }
}

/// Writes the result to head, as long as there is time.
async fn settle(agent: &Agent, result: HeadResult) -> AttemptEnd {
    let end = AttemptEnd { reason: result.reason(), code: result.code, why: result.why.clone(), is_final: false };
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

/// Ends the job of a box whose end has come, and whose home is unmounted.
pub(super) async fn end_box(agent: &Agent, why: &str) -> AttemptEnd {
    let why = clean_machine_text(why);
    settle(agent, HeadResult { succeeded: true, code: None, why, at: now(), is_final: false }).await
}

/// Ends the job, after a limit of it has ended the attempt. Without the result another attempt would begin, so it is not bound to the time that the
/// command and its uploads had.
pub(super) async fn end_job(agent: &Agent, end: AttemptEnd) -> AttemptEnd {
    let why = clean_machine_text(&end.why);
    let result = HeadResult { succeeded: false, code: None, why, at: now(), is_final: true };
    match write_result(agent, &result).await {
        Ok(()) => AttemptEnd { code: None, why: result.why, ..end },
        Err(FenceError::Fenced(why)) => EndCause::fenced(why).into(),
        Err(FenceError::Store(error)) => unwritten(end, ExitReason::Broken, &error.to_string()),
    }
}

/// The command succeeded, but the machine ends before the upload is complete: the next attempt uploads the rest.
pub(super) fn unfinished(cause: EndCause, what: &str) -> AttemptEnd {
    AttemptEnd {
        reason: cause.reason,
        code: Some(0),
        why: format!("the command has ended with success, but there was no time to upload {what}: {}", cause.why),
        is_final: false,
    }
}

fn unwritten(end: AttemptEnd, reason: ExitReason, why: &str) -> AttemptEnd {
    let why = format!("{}, but the result could not be written: {why}", end.why);
    AttemptEnd { reason, why, is_final: false, ..end }
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
