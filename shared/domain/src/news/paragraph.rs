//! The words: one paragraph that names the resource by its id, says what, whose, how much, until when and how to stop it.

use std::fmt::Write as _;

use super::undo;
use jiff::{SignedDuration, Timestamp};

use crate::duration;
use crate::mode::Mode;
use crate::plan::{Action, Because, Seen, Step, Target};
use crate::price;
use crate::report::OutcomeKind;
use crate::rule::{Ending, Rule};

/// `i-0abc (g5.xlarge "bench", owner ada, us-east-1)`.
pub(super) fn named(target: &Target) -> String {
    let name = target.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let owner = target.owner.as_ref().map_or("no owner".to_owned(), |owner| format!("owner {owner}"));
    format!("{} ({}{name}, {owner}, {})", target.resource, target.what, target.region)
}

/// `again`: whether what failed is tried again by the next run.
pub(super) fn of_step(step: &Step, outcome: OutcomeKind, error: Option<&str>, again: bool, now: Timestamp) -> String {
    if let (Seen::Budget { .. }, Because::OverBudget(over)) = (&step.seen, &step.because) {
        return over.told.clone();
    }
    let named = named(&step.target);
    let why = match (&step.action, &step.because) {
        (Action::Start, Because::Hours { hours, at }) => format!("within its hours ({hours}) since {at}"),
        (_, because) => why(because, now),
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
            format!("{named}: what was announced{at} ({}) is called off.", step.because.rule())
        }
        (Action::Notify, _) => {
            let leaves =
                step.only_told.map(|why| format!(" Curfew leaves it alone: {}.", why.explained())).unwrap_or_default();
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
        (Action::Date { .. }, _) => format!("{named}: its volume is gone.{}", undo::of_what_is_gone(step)),
        (Action::Snapshot { .. }, _) => {
            format!("{named}: {why}; {cost}. A snapshot of it was begun; once that is complete, the volume is deleted.")
        }
        (action, _) => {
            format!("{named}: {why}. It was {}; {}.{}", past(action), saved(step), undo::of_deletion(step))
        }
    }
}

/// What it costs, or, where it is to end, what ending it saves. Volumes are billed by the month.
fn cost(step: &Step) -> String {
    match step.seen {
        Seen::Instance(_) | Seen::Budget { .. } => price::show(step.saves),
        Seen::Volume(_) | Seen::Snapshot(_) => price::show_monthly(step.saves),
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
        of(step.because.rule()),
        step.deadline.unwrap_or(now)
    );
    for (because, deadline) in &step.besides {
        let _ =
            write!(text, "; {}, for which it {would} be {} at {deadline}", self::why(because, now), of(because.rule()));
    }
    text += ". ";
    text += &mend(&step.because);
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
fn mend(because: &Because) -> String {
    match because {
        Because::Untagged { missing, disowned_by } => {
            let set = (!missing.is_empty()).then(|| format!("Set the tags {}.", missing.join(", ")));
            let remove = disowned_by.as_ref().map(|_| "Remove curfew:job and curfew:attempt.".to_owned());
            set.into_iter().chain(remove).collect::<Vec<_>>().join(" ")
        }
        Because::Idle(_) => "Use it, or stop it yourself.".to_owned(),
        Because::Hours { .. } => "Change curfew:hours if it should run on.".to_owned(),
        Because::Lifetime { .. } => "Set curfew:expires-at to say how long it may run.".to_owned(),
        Because::OverBudget(_) => "Ask for a larger budget, or stop it yourself.".to_owned(),
        Because::Orphaned(_) => "Attach it, or delete it yourself.".to_owned(),
        Because::Expired { .. } | Because::Outlived { .. } | Because::Mended(_) => String::new(),
    }
}

/// The evidence in words.
pub(crate) fn why(because: &Because, now: Timestamp) -> String {
    match because {
        Because::Expired { expires_at } => {
            format!("its curfew:expires-at, {expires_at}, has passed")
        }
        Because::OverBudget(over) => format!(
            "its {} has spent {} of its budget of {} for {}, as of {}",
            over.of, over.spent_usd, over.budget_usd, over.month, over.as_of
        ),
        Because::Untagged { missing, disowned_by } => {
            let lacks = (!missing.is_empty()).then(|| format!("it lacks the required tags {}", missing.join(", ")));
            let names = disowned_by.as_ref().map(|job| format!("it names the job {job}, which does not know it"));
            lacks.into_iter().chain(names).collect::<Vec<_>>().join(", and ")
        }
        Because::Idle(quiet) => {
            let held =
                quiet.gpu_memory_held_mib.map(|mib| format!(", {mib:.0} MiB of GPU memory held")).unwrap_or_default();
            format!(
                "idle from {} to {}: {} GPU(s) at {:.0} % at most, CPU {:.2} vCPUs, network {:.2} Mbit/s{held}",
                quiet.from, quiet.to, quiet.devices, quiet.gpu_max_percent, quiet.cpu_max_vcpus, quiet.network_max_mbps
            )
        }
        Because::Hours { hours, at } if *at > now => format!("its hours ({hours}) end at {at}"),
        Because::Hours { hours, at } => format!("outside its hours ({hours}) since {at}"),
        Because::Lifetime { launched_at, max } => {
            format!("it has run since {launched_at}, longer than {}", duration::show(*max))
        }
        Because::Orphaned(orphaned) => {
            let on = orphaned.last_attached_to.as_ref();
            let on = on.map(|instance| format!(", last seen on {instance}")).unwrap_or_default();
            format!("attached to nothing, and not used, since {}{on}", orphaned.unattached_since)
        }
        Because::Outlived { volume, deleted_at, expires_at } => {
            format!("the safety snapshot of {volume}, which was deleted at {deleted_at}, was kept until {expires_at}")
        }
        Because::Mended(mended) => format!("{} was announced", mended.rule),
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
        Seen::Instance(instance) => {
            let terminates = announces(Ending::Terminate) || matches!(step.action, Action::Terminate { .. });
            let ends = terminates || announces(Ending::Stop) || matches!(step.action, Action::Stop { .. });
            let scratch_gb = instance.machine.instance_storage_gb;
            if ends && scratch_gb > 0 {
                return Some(format!("the NVMe scratch of {resource} ({scratch_gb} GB)"));
            }
            terminates.then(|| format!("{resource} with its root volume"))
        }
        Seen::Volume(volume) => {
            let for_good = announces(Ending::Delete) || matches!(step.action, Action::Delete { safety: None, .. });
            for_good
                .then(|| format!("{resource} with its data ({} GiB), of which no snapshot is kept", volume.size_gib))
        }
        Seen::Budget { .. } => None,
        Seen::Snapshot(snapshot) => matches!(step.action, Action::Delete { .. })
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
