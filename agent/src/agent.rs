//! What all parts of the agent share: who it is, the bucket, the log, and why it has to end.

use std::sync::{Arc, Mutex, PoisonError};

use domain::job::{AGENT_ENDS_BEFORE, ExitReason, Identity};
use jiff::{SignedDuration, Timestamp};
use store::Store;
use tokio::sync::watch;

use crate::fence::Fence;
use crate::log::Log;
use crate::world::{Pace, now, sleep_until};

/// Between the last thing that is done in order and the absolute end.
const SPARE: SignedDuration = SignedDuration::from_mins(1);

/// Why the attempt has to end before its command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// As the exit record says it.
    pub(crate) reason: ExitReason,
    /// For its owner.
    pub(crate) why: String,
    /// Until when something can be brought away.
    pub(crate) until: Timestamp,
}

impl Cause {
    /// Nothing of this attempt counts any more.
    pub(crate) fn fenced(why: String) -> Self {
        Self { reason: ExitReason::Fenced, why, until: now() }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) reason: ExitReason,
    pub(crate) code: Option<i32>,
    pub(crate) why: String,
}

impl End {
    pub(crate) fn broken(why: impl Into<String>) -> Self {
        Self { reason: ExitReason::Broken, code: None, why: why.into() }
    }
}

impl From<Cause> for End {
    fn from(cause: Cause) -> Self {
        Self { reason: cause.reason, code: None, why: cause.why }
    }
}

/// What the heart tells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Status {
    pub(crate) doing: &'static str,
    pub(crate) step: Option<u64>,
    pub(crate) steps_per_hour: Option<f64>,
}

/// What all parts of the agent share.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) identity: Identity,
    pub(crate) store: Store,
    pub(crate) log: Log,
    pub(crate) pace: Pace,
    pub(crate) fence: Fence,
    status: Mutex<Status>,
    cause: watch::Sender<Option<Cause>>,
}

impl Agent {
    pub(crate) fn new(identity: Identity, store: Store, log: Log, pace: Pace) -> Arc<Self> {
        let fence = Fence::new(store.clone(), &identity);
        let (status, cause) = (Mutex::default(), watch::Sender::new(None));
        Arc::new(Self { identity, store, log, pace, fence, status, cause })
    }

    pub(crate) fn status(&self) -> Status {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_status(&self, set: impl FnOnce(&mut Status)) {
        set(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Says what it does from now on.
    pub(crate) fn does(&self, doing: &'static str) {
        self.set_status(|status| status.doing = doing);
    }

    /// Has to end, and why. The first reason stays, but for that nothing counts any more.
    pub(crate) fn end(&self, cause: Cause) {
        let why = cause.why.clone();
        let taken = self.cause.send_if_modified(|before| {
            let fenced = |cause: &Cause| cause.reason == ExitReason::Fenced;
            let taken = match before {
                None => true,
                Some(before) => fenced(&cause) && !fenced(before),
            };
            if taken {
                *before = Some(cause);
            }
            taken
        });
        if taken {
            self.log.say(&format!("this attempt ends: {why}"));
        }
    }

    /// Why it has to end, once it has to.
    pub(crate) async fn cause(&self) -> Cause {
        let mut changes = self.cause.subscribe();
        loop {
            if let Some(cause) = changes.borrow_and_update().clone() {
                return cause;
            }
            // The sender lives as long as the agent.
            let _ = changes.changed().await;
        }
    }

    /// Does that, unless the attempt has to end before.
    pub(crate) async fn unless_it_ends<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        tokio::select! {
            biased;
            cause = self.cause() => Err(cause.into()),
            done = work => Ok(done),
        }
    }

    /// When the agent ends the attempt, in order.
    pub(crate) fn ends_at(&self) -> Timestamp {
        self.identity.ends_at - self.pace.of(AGENT_ENDS_BEFORE)
    }

    /// The last moment at which something can still be brought away.
    fn last_moment(&self) -> Timestamp {
        let latest = self.identity.ends_at - self.pace.of(SPARE);
        self.cause.borrow().as_ref().map_or(latest, |cause| cause.until.min(latest))
    }

    /// Returns at the last moment, wherever a warning moves it to.
    pub(crate) async fn time_is_up(&self) {
        let mut changes = self.cause.subscribe();
        loop {
            changes.mark_unchanged();
            let last = self.last_moment();
            tokio::select! {
                () = sleep_until(last) => return,
                _ = changes.changed() => {}
            }
        }
    }

    /// Does that, if there is time; `None` where there was not.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.time_is_up() => None,
        }
    }
}
