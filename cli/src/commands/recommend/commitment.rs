//! `curfew recommend commitment`: the Savings Plan that would have cost the least.

use clap::{Args, ValueEnum};
use cloud::CallError;
use cloud::operator::{capacity_blocks, reserved_instances, savings_plans};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use model::fault::InvalidValue;
use model::id::Region;
use model::moment::after;
use model::money::Rate;
use recommend::commitment::{
    Commitment, ExistingCommitments, HourSpend, PlanChoice, PlanDiscount, PlanScope, ReservedInstances, SpendCurve,
    UsageCurve, best_commitment, draw_commitment,
};
use serde::Serialize;

use super::account::{Account, LedgersRead};
use super::numbers::whole_number;
use crate::command_error::{CommandError, describe_call_error};
use crate::command_status::CommandStatus;
use crate::screen;

const HOUR_SECONDS: u64 = 3_600;

/// Fewer hours than a week has do not show weekends.
const HOURS_FEW: usize = 7 * 24;

/// Ends of commitments that are shown: a plan lasts three years at most.
const CHANGES_MAX: usize = 12;
const PLAN_LENGTH: SignedDuration = SignedDuration::from_hours(3 * 365 * 24);

/// Commitments that the text names; all are in the JSON document.
const NAMED_MAX: usize = 8;

/// Facts that no call of this account shows.
const NOT_SEEN: &str =
    "Not known: what other accounts of the organization share, and what Fargate and Lambda take of a Compute plan.";

/// Find the Savings Plan commitment that would have cost the least, by the ledger's hourly spend
#[derive(Debug, Args)]
#[command(
    after_help = "It reads the ledger of a deployment, and buys nothing. AWS shows the discount of a plan by type, region, term and \
                        payment on https://aws.amazon.com/savingsplans/compute-pricing/. What the account has committed to already is \
                        subtracted. Exit codes: 0 found, or none pays; 2 error, or a ledger or what the account has could not be \
                        read.\n\nExample:\n  curfew recommend commitment --discount-percent 28\n  \
                        curfew recommend commitment --plan ec2-instance --discount-percent 40\n  \
                        curfew recommend commitment --discount-percent 45.5 --months 6 --json"
)]
pub(super) struct CommitmentArguments {
    /// The percentage by which the plan's rates are below on demand, on average over the running types
    #[arg(long, value_name = "PERCENT", value_parser = discount, allow_negative_numbers = true)]
    discount_percent: f64,
    /// The plan to buy
    #[arg(long, value_name = "KIND", value_enum, default_value_t = PlanArgument::Compute)]
    plan: PlanArgument,
    /// Look at so many months, with the current one
    #[arg(long, value_name = "MONTHS", default_value_t = 2, value_parser = whole_number::<u8>(1, 36), allow_negative_numbers = true)]
    months: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanArgument {
    /// For EC2 in every region
    Compute,
    /// For one family of EC2 in one region: one for each that ran
    Ec2Instance,
    /// For SageMaker
    Sagemaker,
}

/// ```json
/// {"schema": 1, "plan": "compute", "discount_percent": 28.0, "usd_per_hour": 5.04, "covers_usd_per_hour": 7.0, "hours": 720,
///  "on_demand_usd": 6100.0, "cost_usd": 4900.0, "saved_usd": 1200.0, "used_percent": 97, "full_hours": 650, "used_percent_min": 72,
///  "curve": {"hours": [{"from": "…", "usd": 7.2}], "unpriced_seconds": 0, "folded_runs": 0, "hours_without_ledger": 0},
///  "later": [{"from": "…", "usd_per_hour": 8.2, "covers_usd_per_hour": 11.4}], "families": [],
///  "unread_ledgers": 0, "months_without_ledger": ["2026-10"],
///  "existing": {"savings_plans": [{"id": "…", "kind": "compute", "usd_per_hour": 5.0, "start": "…", "end": "…"}],
///               "reserved_instances": [{"id": "…", "type": "p5.48xlarge", "region": "…", "is_regional": true, "count": 2, …}],
///               "capacity_blocks": null, "other_reserved_instances": 0, "unknown": ["…"]}}
/// ```
/// All amounts are for the hours of the curve, behind what the account has now. `usd_per_hour` is 0 if no commitment pays. `later` is the best
/// commitment from each time on at which something that the account has begins or ends. For `ec2-instance` the figures are those of the family
/// that saves the most, and `families` has the same keys for each. A list under `existing` that could not be read is null.
#[derive(Serialize)]
struct CommitmentOutput<'a> {
    discount_percent: f64,
    #[serde(flatten)]
    best: &'a PlanAnswer,
    families: &'a [PlanAnswer],
    unread_ledgers: usize,
    months_without_ledger: &'a [String],
    existing: &'a ExistingCommitments,
}

/// The best commitment of one plan.
#[derive(Serialize)]
struct PlanAnswer {
    #[serde(flatten)]
    choice: PlanChoice,
    #[serde(flatten)]
    best: Commitment,
    curve: SpendCurve,
    later: Vec<LaterCommitment>,
}

