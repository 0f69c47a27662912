//! Mails to the owners of resources, where the configuration asks for them.

use std::collections::BTreeMap;

use model::channels::Audience;
use model::mode::Mode;
use model::notification_log::{Notification, NotificationKind, Severity};
use model::ownership::OwnerSender;
use plan::report::Report;

use crate::Message;
use crate::message::{MessageParagraph, in_parts, message};

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
