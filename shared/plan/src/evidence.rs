//! The evidence for a step, and why a step only notifies.

use billing::budget::OverBudgetEvidence;
use jiff::{SignedDuration, Timestamp};
use model::foreign_text::quoted_unless_word;
use model::id::ResourceId;
use model::money::Rate;
use model::rule::Rule;
use model::sagemaker::{ActivitySource, InactiveEvidence};
use model::usage::IdleEvidence;
use model::{duration, money};
use serde::{Deserialize, Serialize, Serializer};

/// The evidence of a violated rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Evidence {
    /// Its `curfew:expires-at` has passed.
    Expired {
        expires_at: Timestamp,
        /// It had passed when Curfew first saw it, so it may be a mistake, or be written by a stranger.
        #[serde(skip_serializing_if = "is_false")]
        first_seen_past: bool,
    },
    /// The spend of a budget has reached a threshold.
    OverBudget(OverBudgetEvidence),
    /// Required tags are missing.
    Untagged {
        missing: Vec<String>,
        /// The job that its `curfew:job` names, if the state of that job does not list the instance.
        #[serde(skip_serializing_if = "Option::is_none")]
        disowned_by: Option<String>,
    },
    /// Idle during the whole window.
    Idle(IdleEvidence),
    /// A resource of `SageMaker` that was unused during the whole window.
    #[serde(rename = "idle")]
    Inactive(InactiveEvidence),
    /// Outside its hours, or shortly before they end. For a start: within its hours.
    Hours {
        hours: String,
        /// When the hours end; for a start, when they began.
        at: Timestamp,
    },
    /// Too old.
    Lifetime {
        launched_at: Timestamp,
        /// How long it may run, in seconds.
        #[serde(rename = "max_seconds", serialize_with = "seconds")]
        max: SignedDuration,
    },
    /// A volume that is unattached, and unused for `orphaned_after` if a deletion is announced.
    Orphaned(OrphanedEvidence),
    /// A snapshot that Curfew made of a volume that is gone.
    #[serde(rename = "expired")]
    SnapshotExpired {
        volume: ResourceId,
        /// When the volume was deleted.
        deleted_at: Timestamp,
        /// Until when the volume can be restored.
        expires_at: Timestamp,
    },
    /// A snapshot that Curfew made and that failed, of a volume with a later one.
    #[serde(rename = "orphaned")]
    SnapshotFailed { volume: ResourceId, superseded_by: ResourceId },
    /// The rule is no longer violated; or the mark is about another resource, or from before the present launch.
    #[serde(untagged)]
    Resolved(ResolvedEvidence),
    /// Announced in observe mode before. This run did not query CloudWatch again: that costs money, and would change nothing.
    #[serde(untagged)]
    Repeated(RepeatedEvidence),
}

/// The evidence against a volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrphanedEvidence {
    /// When Curfew first saw it unattached.
    pub unattached_since: Timestamp,
    pub size_gib: u64,
    pub volume_type: String,
    /// `None` if the price is unknown.
    #[serde(serialize_with = "money::as_usd_per_month")]
    pub usd_per_month: Option<Rate>,
    /// The instance that it was last attached to, if Curfew saw that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attached_to: Option<ResourceId>,
}

/// Why an announcement is called off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResolvedEvidence {
    /// The rule that was announced.
    pub rule: Rule,
    /// Always `true`.
    pub resolved: bool,
}

/// Why an announcement in observe mode is listed again without fresh evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatedEvidence {
    /// The rule that was announced.
    pub rule: Rule,
    /// Always `true`.
    pub not_queried_again: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

fn seconds<S: Serializer>(duration: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(duration.as_secs())
}

impl Evidence {
    /// The evidence for people.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        match self {
            Self::Expired { expires_at, first_seen_past: false } => {
                format!("its curfew:expires-at ({expires_at}) has passed")
            }
            Self::Expired { expires_at, first_seen_past: true } => {
                format!("its curfew:expires-at ({expires_at}) had passed when Curfew first saw it")
            }
            Self::OverBudget(over) => format!(
                "its {} has spent {} of its budget of {} for {}, as of {}",
                over.of, over.spent_usd, over.budget_usd, over.month, over.as_of
            ),
            Self::Untagged { missing, disowned_by } => {
                let lacks = (!missing.is_empty()).then(|| format!("it lacks the required tags {}", missing.join(", ")));
                let names = disowned_by
                    .as_ref()
                    .map(|job| format!("its curfew:job names {}, which did not launch it", quoted_unless_word(job)));
                lacks.into_iter().chain(names).collect::<Vec<_>>().join(", and ")
            }
            Self::Idle(idle) => {
                let held = idle
                    .gpu_memory_held_mib
                    .map(|mib| format!(", {mib:.0} MiB of GPU memory held"))
                    .unwrap_or_default();
                format!(
                    "idle from {} to {}: {} GPU{} at {:.0} % at most, CPU {:.2} vCPUs, network {:.2} Mbit/s{held}",
                    idle.from,
                    idle.to,
                    idle.devices,
                    if idle.devices == 1 { "" } else { "s" },
                    idle.gpu_max_percent,
                    idle.cpu_max_vcpus,
                    idle.network_max_mbps
                )
            }
            Self::Inactive(inactive) => describe_inactive(inactive),
            Self::Hours { hours, at } if *at > now => format!("its hours ({hours}) end at {at}"),
            Self::Hours { hours, at } => format!("outside its hours ({hours}) since {at}"),
            Self::Lifetime { launched_at, max } => {
                format!("it has run since {launched_at}, longer than {}", duration::format_duration(*max))
            }
            Self::Orphaned(orphaned) => {
                let on = orphaned.last_attached_to.as_ref();
                let on = on.map(|instance| format!(", last attached to {instance}")).unwrap_or_default();
                format!("unattached and unused since {}{on}", orphaned.unattached_since)
            }
            Self::SnapshotExpired { volume, deleted_at, expires_at } => {
                format!("the safety snapshot of {volume} (deleted at {deleted_at}) was kept until {expires_at}")
            }
            Self::SnapshotFailed { volume, superseded_by } => {
                format!("this snapshot of {volume} failed, and {superseded_by} is a later one")
            }
            Self::Resolved(resolved) => format!("{} is no longer violated", resolved.rule),
            Self::Repeated(announced) => {
                format!("{} was announced before; this run did not query again", announced.rule)
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
            Self::Idle(_) | Self::Inactive(_) => Rule::Idle,
            Self::Hours { .. } => Rule::Hours,
            Self::Lifetime { .. } => Rule::Lifetime,
            Self::Orphaned(_) | Self::SnapshotFailed { .. } => Rule::Orphaned,
            Self::Resolved(resolved) => resolved.rule,
            Self::Repeated(announced) => announced.rule,
        }
    }

    /// Whether the action follows a schedule of the owner that Curfew knew before its time. `[limits]` count every other action.
    #[must_use]
    pub const fn is_scheduled(&self) -> bool {
        match self {
            Self::Expired { first_seen_past, .. } => !*first_seen_past,
            Self::SnapshotExpired { .. } => false,
            _ => self.rule().is_owners_own(),
        }
    }

    /// Whether the rule is violated only from a later time on.
    #[must_use]
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        matches!(self, Self::Hours { at, .. } if *at > now)
    }
}

