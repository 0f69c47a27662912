//! The words: one paragraph that names the resource by its id, says what, whose, how much, until when and how to stop it.

use std::fmt::Write as _;

use billing::price;
use jiff::{SignedDuration, Timestamp};
use model::mark::Mark;
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};
use plan::report::OutcomeKind;
use plan::{Action, Announcement, Evidence, InstanceAction, SnapshotAction, Step, Target, VolumeAction};

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
    if let (Action::Budget(_), Evidence::OverBudget(over)) = (&step.action, &step.evidence) {
        return over.text.clone();
    }
    let named = name_target(&step.target);
    let why = match (&step.action, &step.evidence) {
        (Action::Instance(_, InstanceAction::Start), Evidence::Hours { hours, at }) => {
            format!("within its hours ({hours}) since {at}")
        }
        (_, evidence) => evidence.explained(now),
    };
    let cost = cost(step);
    match (step.action.announcement(), &step.action, outcome) {
        (_, action, OutcomeKind::Failed) => format!(
            "{named}: {why}. Curfew could not {} it{}: {}.",
            action.as_str(),
            if again { ", and tries again" } else { "" },
            error.unwrap_or("no reason was given")
        ),
        (_, _, OutcomeKind::NotReached) if step.held.is_some() => {
            format!("{named}: {why}; {cost}. Not ended: {}.", error.unwrap_or_default())
        }
        (Some(Announcement::Mark(mark)), ..) => mark_paragraph(step, mark, &named, &why, &cost, now),
        (Some(Announcement::Unmark { .. }), ..) => {
            let at = step.deadline.map(|at| format!(" for {at}")).unwrap_or_default();
            format!("{named}: what was announced{at} ({}) is called off.", step.evidence.rule())
        }
        (Some(Announcement::Notify), ..) => {
            let leaves =
                step.notify_only.map(|why| format!(" Curfew leaves it alone: {}.", why.explain())).unwrap_or_default();
            format!("{named}: {why}; {cost}.{leaves}")
        }
        (_, Action::Instance(_, InstanceAction::Start), OutcomeKind::Observed) => {
            format!("{named}: {why}. It would be started now.")
        }
        (_, Action::Instance(seen, InstanceAction::Start), _) => match seen.last_start_failed() {
            Some(code) => format!("{named}: {why}. It was started again, but the last start failed with {code}."),
            None => format!("{named}: {why}. It was started."),
        },
        (_, action, OutcomeKind::Observed) => {
            format!("{named}: {why}; {cost}. It would be {} now.", past_tense(action))
        }
        (_, Action::Instance(_, InstanceAction::Stop { .. }), _) => {
            format!(
                "{named}: {why}. It was stopped; {}. Undo: aws ec2 start-instances --region {} --instance-ids {}",
                saved(step),
                step.target.region,
                step.target.resource
            )
        }
        (_, Action::Snapshot(seen, SnapshotAction::TagDeletedAt(_)), _) => {
            format!("{named}: its volume is gone.{}", undo::undo_gone_sentence(seen, &step.evidence))
        }
        (_, Action::Volume(_, VolumeAction::Snapshot { .. }), _) => {
            format!("{named}: {why}; {cost}. A snapshot of it was begun; once that is complete, the volume is deleted.")
        }
        (_, action, _) => {
            format!(
                "{named}: {why}. It was {}; {}.{}",
                past_tense(action),
                saved(step),
                undo::undo_deletion_sentence(step)
            )
        }
    }
}

/// What it costs, or, where it is to end, what ending it saves. Volumes are billed by the month.
fn cost(step: &Step) -> String {
    match step.action {
        Action::Instance(..) | Action::Budget(_) => price::format_quote(step.saves),
        Action::Volume(..) | Action::Snapshot(..) => price::format_monthly_quote(step.saves),
    }
}

fn saved(step: &Step) -> String {
    step.saves.map_or("what that saves is not known".to_owned(), |_| format!("that saves {}", cost(step)))
}

fn mark_paragraph(step: &Step, mark: &Mark, named: &str, why: &str, cost: &str, now: Timestamp) -> String {
    let would = if step.mode == Mode::Observe { "would" } else { "will" };
    let of = |rule: Rule| mark.entries.get(&rule).map_or("ended", |announced| announced.ending.past_tense());
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
    let mark = step.action.announced_mark();
    let announces = |ending| mark.is_some_and(|mark| mark.entries.values().any(|said| said.ending == ending));
    let is_to = |ending| step.action.ending() == Some(ending) || announces(ending);
    match &step.action {
        Action::Instance(instance, _) => {
            let terminates = is_to(ResourceAction::Terminate);
            let ends = terminates || is_to(ResourceAction::Stop);
            let scratch_gb = instance.machine.instance_storage_gb;
            if ends && scratch_gb > 0 {
                return Some(format!("the NVMe scratch of {resource} ({scratch_gb} GB)"));
            }
            terminates.then(|| format!("{resource} with its root volume"))
        }
        Action::Volume(volume, _) => is_to(ResourceAction::Delete)
            .then(|| format!("{resource} with its data ({} GiB), of which no snapshot is kept", volume.size_gib)),
        Action::Snapshot(snapshot, SnapshotAction::Delete) => {
            Some(format!("{resource}, from which {} could be restored", snapshot.of_volume))
        }
        Action::Snapshot(..) | Action::Budget(_) => None,
    }
}

fn past_tense(action: &Action) -> &'static str {
    match action {
        // Its snapshot was begun by an earlier run.
        Action::Volume(_, VolumeAction::Delete { .. }) => ResourceAction::Delete.past_tense(),
        _ => action.ending().map_or("ended", ResourceAction::past_tense),
    }
}
