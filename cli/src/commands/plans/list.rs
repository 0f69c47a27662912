//! The list of recent runs.

use std::cmp::Reverse;

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::id::RunId;
use model::mode::Mode;
use model::moment::before;
use plan::report::{APPLIED, ApprovalStatus, RunRecord, RunTally, RunTrace, folder_of};
use serde::Serialize;
use store::PlanKey;

use super::Plans;
use super::find::{UnreadRecords, records_of_days};
use super::show::{minute, worth};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::{CommandContext, DeployedResources};
use crate::screen::{self, ColumnAlignment, Table};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Characters of a run's id in a table; more if they are ambiguous.
const SHORT: usize = 8;
/// Records may have some megabytes each.
pub(super) const READS_AT_ONCE: usize = 16;
/// The longest time from the beginning of a run to its record, with a margin: half an hour, for an apply.
const RUN_MAX: SignedDuration = SignedDuration::from_hours(1);

#[derive(Serialize)]
struct PlanListOutput {
    plans: Vec<PlanRow>,
    /// `true` if there are more plans than the limit.
    more: bool,
    /// The number of records that could not be read.
    unread: usize,
    warnings: Vec<String>,
}

/// The summary of one run; of the actions that awaited approval only the pending ones.
#[derive(Serialize)]
struct PlanRow {
    key: String,
    function: String,
    run: RunId,
    at: Timestamp,
    mode: Mode,
    seen: usize,
    #[serde(flatten)]
    tally: RunTally,
    gaps: usize,
    /// The runs by which a person applied some of them.
    applied_by: Vec<RunId>,
    /// The number of actions that these runs have done.
    applied: usize,
    /// The newest run of the function, if it has found the remaining ones again.
    superseded_by: Option<RunId>,
}

impl PlanRow {
    fn from_record(record: &RunRecord) -> Self {
        Self {
            key: record.key(),
            function: record.function.clone(),
            run: record.run.clone(),
            at: record.at,
            mode: record.mode,
            seen: record.seen,
            tally: record.tally(),
            gaps: record.gaps.len(),
            applied_by: Vec::new(),
            applied: 0,
            superseded_by: None,
        }
    }

    fn followed_by(mut self, approval: ApprovalStatus) -> Self {
        self.applied = approval.done();
        self.tally = self.tally.after_approval(&approval);
        let ApprovalStatus { applied_by, superseded_by, .. } = approval;
        Self { applied_by, superseded_by, ..self }
    }

    /// Describes what happened to the actions that awaited approval.
    fn since_then(&self, all: &[Self]) -> String {
        let applied = match self.applied_by.as_slice() {
            [] => None,
            [one] => Some(format!("applied by {}: {} done", short(one, all), self.applied)),
            several => Some(format!("applied by {} runs: {} done", several.len(), self.applied)),
        };
        let superseded = self.superseded_by.as_ref().map(|by| format!("superseded by {}", short(by, all)));
        let parts: Vec<String> = applied.into_iter().chain(superseded).collect();
        parts.join("; ")
    }
}

pub(super) async fn list(
    asked: &Plans,
    context: &CommandContext,
    deployed: &DeployedResources,
) -> Result<CommandStatus, CommandError> {
    let since = before(context.now, asked.since.duration);
    let keys = keys(asked, deployed, since, context.now).await?;
    let mut listed = read(asked, deployed, since, keys).await;
    listed.plans.sort_by_key(|row| Reverse(row.at));
    for warning in &listed.warnings {
        screen::warn(warning);
    }
    if context.global.json {
        screen::json(&listed)?;
    } else {
        show(&listed, asked);
    }
    Ok(match listed {
        PlanListOutput { unread: 1.., .. } => CommandStatus::Error,
        _ if listed.plans.iter().any(|row| row.tally.waiting > 0) => CommandStatus::Findings,
        _ => CommandStatus::Success,
    })
}

