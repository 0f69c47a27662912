//! The heartbeat, once a minute: it checks the fence, says what the agent does and how far the job is, and uploads the end of the log. In between the
//! log is uploaded while somebody follows it, and when it grows fast.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use jobs::boxes::BoxReport;
use jobs::checkpoints::UnsavedWork;
use jobs::telemetry::GpuTrend;
use jobs::{ExitReason, FIRST_HEARTBEAT_AFTER, GpuWork, HEARTBEAT_EVERY, Heartbeat};
use model::duration::format_duration;
use store::{LogTail, StoreError};

use crate::agent::{Agent, EndCause};
use crate::fence::FenceError;
use crate::log::PARTS_BYTES_MAX;
use crate::world::{after, now};

/// Interval at which the log is uploaded while somebody follows it, if it is longer by then.
const FOLLOWED_LOG_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// Minimum of that interval at any pace, because S3 does not get faster.
const FOLLOWED_LOG_EVERY_MIN: Duration = Duration::from_millis(500);

/// So long after its start an attempt counts as followed: most commands that fail do so then, and a person waits for the first line.
const FOLLOWED_AT_START: SignedDuration = SignedDuration::from_mins(10);

/// The timeout of one heartbeat, and of one upload of the log.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(45);

/// Less can be uploaded then, because S3 does not accept it.
const LAST_UPLOAD_TIME: SignedDuration = SignedDuration::from_mins(2);

/// The content of a heartbeat.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentStatus {
    pub(crate) doing: &'static str,
    pub(crate) step: Option<u64>,
    pub(crate) steps_per_hour: Option<f64>,
    /// Utilisation of the busiest GPU in the last minute, in percent.
    pub(crate) gpu_percent: Option<f64>,
    pub(crate) unsaved: UnsavedWork,
    pub(crate) gpus: Option<GpuWork>,
    pub(crate) trend: GpuTrend,
    /// The box, once people can log in.
    pub(crate) gpu_box: Option<BoxReport>,
}

pub(crate) async fn beat(agent: Arc<Agent>) {
    let (begun, mut last_success, mut uploaded) = (Instant::now(), Instant::now(), None);
    let (mut is_logged, mut is_log_failing, mut had_moved) = (false, false, agent.buckets.has_moved());
    loop {
        if agent.buckets.has_moved() != had_moved {
            // The end of the log that was uploaded before may not be there, and what the other bucket did not take says nothing of this one.
            (had_moved, uploaded, last_success) = (true, None, Instant::now());
        }
        let beat = in_time(Box::pin(beat_once(&agent))).await;
        // A log that is too long for the way to S3 does not make a machine count as lost.
        let of_log = match beat {
            Ok(true) => in_time(Box::pin(upload_log(&agent, &mut uploaded))).await.err(),
            _ => None,
        };
        if let Some(failure) = of_log.as_ref().filter(|_| !is_log_failing) {
            agent.log.write_line(&format!("the log cannot be uploaded: {}", failure.words));
        }
        is_log_failing = of_log.is_some();
        match beat.err() {
            None => (last_success, is_logged) = (Instant::now(), false),
            Some(_) if agent.buckets.has_moved() != had_moved => {}
            Some(WriteFailure { words, is_outage }) => {
                if !is_logged {
                    agent.log.write_line(&format!("no heartbeat can be written: {words}"));
                }
                is_logged = true;
                let lost_after = if is_outage { agent.outage_timeout() } else { FIRST_HEARTBEAT_AFTER };
                if last_success.elapsed() >= agent.pace.wait(lost_after) {
                    end_as_lost(&agent, lost_after, &words);
                }
            }
        }
        let is_young = begun.elapsed() < agent.pace.wait(FOLLOWED_AT_START);
        tokio::select! {
            () = agent.pace.sleep(HEARTBEAT_EVERY) => {}
            () = agent.wait_for_warning() => {}
            () = agent.buckets.wait_for_move(), if !had_moved => {}
            () = upload_log_between(&agent, is_young, &mut uploaded) => {}
        }
    }
}

/// Uploads the log until the future is dropped: the next heartbeat waits for nothing here, reports the failures, and asks again whether the
/// log is followed.
async fn upload_log_between(agent: &Agent, is_young: bool, uploaded: &mut Option<u64>) {
    let is_followed = is_young || matches!(agent.store().is_followed(&agent.identity.job, now()).await, Ok(true));
    let pause = agent.pace.wait(FOLLOWED_LOG_EVERY).max(FOLLOWED_LOG_EVERY_MIN);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause), if is_followed => {}
            () = agent.log.wait_for_growth() => {}
        }
        if matches!(may_write(agent).await, Ok(true)) {
            let _ = upload_log(agent, uploaded).await;
        }
    }
}

