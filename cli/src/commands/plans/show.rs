//! One run, for review.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use model::foreign_text::quoted;
use model::id::RunId;
use model::known_sum::KnownSum;
use model::money;
use model::money::Rate;
use plan::report::{ApprovalStatus, OutcomeKind, RecordedStep, RunRecord, RunTally, RunTrace};
use reaping::rules::summarize;
use serde::Serialize;
use store::StoreError;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::screen::{self, ColumnAlignment, Table};

#[derive(Serialize)]
struct PlanOutput<'a> {
    key: String,
    #[serde(flatten)]
    record: &'a RunRecord,
    tally: RunTally,
    applied_by: &'a [RunId],
    applied: usize,
    superseded_by: Option<&'a RunId>,
}

/// A record, and what happened since to the actions that awaited approval. If that is unknown, all may still be pending.
pub(super) fn show(
    record: &RunRecord,
    approval: Result<ApprovalStatus, StoreError>,
    json: bool,
) -> Result<CommandStatus, CommandError> {
    let trouble = approval.as_ref().err().map(|error| format!("what happened since cannot be read: {error}"));
    if let Some(trouble) = &trouble {
        screen::warn(trouble);
    }
    let approval = approval.unwrap_or_else(|_| ApprovalStatus::from_traces(&RunTrace::from_record(record), &[]));
    let tally = record.tally().after_approval(&approval);
    if json {
        screen::json(&PlanOutput {
            key: record.key(),
            record,
            tally,
            applied_by: &approval.applied_by,
            applied: approval.done(),
            superseded_by: approval.superseded_by.as_ref(),
        })?;
    } else {
        print_record(record, &approval, tally);
    }
    Ok(match trouble {
        Some(_) => CommandStatus::Error,
        None if tally.waiting > 0 => CommandStatus::Findings,
        None => CommandStatus::Success,
    })
}

fn print_record(record: &RunRecord, approval: &ApprovalStatus, tally: RunTally) {
    let mode = record.mode.as_str();
    screen::print_line(format!("{}, run {}", record.function, record.run));
    screen::print_line(format!("{} UTC, mode {mode}, {} seen in {}", minute(record.at), record.seen, regions(record)));
    screen::print_line("");
    if record.steps.is_empty() {
        screen::print_line("It found nothing to do.");
    } else {
        table(record, approval).print();
    }
    errors(record);
    for gap in &record.gaps {
        screen::print_line(format!("not seen: {}, {}: {}", gap.region, gap.call, gap.error));
    }
    if !record.skipped.is_empty() {
        let skipped = record.skipped.iter().map(|(why, whom)| format!("{} {why}", whom.len()));
        screen::print_line(format!("skipped: {}", skipped.collect::<Vec<_>>().join(", ")));
    }
    screen::print_line(totals(record, tally));
    withheld(record).into_iter().for_each(screen::print_line);
    if !approval.applied_by.is_empty() {
        let by: Vec<&str> = approval.applied_by.iter().map(RunId::as_str).collect();
        screen::print_line(format!("applied by {}: {} done", by.join(", "), approval.done()));
    }
    if let Some(by) = &approval.superseded_by {
        screen::print_line(format!("superseded by {by}, which has what remains:  curfew plans {by}"));
    }
    if tally.waiting > 0 {
        screen::print_line(format!(
            "\nCarry out what awaits approval, each item checked again:  curfew apply {}",
            record.run
        ));
    }
}

fn regions(record: &RunRecord) -> String {
    match record.regions.as_slice() {
        [one] => one.to_string(),
        several => format!("{} regions", several.len()),
    }
}

