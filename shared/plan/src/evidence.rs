//! Why a step is taken, and why it is only told.

use billing::budget::OverBudgetEvidence;
use jiff::{SignedDuration, Timestamp};
use model::id::ResourceId;
use model::money::Rate;
use model::rule::Rule;
use model::usage::IdleEvidence;
use model::{duration, money};
use serde::{Deserialize, Serialize, Serializer};

/// The evidence of a broken rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Evidence {
    /// Its `curfew:expires-at` has passed.
    Expired {
        /// When it did.
        expires_at: Timestamp,
    },
    /// Too much of a budget is spent, or enough that people are to hear of it.
    OverBudget(OverBudgetEvidence),
    /// Required tags are missing.
    Untagged {
        /// Which.
        missing: Vec<String>,
        /// The job that it names, where that does not know it: a `curfew:job` that is not believed.
        #[serde(skip_serializing_if = "Option::is_none")]
        disowned_by: Option<String>,
    },
    /// Idle over the whole window.
    Idle(IdleEvidence),
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
    Orphaned(OrphanedEvidence),
    /// A snapshot that Curfew made, of a volume that is gone.
    #[serde(rename = "expired")]
    SnapshotExpired {
        /// The volume.
        volume: ResourceId,
        /// When the volume was deleted.
        deleted_at: Timestamp,
        /// Until when the volume can be restored.
        expires_at: Timestamp,
    },
    /// Nothing is broken any more; or the mark was another's, or of an earlier life.
    #[serde(untagged)]
    Resolved(ResolvedEvidence),
    /// Announced in observe mode before, and this run did not ask whether it still holds: an answer costs money, and would change nothing.
    #[serde(untagged)]
    Repeated(RepeatedEvidence),
}

/// The evidence against a volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrphanedEvidence {
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
pub struct ResolvedEvidence {
    /// The rule that was announced.
    pub rule: Rule,
    /// `true`: what happened to it.
    pub mended: bool,
}

/// Why something that was announced in observe mode is listed again without fresh evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatedEvidence {
    /// The rule that was announced.
    pub rule: Rule,
    /// `true`: what this run did.
    pub not_asked_again: bool,
}

fn seconds<S: Serializer>(duration: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(duration.as_secs())
}

impl Evidence {
    /// The evidence in words.
    #[must_use]
    pub fn explained(&self, now: Timestamp) -> String {
        match self {
            Self::Expired { expires_at } => {
                format!("its curfew:expires-at, {expires_at}, has passed")
            }
            Self::OverBudget(over) => format!(
                "its {} has spent {} of its budget of {} for {}, as of {}",
                over.of, over.spent_usd, over.budget_usd, over.month, over.as_of
            ),
            Self::Untagged { missing, disowned_by } => {
                let lacks = (!missing.is_empty()).then(|| format!("it lacks the required tags {}", missing.join(", ")));
                let names = disowned_by.as_ref().map(|job| format!("it names the job {job}, which does not know it"));
                lacks.into_iter().chain(names).collect::<Vec<_>>().join(", and ")
            }
            Self::Idle(quiet) => {
                let held = quiet
                    .gpu_memory_held_mib
                    .map(|mib| format!(", {mib:.0} MiB of GPU memory held"))
                    .unwrap_or_default();
                format!(
                    "idle from {} to {}: {} GPU(s) at {:.0} % at most, CPU {:.2} vCPUs, network {:.2} Mbit/s{held}",
                    quiet.from,
                    quiet.to,
                    quiet.devices,
                    quiet.gpu_max_percent,
                    quiet.cpu_max_vcpus,
                    quiet.network_max_mbps
                )
            }
            Self::Hours { hours, at } if *at > now => format!("its hours ({hours}) end at {at}"),
            Self::Hours { hours, at } => format!("outside its hours ({hours}) since {at}"),
            Self::Lifetime { launched_at, max } => {
                format!("it has run since {launched_at}, longer than {}", duration::format_duration(*max))
            }
            Self::Orphaned(orphaned) => {
                let on = orphaned.last_attached_to.as_ref();
                let on = on.map(|instance| format!(", last seen on {instance}")).unwrap_or_default();
                format!("attached to nothing, and not used, since {}{on}", orphaned.unattached_since)
            }
            Self::SnapshotExpired { volume, deleted_at, expires_at } => {
                format!(
                    "the safety snapshot of {volume}, which was deleted at {deleted_at}, was kept until {expires_at}"
                )
            }
            Self::Resolved(mended) => format!("{} was announced", mended.rule),
            Self::Repeated(announced) => {
                format!("{} was announced, and this run did not ask again", announced.rule)
            }
        }
    }

    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        match self {
            Self::Expired { .. } | Self::SnapshotExpired { .. } => Rule::Expired,
            Self::OverBudget(_) => Rule::OverBudget,
            Self::Untagged { .. } => Rule::Untagged,
            Self::Idle(_) => Rule::Idle,
            Self::Hours { .. } => Rule::Hours,
            Self::Lifetime { .. } => Rule::Lifetime,
            Self::Orphaned(_) => Rule::Orphaned,
            Self::Resolved(mended) => mended.rule,
            Self::Repeated(announced) => announced.rule,
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
pub enum NotifyOnlyReason {
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

impl NotifyOnlyReason {
    /// As in documents. The log of notifications remembers it by this name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::CannotBeStopped => "cannot-be-stopped",
            Self::PersistentSpot => "persistent-spot",
            Self::SpotRequestUnknown => "spot-request-unknown",
            Self::SavesNothing => "saves-nothing",
            Self::LocalDisk => "local-disk",
            Self::Reserved => "reserved",
            Self::Busy => "busy",
            Self::TooManyTags => "too-many-tags",
        }
    }

    /// For people.
    #[must_use]
    pub const fn explain(self) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of notifications keeps these names: another one would notify people again.
    #[test]
    fn a_reason_has_the_name_that_documents_keep() {
        let names = [
            (NotifyOnlyReason::Configured, "configured"),
            (NotifyOnlyReason::CannotBeStopped, "cannot-be-stopped"),
            (NotifyOnlyReason::PersistentSpot, "persistent-spot"),
            (NotifyOnlyReason::SpotRequestUnknown, "spot-request-unknown"),
            (NotifyOnlyReason::SavesNothing, "saves-nothing"),
            (NotifyOnlyReason::LocalDisk, "local-disk"),
            (NotifyOnlyReason::Reserved, "reserved"),
            (NotifyOnlyReason::Busy, "busy"),
            (NotifyOnlyReason::TooManyTags, "too-many-tags"),
        ];
        for (reason, name) in names {
            assert_eq!((reason.as_str(), serde_json::to_value(reason).unwrap()), (name, name.into()));
        }
    }
}
