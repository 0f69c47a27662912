//! The subject of a message: the name of its lead, its type, its team, the time, and what is lost and paid.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use model::fault::shortened;
use model::foreign_text::quoted_unless_word;
use model::mode::Mode;
use model::money::format_hourly_rate_shortly;
use model::notification_log::{Headline, HeadlineCost, NO_TEAM, Notification};
use model::rule::ResourceAction;
use model::time_zone::{format_local, format_moment_shortly};
use plan::report::Report;

use crate::lead::Lead;

/// SNS API reference, "Publish": fewer than 100 characters, ASCII.
const SUBJECT_MAX: usize = 99;

/// A text as the subject of a message, which is ASCII and not too long for SNS.
#[must_use]
pub fn fit_subject(text: &str) -> String {
    let text = to_ascii(text);
    if text.len() <= SUBJECT_MAX { text } else { cut(&text) }
}

/// What a subject has room for.
#[derive(Clone, Copy)]
struct SubjectRoom {
    has_others: bool,
    has_local_time: bool,
    has_type: bool,
    name_max: usize,
}

/// The most that a subject says comes first.
const ROOMS: [SubjectRoom; 5] = [
    SubjectRoom { has_others: true, has_local_time: true, has_type: true, name_max: 40 },
    SubjectRoom { has_others: false, has_local_time: true, has_type: true, name_max: 40 },
    SubjectRoom { has_others: false, has_local_time: false, has_type: true, name_max: 40 },
    SubjectRoom { has_others: false, has_local_time: false, has_type: false, name_max: 40 },
    SubjectRoom { has_others: false, has_local_time: false, has_type: false, name_max: 20 },
];

/// The subject of a message; `others`: the number of its paragraphs that the lead does not count.
pub(super) fn subject(report: &Report, lead: &Lead<'_>, others: usize) -> String {
    let write = |room: SubjectRoom| {
        let mut text = match lead {
            Lead::Earlier { headline, .. } => (*headline).to_owned(),
            Lead::Run(notifications) => LeadSubject { report, teams: lead.teams(), notifications, room }.describe(),
        };
        if room.has_others && others > 0 {
            let _ = write!(text, " (+{others} more)");
        }
        to_ascii(&text)
    };
    let written = ROOMS.map(write);
    let fitting = written.iter().find(|text| text.len() <= SUBJECT_MAX).cloned();
    fitting.unwrap_or_else(|| fit_subject(written.last().map_or("", String::as_str)))
}

/// The notifications that a subject is about.
struct LeadSubject<'a> {
    report: &'a Report,
    teams: BTreeSet<&'a str>,
    notifications: &'a [&'a Notification],
    room: SubjectRoom,
}

impl LeadSubject<'_> {
    fn describe(&self) -> String {
        let [one] = self.notifications else { return self.describe_outcome() };
        match one.headline.announces {
            Some(ending) => self.describe_announcement(one, ending),
            None => self.describe_outcome(),
        }
    }

    /// `Curfew: llama-ft (p5.48xlarge, nlp) stops 16:26 UTC, loses 30 TB scratch, $55/h`.
    fn describe_announcement(&self, one: &Notification, ending: ResourceAction) -> String {
        let (verb, loss_verb) = match (one.mode, ending) {
            (Some(Mode::Observe), ResourceAction::Stop) => ("would stop".to_owned(), "lose"),
            (Some(Mode::Observe), _) => (format!("would be {}", ending.past_tense()), "lose"),
            (_, ResourceAction::Stop) => ("stops".to_owned(), "loses"),
            _ => (format!("is {}", ending.past_tense()), "loses"),
        };
        let at = one.headline.at.unwrap_or(self.report.at);
        let local = format_local(at, &self.report.time_zone).filter(|_| self.room.has_local_time);
        let local = local.map(|local| format!(" ({local})")).unwrap_or_default();
        let moment = format_moment_shortly(at, self.report.at);
        let (resource, loss, cost) = (self.name_resource(one), self.describe_loss(loss_verb), self.describe_cost());
        format!("Curfew: {resource} {verb} {moment}{local}{loss}{cost}")
    }

    /// `Curfew stopped 3 instances (nlp), lost data of 2, $57/h`.
    fn describe_outcome(&self) -> String {
        let Some(first) = self.notifications.first() else { return "Curfew".to_owned() };
        let (headline, count) = (&first.headline, self.notifications.len());
        let object = match self.notifications {
            [one] => self.name_resource(one),
            _ if headline.object.needs_team() => {
                format!("{} ({})", headline.object.format_count(count), self.short_team())
            }
            _ => headline.object.format_count(count),
        };
        let lost = if first.mode == Some(Mode::Observe) { "would lose" } else { "lost" };
        let sentence = headline.format_sentence(&object, count);
        let curfew = if sentence.starts_with("Curfew") { "" } else { "Curfew: " };
        format!("{curfew}{sentence}{}{}", self.describe_loss(lost), self.describe_cost())
    }

    /// `llama-ft (p5.48xlarge, nlp)`; what is no resource of a team by its name alone.
    fn name_resource(&self, one: &Notification) -> String {
        let headline = &one.headline;
        if !headline.object.needs_team() {
            return headline.short_name();
        }
        let SubjectRoom { has_type, name_max, .. } = self.room;
        let name = match &one.facts.name {
            Some(name) if !headline.details.is_empty() && !name.trim().is_empty() => {
                quoted_unless_word(&shorten(name, name_max))
            }
            _ => headline.short_name(),
        };
        match &one.facts.what {
            Some(what) if has_type && !what.is_empty() => {
                format!("{name} ({}, {})", shorten(what, 25), self.short_team())
            }
            _ => format!("{name} ({})", self.short_team()),
        }
    }

    fn short_team(&self) -> String {
        match self.teams.first() {
            _ if self.teams.len() > 1 => "several teams".to_owned(),
            None | Some(&NO_TEAM) => "no team".to_owned(),
            Some(team) => quoted_unless_word(&shorten(team, self.room.name_max / 2)),
        }
    }

    fn describe_loss(&self, verb: &str) -> String {
        let losing: Vec<&Headline> =
            self.notifications.iter().filter(|one| one.loses.is_some()).map(|one| &one.headline).collect();
        match (&losing[..], self.notifications) {
            ([], _) => String::new(),
            // A line that is short of room names the scratch alone.
            ([one], [_]) => {
                let loss = one.loss.as_deref().unwrap_or("data").replace("NVMe ", "");
                format!(", {verb} {loss}")
            }
            (losing, _) => format!(", {verb} data of {}", losing.len()),
        }
    }

    fn describe_cost(&self) -> String {
        let costs = self.notifications.iter().map(|one| &one.headline.cost);
        let cost = HeadlineCost::describe(costs, |rate| format_hourly_rate_shortly(*rate));
        cost.map(|cost| format!(", {cost}")).unwrap_or_default()
    }
}

/// The beginning of a text, with two dots if there is more.
fn shorten(text: &str, characters_max: usize) -> String {
    shortened(text, characters_max).replace('…', "..")
}

fn to_ascii(text: &str) -> String {
    text.replace('…', "..").chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

/// The beginning of a text of ASCII, cut between two statements or words, and so in no number.
fn cut(text: &str) -> String {
    let room = &text[..text.len().min(SUBJECT_MAX - 2)];
    let end = room.rfind(", ").or_else(|| room.rfind(' ')).unwrap_or(room.len());
    format!("{}..", room[..end].trim_end_matches([',', ':', ' ']))
}
