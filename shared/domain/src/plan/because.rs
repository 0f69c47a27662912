//! Why a step is taken, and why it is only told.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, Serializer};

use crate::budget::OverBudgetBecause;
use crate::id::ResourceId;
use crate::money::{self, Rate};
use crate::rule::Rule;
use crate::usage::Quiet;

/// The evidence of a broken rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Because {
    /// Its `curfew:expires-at` has passed.
    Expired {
        /// When it did.
        expires_at: Timestamp,
    },
    /// Too much of a budget is spent, or enough that people are to hear of it.
    OverBudget(OverBudgetBecause),
    /// Required tags are missing.
    Untagged {
        /// Which.
        missing: Vec<String>,
        /// The job that it names, where that does not know it: a `curfew:job` that is not believed.
        #[serde(skip_serializing_if = "Option::is_none")]
        disowned_by: Option<String>,
    },
    /// Idle over the whole window.
    Idle(Quiet),
    /// Outside its hours, or soon; or, for a start, within them.
    Hours {
        /// As its owner wrote them.
        hours: String,
        /// The end of its hours; for a start, their beginning.
        at: Timestamp,
    },
    /// Too old.
    Lifetime {
        /// Since when it runs.
        launched_at: Timestamp,
        /// How long it may, in seconds.
        #[serde(rename = "max_seconds", serialize_with = "seconds")]
        max: SignedDuration,
    },
    /// A volume that nobody has used for too long; or, where nothing is announced yet, one that is attached to nothing.
    Orphaned(Orphaned),
    /// A snapshot that Curfew made, of a volume that is gone.
    #[serde(rename = "expired")]
    Outlived {
        /// The volume.
        volume: ResourceId,
        /// When the volume was deleted.
        deleted_at: Timestamp,
        /// Until when the volume can be restored.
        expires_at: Timestamp,
    },
    /// Nothing is broken any more; or the mark was another's, or of an earlier life.
    #[serde(untagged)]
    Mended(Mended),
}

/// The evidence against a volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Orphaned {
    /// Since when it is attached to nothing, as far as anybody has seen.
    pub unattached_since: Timestamp,
    /// Its size.
    pub size_gib: u64,
    /// Its type.
    pub volume_type: String,
    /// What it costs, where that is known.
    #[serde(serialize_with = "money::as_usd_per_month")]
    pub usd_per_month: Option<Rate>,
    /// The instance that it was last seen on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attached_to: Option<ResourceId>,
}

/// Why something that was announced is taken back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mended {
    /// The rule that was announced.
    pub rule: Rule,
    /// `true`: what happened to it.
    pub mended: bool,
}

fn seconds<S: Serializer>(duration: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(duration.as_secs())
}

impl Because {
    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        match self {
            Self::Expired { .. } | Self::Outlived { .. } => Rule::Expired,
            Self::OverBudget(_) => Rule::OverBudget,
            Self::Untagged { .. } => Rule::Untagged,
            Self::Idle(_) => Rule::Idle,
            Self::Hours { .. } => Rule::Hours,
            Self::Lifetime { .. } => Rule::Lifetime,
            Self::Orphaned(_) => Rule::Orphaned,
            Self::Mended(mended) => mended.rule,
        }
    }

    /// Whether it is found already, but its moment lies ahead.
    #[must_use]
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        matches!(self, Self::Hours { at, .. } if *at > now)
    }
}

/// Why a broken rule is told and not acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnlyTold {
    /// Tag or configuration says notify.
    Configured,
    /// One-time Spot or an instance-store root, and nothing says terminate.
    CannotBeStopped,
    /// Its Spot request would launch it again.
    PersistentSpot,
    /// Nobody could read whether its Spot request would launch it again.
    SpotRequestUnknown,
    /// Its capacity is paid for anyway.
    SavesNothing,
    /// NVMe storage that is to be kept would be lost.
    LocalDisk,
    /// GPU memory is held: a notebook, a waiting server.
    Reserved,
    /// It works.
    Busy,
    /// Its snapshot has no room for all of its tags.
    TooManyTags,
}

impl OnlyTold {
    /// For people.
    #[must_use]
    pub const fn explained(self) -> &'static str {
        match self {
            Self::Configured => "the configured action is notify",
            Self::CannotBeStopped => {
                "it cannot be stopped, only terminated (curfew:on-idle=terminate allows that for idleness)"
            }
            Self::PersistentSpot => "its persistent Spot request would launch it again: cancel the request first",
            Self::SpotRequestUnknown => "its Spot request could not be read, and might launch it again",
            Self::SavesNothing => {
                "its capacity is reserved or dedicated and paid for anyway, so ending it saves nothing until that is released"
            }
            Self::LocalDisk => {
                "stopping loses its NVMe instance storage, which is to be kept (curfew:local-disk=expendable allows it)"
            }
            Self::Reserved => "GPU memory is held, as a notebook or a waiting server does",
            Self::Busy => "it is at work",
            Self::TooManyTags => {
                "a snapshot of it would have more than the 50 tags that EC2 allows, so it could not be restored as it is: remove some"
            }
        }
    }
}
