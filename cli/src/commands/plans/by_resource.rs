//! What enforce mode would have done in a period, by resource.

use futures::{StreamExt, stream};
use jiff::Timestamp;
use model::moment::before;
use model::money::Amount;
use operator::observed_actions::{FUNCTIONS, ObservedActionRow, ObservedActions, ObservedSummary, RECORDS_MAX};
use serde::Serialize;
use store::PlanKey;

use super::Plans;
use super::find::UnreadRecords;
use super::list::{READS_AT_ONCE, keys};
use super::show::minute;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::{CommandContext, DeployedResources};
use crate::screen::{self, ColumnAlignment, Table};

/// ```json
/// {"schema": 1, "since": "…", "until": "…",
///  "rows": [{"region": "us-east-1", "resource": "i-…", "what": "g5.xlarge", "name": null, "team": "vision", "action": "stop", "rule": "idle",
///            "due_since": "…", "due_seconds": 7200, "would_have_saved_usd": 2.01, "state": "still-due", "state_at": "…", "used_again_at": null}],
///  "would_have_saved_usd": 2.01, "unknown_prices": 0, "used_again": 0, "not_due_yet": 1,
///  "scratch": {"machines": 0, "usd_per_hour": 0, "unknown_prices": 0}, "is_truncated": false, "text": "…", "unread": 0, "warnings": []}
/// ```
/// An unknown price is null, and so is a sum without any price. `state` is `still-due`, `used-again`, `complies`, `kept`, `stopped`, `gone` or `carried-out`.
#[derive(Serialize)]
struct ByResourceOutput<'a> {
    since: Timestamp,
    until: Timestamp,
    #[serde(flatten)]
    summary: &'a ObservedSummary,
    /// The totals in words.
    text: String,
    /// The number of records that could not be read.
    unread: usize,
    warnings: Vec<String>,
}

pub(super) async fn list(
    asked: &Plans,
    context: &CommandContext,
    deployed: &DeployedResources,
) -> Result<CommandStatus, CommandError> {
    let since = before(context.now, asked.since.duration);
    let mut keys = keys(asked, deployed, since, context.now).await?;
    keys.retain(|key| FUNCTIONS.contains(&key.function.as_str()));
    let total = keys.len();
    keys.truncate(RECORDS_MAX);
    // The oldest first.
    keys.reverse();
    screen::progress(format!("Reading {} …", screen::counted(keys.len(), "record")));
    let (summary, unread) = read(deployed, keys, since).await;
    let mut warnings = unread.warnings(total.min(RECORDS_MAX));
    if total > RECORDS_MAX {
        warnings.push(format!("of {total} records only the newest {RECORDS_MAX} were read: ask for less by --since"));
    }
    for warning in &warnings {
        screen::warn(warning);
    }
    let lines = summary.describe(&asked.since.text);
    if context.global.json {
        let (summary, text, unread) = (&summary, lines.join(" "), unread.count());
        let output = ByResourceOutput { since, until: context.now, summary, text, unread, warnings };
        screen::json(&output)?;
    } else {
        show(&summary, &lines, usize::from(asked.limit));
    }
    Ok(if unread.count() > 0 { CommandStatus::Error } else { CommandStatus::Success })
}

/// Reads the records one after the other: no more are held than are read at once.
async fn read(deployed: &DeployedResources, keys: Vec<PlanKey>, since: Timestamp) -> (ObservedSummary, UnreadRecords) {
    let (mut actions, mut unread) = (ObservedActions::default(), UnreadRecords::default());
    let reads = stream::iter(keys).map(|PlanKey { key, .. }| async move { deployed.store.read_plan(&key).await });
    let mut reads = reads.buffered(READS_AT_ONCE);
    while let Some(read) = reads.next().await {
        match read {
            Ok(Some(record)) if record.at >= since => actions.add(&record),
            Ok(_) => {}
            Err(error) => unread.add(error),
        }
    }
    (actions.finish(), unread)
}

fn show(summary: &ObservedSummary, lines: &[String], limit: usize) {
    if !summary.rows.is_empty() {
        table(&summary.rows, limit).print();
        if summary.rows.len() > limit {
            screen::progress(format!("There are more: --limit shows more than {limit}."));
        }
        screen::print_line("");
    }
    for line in lines {
        screen::print_line(line);
    }
}

fn table(rows: &[ObservedActionRow], limit: usize) -> Table<9> {
    let mut table = Table::new([
        ("resource", ColumnAlignment::Whole),
        ("would have", ColumnAlignment::Left),
        ("rule", ColumnAlignment::Left),
        ("due since (UTC)", ColumnAlignment::Whole),
        ("saved", ColumnAlignment::Right),
        ("since then", ColumnAlignment::Left),
        ("name", ColumnAlignment::Left),
        ("team", ColumnAlignment::Left),
        ("type", ColumnAlignment::Left),
    ])
    .sparing(3);
    for row in rows.iter().take(limit) {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            row.resource.to_string(),
            row.action_in_words().to_owned(),
            row.rule.clone(),
            minute(row.due_since),
            row.saved.as_ref().map_or_else(|| "unknown".to_owned(), Amount::to_string),
            row.since_then(),
            text(&row.name),
            text(&row.team),
            text(&row.what),
        ]);
    }
    table
}
