//! Time zones as people write them.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::fault::InvalidValue;

/// The database's own words for an unset zone; jiff takes both for UTC.
const NOWHERE: [&str; 2] = ["Etc/Unknown", "Factory"];

/// Zones that have no summer time, under names that people also use of places that have one. `HST` is no such name: Hawaii has none.
const STANDARD_TIMES: [(&str, &str); 2] = [("EST", "America/New_York"), ("MST", "America/Denver")];

/// Reads a name of the IANA time zone database.
///
/// # Errors
/// A sentence that says what to write: for an unknown name, and for a legal one that most of its writers mean otherwise.
pub fn read_time_zone(name: &str) -> Result<TimeZone, InvalidValue> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let zone = if NOWHERE.into_iter().any(is) { None } else { TimeZone::get(name).ok() };
    let Some(zone) = zone else {
        return Err(InvalidValue::new(format!(
            "`{name}` is not a time zone of the IANA database, such as `Europe/Berlin` or `UTC`"
        )));
    };
    if let Some((_, city)) = STANDARD_TIMES.iter().find(|(standard, _)| is(standard)) {
        return Err(InvalidValue::new(format!(
            "`{name}` has no summer time, so it is an hour off for half of the year; write {city}, or another city"
        )));
    }
    // IANA time zone database, "etcetera": the sign is that of POSIX.
    if let Some((sign, hours)) = signed_hours(name) {
        let (side, city) = if sign == '+' { ("behind", "America/New_York") } else { ("ahead of", "Europe/Berlin") };
        return Err(InvalidValue::new(format!(
            "`{name}` is {hours} hours {side} UTC, all year, as its sign is reversed; write the zone of a city, such as {city}"
        )));
    }
    Ok(zone)
}

/// `+` and `5` of `Etc/GMT+5`.
fn signed_hours(name: &str) -> Option<(char, u8)> {
    let prefix = "Etc/GMT";
    let offset = name.get(prefix.len()..).filter(|_| name[..prefix.len()].eq_ignore_ascii_case(prefix))?;
    let sign = offset.chars().next().filter(|sign| "+-".contains(*sign))?;
    offset[1..].parse().ok().filter(|hours| *hours > 0).map(|hours| (sign, hours))
}

/// A moment in UTC, and in a zone that differs from it then: `2026-09-01 16:26 UTC (18:26 CEST)`.
#[must_use]
pub fn format_moment(at: Timestamp, zone: &TimeZone) -> String {
    let date = at.to_zoned(TimeZone::UTC).date();
    let local = format_local(at, zone).map(|local| format!(" ({local})")).unwrap_or_default();
    format!("{date} {}{local}", at.strftime("%H:%M UTC"))
}

/// A moment in UTC, without its date if that is the date of `now`: `16:26 UTC`.
#[must_use]
pub fn format_moment_shortly(at: Timestamp, now: Timestamp) -> String {
    let date = |moment: Timestamp| moment.to_zoned(TimeZone::UTC).date();
    let is_today = date(at) == date(now);
    at.strftime(if is_today { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" }).to_string()
}

/// A moment in a zone, with its date if that is another one than in UTC: `18:26 CEST`. `None` where the zone is that of UTC then.
#[must_use]
pub fn format_local(at: Timestamp, zone: &TimeZone) -> Option<String> {
    let local = at.to_zoned(zone.clone());
    let is_same_day = local.date() == at.to_zoned(TimeZone::UTC).date();
    let differs = local.offset() != Offset::UTC;
    differs.then(|| local.strftime(if is_same_day { "%H:%M %Z" } else { "%Y-%m-%d %H:%M %Z" }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_in_utc_and_where_it_differs_in_the_zone() {
        let at: Timestamp = "2026-09-01T16:26:00Z".parse().unwrap();
        let shown = |zone: &str| format_moment(at, &TimeZone::get(zone).unwrap());
        assert_eq!(shown("UTC"), "2026-09-01 16:26 UTC");
        assert_eq!(shown("Africa/Abidjan"), "2026-09-01 16:26 UTC");
        assert_eq!(shown("Europe/Berlin"), "2026-09-01 16:26 UTC (18:26 CEST)");
        assert_eq!(shown("Asia/Tokyo"), "2026-09-01 16:26 UTC (2026-09-02 01:26 JST)");
        assert_eq!(shown("America/Sao_Paulo"), "2026-09-01 16:26 UTC (13:26 -03)");
        let shortly = |now: &str| format_moment_shortly(at, now.parse().unwrap());
        assert_eq!(shortly("2026-09-01T00:00:00Z"), "16:26 UTC");
        assert_eq!(shortly("2026-08-31T23:59:00Z"), "2026-09-01 16:26 UTC");
    }

    fn check(name: &str, expect: Result<(), &str>) {
        match (read_time_zone(name), expect) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{name}: {error}"),
            (read, _) => panic!("{name}: {read:?}"),
        }
    }

    #[test]
    fn a_zone_is_what_its_writer_means() {
        for name in
            ["UTC", "Europe/Berlin", "America/New_York", "US/Eastern", "EST5EDT", "HST", "CET", "GMT", "Etc/GMT+0"]
        {
            check(name, Ok(()));
        }
        check("EST", Err("write America/New_York"));
        check("mst", Err("write America/Denver"));
        check("Etc/GMT+5", Err("5 hours behind UTC"));
        check("etc/gmt-2", Err("2 hours ahead of UTC, all year, as its sign is reversed; write the zone of a city"));
        for name in ["PST", "IST", "BST", "Factory", "etc/unknown", "", "Etc/GMT+", "é"] {
            check(name, Err("is not a time zone"));
        }
    }
}
