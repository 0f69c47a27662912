//! The rules by name, and the ways in which something ends.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why something may end. The order is the one in which reasons of the same deadline are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Its own `curfew:expires-at` has passed.
    Expired,
    /// Its team, or the account, has spent more than its budget of the month.
    OverBudget,
    /// A required tag is missing.
    Untagged,
    /// The project that it names is not on the account's list.
    UnlistedProject,
    /// Its GPUs do nothing.
    Idle,
    /// The resource runs outside its own `curfew:hours`.
    Hours,
    /// The resource has run for too long.
    Lifetime,
    /// A volume that was unused for too long.
    Orphaned,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 8] = [
        Self::Expired,
        Self::OverBudget,
        Self::Untagged,
        Self::UnlistedProject,
        Self::Idle,
        Self::Hours,
        Self::Lifetime,
        Self::Orphaned,
    ];
    /// The rules for what runs: instances and resources of `SageMaker`.
    pub const RUNNING: [Self; 7] = [
        Self::Expired,
        Self::OverBudget,
        Self::Untagged,
        Self::UnlistedProject,
        Self::Idle,
        Self::Hours,
        Self::Lifetime,
    ];

    /// The name in marks, messages and responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::OverBudget => "over-budget",
            Self::Untagged => "untagged",
            Self::UnlistedProject => "unlisted-project",
            Self::Idle => "idle",
            Self::Hours => "hours",
            Self::Lifetime => "lifetime",
            Self::Orphaned => "orphaned",
        }
    }

    /// Reads the name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == text)
    }

    /// Ends that owners wrote down themselves: an opt-in of their own, and never counted by the limits.
    #[must_use]
    pub const fn is_owners_own(self) -> bool {
        matches!(self, Self::Expired | Self::Hours)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The way in which something ends. Ordered: the milder first, among the ends of instances as among those of volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceAction {
    /// EBS volumes stay, and it can be started again.
    Stop,
    /// The instance is gone.
    Terminate,
    /// The volume is gone, and can be restored from a snapshot.
    SnapshotAndDelete,
    /// The volume is gone.
    Delete,
}

impl ResourceAction {
    /// Every end.
    pub const ALL: [Self; 4] = [Self::Stop, Self::Terminate, Self::SnapshotAndDelete, Self::Delete];

    /// The name in marks, messages and responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Terminate => "terminate",
            Self::SnapshotAndDelete => "snapshot-and-delete",
            Self::Delete => "delete",
        }
    }

    /// The state of the resource afterwards, for people.
    #[must_use]
    pub const fn past_tense(self) -> &'static str {
        match self {
            Self::Stop => "stopped",
            Self::Terminate => "terminated",
            Self::SnapshotAndDelete => "snapshotted and deleted",
            Self::Delete => "deleted",
        }
    }

    /// Reads the name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.as_str() == text)
    }
}

impl fmt::Display for ResourceAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
