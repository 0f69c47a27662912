//! Forecast of the spend at the end of the month: the spend so far, and the mean of the last week for the remaining time.

use jiff::{SignedDuration, Timestamp};
use model::duration;
use model::moment::before;
use model::money::Amount;

use super::BudgetMonth;

/// So far back the mean looks: a whole week, for weekends are quiet.
pub const LOOKS_BACK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The shortest history for a forecast of a month.
const AT_LEAST: SignedDuration = SignedDuration::from_hours(1);

/// Returns the start of the time that the mean covers: a week ago, or the start of the ledger.
pub(super) fn counts_from(ledger_began: Timestamp, now: Timestamp) -> Timestamp {
    ledger_began.max(before(now, LOOKS_BACK)).min(now)
}

/// The forecast, and how it is made, in words. `lately` is what was spent from `counts_from` until `now`.
pub(super) fn forecast(
    spent: Amount,
    lately: Amount,
    ledger_began: Timestamp,
    period: &BudgetMonth,
    now: Timestamp,
) -> (Option<Amount>, String) {
    let from = counts_from(ledger_began, now);
    let counted = now.duration_since(from);
    if counted < AT_LEAST {
        return (None, format!("none yet: the ledger is kept since {from}, for less than an hour"));
    }
    let seconds = counted.as_secs().unsigned_abs();
    let left = period.seconds_left(now);
    let to_come = lately.scaled(left, seconds);
    let a_day = lately.scaled(86_400, seconds);
    let method = format!(
        "{spent} spent, and for the {} left {a_day} a day, the mean of the {} since {from}",
        duration::format_duration(whole_hours(left)),
        duration::format_duration(whole_hours(seconds)),
    );
    (Some(spent + to_come), method)
}

/// Rounded to the hour, which is as fine as a forecast is.
fn whole_hours(seconds: u64) -> SignedDuration {
    let hours = seconds.saturating_add(1_800) / 3_600;
    SignedDuration::from_secs(i64::try_from(hours.saturating_mul(3_600)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use model::config::Config;

    use super::*;

    /// Times are in November 2026, UTC.
    fn check(spent: f64, lately: f64, began: &str, now: &str) -> String {
        let now = now.parse().unwrap();
        let period = BudgetMonth::containing(now, &Config::default());
        let usd = Amount::from_usd;
        let (found, method) = forecast(usd(spent), usd(lately), began.parse().unwrap(), &period, now);
        format!("{}: {method}", found.map_or("none".to_owned(), |found| found.to_string()))
    }

    #[test]
    fn the_mean_of_a_week_continues() {
        assert_snapshot!(check(2_100.0, 700.0, "2026-10-01T00:00:00Z", "2026-11-22T00:00:00Z"), @"$3,000.00: $2,100.00 spent, and for the 9d left $100.00 a day, the mean of the 7d since 2026-11-15T00:00:00Z");
    }

    #[test]
    fn a_young_ledger_says_since_when_it_is_kept() {
        assert_snapshot!(check(24.0, 24.0, "2026-11-21T12:00:00Z", "2026-11-22T00:00:00Z"), @"$456.00: $24.00 spent, and for the 9d left $48.00 a day, the mean of the 12h since 2026-11-21T12:00:00Z");
        assert_snapshot!(check(24.0, 24.0, "2026-11-21T23:30:00Z", "2026-11-22T00:00:00Z"), @"none: none yet: the ledger is kept since 2026-11-21T23:30:00Z, for less than an hour");
    }

    #[test]
    fn the_first_days_of_a_month_look_back_into_the_last_one() {
        assert_snapshot!(check(10.0, 700.0, "2026-10-01T00:00:00Z", "2026-11-01T02:24:00Z"), @"$3,000.00: $10.00 spent, and for the 29d22h left $100.00 a day, the mean of the 7d since 2026-10-25T02:24:00Z");
    }

    #[test]
    fn at_the_very_end_it_is_what_is_spent() {
        assert_snapshot!(check(10.0, 700.0, "2026-10-01T00:00:00Z", "2026-11-30T23:59:59Z"), @"$10.00: $10.00 spent, and for the 0s left $100.00 a day, the mean of the 7d since 2026-11-23T23:59:59Z");
    }
}
