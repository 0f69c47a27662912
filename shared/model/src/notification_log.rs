//! The log of one function about one region: what was announced, what Curfew did, and what people were notified of. It alone knows that; a
//! tag on a resource proves nothing, because others can write it. A lost log announces everything anew, with the whole grace.

mod bound;
mod headline;
mod notification;
mod paragraph;
mod record;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::channels::Audience;
use crate::id::{Region, ResourceId};
use crate::instance::Tags;
use crate::observation::Gap;
use crate::rule::ResourceAction;
use crate::rule::Rule;
use crate::subscriptions::KnownReaders;

pub use headline::{Headline, HeadlineCost, HeadlineObject};
pub use notification::{
    ACCOUNT, NO_TEAM, NO_TEAM_LABEL, Notification, NotificationFacts, NotificationKind, Severity, is_known,
    without_known,
};
pub use paragraph::Paragraph;
pub use record::{CarriedOut, ResourceRecord, SafetyRecord};

/// The longest text that is kept to be compared, in bytes. A longer one is kept as its hash: one resource can have 50 tags of 255
/// characters that cannot be read, and there are hundreds of such resources in a document.
const COMPARED_BYTES_MAX: usize = 64;

/// The interval at which a lasting error is notified again.
pub const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Subject of a notification.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotificationKey(String);

impl NotificationKey {
    /// A notify-only rule.
    #[must_use]
    pub fn rule(rule: Rule) -> Self {
        Self(rule.to_string())
    }

    /// An action for a rule that observe mode does not carry out.
    #[must_use]
    pub fn would(rule: Rule) -> Self {
        Self(format!("would-{rule}"))
    }

    /// An action for a rule that could not be carried out.
    #[must_use]
    pub fn undone(rule: Rule) -> Self {
        Self(format!("undone-{rule}"))
    }

    /// A start, notified once a morning for any number of tries.
    #[must_use]
    pub fn started() -> Self {
        Self("started".to_owned())
    }

    /// A share of a budget that was reached.
    #[must_use]
    pub fn budget(threshold_percent: u16) -> Self {
        Self(format!("budget-{threshold_percent}"))
    }

    /// `true` if the key is a share of a budget.
    #[must_use]
    pub fn is_about_budget(&self) -> bool {
        self.0.starts_with("budget-")
    }

    /// A call that failed somewhere.
    #[must_use]
    pub fn gap(gap: &Gap) -> Self {
        Self(format!("{} {}", gap.region, gap.call))
    }

    /// A notification about a skipped resource, or about the account.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

/// The notifications with one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationEntry {
    pub at: Timestamp,
    /// The fingerprint of the content; another content is notified again.
    pub what: String,
}

impl NotificationEntry {
    /// Makes an entry of the content and its time, in short.
    #[must_use]
    pub fn new(at: Timestamp, what: &str) -> Self {
        Self { at, what: fingerprint(what) }
    }
}

/// A text of at most [`COMPARED_BYTES_MAX`] bytes by which texts are compared: itself, or 128 bits of its SHA-256.
fn fingerprint(text: &str) -> String {
    if text.len() <= COMPARED_BYTES_MAX {
        return text.to_owned();
    }
    let digest = Sha256::digest(text);
    digest.iter().take(16).fold("sha256:".to_owned(), |shown, byte| format!("{shown}{byte:02x}"))
}

/// Memory of one function about one region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NotificationLog {
    /// Records by the id of the resource.
    #[serde(default)]
    pub resources: BTreeMap<ResourceId, ResourceRecord>,
    /// The owner tags of the instances that volumes were last seen on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<ResourceId, Tags>,
    /// Notifications about failed calls, and about the account.
    #[serde(default)]
    pub gaps: BTreeMap<NotificationKey, NotificationEntry>,
    /// Notifications that could not be sent yet.
    #[serde(default)]
    pub undelivered: Vec<UndeliveredParagraph>,
    /// The subscriptions that were confirmed while something is announced that is not carried out yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub readers: KnownReaders,
}

/// A paragraph that no message of its run had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndeliveredParagraph {
    /// The message's `team` attribute.
    pub team: String,
    /// The least that the message's `severity` is.
    pub severity: Severity,
    pub text: Paragraph,
    /// Its headline, with the time and the money of its run; empty in entries of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    #[serde(default)]
    pub cause: UndeliveredCause,
    /// The topic that has not had it.
    #[serde(default, skip_serializing_if = "Audience::is_team")]
    pub audience: Audience,
}

/// The reason why a paragraph was in no message of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndeliveredCause {
    /// SNS did not accept the message.
    #[default]
    Refused,
    /// The paragraph came up after the messages were sent.
    Late,
}

/// Policy for sending a notification again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepeatPolicy {
    /// A single notification, until its subject is fixed or changes.
    Never,
    /// A notification a day while it lasts.
    Daily,
}

/// The notifications of one function's earlier runs, by region.
pub type NotificationLogs = BTreeMap<Region, NotificationLog>;

/// The fingerprint of an end in observe mode.
#[must_use]
pub fn would_fingerprint(ending: ResourceAction, deadline: Timestamp) -> String {
    format!("{ending}@{deadline}")
}

impl NotificationLog {
    /// The record of a resource; `None` where nothing is known about it.
    #[must_use]
    pub fn record(&self, resource: &ResourceId) -> Option<&ResourceRecord> {
        self.resources.get(resource)
    }

    /// The record of a resource, if it is about the life that began then.
    #[must_use]
    pub fn record_about(&self, resource: &ResourceId, since: Timestamp) -> Option<&ResourceRecord> {
        self.record(resource).filter(|record| record.is_about(since))
    }