/// Up to the limit. Later runs are recorded later, so they were read before.
async fn read(asked: &Plans, deployed: &DeployedResources, since: Timestamp, keys: Vec<PlanKey>) -> PlanListOutput {
    let (mut rows, mut traces, mut more) = (Vec::new(), Vec::new(), false);
    let (mut unread, mut total) = (UnreadRecords::default(), 0);
    let reads = stream::iter(keys).map(|PlanKey { key, .. }| async move { deployed.store.read_plan(&key).await });
    let mut reads = reads.buffered(READS_AT_ONCE);
    while let Some(read) = reads.next().await {
        total += 1;
        match read {
            Ok(Some(record)) if record.at < since => {}
            Ok(Some(record)) => {
                let is_shown = asked.all || !record.is_quiet();
                if is_shown && rows.len() == usize::from(asked.limit) {
                    more = true;
                    break;
                }
                let trace = RunTrace::from_record(&record);
                if is_shown {
                    rows.push((PlanRow::from_record(&record), trace.clone()));
                }
                traces.push(trace);
            }
            Ok(None) => {}
            Err(error) => unread.add(error),
        }
    }
    let plans =
        rows.into_iter().map(|(row, trace)| row.followed_by(ApprovalStatus::from_traces(&trace, &traces))).collect();
    PlanListOutput { plans, more, unread: unread.count(), warnings: unread.warnings(total) }
}

