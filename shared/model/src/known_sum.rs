//! A sum, and what it lacks.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::money::{Amount, Rate};

/// A sum some of whose parts may be unknown: prices of resources or of time, energy, carbon. It has no notation without what it lacks, and a sum
/// without any known part is unknown, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct KnownSum<T> {
    known: T,
    /// Parts, or seconds, that are not known.
    unknown: u64,
}

impl<T: Copy + Default + PartialEq + Add<Output = T>> KnownSum<T> {
    #[must_use]
    pub const fn new(known: T, unknown: u64) -> Self {
        Self { known, unknown }
    }

    /// A sum of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self::new(T::default(), 1)
    }

    /// The sum of these parts; `None` is an unknown one.
    pub fn from_parts(parts: impl IntoIterator<Item = Option<T>>) -> Self {
        parts.into_iter().fold(Self::default(), Self::with)
    }

    /// The sum with one part more.
    #[must_use]
    pub fn with(self, part: Option<T>) -> Self {
        Add::add(self, part.map_or_else(Self::unknown, |known| Self::new(known, 0)))
    }

    /// The sum of what is known, which is a lower bound if anything is not; `None` if nothing but zeros is known.
    #[must_use]
    pub fn known(self) -> Option<T> {
        (self.is_complete() || self.known != T::default()).then_some(self.known)
    }

    /// The number of parts, or of seconds, without a price.
    #[must_use]
    pub const fn unpriced(self) -> u64 {
        self.unknown
    }

    /// `true` if everything is known.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        self.unknown == 0
    }

    /// `true` for a complete sum of nothing, which a table may leave out.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.is_complete() && self.known == T::default()
    }

    /// A sum of prices for people, with the number of parts that it lacks: `at least $2.01/h; 1 without a price`; `unknown` if nothing has one.
    #[must_use]
    pub fn describe(self, format: impl Fn(T) -> String) -> String {
        match self.known() {
            Some(_) if !self.is_complete() => {
                format!("{}; {} without a price", self.describe_shortly(format), self.unknown)
            }
            _ => self.describe_shortly(format),
        }
    }

    /// The sum for a line that is short of room: `at least $2.01/h`, or `unknown`.
    #[must_use]
    pub fn describe_shortly(self, format: impl Fn(T) -> String) -> String {
        let at_least = if self.is_complete() { "" } else { "at least " };
        self.known().map_or_else(|| "unknown".to_owned(), |sum| format!("{at_least}{}", format(sum)))
    }
}

/// The notation of [`KnownSum::describe_shortly`].
impl<T: Copy + Default + PartialEq + Add<Output = T> + fmt::Display> fmt::Display for KnownSum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.describe_shortly(|sum| sum.to_string()))
    }
}

impl<T: Add<Output = T>> Add for KnownSum<T> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { known: Add::add(self.known, other.known), unknown: self.unknown.saturating_add(other.unknown) }
    }
}

impl<T: Copy + Default + PartialEq + Add<Output = T>> std::iter::Sum for KnownSum<T> {
    fn sum<I: Iterator<Item = Self>>(sums: I) -> Self {
        sums.fold(Self::default(), Add::add)
    }
}

/// USD per hour, a JSON number or null, with the number of parts that it lacks: `"usd_per_hour": 2.01, "unknown_prices": 1`. A structure that has
/// other fields flattens it.
impl Serialize for KnownSum<Rate> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            usd_per_hour: Option<Rate>,
            unknown_prices: u64,
        }
        Fields { usd_per_hour: self.known(), unknown_prices: self.unknown }.serialize(serializer)
    }
}

/// Reads a written sum back. Null is a sum without any price.
impl<'de> Deserialize<'de> for KnownSum<Rate> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            usd_per_hour: Option<Rate>,
            unknown_prices: u64,
        }
        let Fields { usd_per_hour, unknown_prices } = Fields::deserialize(deserializer)?;
        Ok(Self::new(usd_per_hour.unwrap_or_default(), unknown_prices))
    }
}

/// USD, a JSON number or null, with the number of parts or seconds that it lacks: `{"usd": 2.01, "unknown": 1}`.
impl Serialize for KnownSum<Amount> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AmountFields { usd: self.known(), unknown: self.unknown }.serialize(serializer)
    }
}