    /// The notification about a resource with this key.
    #[must_use]
    pub fn notification(&self, resource: &ResourceId, topic: &NotificationKey) -> Option<&NotificationEntry> {
        self.record(resource)?.notified.get(topic)
    }

    /// `true` if a resource has a notification with this key and content.
    #[must_use]
    pub fn was_notified(&self, resource: &ResourceId, topic: &NotificationKey, what: &str) -> bool {
        self.notification(resource, topic).is_some_and(|told| told.what == fingerprint(what))
    }

    /// Keeps the records of resources that were not seen, and may exist all the same.
    pub fn keep_of_unseen(
        &mut self,
        before: &Self,
        seen: &BTreeSet<&ResourceId>,
        may_exist: impl Fn(&ResourceId) -> bool,
    ) {
        let unseen = before.resources.iter().filter(|(resource, _)| !seen.contains(resource) && may_exist(resource));
        self.resources.extend(unseen.map(|(resource, record)| (resource.clone(), record.clone())));
        let hosts: BTreeSet<&ResourceId> =
            self.resources.values().filter_map(|record| record.last_host.as_ref()).collect();
        let lost = before.hosts.iter().filter(|(host, _)| hosts.contains(host) && !self.hosts.contains_key(*host));
        self.hosts.extend(lost.map(|(host, tags)| (host.clone(), tags.clone())).collect::<Vec<_>>());
    }
}

impl NotificationEntry {
    /// `true` if the notification need not be sent at `now`. A time further ahead than clocks differ is damaged, and must not silence a
    /// fault until then.
    #[must_use]
    pub fn covers(&self, what: &str, repeat: RepeatPolicy, now: Timestamp) -> bool {
        self.what == fingerprint(what)
            && (repeat == RepeatPolicy::Never || now.duration_since(self.at).abs() < REPEAT_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::AnnouncedAction;
    use crate::mode::Mode;

    #[test]
    fn a_lasting_fault_is_notified_once_a_day_and_another_one_at_once() {
        let told = NotificationEntry { at: "2026-09-01T12:00:00Z".parse().unwrap(), what: "stop".to_owned() };
        let check = |what: &str, repeat, now: &str, expect| {
            assert_eq!(told.covers(what, repeat, now.parse().unwrap()), expect, "{what} {repeat:?} at {now}");
        };
        check("stop", RepeatPolicy::Daily, "2026-09-01T12:00:00Z", true);
        check("stop", RepeatPolicy::Daily, "2026-09-02T11:59:59Z", true);
        check("stop", RepeatPolicy::Daily, "2026-09-02T12:00:00Z", false);
        check("stop", RepeatPolicy::Daily, "2026-08-31T12:00:01Z", true);
        check("stop", RepeatPolicy::Daily, "2026-08-31T12:00:00Z", false);
        check("stop", RepeatPolicy::Never, "2027-09-02T12:00:00Z", true);
        check("start", RepeatPolicy::Daily, "2026-09-01T12:00:00Z", false);
        check("start", RepeatPolicy::Never, "2026-09-01T12:00:00Z", false);
    }

    #[test]
    fn a_long_text_is_stored_as_its_hash() {
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let (one, other) = ("x".repeat(50 * 255), "x".repeat(50 * 255 - 1) + "y");
        let told = NotificationEntry::new(at, &one);
        assert!(told.what.len() <= COMPARED_BYTES_MAX, "{}", told.what);
        assert!(told.covers(&one, RepeatPolicy::Never, at) && !told.covers(&other, RepeatPolicy::Never, at));
        assert_eq!(NotificationEntry::new(at, "stop").what, "stop");
    }

    #[test]
    fn a_log_has_the_documented_form() {
        let at: Timestamp = "2026-09-01T12:00:00Z".parse().unwrap();
        let told = NotificationEntry { at, what: "configured".to_owned() };
        let announced = AnnouncedAction {
            ending: ResourceAction::Stop,
            mode: Mode::Enforce,
            at,
            deadline: "2026-09-01T13:00:00Z".parse().unwrap(),
        };
        let record = ResourceRecord {
            since: Some("2026-08-31T07:00:00Z".parse().unwrap()),
            announced: BTreeMap::from([(Rule::OverBudget, announced)]),
            notified: BTreeMap::from([(NotificationKey::rule(Rule::Lifetime), told.clone())]),
            ..ResourceRecord::default()
        };
        let log = NotificationLog {
            resources: BTreeMap::from([(ResourceId::from("i-0abc"), record)]),
            gaps: BTreeMap::from([(NotificationKey::named("eu-west-1 ec2:DescribeInstances"), told)]),
            ..NotificationLog::default()
        };
        let json = serde_json::json!({
            "resources": { "i-0abc": {
                "since": "2026-08-31T07:00:00Z",
                "announced": { "over-budget": {
                    "action": "stop",
                    "mode": "enforce",
                    "at": "2026-09-01T12:00:00Z",
                    "deadline": "2026-09-01T13:00:00Z",
                } },
                "notified": { "lifetime": { "at": "2026-09-01T12:00:00Z", "what": "configured" } },
            } },
            "gaps": { "eu-west-1 ec2:DescribeInstances": { "at": "2026-09-01T12:00:00Z", "what": "configured" } },
            "undelivered": [],
        });
        assert_eq!(serde_json::to_value(&log).unwrap(), json);
        assert_eq!(serde_json::from_value::<NotificationLog>(json).unwrap(), log);
    }

    #[test]
    fn an_older_document_lacks_what_came_later() {
        assert_eq!(serde_json::from_str::<NotificationLog>("{}").unwrap(), NotificationLog::default());
    }
}
