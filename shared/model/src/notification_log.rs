//! The log of notifications, which prevents repetitions. Losing it repeats messages, and never acts.

mod bound;
mod headline;
mod notification;
mod paragraph;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{Region, ResourceId};
use crate::instance::Tags;
use crate::mark::{AnnouncedAction, Mark};
use crate::observation::Gap;
use crate::rule::Rule;

pub use headline::{Headline, HeadlineCost, HeadlineObject};
pub use notification::{
    ACCOUNT, NO_TEAM, NO_TEAM_LABEL, Notification, NotificationFacts, NotificationKind, Severity, is_known,
    without_known,
};
pub use paragraph::Paragraph;

/// The longest text that is kept to be compared, in bytes. A longer one is kept as its hash: one resource can have 50 tags of 255
/// characters that cannot be read, and there are hundreds of such resources in a document.
const COMPARED_BYTES_MAX: usize = 64;

/// The interval at which a lasting error is notified again.
pub const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// What a notice is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotificationKey(String);

impl NotificationKey {
    /// A notify-only rule.
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

    /// Whether it is such a share.
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
    /// What was notified, and when, in short.
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

/// The notifications of one function about one region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NotificationLog {
    /// Marks of what is in observe mode, which are written on no resource.
    #[serde(default)]
    pub shadow_marks: BTreeMap<ResourceId, Mark>,
    /// Announced marks that could not be written yet.
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
    /// Notifications about resources.
    #[serde(default)]
    pub notified: BTreeMap<ResourceId, BTreeMap<NotificationKey, NotificationEntry>>,
    /// Notifications about failed calls, and about the account.
    #[serde(default)]
    pub gaps: BTreeMap<NotificationKey, NotificationEntry>,
    /// Notifications that could not be sent yet.
    #[serde(default)]
    pub undelivered: Vec<UndeliveredParagraph>,
}

/// A paragraph that no message of its run had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndeliveredParagraph {
    /// The message's `team` attribute.
    pub team: String,
    /// The least that the message's `severity` is.
    pub severity: Severity,
    pub text: Paragraph,
    #[serde(default)]
    pub cause: UndeliveredCause,
}

/// The reason why a paragraph was in no message of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndeliveredCause {
    /// SNS did not accept the message.
    #[default]
    Refused,
    /// It came up after the messages were sent.
    Late,
}

/// Whether it is notified again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepeatPolicy {
    /// Once, until it is fixed or changes.
    Never,
    /// Once a day while it lasts.
    Daily,
}

/// The notifications of one function's earlier runs, by region.
pub type NotificationLogs = BTreeMap<Region, NotificationLog>;

/// The fingerprint of an end in observe mode.
#[must_use]
pub fn would_fingerprint(announced: AnnouncedAction) -> String {
    format!("{}@{}", announced.ending, announced.deadline)
}

impl NotificationLog {
    /// Whether anything is remembered about a resource.
    #[must_use]
    pub fn knows(&self, resource: &ResourceId) -> bool {
        let marks = [&self.shadow_marks, &self.unwritten_marks, &self.void_marks];
        marks.into_iter().any(|marks| marks.contains_key(resource))
            || self.first_sights.contains_key(resource)
            || self.notified.contains_key(resource)
    }

    /// Whether a resource has a notification with this key.
    #[must_use]
    pub fn was_notified(&self, resource: &ResourceId, topic: &NotificationKey, what: &str) -> bool {
        self.notified
            .get(resource)
            .and_then(|topics| topics.get(topic))
            .is_some_and(|told| told.what == fingerprint(what))
    }

    /// Keeps what was remembered about resources that were not seen.
    pub fn keep_of_unseen(&mut self, before: &Self, seen: &BTreeSet<&ResourceId>) {
        fn add<T: Clone>(
            to: &mut BTreeMap<ResourceId, T>,
            from: &BTreeMap<ResourceId, T>,
            seen: &BTreeSet<&ResourceId>,
        ) {
            let unseen = from.iter().filter(|(resource, _)| !seen.contains(resource));
            to.extend(unseen.map(|(resource, value)| (resource.clone(), value.clone())));
        }
        add(&mut self.notified, &before.notified, seen);
        add(&mut self.shadow_marks, &before.shadow_marks, seen);
        add(&mut self.unwritten_marks, &before.unwritten_marks, seen);
        add(&mut self.void_marks, &before.void_marks, seen);
        add(&mut self.first_sights, &before.first_sights, seen);
        add(&mut self.seen_on, &before.seen_on, seen);
        let hosts: BTreeSet<&ResourceId> = self.seen_on.values().collect();
        let lost = before.hosts.iter().filter(|(host, _)| hosts.contains(host) && !self.hosts.contains_key(*host));
        self.hosts.extend(lost.map(|(host, tags)| (host.clone(), tags.clone())).collect::<Vec<_>>());
    }
}

impl NotificationEntry {
    /// Whether it need not be sent at `now`. A time further ahead than clocks differ is damaged, and must not silence a fault until then.
    #[must_use]
    pub fn covers(&self, what: &str, repeat: RepeatPolicy, now: Timestamp) -> bool {
        self.what == fingerprint(what)
            && (repeat == RepeatPolicy::Never || now.duration_since(self.at).abs() < REPEAT_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn notices_survive_writing_and_reading() {
        let id = ResourceId::from("i-0abc");
        let at = "2026-09-01T12:00:00Z".parse().unwrap();
        let told = NotificationEntry { at, what: "configured".to_owned() };
        let notices = NotificationLog {
            shadow_marks: BTreeMap::from([(id.clone(), "i-0abc idle=stop@2026-09-01T13:00:00Z".parse().unwrap())]),
            unwritten_marks: BTreeMap::new(),
            void_marks: BTreeMap::new(),
            first_sights: BTreeMap::from([(ResourceId::from("vol-1"), at)]),
            seen_on: BTreeMap::from([(ResourceId::from("vol-1"), id.clone())]),
            hosts: BTreeMap::from([(id.clone(), Tags::from([("Team".to_owned(), "vision".to_owned())]))]),
            notified: BTreeMap::from([(id, BTreeMap::from([(NotificationKey::rule(Rule::Lifetime), told.clone())]))]),
            gaps: BTreeMap::from([(NotificationKey::named("eu-west-1 ec2:DescribeInstances"), told)]),
            undelivered: vec![UndeliveredParagraph {
                team: "vision".to_owned(),
                severity: Severity::Action,
                text: Paragraph::new("i-0abc was stopped").with_command("Keep it", "curfew keep i-0abc 7d"),
                cause: UndeliveredCause::Late,
            }],
        };
        let json = serde_json::to_string(&notices).unwrap();
        assert_eq!(serde_json::from_str::<NotificationLog>(&json).unwrap(), notices);
    }

    #[test]
    fn an_older_document_lacks_what_came_later() {
        assert_eq!(serde_json::from_str::<NotificationLog>("{}").unwrap(), NotificationLog::default());
    }
}
