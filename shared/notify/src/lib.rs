//! The notifications of a run: one paragraph for each resource, only for what changed.
//!
//! A notification is an **event** (something was done; if SNS does not accept it, a later run sends it), a **state** (it is sent once, or
//! once a day while it lasts, and remembered by its key), or an **announcement** (its mark is written only after SNS has accepted the
//! message). A start is an event that is also remembered like a state.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod chat;
mod data_loss;
mod delivery;
mod event;
mod first_line;
mod headline;
mod lead;
mod local_disk;
mod message;
mod paragraph;
mod remember;
mod reply;
mod subject;
mod undo;

use std::collections::BTreeSet;

use billing::budget::{BudgetLimit, budget_fingerprint};
use jiff::Timestamp;
use model::config::OverBudget;
use model::fault::Bug;
use model::id::Region;
use model::mode::Mode;
use model::notification_log::{
    Headline, HeadlineObject, NO_TEAM, Notification, NotificationFacts, NotificationKey, NotificationKind,
    NotificationLogs, Paragraph, RepeatPolicy, Severity, is_known, would_fingerprint,
};
use model::observation::{Gap, GapKind};
use model::rule::Rule;
use plan::report::{OutcomeKind, Report, StepOutcome};
use plan::{
    Action, Announcement, BudgetAction, Facts, InstanceAction, NotifyOnlyReason, OwnerFinding, SageMakerAction,
    SkipReason, Skipped, SnapshotAction, Step, Target, VolumeAction,
};

pub use chat::to_chat;
pub use delivery::{AcceptedNotifications, Answers, Delivery, Recipients};
pub use event::{DETAIL_TYPE, Event, SOURCE, digest_event, events};
pub use local_disk::local_disk_notification;
pub use message::{Message, OwnerMail, messages, owner_mails};
pub use remember::{log_due_actions, update_log};
pub use reply::{ReplyUrls, reply_links, with_links};
pub use subject::fit_subject;

/// The notifications that earlier runs have not sent. Call this before marks are written, and write only those whose message SNS has
/// accepted.
#[must_use]
pub fn notifications(report: &Report, memory: &NotificationLogs, home: &Region, now: Timestamp) -> Vec<Notification> {
    // No later run repeats by itself what a person chose.
    let retry = |step: &Step, outcome: &StepOutcome| match outcome.refusal {
        _ if report.has_only_chosen_resources => "",
        Some(_) if step.refusable().is_some() => " Curfew tries again once a day.",
        _ => " The next run tries again.",
    };
    let from_step = |(step, outcome): &(Step, StepOutcome)| {
        let notify = || step_notification(step, outcome, retry(step, outcome), now);
        Bug::catch(notify).unwrap_or_else(|bug| Some(bug_notification(&step.target, &bug, home)))
    };
    let from_steps = report.steps.iter().filter_map(from_step);
    let from_findings =
        report.steps.iter().filter_map(|(step, _)| Some(finding_notification(&step.target, step.finding.as_ref()?)));
    let from_skipped = report.skipped.iter().filter_map(|skipped| {
        let notify = || skip_notification(skipped);
        Bug::catch(notify).unwrap_or_else(|bug| Some(bug_notification(&skipped.target, &bug, home)))
    });
    // A person who chose the resources sees the gaps, which may come from their own permissions.
    let from_gaps =
        report.gaps.iter().filter(|_| !report.has_only_chosen_resources).map(|gap| gap_notification(gap, home));
    from_steps
        .chain(from_findings)
        .chain(from_skipped)
        .chain(from_gaps)
        .filter(|one| !is_known(one, memory, now))
        .collect()
}

/// The notifications that came up after this run's messages were sent: a later run sends them.
#[must_use]
pub fn late_notifications(
    report: &Report,
    sent: &[Notification],
    memory: &NotificationLogs,
    home: &Region,
    now: Timestamp,
) -> Vec<Notification> {
    let sent: BTreeSet<_> = sent.iter().map(Notification::key).collect();
    let all = notifications(report, memory, home, now).into_iter();
    all.filter(|one| one.kind != NotificationKind::Announcement && !sent.contains(&one.key())).collect()
}

