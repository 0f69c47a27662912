//! One message a team and run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{NO_TEAM, News, Severity};
use crate::mode::Mode;
use crate::policy::instances::Memory;
use crate::report::Report;

/// SNS takes 256 KB (SNS developer guide, "Quotas"); e-mail readers take less.
const BYTES_MAX: usize = 64 * 1024;
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

/// The messages for a run's news and for what earlier runs still owe, in order of teams.
#[must_use]
pub fn messages(report: &Report, news: &[News], memory: &Memory) -> Vec<Message> {
    let mut by_team: BTreeMap<&str, (Vec<&News>, Vec<&str>)> = BTreeMap::new();
    for one in news {
        by_team.entry(&one.team).or_default().0.push(one);
    }
    for owed in memory.values().flat_map(|notices| &notices.owed) {
        by_team.entry(&owed.team).or_default().1.push(&owed.text);
    }
    by_team.into_iter().map(|(team, (news, owed))| message(report, team, &news, &owed)).collect()
}

fn message(report: &Report, team: &str, news: &[&News], owed: &[&str]) -> Message {
    let severity = news.iter().map(|one| one.severity).max().unwrap_or(Severity::Action);
    let count = news.len() + owed.len();
    let noun = if count == 1 { "matter" } else { "matters" };
    let mut body = match first_line(news) {
        Some(lost) => lost,
        None => format!("Curfew: {count} {noun} for {}.", named(team)),
    };
    if let Some(disclaimer) = disclaimer(report.mode, news) {
        let _ = write!(body, "\n{disclaimer}");
    }
    let mut left_out = 0;
    for text in owed.iter().copied().chain(news.iter().map(|one| one.text.as_str())) {
        if body.len() + text.len() > BYTES_MAX {
            left_out += 1;
        } else {
            let _ = write!(body, "\n\n{text}");
        }
    }
    if left_out > 0 {
        let _ = write!(body, "\n\n{left_out} more are in the audit record.");
    }
    let _ = write!(
        body,
        "\n\nRun {} of {} at {}; its audit record is {}.",
        report.run,
        report.function,
        report.at,
        crate::report::AuditRecord::key(report)
    );
    Message {
        team: team.to_owned(),
        function: report.function,
        severity: severity.as_str(),
        subject: subject(team, severity, count, noun),
        body,
    }
}

/// What is lost, and what would be.
fn first_line(news: &[&News]) -> Option<String> {
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
fn disclaimer(ceiling: Mode, news: &[&News]) -> Option<&'static str> {
    let any = |mode| news.iter().any(|one| one.mode == Some(mode));
    match (any(Mode::Enforce), any(Mode::Observe)) {
        (true, true) => {
            Some("Where it says \"would\", the machine is in observe mode: Curfew only says this, and does nothing.")
        }
        (false, true) => Some("Observe mode: Curfew only says this, and does nothing."),
        (false, false) if ceiling == Mode::Observe => Some("Observe mode: Curfew only says this, and does nothing."),
        _ => None,
    }
}

fn named(team: &str) -> String {
    if team == NO_TEAM { "machines without a team".to_owned() } else { format!("team {team}") }
}

fn subject(team: &str, severity: Severity, count: usize, noun: &str) -> String {
    let subject = format!("Curfew ({}): {count} {noun} for {}", severity.as_str(), named(team));
    subject.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(SUBJECT_MAX).collect()
}
