//! The words: one paragraph that names the resource by its id, says what, whose, how much, until when and how to stop it.

use std::fmt::Write as _;

use billing::price;
use jiff::{SignedDuration, Timestamp};
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};
use plan::report::OutcomeKind;
use plan::{Action, Evidence, ObservedResource, Step, Target};

use super::undo;

/// `i-0abc (g5.xlarge "bench", owner ada, us-east-1)`.
pub(super) fn name_target(target: &Target) -> String {
    let name = target.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let owner = target.owner.as_ref().map_or("no owner".to_owned(), |owner| format!("owner {owner}"));
    format!("{} ({}{name}, {owner}, {})", target.resource, target.what, target.region)
}

/// `again`: whether what failed is tried again by the next run.
pub(super) fn step_paragraph(
    step: &Step,
    outcome: OutcomeKind,
    error: Option<&str>,
    again: bool,
    now: Timestamp,
) -> String {
    if let (ObservedResource::Budget { .. }, Evidence::OverBudget(over)) = (&step.seen, &step.evidence) {
        return over.text.clone();
    }
    let named = name_target(&step.target);
    let why = match (&step.action, &step.evidence) {
        (Action::Start, Evidence::Hours { hours, at }) => format!("within its hours ({hours}) since {at}"),
        (_, evidence) => evidence.explained(now),
    };
    let cost = cost(step);
    match (&step.action, outcome) {
        (action, OutcomeKind::Failed) => format!(
            "{named}: {why}. Curfew could not {} it{}: {}.",
            action.as_str(),
            if again { ", and tries again" } else { "" },
            error.unwrap_or("no reason was given")
        ),
        (_, OutcomeKind::NotReached) if step.held.is_some() => {
            format!("{named}: {why}; {cost}. Not ended: {}.", error.unwrap_or_default())
        }
        (Action::Mark(_), _) => announcement(step, &named, &why, &cost, now),
        (Action::Unmark { .. }, _) => {
            let at = step.deadline.map(|at| format!(" for {at}")).unwrap_or_default();
            format!("{named}: what was announced{at} ({}) is called off.", step.evidence.rule())
        }
        (Action::Notify, _) => {
            let leaves =
                step.notify_only.map(|why| format!(" Curfew leaves it alone: {}.", why.explain())).unwrap_or_default();
            format!("{named}: {why}; {cost}.{leaves}")
        }
        (Action::Start, OutcomeKind::Observed) => {
            format!("{named}: {why}. It would be started now.")
        }
        (Action::Start, _) => match super::last_start_failed(step) {
            Some(code) => format!("{named}: {why}. It was started again, but the last start failed with {code}."),
            None => format!("{named}: {why}. It was started."),
        },
        (action, OutcomeKind::Observed) => {
            format!("{named}: {why}; {cost}. It would be {} now.", past(action))
        }
        (action @ Action::Stop { .. }, _) => {
            format!(
                "{named}: {why}. It was {}; {}. Undo: aws ec2 start-instances --region {} --instance-ids {}",
                past(action),
                saved(step),
                step.target.region,
                step.target.resource
            )
        }
        (Action::Date { .. }, _) => format!("{named}: its volume is gone.{}", undo::undo_gone_sentence(step)),
        (Action::Snapshot { .. }, _) => {
            format!("{named}: {why}; {cost}. A snapshot of it was begun; once that is complete, the volume is deleted.")
        }
        (action, _) => {
            format!("{named}: {why}. It was {}; {}.{}", past(action), saved(step), undo::undo_deletion_sentence(step))
        }
    }
}

/// What it costs, or, where it is to end, what ending it saves. Volumes are billed by the month.
fn cost(step: &Step) -> String {
    match step.seen {
        ObservedResource::Instance(_) | ObservedResource::Budget { .. } => price::format_quote(step.saves),
        ObservedResource::Volume(_) | ObservedResource::Snapshot(_) => price::format_monthly_quote(step.saves),
    }
}

fn saved(step: &Step) -> String {
    step.saves.map_or("what that saves is not known".to_owned(), |_| format!("that saves {}", cost(step)))
}

