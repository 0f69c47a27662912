//! Hours a month from which a bought machine costs less than a rented one.
//!
//! A bought machine costs the same whether it is used or not: its price over its life, its rack, its electricity (counted as if it always
//! drew all of its power, which is the more expensive case) and the people who look after it. A rented machine costs by the hour. With interest
//! the price is paid back in equal payments over the life of the machine, an annuity. Repairs and the network are not counted.

use model::money::{Amount, Rate};
use serde::{Serialize, Serializer};

/// Hours of a month, as AWS counts them (AWS Pricing Calculator user guide).
pub const MONTH_HOURS: u64 = 730;

const PERCENT: u64 = 100;
const WATTS_PER_KW: u64 = 1_000;

/// An assumption: the value unless a flag gives another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// The option that replaces it.
    pub option: &'static str,
    pub value: &'static str,
    /// Source of the value, with its date.
    pub source: &'static str,
}

/// The defaults of [`Machine`]: a server with 8 H100 GPUs. The price is what one reseller quoted; a price of today comes from a quotation.
pub const ASSUMPTIONS: [Assumption; 9] = [
    Assumption {
        option: "--price-usd",
        value: "317000",
        source: "quotation of a reseller (Thinkmate) for 8 H100 SXM with InfiniBand, August 2024",
    },
    Assumption {
        option: "--watts",
        value: "10200",
        source: "NVIDIA DGX H100 data sheet, the most that it draws, 2023",
    },
    Assumption { option: "--pue", value: "1.54", source: "Uptime Institute, Global Data Center Survey 2025" },
    Assumption {
        option: "--usd-per-kwh",
        value: "0.1282",
        source: "EIA, Electric Power Monthly, table 5.6.A, commercial, East North Central, April 2025",
    },
    Assumption {
        option: "--colocation-usd-per-kw-month",
        value: "184.06",
        source: "CBRE, North America Data Center Trends H2 2024, primary markets, without electricity, February 2025",
    },
    Assumption {
        option: "--staff-usd-per-month",
        value: "1000",
        source: "an assumption: no source covers one machine",
    },
    Assumption {
        option: "--years",
        value: "5",
        source: "Amazon, Form 10-K for 2024: useful life of a part of its servers",
    },
    Assumption { option: "--residual-percent", value: "0", source: "an assumption: it has no value afterwards" },
    Assumption { option: "--interest-percent", value: "0", source: "an assumption: the money for it costs nothing" },
];

/// A machine that somebody could buy, and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Machine {
    #[serde(rename = "price_usd")]
    pub price: Amount,
    pub watts: u64,
    /// Times a hundred.
    pub pue_percent: u64,
    #[serde(rename = "usd_per_kwh")]
    pub kwh: Amount,
    #[serde(rename = "colocation_usd_per_kw_month")]
    pub colocation: Amount,
    #[serde(rename = "staff_usd_per_month")]
    pub staff: Amount,
    /// Months over which the machine is written off.
    pub months: u64,
    /// Resale value afterwards, in percent of its price.
    pub residual_percent: u64,
    /// Yearly interest on its price, in hundredths of a percent.
    #[serde(rename = "interest_percent", serialize_with = "serialize_hundredths")]
    pub interest_hundredths: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn serialize_hundredths<S: Serializer>(hundredths: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(f64::from(*hundredths) / 100.0)
}

/// Break-even point of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BreakEven {
    /// Monthly cost, used or not, including the write-off.
    #[serde(rename = "owned_usd_per_month")]
    pub owned_per_month: Amount,
    /// Monthly cost without the write-off.
    #[serde(rename = "running_usd_per_month")]
    pub running_per_month: Amount,
    /// Hours a month from which the machine costs less than renting; `None` if it takes more than a month has.
    pub hours_per_month: Option<u64>,
    /// Tenths of a month of full use after which the machine has paid for itself; `None` if never within its life.
    pub payback_tenths_of_months: Option<u64>,
}

impl Machine {
    /// Returns a server with 8 H100 GPUs, by the [`ASSUMPTIONS`].
    #[must_use]
    pub const fn eight_h100() -> Self {
        Self {
            price: Amount::from_usd_micros(317_000_000_000),
            watts: 10_200,
            pue_percent: 154,
            kwh: Amount::from_usd_micros(128_200),
            colocation: Amount::from_usd_micros(184_060_000),
            staff: Amount::from_usd_micros(1_000_000_000),
            months: 60,
            residual_percent: 0,
            interest_hundredths: 0,
        }
    }

    /// Compared with renting at that price; a price of nothing is never beaten.
    #[must_use]
    pub fn break_even(&self, rent: Rate) -> BreakEven {
        let running_per_month = self.electricity() + self.rack() + self.staff;
        let owned_per_month = self.write_off() + running_per_month;
        let hour = u128::from(rent.usd_micros_per_hour());
        let micros = |amount: Amount| u128::from(amount.usd_micros());
        let hours = micros(owned_per_month).div_ceil(hour.max(1));
        let full_use = hour * u128::from(MONTH_HOURS);
        let gain = full_use.checked_sub(micros(running_per_month)).filter(|gain| *gain > 0);
        let payback = match self.monthly_interest() {
            None => gain.and_then(|gain| u64::try_from((micros(self.price) * 10).div_ceil(gain)).ok()),
            Some(interest) => gain.and_then(|gain| payback_with_interest(micros(self.price), gain, interest)),
        };
        BreakEven {
            owned_per_month,
            running_per_month,
            hours_per_month: u64::try_from(hours).ok().filter(|hours| hour > 0 && *hours <= MONTH_HOURS),
            payback_tenths_of_months: payback.filter(|tenths| *tenths <= self.months.saturating_mul(10)),
        }
    }

