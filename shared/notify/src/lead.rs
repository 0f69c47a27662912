//! The order of a message's paragraphs: first what the reader can still prevent, the dearest first; last what is routine.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;
use model::mode::Mode;
use model::money::Rate;
use model::notification_log::{Notification, NotificationKind, Severity, UndeliveredCause, UndeliveredParagraph};
use model::rule::Rule;

use crate::message::{MessageParagraph, ParagraphSource};

/// The kinds of paragraphs, in their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// An announced action: the reader can still prevent it.
    Preventable,
    /// Something was done, failed, or should be done.
    Outcome,
    /// What enforce mode would do.
    Observed,
    Information,
    /// What `curfew:hours` asks for and loses nothing.
    Routine,
}

/// Place of a paragraph in its message. Of equally grave outcomes those come first that lose data.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    urgency: Urgency,
    severity: Reverse<Severity>,
    keeps_data: bool,
    rate: Reverse<Option<Rate>>,
    at: Timestamp,
}

impl Rank {
    pub(super) fn from_paragraph(paragraph: &MessageParagraph<'_>) -> Self {
        let severity = Reverse(paragraph.severity);
        match paragraph.source {
            ParagraphSource::Run(notification) => {
                let urgency = Urgency::from_notification(notification);
                Self {
                    severity,
                    keeps_data: urgency == Urgency::Outcome && notification.loses.is_none(),
                    rate: Reverse(notification.headline.cost.rate()),
                    at: notification.headline.at.unwrap_or(Timestamp::MAX),
                    urgency,
                }
            }
            ParagraphSource::Earlier(_) => Self {
                urgency: if paragraph.severity == Severity::Info { Urgency::Information } else { Urgency::Outcome },
                severity,
                keeps_data: true,
                rate: Reverse(None),
                at: Timestamp::MAX,
            },
        }
    }
}

impl Urgency {
    fn from_notification(notification: &Notification) -> Self {
        let is_announced = notification.kind == NotificationKind::Announcement;
        match (notification.severity, notification.mode) {
            (Severity::Info, _) if notification.facts.rule == Some(Rule::Hours) => Self::Routine,
            (_, Some(Mode::Enforce)) if is_announced => Self::Preventable,
            (Severity::Info, Some(Mode::Observe)) => Self::Observed,
            (Severity::Info, _) => Self::Information,
            _ => Self::Outcome,
        }
    }
}

/// The paragraphs that the first line and the subject of a message are about.
pub(super) enum Lead<'a> {
    /// One announcement, or everything that is alike: that is counted in one sentence.
    Run(Vec<&'a Notification>),
    /// One of an earlier run: its headline then, and the reason why it comes now.
    Earlier { headline: &'a str, note: &'static str },
}

impl<'a> Lead<'a> {
    /// The lead of paragraphs in their order.
    pub(super) fn from_paragraphs(paragraphs: &[MessageParagraph<'a>]) -> Self {
        match paragraphs.first().map(|paragraph| paragraph.source) {
            None => Self::Run(Vec::new()),
            Some(ParagraphSource::Earlier(undelivered)) => describe_earlier(undelivered),
            Some(ParagraphSource::Run(first)) if first.kind == NotificationKind::Announcement => Self::Run(vec![first]),
            Some(ParagraphSource::Run(first)) => {
                let others = paragraphs.iter().filter_map(MessageParagraph::notification);
                let is_alike = |one: &&Notification| {
                    one.kind != NotificationKind::Announcement && one.headline.is_alike(&first.headline)
                };
                Self::Run(others.filter(is_alike).collect())
            }
        }
    }

    /// The teams of what was not sent by an earlier run.
    pub(super) fn teams(&self) -> BTreeSet<&'a str> {
        match self {
            Self::Run(notifications) => notifications.iter().map(|one| one.team.as_str()).collect(),
            Self::Earlier { .. } => BTreeSet::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Run(notifications) => notifications.len(),
            Self::Earlier { .. } => 1,
        }
    }
}

fn describe_earlier(UndeliveredParagraph { headline, cause, .. }: &UndeliveredParagraph) -> Lead<'_> {
    let (headline, note) = match (cause, headline.as_str()) {
        (UndeliveredCause::Refused, "") => ("Curfew sends what SNS did not accept before", ""),
        (UndeliveredCause::Late, "") => ("Curfew sends what happened after the message of its run", ""),
        (UndeliveredCause::Refused, headline) => (headline, " (SNS did not accept this before)"),
        (UndeliveredCause::Late, headline) => (headline, " (after the message of its run)"),
    };
    Lead::Earlier { headline, note }
}
