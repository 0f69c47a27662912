//! One notification: a paragraph as data, and whether earlier runs sent it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Headline, NotificationEntry, NotificationKey, NotificationLogs, Paragraph, RepeatPolicy};
use crate::id::{Region, ResourceId};
use crate::mode::Mode;
use crate::money::Rate;
use crate::reply_link::EndingBox;
use crate::rule::Rule;

/// The `team` attribute of what belongs to no team.
pub const NO_TEAM: &str = "untagged";

/// [`NO_TEAM`] in the tables of commands.
pub const NO_TEAM_LABEL: &str = "(no team)";

/// The resource by which the account's own budget goes.
pub const ACCOUNT: &str = "account";

/// Importance of a notification, for filter policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something will be done, or should be.
    Warning,
    /// Something was done.
    Action,
    /// Something went wrong.
    Error,
}

impl Severity {
    /// The attribute's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Action => "action",
            Self::Error => "error",
        }
    }
}

/// One paragraph.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// The `team` attribute.
    pub team: String,
    /// Importance of the notification.
    pub severity: Severity,
    /// Region of the resource. A gap has a region, but no resource.
    pub region: Region,
    pub resource: Option<ResourceId>,
    /// Form in which the log remembers it.
    pub kind: NotificationKind,
    /// Text for people.
    pub text: Paragraph,
    /// `true` if something was done, which no later run sees again: it is undelivered where SNS did not take it.
    pub happened: bool,
    /// The mode of its step; `None` without a step, or if the step notifies in any mode.
    pub mode: Option<Mode>,
    /// Data that the action loses for good, for the message's first line.
    pub loses: Option<String>,
    /// The notification in a few words.
    pub headline: Headline,
    /// Facts that machines can read.
    pub facts: NotificationFacts,
}

/// Known facts of a notification's resource and of the step about it, for events.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NotificationFacts {
    /// The step's action, by its name in responses; of an announcement, what it announces.
    pub action: Option<&'static str>,
    /// The step's outcome; `None` for an announcement, whose mark is written after it.
    pub outcome: Option<&'static str>,
    pub rule: Option<Rule>,
    /// Such as `g5.xlarge`.
    pub what: Option<String>,
    /// The resource's `Name` tag.
    pub name: Option<String>,
    pub owner: Option<String>,
    /// `<team>/<job>`.
    pub job: Option<String>,
    /// Due time of the announced action.
    pub deadline: Option<Timestamp>,
    /// Savings of the action, in USD per hour; `None` if the price is unknown.
    pub saves_usd_per_hour: Option<Rate>,
    /// The box that a reader may keep by a link. Its job and its end are facts already.
    #[serde(skip)]
    pub ending_box: Option<EndingBox>,
}

impl Notification {
    /// `true` if the notification is all that there is to do, so that observe mode leaves nothing undone.
    #[must_use]
    pub fn is_all_done(&self) -> bool {
        self.mode.is_none() && matches!(&self.kind, NotificationKind::State { topic, .. } if topic.is_about_budget())
    }

    /// No two of a run share it.
    #[must_use]
    pub fn key(&self) -> (&Region, Option<&ResourceId>, &NotificationKind) {
        (&self.region, self.resource.as_ref(), &self.kind)
    }
}

/// Form in which the log remembers a paragraph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotificationKind {
    /// Something was done.
    Event,
    /// Something is so.
    State {
        /// Subject of the notification.
        topic: NotificationKey,
        /// The fingerprint of the content; another content is notified again.
        what: String,
        /// Policy for sending it again while it lasts.
        repeat: RepeatPolicy,
    },
    /// An end is announced.
    Announcement,
}

/// The notifications besides those of a report that earlier runs have not sent.
#[must_use]
pub fn without_known(notifications: Vec<Notification>, memory: &NotificationLogs, now: Timestamp) -> Vec<Notification> {
    notifications.into_iter().filter(|one| !is_known(one, memory, now)).collect()
}

/// `true` if an earlier run sent the notification. Gaps and faults of the account are in the log of the home region.
#[must_use]
pub fn is_known(notification: &Notification, memory: &NotificationLogs, now: Timestamp) -> bool {
    let NotificationKind::State { topic, what, repeat } = &notification.kind else {
        return false;
    };
    let Some(notices) = memory.get(&notification.region) else {
        // Without a log nothing could be remembered: a fault would be notified in every run.
        return notification.resource.is_none();
    };
    let told = match &notification.resource {
        Some(resource) => notices.notification(resource, topic),
        None => notices.gaps.get(topic),
    };
    told.is_some_and(|told: &NotificationEntry| told.covers(what, *repeat, now))
}
