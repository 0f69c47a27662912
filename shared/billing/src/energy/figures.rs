//! Ranges of energy and carbon in integers, and how they are shown: with two significant digits, the low end rounded down and the high
//! end up, so that what is shown is never narrower than what is known.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::{RunningTime, SECONDS_PER_HOUR};

/// Range from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Bounds {
    /// Each end times its factor, divided.
    pub(super) fn times(self, factors: (u64, u64), divisor: u64) -> Self {
        let scaled = |value: u64, factor: u64| {
            let scaled = u128::from(value) * u128::from(factor) / u128::from(divisor.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self { low: scaled(self.low, factors.0), high: scaled(self.high, factors.1) }
    }

    /// Power over time: milliwatts become milliwatt-hours.
    pub(super) fn over(self, time: RunningTime) -> Self {
        self.times((time.least_seconds, time.most_seconds), SECONDS_PER_HOUR)
    }

    /// `1.2-1.9 kWh`: in the largest unit that the high end fills. Each unit is a thousand times the previous one, and the first a thousand of the
    /// counted unit.
    fn show(self, f: &mut fmt::Formatter<'_>, units: [&str; 3]) -> fmt::Result {
        let Self { low, high } = self.rounded();
        let place = units.iter().enumerate().rev().find(|(place, _)| high >= unit_size(*place));
        let (place, unit) = place.map_or((0, units[0]), |(place, unit)| (place, *unit));
        let (low, high) = (decimal(low, unit_size(place)), decimal(high, unit_size(place)));
        if low == high { write!(f, "{high} {unit}") } else { write!(f, "{low}-{high} {unit}") }
    }

    /// Rounds to two significant digits.
    fn rounded(self) -> Self {
        let step = |value: u64| 10_u64.pow(value.checked_ilog10().unwrap_or_default().saturating_sub(1));
        let low = self.low.saturating_sub(self.low.checked_rem(step(self.low)).unwrap_or_default());
        Self { low, high: self.high.div_ceil(step(self.high)).saturating_mul(step(self.high)) }
    }

    /// Writes the range in millions of the counted unit, as JSON numbers.
    #[expect(clippy::cast_precision_loss, reason = "two significant digits")]
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { low, high } = self.rounded();
        let mut range = serializer.serialize_struct("range", 2)?;
        range.serialize_field("low", &(low as f64 / 1e6))?;
        range.serialize_field("high", &(high as f64 / 1e6))?;
        range.end()
    }
}

impl Add for Bounds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { low: self.low.saturating_add(other.low), high: self.high.saturating_add(other.high) }
    }
}

fn unit_size(place: usize) -> u64 {
    [1_000, 1_000_000, 1_000_000_000].get(place).copied().unwrap_or(1_000)
}

/// A value of at most two significant digits in a unit, as few decimals as it has.
fn decimal(value: u64, unit: u64) -> String {
    let whole = value.checked_div(unit).unwrap_or_default();
    let width = usize::try_from(unit.ilog10()).unwrap_or_default();
    let decimals = format!("{:0width$}", value.checked_rem(unit).unwrap_or_default());
    let decimals = decimals.trim_end_matches('0');
    let mut grouped = String::new();
    let digits = whole.to_string();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if decimals.is_empty() { grouped } else { format!("{grouped}.{decimals}") }
}

macro_rules! range_type {
    ($(#[$doc:meta])* $name:ident, $units:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(Bounds);

        impl $name {
            pub(super) const fn from_bounds(bounds: Bounds) -> Self {
                Self(bounds)
            }

            /// Spans from the lower of two low ends to the higher of two high ends.
            pub(super) fn spanning(self, other: Self) -> Self {
                Self(Bounds { low: self.low().min(other.low()), high: self.high().max(other.high()) })
            }

            /// The low end, in thousandths of the smallest unit.
            #[must_use]
            pub const fn low(self) -> u64 {
                self.0.low
            }

            /// The high end, in thousandths of the smallest unit.
            #[must_use]
            pub const fn high(self) -> u64 {
                self.0.high
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.show(f, $units)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::default(), Self::add)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }
    };
}

range_type! {
    /// A range of energy, in milliwatt-hours. Shown as `1.2-1.9 kWh`; serialised as `{"low": 1.2, "high": 1.9}`, in kWh.
    Energy, ["Wh", "kWh", "MWh"]
}
range_type! {
    /// A range of greenhouse gases, in milligrams of CO2 equivalents. Shown as `0.4-0.7 kg CO2e`; serialised in kg.
    Carbon, ["g CO2e", "kg CO2e", "t CO2e"]
}
