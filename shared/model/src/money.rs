//! Money in exact integers: rates in micro-USD per hour, amounts as rate times seconds.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Hours in an average month (365.25 days / 12), as AWS's own calculators round it.
const HOURS_PER_MONTH: u64 = 730;

/// Micro-USD of a cent.
pub const USD_MICROS_PER_CENT: u64 = 10_000;

/// The largest budget, in USD: a larger one is a typing error.
pub const USD_MAX: f64 = 1_000_000_000.0;

/// The highest price of a machine, in USD an hour: a higher one is a typing error.
pub const USD_PER_HOUR_MAX: f64 = 1_000_000.0;

/// Cost of something while it runs, in micro-USD per hour. Serialised as USD per hour, a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Costs nothing.
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub const fn from_usd_micros_per_hour(usd_micros: u64) -> Self {
        Self(usd_micros)
    }

    /// Converts micro-USD per month of 730 hours, rounded up to the next micro-USD per hour, so that a price in whole cents a month is
    /// shown as the same price again.
    #[must_use]
    pub const fn from_usd_micros_per_month(usd_micros: u64) -> Self {
        Self(usd_micros.div_ceil(HOURS_PER_MONTH))
    }

    /// USD per hour as people write them, to the nearest micro-USD.
    #[must_use]
    pub fn from_usd_per_hour(usd: f64) -> Self {
        Self(Amount::from_usd(usd).usd_micros())
    }

    #[must_use]
    pub const fn usd_micros_per_hour(self) -> u64 {
        self.0
    }

    /// Subtracts a rate; the result is at least zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// USD per hour, for showing only.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown, never computed with; 2^52 micro-USD an hour is beyond any account"
    )]
    pub fn usd_per_hour(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whole USD of a month of 730 hours, rounded down, for showing only.
    #[must_use]
    pub const fn usd_per_month(self) -> u64 {
        self.0.saturating_mul(HOURS_PER_MONTH) / 1_000_000
    }

    /// Cents of a month of 730 hours, rounded to the nearest, for showing only: volumes cost less than what is worth saying
    /// by the hour.
    #[must_use]
    pub const fn usd_cents_per_month(self) -> u64 {
        (self.0.saturating_mul(HOURS_PER_MONTH).saturating_add(USD_MICROS_PER_CENT / 2)) / USD_MICROS_PER_CENT
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}/h", grouped(&format!("{:.2}", self.usd_per_hour())))
    }
}

impl Rate {
    /// Returns the rate of so many resources that each have this one.
    #[must_use]
    pub const fn of_all(self, count: u8) -> Self {
        Self(self.0.saturating_mul(count as u64))
    }

    /// Returns the share of each of so many resources in this rate, rounded down.
    #[must_use]
    pub fn of_each(self, count: u8) -> Self {
        Self(self.0.checked_div(u64::from(count)).unwrap_or(self.0))
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        rates.fold(Self::ZERO, Self::add)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.usd_per_hour())
    }
}

/// Reads a written rate back, exact to the micro-USD an hour.
impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        if usd.is_finite() && (0.0..1e9).contains(&usd) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked above: not negative, and far below 2^53"
            )]
            return Ok(Self((usd * 1e6).round() as u64));
        }
        Err(serde::de::Error::custom(format!("{usd} is not a price; it is a number of USD an hour from 0 up")))
    }
}

/// An amount of money: a rate times seconds, and so exact. It is divided only to be shown or written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(u128);

/// Seconds of an hour: a rate in micro-USD per hour, times seconds, is this many times an amount in micro-USD.
const SECONDS_PER_HOUR: u128 = 3_600;

impl Amount {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// The cost of this number of seconds at that rate.
    #[must_use]
    pub const fn from_rate(rate: Rate, seconds: u64) -> Self {
        Self(rate.0 as u128 * seconds as u128)
    }

    #[must_use]
    pub const fn from_usd_micros(usd_micros: u64) -> Self {
        Self(usd_micros as u128 * SECONDS_PER_HOUR)
    }

