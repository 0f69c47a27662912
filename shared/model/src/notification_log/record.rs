//! The record of one resource.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{NotificationEntry, NotificationKey};
use crate::id::{ResourceId, RunId};
use crate::mark::{AnnouncedAction, whole_second};
use crate::refusal::Refusal;
use crate::rule::{ResourceAction, Rule};

/// Memory of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceRecord {
    /// The life that the record is about, in whole seconds: the launch of an instance, the creation of a resource of `SageMaker`, the first
    /// sight of a volume without an attachment, the start of a snapshot. Another one voids what was announced and carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The announced actions, whose message SNS accepted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub announced: BTreeMap<Rule, AnnouncedAction>,
    /// The value of `curfew:expires-at` that Curfew saw before that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry_seen: Option<Timestamp>,
    /// The last stop or termination by Curfew. It is written before the call, so that a run that is cut off leaves it behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_out: Option<CarriedOut>,
    /// The time of the last start that Curfew requested, of an instance that it stopped for the night.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_requested: Option<Timestamp>,
    /// The actions that AWS refused when they were tried last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<ResourceAction, Refusal>,
    /// The last refusal of a label, without which nothing may be done later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_refused: Option<Refusal>,
    /// The newest runs that requested a snapshot of this volume. Written before the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshot_runs: Vec<RunId>,
    /// Origin of this snapshot, if Curfew made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<SafetyRecord>,
    /// The instance that this volume was last seen on, if the volume's own tags do not name its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_host: Option<ResourceId>,
    /// Notifications that are not repeated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notified: BTreeMap<NotificationKey, NotificationEntry>,
}

/// A failed snapshot is requested again once a day, and each is removed within days.
const SNAPSHOT_RUNS_MAX: usize = 30;

/// A stop or a termination by Curfew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedOut {
    pub rule: Rule,
    pub action: ResourceAction,
    pub at: Timestamp,
}

/// The origin of a snapshot that Curfew made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyRecord {
    pub volume: ResourceId,
    /// The run that requested it.
    pub run: RunId,
    /// Time at which its volume was deleted, or first found gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
}

impl ResourceRecord {
    /// A record about a resource that lives since then.
    #[must_use]
    pub fn about(since: Timestamp) -> Self {
        Self { since: Some(whole_second(since)), ..Self::default() }
    }

    /// `true` if the record is about the life that began then. AWS gives times of launches and creations in seconds or finer.
    #[must_use]
    pub fn is_about(&self, since: Timestamp) -> bool {
        self.since.is_some_and(|of_record| whole_second(of_record) == whole_second(since))
    }

    /// `true` if nothing is remembered. The beginning of a life alone is worth nothing, except of an unattached volume.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Records that a run requests a snapshot.
    pub fn add_snapshot_run(&mut self, run: RunId) {
        self.snapshot_runs.push(run);
        let surplus = self.snapshot_runs.len().saturating_sub(SNAPSHOT_RUNS_MAX);
        self.snapshot_runs.drain(..surplus);
    }
}
