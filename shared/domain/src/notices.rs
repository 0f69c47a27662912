//! What was told when: the memory that keeps Curfew from repeating itself. Losing it repeats messages, and never acts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::budget::{Limit, SPENT_PERCENT};
use crate::config::OverBudget;
use crate::id::{Region, ResourceId};
use crate::instance::Tags;
use crate::mark::{Announced, Mark};
use crate::news::Severity;
use crate::observed::Gap;
use crate::plan::OnlyTold;
use crate::rule::Rule;

/// A lasting error is told once in so long.
pub const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// What a notice is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Topic(String);

impl Topic {
    /// A rule that is only told.
    #[must_use]
    pub fn rule(rule: Rule) -> Self {
        Self(rule.to_string())
    }

    /// What would be done for a rule, in observe mode.
    #[must_use]
    pub fn would(rule: Rule) -> Self {
        Self(format!("would-{rule}"))
    }

    /// What could not be done for a rule.
    #[must_use]
    pub fn undone(rule: Rule) -> Self {
        Self(format!("undone-{rule}"))
    }

    /// A start, of which people hear once a morning however often it is tried.
    #[must_use]
    pub fn started() -> Self {
        Self("started".to_owned())
    }

    /// A share of a budget that was reached.
    #[must_use]
    pub fn budget(threshold_percent: u16) -> Self {
        Self(format!("budget-{threshold_percent}"))
    }

    /// Whether it is such a share.
    #[must_use]
    pub fn is_of_budget(&self) -> bool {
        self.0.starts_with("budget-")
    }

    /// A call that failed somewhere.
    #[must_use]
    pub fn gap(gap: &Gap) -> Self {
        Self(format!("{} {}", gap.region, gap.call))
    }

    /// Something that is said of a spared resource, or of the account.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

/// What was told about one topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// When.
    pub at: Timestamp,
    /// A fingerprint of what; something else is told anew.
    pub what: String,
}

/// What one function told about one region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Notices {
    /// Marks of what is in observe mode, which are written on no resource.
    #[serde(default)]
    pub shadow_marks: BTreeMap<ResourceId, Mark>,
    /// Marks that were told, and could not be written yet.
    #[serde(default)]
    pub unwritten_marks: BTreeMap<ResourceId, Mark>,
    /// Marks that are still written on a resource and were called off where nothing could be written.
    #[serde(default)]
    pub void_marks: BTreeMap<ResourceId, Mark>,
    /// Before these moments a volume was not unattached, where nothing on it says so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub first_sights: BTreeMap<ResourceId, Timestamp>,
    /// The instance that a volume was last seen on, where the volume's own tags do not say whose it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen_on: BTreeMap<ResourceId, ResourceId>,
    /// What the tags of those instances say of their owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<ResourceId, Tags>,
    /// What was told about resources.
    #[serde(default)]
    pub told: BTreeMap<ResourceId, BTreeMap<Topic, Told>>,
    /// What was told about calls that failed, and about the account.
    #[serde(default)]
    pub gaps: BTreeMap<Topic, Told>,
    /// What happened and could not be told yet.
    #[serde(default)]
    pub owed: Vec<Owed>,
}

/// A paragraph that SNS did not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// The message's `team` attribute.
    pub team: String,
    /// The least that the message's `severity` is.
    pub severity: Severity,
    /// The paragraph.
    pub text: String,
}

/// Whether something is told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repeat {
    /// Once, until it is mended or changes.
    Never,
    /// Once a day while it lasts.
    Daily,
}

/// What earlier runs of one function told, by region.
pub type Memory = BTreeMap<Region, Notices>;

/// The fingerprint of an end in observe mode.
#[must_use]
pub fn would(announced: Announced) -> String {
    format!("{}@{}", announced.ending, announced.deadline)
}

/// The fingerprint of a share of a budget: another month, or another budget, is told anew. From 100 % on so is what follows,
/// and whether it really does: nobody is held by what they heard only would be.
#[must_use]
pub fn told_of_budget(month: &str, limit: &Limit, threshold_percent: u16) -> String {
    let told = format!("{month} {}", limit.budget);
    match limit.over_budget {
        OverBudget::Hold | OverBudget::Stop if threshold_percent >= SPENT_PERCENT => {
            format!("{told} {:?} {:?}", limit.over_budget, limit.mode)
        }
        _ => told,
    }
}

