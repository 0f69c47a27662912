//! Calendar months, and spans of time.

use std::fmt;

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// A span of time: `from` is in it, `to` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan {
    /// Start of the span.
    pub from: Timestamp,
    /// End of the span.
    pub to: Timestamp,
}

/// The longest possible span.
impl Default for TimeSpan {
    fn default() -> Self {
        Self { from: Timestamp::MIN, to: Timestamp::MAX }
    }
}

impl TimeSpan {
    /// Returns the overlap of two spans; empty if there is none.
    #[must_use]
    pub fn within(&self, other: Self) -> Self {
        let from = self.from.max(other.from);
        Self { from, to: self.to.min(other.to).max(from) }
    }

    /// Whole seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        u64::try_from(self.to.as_second().saturating_sub(self.from.as_second())).unwrap_or(0)
    }

    /// Returns the length of the span.
    #[must_use]
    pub fn duration(&self) -> SignedDuration {
        self.to.duration_since(self.from)
    }
}

/// A month of the calendar in a time zone: 743 to 745 hours where clocks are changed in one of 31 days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarMonth {
    first: Date,
    zone: TimeZone,
}

impl CalendarMonth {
    /// The month that it is at that moment.
    #[must_use]
    pub fn containing(at: Timestamp, zone: &TimeZone) -> Self {
        Self { first: zone.to_datetime(at).date().first_of_month(), zone: zone.clone() }
    }

    /// Reads `2026-11`; `None` for everything else.
    #[must_use]
    pub fn read(text: &str, zone: &TimeZone) -> Option<Self> {
        let (year, month) = text.split_once('-')?;
        let are_digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(year, 4) || !are_digits(month, 2) {
            return None;
        }
        let first = Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()?;
        Some(Self { first, zone: zone.clone() })
    }

    /// Returns the span from the first moment of the month to that of the next month.
    #[must_use]
    pub fn span(&self) -> TimeSpan {
        TimeSpan { from: self.begins(self.first), to: self.begins(self.next().first) }
    }

    /// The month before.
    #[must_use]
    pub fn previous(&self) -> Self {
        Self { first: self.first.saturating_sub(1.month()), zone: self.zone.clone() }
    }

    /// The month after.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { first: self.first.saturating_add(1.month()), zone: self.zone.clone() }
    }

    /// Midnight, or what comes after it where that day has none. The calendar's ends have no month beyond them.
    fn begins(&self, first: Date) -> Timestamp {
        let edge = if first < date(1, 1, 1) { Timestamp::MIN } else { Timestamp::MAX };
        self.zone.to_ambiguous_zoned(first.at(0, 0, 0, 0)).compatible().map_or(edge, |midnight| midnight.timestamp())
    }
}

/// `2026-11`.
impl fmt::Display for CalendarMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.first.year(), self.first.month())
    }
}
