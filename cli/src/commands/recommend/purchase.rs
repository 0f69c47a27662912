//! `curfew recommend purchase`: from how many hours a month a bought machine costs less than a rented one.

use clap::Args;
use model::fault::InvalidValue;
use model::id::Region;
use model::id::TypeName;
use model::money::{Amount, Rate};
use recommend::commitment::PlanDiscount;
use recommend::purchase::{ASSUMPTIONS, Assumption, BreakEven, MONTH_HOURS, Machine};
use recommend::{GpuOffer, check_type};
use serde::Serialize;

use super::account::Account;
use super::commitment::discount;
use super::numbers::{number, whole_number};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::screen::{self, ColumnAlignment, Table};

/// The type of the defaults.
const DEFAULT_TYPE: &str = "p5.48xlarge";
const DEFAULT_REGION: &str = "us-east-1";

/// The largest accepted figure, in dollars: a thousand of the most expensive servers.
const USD_MAX: f64 = 1e9;

/// Compare buying a GPU server with renting an instance: the hours a month from which buying costs less
#[derive(Debug, Args)]
#[command(
    after_help = "The defaults are of a server with 8 H100 GPUs; for another type name at least its price and its watts. Every \
                        default is shown with its source. Exit codes: 0 compared; 2 error.\n\nExample:\n  \
                        curfew recommend purchase\n  curfew recommend purchase --price-usd 430000 --usd-per-hour 38.5"
)]
pub(crate) struct Purchase {
    /// Compare with this instance type on demand
    #[arg(long = "type", value_name = "TYPE", default_value = DEFAULT_TYPE)]
    instance_type: String,
    /// Rent at this price an hour instead [default: on demand in the region of --region or the environment, else us-east-1, by the
    /// Price List or the dated table]
    #[arg(long, value_name = "USD", value_parser = price, allow_negative_numbers = true)]
    usd_per_hour: Option<f64>,
    /// The price of the server [default: 317000, of 8 H100]
    #[arg(long, value_name = "USD", value_parser = price, allow_negative_numbers = true)]
    price_usd: Option<f64>,
    /// The power that it draws, all the time [default: 10200, of 8 H100]
    #[arg(long, value_name = "WATTS", value_parser = whole_number::<u64>(1, 1_000_000), allow_negative_numbers = true)]
    watts: Option<u64>,
    /// The PUE: the factor by which its data center takes more power [default: 1.54]
    #[arg(long, value_name = "FACTOR", value_parser = pue, allow_negative_numbers = true)]
    pue: Option<f64>,
    /// The price of electricity [default: 0.1282]
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    usd_per_kwh: Option<f64>,
    /// The price of its place in a rack for each kilowatt, without electricity [default: 184.06]
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    colocation_usd_per_kw_month: Option<f64>,
    /// The cost of the people who look after it [default: 1000]
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    staff_usd_per_month: Option<f64>,
    /// The number of years that it is used [default: 5]
    #[arg(long, value_name = "YEARS", value_parser = whole_number::<u64>(1, 20), allow_negative_numbers = true)]
    years: Option<u64>,
    /// The percentage of its price that it sells for afterwards [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = whole_number::<u64>(0, 99), allow_negative_numbers = true)]
    residual_percent: Option<u64>,
    /// The yearly interest on its price, as a percentage: the price becomes an annuity over its years [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = interest, allow_negative_numbers = true)]
    interest_percent: Option<f64>,
    /// The percentage by which the rent is below that price, such as with a Savings Plan
    #[arg(long, value_name = "PERCENT", value_parser = discount, allow_negative_numbers = true)]
    discount_percent: Option<f64>,
    /// Ask AWS nothing: take the price on demand from the dated table
    #[arg(long)]
    offline: bool,
}

/// ```json
/// {"schema": 1, "type": "p5.48xlarge", "usd_per_hour": 55.04, "price_source": "table of 2026-09-24", "discount_percent": null,
///  "machine": {"price_usd": 317000.0, "watts": 10200, "pue_percent": 154, …, "months": 60, "residual_percent": 0, "interest_percent": 0.0},
///  "owned_usd_per_month": 9630.76, "running_usd_per_month": 4347.43, "hours_per_month": 175, "payback_months": 8.9,
///  "assumptions": [{"option": "--price-usd", "value": "317000", "source": "…"}]}
/// ```
/// `usd_per_hour` is the rent behind the discount. `hours_per_month` is null if renting costs less even for a whole month; `payback_months`, at full use, if it takes longer than its life.
/// `assumptions` are the defaults in use.
#[derive(Serialize)]
struct PurchaseOutput {
    #[serde(rename = "type")]
    instance_type: TypeName,
    usd_per_hour: Rate,
    price_source: String,
    discount_percent: Option<f64>,
    machine: Machine,
    #[serde(flatten)]
    found: BreakEvenOutput,
    assumptions: Vec<Assumption>,
}

