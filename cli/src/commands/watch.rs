//! `curfew watch`: instances, jobs, budgets and what happens next, on one screen that refreshes itself.
//!
//! At a terminal it draws until the person quits; otherwise it prints one frame.

mod frame;
mod live;
mod palette;
mod panel;
mod panels;
mod read;
mod text;
mod view;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use model::duration::{self, format_duration};
use model::fault::InvalidValue;
use operator::watch::dashboard;

use self::read::FactsReader;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::{screen, world};

/// EC2 accepts 20 calls a second of an account in a region, and other tools need some of them.
const EVERY_MIN: Duration = Duration::from_secs(5);
/// A slower refresh is no watching.
const EVERY_MAX: Duration = Duration::from_hours(1);

/// Watch instances, jobs, budgets and what happens next, on one screen
///
/// It reads the state bucket and lists instances, and never asks CloudWatch: GPU use is what Curfew last saw, with its time.
/// Without a terminal, and with --json, it prints one frame.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: q, Esc or Ctrl-C quits; r refreshes now; Tab goes to the next panel; arrows, PgUp, PgDn, Home and End scroll; ? helps.

Exit codes: 0 it was shown; 2 error or incomplete result.

Example:
  curfew watch
  curfew watch --once
  curfew watch --every 1m --region eu-central-1")]
pub(crate) struct Watch {
    /// Print one frame, and exit
    #[arg(long)]
    once: bool,
    /// Refresh this often, from 5s to 1h
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = every, conflicts_with = "once")]
    every: Duration,
}

/// With `--json`:
/// ```json
/// {"schema": 1, "at": "2026-11-24T12:03:15Z", "mode": "enforce", "regions": ["us-east-1"],
///  "totals": {"running": 12, "others": 1, "usd_per_hour": 34.5, "unknown_prices": 0},
///  "instances": [{"instance": "i-…", "usd_per_hour": 1.006, "gpu": {"state": "idle", "percent": 0.0, "at": "…"},
///                 "outlook": {"kind": "stop", "at": "…", "reason": "idle"}, …}],
///  "jobs": […], "budgets": […], "next": [{"at": "…", "kind": "instance", "what": "stop", "subject": "i-…", …}],
///  "awaiting_approval": [], "runs": […], "problems": []}
/// ```
/// Unknown values are null. `gpu.state` is `busy`, `idle`, `reserved`, `measured`, `unknown` or `off`.
impl Watch {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let deployed = context.needs_deployed().await?;
        let mut reader = FactsReader::new(context, deployed.store, deployed.topics);
        if !self.once && !context.global.json && has_terminal() {
            return Box::pin(live::run(reader, self.every)).await;
        }
        let facts = Box::pin(reader.read(context.now, false)).await?;
        let is_incomplete = !facts.problems.is_empty();
        let dashboard = dashboard(facts);
        if context.global.json {
            screen::json(&dashboard)?;
        } else {
            for line in frame::lines(&dashboard, screen::columns()) {
                screen::print_line(line);
            }
        }
        Ok(if is_incomplete { CommandStatus::Error } else { CommandStatus::Success })
    }
}

/// Returns `true` if stdin and stdout are terminals that can move their cursor.
fn has_terminal() -> bool {
    let is_dumb = world::variable("TERM").is_none_or(|term| term == "dumb");
    io::stdin().is_terminal() && screen::is_terminal() && !is_dumb
}

fn every(text: &str) -> Result<Duration, InvalidValue> {
    let every = duration::parse(text).map_err(InvalidValue::new)?.unsigned_abs();
    if (EVERY_MIN..=EVERY_MAX).contains(&every) {
        return Ok(every);
    }
    let [min, max] = [EVERY_MIN, EVERY_MAX].map(|of| format_duration(of.try_into().unwrap_or_default()));
    Err(InvalidValue::new(format!("write a duration from {min} to {max}")))
}

#[cfg(test)]
mod tests;
