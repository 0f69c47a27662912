//! One message for each team and run, and one about the account; several if one cannot hold all paragraphs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use model::channels::Audience;
use model::id::ResourceId;
use model::mode::Mode;
use model::notification_log::{
    NO_TEAM, Notification, NotificationKey, NotificationKind, NotificationLogs, Paragraph, Severity,
    UndeliveredParagraph,
};
use model::ownership::OwnerSender;
use model::rule::Rule;
use model::subscriptions::TopicSubscriptions;
use plan::report::{AuditRecord, Report};

use crate::first_line::first_line;
use crate::lead::{Lead, Rank};
use crate::subject::subject;

/// SNS accepts 256 KB with everything around the paragraphs (SNS developer guide, "Quotas").
const PARAGRAPHS_BYTES_MAX: usize = 192 * 1024;

/// A message for SNS; `team`, `function` and `severity` are its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub audience: Audience,
    /// Empty in a message about the account, and then no attribute.
    pub team: String,
    /// The teams whose paragraphs it has.
    pub teams: BTreeSet<String>,
    pub function: &'static str,
    pub severity: &'static str,
    /// ASCII, fewer than 100 characters: what the reader can still prevent, the dearest first, or else the gravest outcome.
    pub subject: String,
    /// Plain text. Its first line has fewer than 160 characters: the data that is lost, then what happens, to whose resources,
    /// when, and how much money that is. The paragraphs are in the order of that.
    pub body: String,
    /// Resources that the message is about.
    pub resources: Vec<ResourceId>,
    /// The number of its paragraphs, those of earlier runs too.
    pub paragraphs: usize,
}

impl Message {
    /// A message of this severity about the deployment itself.
    #[must_use]
    pub fn about_deployment(function: &'static str, severity: Severity, subject: String, body: String) -> Self {
        Self {
            audience: Audience::Team,
            team: NO_TEAM.to_owned(),
            teams: BTreeSet::new(),
            function,
            severity: severity.as_str(),
            subject,
            body,
            resources: Vec::new(),
            paragraphs: 1,
        }
    }
}

/// The messages with a run's notifications and with those that earlier runs could not deliver: to the account, one message or several if one
/// cannot hold all; to the teams, ordered by team, one each or several. No paragraph is left out, because Curfew carries out what it announces.
/// Announcements are a message of their own where a subscription that receives warnings would not receive the rest.
#[must_use]
pub fn messages(
    report: &Report,
    notifications: &[Notification],
    logs: &NotificationLogs,
    audiences: &[Audience],
    subscriptions: Option<&TopicSubscriptions>,
) -> Vec<Message> {
    let mut by_attribute: BTreeMap<(Audience, &str), Vec<MessageParagraph<'_>>> = BTreeMap::new();
    for audience in audiences {
        let undelivered = logs.values().flat_map(|log| &log.undelivered).filter(|one| one.audience == *audience);
        let paragraphs = undelivered.map(MessageParagraph::from_earlier).chain(notifications.iter().map(Into::into));
        for paragraph in paragraphs {
            by_attribute.entry((*audience, audience.team_attribute(paragraph.team()))).or_default().push(paragraph);
        }
    }
    let write = |((audience, team), paragraphs): ((Audience, &str), Vec<MessageParagraph<'_>>)| {
        let is_read_with = |severity| {
            subscriptions.is_none_or(|all| all.is_read_with_severity(severity, audience, team, report.function))
        };
        let parts = in_parts(paragraphs, is_read_with).into_iter();
        parts.map(|part| message(report, audience, team, &part)).collect::<Vec<Message>>()
    };
    by_attribute.into_iter().flat_map(write).collect()
}