fn step_notification(step: &Step, step_outcome: &StepOutcome, retry: &str, now: Timestamp) -> Option<Notification> {
    let (outcome, error) = (step_outcome.kind, step_outcome.error.as_deref());
    // Its readers are unknown, which a gap says.
    let is_unannounced = matches!(step.action.announcement(), Some(Announcement::Mark(_)));
    if is_unannounced && outcome == OutcomeKind::NotReached && error.is_some() && step.held.is_none() {
        return None;
    }
    let (severity, kind) = severity_and_kind(step, outcome, now)?;
    let loss = data_loss::data_loss(step, outcome);
    let severity = if loss.is_none() && is_routine(step, outcome) { Severity::Info } else { severity };
    Some(Notification {
        team: team_attribute(&step.target),
        severity,
        region: step.target.region.clone(),
        resource: Some(step.target.resource.clone()),
        happened: kind == NotificationKind::Event || (step.action.is_start() && outcome == OutcomeKind::Done),
        kind,
        text: paragraph::step_paragraph(step, outcome, error, retry, now),
        mode: (!is_notify_only(step)).then_some(step.mode),
        headline: headline::step_headline(step, step_outcome, loss.as_ref(), now),
        loses: loss.map(|loss| loss.text),
        facts: headline::step_facts(step, outcome),
    })
}

/// The severity of an outcome and how it is remembered; `None` if no one is notified.
fn severity_and_kind(step: &Step, outcome: OutcomeKind, now: Timestamp) -> Option<(Severity, NotificationKind)> {
    use OutcomeKind::{AlreadyGone, Done, Failed, NotReached, Observed};
    let rule = step.evidence.rule();
    let once = |topic, what| NotificationKind::State { topic, what, repeat: RepeatPolicy::Never };
    let daily = |what: &str| NotificationKind::State {
        topic: NotificationKey::undone(rule),
        what: what.to_owned(),
        repeat: RepeatPolicy::Daily,
    };
    let would_end =
        |ending| once(NotificationKey::would(rule), would_fingerprint(ending, step.deadline.unwrap_or(now)));
    let deadline = || step.deadline.map(|at| at.to_string()).unwrap_or_default();
    Some(match (step.action.announcement(), &step.action, outcome) {
        // The log forgets what was announced with this run, whatever became of the mark: the next run only tries to remove that.
        (Some(Announcement::Unmark { .. }), _, outcome) if !step.already_notified && outcome != AlreadyGone => {
            (Severity::Info, NotificationKind::Event)
        }
        // In observe mode no action was missed.
        (_, _, Failed) if step.mode == Mode::Observe => return None,
        (_, action, Failed) => (Severity::Error, daily(action.as_str())),
        (_, _, NotReached) if step.held.is_some() => (Severity::Error, daily("held")),
        (Some(Announcement::Mark(_)), _, Done | NotReached | Observed) if !step.already_notified => {
            (announcing(step), NotificationKind::Announcement)
        }
        (Some(Announcement::Notify), _, Done | Observed) => {
            let what = step.notify_only.map(NotifyOnlyReason::as_str).unwrap_or_default();
            (announcing(step), once(NotificationKey::rule(rule), what.to_owned()))
        }
        (_, Action::Budget(action), Done | Observed) => {
            return budget_notification(step, *action).filter(|_| !step.already_notified);
        }
        (_, Action::Instance(seen, InstanceAction::Start), Done) => match seen.last_start_failed() {
            Some(_) => (Severity::Error, daily("start")),
            None => (Severity::Action, once(NotificationKey::started(), deadline())),
        },
        (_, Action::SageMaker(_, SageMakerAction::Start), Done) => {
            (Severity::Action, once(NotificationKey::started(), deadline()))
        }
        (_, action, Observed) if action.is_start() => (Severity::Info, once(NotificationKey::would(rule), deadline())),
        (_, Action::Volume(_, VolumeAction::Snapshot { .. }), Done) => (Severity::Info, NotificationKind::Event),
        (_, Action::Snapshot(_, SnapshotAction::AnnounceExpiry(expiry)), Done | Observed) if !step.already_notified => {
            (announcing(step), once(NotificationKey::rule(rule), expiry.kept_until.to_string()))
        }
        (_, action, Done) if action.deletes_failed_snapshot() => (Severity::Info, NotificationKind::Event),
        (_, action, Done) if action.stops_or_deletes() => (Severity::Action, NotificationKind::Event),
        (_, action, Observed) => (Severity::Info, would_end(action.ending()?)),
        _ => return None,
    })
}

