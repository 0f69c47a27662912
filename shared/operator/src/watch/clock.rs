//! Moments in a few characters, in UTC.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Distance from which on the day alone tells enough.
const FAR: SignedDuration = SignedDuration::from_hours(24 * 180);

/// `18:00` today, `Nov 26 18:00` within half a year, else `2027-03-01`.
#[must_use]
pub fn format_moment(at: Timestamp, now: Timestamp) -> String {
    let format = match at.duration_since(now).abs() {
        distance if distance > FAR => "%Y-%m-%d",
        _ if day_of(at) == day_of(now) => "%H:%M",
        _ => "%b %e %H:%M",
    };
    at.strftime(format).to_string()
}

fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_named_where_it_is_another_one() {
        let check = |at: &str, expect: &str| {
            let now = "2026-11-24T12:00:00Z".parse().unwrap();
            assert_eq!(format_moment(at.parse().unwrap(), now), expect);
        };
        check("2026-11-24T18:00:59Z", "18:00");
        check("2026-11-25T00:00:00Z", "Nov 25 00:00");
        check("2026-11-03T23:59:00Z", "Nov  3 23:59");
        check("2027-03-01T00:00:00Z", "Mar  1 00:00");
        check("2027-12-01T00:00:00Z", "2027-12-01");
        check("2026-01-01T00:00:00Z", "2026-01-01");
    }
}
