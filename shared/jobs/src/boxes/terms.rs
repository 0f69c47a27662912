//! The terms of one `up`, and what has become of them.

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId};
use model::mark::whole_second;
use model::moment::{after, before};
use model::reply_link::EndingBox;
use serde::{Deserialize, Serialize};

use super::end::WARNED_BEFORE;
use super::{BoxHolder, BoxTimes, HomeWait, IdleLimits, TooManyBoxes, box_name};
use crate::{AGENT_ENDS_BEFORE, Job, JobMachine, JobReservation, Phase};

/// `[box]` of a spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxTerms {
    /// The key that opens it, one line of OpenSSH's `authorized_keys` (`sshd(8)`).
    pub public_key: String,
    /// The size of its home, if it has none yet.
    pub home_gib: u32,
    /// Idle for so long, it ends.
    pub idle_seconds: i64,
    /// Its end, unless `curfew box extend` moves it.
    pub until: Timestamp,
    /// Instead of being brought up, the box is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<BoxRemoval>,
}

/// The part of a box that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoxRemoval {
    /// Its volume, once a snapshot has all that is in it: the box can be brought up again.
    Volume,
    /// Its snapshots and its document as well.
    Everything,
}

/// The box of a job, in its `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxState {
    /// Its end, which `curfew box extend` moves.
    pub soft_end: Timestamp,
    /// The time before which it does not end by idleness.
    pub kept_until: Timestamp,
    /// The home, once it is attached to the present machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<MountedHome>,
    /// The reason for which it is not attached yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_wait: Option<HomeWait>,
    /// Time of the last heartbeat, if that is long ago. It ends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Timestamp>,
    /// The latest attempt of which a heartbeat could be read; 0: none.
    #[serde(default)]
    pub heard_attempt: u32,
    /// `true` once people are to hear of its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_is_near: bool,
    /// Time of the last known sync of its home: the word of a machine, which only people are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_at: Option<Timestamp>,
    /// The newest request to extend that has an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended: Option<Extension>,
    /// The reservation that a request to extend waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<JobReservation>,
}

/// The answer to a request to extend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extension {
    /// [`ExtendRequest::at`].
    pub asked_at: Timestamp,
    /// The reason for a refusal, in words for the person; `None`: it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The volume that a machine mounts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MountedHome {
    pub volume: ResourceId,
    pub machine: ResourceId,
    /// `true` if it was made empty: it alone may be formatted, where nothing is in it yet.
    pub is_empty: bool,
}

/// `jobs/<team>/<job>/extend.json`: a person wants the box not to end before then.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExtendRequest {
    /// Time of the request.
    pub at: Timestamp,
    pub until: Timestamp,
    /// The person, if known.
    #[serde(default)]
    pub by: Option<String>,
}

/// A link keeps a box for so long.
pub const KEPT_BY_LINK: SignedDuration = SignedDuration::from_hours(3);

/// The box of a job at one moment, for [`next()`](crate::next()).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoxFacts {
    /// The job holds it, and nobody else can launch a machine for it.
    Held {
        /// The home, if it is attached to the job's machine.
        home: Option<MountedHome>,
        /// The reason for which it is not.
        wait: Option<HomeWait>,
    },
    /// Another job holds it.
    HeldBy(BoxHolder),
    /// Its home is in another region than the job.
    Elsewhere(Region),
    /// Its owner has as many up as the configuration allows.
    TooMany(TooManyBoxes),
    /// The job does not hold it any more, and has nothing left to do for its home.
    Free,
}

impl BoxTerms {
    /// Seconds until its end.
    #[must_use]
    pub fn seconds_left(&self, now: Timestamp) -> i64 {
        self.until.as_second().saturating_sub(now.as_second())
    }

    /// The times by which idleness is judged.
    #[must_use]
    pub const fn idle_limits(&self) -> IdleLimits {
        IdleLimits { idle: SignedDuration::from_secs(self.idle_seconds), attached_max: super::idleness::ATTACHED_MAX }
    }
}

impl BoxState {
    /// The box of a job that was just accepted.
    #[must_use]
    pub const fn new(terms: &BoxTerms, now: Timestamp) -> Self {
        Self {
            soft_end: terms.until,
            kept_until: now,
            home: None,
            home_wait: None,
            silent_since: None,
            heard_attempt: 0,
            end_is_near: false,
            synced_at: None,
            extended: None,
            asked: None,
        }
    }

    /// Its times on a machine that ends at `hard_end`.
    #[must_use]
    pub const fn times(&self, hard_end: Timestamp) -> BoxTimes {
        BoxTimes { hard_end, soft_end: self.soft_end, kept_until: self.kept_until }
    }
}

impl ExtendRequest {
    /// The request at `now` that a box does not end for so long.
    #[must_use]
    pub fn new(now: Timestamp, length: SignedDuration, by: Option<String>) -> Self {
        let at = whole_second(now);
        Self { at, until: after(at, length), by }
    }
}

impl Job {
    /// The times of its box, on the machine that it has.
    #[must_use]
    pub fn box_times(&self) -> Option<BoxTimes> {
        Some(self.gpu_box.as_ref()?.times(self.machine()?.ends_at))
    }

    /// Its box, as a link names it; `None` if a link could not keep it, because its machine ends too soon.
    #[must_use]
    pub fn ending_box(&self) -> Option<EndingBox> {
        let (Phase::Running(machine), Some(gpu_box)) = (&self.phase, &self.gpu_box) else { return None };
        let is_too_late = before(gpu_box.soft_end, WARNED_BEFORE) > before(latest_box_end(machine), KEPT_BY_LINK);
        (!is_too_late).then(|| EndingBox {
            job: self.job.to_string(),
            name: box_name(&self.job),
            owner: self.owner.clone(),
            ends_at: gpu_box.soft_end,
            expires_at: machine.ends_at,
        })
    }
}

/// The time until which people may extend a box on that machine.
#[must_use]
pub fn latest_box_end(machine: &JobMachine) -> Timestamp {
    before(machine.ends_at, AGENT_ENDS_BEFORE)
}
