//! The state that all parts of the agent share: its identity, the bucket, the log, and the cause that ends the attempt.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use jobs::warning::{PendingUpload, grace, time_after_uploads};
use jobs::{
    AGENT_ENDS_BEFORE, AgentWarning, AgentWarningKind, AgentWarnings, ExitReason, FIRST_HEARTBEAT_AFTER,
    GPU_BUSY_PERCENT, Heartbeat, MachineIdentity, WorkMonitor, WorkSigns, agent_warning,
};
use model::duration::format_duration;
use model::moment::before;
use store::{LogName, Store, StoreError};
use tokio::sync::{Notify, watch};

use crate::arguments::{Arguments, BoxPlaces};
use crate::buckets::StateBuckets;
use crate::fence::Fence;
use crate::gang::GangSeat;
use crate::heartbeat::AgentStatus;
use crate::log::Log;
use crate::world::{Pace, after, left_until, now, time_since};

/// The time between the orderly end of the attempt and its absolute end.
const SPARE: SignedDuration = SignedDuration::from_mins(1);

/// The longest time without an answer of S3 where the bucket has a copy in another region: a person decides that this takes over, at night as
/// well. No stack replaces the machine before, unless it sees it in EC2, and then it terminates it.
const TAKEOVER_TIMEOUT: SignedDuration = SignedDuration::from_hours(6);

/// A file in the agent's own directory.
const HAS_RUN: &str = "has-run";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndCause {
    /// The reason of the exit record. [`ExitReason::Failed`]: a limit of the job ends it.
    pub(crate) reason: ExitReason,
    /// The cause, in words for the owner.
    pub(crate) why: String,
    /// The time until which the agent can upload.
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

    /// Every GPU has been idle for so long, the limit of the job.
    pub(crate) fn idle(limit: SignedDuration, pace: Pace) -> Self {
        let limit = format_duration(limit);
        let why = format!("every GPU was below {GPU_BUSY_PERCENT} % for {limit}, the limit that `limits.idle` sets");
        let until = after(pace.scale(AGENT_ENDS_BEFORE.saturating_sub(SPARE)));
        Self { reason: ExitReason::Failed, why, until }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttemptEnd {
    pub(crate) reason: ExitReason,
    pub(crate) code: Option<i32>,
    pub(crate) why: String,
    /// True if a limit of the job ended it.
    pub(crate) is_final: bool,
}

impl AttemptEnd {
    pub(crate) fn broken(why: impl Display) -> Self {
        Self { reason: ExitReason::Broken, code: None, why: why.to_string(), is_final: false }
    }
}

/// The reason why the command does not begin.
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

    pub(crate) fn cannot_run(why: impl Display) -> Self {
        Self::Impossible { code: Self::CANNOT_RUN, why: why.to_string() }
    }

    /// S3 refused, or did not answer: the next machine has the same role and the same bucket.
    pub(crate) fn from_store(error: &StoreError, why: impl Display) -> Self {
        if error.lasts() { Self::cannot_run(why) } else { Self::broken(why) }
    }

    /// The kernel refused. The next machine boots from the same image, so it would meet the same on its own disk, unless a program of the job
    /// has changed this one.
    pub(crate) fn from_io(agent: &Agent, error: &io::Error, why: impl Display) -> Self {
        if !agent.has_run_before && is_of_image(error.kind()) { Self::cannot_run(why) } else { Self::broken(why) }
    }
}

/// True if an error is about paths, rights, sizes and arguments, not about a disk that fails or a kernel that is out of something.
const fn is_of_image(error: io::ErrorKind) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error,
        Kind::NotFound
            | Kind::PermissionDenied
            | Kind::AlreadyExists
            | Kind::NotADirectory
            | Kind::IsADirectory
            | Kind::DirectoryNotEmpty
            | Kind::ResourceBusy
            | Kind::InvalidInput
            | Kind::InvalidFilename
            | Kind::ArgumentListTooLong
            | Kind::StorageFull
            | Kind::QuotaExceeded
            | Kind::FileTooLarge
            | Kind::Unsupported
    )
}

impl From<AttemptEnd> for StartError {
    fn from(end: AttemptEnd) -> Self {
        Self::Ended(end)
    }
}

impl From<EndCause> for AttemptEnd {
    fn from(cause: EndCause) -> Self {
        Self { reason: cause.reason, code: None, why: cause.why, is_final: cause.reason == ExitReason::Failed }
    }
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) identity: MachineIdentity,
    pub(crate) buckets: Arc<StateBuckets>,
    pub(crate) log: Log,
    pub(crate) pace: Pace,
    /// A directory of root for what a restarted agent has to know.
    pub(crate) state: PathBuf,
    pub(crate) places: BoxPlaces,
    /// True if programs of the job ran on this machine before the agent started: what is on its disk may be theirs.
    pub(crate) has_run_before: bool,
    pub(crate) fence: Fence,
    seat: OnceLock<GangSeat>,
    status: Mutex<AgentStatus>,
    begun: Instant,
    warnings: Mutex<AgentWarnings>,
    work: Mutex<WorkMonitor>,
    unsent_warning: Notify,
    cause: watch::Sender<Option<EndCause>>,
}

impl Agent {
    pub(crate) fn new(identity: MachineIdentity, buckets: StateBuckets, log: Log, arguments: &Arguments) -> Arc<Self> {
        let buckets = Arc::new(buckets);
        let fence = Fence::new(Arc::clone(&buckets), &identity);
        // Beside the identity.
        let state = arguments.identity.parent().map(Path::to_owned).unwrap_or_default();
        let (pace, places) = (arguments.pace, arguments.places.clone());
        let (status, cause) = (Mutex::default(), watch::Sender::new(None));
        let (begun, warnings, work, unsent_warning) =
            (Instant::now(), Mutex::default(), Mutex::default(), Notify::new());
        let has_run_before = state.join(HAS_RUN).exists();
        Arc::new(Self {
            identity,
            buckets,
            log,
            pace,
            state,
            places,
            has_run_before,
            fence,
            seat: OnceLock::new(),
            status,
            begun,
            warnings,
            work,
            unsent_warning,
            cause,
        })
    }

