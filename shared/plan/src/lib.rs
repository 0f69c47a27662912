//! The plan: the action for each observed resource with its evidence, or the reason why it is skipped. Plain data.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod action;
mod evidence;
mod gang;
pub mod limits;
pub mod report;
mod staleness;

use std::collections::BTreeMap;
use std::sync::Arc;

use billing::price::Quote;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::fault::Bug;
use model::gang::Gang;
use model::id::{Region, ResourceId, TeamName};
use model::instance::Tags;
use model::mode::Mode;
use model::notification_log::{NotificationKey, NotificationLog, ResourceRecord};
use model::observation::Gap;
use model::rule::ResourceAction;
use serde::{Deserialize, Serialize};

use crate::limits::LimitsExceeded;

pub use action::{
    Action, AnnouncedActions, Announcement, BudgetAction, ExpiryAnnouncement, InstanceAction, SageMakerAction,
    SnapshotAction, VolumeAction,
};
pub use evidence::{Evidence, Facts, NotifyOnlyReason, OrphanedEvidence};
pub use gang::{gang_key, missing_members};
pub use staleness::{StaleStep, StillHolds, is_safe, may_become_safe};

/// Intended actions of a run. Every observed resource is in `steps` or in `skipped`, exactly once.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Number of observed instances, volumes or resources of `SageMaker`. Snapshots do not count.
    pub seen: usize,
    pub steps: Vec<Step>,
    pub skipped: Vec<Skipped>,
    pub gaps: Vec<Gap>,
    /// Zone of the account, in which messages also show the time.
    pub time_zone: TimeZone,
}

/// One action on one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub target: Target,
    pub action: Action,
    pub evidence: Evidence,
    /// The time from which on the announced action is due.
    pub deadline: Option<Timestamp>,
    /// Reason that the step only notifies.
    pub notify_only: Option<NotifyOnlyReason>,
    /// The other violated rules of a mark, each with its deadline.
    pub further_evidence: Vec<(Evidence, Timestamp)>,
    /// Observe: nothing is written.
    pub mode: Mode,
    /// Saving by the action. `None` if the price is unknown.
    pub saves: Option<Quote>,
    /// Reason that the step awaits approval.
    pub held: Option<LimitsExceeded>,
    /// `true` if the owner was notified, so that only the write is missing.
    pub already_notified: bool,
    /// The time at which AWS refused this announced action last: it is tried again, and is no pending work.
    pub refused_at: Option<Timestamp>,
    /// The gang of an instance: Curfew stops all of its members in one run, or none.
    pub gang: Option<Arc<Gang>>,
    /// A further finding for the owner.
    pub finding: Option<OwnerFinding>,
    pub memory: ResourceMemory,
}

/// The resource of a step or a finding, and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub region: Region,
    pub resource: ResourceId,
    /// Team by the resource's tags.
    pub team: Option<TeamName>,
    /// Owner by the resource's tags.
    pub owner: Option<String>,
    /// Its `Name` tag.
    pub name: Option<String>,
    /// Description for people: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
}

/// A resource that a run does not change.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    pub target: Target,
    pub reason: SkipReason,
    /// A finding for the owner.
    pub finding: Option<OwnerFinding>,
    /// The cost of what Curfew leaves to others: the report shows it.
    pub left_cost: Option<LeftCost>,
    pub memory: ResourceMemory,
}

/// The cost of what Curfew leaves to another controller, or to its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftCost {
    /// `None` if unknown.
    pub price: Option<Quote>,
    /// The reason that it is paid for without use; `None` for a volume that may be needed.
    pub waste: Option<String>,
}

/// Entries that the log keeps about one resource after a run, besides what the run itself announces and carries out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceMemory {
    /// Notifications that are not repeated, because their reason still holds or is unknown.
    pub active_keys: Vec<NotificationKey>,
    /// The record, without notifications.
    pub record: ResourceRecord,
    /// The owner tags of the instance that a volume was last seen on.
    pub host_tags: Option<Tags>,
}

impl Target {
    /// A target of which only the id is known.
    #[must_use]
    pub fn bare(region: &Region, resource: &ResourceId) -> Self {
        let (region, resource, what) = (region.clone(), resource.clone(), String::new());
        Self { region, resource, team: None, owner: None, name: None, what }
    }
}

impl Skipped {
    /// One without a finding.
    #[must_use]
    pub const fn new(target: Target, reason: SkipReason, memory: ResourceMemory) -> Self {
        Self { target, reason, finding: None, left_cost: None, memory }
    }

    /// One that a bug kept from being judged: nothing is done to it, and all that was announced stays.
    #[must_use]
    pub fn for_bug(bug: &Bug, target: Target, log: &NotificationLog) -> Self {
        let kind = FindingKind::Bug;
        let mut memory = ResourceMemory::unchanged(log, &target.resource);
        memory.active_keys.push(kind.key());
        let finding = OwnerFinding { kind, what: bug.to_string(), text: format!("Curfew does nothing to it: {bug}") };
        Self { finding: Some(finding), ..Self::new(target, SkipReason::Bug, memory) }
    }
}

impl ResourceMemory {
    /// Returns everything that the log has about a resource.
    #[must_use]
    pub fn unchanged(log: &NotificationLog, id: &ResourceId) -> Self {
        let mut record = log.record(id).cloned().unwrap_or_default();
        let active_keys = std::mem::take(&mut record.notified).into_keys().collect();
        let host_tags = record.last_host.as_ref().and_then(|host| log.hosts.get(host)).cloned();
        Self { active_keys, record, host_tags }
    }
}

