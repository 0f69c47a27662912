//! What all parts of the agent share: who it is, the bucket, the log, and why it has to end.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jobs::checkpoints::UnsavedWork;
use jobs::telemetry::GpuTrend;
use jobs::warning::{PendingUpload, grace};
use jobs::{
    AGENT_ENDS_BEFORE, AgentWarning, AgentWarningKind, AgentWarnings, ExitReason, GpuWork, Heartbeat, MachineIdentity,
    STANDS_AFTER,
};
use model::moment::before;
use store::Store;
use tokio::sync::{Notify, watch};

use crate::fence::Fence;
use crate::log::Log;
use crate::world::{Pace, left_until, now, time_since};

/// The time between the orderly end of the attempt and its absolute end.
const SPARE: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndCause {
    /// As in the exit record.
    pub(crate) reason: ExitReason,
    /// For the owner.
    pub(crate) why: String,
    /// Until when the agent can upload.
    pub(crate) until: Instant,
}

impl EndCause {
    fn overruled_by(&self, other: &Self) -> bool {
        other.reason == ExitReason::Fenced && self.reason != ExitReason::Fenced
    }

    /// Another attempt has the fence.
    pub(crate) fn fenced(why: String) -> Self {
        Self { reason: ExitReason::Fenced, why, until: Instant::now() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttemptEnd {
    pub(crate) reason: ExitReason,
    pub(crate) code: Option<i32>,
    pub(crate) why: String,
}

impl AttemptEnd {
    pub(crate) fn broken(why: impl Display) -> Self {
        Self { reason: ExitReason::Broken, code: None, why: why.to_string() }
    }
}

/// Why the command does not begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartError {
    /// This attempt ends; another machine may do better.
    Ended(AttemptEnd),
    /// No machine would, so the job has failed: with an exit code by which a shell says so, and which is not retried.
    Impossible { code: i32, why: String },
}

impl StartError {
    /// POSIX.1-2024, "Exit Status for Commands": it was found, and cannot be run.
    pub(crate) const CANNOT_RUN: i32 = 126;
    /// A program was not found.
    pub(crate) const NOT_FOUND: i32 = 127;

    pub(crate) fn broken(why: impl Display) -> Self {
        Self::Ended(AttemptEnd::broken(why))
    }
}

impl From<AttemptEnd> for StartError {
    fn from(end: AttemptEnd) -> Self {
        Self::Ended(end)
    }
}

impl From<EndCause> for AttemptEnd {
    fn from(cause: EndCause) -> Self {
        Self { reason: cause.reason, code: None, why: cause.why }
    }
}

/// What a heartbeat says.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentStatus {
    pub(crate) doing: &'static str,
    pub(crate) step: Option<u64>,
    pub(crate) steps_per_hour: Option<f64>,
    /// That of the busiest GPU in the last minute.
    pub(crate) gpu_percent: Option<f64>,
    pub(crate) unsaved: UnsavedWork,
    pub(crate) gpus: Option<GpuWork>,
    pub(crate) trend: GpuTrend,
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) identity: MachineIdentity,
    pub(crate) store: Store,
    pub(crate) log: Log,
    pub(crate) pace: Pace,
    /// A directory of root for what a restarted agent has to know.
    pub(crate) state: PathBuf,
    pub(crate) fence: Fence,
    status: Mutex<AgentStatus>,
    begun: Instant,
    warnings: Mutex<AgentWarnings>,
    unsent_warning: Notify,
    cause: watch::Sender<Option<EndCause>>,
}

impl Agent {
    pub(crate) fn new(identity: MachineIdentity, store: Store, log: Log, pace: Pace, state: PathBuf) -> Arc<Self> {
        let fence = Fence::new(store.clone(), &identity);
        let (status, cause) = (Mutex::default(), watch::Sender::new(None));
        let (begun, warnings, unsent_warning) = (Instant::now(), Mutex::default(), Notify::new());
        Arc::new(Self { identity, store, log, pace, state, fence, status, begun, warnings, unsent_warning, cause })
    }

