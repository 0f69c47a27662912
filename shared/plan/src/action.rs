//! The actions by kind of resource, so that no step can have an action that its resource does not allow.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::ResourceId;
use model::instance::{Instance, Tags};
use model::mark::{AnnouncedAction, Mark};
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{EndpointOrigin, SageMakerKind, SageMakerResource};
use model::volume::{Snapshot, Volume};
use serde::{Serialize, Serializer};

/// The announced action of each rule.
pub type AnnouncedActions = BTreeMap<Rule, AnnouncedAction>;

/// The action of a step with the resource as it was observed: it must not have changed when the step is carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Instance(Instance, InstanceAction),
    Volume(Volume, VolumeAction),
    /// A snapshot that Curfew made.
    Snapshot(Snapshot, SnapshotAction),
    SageMaker(SageMakerResource, SageMakerAction),
    /// About the budget of a team or of the account: no resource changes.
    Budget(BudgetAction),
}

/// A notification of the owner, with the label that shows it on the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// Announce these actions, and write the mark of the earliest.
    Mark(AnnouncedActions),
    /// Call off an announcement.
    Unmark {
        /// The mark of what is still announced.
        remaining: Option<Mark>,
        /// Another label that is no longer true.
        also: Option<&'static str>,
    },
    /// Notify the owner, and write nothing.
    Notify,
}

/// Action on an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceAction {
    Announce(Announcement),
    Stop {
        /// Written first, where the stop is announced and carried out in one run.
        mark: Option<Mark>,
        /// Value of `curfew:stopped` after the stop.
        stopped: String,
    },
    Terminate {
        /// Written first, where the termination is announced and carried out in one run.
        mark: Option<Mark>,
    },
    Start,
}

/// Action on a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeAction {
    Announce(Announcement),
    /// Write `curfew:unattached-since`, which notifies no one.
    TagUnattachedSince(Timestamp),
    Snapshot {
        /// Tags of the new snapshot.
        tags: Tags,
    },
    Delete {
        /// The snapshot that it can be restored from, which must still be whole.
        safety: Option<ResourceId>,
        /// Every snapshot of it that Curfew made.
        expiring: Vec<ResourceId>,
        /// The time of the deletion.
        at: Timestamp,
        /// Time until which these snapshots are kept.
        kept_until: Timestamp,
    },
}

/// Action on a snapshot that Curfew made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotAction {
    /// Announce its expiry, and write its labels: its volume is gone.
    AnnounceExpiry(ExpiryAnnouncement),
    Delete,
    /// Delete one that failed and holds nothing, while its volume exists.
    DeleteFailed {
        /// The time of the deletion, for the label that IAM asks for.
        at: Timestamp,
    },
}

/// The expiry of a snapshot that Curfew made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryAnnouncement {
    /// Time at which its volume was deleted, or found gone.
    pub deleted_at: Timestamp,
    /// Time until which the snapshot is kept.
    pub kept_until: Timestamp,
}

/// Action on a resource of `SageMaker`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SageMakerAction {
    Announce(Announcement),
    /// Stop a notebook instance, whose volume stays, or a job; or give an inference component no copies.
    Stop {
        /// Written first, where the stop is announced and carried out in one run.
        mark: Option<Mark>,
        /// Value of `curfew:stopped` after the stop.
        stopped: String,
    },
    /// Delete an app, whose space and volume stay, or an endpoint, whose configuration and model stay.
    Delete {
        /// Written first, where the deletion is announced and carried out in one run.
        mark: Option<Mark>,
    },
    /// Start a notebook instance.
    Start,
}

/// Action that follows from a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetAction {
    Notify,
    /// Launch no further job of the team: its budget document says so, and launches read it.
    Hold,
}

impl From<Announcement> for InstanceAction {
    fn from(announcement: Announcement) -> Self {
        Self::Announce(announcement)
    }
}

impl From<Announcement> for VolumeAction {
    fn from(announcement: Announcement) -> Self {
        Self::Announce(announcement)
    }
}

impl From<Announcement> for SageMakerAction {
    fn from(announcement: Announcement) -> Self {
        Self::Announce(announcement)
    }
}

