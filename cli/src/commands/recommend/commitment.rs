//! `curfew recommend commitment`: the Savings Plan that would have cost the least.

use clap::Args;
use model::fault::InvalidValue;
use recommend::commitment::{
    Commitment, HourSpend, PlanDiscount, SpendCurve, best_commitment, draw_commitment, on_demand_curve,
};
use serde::Serialize;

use super::account::Account;
use super::numbers::whole_number;
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::screen;

const HOUR_SECONDS: u64 = 3_600;

/// Fewer hours than a week has do not show weekends.
const HOURS_FEW: usize = 7 * 24;

/// Find the Savings Plan commitment that would have cost the least, by the ledger's hourly spend
#[derive(Debug, Args)]
#[command(
    after_help = "It reads the ledger of a deployment, and buys nothing. AWS shows the discount of a plan by type, region, term and \
                        payment on https://aws.amazon.com/savingsplans/compute-pricing/. Exit codes: 0 found, or none pays; 2 error.\n\n\
                        Example:\n  curfew recommend commitment --discount-percent 28\n  \
                        curfew recommend commitment --discount-percent 45.5 --months 6 --json"
)]
pub(super) struct CommitmentArguments {
    /// The percentage by which the plan's rates are below on demand, on average over the running types
    #[arg(long, value_name = "PERCENT", value_parser = discount, allow_negative_numbers = true)]
    discount_percent: f64,
    /// Look at so many months, with the current one
    #[arg(long, value_name = "MONTHS", default_value_t = 2, value_parser = whole_number::<u8>(1, 36), allow_negative_numbers = true)]
    months: u8,
}

/// ```json
/// {"schema": 1, "discount_percent": 28.0, "usd_per_hour": 5.04, "covers_usd_per_hour": 7.0, "hours": 720, "on_demand_usd": 6100.0,
///  "cost_usd": 4900.0, "saved_usd": 1200.0, "used_percent": 97, "full_hours": 650, "used_percent_min": 72,
///  "curve": {"hours": [{"from": "…", "usd": 7.2}], "unpriced_seconds": 0, "folded_runs": 0}}
/// ```
/// All amounts are for the hours of the curve. `usd_per_hour` is 0 if no commitment pays.
#[derive(Serialize)]
struct CommitmentOutput<'a> {
    schema: u32,
    discount_percent: f64,
    #[serde(flatten)]
    best: Commitment,
    curve: &'a SpendCurve,
}

impl CommitmentArguments {
    pub(super) async fn run(self, account: &Account) -> Result<CommandStatus, CommandError> {
        let context = account.needs_context()?;
        let deployed = account.deployed().await?;
        if deployed.store.is_none() {
            // It says what is missing.
            context.needs_deployed().await?;
        }
        let ledgers = account.ledgers(&deployed, None, usize::from(self.months) - 1).await;
        let curve = on_demand_curve(&ledgers, account.now);
        if curve.hours.is_empty() {
            return Err(CommandError::with(
                "the ledger has seen no whole hour yet",
                "enforce-budgets keeps it; curfew doctor checks whether that runs",
            ));
        }
        // The option's parser has refused everything else.
        let discount = PlanDiscount::from_percent(self.discount_percent)
            .ok_or_else(|| CommandError::new("--discount-percent is more than 0 and less than 100"))?;
        let best = best_commitment(&curve.hours, discount);
        if account.json {
            let (schema, discount_percent) = (screen::SCHEMA, self.discount_percent);
            screen::json(&CommitmentOutput { schema, discount_percent, best, curve: &curve })?;
        } else {
            show(&best, &curve, self.discount_percent);
        }
        Ok(CommandStatus::Success)
    }
}

fn show(best: &Commitment, curve: &SpendCurve, discount_percent: f64) {
    if let (Some(HourSpend { from, .. }), Some(HourSpend { from: last, .. })) =
        (curve.hours.first(), curve.hours.last())
    {
        let hours = screen::counted(curve.hours.len(), "hour");
        screen::print_line(format!(
            "Instances on demand cost {} in {hours}, from {} to {}:\n",
            best.on_demand,
            from.strftime("%Y-%m-%d %H:00"),
            last.strftime("%Y-%m-%d %H:59 UTC")
        ));
    }
    for line in draw_commitment(&curve.hours, best) {
        screen::print_line(line);
    }
    if best.rate.usd_micros_per_hour() == 0 {
        screen::print_line(format!(
            "\nNo commitment pays: at a discount of {discount_percent} % it takes a spend that is there in {} % of all hours.",
            best.used_percent_min
        ));
    } else {
        screen::print_line(format!(
            "\nA commitment of {} at a discount of {discount_percent} % covers {} of spend on demand. With it these hours would have cost \
             {}, which is {} less. {} % of it would have been used; below {} % it costs more than on demand.",
            best.rate, best.covered, best.cost, best.saved, best.used_percent, best.used_percent_min
        ));
        screen::print_line("You pay for its whole term, used or not, and past use does not guarantee future use.");
    }
    if curve.hours.len() < HOURS_FEW {
        screen::warn("these are fewer hours than a week has");
    }
    if curve.unpriced_seconds > 0 {
        let hours = curve.unpriced_seconds.div_ceil(HOUR_SECONDS);
        screen::warn(format_args!("instances ran for {hours} hours at an unknown price, which no figure counts"));
    }
    if curve.folded_runs > 0 {
        let runs = curve.folded_runs;
        screen::warn(format!(
            "the ledger has only the sums of {runs} runs, which count in no hour, so the curve is too low"
        ));
    }
}

fn discount(text: &str) -> Result<f64, InvalidValue> {
    let percent =
        text.trim_end_matches('%').trim().parse().ok().filter(|percent| PlanDiscount::from_percent(*percent).is_some());
    percent.ok_or_else(|| InvalidValue::new("write a percentage above 0 and below 100, such as 28"))
}
