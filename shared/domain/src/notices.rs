//! What was told when: the memory that keeps Curfew from repeating itself. Losing it repeats messages, and never acts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::id::ResourceId;
use crate::mark::Mark;
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

    /// Something that is said of a spared resource, or of a call.
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
    /// The paragraph.
    pub text: String,
}

/// Whether something is told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Once, until it is mended or changes.
    Never,
    /// Once a day while it lasts.
    Daily,
}

impl Notices {
    /// Whether this was told about a resource.
    #[must_use]
    pub fn was_told(&self, resource: &ResourceId, topic: &Topic, what: &str) -> bool {
        self.told.get(resource).and_then(|topics| topics.get(topic)).is_some_and(|told| told.what == what)
    }
}

impl Told {
    /// Whether it need not be told at `now`.
    #[must_use]
    pub fn covers(&self, what: &str, repeat: Repeat, now: Timestamp) -> bool {
        self.what == what && (repeat == Repeat::Never || now.duration_since(self.at) < REPEAT_AFTER)
    }
}
