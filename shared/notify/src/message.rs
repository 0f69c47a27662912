//! One message a team and run; more only where one could not hold all of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::fault::breaks_line;
use model::mode::Mode;
use model::notification_log::{NO_TEAM, Notification, NotificationLogs, Severity};
use plan::report::Report;

/// Of one message. SNS takes 256 KB with everything around it (SNS developer guide, "Quotas").
const PARAGRAPHS_BYTES_MAX: usize = 192 * 1024;
/// The most losses of the first line.
const LOSSES_MAX: usize = 50;
/// SNS API reference, "Publish": fewer than 100 characters, ASCII.
const SUBJECT_MAX: usize = 99;

/// What SNS is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The `team` attribute.
    pub team: String,
    /// The `function` attribute.
    pub function: &'static str,
    /// The `severity` attribute.
    pub severity: &'static str,
    /// ASCII, less than 100 characters.
    pub subject: String,
    /// Plain text; what would be lost stands in its first line.
    pub body: String,
}

/// The messages for a run's news and for what earlier runs still owe, in order of teams: one a team, and more only where
/// one could not hold all of it. Nothing is left out, for what is announced is carried out.
#[must_use]
pub fn messages(report: &Report, news: &[Notification], memory: &NotificationLogs) -> Vec<Message> {
    let mut by_team: BTreeMap<&str, Vec<MessageParagraph<'_>>> = BTreeMap::new();
    for owed in memory.values().flat_map(|notices| &notices.owed) {
        by_team.entry(&owed.team).or_default().push(MessageParagraph {
            text: one_paragraph(&owed.text),
            severity: owed.severity,
            news: None,
        });
    }
    for one in news {
        by_team.entry(&one.team).or_default().push(MessageParagraph {
            text: one_paragraph(&one.text),
            severity: one.severity,
            news: Some(one),
        });
    }
    let of_team = |(team, matters): (&str, Vec<MessageParagraph<'_>>)| -> Vec<Message> {
        parts(matters).iter().map(|part| message(report, team, part)).collect()
    };
    by_team.into_iter().flat_map(of_team).collect()
}

/// One paragraph, of this run or owed by an earlier one.
struct MessageParagraph<'a> {
    text: String,
    severity: Severity,
    news: Option<&'a Notification>,
}

/// A line, whatever is in a name, so that nobody's tag makes a paragraph of its own; and one that a message has room for: SNS
/// would refuse it in every run, and with it all that its team should hear.
fn one_paragraph(text: &str) -> String {
    let end = text.floor_char_boundary(PARAGRAPHS_BYTES_MAX);
    let cut = if end < text.len() { "…" } else { "" };
    text[..end].chars().map(|c| if breaks_line(c) { ' ' } else { c }).chain(cut.chars()).collect()
}

fn parts(matters: Vec<MessageParagraph<'_>>) -> Vec<Vec<MessageParagraph<'_>>> {
    let mut parts: Vec<Vec<MessageParagraph<'_>>> = Vec::new();
    let mut room = 0;
    for matter in matters {
        let bytes = matter.text.len() + "\n\n".len();
        match parts.last_mut() {
            Some(part) if bytes <= room => {
                room -= bytes;
                part.push(matter);
            }
            _ => {
                room = PARAGRAPHS_BYTES_MAX.saturating_sub(bytes);
                parts.push(vec![matter]);
            }
        }
    }
    parts
}

fn message(report: &Report, team: &str, matters: &[MessageParagraph<'_>]) -> Message {
    let severity = matters.iter().map(|matter| matter.severity).max().unwrap_or(Severity::Info);
    let news: Vec<&Notification> = matters.iter().filter_map(|matter| matter.news).collect();
    let count = matters.len();
    let noun = if count == 1 { "matter" } else { "matters" };
    let whose = named(team, matters);
    let mut body = match first_line(&news) {
        Some(lost) => one_paragraph(&lost),
        None => one_paragraph(&format!("Curfew: {count} {noun} for {whose}.")),
    };
    if let Some(disclaimer) = disclaimer(report.mode, &news) {
        let _ = write!(body, "\n{disclaimer}");
    }
    for matter in matters {
        let _ = write!(body, "\n\n{}", matter.text);
    }
    let _ = write!(
        body,
        "\n\nRun {} of {} at {}; its audit record is {}.",
        report.run,
        report.function,
        report.at,
        plan::report::AuditRecord::key(report)
    );
    Message {
        team: team.to_owned(),
        function: report.function,
        severity: severity.as_str(),
        subject: subject(&whose, severity, count, noun),
        body,
    }
}

/// What is lost, and what would be.
fn first_line(news: &[&Notification]) -> Option<String> {
    let of = |mode| -> Vec<&str> {
        news.iter().filter(|one| one.mode == Some(mode)).filter_map(|one| one.loses.as_deref()).collect()
    };
    let (lost, would_be) = (listed(&of(Mode::Enforce)), listed(&of(Mode::Observe)));
    match (lost.as_str(), would_be.as_str()) {
        ("", "") => None,
        (lost, "") => Some(format!("Lost by what Curfew ends: {lost}.")),
        ("", would_be) => Some(format!("Would be lost: {would_be}.")),
        (lost, would_be) => {
            Some(format!("Lost by what Curfew ends: {lost}. Would be lost, if it were not observe mode: {would_be}."))
        }
    }
}

fn listed(losses: &[&str]) -> String {
    let (named, others) = losses.split_at(losses.len().min(LOSSES_MAX));
    let others = if others.is_empty() { String::new() } else { format!(", and that of {} more", others.len()) };
    format!("{}{others}", named.join(", "))
}

/// In observe mode a message says that it is only saying.
fn disclaimer(ceiling: Mode, news: &[&Notification]) -> Option<&'static str> {
    let any = |mode| news.iter().any(|one| one.mode == Some(mode));
    match (any(Mode::Enforce), any(Mode::Observe)) {
        (true, true) => {
            Some("Where it says \"would\", the resource is in observe mode: Curfew only says this, and does nothing.")
        }
        (false, true) => Some("Observe mode: Curfew only says this, and does nothing."),
        (false, false) if ceiling == Mode::Observe && !news.iter().all(|one| one.is_all_done()) => {
            Some("Observe mode: Curfew only says this, and does nothing.")
        }
        _ => None,
    }
}

/// For whom: what concerns the account goes with what belongs to no team. What is owed from before is of resources.
fn named(team: &str, matters: &[MessageParagraph<'_>]) -> String {
    let is_of_account = |matter: &MessageParagraph<'_>| matter.news.is_some_and(Notification::is_of_account);
    if team != NO_TEAM {
        return format!("team {team}");
    }
    match (matters.iter().any(is_of_account), matters.iter().all(is_of_account)) {
        (_, true) => "the account".to_owned(),
        (true, false) => "the account and resources without a team".to_owned(),
        (false, false) => "resources without a team".to_owned(),
    }
}

fn subject(whose: &str, severity: Severity, count: usize, noun: &str) -> String {
    let subject = format!("Curfew ({}): {count} {noun} for {whose}", severity.as_str());
    subject.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(SUBJECT_MAX).collect()
}
