//! Time zones as people write them.

use jiff::tz::TimeZone;

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

#[cfg(test)]
mod tests {
    use super::*;

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
