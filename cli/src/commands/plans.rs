//! `curfew plans`: what runs found and did, and what awaits approval.

mod by_resource;
mod find;
mod list;
mod show;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jiff::SignedDuration;
use model::duration;
use model::fault::InvalidValue;
use operator::doctor::runs::FUNCTIONS;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;

pub(super) use find::find;
pub(super) use show::{minute, worth};

/// Records are listed day by day, so this is the limit.
const SINCE_MAX: SignedDuration = SignedDuration::from_hours(92 * 24);

/// List what recent runs found and did, or show one run for review
#[derive(Debug, Args)]
#[command(after_help = "\
Columns: waiting awaits approval; ended was stopped, terminated or deleted; since then: the later fate of what awaited approval; \
observed would have been done in enforce mode; other is a mark, a notification or a start; seen was looked at.

Exit codes: 0 nothing awaits approval; 1 something does; 2 a record could not be read. With --by-resource: 0, or 2.

Example:
  curfew plans --since 7d --function reap-volumes
  curfew plans --by-resource --since 7d
  curfew plans 5f1c2a7e")]
pub(crate) struct Plans {
    /// Id of a run or its beginning, or its record's key in the state bucket
    #[arg(value_name = "PLAN", conflicts_with_all = ["since", "function", "all", "limit", "by_resource"])]
    pub(crate) plan: Option<String>,
    /// List runs of this period
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = since)]
    pub(crate) since: SincePeriod,
    /// List runs of this function only
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(FUNCTIONS.map(|known| known.function)))]
    pub(crate) function: Option<String>,
    /// Also list runs that found nothing
    #[arg(long)]
    pub(crate) all: bool,
    /// List what enforce mode would have done in the period, by resource, with what that would have saved
    #[arg(long, conflicts_with = "all")]
    pub(crate) by_resource: bool,
    /// List at most so many runs, the newest first, or so many resources, the most expensive first
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = limit)]
    pub(crate) limit: u16,
}

impl Plans {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let deployed = context.needs_deployed().await?;
        match &self.plan {
            Some(plan) => {
                let record = find(context, &deployed, plan).await?;
                let approval = find::approval(context, &deployed, &record).await;
                show::show(&record, approval, context.global.json)
            }
            None if self.by_resource => by_resource::list(&self, context, &deployed).await,
            None => list::list(&self, context, &deployed).await,
        }
    }
}

/// The period, and the words of the option.
#[derive(Debug, Clone)]
pub(crate) struct SincePeriod {
    duration: SignedDuration,
    text: String,
}

fn since(text: &str) -> Result<SincePeriod, InvalidValue> {
    let duration = duration::parse(text).map_err(InvalidValue::new)?;
    if duration > SINCE_MAX {
        return Err(InvalidValue::new(format!("{} is the most", duration::format_duration(SINCE_MAX))));
    }
    Ok(SincePeriod { duration, text: text.to_owned() })
}

fn limit(text: &str) -> Result<u16, InvalidValue> {
    match text.parse() {
        Ok(0) => Err(InvalidValue::new("it is at least 1")),
        Ok(limit) => Ok(limit),
        Err(_) => Err(InvalidValue::new(format!("write a number from 1 to {}", u16::MAX))),
    }
}