/// Reads a written sum back. Null is a sum of which nothing is known, whatever number stands beside it.
impl<'de> Deserialize<'de> for KnownSum<Amount> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let AmountFields { usd, unknown } = AmountFields::deserialize(deserializer)?;
        Ok(usd.map_or(Self::new(Amount::ZERO, unknown.max(1)), |known| Self::new(known, unknown)))
    }
}

#[derive(Serialize, Deserialize)]
struct AmountFields {
    usd: Option<Amount>,
    unknown: u64,
}

/// Serialises what is known of a sum, a JSON number or null, for a structure that has what the sum lacks in a field of its own:
/// `#[serde(serialize_with = "known_sum::serialize_known")]`.
///
/// # Errors
///
/// The serializer's own.
pub fn serialize_known<T, S: Serializer>(sum: &KnownSum<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Copy + Default + PartialEq + Add<Output = T> + Serialize,
{
    sum.known().serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(usd: f64) -> Rate {
        Rate::from_usd_per_hour(usd)
    }

    #[test]
    fn a_sum_is_shown_with_what_it_lacks() {
        let check = |parts: &[Option<Rate>], expect: [&str; 3]| {
            let sum = KnownSum::from_parts(parts.iter().copied());
            let shown = [sum.describe(|rate| rate.to_string()), sum.to_string()];
            assert_eq!([&shown[0], &shown[1], &serde_json::to_string(&sum).unwrap()], expect, "{parts:?}");
        };
        check(&[], ["$0.00/h", "$0.00/h", r#"{"usd_per_hour":0.0,"unknown_prices":0}"#]);
        check(&[Some(rate(0.0))], ["$0.00/h", "$0.00/h", r#"{"usd_per_hour":0.0,"unknown_prices":0}"#]);
        check(
            &[Some(rate(1.5)), Some(rate(0.5))],
            ["$2.00/h", "$2.00/h", r#"{"usd_per_hour":2.0,"unknown_prices":0}"#],
        );
        check(
            &[Some(rate(1.5)), None, None],
            ["at least $1.50/h; 2 without a price", "at least $1.50/h", r#"{"usd_per_hour":1.5,"unknown_prices":2}"#],
        );
        for nothing_priced in [&[None][..], &[None, None], &[Some(rate(0.0)), None]] {
            let lacks = nothing_priced.iter().filter(|part| part.is_none()).count();
            let json = format!(r#"{{"usd_per_hour":null,"unknown_prices":{lacks}}}"#);
            check(nothing_priced, ["unknown", "unknown", &json]);
        }
    }

    #[test]
    fn an_amount_is_read_back_with_what_it_lacks() {
        let amount = |usd: f64, unknown| KnownSum::new(Amount::from_usd(usd), unknown);
        for (sum, json) in [
            (amount(2.5, 0), r#"{"usd":2.5,"unknown":0}"#),
            (amount(2.5, 3), r#"{"usd":2.5,"unknown":3}"#),
            (amount(0.0, 3), r#"{"usd":null,"unknown":3}"#),
            (amount(0.0, 0), r#"{"usd":0.0,"unknown":0}"#),
        ] {
            assert_eq!(serde_json::to_string(&sum).unwrap(), json);
            assert_eq!(serde_json::from_str::<KnownSum<Amount>>(json).unwrap(), sum);
        }
        // What says nothing is unknown, even if it claims to lack nothing.
        let claimed: KnownSum<Amount> = serde_json::from_str(r#"{"usd":null,"unknown":0}"#).unwrap();
        assert_eq!(claimed, KnownSum::unknown());
    }

    #[test]
    fn sums_are_added_with_what_they_lack() {
        let (one, other) = (KnownSum::from_parts([Some(rate(1.0)), None]), KnownSum::from_parts([None::<Rate>]));
        assert_eq!(one + other, KnownSum::new(rate(1.0), 2));
        assert_eq!([one, other].into_iter().sum::<KnownSum<Rate>>(), one + other);
        assert!(KnownSum::from_parts([Some(rate(0.0))]).is_zero() && !other.is_zero() && !one.is_zero());
        let most = KnownSum::new(Rate::ZERO, u64::MAX);
        assert_eq!((most + other).unpriced(), u64::MAX);
    }
}