fn table(record: &RunRecord, approval: &ApprovalStatus) -> Table<8> {
    let mut steps: Vec<&RecordedStep> = record.steps.iter().collect();
    let worth_of =
        |step: &RecordedStep| step.saves_usd_per_hour.filter(|_| step.stops_or_deletes()).unwrap_or_default();
    steps.sort_by(|one, other| {
        worth_of(other)
            .cmp(&worth_of(one))
            .then_with(|| (&one.region, &one.resource).cmp(&(&other.region, &other.resource)))
    });
    let mut table = Table::new([
        ("resource", ColumnAlignment::Whole),
        ("region", ColumnAlignment::Left),
        ("what", ColumnAlignment::Left),
        ("team", ColumnAlignment::Left),
        ("do", ColumnAlignment::Left),
        ("saves", ColumnAlignment::Right),
        ("outcome", ColumnAlignment::Left),
        ("why", ColumnAlignment::Left),
    ]);
    for step in steps {
        let saves = match step.saves_usd_per_hour {
            _ if !step.stops_or_deletes() => "-".to_owned(),
            None => "?".to_owned(),
            Some(saves) => worth(&record.function, KnownSum::new(saves, 0)),
        };
        table.row([
            step.resource.to_string(),
            step.region.to_string(),
            what(step),
            step.team.clone().unwrap_or_else(|| "-".to_owned()),
            step.action.clone(),
            saves,
            outcome(record, approval, step).to_owned(),
            why(step),
        ]);
    }
    table
}

/// Its outcome by now.
fn outcome(record: &RunRecord, approval: &ApprovalStatus, step: &RecordedStep) -> &'static str {
    if !record.waits(step) {
        return step.outcome.as_str();
    }
    match approval.settled.get(&(step.region.clone(), step.resource.clone())) {
        Some(OutcomeKind::Done) => "applied",
        Some(outcome) => outcome.as_str(),
        None if approval.superseded_by.is_some() => "superseded",
        None => "waits",
    }
}

/// Its name for people, if the record has it.
fn what(RecordedStep { what, name, .. }: &RecordedStep) -> String {
    let name = name.as_deref().map(quoted);
    let parts: Vec<String> = what.iter().cloned().chain(name).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(" ") }
}

fn why(step: &RecordedStep) -> String {
    let evidence = &step.evidence;
    let notify_only = evidence.notify_only().map(|why| format!("; notify only: {}", why.explain())).unwrap_or_default();
    format!("{}: {}{notify_only}", evidence.rule, summarize(evidence, &step.action))
}

/// An error that many share is shown once.
fn errors(record: &RunRecord) {
    let mut errors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for step in &record.steps {
        if let Some(error) = &step.error {
            errors.entry(error).or_default().push(step.resource.as_str());
        }
    }
    for (error, resources) in errors {
        let whose = match resources.as_slice() {
            [one] => (*one).to_owned(),
            [first, ..] => format!("{first} and {} more", resources.len() - 1),
            [] => continue,
        };
        screen::print_line(format!("{whose}: {error}"));
    }
}

fn totals(record: &RunRecord, tally: RunTally) -> String {
    let RunTally {
        done, ended, observed, overtaken, failed, not_reached, waiting, saved, would_save, at_stake, ..
    } = tally;
    let counts = [
        (ended, "ended"),
        (done - ended, "otherwise done"),
        (observed, "only observed"),
        (overtaken, "changed or gone by themselves"),
        (failed, "failed"),
        (not_reached, "not reached"),
        (waiting, "awaiting approval"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let mut totals = format!("total: {}", if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") });
    for (sum, what) in [(saved, "saved"), (would_save, "in observe mode"), (at_stake, "awaiting approval")] {
        if !sum.is_zero() {
            let _ = write!(totals, "; {} {what}", worth(&record.function, sum));
        }
    }
    totals
}

/// The idle machines of which the run only notifies, because `local_disk` keeps their NVMe storage.
fn withheld(record: &RunRecord) -> Option<String> {
    let count = record.withheld_by_local_disk().count();
    let costs = KnownSum::from_parts(record.withheld_by_local_disk().map(|step| step.saves_usd_per_hour));
    let machines = screen::counted(count, "idle instance");
    (count > 0).then(|| {
        format!(
            "notify only, because local_disk keeps their NVMe storage: {machines}, {}",
            worth(&record.function, costs)
        )
    })
}

/// `2026-09-01 12:00`, in UTC.
pub(crate) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// The cost of instances is by the hour, and that of volumes by the month. A sum without any price is unknown.
pub(crate) fn worth(function: &str, sum: KnownSum<Rate>) -> String {
    match function {
        _ if sum.is_zero() => "-".to_owned(),
        "reap-volumes" => sum.describe_shortly(money::format_monthly_rate_shortly),
        _ => sum.to_string(),
    }
}
