//! The plan: what will be done to each observed thing and why, or why it is spared. Plain data.

mod action;
mod evidence;
pub mod limits;
pub mod report;
mod staleness;

use std::collections::BTreeMap;

use billing::price::Quote;
use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::instance::Tags;
use model::mark::Mark;
use model::mode::Mode;
use model::notification_log::NotificationKey;
use model::observation::Gap;
use serde::Serialize;

use crate::limits::LimitsExceeded;

pub use action::{Action, Announcement, BudgetAction, InstanceAction, SafetySnapshot, SnapshotAction, VolumeAction};
pub use evidence::{Evidence, NotifyOnlyReason, OrphanedEvidence, RepeatedEvidence, ResolvedEvidence};
pub use staleness::{StaleStep, StillHolds, is_safe, may_become_safe};

/// What a run will do. Every observed thing is in `steps` or in `skipped`, exactly once.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How many instances, or volumes, were seen; snapshots do not count.
    pub seen: usize,
    pub steps: Vec<Step>,
    pub skipped: Vec<Skipped>,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
}

/// One thing to do to one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub target: Target,
    pub action: Action,
    pub evidence: Evidence,
    /// From when on the announced action is due, or was.
    pub deadline: Option<Timestamp>,
    /// Why the step only notifies.
    pub notify_only: Option<NotifyOnlyReason>,
    /// What else was found at the same time, each with its deadline, in a mark.
    pub further_evidence: Vec<(Evidence, Timestamp)>,
    /// Observe: nothing is written.
    pub mode: Mode,
    /// What the action saves, where the price is known.
    pub saves: Option<Quote>,
    /// Why it must wait for a person.
    pub held: Option<LimitsExceeded>,
    /// Whether people have heard of it, so that only the write is missing.
    pub already_notified: bool,
    /// What its owner should hear besides.
    pub finding: Option<OwnerFinding>,
    /// What stays remembered about the resource.
    pub memory: ResourceMemory,
}

/// Whom a step or a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub region: Region,
    pub resource: ResourceId,
    /// Its team, where its tags say.
    pub team: Option<TeamName>,
    /// Its owner, where its tags say.
    pub owner: Option<String>,
    /// Its `Name` tag.
    pub name: Option<String>,
    /// What it is, for people: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
}

/// Something that is not touched, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    pub target: Target,
    pub reason: SkipReason,
    /// What its owner should hear about it.
    pub finding: Option<OwnerFinding>,
    /// What stays remembered about it.
    pub memory: ResourceMemory,
}

/// What stays remembered about one resource after a run; everything else about it is forgotten.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceMemory {
    /// Topics that, once told, need not be told again: those that still stand, or that nobody can say anything about.
    pub active_keys: Vec<NotificationKey>,
    /// What was announced in observe mode before, and still binds.
    pub shadow_mark: Option<Mark>,
    /// What was announced before, still binds, and could not be written on it yet.
    pub unwritten_mark: Option<Mark>,
    /// What is written on it and binds nobody any more: it was mended while nothing could be written.
    pub void_mark: Option<Mark>,
    /// Before this moment a volume was not unattached, or not seen to be.
    pub first_sight: Option<Timestamp>,
    /// The instance that a volume was last seen on, with what its tags say of its owner.
    pub last_host: Option<(ResourceId, Tags)>,
}

/// Why something is spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// It carries `curfew:protected`.
    Protected,
    /// Its `curfew:keep-until` lies ahead.
    Kept,
    /// A tag of it cannot be read.
    Unreadable,
    /// Another controller owns it.
    ForeignOwned,
    /// It does not run.
    NotRunning,
    /// Its end is announced, and its deadline lies ahead.
    Marked,
    /// Its owner was notified, and nothing more is due.
    Notified,
    /// It works.
    Busy,
    /// Launched too recently to be judged.
    Young,
    /// Nobody can say whether it works.
    UsageUnknown,
    /// No rule is broken.
    Compliant,
    /// A volume that is attached.
    Attached,
    /// A volume that is neither attached nor available.
    NotAvailable,
    /// A volume made for a claim of a Kubernetes cluster, which may be scaled to zero.
    Kubernetes,
    /// A volume that several instances may share.
    MultiAttach,
    /// Of a job that is not finished: an instance that its state knows, or a volume.
    LiveJob,
    /// An instance that names a job, of which nobody can say whether it is that job's.
    JobUnknown,
    /// A volume whose snapshot is not whole yet.
    SnapshotPending,
    /// A snapshot that Curfew made, of a volume that exists.
    VolumeExists,
    /// A snapshot from which a deleted volume can be restored.
    Restorable,
    /// A budget of which not so much is spent that anybody is to hear of it.
    WithinBudget,
    /// A team without a budget.
    WithoutBudget,
    /// A budget of which nobody can say how much is spent.
    BudgetUnknown,
}

/// What an owner should hear about something that is spared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerFinding {
    /// What it is about; told again when `what` changes.
    pub topic: NotificationKey,
    /// A fingerprint of what was found.
    pub what: String,
    /// For people.
    pub text: String,
}

impl Step {
    /// A step with nothing but these.
    #[must_use]
    pub fn bare(target: Target, action: Action, evidence: Evidence, mode: Mode) -> Self {
        Self {
            target,
            action,
            evidence,
            deadline: None,
            notify_only: None,
            further_evidence: Vec::new(),
            mode,
            saves: None,
            held: None,
            already_notified: false,
            finding: None,
            memory: ResourceMemory::default(),
        }
    }

    /// Whether it ends something for a reason that Curfew inferred, for real: what the limits count.
    #[must_use]
    pub fn is_inferred_end(&self) -> bool {
        self.mode == Mode::Enforce && self.action.is_end() && !self.evidence.rule().is_owners_own()
    }
}

/// How many are spared, by reason.
#[must_use]
pub fn count_skipped(skipped: &[Skipped]) -> BTreeMap<SkipReason, usize> {
    let mut counts = BTreeMap::new();
    for one in skipped {
        *counts.entry(one.reason).or_default() += 1;
    }
    counts
}