pub(super) struct MessageParagraph<'a> {
    text: String,
    pub(super) severity: Severity,
    pub(super) source: ParagraphSource<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum ParagraphSource<'a> {
    /// This run.
    Run(&'a Notification),
    /// An earlier run, which could not send it.
    Earlier(&'a UndeliveredParagraph),
}

impl<'a> From<&'a Notification> for MessageParagraph<'a> {
    fn from(notification: &'a Notification) -> Self {
        Self {
            text: fitting(&notification.text),
            severity: notification.severity,
            source: ParagraphSource::Run(notification),
        }
    }
}

impl<'a> MessageParagraph<'a> {
    fn from_earlier(undelivered: &'a UndeliveredParagraph) -> Self {
        Self {
            text: fitting(&undelivered.text),
            severity: undelivered.severity,
            source: ParagraphSource::Earlier(undelivered),
        }
    }

    fn team(&self) -> &'a str {
        match self.source {
            ParagraphSource::Run(notification) => &notification.team,
            ParagraphSource::Earlier(undelivered) => &undelivered.team,
        }
    }

    pub(super) const fn notification(&self) -> Option<&'a Notification> {
        match self.source {
            ParagraphSource::Run(notification) => Some(notification),
            ParagraphSource::Earlier(_) => None,
        }
    }
}

/// The text, short enough for a message: SNS would refuse a longer one in every run, with all other paragraphs of the team.
fn fitting(text: &Paragraph) -> String {
    let end = text.floor_char_boundary(PARAGRAPHS_BYTES_MAX);
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", &text[..end])
}

/// The paragraphs of each message, in their order.
pub(super) fn in_parts(
    mut paragraphs: Vec<MessageParagraph<'_>>,
    is_read_with: impl Fn(Severity) -> bool,
) -> Vec<Vec<MessageParagraph<'_>>> {
    paragraphs.sort_by_cached_key(Rank::from_paragraph);
    split_by_readers(paragraphs, is_read_with).into_iter().flat_map(split_by_size).collect()
}

/// Separates warnings from what is more severe, if they announce something and their readers would not receive the greatest severity.
fn split_by_readers(
    paragraphs: Vec<MessageParagraph<'_>>,
    is_read_with: impl Fn(Severity) -> bool,
) -> Vec<Vec<MessageParagraph<'_>>> {
    let is_announcement = |paragraph: &MessageParagraph<'_>| {
        let announces = |one: &Notification| match &one.kind {
            NotificationKind::Announcement => true,
            // That a snapshot expires.
            NotificationKind::State { topic, .. } => *topic == NotificationKey::rule(Rule::Expired),
            NotificationKind::Event => false,
        };
        match paragraph.source {
            ParagraphSource::Run(notification) => announces(notification),
            // It may be an announcement that this topic did not accept.
            ParagraphSource::Earlier(undelivered) => undelivered.severity == Severity::Warning,
        }
    };
    let greatest = paragraphs.iter().map(|paragraph| paragraph.severity).max().unwrap_or(Severity::Info);
    if greatest <= Severity::Warning || !paragraphs.iter().any(is_announcement) || is_read_with(greatest) {
        return vec![paragraphs];
    }
    let (warnings, others) =
        paragraphs.into_iter().partition(|paragraph: &MessageParagraph<'_>| paragraph.severity <= Severity::Warning);
    vec![warnings, others]
}

