//! The messages that people read, their time, and their repetition.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::BudgetHolder;
use insta::assert_snapshot;
use jiff::SignedDuration;
use model::channels::Audience;
use model::curfew_tags::{MARKED, STOPPED};
use model::id::ResourceId;
use model::instance::Instance;
use model::instance::InstanceState;
use model::notification_log::{NotificationEntry, NotificationLog, UndeliveredCause, UndeliveredParagraph};
use model::observation::{Gap, Observation};
use model::usage::Usage;
use plan::report::{AuditRecord, StepOutcome};
use plan::{Action, InstanceAction};
use reaping::fixture::{InstanceBuilder, NOW, busy, enforcing, idle, instance, log_of_labels, time, unknown, untagged};
use reaping::instances::decide;

use super::*;

mod budgets;
mod chat;
mod events;
mod golden;
mod lead;
mod local_disk;
mod losses;
mod once;
mod sizes;
mod words;

const ENFORCED: &str = "mode = \"enforce\"\n";
const DUE: &str = "idle=stop@2026-09-01T11:55:00Z";

fn home() -> Region {
    "us-east-1".into()
}

fn no_memory() -> NotificationLogs {
    NotificationLogs::from([(home(), NotificationLog::default())])
}

/// A run over one instance, before anything of its plan was done.
fn planned(builder: InstanceBuilder, usage: &Usage, config: &str) -> Report {
    let instance = builder.build();
    let usages = BTreeMap::from([(instance.id.clone(), usage.clone())]);
    let seen = Observation { items: vec![instance], gaps: Vec::new() };
    let policy = enforcing(config);
    let log = |one: &Instance| log_of_labels(&one.id, one.launched_at, &one.tags);
    let memory = NotificationLogs::from([(home(), log(&seen.items[0]))]);
    let plan = decide(&seen, &usages, &memory, &policy, time(NOW));
    Report::from_plan(plan, "reap-instances", "run-1".into(), time(NOW), policy.ceiling.of_deployment(), vec![home()])
}

fn with(mut report: Report, outcome: &StepOutcome) -> Report {
    report.steps.iter_mut().for_each(|(_, before)| *before = outcome.clone());
    report
}

fn done(builder: InstanceBuilder, usage: &Usage, config: &str) -> Report {
    with(planned(builder, usage, config), &StepOutcome::from_kind(OutcomeKind::Done))
}

fn observed(builder: InstanceBuilder, usage: &Usage, config: &str) -> Report {
    with(planned(builder, usage, config), &StepOutcome::from_kind(OutcomeKind::Observed))
}

fn notify(report: &Report) -> Vec<Notification> {
    notifications(report, &no_memory(), &home(), time(NOW))
}

/// The only message of a run. Its first line is short.
#[track_caller]
fn message(report: &Report) -> Message {
    let mut messages = messages(report, &notify(report), &no_memory(), &[Audience::Team], None);
    assert_eq!(messages.len(), 1, "{messages:?}");
    let message = messages.remove(0);
    let first_line = message.body.lines().next().unwrap();
    assert!(first_line.chars().count() < 160 && first_line.ends_with('.'), "{first_line}");
    message
}

/// Checks severity and text of the only message of a run.
fn check(report: &Report, severity: &str, texts: &[&str]) {
    let message = message(report);
    assert_eq!(message.severity, severity, "{}", message.body);
    for text in texts {
        assert!(message.body.contains(text), "`{text}` is not in:\n{}", message.body);
    }
}

fn first_line(report: &Report) -> String {
    message(report).body.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn every_message_names_its_run_and_its_audit_record() {
    let report = planned(instance(), &idle(), ENFORCED);
    check(&report, "warning", &["run-1", &AuditRecord::key(&report)]);
}

#[test]
fn resources_without_a_team_go_to_the_untagged_section() {
    let sent = message(&planned(untagged(), &idle(), "[untagged]\nmode = \"enforce\""));
    assert_eq!((sent.team.as_str(), sent.function), (NO_TEAM, "reap-instances"));
    let ids: Vec<ResourceId> =
        notify(&planned(untagged(), &idle(), ENFORCED)).into_iter().filter_map(|one| one.resource).collect();
    assert_eq!(ids, ["i-0abc".into()]);
}
