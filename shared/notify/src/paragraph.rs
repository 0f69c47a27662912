//! The text of a step: what happened or will happen to which resource, when, what it costs or saves, and the command that keeps it or
//! undoes the step.

use std::fmt::Write as _;

use billing::price;
use jiff::Timestamp;
use model::foreign_text::{describe_name, describe_owner};
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::notification_log::Paragraph;
use model::rule::{ResourceAction, Rule};
use plan::report::OutcomeKind;
use plan::{
    Action, AnnouncedActions, Announcement, Facts, InstanceAction, NotifyOnlyReason, SnapshotAction, Step, Target,
    VolumeAction,
};

use super::undo;

/// `i-0abc (g5.xlarge "bench", owner "ada", us-east-1)`.
pub(super) fn name_target(target: &Target) -> String {
    let (name, owner) = (describe_name(target.name.as_deref()), describe_owner(target.owner.as_deref()));
    format!("{} ({}{name}, {owner}, {})", target.resource, target.what, target.region)
}

/// `retry`: when a failed step is tried again, as a sentence after a blank; empty if it is not.
pub(super) fn step_paragraph(
    step: &Step,
    outcome: OutcomeKind,
    error: Option<&str>,
    retry: &str,
    now: Timestamp,
) -> Paragraph {
    let paragraph = Paragraph::new(&sentences(step, outcome, error, retry, now));
    match (step.action.announcement(), &step.action, outcome) {
        (_, Action::Budget(_), _) | (_, _, OutcomeKind::Failed) => paragraph,
        (_, _, OutcomeKind::NotReached) if step.held.is_some() => paragraph,
        (Some(Announcement::Mark(_)), ..) => {
            paragraph.with_command("Keep it", &format!("curfew keep {} 7d", step.target.resource))
        }
        (Some(Announcement::Notify), ..) => with_way_out(paragraph, step),
        (Some(_), ..) | (_, _, OutcomeKind::Observed) => paragraph,
        _ => match undo::undo_command(step) {
            Some((label, command)) => paragraph.with_command(&label, &command),
            None => paragraph,
        },
    }
}

/// Adds the command that lets Curfew act, where one is known.
fn with_way_out(paragraph: Paragraph, step: &Step) -> Paragraph {
    let Target { region, resource, .. } = &step.target;
    match (&step.action, step.notify_only) {
        (Action::Instance(instance, _), Some(NotifyOnlyReason::SavesNothing)) => match instance.release_command() {
            Some(command) => paragraph.with_command("Give up its capacity reservation", &command),
            None => paragraph,
        },
        (Action::Instance(..) | Action::Volume(..), Some(NotifyOnlyReason::TooManyTags)) => paragraph.with_command(
            "Remove a tag that nothing needs",
            &format!("aws ec2 delete-tags --region {region} --resources {resource} --tags Key=KEY"),
        ),
        _ => paragraph,
    }
}

