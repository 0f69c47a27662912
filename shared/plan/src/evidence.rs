//! The evidence for a step, and why a step only notifies.

use billing::budget::OverBudgetEvidence;
use jiff::Timestamp;
use model::id::ResourceId;
use model::money;
use model::money::Rate;
use model::rule::Rule;
use model::sagemaker::InactiveEvidence;
use model::usage::IdleEvidence;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The evidence of a violated rule: facts for programs, and the rule's own words for people.
///
/// Documents have the rule and the facts. `reaping::rules` makes of them the few words for a table, also of documents of earlier versions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    rule: Rule,
    #[serde(flatten)]
    pub facts: Facts,
    /// The sentence of messages, without its full stop: `it has run since 2026-08-01T00:00:00Z, longer than 7d`.
    #[serde(skip)]
    pub sentence: String,
    /// A likely mistake of the owner, which messages append to the sentence. Begins with a blank, or is empty.
    #[serde(skip)]
    pub hint: String,
    /// Sentences about what the owner can do so that the rule is no longer violated. Empty if nothing beyond the commands of the message.
    #[serde(skip)]
    pub remedy: String,
    #[serde(skip)]
    is_scheduled: bool,
}

/// The facts of evidence, by the keys of `docs/runs.md`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Facts {
    /// Facts that only programs and people read, in the order of documents.
    Named(#[serde(serialize_with = "as_map")] Vec<(&'static str, Value)>),
    /// The spend of a budget, which has reached a threshold.
    OverBudget(OverBudgetEvidence),
    /// The usage of an instance during the whole window.
    Idle(IdleEvidence),
    /// The usage of a resource of `SageMaker` during the whole window.
    Inactive(InactiveEvidence),
    /// An unattached volume, unused for `orphaned_after` if a deletion is announced.
    Orphaned(OrphanedEvidence),
    /// The expiry of a snapshot that Curfew made of a volume that is gone.
    SnapshotExpired {
        volume: ResourceId,
        /// Time of the volume's deletion.
        deleted_at: Timestamp,
        /// Time until which the volume can be restored.
        expires_at: Timestamp,
    },
}

/// The evidence against a volume.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrphanedEvidence {
    /// Time at which Curfew first saw it unattached.
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

const RESOLVED: &str = "resolved";
const NOT_QUERIED_AGAIN: &str = "not_queried_again";

fn as_map<S: Serializer>(facts: &[(&'static str, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(facts.len()))?;
    facts.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
    map.end()
}

impl Facts {
    /// Facts by their keys.
    pub fn named(facts: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self::Named(facts.into_iter().collect())
    }
}

impl Evidence {
    /// The evidence of a rule with its sentence. The action is scheduled if the rule is an owner's own.
    #[must_use]
    pub fn new(rule: Rule, facts: Facts, sentence: impl Into<String>) -> Self {
        let (hint, remedy, is_scheduled) = (String::new(), String::new(), rule.is_owners_own());
        Self { rule, facts, sentence: sentence.into(), hint, remedy, is_scheduled }
    }

    /// Adds a likely mistake of the owner. The hint begins with a blank.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Adds sentences about what the owner can do.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Marks the action as one that Curfew did not know before its time, so that `[limits]` count it.
    #[must_use]
    pub fn unscheduled(self) -> Self {
        Self { is_scheduled: false, ..self }
    }

    /// An announcement of this rule is called off: the rule is no longer violated, or the announcement was about an earlier life of the
    /// resource.
    #[must_use]
    pub fn resolved(rule: Rule) -> Self {
        Self::new(rule, Facts::named([(RESOLVED, true.into())]), format!("{rule} is no longer violated"))
    }

    /// An announcement in observe mode that is listed again without fresh evidence: a query of `CloudWatch` costs money, and would change
    /// nothing.
    #[must_use]
    pub fn repeated(rule: Rule) -> Self {
        let sentence = format!("{rule} was announced before; this run did not query again");
        Self::new(rule, Facts::named([(NOT_QUERIED_AGAIN, true.into())]), sentence)
    }

    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// `true` if the action follows a schedule of the owner that Curfew knew before its time. `[limits]` count every other action.
    #[must_use]
    pub const fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// `true` if this run has no evidence of its own.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        matches!(&self.facts, Facts::Named(facts) if facts.iter().any(|(key, _)| *key == NOT_QUERIED_AGAIN))
    }

    /// The sentence with the hint.
    #[must_use]
    pub fn explain(&self) -> String {
        format!("{}{}", self.sentence, self.hint)
    }
}

/// The reason why Curfew only notifies about a violated rule.
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
    /// The instance holds GPU memory, like a notebook or a waiting server.
    Reserved,
    /// Only the power of its GPUs shows that it is idle.
    PowerOnly,
    /// The resource works.
    Busy,
    /// The resource, or its snapshot, would have more tags than AWS allows with Curfew's labels.
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
    /// A member of its gang may not be stopped.
    Gang,
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
            Self::PowerOnly => "power-only",
            Self::Busy => "busy",
            Self::TooManyTags => "too-many-tags",
            Self::TagPolicy => "tag-policy",
            Self::OrganisationPolicy => "organisation-policy",
            Self::ExplicitDeny => "explicit-deny",
            Self::JobRuns => "job-runs",
            Self::NoConfiguration => "no-configuration",
            Self::KeepsInstances => "keeps-instances",
            Self::Gang => "gang",
        }
    }

    /// The reason in words for people.
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
            Self::LocalDisk => {
                "a stop would lose its NVMe instance storage (curfew:local-disk=24h allows that after a day, =expendable after the usual grace)"
            }
            Self::Reserved => "it holds GPU memory, like a notebook or a waiting server",
            Self::PowerOnly => {
                "only the power of its GPUs shows it, because their utilisation does not report ([idle] power = \"enforce\" makes that enough)"
            }
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
            Self::Gang => {
                "it works together with other instances, of which Curfew stops all or none, and one of them may not be stopped for this rule"
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
            (NotifyOnlyReason::PowerOnly, "power-only"),
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
