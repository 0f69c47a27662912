//! The first line of a message: the data that is lost, then what happens to whose resources, when, and how much money that is.

use std::cmp::Reverse;

use jiff::Timestamp;
use model::fault::shortened;
use model::mode::Mode;
use model::notification_log::{Headline, HeadlineObject, Severity, UndeliveredCause};
use plan::report::Report;

use crate::message::{MessageParagraph, ParagraphSource};

/// Fewer than 160 characters, so that a phone and a chat show all of it.
const CHARACTERS_MAX: usize = 159;
/// The list of losses names at most so many.
const LOSSES_MAX: usize = 50;

pub(super) struct FirstLine {
    pub(super) text: String,
    /// The losses that it only counts, as the second line.
    pub(super) losses: Option<String>,
}

/// The first line of a message to a team. The gravest paragraphs that are alike make its sentence, and it counts the others.
pub(super) fn first_line(report: &Report, team: &str, paragraphs: &[MessageParagraph<'_>]) -> FirstLine {
    let sentence = format!("{}.", describe_gravest(report, team, paragraphs));
    let losses = Losses::from_paragraphs(paragraphs);
    let is_short = |text: &String| text.chars().count() <= CHARACTERS_MAX;
    let with = |named_max| format!("{}{sentence}", losses.describe_briefly(named_max));
    let [whole, first, counted] = [LOSSES_MAX, 1, 0].map(with);
    if is_short(&whole) {
        return FirstLine { text: whole, losses: None };
    }
    let text = if is_short(&first) { first } else { counted };
    FirstLine { text: shortened(&text, CHARACTERS_MAX - 1), losses: losses.describe() }
}

fn describe_gravest(report: &Report, team: &str, paragraphs: &[MessageParagraph<'_>]) -> String {
    let earlier = |sentence| Headline::new(sentence, HeadlineObject::Notification, "1 notification");
    let refused = earlier("Curfew sends what SNS refused before: {}");
    let late = earlier("Curfew sends what happened after the message of its run: {}");
    let mut groups: Vec<(Severity, bool, Vec<&Headline>)> = Vec::new();
    for paragraph in paragraphs {
        let headline = match paragraph.source {
            ParagraphSource::Run(notification) => &notification.headline,
            ParagraphSource::Earlier(UndeliveredCause::Refused) => &refused,
            ParagraphSource::Earlier(UndeliveredCause::Late) => &late,
        };
        let loses = paragraph.notification().is_some_and(|one| one.loses.is_some());
        match groups.iter_mut().find(|(_, _, alike)| alike.iter().any(|one| one.is_alike(headline))) {
            Some((severity, any_loses, alike)) => {
                (*severity, *any_loses) = ((*severity).max(paragraph.severity), *any_loses || loses);
                alike.push(headline);
            }
            None => groups.push((paragraph.severity, loses, vec![headline])),
        }
    }
    // Of equally grave ones the sentence says what happens first.
    let next = |alike: &[&Headline]| alike.iter().filter_map(|one| one.at).filter(|at| *at > report.at).min();
    groups.sort_by_key(|(severity, loses, alike)| {
        (Reverse((*severity, *loses)), next(alike).unwrap_or(Timestamp::MAX), Reverse(alike.len()))
    });
    let gravest = groups.first().map_or(&[][..], |(_, _, alike)| alike);
    let others = match paragraphs.len() - gravest.len() {
        0 => String::new(),
        1 => "; 1 further notification".to_owned(),
        others => format!("; {others} further notifications"),
    };
    Headline::describe(gravest, team, report.at) + &others
}

/// The data that these actions lose, and the data that they would lose in enforce mode.
struct Losses<'a> {
    lost: Vec<&'a str>,
    would_be_lost: Vec<&'a str>,
}

impl<'a> Losses<'a> {
    fn from_paragraphs(paragraphs: &[MessageParagraph<'a>]) -> Self {
        let notifications = || paragraphs.iter().filter_map(MessageParagraph::notification);
        let losses_in = |mode| {
            notifications().filter(|one| one.mode == Some(mode)).filter_map(|one| one.loses.as_deref()).collect()
        };
        Self { lost: losses_in(Mode::Enforce), would_be_lost: losses_in(Mode::Observe) }
    }

    /// Each list with so many names at most, before the sentence; empty if nothing is lost.
    fn describe_briefly(&self, named_max: usize) -> String {
        let describe_losses = |label: &str, losses: &[&str]| match (losses.len(), named_max) {
            (0, _) => String::new(),
            (1, 0) => format!("{label}: 1 resource. "),
            (count, 0) => format!("{label}: {count} resources. "),
            _ => format!("{label}: {}. ", join(losses, named_max)),
        };
        describe_losses("Data lost", &self.lost) + &describe_losses("Data at stake", &self.would_be_lost)
    }

    fn describe(&self) -> Option<String> {
        let describe_losses = |label: &str, losses: &[&str]| {
            (!losses.is_empty()).then(|| format!("{label}: {}.", join(losses, LOSSES_MAX)))
        };
        let lost = describe_losses("Data lost by these actions", &self.lost);
        let would_be_lost = describe_losses("Data that enforce mode would lose", &self.would_be_lost);
        let sentences: Vec<String> = lost.into_iter().chain(would_be_lost).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}

fn join(losses: &[&str], named_max: usize) -> String {
    let (named, others) = losses.split_at(losses.len().min(named_max));
    let others = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
    format!("{}{others}", named.join(", "))
}