/// Each threshold of a budget notifies once a month, and again only after a change of the budget or of its `over_budget`.
fn budget_notification(step: &Step, action: BudgetAction) -> Option<(Severity, NotificationKind)> {
    let Facts::OverBudget(over) = &step.evidence.facts else { return None };
    let limit = BudgetLimit { budget: over.budget_usd, over_budget: over.over_budget, mode: step.mode };
    let severity = match over.over_budget {
        _ if step.mode == Mode::Observe => Severity::Info,
        OverBudget::Hold | OverBudget::Stop if action == BudgetAction::Hold => Severity::Action,
        _ => Severity::Warning,
    };
    let what = budget_fingerprint(&over.month, &limit, over.threshold_percent);
    let topic = NotificationKey::budget(over.threshold_percent);
    Some((severity, NotificationKind::State { topic, what, repeat: RepeatPolicy::Never }))
}

/// A budget whose `over_budget` is `notify`.
fn is_notify_only(step: &Step) -> bool {
    matches!(step.action, Action::Budget(_))
        && matches!(&step.evidence.facts, Facts::OverBudget(over) if over.over_budget == OverBudget::Notify)
}

/// The `team` attribute of notifications about a resource.
#[must_use]
pub fn team_attribute(target: &Target) -> String {
    target.team.as_ref().map_or(NO_TEAM, |team| team.as_str()).to_owned()
}

/// The data that the step would lose for good.
#[must_use]
pub fn would_lose(step: &Step) -> Option<String> {
    data_loss::data_loss(step, OutcomeKind::NotReached).map(|loss| loss.text)
}

/// A stop or start for `curfew:hours`, announced or done: its owner asked for it, and it recurs each day.
fn is_routine(step: &Step, outcome: OutcomeKind) -> bool {
    let is_of_hours = match step.action.announced_actions() {
        Some(actions) => actions.keys().all(|rule| *rule == Rule::Hours),
        None => step.evidence.rule() == Rule::Hours,
    };
    let failed_before = step.action.instance().is_some_and(|instance| instance.last_start_failed().is_some());
    is_of_hours && step.notify_only.is_none() && step.held.is_none() && outcome != OutcomeKind::Failed && !failed_before
}

fn announcing(step: &Step) -> Severity {
    match step.mode {
        Mode::Enforce => Severity::Warning,
        Mode::Observe => Severity::Info,
    }
}

fn skip_notification(skipped: &Skipped) -> Option<Notification> {
    let notification = finding_notification(&skipped.target, skipped.finding.as_ref()?);
    let severity = match skipped.reason {
        SkipReason::Bug | SkipReason::SnapshotFailed | SkipReason::Refused => Severity::Error,
        SkipReason::Unreadable => Severity::Warning,
        _ => notification.severity,
    };
    Some(Notification { severity, ..notification })
}

fn finding_notification(target: &Target, finding: &OwnerFinding) -> Notification {
    Notification {
        team: team_attribute(target),
        severity: Severity::Info,
        region: target.region.clone(),
        resource: Some(target.resource.clone()),
        kind: NotificationKind::State {
            topic: finding.kind.key(),
            what: finding.what.clone(),
            repeat: RepeatPolicy::Never,
        },
        text: Paragraph::new(&format!("{}: {}.", paragraph::name_target(target), finding.text)),
        happened: false,
        mode: None,
        loses: None,
        headline: headline::finding_headline(target, finding.kind),
        facts: headline::target_facts(target),
    }
}

