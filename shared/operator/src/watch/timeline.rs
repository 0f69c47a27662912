//! The upcoming events across instances, jobs and budgets, in the order of time.

use billing::budget::BudgetMonth;
use jiff::{SignedDuration, Timestamp};
use model::duration;
use model::money::Rate;
use serde::Serialize;

use super::{BudgetLine, InstanceRow, JobRow, OutlookKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    Instance,
    Job,
    Budget,
}

/// One thing that happens at a known time, if nothing changes until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpcomingEvent {
    /// Time of the event. An event whose time has passed happens in the next run.
    pub at: Timestamp,
    pub kind: EventKind,
    /// `stop`, `would stop`, `attempt ends`, …
    pub what: &'static str,
    /// An instance, a job or the holder of a budget.
    pub subject: String,
    /// Its team, or why.
    pub detail: String,
    /// Cost at stake; `None` if unknown, and for the end of a month.
    pub usd_per_hour: Option<Rate>,
}

pub(super) fn events(
    instances: &[InstanceRow],
    jobs: &[JobRow],
    budgets: &[BudgetLine],
    month: &BudgetMonth,
    now: Timestamp,
) -> Vec<UpcomingEvent> {
    let instance_events = instances.iter().filter_map(instance_event);
    let job_events = jobs.iter().flat_map(events_of_job);
    let budget_events = budgets.iter().filter_map(budget_event);
    let is_limited = budgets.iter().any(|budget| budget.budget_usd.is_some());
    let new_month = is_limited.then(|| UpcomingEvent {
        at: month.to,
        kind: EventKind::Budget,
        what: "month ends",
        subject: "all budgets".to_owned(),
        detail: "they begin anew".to_owned(),
        usd_per_hour: None,
    });
    let mut events: Vec<UpcomingEvent> = instance_events
        .chain(job_events)
        .chain(budget_events)
        .chain(new_month)
        .filter(|event| is_ahead(event, now))
        .collect();
    events.sort_by(|one, other| {
        (one.at, std::cmp::Reverse(one.usd_per_hour)).cmp(&(other.at, std::cmp::Reverse(other.usd_per_hour)))
    });
    events
}

/// An action of an instance stays due until a run carries it out; everything else has happened, or has not.
fn is_ahead(event: &UpcomingEvent, now: Timestamp) -> bool {
    event.at > now || event.kind == EventKind::Instance
}

fn instance_event(row: &InstanceRow) -> Option<UpcomingEvent> {
    let outlook = &row.outlook;
    // Its job says when.
    let is_own = outlook.kind != OutlookKind::Job;
    let team = row.team.as_ref().map_or("no team".to_owned(), |team| format!("team {team}"));
    let detail = if outlook.reason.is_empty() { team } else { format!("{}, {team}", outlook.reason) };
    Some(UpcomingEvent {
        at: outlook.at.filter(|_| is_own)?,
        kind: EventKind::Instance,
        what: outlook.kind.as_words(),
        subject: row.instance.to_string(),
        detail,
        usd_per_hour: row.usd_per_hour,
    })
}

fn events_of_job(row: &JobRow) -> impl Iterator<Item = UpcomingEvent> {
    let event = |at: Timestamp, what, detail: String| UpcomingEvent {
        at,
        kind: EventKind::Job,
        what,
        subject: row.job.to_string(),
        detail,
        usd_per_hour: Some(row.usd_per_hour),
    };
    let until = row.until.map(|at| match row.state {
        "waiting" | "held" => event(at, "tried again", row.why.clone()),
        _ => event(at, "attempt ends", "its time is over then".to_owned()),
    });
    let slack = row.slack_seconds.map(|seconds| {
        let words = duration::format_duration(SignedDuration::from_secs(seconds.saturating_abs()));
        if seconds < 0 { format!("it will be late by {words}") } else { format!("{words} to spare") }
    });
    let finish_by = row.finish_by.map(|at| event(at, "job deadline", slack.unwrap_or_default()));
    [until, finish_by].into_iter().flatten()
}

fn budget_event(line: &BudgetLine) -> Option<UpcomingEvent> {
    let rate = line.usd_per_hour?;
    Some(UpcomingEvent {
        at: line.spent_at?,
        kind: EventKind::Budget,
        what: "budget spent",
        subject: line.holder.clone(),
        detail: format!("at {rate}, as now"),
        usd_per_hour: Some(rate),
    })
}