    /// Monthly payment for its price, less what it sells for afterwards: an equal share, or with interest the annuity.
    fn write_off(&self) -> Amount {
        let residual = self.price.scaled(self.residual_percent, PERCENT);
        let months = self.months.max(1);
        let Some(interest) = self.monthly_interest() else {
            return self.price.saturating_sub(residual).scaled(1, months);
        };
        // The worth today of a payment at the end.
        let worth = (1.0 + interest).powi(-i32::try_from(months).unwrap_or(i32::MAX));
        Amount::from_usd((self.price.usd() - residual.usd() * worth) * interest / (1.0 - worth))
    }

    /// Interest of a month, as a share; `None` if there is none.
    fn monthly_interest(&self) -> Option<f64> {
        (self.interest_hundredths > 0).then(|| f64::from(self.interest_hundredths) / 10_000.0 / 12.0)
    }

    fn electricity(&self) -> Amount {
        let watt_hours = self.watts.saturating_mul(MONTH_HOURS);
        self.kwh.scaled(watt_hours.saturating_mul(self.pue_percent), WATTS_PER_KW * PERCENT)
    }

    fn rack(&self) -> Amount {
        self.colocation.scaled(self.watts, WATTS_PER_KW)
    }
}

/// Tenths of a month in which a monthly gain pays back the price with its interest; `None` if it never does.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a figure of two digits; a cast of floats saturates"
)]
fn payback_with_interest(price: u128, gain: u128, interest: f64) -> Option<u64> {
    let paid_back = 1.0 - price as f64 * interest / gain as f64;
    (paid_back > 0.0).then(|| (-paid_back.ln() / interest.ln_1p() * 10.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P5: Rate = Rate::from_usd_micros_per_hour(55_040_000);

    fn check(machine: Machine, rent: Rate, hours: Option<u64>, payback_tenths: Option<u64>) {
        let found = machine.break_even(rent);
        assert_eq!((found.hours_per_month, found.payback_tenths_of_months), (hours, payback_tenths), "{found:?}");
    }

    #[test]
    fn eight_h100_pay_after_9_months_of_full_use_against_on_demand() {
        // 10.2 kW x 1.54 x 730 h x $0.1282 = $1,470; 10.2 x $184.06 = $1,877; $1,000; and $317,000 / 60 = $5,283.
        let found = Machine::eight_h100().break_even(P5);
        assert_eq!(found.running_per_month.to_string(), "$4,347.46");
        assert_eq!(found.owned_per_month.to_string(), "$9,630.79");
        check(Machine::eight_h100(), P5, Some(175), Some(89));
    }

    #[test]
    fn it_takes_12_to_18_months_at_a_dearer_price_or_a_cheaper_rent() {
        let dgx = Machine { price: Amount::from_usd(430_000.0), ..Machine::eight_h100() };
        check(dgx, P5, Some(210), Some(121));
        check(Machine::eight_h100(), Rate::from_usd_micros_per_hour(33_000_000), Some(292), Some(161));
    }

    #[test]
    fn interest_makes_an_annuity_of_the_price() {
        // 60 payments at 8 % a year, the usual formula of an annuity: $6,428 instead of $5,283.
        let machine = Machine { interest_hundredths: 800, ..Machine::eight_h100() };
        let found = machine.break_even(P5);
        assert_eq!(found.owned_per_month.saturating_sub(found.running_per_month).to_string(), "$6,427.62");
        check(machine, P5, Some(196), Some(92));
        // What it sells for afterwards is worth less today.
        let sold = Machine { residual_percent: 20, ..machine }.break_even(P5);
        assert_eq!(sold.owned_per_month.saturating_sub(sold.running_per_month).to_string(), "$5,564.76");
        check(
            Machine { interest_hundredths: 20_000, ..machine },
            Rate::from_usd_micros_per_hour(20_000_000),
            None,
            None,
        );
    }

    #[test]
    fn what_can_never_pay_is_said() {
        check(Machine::eight_h100(), Rate::from_usd_micros_per_hour(5_000_000), None, None);
        check(Machine::eight_h100(), Rate::ZERO, None, None);
        // Cheaper than all hours of a month, but not within its life.
        let short = Machine { months: 6, residual_percent: 90, ..Machine::eight_h100() };
        check(short, P5, Some(175), None);
    }

    #[test]
    fn every_assumption_is_the_default_and_has_a_source_with_its_year() {
        let values: Vec<f64> = ASSUMPTIONS.iter().map(|one| one.value.parse().unwrap()).collect();
        let Machine {
            price,
            watts,
            pue_percent,
            kwh,
            colocation,
            staff,
            months,
            residual_percent,
            interest_hundredths,
        } = Machine::eight_h100();
        let number = |whole: u64| f64::from(u32::try_from(whole).unwrap());
        let defaults = [
            price.usd(),
            number(watts),
            number(pue_percent) / 100.0,
            kwh.usd(),
            colocation.usd(),
            staff.usd(),
            number(months) / 12.0,
            number(residual_percent),
            f64::from(interest_hundredths) / 100.0,
        ];
        assert_eq!(values, defaults);
        assert!(ASSUMPTIONS.iter().all(|one| one.source.contains("20") || one.source.starts_with("an assumption")));
    }
}
