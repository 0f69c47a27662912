//! `curfew box ls`: the boxes, up or down.

use billing::price::{PriceBook, rate};
use clap::Args;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use jobs::boxes::{BoxOverview, BoxStatus};
use jobs::{Job, JobName};
use model::id::TeamName;
use model::money::{Rate, as_usd_per_month, format_monthly_rate_shortly};
use serde::Serialize;
use store::{Documents as _, JobDocuments as _, ReconcilerDocuments as _, Store, StoreError};

use super::find::{BoxId, find_report};
use crate::command_error::{CommandError, describe_store_error};
use crate::command_status::CommandStatus;
use crate::commands::plans::minute;
use crate::context::CommandContext;
use crate::resolve_job::AT_ONCE;
use crate::screen::{self, ColumnAlignment, Table};

/// Columns that a narrow terminal leaves out before the reason.
const SPARED_FIRST: [&str; 3] = ["snapshot", "zone", "$/h"];

/// List the boxes, with what keeps each up, its end and its cost
#[derive(Debug, Args)]
#[command(
    after_help = "A box that is down costs its home. Exit codes: 0 done; 2 error or incomplete result.\n\nExample:\n  curfew box ls\n  \
                  curfew box ls --team vision"
)]
pub(crate) struct Ls {
    /// List boxes of this team only
    #[arg(long, value_name = "TEAM")]
    team: Option<TeamName>,
}

/// ```json
/// {"schema": 1, "at": "2026-11-22T05:00:00Z",
///  "boxes": [{"box": "vision/my-box", "owner": "ada", "region": "us-east-1", "state": "up", "why": "GPU 91 %", "since": "…", "ends_at": "…",
///             "job": "vision/my-box-1a2b3c4d", "machine": {"instance": "i-…", …}, "cost_usd_max": 2.5, "home_gib": 200, "zone": "us-east-1b",
///             "snapshot_at": null, "home_usd_month": 16.0}],
///  "problems": []}
/// ```
/// `home_usd_month` is null if the price is unknown, and `cost_usd_max` while it is down.
#[derive(Serialize)]
struct BoxListOutput {
    at: Timestamp,
    boxes: Vec<BoxRow>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct BoxRow {
    #[serde(flatten)]
    overview: BoxOverview,
    #[serde(serialize_with = "as_usd_per_month")]
    home_usd_month: Option<Rate>,
}

impl Ls {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let names = store.boxes(self.team.as_ref()).await?;
        let config = store.read_config().await?;
        let prices = context.prices(Some(&store), &config).await;
        let (store, prices) = (&store, &prices);
        let read = stream::iter(names).map(|(team, name)| async move {
            let id = BoxId { team, name: JobName::read(&name).map_err(CommandError::new)? };
            read_row(store, prices, &id, context.now).await.map_err(|error| {
                CommandError::new(format!("{} could not be read: {}", id.full(), describe_store_error(&error)))
            })
        });
        let read: Vec<Result<Option<BoxRow>, CommandError>> = read.buffered(AT_ONCE).collect().await;
        let mut output = BoxListOutput { at: context.now, boxes: Vec::new(), problems: Vec::new() };
        for row in read {
            match row {
                Ok(row) => output.boxes.extend(row),
                Err(error) => output.problems.push(error.problem),
            }
        }
        output.boxes.sort_by_key(|row| row.overview.state == BoxStatus::Down);
        output.problems.iter().for_each(screen::warn);
        if context.global.json {
            screen::json(&output)?;
        } else {
            print(&output.boxes);
        }
        Ok(if output.problems.is_empty() { CommandStatus::Success } else { CommandStatus::Error })
    }
}

/// `None` if the box was deleted meanwhile.
async fn read_row(store: &Store, prices: &PriceBook, id: &BoxId, now: Timestamp) -> Result<Option<BoxRow>, StoreError> {
    let Some(gpu_box) = store.read_box(&id.team, id.name.as_str()).await?.value else { return Ok(None) };
    let last = gpu_box.holder.as_ref().map(|holder| &holder.job).or(gpu_box.last_job.as_ref());
    let job: Option<Job> = match last {
        Some(job) => store.read_job(job).await?.value,
        None => None,
    };
    let report = match &job {
        Some(job) => find_report(store, job).await?,
        None => None,
    };
    let quote = prices.gp3_cost(&gpu_box.region, u64::from(gpu_box.home.size_gib));
    let overview = BoxOverview::new(&gpu_box, job.as_ref(), report.as_ref(), now);
    Ok(Some(BoxRow { overview, home_usd_month: rate(quote) }))
}

fn print(rows: &[BoxRow]) {
    if rows.is_empty() {
        return screen::print_line("There are no boxes; bring one up:  curfew box up --gpu a10g my-box");
    }
    let mut table = Table::new([
        ("box", ColumnAlignment::Whole),
        ("state", ColumnAlignment::Left),
        ("ends (UTC)", ColumnAlignment::Left),
        ("cost at most", ColumnAlignment::Right),
        ("$/h", ColumnAlignment::Right),
        ("home", ColumnAlignment::Right),
        ("home price", ColumnAlignment::Right),
        ("zone", ColumnAlignment::Left),
        ("snapshot", ColumnAlignment::Left),
        ("why", ColumnAlignment::Left),
    ])
    .sparing_first(&SPARED_FIRST);
    for BoxRow { overview, home_usd_month } in rows {
        let at = |time: Option<Timestamp>| time.map(minute).unwrap_or_default();
        let since = overview.since.filter(|_| overview.state == BoxStatus::Down);
        table.row([
            overview.name.clone(),
            since.map_or_else(|| overview.state.as_str().to_owned(), |since| format!("down since {}", minute(since))),
            at(overview.ends_at),
            overview.cost_usd_max.map(|usd| usd.to_string()).unwrap_or_default(),
            overview.machine.as_ref().map(|machine| machine.rate.to_string()).unwrap_or_default(),
            format!("{} GB", overview.home_gib),
            home_usd_month.map_or_else(|| "unknown".to_owned(), format_monthly_rate_shortly),
            overview.zone.clone().unwrap_or_default(),
            at(overview.snapshot_at),
            overview.why.clone(),
        ]);
    }
    table.print();
}