fn split_by_size(paragraphs: Vec<MessageParagraph<'_>>) -> Vec<Vec<MessageParagraph<'_>>> {
    let mut parts: Vec<Vec<MessageParagraph<'_>>> = Vec::new();
    let mut room = 0;
    for paragraph in paragraphs {
        let bytes = paragraph.text.len() + "\n\n".len();
        match parts.last_mut() {
            Some(part) if bytes <= room => {
                room -= bytes;
                part.push(paragraph);
            }
            _ => {
                room = PARAGRAPHS_BYTES_MAX.saturating_sub(bytes);
                parts.push(vec![paragraph]);
            }
        }
    }
    parts
}

pub(super) fn message(report: &Report, audience: Audience, team: &str, paragraphs: &[MessageParagraph<'_>]) -> Message {
    let severity = paragraphs.iter().map(|paragraph| paragraph.severity).max().unwrap_or(Severity::Info);
    let notifications: Vec<&Notification> = paragraphs.iter().filter_map(MessageParagraph::notification).collect();
    let lead = Lead::from_paragraphs(paragraphs);
    let first = first_line(report, paragraphs, &lead);
    let mut body = Paragraph::new(&first.text).to_string();
    if let Some(losses) = first.losses {
        let _ = write!(body, "\n{}", Paragraph::new(&losses));
    }
    if let Some(disclaimer) = disclaimer(report.mode, &notifications) {
        let _ = write!(body, "\n{disclaimer}");
    }
    for paragraph in paragraphs {
        let _ = write!(body, "\n\n{}", paragraph.text);
    }
    let _ = write!(
        body,
        "\n\nRun {} of {} at {}; its audit record is {}.",
        report.run,
        report.function,
        report.at,
        AuditRecord::key(report)
    );
    Message {
        audience,
        team: team.to_owned(),
        teams: paragraphs.iter().map(|paragraph| paragraph.team().to_owned()).collect(),
        function: report.function,
        severity: severity.as_str(),
        subject: subject(report, &lead, paragraphs.len().saturating_sub(lead.count())),
        body,
        resources: notifications.iter().filter_map(|one| one.resource.clone()).collect(),
        paragraphs: paragraphs.len(),
    }
}

/// The sentence by which a reader in observe mode knows that nothing changes.
fn disclaimer(ceiling: Mode, notifications: &[&Notification]) -> Option<&'static str> {
    const OBSERVE_MODE: &str = "Observe mode: Curfew only notifies, and changes nothing.";
    let any = |mode| notifications.iter().any(|one| one.mode == Some(mode));
    match (any(Mode::Enforce), any(Mode::Observe)) {
        (true, true) => Some(
            "A resource that \"would be\" stopped or deleted is in observe mode: Curfew only notifies, and does not change it.",
        ),
        (false, true) => Some(OBSERVE_MODE),
        (false, false) if ceiling == Mode::Observe && !notifications.iter().all(|one| one.is_all_done()) => {
            Some(OBSERVE_MODE)
        }
        _ => None,
    }
}

/// A mail to the owner of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerMail {
    /// The value of the owner tag, an address.
    pub owner: String,
    pub message: Message,
}

/// The mails of a run to owners: one each, or several if one cannot hold all paragraphs.
#[must_use]
pub fn owner_mails(report: &Report, notifications: &[Notification], sender: &OwnerSender) -> Vec<OwnerMail> {
    let mut by_owner: BTreeMap<&str, Vec<MessageParagraph<'_>>> = BTreeMap::new();
    for notification in notifications {
        if let Some(owner) = mailed_owner(notification, sender) {
            by_owner.entry(owner).or_default().push(notification.into());
        }
    }
    let mails = |(owner, paragraphs): (&str, Vec<MessageParagraph<'_>>)| -> Vec<OwnerMail> {
        let parts = in_parts(paragraphs, |_| true).into_iter();
        let messages = parts.map(|part| message(report, Audience::Team, "", &part));
        messages.map(|message| OwnerMail { owner: owner.to_owned(), message }).collect()
    };
    by_owner.into_iter().flat_map(mails).collect()
}

/// The owner to whom a notification is mailed: what was announced, routine too, and what was done or failed; no mere information.
pub(crate) fn mailed_owner<'a>(notification: &'a Notification, sender: &OwnerSender) -> Option<&'a str> {
    let owner = notification.facts.owner.as_deref()?;
    let is_mailed = notification.severity > Severity::Info || is_enforced_announcement(notification);
    (is_mailed && sender.mails(owner)).then_some(owner)
}

/// Returns `true` for what will be carried out because it is announced.
pub(crate) fn is_enforced_announcement(notification: &Notification) -> bool {
    notification.kind == NotificationKind::Announcement && notification.mode == Some(Mode::Enforce)
}