/// Newest first. A run is recorded at its end, which may be on the day after it began.
pub(super) async fn keys(
    asked: &Plans,
    deployed: &DeployedResources,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<PlanKey>, CommandError> {
    let mut keys = records_of_days(deployed, days(since, now), asked.function.as_deref()).await?;
    keys.retain(|key| key.written_at >= since);
    Ok(keys)
}

/// A moment of each calendar day on which a run that has ended since may have begun.
fn days(since: Timestamp, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let first = folder_of(before(since, RUN_MAX));
    (0..).map(move |day| before(now, DAY.saturating_mul(day))).take_while(move |day| folder_of(*day) >= first)
}

fn show(listed: &PlanListOutput, asked: &Plans) {
    let table = table(&listed.plans);
    if table.is_empty() {
        // The findings of unreadable records are unknown.
        if listed.unread == 0 {
            let quiet = if asked.all { "" } else { " found anything (--all shows quiet runs too)" };
            screen::print_line(format!("No run of the last {}{quiet}.", asked.since.text));
        }
        return;
    }
    table.print();
    if listed.more {
        screen::progress(format!("There are more: --limit shows more than {}.", asked.limit));
    }
    for row in listed.plans.iter().filter(|row| row.tally.waiting > 0) {
        let run = short(&row.run, &listed.plans);
        let (actions, wait) =
            (screen::counted(row.tally.waiting, "action"), if row.tally.waiting == 1 { "awaits" } else { "await" });
        screen::print_line(format!("\n{actions} of {} {wait} approval. Review: curfew plans {run}", row.function));
        screen::print_line(format!("Carry out:  curfew apply {run}"));
    }
}

fn table(rows: &[PlanRow]) -> Table<13> {
    let mut table = Table::new([
        ("when (UTC)", ColumnAlignment::Whole),
        ("function", ColumnAlignment::Whole),
        ("run", ColumnAlignment::Whole),
        ("waiting", ColumnAlignment::Right),
        ("ended", ColumnAlignment::Right),
        ("since then", ColumnAlignment::Left),
        ("observed", ColumnAlignment::Right),
        ("other", ColumnAlignment::Right),
        ("seen", ColumnAlignment::Right),
        ("saved", ColumnAlignment::Right),
        ("mode", ColumnAlignment::Whole),
        ("failed", ColumnAlignment::Right),
        ("gaps", ColumnAlignment::Right),
    ])
    .sparing(4);
    for row in rows {
        let RunTally { done, ended, observed, failed, waiting, saved, at_stake, .. } = row.tally;
        let count = |count: usize| if count == 0 { "-".to_owned() } else { count.to_string() };
        let at_stake = match worth(&row.function, at_stake) {
            _ if at_stake.is_zero() => count(waiting),
            worth => format!("{waiting} ({worth})"),
        };
        table.row([
            minute(row.at),
            row.function.clone(),
            short(&row.run, rows),
            at_stake,
            count(ended),
            row.since_then(rows),
            count(observed),
            count(done - ended),
            row.seen.to_string(),
            worth(&row.function, saved),
            row.mode.as_str().to_owned(),
            count(failed),
            count(row.gaps),
        ]);
    }
    table
}

/// The shortest unambiguous part of a run's id.
fn short(run: &RunId, all: &[PlanRow]) -> String {
    let run = run.as_str();
    let from = if run.starts_with(APPLIED) { APPLIED.len() + SHORT } else { SHORT };
    let is_alone = |length: &usize| {
        let beginning = run.get(..*length).unwrap_or(run);
        all.iter().filter(|other| other.run.as_str().starts_with(beginning)).count() <= 1
    };
    let length = (from..run.len()).find(is_alone).unwrap_or(run.len());
    run.get(..length).unwrap_or(run).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_while_after_midnight_began_yesterday() {
        let check = |since: &str, now: &str, expect: &[&str]| {
            let days = days(since.parse().unwrap(), now.parse().unwrap());
            assert_eq!(days.map(folder_of).collect::<Vec<_>>(), expect);
        };
        check("2026-08-31T22:30:00Z", "2026-09-01T00:30:00Z", &["plans/2026-09-01/", "plans/2026-08-31/"]);
        check("2026-09-01T00:30:00Z", "2026-09-01T02:30:00Z", &["plans/2026-09-01/", "plans/2026-08-31/"]);
        check("2026-09-01T10:00:00Z", "2026-09-01T12:00:00Z", &["plans/2026-09-01/"]);
        check("2026-08-31T12:00:00Z", "2026-09-01T12:00:00Z", &["plans/2026-09-01/", "plans/2026-08-31/"]);
    }

    fn row(run: &str) -> PlanRow {
        PlanRow {
            key: String::new(),
            function: "reap-instances".to_owned(),
            run: run.into(),
            at: Timestamp::UNIX_EPOCH,
            mode: Mode::Enforce,
            seen: 0,
            tally: RunTally::default(),
            gaps: 0,
            applied_by: Vec::new(),
            applied: 0,
            superseded_by: None,
        }
    }

    #[test]
    fn a_run_is_named_by_as_much_as_tells_it_from_others() {
        let all = ["aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb-1", "apply-bbbbbbbb-1-x", "apply-bbbbbbbb-1-y", "cc"];
        let rows: Vec<PlanRow> = all.iter().map(|run| row(run)).collect();
        let shown: Vec<String> = rows.iter().map(|row| short(&row.run, &rows)).collect();
        assert_eq!(shown, ["aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb", "apply-bbbbbbbb-1-x", "apply-bbbbbbbb-1-y", "cc"]);
    }

    #[test]
    fn the_outcome_of_pending_actions_is_shown() {
        let check = |applied_by: &[&str], applied: usize, superseded_by: Option<&str>, expect: &str| {
            let applied_by = applied_by.iter().map(|run| RunId::from(*run)).collect();
            let of =
                PlanRow { applied_by, applied, superseded_by: superseded_by.map(RunId::from), ..row("aaaaaaaa-1") };
            assert_eq!(of.since_then(&[]), expect);
        };
        check(&[], 0, None, "");
        check(&["apply-aaaaaaaa-1-x"], 8, None, "applied by apply-aaaaaaaa: 8 done");
        check(&["apply-aaaaaaaa-1-x", "apply-aaaaaaaa-1-y"], 8, None, "applied by 2 runs: 8 done");
        check(&[], 0, Some("bbbbbbbb-1"), "superseded by bbbbbbbb");
        check(&["apply-aaaaaaaa-1-x"], 1, Some("b"), "applied by apply-aaaaaaaa: 1 done; superseded by b");
    }
}