impl Action {
    /// The name in responses.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Instance(_, InstanceAction::Announce(announcement))
            | Self::Volume(_, VolumeAction::Announce(announcement))
            | Self::SageMaker(_, SageMakerAction::Announce(announcement)) => match announcement {
                Announcement::Mark(_) => "mark",
                Announcement::Unmark { .. } => "unmark",
                Announcement::Notify => "notify",
            },
            Self::Instance(_, InstanceAction::Stop { .. }) | Self::SageMaker(_, SageMakerAction::Stop { .. }) => "stop",
            Self::Instance(_, InstanceAction::Terminate { .. }) => "terminate",
            Self::Instance(_, InstanceAction::Start) | Self::SageMaker(_, SageMakerAction::Start) => "start",
            Self::Volume(_, VolumeAction::TagUnattachedSince(_))
            | Self::Snapshot(_, SnapshotAction::AnnounceExpiry(_)) => "mark",
            Self::Volume(_, VolumeAction::Snapshot { .. }) => "snapshot",
            Self::Volume(_, VolumeAction::Delete { .. })
            | Self::Snapshot(_, SnapshotAction::Delete | SnapshotAction::DeleteFailed { .. })
            | Self::SageMaker(_, SageMakerAction::Delete { .. }) => "delete",
            Self::Budget(BudgetAction::Notify) => "notify",
            Self::Budget(BudgetAction::Hold) => "hold",
        }
    }

    /// Returns `true` if the action starts something again.
    #[must_use]
    pub const fn is_start(&self) -> bool {
        matches!(self, Self::Instance(_, InstanceAction::Start) | Self::SageMaker(_, SageMakerAction::Start))
    }

    /// Returns `true` if the action stops, terminates or deletes something.
    #[must_use]
    pub const fn stops_or_deletes(&self) -> bool {
        (self.ending().is_some() && !matches!(self, Self::Volume(_, VolumeAction::Snapshot { .. })))
            || self.deletes_failed_snapshot()
    }

    /// Returns `true` if the action deletes a snapshot that holds nothing. Such an action is neither announced nor limited.
    #[must_use]
    pub const fn deletes_failed_snapshot(&self) -> bool {
        matches!(self, Self::Snapshot(_, SnapshotAction::DeleteFailed { .. }))
    }

    /// The announced action that it carries out, or begins.
    #[must_use]
    pub const fn ending(&self) -> Option<ResourceAction> {
        match self {
            Self::Instance(_, InstanceAction::Stop { .. }) | Self::SageMaker(_, SageMakerAction::Stop { .. }) => {
                Some(ResourceAction::Stop)
            }
            Self::Instance(_, InstanceAction::Terminate { .. }) => Some(ResourceAction::Terminate),
            Self::Volume(_, VolumeAction::Snapshot { .. } | VolumeAction::Delete { safety: Some(_), .. }) => {
                Some(ResourceAction::SnapshotAndDelete)
            }
            Self::Volume(_, VolumeAction::Delete { safety: None, .. })
            | Self::Snapshot(_, SnapshotAction::Delete)
            | Self::SageMaker(_, SageMakerAction::Delete { .. }) => Some(ResourceAction::Delete),
            _ => None,
        }
    }

    /// The announcement, if the step does no more.
    #[must_use]
    pub const fn announcement(&self) -> Option<&Announcement> {
        match self {
            Self::Instance(_, InstanceAction::Announce(announcement))
            | Self::Volume(_, VolumeAction::Announce(announcement))
            | Self::SageMaker(_, SageMakerAction::Announce(announcement)) => Some(announcement),
            _ => None,
        }
    }

    /// The actions that the step announces and does not carry out yet.
    #[must_use]
    pub const fn announced_actions(&self) -> Option<&AnnouncedActions> {
        match self.announcement() {
            Some(Announcement::Mark(actions)) => Some(actions),
            _ => None,
        }
    }

    /// `None` for an action on anything else.
    #[must_use]
    pub const fn instance(&self) -> Option<&Instance> {
        match self {
            Self::Instance(instance, _) => Some(instance),
            Self::Volume(..) | Self::Snapshot(..) | Self::SageMaker(..) | Self::Budget(_) => None,
        }
    }

    /// Returns the number of copies of the inference component that the action scales to zero.
    #[must_use]
    pub const fn component_copies(&self) -> Option<u32> {
        match self {
            Self::SageMaker(
                SageMakerResource { kind: SageMakerKind::InferenceComponent(component), .. },
                SageMakerAction::Stop { .. },
            ) => Some(component.copies),
            _ => None,
        }
    }

    /// Returns the origin from which the endpoint that the action deletes can be made again.
    #[must_use]
    pub fn endpoint_origin(&self) -> Option<EndpointOrigin> {
        match self {
            Self::SageMaker(endpoint, SageMakerAction::Delete { .. }) => endpoint.endpoint_origin(),
            _ => None,
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