#[derive(Serialize)]
struct BreakEvenOutput {
    owned_usd_per_month: Amount,
    running_usd_per_month: Amount,
    hours_per_month: Option<u64>,
    payback_months: Option<f64>,
}

impl Purchase {
    pub(super) async fn run(self, account: &Account) -> Result<CommandStatus, CommandError> {
        let instance_type = TypeName::from(self.instance_type.as_str());
        self.check_type(account, &instance_type).await?;
        let is_default = self.instance_type == DEFAULT_TYPE;
        let needed = |option: &str| {
            let problem = format!("{option} is needed for {instance_type}: the default is of {DEFAULT_TYPE}");
            CommandError::new(problem)
        };
        let usual = Machine::eight_h100();
        let price = self.price_usd.map(Amount::from_usd).or(is_default.then_some(usual.price));
        let watts = self.watts.or(is_default.then_some(usual.watts));
        let machine = Machine {
            price: price.ok_or_else(|| needed("--price-usd"))?,
            watts: watts.ok_or_else(|| needed("--watts"))?,
            pue_percent: self.pue.map_or(usual.pue_percent, hundredths),
            kwh: self.usd_per_kwh.map_or(usual.kwh, Amount::from_usd),
            colocation: self.colocation_usd_per_kw_month.map_or(usual.colocation, Amount::from_usd),
            staff: self.staff_usd_per_month.map_or(usual.staff, Amount::from_usd),
            months: self.years.map_or(usual.months, |years| years.saturating_mul(12)),
            residual_percent: self.residual_percent.unwrap_or(usual.residual_percent),
            interest_hundredths: self.interest_percent.map_or(usual.interest_hundredths, whole_hundredths),
        };
        let (rent, price_source) = self.rent(account, &instance_type).await?;
        let (rent, price_source) = self.reduce(rent, price_source);
        let found = machine.break_even(rent);
        let assumptions = self.assumptions();
        if account.json {
            let found = BreakEvenOutput {
                owned_usd_per_month: found.owned_per_month,
                running_usd_per_month: found.running_per_month,
                hours_per_month: found.hours_per_month,
                payback_months: found.payback_tenths_of_months.map(tenths),
            };
            let output = PurchaseOutput {
                instance_type,
                usd_per_hour: rent,
                price_source,
                discount_percent: self.discount_percent,
                machine,
                found,
                assumptions,
            };
            screen::json(&output)?;
        } else {
            show(&instance_type, (rent, &price_source), &machine, &found);
            if self.discount_percent.is_some() {
                screen::print_line(
                    "A Savings Plan is paid for every hour, used or not: the hours hold only where other usage takes the rest of it.",
                );
            }
            print_assumptions(&assumptions);
        }
        Ok(CommandStatus::Success)
    }
}

impl Purchase {
    pub(super) const fn is_offline(&self) -> bool {
        self.offline
    }

    /// Checks that the table or EC2 has the type. Without a named rent the Price List refuses a type that nobody sells.
    async fn check_type(&self, account: &Account, instance_type: &TypeName) -> Result<(), CommandError> {
        let refusal = match check_type(instance_type, &[]) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        let is_sold = match (&account.context, account.home().await?) {
            (Some(_), _) if self.usd_per_hour.is_none() => true,
            (Some(_), Some(home)) => {
                let (offers, _) = account.offers(std::slice::from_ref(home)).await;
                check_type(instance_type, &offers).is_ok()
            }
            _ => false,
        };
        if is_sold { Ok(()) } else { Err(CommandError::new(format!("--type: {refusal}"))) }
    }

    /// The price of renting an hour, and its source.
    async fn rent(&self, account: &Account, instance_type: &TypeName) -> Result<(Rate, String), CommandError> {
        if let Some(usd) = self.usd_per_hour {
            let rate = Rate::from_usd_micros_per_hour(Amount::from_usd(usd).usd_micros());
            return Ok((rate, "as --usd-per-hour says".to_owned()));
        }
        let region = account.home().await?.cloned().unwrap_or_else(|| Region::from(DEFAULT_REGION));
        let deployed = account.deployed().await?;
        let prices = account.prices(&deployed, &[GpuOffer::named(&region, instance_type)], false).await;
        let quote = prices.on_demand(&region, instance_type).ok_or_else(|| {
            CommandError::with(
                format!("what {instance_type} costs on demand in {region} is unknown"),
                "pass --usd-per-hour, or another --region",
            )
        })?;
        Ok((quote.rate, format!("on demand in {region}, {}", quote.source.describe())))
    }