/// The fingerprint of something that is only told.
#[must_use]
pub fn told_fingerprint(why: OnlyTold) -> String {
    format!("{why:?}")
}

impl Notices {
    /// Whether anything is remembered about a resource.
    #[must_use]
    pub fn knows(&self, resource: &ResourceId) -> bool {
        let marks = [&self.shadow_marks, &self.unwritten_marks, &self.void_marks];
        marks.into_iter().any(|marks| marks.contains_key(resource))
            || self.first_sights.contains_key(resource)
            || self.told.contains_key(resource)
    }

    /// Whether this was told about a resource.
    #[must_use]
    pub fn was_told(&self, resource: &ResourceId, topic: &Topic, what: &str) -> bool {
        self.told.get(resource).and_then(|topics| topics.get(topic)).is_some_and(|told| told.what == what)
    }
}

impl Told {
    /// Whether it need not be told at `now`. A moment that lies further ahead than clocks differ is a damaged one, and must
    /// not keep a fault quiet until then.
    #[must_use]
    pub fn covers(&self, what: &str, repeat: Repeat, now: Timestamp) -> bool {
        self.what == what && (repeat == Repeat::Never || now.duration_since(self.at).abs() < REPEAT_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_fault_is_told_once_a_day_and_another_one_at_once() {
        let told = Told { at: "2026-09-01T12:00:00Z".parse().unwrap(), what: "stop".to_owned() };
        let check = |what: &str, repeat, now: &str, expect| {
            assert_eq!(told.covers(what, repeat, now.parse().unwrap()), expect, "{what} {repeat:?} at {now}");
        };
        check("stop", Repeat::Daily, "2026-09-01T12:00:00Z", true);
        check("stop", Repeat::Daily, "2026-09-02T11:59:59Z", true);
        check("stop", Repeat::Daily, "2026-09-02T12:00:00Z", false);
        check("stop", Repeat::Daily, "2026-08-31T12:00:01Z", true);
        check("stop", Repeat::Daily, "2026-08-31T12:00:00Z", false);
        check("stop", Repeat::Never, "2027-09-02T12:00:00Z", true);
        check("start", Repeat::Daily, "2026-09-01T12:00:00Z", false);
        check("start", Repeat::Never, "2026-09-01T12:00:00Z", false);
    }

    #[test]
    fn notices_survive_writing_and_reading() {
        let id = ResourceId::from("i-0abc");
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let told = Told { at, what: "Configured".to_owned() };
        let notices = Notices {
            shadow_marks: BTreeMap::from([(id.clone(), "i-0abc idle=stop@2026-09-01T13:00:00Z".parse().unwrap())]),
            unwritten_marks: BTreeMap::new(),
            void_marks: BTreeMap::new(),
            first_sights: BTreeMap::from([(ResourceId::from("vol-1"), at)]),
            seen_on: BTreeMap::from([(ResourceId::from("vol-1"), id.clone())]),
            hosts: BTreeMap::from([(id.clone(), Tags::from([("Team".to_owned(), "vision".to_owned())]))]),
            told: BTreeMap::from([(id, BTreeMap::from([(Topic::rule(Rule::Lifetime), told.clone())]))]),
            gaps: BTreeMap::from([(Topic::named("eu-west-1 ec2:DescribeInstances"), told)]),
            owed: vec![Owed {
                team: "vision".to_owned(),
                severity: Severity::Action,
                text: "i-0abc was stopped".to_owned(),
            }],
        };
        let json = serde_json::to_string(&notices).unwrap();
        assert_eq!(serde_json::from_str::<Notices>(&json).unwrap(), notices);
    }

    #[test]
    fn an_older_document_lacks_what_came_later() {
        assert_eq!(serde_json::from_str::<Notices>("{}").unwrap(), Notices::default());
    }
}