/// The best commitment once something that the account has begins or ends.
#[derive(Serialize)]
struct LaterCommitment {
    from: Timestamp,
    usd_per_hour: Rate,
    covers_usd_per_hour: Rate,
}

impl CommitmentArguments {
    pub(super) async fn run(self, account: &Account) -> Result<CommandStatus, CommandError> {
        let context = account.needs_context()?;
        let deployed = account.deployed().await?;
        if deployed.store.is_none() {
            // It says what is missing.
            context.needs_deployed().await?;
        }
        let LedgersRead { ledgers, unread, absent } =
            account.read_ledgers(&deployed, None, usize::from(self.months) - 1).await;
        let usage = UsageCurve::from_ledgers(&ledgers, account.now);
        if usage.hours.is_empty() {
            return Err(CommandError::with(
                "the ledger has seen no whole hour yet",
                "enforce-budgets keeps it; curfew doctor checks whether that runs",
            ));
        }
        // The option's parser has refused everything else.
        let discount = PlanDiscount::from_percent(self.discount_percent)
            .ok_or_else(|| CommandError::new("--discount-percent is from 0.0001 to 99.9999"))?;
        let existing = read_existing(&context.aws, &usage.regions()).await;
        let answer = |choice| PlanAnswer::new(&usage, &existing, choice, account.now, discount);
        let mut families = match self.plan {
            PlanArgument::Ec2Instance => usage
                .families()
                .into_iter()
                .map(|(family, region)| answer(PlanChoice::Ec2Instance { family, region }))
                .collect(),
            PlanArgument::Compute | PlanArgument::Sagemaker => Vec::new(),
        };
        families.sort_by_key(|family: &PlanAnswer| std::cmp::Reverse(family.best.saved));
        let whole = match self.plan {
            PlanArgument::Sagemaker => Some(answer(PlanChoice::SageMaker)),
            PlanArgument::Compute => Some(answer(PlanChoice::Compute)),
            PlanArgument::Ec2Instance => None,
        };
        let best = whole.as_ref().or_else(|| families.first()).ok_or_else(|| {
            CommandError::new("no instance ran on demand in these hours, so there is no family for a plan")
        })?;
        if account.json {
            screen::json(&CommitmentOutput {
                discount_percent: self.discount_percent,
                best,
                families: &families,
                unread_ledgers: unread,
                months_without_ledger: &absent,
                existing: &existing,
            })?;
        } else {
            show_existing(&existing, self.discount_percent);
            for answer in whole.iter().chain(&families) {
                answer.show(self.discount_percent);
            }
            screen::print_line(NOT_SEEN);
            if !absent.is_empty() {
                screen::warn(format_args!("there is no ledger of {}: what ran then is unknown", absent.join(", ")));
            }
        }
        let is_complete = existing.unknown.is_empty() && unread == 0;
        Ok(if is_complete { CommandStatus::Success } else { CommandStatus::Error })
    }
}

/// The commitments of the account, in one call for its plans and two for each region.
async fn read_existing(aws: &cloud::Aws, regions: &[Region]) -> ExistingCommitments {
    let mut existing = ExistingCommitments::default();
    let plans = savings_plans(aws);
    let reserved = join_all(regions.iter().map(|region| reserved_instances(aws, region)));
    let blocks = join_all(regions.iter().map(|region| capacity_blocks(aws, region)));
    let (plans, reserved, blocks) = futures::join!(plans, reserved, blocks);
    let mut unknown = |what: &str, error: &CallError| {
        existing.unknown.push(format!("{what} are unknown: {}", describe_call_error(error)));
    };
    let plans = plans.map_err(|error| unknown("Savings Plans", &error)).ok();
    let mut all_reserved: Option<Vec<ReservedInstances>> = Some(Vec::new());
    let mut others = 0_u64;
    for answer in reserved {
        match answer {
            Ok((found, other)) => {
                others = others.saturating_add(other);
                if let Some(all) = &mut all_reserved {
                    all.extend(found);
                }
            }
            Err(error) => {
                unknown("Reserved Instances", &error);
                all_reserved = None;
            }
        }
    }
    let mut all_blocks = Some(Vec::new());
    for answer in blocks {
        match answer {
            Ok(found) => {
                if let Some(all) = &mut all_blocks {
                    all.extend(found);
                }
            }
            Err(error) => {
                unknown("Capacity Blocks", &error);
                all_blocks = None;
            }
        }
    }
    ExistingCommitments {
        savings_plans: plans,
        reserved_instances: all_reserved,
        capacity_blocks: all_blocks,
        other_reserved_instances: others,
        ..existing
    }
}

