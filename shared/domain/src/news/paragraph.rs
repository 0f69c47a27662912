//! The words: one paragraph that names the resource by its id, says what, whose, how much, until when and how to stop it.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use crate::duration;
use crate::mode::Mode;
use crate::money::{self, Rate};
use crate::plan::{Action, Because, Step, Target};
use crate::report::OutcomeKind;
use crate::rule::Rule;

/// `i-0abc (g5.xlarge "bench", owner ada, us-east-1)`.
pub(super) fn named(target: &Target) -> String {
    let name = target.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let owner = target.owner.as_ref().map_or("no owner".to_owned(), |owner| format!("owner {owner}"));
    format!("{} ({}{name}, {owner}, {})", target.resource, target.instance_type, target.region)
}

pub(super) fn of_step(step: &Step, outcome: OutcomeKind, error: Option<&str>, now: Timestamp) -> String {
    let named = named(&step.target);
    let why = match (&step.action, &step.because) {
        (Action::Start, Because::Hours { hours, at }) => format!("within its hours ({hours}) since {at}"),
        (_, because) => why(because, now),
    };
    let cost = money::show(step.saves);
    match (&step.action, outcome) {
        (action, OutcomeKind::Failed) => format!(
            "{named}: {why}. Curfew could not {} it, and tries again: {}.",
            action.as_str(),
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
        (Action::Start, _) => match step.seen.last_start_failed() {
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
                saved(step.saves),
                step.target.region,
                step.target.resource
            )
        }
        (action, _) => format!("{named}: {why}. It was {}; {}.", past(action), saved(step.saves)),
    }
}

fn saved(rate: Option<Rate>) -> String {
    rate.map_or("what that saves is not known".to_owned(), |rate| format!("that saves {}", money::show(Some(rate))))
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
        Because::Untagged { missing } => format!("Set the tags {}.", missing.join(", ")),
        Because::Idle(_) => "Use it, or stop it yourself.".to_owned(),
        Because::Hours { .. } => "Change curfew:hours if it should run on.".to_owned(),
        Because::Lifetime { .. } => "Set curfew:expires-at to say how long it may run.".to_owned(),
        Because::Expired { .. } | Because::Mended(_) => String::new(),
    }
}

/// The evidence in words.
fn why(because: &Because, now: Timestamp) -> String {
    match because {
        Because::Expired { expires_at } => {
            format!("its curfew:expires-at, {expires_at}, has passed")
        }
        Because::Untagged { missing } => {
            format!("it lacks the required tags {}", missing.join(", "))
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
        Because::Mended(mended) => format!("{} was announced", mended.rule),
    }
}

/// What is lost by what was done or will be, for the message's first line.
pub(super) fn loses(step: &Step, outcome: OutcomeKind) -> Option<String> {
    let Target { resource, instance_storage_gb, .. } = &step.target;
    let terminates = match &step.action {
        Action::Mark(mark) => mark.entries.values().any(|announced| announced.ending.as_str() == "terminate"),
        Action::Terminate { .. } => true,
        Action::Stop { .. } => false,
        Action::Unmark { .. } | Action::Notify | Action::Start => return None,
    };
    if outcome == OutcomeKind::Failed || step.held.is_some() {
        return None;
    }
    if *instance_storage_gb > 0 {
        return Some(format!("the NVMe scratch of {resource} ({instance_storage_gb} GB)"));
    }
    terminates.then(|| format!("{resource} with its root volume"))
}

fn past(action: &Action) -> &'static str {
    past_of(action.as_str())
}

fn past_of(action: &str) -> &'static str {
    match action {
        "stop" => "stopped",
        "terminate" => "terminated",
        "start" => "started",
        _ => "ended",
    }
}