fn announcement(step: &Step, named: &str, why: &str, cost: &str, now: Timestamp) -> String {
    let Action::Mark(mark) = &step.action else {
        return String::new();
    };
    let would = if step.mode == Mode::Observe { "would" } else { "will" };
    let of = |rule: Rule| mark.entries.get(&rule).map_or("ended", |announced| past_of(announced.ending.as_str()));
    let mut text = format!(
        "{named}: {why}; {cost}. It {would} be {} at {}",
        of(step.evidence.rule()),
        step.deadline.unwrap_or(now)
    );
    for (evidence, deadline) in &step.further_evidence {
        let _ = write!(
            text,
            "; {}, for which it {would} be {} at {deadline}",
            evidence.explained(now),
            of(evidence.rule())
        );
    }
    text += ". ";
    text += &remedy(&step.evidence);
    let _ = write!(
        text,
        " To keep it: aws ec2 create-tags --region {} --resources {} --tags Key=curfew:keep-until,Value={} (for ever: Key=curfew:protected,Value=yes).",
        step.target.region,
        step.target.resource,
        (now + SignedDuration::from_hours(7 * 24)).strftime("%Y-%m-%d"),
    );
    text
}

/// What makes the reason go away.
fn remedy(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Untagged { missing, disowned_by } => {
            let set = (!missing.is_empty()).then(|| format!("Set the tags {}.", missing.join(", ")));
            let remove = disowned_by.as_ref().map(|_| "Remove curfew:job and curfew:attempt.".to_owned());
            set.into_iter().chain(remove).collect::<Vec<_>>().join(" ")
        }
        Evidence::Idle(_) => "Use it, or stop it yourself.".to_owned(),
        Evidence::Hours { .. } => "Change curfew:hours if it should run on.".to_owned(),
        Evidence::Lifetime { .. } => "Set curfew:expires-at to say how long it may run.".to_owned(),
        Evidence::OverBudget(_) => "Ask for a larger budget, or stop it yourself.".to_owned(),
        Evidence::Orphaned(_) => "Attach it, or delete it yourself.".to_owned(),
        Evidence::Expired { .. } | Evidence::SnapshotExpired { .. } | Evidence::Resolved(_) | Evidence::Repeated(_) => {
            String::new()
        }
    }
}

/// What is lost by what was done or will be, for the message's first line.
pub(super) fn loses(step: &Step, outcome: OutcomeKind) -> Option<String> {
    if outcome == OutcomeKind::Failed || step.held.is_some() {
        return None;
    }
    let resource = &step.target.resource;
    let announces =
        |ending| matches!(&step.action, Action::Mark(mark) if mark.entries.values().any(|said| said.ending == ending));
    match &step.seen {
        ObservedResource::Instance(instance) => {
            let terminates = announces(ResourceAction::Terminate) || matches!(step.action, Action::Terminate { .. });
            let ends = terminates || announces(ResourceAction::Stop) || matches!(step.action, Action::Stop { .. });
            let scratch_gb = instance.machine.instance_storage_gb;
            if ends && scratch_gb > 0 {
                return Some(format!("the NVMe scratch of {resource} ({scratch_gb} GB)"));
            }
            terminates.then(|| format!("{resource} with its root volume"))
        }
        ObservedResource::Volume(volume) => {
            let for_good =
                announces(ResourceAction::Delete) || matches!(step.action, Action::Delete { safety: None, .. });
            for_good
                .then(|| format!("{resource} with its data ({} GiB), of which no snapshot is kept", volume.size_gib))
        }
        ObservedResource::Budget { .. } => None,
        ObservedResource::Snapshot(snapshot) => matches!(step.action, Action::Delete { .. })
            .then(|| format!("{resource}, from which {} could be restored", snapshot.of_volume)),
    }
}

fn past(action: &Action) -> &'static str {
    past_of(action.as_str())
}

fn past_of(action: &str) -> &'static str {
    match action {
        "stop" => "stopped",
        "terminate" => "terminated",
        "start" => "started",
        "snapshot" | "snapshot-and-delete" => "snapshotted and deleted",
        "delete" => "deleted",
        _ => "ended",
    }
}