fn sentences(step: &Step, outcome: OutcomeKind, error: Option<&str>, retry: &str, now: Timestamp) -> String {
    if let (Action::Budget(_), Facts::OverBudget(over)) = (&step.action, &step.evidence.facts) {
        return over.text.clone();
    }
    let named = name_target(&step.target);
    let why = step.evidence.explain();
    let cost = cost_sentence(step);
    match (step.action.announcement(), &step.action, outcome) {
        (Some(Announcement::Unmark { .. }), ..) if outcome != OutcomeKind::Failed || !step.already_notified => {
            let at = step.deadline.map(|at| format!(" for {at}")).unwrap_or_default();
            let unwritten = match (outcome, error) {
                (OutcomeKind::Failed, Some(error)) => {
                    format!("Curfew could not unmark it: {}; ", error.trim_end_matches('.'))
                }
                _ => String::new(),
            };
            format!("{named}: {unwritten}the action announced{at} ({}) is called off.", step.evidence.rule())
        }
        (_, action, OutcomeKind::Failed) => format!(
            "{named}: {why}. Curfew could not {} it: {}.{retry}",
            action.as_str(),
            error.unwrap_or("AWS gave no reason").trim_end_matches('.'),
        ),
        (_, action, OutcomeKind::NotReached) if step.held.is_some() => {
            format!("{named}: {why}. It was not {}: {}. {cost}", past_tense(action), error.unwrap_or_default())
        }
        (Some(Announcement::Mark(actions)), ..) => mark_paragraph(step, actions, &named, &why, &cost, now),
        (Some(Announcement::Notify), ..) => {
            let reason = step.notify_only.map(|why| format!(" Curfew only notifies: {}.", why.explain()));
            format!("{named}: {why}. {cost}{}", reason.unwrap_or_default())
        }
        (_, action, OutcomeKind::Observed) if action.is_start() => format!("{named}: {why}. It would be started now."),
        (_, Action::Instance(seen, InstanceAction::Start), _) if let Some(code) = seen.last_start_failed() => {
            let remedy = seen.start_remedy().map(|remedy| format!(": {remedy}")).unwrap_or_default();
            format!("{named}: {why}. Its start was requested again; the last one failed with {code}{remedy}.")
        }
        (_, action, _) if action.is_start() => format!("{named}: {why}. Its start was requested."),
        (_, Action::Snapshot(_, SnapshotAction::AnnounceExpiry(expiry)), _) => {
            format!("{named}: its volume is gone. It {} be deleted at {}.", will(step), expiry.kept_until)
        }
        (_, action, OutcomeKind::Observed) => {
            format!("{named}: {why}. It would be {} now. {cost}", past_tense(action))
        }
        (_, Action::Volume(_, VolumeAction::Snapshot { .. }), _) => {
            format!(
                "{named}: {why}. Its snapshot was started; the volume is deleted once the snapshot is complete. {cost}"
            )
        }
        (_, action, _) if action.deletes_failed_snapshot() => format!("{named}: {why}. It was deleted."),
        (_, action, _) => format!(
            "{named}: {why}. It was {}. {}{}",
            past_tense(action),
            saving_sentence(step),
            undo::describe_what_stays(action)
        ),
    }
}

/// Volumes are billed by the month.
fn cost_sentence(step: &Step) -> String {
    let cost = match step.action {
        Action::Instance(..) | Action::SageMaker(..) | Action::Budget(_) => price::describe_cost(step.saves),
        Action::Volume(..) | Action::Snapshot(..) => price::describe_monthly_cost(step.saves),
    };
    format!("{cost}.")
}

fn saving_sentence(step: &Step) -> String {
    match step.action {
        Action::Volume(..) | Action::Snapshot(..) if step.saves.is_some() => {
            format!("That saves {}.", price::format_monthly_quote(step.saves))
        }
        _ => price::describe_saving(step.saves),
    }
}

fn will(step: &Step) -> &'static str {
    if step.mode == Mode::Observe { "would" } else { "will" }
}

fn mark_paragraph(
    step: &Step,
    actions: &AnnouncedActions,
    named: &str,
    why: &str,
    cost: &str,
    now: Timestamp,
) -> String {
    let would = will(step);
    let announced = |rule: Rule| actions.get(&rule).map_or("ended", |announced| announced.ending.past_tense());
    let mut text = format!(
        "{named}: {why}. It {would} be {} at {}.",
        announced(step.evidence.rule()),
        step.deadline.unwrap_or(now)
    );
    for (evidence, deadline) in &step.further_evidence {
        let why = evidence.explain();
        let action = announced(evidence.rule());
        let _ = write!(text, " Also: {why}; it {would} be {action} at {deadline}.");
    }
    let is_new = |rule: Rule| {
        rule == step.evidence.rule() || step.further_evidence.iter().any(|(evidence, _)| evidence.rule() == rule)
    };
    for (rule, AnnouncedAction { ending, deadline, .. }) in actions.iter().filter(|(rule, _)| !is_new(**rule)) {
        let _ = write!(text, " Announced before ({rule}): it {would} be {} at {deadline}.", ending.past_tense());
    }
    let remedy = &step.evidence.remedy;
    let blank = if remedy.is_empty() { "" } else { " " };
    text + &format!(" {cost}{blank}{remedy}")
}

fn past_tense(action: &Action) -> &'static str {
    match action {
        // Its snapshot was begun by an earlier run.
        Action::Volume(_, VolumeAction::Delete { .. }) => ResourceAction::Delete.past_tense(),
        _ => action.ending().map_or("ended", ResourceAction::past_tense),
    }
}