    pub(crate) fn status(&self) -> AgentStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_status(&self, set: impl FnOnce(&mut AgentStatus)) {
        set(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn set_activity(&self, doing: &'static str) {
        self.set_status(|status| {
            status.doing = doing;
            if doing == Heartbeat::RUNNING {
                status.unsaved.begin_command(now());
            } else {
                status.unsaved.end_command(now());
            }
        });
    }

    /// Reports an event to the owner by an immediate heartbeat: the attempt may be over in a minute.
    pub(crate) fn warn_owner(&self, kind: AgentWarningKind, words: &str) {
        if self.with_warnings(|warnings, at| warnings.add_event(kind, words, at)) {
            self.unsent_warning.notify_one();
        }
    }

    /// Reports a condition to the owner if it outlasts anything that passes by itself.
    pub(crate) fn warn_owner_if_lasting(&self, kind: AgentWarningKind, words: &str) {
        self.warn_owner_after(STANDS_AFTER, kind, words);
    }

    /// Reports a condition if it lasts so long.
    pub(crate) fn warn_owner_after(&self, stands_after: SignedDuration, kind: AgentWarningKind, words: &str) {
        self.with_warnings(|warnings, at| warnings.set_condition(kind, words, stands_after, at));
    }

    /// The condition is over.
    pub(crate) fn clear_warning(&self, kind: AgentWarningKind) {
        self.with_warnings(|warnings, _| warnings.clear(kind));
    }

    /// The warnings for the owner of the job.
    pub(crate) fn current_warnings(&self) -> Vec<AgentWarning> {
        self.with_warnings(|warnings, at| warnings.to_report(at))
    }

    /// Returns once there is a warning that no heartbeat has sent.
    pub(crate) async fn wait_for_warning(&self) {
        self.unsent_warning.notified().await;
    }

    fn with_warnings<T>(&self, with: impl FnOnce(&mut AgentWarnings, SignedDuration) -> T) -> T {
        let at = self.pace.unhurried(time_since(self.begun));
        with(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner), at)
    }

    /// Ends the attempt. The first reason stays, unless the fence is lost; the shortest time counts.
    pub(crate) fn end(&self, cause: EndCause) {
        let words = match &*self.cause.borrow() {
            None => format!("this attempt ends: {}", cause.why),
            Some(before) if before.overruled_by(&cause) => format!("this attempt ends at once: {}", cause.why),
            Some(before) if cause.until < before.until => format!("there is less time than that: {}", cause.why),
            Some(_) => return,
        };
        self.cause.send_modify(|before| match before {
            Some(before) if !before.overruled_by(&cause) => before.until = before.until.min(cause.until),
            _ => *before = Some(cause),
        });
        self.log.write_line(&words);
    }

    /// Whether EC2 or `init` ends the machine before the attempt is finished.
    pub(crate) fn interruption(&self) -> Option<EndCause> {
        self.end_cause().filter(|cause| cause.reason == ExitReason::Interrupted)
    }

    pub(crate) fn end_cause(&self) -> Option<EndCause> {
        self.cause.borrow().clone()
    }

    /// Waits until the attempt has to end; returns why.
    pub(crate) async fn cause(&self) -> EndCause {
        let mut changes = self.cause.subscribe();
        loop {
            if let Some(cause) = changes.borrow_and_update().clone() {
                return cause;
            }
            // The sender lives as long as the agent.
            let _ = changes.changed().await;
        }
    }

    /// Completes the future, unless the attempt has to end before.
    pub(crate) async fn unless_it_ends<T>(&self, work: impl Future<Output = T>) -> Result<T, AttemptEnd> {
        tokio::select! {
            biased;
            cause = self.cause() => Err(cause.into()),
            done = work => Ok(done),
        }
    }

    /// When the agent ends the attempt in order.
    pub(crate) fn ends_at(&self) -> Timestamp {
        before(self.identity.ends_at, self.pace.scale(AGENT_ENDS_BEFORE))
    }

    /// How long the agent can still upload.
    pub(crate) fn time_left(&self) -> SignedDuration {
        let latest = before(self.identity.ends_at, self.pace.scale(SPARE)).duration_since(now());
        self.cause.borrow().as_ref().map_or(latest, |cause| left_until(cause.until).min(latest))
    }

    /// Returns at the last moment for uploads, which a warning may move.
    pub(crate) async fn time_is_up(&self) {
        self.comes_to_zero(|left| left).await;
    }

    /// Returns when to kill a command that got the signal at `signaled_at`: the more it still has to upload, the earlier.
    pub(crate) async fn time_to_kill(&self, signaled_at: Instant, load: impl Fn() -> PendingUpload) {
        self.comes_to_zero(|left| {
            let since = time_since(signaled_at);
            grace(left.saturating_add(since), load()).saturating_sub(since)
        })
        .await;
    }

    /// Waits as long as the remaining time allows. A warning shortens it, and a changed clock may.
    async fn comes_to_zero(&self, wait: impl Fn(SignedDuration) -> SignedDuration) {
        let mut changes = self.cause.subscribe();
        loop {
            changes.mark_unchanged();
            let wait = wait(self.time_left());
            if wait <= SignedDuration::ZERO {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait.unsigned_abs().min(Duration::from_secs(1))) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// Completes the future in time, or answers `None`.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.time_is_up() => None,
        }
    }
}