    /// The state bucket that this attempt writes to, until it moves to a copy.
    pub(crate) fn store(&self) -> &Store {
        self.buckets.current()
    }

    /// The longest time without an answer of S3. With a copy of the bucket in another region the attempt waits for its stack to act.
    pub(crate) fn outage_timeout(&self) -> SignedDuration {
        let may_move = self.buckets.copy().is_some() && !self.buckets.has_moved();
        if may_move { TAKEOVER_TIMEOUT } else { FIRST_HEARTBEAT_AFTER }
    }

    /// The machine's place in its gang, once it is known; `None` on a single machine.
    pub(crate) fn seat(&self) -> Option<&GangSeat> {
        self.seat.get()
    }

    /// True if this machine tells the owner of steps that are missing ([`GangSeat::answers_for_steps`]).
    pub(crate) fn answers_for_steps(&self) -> bool {
        self.seat().is_none_or(GangSeat::answers_for_steps)
    }

    /// Takes the machine's place in its gang, once.
    pub(crate) fn take_seat(&self, seat: GangSeat) -> &GangSeat {
        self.seat.get_or_init(|| seat)
    }

    pub(crate) fn log_name(&self) -> LogName<'_> {
        let MachineIdentity { job, attempt, .. } = &self.identity;
        LogName { job, attempt: *attempt, node: self.seat().map(|seat| seat.node) }
    }

    /// Notes for a later start of the agent that programs of the job run on this machine.
    pub(crate) fn note_that_it_runs(&self) {
        if let Err(error) = fs::write(self.state.join(HAS_RUN), "") {
            self.log.write_line(&format!("a restart of the agent would not know that the job has run here: {error}"));
        }
    }

    pub(crate) fn status(&self) -> AgentStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_status(&self, set: impl FnOnce(&mut AgentStatus)) {
        set(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn set_activity(&self, doing: &'static str) {
        self.with_work(|work, at| work.begin_activity(doing, at));
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
        self.warn_owner_after(agent_warning::STANDS_AFTER, kind, words);
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

    /// Sends a heartbeat as soon as possible.
    pub(crate) fn hasten_heartbeat(&self) {
        self.unsent_warning.notify_one();
    }

    /// Returns once there is a warning that no heartbeat has sent.
    pub(crate) async fn wait_for_warning(&self) {
        self.unsent_warning.notified().await;
    }

    fn with_warnings<T>(&self, with: impl FnOnce(&mut AgentWarnings, SignedDuration) -> T) -> T {
        with(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner), self.moment_of(Instant::now()))
    }

    /// Counted from the beginning of the attempt, at the pace of 1.
    fn moment_of(&self, then: Instant) -> SignedDuration {
        let since = SignedDuration::try_from(then.saturating_duration_since(self.begun));
        self.pace.unhurried(since.unwrap_or(SignedDuration::MAX))
    }

    /// Observes the work, or asks about it, as of now.
    pub(crate) fn with_work<T>(&self, with: impl FnOnce(&mut WorkMonitor, SignedDuration) -> T) -> T {
        with(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner), self.moment_of(Instant::now()))
    }

    /// Warns the owner while the work is stalled. Returns the signs of work for a heartbeat.
    pub(crate) fn report_work(&self) -> WorkSigns {
        let last_output = self.log.last_output().map(|then| self.moment_of(then));
        let (stall, signs) = self.with_work(|work, at| {
            if let Some(last_output) = last_output {
                work.observe_output(last_output);
            }
            (work.find_stall(at), work.to_signs(at))
        });
        match stall {
            Some(stall) => self.warn_owner_after(SignedDuration::ZERO, AgentWarningKind::Stalled, &stall.words),
            None => self.clear_warning(AgentWarningKind::Stalled),
        }
        signs
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

    /// Returns the cause if EC2 or `init` ends the machine before the attempt is finished.
    pub(crate) fn interruption(&self) -> Option<EndCause> {
        self.end_cause().filter(|cause| cause.reason == ExitReason::Interrupted)
    }

    pub(crate) fn end_cause(&self) -> Option<EndCause> {
        self.cause.borrow().clone()
    }

    /// The changes of the cause that ends the attempt.
    pub(crate) fn cause_changes(&self) -> watch::Receiver<Option<EndCause>> {
        self.cause.subscribe()
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

    /// Returns the time when the agent ends the attempt in order.
    pub(crate) fn ends_at(&self) -> Timestamp {
        before(self.identity.ends_at, self.pace.scale(AGENT_ENDS_BEFORE))
    }

    /// Returns the time that is left for uploads.
    pub(crate) fn time_left(&self) -> SignedDuration {
        let latest = before(self.identity.ends_at, self.pace.scale(SPARE)).duration_since(now());
        self.cause.borrow().as_ref().map_or(latest, |cause| left_until(cause.until).min(latest))
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

    /// Completes an upload in time, or answers `None`. Head, the exit record and the log have time after it.
    pub(crate) async fn upload_in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.in_time_before(time_after_uploads(self.time_left()), work).await
    }

    /// Completes the future in time, or answers `None`.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.in_time_before(SignedDuration::ZERO, work).await
    }

    /// Completes the future while more time than `reserve` is left; a warning may shorten it.
    async fn in_time_before<T>(&self, reserve: SignedDuration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.comes_to_zero(|left| left.saturating_sub(reserve)) => None,
        }
    }
}
