//! The month that a budget is of.

use jiff::Timestamp;
use model::config::{Config, OverBudget};

use super::{Budget, BudgetVerdict};
use crate::ledger::{CalendarMonth, TimeSpan};

/// A calendar month in the account's time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetMonth {
    /// `yyyy-mm`.
    pub month: String,
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment of the next.
    pub to: Timestamp,
}

/// A text that names no month.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a month; write it as 2026-10")]
pub struct UnreadableMonth(String);

impl BudgetMonth {
    /// The month of that name, `yyyy-mm`.
    ///
    /// # Errors
    /// Where it names none.
    pub fn named(text: &str, config: &Config) -> Result<Self, UnreadableMonth> {
        CalendarMonth::read(text, &config.account.zone())
            .map(|month| Self::from(&month))
            .ok_or_else(|| UnreadableMonth(text.to_owned()))
    }

    /// The month in which that moment lies.
    #[must_use]
    pub fn containing(now: Timestamp, config: &Config) -> Self {
        Self::from(&CalendarMonth::containing(now, &config.account.zone()))
    }

    /// Whole seconds from a moment to its end.
    #[must_use]
    pub fn seconds_left(&self, now: Timestamp) -> u64 {
        u64::try_from(self.to.duration_since(now).as_secs()).unwrap_or_default()
    }
}

impl From<&CalendarMonth> for BudgetMonth {
    fn from(month: &CalendarMonth) -> Self {
        let TimeSpan { from, to } = month.span();
        Self { month: month.to_string(), from, to }
    }
}

impl Budget {
    /// Returns `true` if this document still has to be closed for the month that ended at that moment: some beat saw the month, and none
    /// its end.
    #[must_use]
    pub fn is_open(&self, ended: Timestamp) -> bool {
        self.as_of.is_some_and(|as_of| as_of < ended)
    }

    /// Returns the document of a month that is over: without a forecast, and without consequences.
    #[must_use]
    pub fn as_past(&self) -> Self {
        Self {
            verdict: self.verdict.min(BudgetVerdict::Notify),
            over_budget: self.over_budget.map(|_| OverBudget::Notify),
            forecast_usd: None,
            remedy: Vec::new(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_those_of_the_account() {
        let check = |zone: &str, now: &str, expect: [&str; 3]| {
            let config = Config::read(&format!("[account]\ntime_zone = \"{zone}\"")).unwrap();
            let found = BudgetMonth::containing(now.parse().unwrap(), &config);
            assert_eq!([found.month, found.from.to_string(), found.to.to_string()], expect, "{zone} {now}");
        };
        check("UTC", "2026-11-01T00:00:00Z", ["2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"]);
        check("UTC", "2026-10-31T23:59:59Z", ["2026-10", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"]);
        // Summer time ends on 25 October: the month is an hour longer.
        check("Europe/Berlin", "2026-10-31T22:59:59Z", ["2026-10", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"]);
        check("Europe/Berlin", "2026-10-31T23:00:00Z", ["2026-11", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z"]);
        check("Pacific/Auckland", "2026-12-31T11:00:00Z", ["2027-01", "2026-12-31T11:00:00Z", "2027-01-31T11:00:00Z"]);
    }

    #[test]
    fn a_month_is_found_by_its_name() {
        for zone in ["UTC", "Europe/Berlin", "Pacific/Auckland"] {
            let config = Config::read(&format!("[account]\ntime_zone = \"{zone}\"")).unwrap();
            let found = BudgetMonth::named("2026-10", &config).unwrap();
            assert_eq!(found, BudgetMonth::containing("2026-10-15T12:00:00Z".parse().unwrap(), &config));
            for text in ["", "2026", "2026-13", "2026-1", "11-2026", "2026-11-01", "-2026-11", "next"] {
                let error = BudgetMonth::named(text, &config).unwrap_err();
                assert_eq!(error.to_string(), format!("`{text}` is not a month; write it as 2026-10"));
            }
        }
    }
}
