//! Money in exact integers: rates in micro-USD per hour.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Serialize, Serializer};

/// Hours in an average month (365.25 days / 12), as AWS's own calculators round it.
const HOURS_PER_MONTH: u64 = 730;

/// What something costs while it runs, in micro-USD per hour. Serialised as USD per hour, a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Costs nothing.
    pub const ZERO: Self = Self(0);

    /// A rate of so many micro-USD per hour.
    #[must_use]
    pub const fn from_usd_micros_per_hour(usd_micros: u64) -> Self {
        Self(usd_micros)
    }

    /// Micro-USD per hour.
    #[must_use]
    pub const fn usd_micros_per_hour(self) -> u64 {
        self.0
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
        self.0 * HOURS_PER_MONTH / 1_000_000
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.2}/h", self.usd_per_hour())
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

/// A rate for people: `$3.91/h ($2855 a month)`, or that it is not known.
#[must_use]
pub fn show(rate: Option<Rate>) -> String {
    match rate {
        Some(rate) => format!("{rate} (${} a month)", rate.usd_per_month()),
        None => "price unknown".to_owned(),
    }
}
