//! The first line of a message: the data that is lost, then what happens to whose resources, when, and how much money that is.

use std::fmt::Write as _;

use model::fault::shortened;
use model::mode::Mode;
use model::notification_log::{Headline, Notification, NotificationKind};
use plan::report::Report;

use crate::lead::Lead;
use crate::message::MessageParagraph;

/// Fewer than 160 characters, so that a phone and a chat show all of it.
const CHARACTERS_MAX: usize = 159;
/// The list of losses names at most so many.
const LOSSES_MAX: usize = 50;

pub(super) struct FirstLine {
    pub(super) text: String,
    /// The losses that it does not name, as the second line.
    pub(super) losses: Option<String>,
}

/// The first line of a message, whose paragraphs are in their order. Its sentence is about the lead, and it counts the others.
pub(super) fn first_line(report: &Report, paragraphs: &[MessageParagraph<'_>], lead: &Lead<'_>) -> FirstLine {
    let others = match paragraphs.len().saturating_sub(lead.count()) {
        0 => String::new(),
        count => format!("; {count} more below"),
    };
    let [detailed, plain] = lead_sentences(report, lead).map(|sentence| format!("{sentence}{others}."));
    let losses = Losses::from_paragraphs(paragraphs);
    let is_short = |text: &String| text.chars().count() <= CHARACTERS_MAX;
    let whole = losses.describe(LOSSES_MAX) + &detailed;
    if is_short(&whole) {
        return FirstLine { text: whole, losses: None };
    }
    let [named, counted] = [1, 0].map(|named_max| losses.describe(named_max));
    let own = losses.describe_own(lead);
    let brief = own.as_ref().map(|own| format!("{own}{}", losses.besides(lead).describe(0)));
    let (brief, own) = (brief.as_ref().unwrap_or(&counted), own.as_ref().unwrap_or(&counted));
    let shorter = [(&named, &detailed), (brief, &detailed), (brief, &plain), (own, &plain)];
    let text = shorter.into_iter().map(|(losses, sentence)| format!("{losses}{sentence}")).find(is_short);
    let text = text.unwrap_or_else(|| shortened(&plain, CHARACTERS_MAX - 1));
    let is_named = losses.count() == 1 && own != &counted && text.starts_with(own);
    let losses = Some(losses.describe(LOSSES_MAX)).filter(|losses| !is_named && !text.starts_with(losses.as_str()));
    FirstLine { text, losses: losses.map(|losses| losses.trim_end().to_owned()) }
}

/// The sentence about the lead, with type and name of its resource, and without.
fn lead_sentences(report: &Report, lead: &Lead<'_>) -> [String; 2] {
    match lead {
        Lead::Earlier { headline, note } => [format!("{headline}{note}"), (*headline).to_owned()],
        Lead::Run(notifications) => {
            let headlines: Vec<&Headline> = notifications.iter().map(|one| &one.headline).collect();
            let teams = lead.teams();
            let plain: Vec<Headline> =
                headlines.iter().map(|one| Headline { details: String::new(), ..(*one).clone() }).collect();
            [headlines, plain.iter().collect()].map(|alike| Headline::describe(&alike, &teams, &report.zoned_at()))
        }
    }
}

/// The data that announced actions will lose, that is lost, and that would be lost in enforce mode.
struct Losses<'a>([(&'static str, Vec<&'a str>); 3]);

/// Place of a notification's loss in [`Losses`].
fn place(notification: &Notification) -> usize {
    match (notification.mode, &notification.kind) {
        (Some(Mode::Observe), _) => 2,
        (_, NotificationKind::Announcement) => 0,
        _ => 1,
    }
}

impl<'a> Losses<'a> {
    fn from_paragraphs(paragraphs: &[MessageParagraph<'a>]) -> Self {
        let mut losses = Self([("Will lose", Vec::new()), ("Lost", Vec::new()), ("Would lose", Vec::new())]);
        for notification in paragraphs.iter().filter_map(MessageParagraph::notification) {
            losses.0[place(notification)].1.extend(notification.loses.as_deref());
        }
        losses
    }

    /// Each list with so many names at most, before the sentence; empty if nothing is lost.
    fn describe(&self, named_max: usize) -> String {
        let mut text = String::new();
        for (label, losses) in self.0.iter().filter(|(_, losses)| !losses.is_empty()) {
            let _ = match (losses.len(), named_max) {
                (1, 0) => write!(text, "{label}: data of 1 resource. "),
                (count, 0) => write!(text, "{label}: data of {count} resources. "),
                _ => write!(text, "{label}: {}. ", join(losses, named_max)),
            };
        }
        text
    }

    fn count(&self) -> usize {
        self.0.iter().map(|(_, losses)| losses.len()).sum()
    }

    /// The list of the lead, which has its loss in few words and counts the others; `None` if the lead loses nothing.
    fn describe_own(&self, lead: &Lead<'_>) -> Option<String> {
        let Lead::Run(notifications) = lead else { return None };
        let (place, loss) = notifications.iter().find_map(|one| Some((place(one), one.headline.loss.as_deref()?)))?;
        let (label, all) = &self.0[place];
        Some(match all.len() {
            ..=1 => format!("{label}: {loss}. "),
            count => format!("{label}: {loss}, and {} more. ", count.saturating_sub(1)),
        })
    }

    /// The lists besides that of the lead.
    fn besides(&self, lead: &Lead<'_>) -> Self {
        let mut lists = self.0.clone();
        if let Lead::Run(notifications) = lead
            && let Some(first) = notifications.first()
        {
            lists[place(first)].1.clear();
        }
        Self(lists)
    }
}

fn join(losses: &[&str], named_max: usize) -> String {
    let (named, others) = losses.split_at(losses.len().min(named_max));
    let others = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    format!("{}{others}", named.join(", "))
}