impl PlanAnswer {
    fn new(
        usage: &UsageCurve,
        existing: &ExistingCommitments,
        choice: PlanChoice,
        now: Timestamp,
        discount: PlanDiscount,
    ) -> Self {
        let curve = usage.spend(existing, &choice, now, discount);
        let best = best_commitment(&curve.hours, discount);
        let changes = existing.changes(now).into_iter().take_while(|at| *at < after(now, PLAN_LENGTH));
        let later = changes.take(CHANGES_MAX).map(|from| {
            let best = best_commitment(&usage.spend(existing, &choice, from, discount).hours, discount);
            LaterCommitment { from, usd_per_hour: best.rate, covers_usd_per_hour: best.covered }
        });
        Self { later: later.collect(), choice, best, curve }
    }

    fn show(&self, discount_percent: f64) {
        let Self { choice, best, curve, later } = self;
        let whose = match choice {
            PlanChoice::Compute => "Instances on demand".to_owned(),
            PlanChoice::Ec2Instance { family, region } => format!("{family} on demand in {region}"),
            PlanChoice::SageMaker => "SageMaker on demand".to_owned(),
        };
        show(&whose, best, curve, discount_percent);
        for LaterCommitment { from, usd_per_hour, .. } in later.iter().filter(|later| later.usd_per_hour != best.rate) {
            screen::print_line(format!(
                "From {} on, when something that the account has begins or ends, it would be {usd_per_hour}.",
                from.strftime("%Y-%m-%d")
            ));
        }
        screen::print_line("");
    }
}

/// The commitments of the account come before what it could buy: whoever buys the same twice pays for it for years.
fn show_existing(existing: &ExistingCommitments, discount_percent: f64) {
    for unknown in &existing.unknown {
        screen::print_line(format!("UNKNOWN: {unknown}. Subtract what they cover before you buy."));
    }
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let mut lines: Vec<String> = Vec::new();
    for plan in existing.savings_plans.iter().flatten() {
        let covers = match &plan.scope {
            PlanScope::Compute => "Compute Savings Plan".to_owned(),
            PlanScope::SageMaker => "SageMaker Savings Plan".to_owned(),
            PlanScope::Ec2Instance { family, region } => format!("EC2 Instance Savings Plan of {family} in {region}"),
            PlanScope::Other { name } => format!("{name} Savings Plan, which covers no GPU"),
        };
        lines.push(format!("{covers}: {}, {} to {}", plan.commitment, day(plan.start), day(plan.end)));
    }
    for one in existing.reserved_instances.iter().flatten() {
        let (start, end) = (day(one.start), day(one.end));
        lines.push(format!(
            "{} Reserved Instances {} in {}: {start} to {end}",
            one.count, one.instance_type, one.region
        ));
    }
    for block in existing.capacity_blocks.iter().flatten() {
        let end = block.end.map_or_else(|| "an unknown time".to_owned(), day);
        let words = "prepaid, and in no figure below";
        lines.push(format!(
            "Capacity Block of {} {} in {}, until {end}: {words}",
            block.count, block.instance_type, block.region
        ));
    }
    if existing.other_reserved_instances > 0 {
        lines.push(format!(
            "{} Reserved Instances for another platform or dedicated hardware, which are not subtracted",
            existing.other_reserved_instances
        ));
    }
    if lines.is_empty() {
        if existing.unknown.is_empty() {
            screen::print_line("The account has no Savings Plans, Reserved Instances or Capacity Blocks.\n");
        }
        return;
    }
    screen::print_line("Already committed, and subtracted from all figures below:");
    for line in lines.iter().take(NAMED_MAX) {
        screen::print_line(format!("  {line}"));
    }
    if lines.len() > NAMED_MAX {
        screen::print_line(format!("  and {} more (--json lists them)", lines.len() - NAMED_MAX));
    }
    if existing.savings_plans.iter().flatten().next().is_some() {
        screen::print_line(format!(
            "Its plans are taken at the same discount of {discount_percent} %: AWS publishes their discounts only by type."
        ));
    }
    screen::print_line("");
}

fn show(whose: &str, best: &Commitment, curve: &SpendCurve, discount_percent: f64) {
    if let (Some(HourSpend { from, .. }), Some(HourSpend { from: last, .. })) =
        (curve.hours.first(), curve.hours.last())
    {
        let hours = screen::counted(curve.hours.len(), "hour");
        screen::print_line(format!(
            "{whose} cost {} in {hours}, from {} to {}:\n",
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
        screen::warn(format_args!("{hours} hours ran at an unknown price, which no figure counts"));
    }
    if curve.folded_runs > 0 {
        let runs = curve.folded_runs;
        screen::warn(format!(
            "the ledger has only the sums of {runs} runs, which count in no hour, so the curve is too low"
        ));
    }
    if curve.hours_without_ledger > 0 {
        let hours = curve.hours_without_ledger;
        screen::warn(format_args!("{hours} hours are of months without a ledger: what ran in them is unknown"));
    }
}

pub(super) fn discount(text: &str) -> Result<f64, InvalidValue> {
    let percent =
        text.trim_end_matches('%').trim().parse().ok().filter(|percent| PlanDiscount::from_percent(*percent).is_some());
    percent.ok_or_else(|| InvalidValue::new("write a percentage from 0.0001 to 99.9999, such as 28"))
}
