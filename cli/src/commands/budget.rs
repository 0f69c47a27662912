//! `curfew budget`: where every budget stands, or one of them in detail.

mod read;
mod show;

use clap::Args;
use domain::budget::overview::{self, Conclusion, Overview};
use domain::budget::{Holder, Period};
use domain::id::TeamName;
use serde::Serialize;

use crate::context::Context;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::screen;

/// Show what is spent of each budget and what is forecast, or all that is known of one
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no budget is spent; 1 one is; 2 nobody can say, as its figures are old, or there are none.\n\n\
                        Example:\n  curfew budget\n  curfew budget vision\n  curfew budget --account --month 2026-10"
)]
pub(crate) struct Budget {
    /// One team, by the value of its tag: what it was spent on, and what would bring it back; untagged, or "(no team)", for what has no team
    #[arg(value_name = "TEAM")]
    team: Option<TeamName>,
    /// The same of the whole account
    #[arg(long, conflicts_with = "team")]
    account: bool,
    /// Of this month instead of the present one, such as 2026-10
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,
}

/// ```json
/// {
///   "schema": 1, "at": "2026-11-22T00:50:00Z", "month": "2026-11", "time_zone": "UTC",
///   "budgets": [{"of": "team", "team": "vision", "state": "fresh", "over": false,
///                "percent": 84, "forecast_percent": 98, "at_least": false, "standing": {"as_of": "…", "budget_usd": 5000, "spent_usd": 4210.13, …}}],
///   "troubles": []
/// }
/// ```
/// `standing` is the document in the state bucket, null where there is none; `state` is `fresh`, `final` (the month is over),
/// `stale`, `absent` or `gone` (neither the configuration nor the ledger has the team any more). A percentage is null without
/// a budget. `at_least` says that more may be spent than the figures say. `troubles` says why nobody can say, and what to do.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    at: jiff::Timestamp,
    month: &'a str,
    time_zone: &'a str,
    budgets: &'a [overview::Row],
    troubles: Vec<String>,
}

impl Budget {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let deployed = context.needs_deployed().await?;
        let config = deployed.store.read_config().await?;
        let period = match &self.month {
            Some(month) => Period::named(month, &config).map_err(Failure::of)?,
            None => Period::of(context.now, &config),
        };
        if period.from > context.now {
            return Err(Failure::of(format!(
                "{} has not begun yet; without --month it is the present month",
                period.month
            )));
        }
        let wanted = match self.team {
            Some(team) => Some(overview::holder(team.as_str())),
            None => self.account.then_some(Holder::Account),
        };
        let read = read::read(&deployed.store, wanted.as_ref(), &period, context.now).await?;
        let stranger =
            wanted.as_ref().and_then(|one| overview::stranger(one, &read.documents, &config, &period, context.now));
        if let Some(stranger) = stranger {
            return Err(Failure::of(stranger));
        }
        let overview = Overview::of(read.documents, wanted.as_ref(), &config, period, context.now);
        let mut troubles = read.unread;
        let is_incomplete = !troubles.is_empty();
        troubles.extend(overview.troubles());
        for trouble in &troubles {
            screen::warn(trouble);
        }
        if context.global.json {
            screen::json(&Document {
                schema: screen::SCHEMA,
                at: context.now,
                month: &overview.period.month,
                time_zone: &config.account.time_zone,
                budgets: &overview.rows,
                troubles,
            })?;
        } else {
            show::show(&overview, wanted.is_some());
        }
        Ok(match overview.conclusion() {
            Conclusion::Over if !is_incomplete => Ending::Found,
            Conclusion::Fine if !is_incomplete => Ending::Fine,
            _ => Ending::Trouble,
        })
    }
}