fn end_as_lost(agent: &Agent, lost_after: SignedDuration, words: &str) {
    let lasted = format_duration(lost_after);
    let why = format!("nothing could be written to the bucket for {lasted}, and the attempt counts as lost: {words}");
    agent.end(EndCause { reason: ExitReason::Broken, why, until: after(agent.pace.scale(LAST_UPLOAD_TIME)) });
}

/// One heartbeat. It reads the fence first: a replaced machine without checkpoints would not notice otherwise, and must not write over what
/// another machine of this attempt writes. Returns whether this machine has the fence.
async fn beat_once(agent: &Agent) -> Result<bool, StoreError> {
    let is_mine = may_write(agent).await?;
    if is_mine {
        send_heartbeat(agent).await?;
    }
    Ok(is_mine)
}

struct WriteFailure {
    words: String,
    /// `true` if S3 did not answer, or may accept the same later.
    is_outage: bool,
}

/// The result of a write; or why it failed, or that it took too long.
async fn in_time<T>(write: impl Future<Output = Result<T, StoreError>>) -> Result<T, WriteFailure> {
    match tokio::time::timeout(HEARTBEAT_TIMEOUT, write).await {
        Ok(done) => done.map_err(|error| WriteFailure { words: error.to_string(), is_outage: !error.lasts() }),
        Err(_) => Err(WriteFailure { words: "S3 did not answer".to_owned(), is_outage: true }),
    }
}

/// Ends the attempt if another machine has the fence.
async fn may_write(agent: &Agent) -> Result<bool, StoreError> {
    match agent.fence.check().await {
        Ok(()) => Ok(true),
        Err(FenceError::Fenced(why)) => {
            agent.end(EndCause::fenced(why));
            Ok(false)
        }
        Err(FenceError::Store(error)) => Err(error),
    }
}

pub(crate) async fn send_heartbeat(agent: &Agent) -> Result<(), StoreError> {
    let (status, work) = (agent.status(), agent.report_work());
    let heartbeat = Heartbeat {
        at: now(),
        attempt: agent.identity.attempt,
        step: status.step,
        steps_per_hour: status.steps_per_hour,
        gpu_percent: status.gpu_percent,
        doing: status.doing.to_owned(),
        warnings: agent.current_warnings(),
        // Unknown to a node that writes no step.
        unsaved_seconds: status.unsaved.seconds(now()).filter(|_| agent.answers_for_steps()),
        gpus: status.gpus,
        trend: status.trend,
        work,
        gpu_box: status.gpu_box,
    };
    match agent.seat() {
        Some(seat) => agent.store().beat_as_node(&seat.launch, seat.node, &heartbeat).await,
        None => agent.store().beat(&agent.identity.job, &heartbeat).await,
    }
}

/// Uploads the log if it has grown beyond `uploaded`, after what an earlier start of the attempt left, such as why it ended.
pub(crate) async fn upload_log(agent: &Agent, uploaded: &mut Option<u64>) -> Result<(), StoreError> {
    let log = agent.log_name();
    // A node goes on with its heartbeats while it writes its exit.
    let _alone = match agent.seat() {
        Some(seat) => Some(seat.uploads_log.lock().await),
        None => None,
    };
    if !agent.log.resumes() {
        let earlier = match agent.store().read_log_end(log).await {
            Ok(earlier) => earlier.unwrap_or_default(),
            Err(error) if error.lasts() => {
                agent.log.write_line(&format!("the log of an earlier start of this attempt is overwritten: {error}"));
                LogTail::default()
            }
            Err(error) => return Err(error),
        };
        agent.log.continue_after(earlier);
    }
    // First, so that nothing is in neither of both. One, because a command may write faster than S3 takes it.
    while let Some((number, part)) = agent.log.next_part() {
        let end = part.end();
        match agent.store().write_log_part(log, number, part).await {
            // A part of this process whose upload was given up, or one of another machine of this attempt. Positions say what overlaps.
            Err(StoreError::Lost { .. }) => agent.log.skip_number(),
            Err(error) => return Err(error),
            Ok(()) => {
                if agent.log.set_stored(end) {
                    let mib = PARTS_BYTES_MAX / 1024 / 1024;
                    let words = format!("the log is longer than {mib} MiB: of the rest only the end is uploaded");
                    agent.log.write_line(&words);
                }
                break;
            }
        }
    }
    let tail = agent.log.tail();
    let written = tail.start.saturating_add(u64::try_from(tail.bytes.len()).unwrap_or(u64::MAX));
    if *uploaded != Some(written) {
        agent.store().write_log(log, tail).await?;
        *uploaded = Some(written);
    }
    Ok(())
}
