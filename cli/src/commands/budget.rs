//! `curfew budget`: the status of every budget, or one of them in detail.

pub(super) mod read;
mod show;

use billing::budget::overview::{BudgetConclusion, BudgetOverview};
use billing::budget::{BudgetHolder, BudgetMonth, overview};
use clap::Args;
use model::id::TeamName;
use serde::Serialize;
use store::Documents as _;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Show the spend and the forecast of each budget, or one budget in full
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 no budget is spent; 1 one is; 2 its figures are old or missing.\n\n\
                        Example:\n  curfew budget\n  curfew budget vision\n  curfew budget --account --month 2026-10")]
pub(crate) struct Budget {
    /// Team to show in full, by the value of its tag; untagged, or "(no team)", for what has no team
    #[arg(value_name = "TEAM")]
    team: Option<TeamName>,
    /// Show the whole account in full
    #[arg(long, conflicts_with = "team")]
    account: bool,
    /// Show this month instead of the current one, such as 2026-10
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,
}

/// ```json
/// {
///   "schema": 1, "at": "2026-11-22T00:50:00Z", "month": "2026-11", "time_zone": "UTC",
///   "budgets": [{"of": "team", "team": "vision", "state": "fresh", "over": false,
///                "percent": 84, "forecast_percent": 98, "at_least": false, "budget": {"as_of": "…", "budget_usd": 5000, "spent_usd": 4210.13, …}}],
///   "problems": []
/// }
/// ```
/// `budget` is the document in the state bucket, null if there is none; `state` is `fresh`, `final` (the month is over), `stale`, `absent` or
/// `gone` (neither the configuration nor the ledger has the team any more). A percentage is null without a budget. `at_least` means that the real
/// figures may be higher. `problems` says what is unknown, why, and what to do.
#[derive(Serialize)]
struct BudgetOutput<'a> {
    at: jiff::Timestamp,
    month: &'a str,
    time_zone: &'a str,
    budgets: &'a [overview::BudgetRow],
    problems: Vec<String>,
}

impl Budget {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let deployed = context.needs_deployed().await?;
        let config = deployed.store.read_config().await?;
        let period = BudgetMonth::from(&context.month(self.month.as_deref(), &config)?);
        let wanted = match self.team {
            Some(team) => Some(overview::holder(team.as_str())),
            None => self.account.then_some(BudgetHolder::Account),
        };
        let read = read::read(&deployed.store, wanted.as_ref(), &period, context.now).await?;
        let stranger = wanted
            .as_ref()
            .and_then(|one| overview::unknown_team_message(one, &read.documents, &config, &period, context.now));
        if let Some(stranger) = stranger {
            return Err(CommandError::new(stranger));
        }
        let overview = BudgetOverview::from_documents(read.documents, wanted.as_ref(), &config, period, context.now);
        let mut problems = read.unread;
        let is_incomplete = !problems.is_empty();
        problems.extend(overview.problems());
        for problem in &problems {
            screen::warn(problem);
        }
        if context.global.json {
            screen::json(&BudgetOutput {
                at: context.now,
                month: &overview.period.month,
                time_zone: &config.account.time_zone,
                budgets: &overview.rows,
                problems,
            })?;
        } else {
            show::show(&overview, wanted.is_some());
        }
        Ok(match overview.conclusion() {
            BudgetConclusion::OverBudget if !is_incomplete => CommandStatus::Findings,
            BudgetConclusion::WithinBudget if !is_incomplete => CommandStatus::Success,
            _ => CommandStatus::Error,
        })
    }
}