    /// USD as people write them, to the nearest micro-USD; what is negative or no number is nothing.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of floats saturates, and makes 0 of what is negative or no number"
    )]
    pub fn from_usd(usd: f64) -> Self {
        Self::from_usd_micros((usd * 1e6).round() as u64)
    }

    /// Micro-USD, rounded to the nearest.
    #[must_use]
    pub fn usd_micros(self) -> u64 {
        u64::try_from(self.0.saturating_add(SECONDS_PER_HOUR / 2) / SECONDS_PER_HOUR).unwrap_or(u64::MAX)
    }

    /// USD to the micro-USD, for writing down.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "written down, never computed with; 2^53 micro-USD are beyond any account"
    )]
    pub fn usd(self) -> f64 {
        self.usd_micros() as f64 / 1e6
    }

    /// `true` if people are shown more than $0.00.
    #[must_use]
    pub fn is_a_cent(self) -> bool {
        self.usd_micros() >= USD_MICROS_PER_CENT / 2
    }

    /// Subtracts an amount; the result is at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns this share of the amount, rounded down by less than a micro-USD; zero if `denominator` is zero.
    #[must_use]
    pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
        Self(self.0.saturating_mul(u128::from(numerator)).checked_div(u128::from(denominator)).unwrap_or_default())
    }

    /// The next multiple of so many micro-USD. What is written down in whole micro-USD is read back as the same.
    #[must_use]
    pub fn rounded_up_to(self, usd_micros: u64) -> Self {
        let unit = Self::from_usd_micros(usd_micros.max(1)).0;
        Self(self.0.div_ceil(unit).saturating_mul(unit))
    }

    /// Returns the whole seconds that the amount lasts at this rate; `None` if it lasts for ever.
    #[must_use]
    pub fn lasts_at(self, rate: Rate) -> Option<u64> {
        self.0.checked_div(u128::from(rate.0)).map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// The rate at which it is spent in this number of seconds, rounded down; `None` if there is no time.
    #[must_use]
    pub fn spread_over(self, seconds: u64) -> Option<Rate> {
        self.0.checked_div(u128::from(seconds)).map(|rate| Rate(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// This share of a budget in whole percent, rounded down; `None` for a budget of nothing.
    #[must_use]
    pub fn percent_of(self, budget: Self) -> Option<u64> {
        u64::try_from(self.0.saturating_mul(100).checked_div(budget.0)?).ok()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", usd((self.usd_micros().saturating_add(USD_MICROS_PER_CENT / 2)) / USD_MICROS_PER_CENT))
    }
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::add)
    }
}

/// USD, a JSON number, to the micro-USD.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.usd())
    }
}

/// Reads a written amount back, exact to the micro-USD.
impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        if usd.is_finite() && usd >= 0.0 {
            return Ok(Self::from_usd(usd));
        }
        Err(serde::de::Error::custom(format!("{usd} is not an amount; it is a number of USD from 0 up")))
    }
}

/// A whole number for people: `195,394`.
#[must_use]
pub fn whole(number: u64) -> String {
    grouped(&number.to_string())
}

/// Cents as USD, for people: `195,394.73`.
#[must_use]
pub fn usd(cents: u64) -> String {
    grouped(&format!("{}.{:02}", cents / 100, cents % 100))
}

/// A comma after every third digit before the point.
fn grouped(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut grouped = String::new();
    for (place, digit) in number.char_indices() {
        if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A rate for people: `$3.91/h ($2,855 a month)`, or that it is not known.
#[must_use]
pub fn format_rate(rate: Option<Rate>) -> String {
    match rate {
        Some(rate) => format!("{rate} (${} a month)", grouped(&rate.usd_per_month().to_string())),
        None => "price unknown".to_owned(),
    }
}

/// A rate that is too small to be shown by the hour, for people: `$8.00 a month`, or that it is unknown.
#[must_use]
pub fn format_monthly_rate(rate: Option<Rate>) -> String {
    match rate.map(Rate::usd_cents_per_month) {
        Some(cents) => format!("${} a month", usd(cents)),
        None => "price unknown".to_owned(),
    }
}

/// Formats a rate that is too small to be shown by the hour, for a table: `$8.00/mo`.
#[must_use]
pub fn format_monthly_rate_shortly(rate: Rate) -> String {
    format!("${}/mo", usd(rate.usd_cents_per_month()))
}

/// Formats a rate by the hour for a line that is short of room: `$55/h`, and `$1.01/h` below ten dollars.
#[must_use]
pub fn format_hourly_rate_shortly(rate: Rate) -> String {
    const WHOLE_FROM: Rate = Rate::from_usd_micros_per_hour(10_000_000);
    let dollars = rate.usd_micros_per_hour().saturating_add(500_000) / 1_000_000;
    if rate < WHOLE_FROM { rate.to_string() } else { format!("${}/h", grouped(&dollars.to_string())) }
}

/// Serialises a rate as USD per month to the cent, a JSON number, or null where it is not known:
/// `#[serde(serialize_with = "money::as_usd_per_month")]`.
///
/// # Errors
///
/// The serializer's own.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with; 2^52 cents a month are beyond any account")]
pub fn as_usd_per_month<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    rate.map(|rate| rate.usd_cents_per_month() as f64 / 100.0).serialize(serializer)
}

#[cfg(test)]
mod tests;