fn describe_inactive(inactive: &InactiveEvidence) -> String {
    let InactiveEvidence { from, to, shown_by, gpu_max_percent } = inactive;
    let gpu = gpu_max_percent.map(|percent| format!(", GPUs at {percent:.0} % at most")).unwrap_or_default();
    match shown_by {
        ActivitySource::UserActivity => format!("its user was last active at {from}, by SageMaker's look at {to}"),
        ActivitySource::Requests => format!("no request from {from} to {to}{gpu}"),
        ActivitySource::Gpu => format!("idle from {from} to {to}{gpu}"),
    }
}

/// Why Curfew only notifies about a violated rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyOnlyReason {
    /// Tag or configuration says `notify`.
    Configured,
    /// One-time Spot or an instance-store root, and neither tag nor configuration says `terminate`.
    CannotBeStopped,
    /// Its Spot request would launch it again.
    PersistentSpot,
    /// Its Spot request could not be read, and might launch it again.
    SpotRequestUnknown,
    /// Its capacity is paid for in any case.
    SavesNothing,
    /// A stop would lose its NVMe storage.
    LocalDisk,
    /// It holds GPU memory, like a notebook or a waiting server.
    Reserved,
    /// It works.
    Busy,
    /// With Curfew's labels it, or its snapshot, would have more tags than AWS allows.
    TooManyTags,
    /// A tag policy refuses Curfew's labels.
    TagPolicy,
    /// A policy of the organisation forbids Curfew's labels.
    OrganisationPolicy,
    /// Another policy denies Curfew's labels explicitly.
    ExplicitDeny,
    /// A job of `SageMaker`, which is stopped by tag, lifetime or budget alone.
    JobRuns,
    /// An endpoint whose configuration is gone: it could not be made again.
    NoConfiguration,
    /// An inference component whose endpoint keeps its instances.
    KeepsInstances,
}

impl NotifyOnlyReason {
    /// The name in documents, also in the log of notifications.
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
            Self::TagPolicy => "tag-policy",
            Self::OrganisationPolicy => "organisation-policy",
            Self::ExplicitDeny => "explicit-deny",
            Self::JobRuns => "job-runs",
            Self::NoConfiguration => "no-configuration",
            Self::KeepsInstances => "keeps-instances",
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
                "its capacity is reserved or dedicated and is paid for in any case, so a stop saves nothing until you release that capacity"
            }
            Self::LocalDisk => "a stop would lose its NVMe instance storage (curfew:local-disk=expendable allows that)",
            Self::Reserved => "it holds GPU memory, like a notebook or a waiting server",
            Self::Busy => "it is busy",
            Self::TooManyTags => {
                "with Curfew's labels it, or its snapshot, would have more than the 50 tags that AWS allows; remove some tags"
            }
            Self::TagPolicy => {
                "a tag policy of the organisation does not allow Curfew's labels; its administrators can allow curfew:*"
            }
            Self::OrganisationPolicy => {
                "a policy of the organisation forbids Curfew's labels, which only its administrators can change"
            }
            Self::ExplicitDeny => "a policy denies Curfew's labels explicitly",
            Self::JobRuns => "a job may be waiting for data (curfew:on-idle=stop on the job allows the stop)",
            Self::NoConfiguration => "its endpoint configuration is deleted, so the endpoint could not be made again",
            Self::KeepsInstances => {
                "its endpoint keeps its instances without copies, so to scale it to zero saves nothing (MinInstanceCount = 0 changes that)"
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
            (NotifyOnlyReason::TagPolicy, "tag-policy"),
            (NotifyOnlyReason::OrganisationPolicy, "organisation-policy"),
            (NotifyOnlyReason::ExplicitDeny, "explicit-deny"),
            (NotifyOnlyReason::JobRuns, "job-runs"),
            (NotifyOnlyReason::NoConfiguration, "no-configuration"),
            (NotifyOnlyReason::KeepsInstances, "keeps-instances"),
        ];
        for (reason, name) in names {
            assert_eq!((reason.as_str(), serde_json::to_value(reason).unwrap()), (name, name.into()));
        }
    }
}