/// Reason that a run skips a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// The resource has `curfew:protected`.
    Protected,
    /// Its `curfew:keep-until` is in the future.
    Kept,
    /// One of its tags cannot be read.
    Unreadable,
    /// A bug in Curfew kept it from being judged.
    Bug,
    /// Another controller manages it.
    ForeignOwned,
    /// The resource does not run.
    NotRunning,
    /// Its action is announced, and the deadline is in the future.
    Marked,
    /// Its owner was notified, and nothing more is due.
    Notified,
    /// AWS refused its action within the last day, for a reason that only a person lifts.
    Refused,
    /// The resource works.
    Busy,
    /// Launched too recently to be judged.
    Young,
    /// Its usage is unknown.
    UsageUnknown,
    /// No rule is violated.
    Compliant,
    /// A volume that is attached.
    Attached,
    /// A volume that is neither attached nor available.
    NotAvailable,
    /// A volume of a Kubernetes claim, which may be scaled to zero.
    Kubernetes,
    /// A volume that several instances may share.
    MultiAttach,
    /// An instance or a volume of a job that is not finished.
    LiveJob,
    /// An instance that names a job, where it is unknown whether it belongs to that job.
    JobUnknown,
    /// A volume whose snapshot is not complete yet.
    SnapshotPending,
    /// A volume whose snapshot failed.
    SnapshotFailed,
    /// A snapshot that Curfew made, of a volume that exists.
    VolumeExists,
    /// A snapshot from which a deleted volume can be restored.
    Restorable,
    /// A budget below its first threshold.
    WithinBudget,
    /// A team without a budget.
    WithoutBudget,
    /// A budget whose spend is unknown.
    BudgetUnknown,
    /// An endpoint that Application Auto Scaling scales.
    Autoscaled,
    /// An endpoint with several variants.
    SeveralVariants,
    /// An endpoint with shadow variants.
    ShadowVariants,
    /// An endpoint for asynchronous inference.
    AsyncInference,
    /// An endpoint that runs on no instance of its own.
    Serverless,
    /// An endpoint that hosts inference components.
    InferenceComponents,
    /// An endpoint that was created or changed within its window.
    RecentlyChanged,
}

/// A finding that the owner of a resource is notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerFinding {
    pub kind: FindingKind,
    /// A fingerprint of what was found. The owner is notified again when it changes.
    pub what: String,
    /// Text for people.
    pub text: String,
}

/// Subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// A tag cannot be read.
    Unreadable,
    /// A bug in Curfew kept the resource from being judged.
    Bug,
    /// Another controller manages a resource that violates a rule.
    ForeignOwned,
    /// The resource names a job that is not its own.
    Disowned,
    /// Its usage is unknown.
    UsageUnknown,
    /// EC2 gave up a start that Curfew requested.
    StartFailed,
    /// A volume is attached to an instance that has been stopped for long.
    OnStoppedInstance,
    /// The snapshot of a volume failed.
    SnapshotFailed,
    /// Nothing runs in reserved capacity.
    UnusedCapacity,
    /// An idle instance that another controller manages.
    IdleNode,
    /// AWS retires the family of an instance.
    RetiredFamily,
    /// A training job runs on demand that managed Spot could run.
    OnDemandTraining,
    /// An endpoint has few requests.
    LowUse,
    /// No client uses a file system.
    IdleFileSystem,
}

impl FindingKind {
    /// The key by which the finding is remembered.
    #[must_use]
    pub fn key(self) -> NotificationKey {
        NotificationKey::named(match self {
            Self::Unreadable => "unreadable",
            Self::Bug => "bug",
            Self::ForeignOwned => "foreign-owned",
            Self::Disowned => "disowned",
            Self::UsageUnknown => "usage-unknown",
            Self::StartFailed => "start-failed",
            Self::OnStoppedInstance => "on-stopped-instance",
            Self::SnapshotFailed => "snapshot-failed",
            Self::UnusedCapacity => "unused-capacity",
            Self::IdleNode => "idle-node",
            Self::RetiredFamily => "retired-family",
            Self::OnDemandTraining => "on-demand-training",
            Self::LowUse => "low-use",
            Self::IdleFileSystem => "idle-file-system",
        })
    }
}

impl Step {
    /// A step without deadline, price and findings.
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
            refused_at: None,
            gang: None,
            finding: None,
            memory: ResourceMemory::default(),
        }
    }

    /// Returns `true` if this run carries the step out: it is enforced, and awaits no approval.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.mode == Mode::Enforce && self.held.is_none()
    }

    /// The name under which a refusal is remembered; `None` if every run tries the step again.
    #[must_use]
    pub const fn refusable(&self) -> Option<Refusable> {
        if let Some(ending) = self.action.ending() {
            return Some(Refusable::Ending(ending));
        }
        match &self.action {
            Action::Snapshot(_, SnapshotAction::DeleteFailed { .. }) => Some(Refusable::Ending(ResourceAction::Delete)),
            Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)) => Some(Refusable::Label),
            action if action.announced_actions().is_some() => Some(Refusable::Label),
            _ => None,
        }
    }

    /// Returns `true` for an enforced policy action, which `[limits]` count.
    #[must_use]
    pub fn is_policy_action(&self) -> bool {
        let is_counted = self.action.stops_or_deletes() && !self.action.deletes_failed_snapshot();
        self.mode == Mode::Enforce && is_counted && !self.evidence.is_scheduled()
    }
}

/// A kind of step that AWS may refuse until a person lifts that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusable {
    /// A stop, a termination or a deletion, with the snapshot before it.
    Ending(ResourceAction),
    /// A label that must be there before a later action.
    Label,
}

/// The number of skipped resources by reason.
#[must_use]
pub fn count_skipped(skipped: &[Skipped]) -> BTreeMap<SkipReason, usize> {
    let mut counts = BTreeMap::new();
    for one in skipped {
        *counts.entry(one.reason).or_default() += 1;
    }
    counts
}