/// The notification about a resource whose text could not be written because of a bug.
fn bug_notification(target: &Target, bug: &Bug, home: &Region) -> Notification {
    gap_notification(&Gap::for_bug(bug, &target.region, &target.resource), home)
}

/// The notification of a gap, remembered with the region `home`.
#[must_use]
pub fn gap_notification(gap: &Gap, home: &Region) -> Notification {
    let in_region = |subject: &str| format!("{subject} in {}", gap.region);
    let (sentence, subject) = match gap.resource_of_bug() {
        Some(resource) => ("A bug in Curfew kept it from judging {}", in_region(resource)),
        None if gap.kind == GapKind::Readers => {
            ("Curfew does not do everything, because nobody receives {}", "all of its warnings".to_owned())
        }
        None if gap.kind == GapKind::Hub => ("Curfew could not read {}", "the configuration of the hub".to_owned()),
        None if gap.kind == GapKind::Home => {
            ("Curfew may do nothing here, because of {}", "the records of the stack that acts".to_owned())
        }
        None => ("Curfew could not complete {}", in_region(&gap.call)),
    };
    Notification {
        team: NO_TEAM.to_owned(),
        severity: Severity::Error,
        region: home.clone(),
        resource: None,
        kind: NotificationKind::State {
            topic: NotificationKey::gap(gap),
            what: gap.kind.as_str().to_owned(),
            repeat: if gap.kind == GapKind::ForbiddenRegion { RepeatPolicy::Never } else { RepeatPolicy::Daily },
        },
        text: Paragraph::new(&format!("{}, {}: {}", gap.region, gap.call, gap.in_run())),
        happened: false,
        mode: None,
        loses: None,
        headline: Headline::new(sentence, HeadlineObject::Call, subject),
        facts: NotificationFacts::default(),
    }
}

/// Fault of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFault {
    /// The document is wrong.
    Refused,
    /// The document could not be read.
    Unreachable,
}

/// The daily notification that another stack has taken over, with the reason as [`model::home::Standing`] says it.
#[must_use]
pub fn replaced_notification(
    home: &Region,
    reason: &str,
    memory: &NotificationLogs,
    now: Timestamp,
) -> Option<Notification> {
    let notification = Notification {
        team: NO_TEAM.to_owned(),
        severity: Severity::Error,
        region: home.clone(),
        resource: None,
        kind: NotificationKind::State {
            topic: NotificationKey::named("home"),
            what: reason.to_owned(),
            repeat: RepeatPolicy::Daily,
        },
        text: Paragraph::new(&format!(
            "Curfew changes nothing in {home}: {reason}. If all is well there, delete this stack; its bucket stays."
        )),
        happened: false,
        mode: None,
        loses: None,
        headline: Headline::new("Curfew was replaced by {}", HeadlineObject::Call, "another stack"),
        facts: NotificationFacts::default(),
    };
    (!is_known(&notification, memory, now)).then_some(notification)
}

/// The daily notification that the configuration is invalid or could not be read.
#[must_use]
pub fn config_fault_notification(
    home: &Region,
    fault: ConfigFault,
    error: &str,
    memory: &NotificationLogs,
    now: Timestamp,
) -> Option<Notification> {
    let (until, because) = match fault {
        ConfigFault::Refused => ("is corrected", "Curfew changes nothing, because it refused {}"),
        ConfigFault::Unreachable => ("can be read", "Curfew changes nothing, because it could not read {}"),
    };
    let notification = Notification {
        team: NO_TEAM.to_owned(),
        severity: Severity::Error,
        region: home.clone(),
        resource: None,
        kind: NotificationKind::State {
            topic: NotificationKey::named("configuration"),
            what: error.to_owned(),
            repeat: RepeatPolicy::Daily,
        },
        text: Paragraph::new(&format!("Curfew changes nothing until the configuration {until}: {error}")),
        happened: false,
        mode: None,
        loses: None,
        headline: Headline::new(because, HeadlineObject::Configuration, "the configuration"),
        facts: NotificationFacts::default(),
    };
    (!is_known(&notification, memory, now)).then_some(notification)
}

#[cfg(test)]
mod tests;