    /// The rent behind the discount, and its source.
    fn reduce(&self, rent: Rate, source: String) -> (Rate, String) {
        match self.discount_percent.and_then(|percent| Some((percent, PlanDiscount::from_percent(percent)?))) {
            Some((percent, discount)) => {
                (discount.reduce(rent), format!("{rent} {source}, less {percent} % as --discount-percent says"))
            }
            None => (rent, source),
        }
    }

    /// The defaults in use.
    fn assumptions(&self) -> Vec<Assumption> {
        let is_said = |option: &str| match option {
            "--price-usd" => self.price_usd.is_some(),
            "--watts" => self.watts.is_some(),
            "--pue" => self.pue.is_some(),
            "--usd-per-kwh" => self.usd_per_kwh.is_some(),
            "--colocation-usd-per-kw-month" => self.colocation_usd_per_kw_month.is_some(),
            "--staff-usd-per-month" => self.staff_usd_per_month.is_some(),
            "--years" => self.years.is_some(),
            "--residual-percent" => self.residual_percent.is_some(),
            "--interest-percent" => self.interest_percent.is_some(),
            _ => false,
        };
        ASSUMPTIONS.into_iter().filter(|one| !is_said(one.option)).collect()
    }
}

fn show(instance_type: &TypeName, (rent, source): (Rate, &str), machine: &Machine, found: &BreakEven) {
    let interest = f64::from(machine.interest_hundredths) / 100.0;
    let paid = if machine.interest_hundredths > 0 {
        format!("paid back over {} months at {interest} % interest a year", machine.months)
    } else {
        format!("written off over {} months", machine.months)
    };
    screen::print_line(format!(
        "Renting a {instance_type} costs {rent} ({source}). A server for {}, {paid}, costs {} a month, used or not; {} of that \
         without its price.",
        machine.price, found.owned_per_month, found.running_per_month
    ));
    screen::print_line(match found.hours_per_month {
        Some(hours) => format!("Buying costs less from {hours} hours a month on, of {MONTH_HOURS}."),
        None => format!("Renting costs less even for all {MONTH_HOURS} hours of a month."),
    });
    screen::print_line(match found.payback_tenths_of_months {
        Some(payback) => format!("At full use it has paid for itself after {:.1} months.", tenths(payback)),
        None => "It does not pay for itself within its life, even at full use.".to_owned(),
    });
    let interest = if machine.interest_hundredths > 0 { "" } else { "interest, " };
    screen::print_line(format!("Not counted: {interest}repairs, and the network between servers."));
}

fn print_assumptions(assumptions: &[Assumption]) {
    if assumptions.is_empty() {
        return;
    }
    let mut table = Table::new([("assumed", ColumnAlignment::Whole), ("value", ColumnAlignment::Right)]);
    for Assumption { option, value, source } in assumptions {
        table.row_with_notes([(*option).to_owned(), (*value).to_owned()], source);
    }
    screen::print_line("");
    table.print();
}

#[expect(clippy::cast_precision_loss, reason = "a life has a few hundred tenths of months")]
fn tenths(tenths: u64) -> f64 {
    tenths as f64 / 10.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a PUE lies between 1 and 10")]
fn hundredths(factor: f64) -> u64 {
    (factor * 100.0).round() as u64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 0 and a hundred percent")]
fn whole_hundredths(percent: f64) -> u32 {
    (percent * 100.0).round() as u32
}

fn interest(text: &str) -> Result<f64, InvalidValue> {
    number(text, 100.0, |percent| percent >= 0.0, "a percentage from 0 on, such as 8")
}

fn price(text: &str) -> Result<f64, InvalidValue> {
    number(text, USD_MAX, |usd| usd > 0.0, "US dollars as a number above 0, such as 1000 or 0.12")
}

/// Reads an amount that may be zero: one's own rack may cost nothing.
fn usd(text: &str) -> Result<f64, InvalidValue> {
    number(text, USD_MAX, |usd| usd >= 0.0, "US dollars as a number from 0 on, such as 1000 or 0.12")
}

fn pue(text: &str) -> Result<f64, InvalidValue> {
    number(text, 10.0, |factor| factor >= 1.0, "a factor from 1 on, such as 1.3")
}
