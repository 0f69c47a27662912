//! Moments as people write them: RFC 3339, and nothing else; and sums that no moment of anybody's can overflow.

use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};

/// The years that a moment can be in. What lies outside is a slip, or was written to do harm: no resource of AWS is older, and no sum with a
/// period of Curfew's leaves the calendar.
pub const YEARS: RangeInclusive<&str> = "2000"..="9000";

/// S3 refuses a request whose clock differs by more (Amazon S3 API reference, "Error responses", `RequestTimeTooSkewed`), so this is the largest
/// difference between the clocks of a document's writer and reader.
pub const CLOCK_SKEW_MAX: SignedDuration = SignedDuration::from_mins(15);

/// The moment that much later; the last that there is, where the sum lies beyond it: what is that far never comes.
///
/// jiff's operators panic there, and the moment may be one that anybody wrote into a tag.
#[must_use]
pub fn after(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// The moment that much earlier; the first that there is, where that lies beyond it.
#[must_use]
pub fn before(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}

/// Reads `2026-09-30T18:00:00Z` or `2026-09-30T20:00:00.5+02:00`; `None` for everything else, and outside of [`YEARS`].
///
/// jiff accepts more: a zone in brackets, which it ignores even if it contradicts the offset; offsets of over a day; years before 0. The author may
/// have meant another time, and an instance would end at ours.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    if text.get(..4).is_some_and(|year| YEARS.contains(&year)) { read_in_any_year(text) } else { None }
}

/// Reads a moment until which something lasts, as [`read`] does, but one past [`YEARS`] lasts for ever.
#[must_use]
pub fn read_until(text: &str) -> Option<Timestamp> {
    let is_far = text.get(..4).is_some_and(|year| year > *YEARS.end());
    // Only the calendar's last year has moments past the last that there is, and the year before it has the same days.
    let of_last_year = || read_in_any_year(&format!("9998{}", text.strip_prefix("9999")?));
    let far = || read_in_any_year(text).or_else(of_last_year).map(|_| Timestamp::MAX);
    if is_far { far() } else { read(text) }
}

fn read_in_any_year(text: &str) -> Option<Timestamp> {
    if is_rfc_3339(text) { text.parse().ok() } else { None }
}

/// `true` if the text has the shape of RFC 3339. jiff checks that such a day and such an hour exist.
fn is_rfc_3339(text: &str) -> bool {
    let Some((date_and_time, rest)) = text.split_at_checked("2026-09-30T18:00:00".len()) else { return false };
    let zone = rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let offset = zone.strip_prefix(['+', '-']).is_some_and(|offset| has_shape(offset, "00:00") && offset < "24:00");
    has_shape(date_and_time, "0000-00-00T00:00:00") && (matches!(zone, "Z" | "z") || offset)
}

/// `0` stands for any digit, and `T` for what may stand between a date and a time.
fn has_shape(text: &str, shape: &str) -> bool {
    let fits = |(byte, of_shape): (u8, u8)| match of_shape {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        _ => byte == of_shape,
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(read(text).map(|at| at.to_string()).as_deref(), expect, "{text:?}");
    }

    #[test]
    fn rfc_3339_is_read() {
        check("2026-09-30T18:00:00Z", Some("2026-09-30T18:00:00Z"));
        check("2026-09-30t18:00:00z", Some("2026-09-30T18:00:00Z"));
        check("2026-09-30 20:00:00.5+02:00", Some("2026-09-30T18:00:00.5Z"));
        check("2026-12-31T23:59:60Z", Some("2026-12-31T23:59:59Z"));
    }

    #[test]
    fn for_ever_is_as_long_as_there_is() {
        assert_eq!(read("9999-12-31T23:59:59Z"), None);
        assert_eq!(read_until("9999-12-31T23:59:59Z"), Some(Timestamp::MAX));
        assert_eq!(read_until("9001-01-01T00:00:00Z"), Some(Timestamp::MAX));
        assert_eq!(read_until("9999-12-31T23:59:59"), None);
        assert_eq!(read_until("9999年"), None);
        assert_eq!(read_until("1999-12-31T23:59:59Z"), None);
        assert_eq!(read_until("9999-13-31T23:59:59Z"), None);
        assert_eq!(read_until("2026-09-30T18:00:00Z"), read("2026-09-30T18:00:00Z"));
    }

    #[test]
    fn a_sum_past_the_calendar_is_its_end() {
        let hour = SignedDuration::from_hours(1);
        assert_eq!(after(Timestamp::UNIX_EPOCH, hour).as_second(), 3_600);
        assert_eq!(before(Timestamp::UNIX_EPOCH, hour).as_second(), -3_600);
        for far in [hour, SignedDuration::MAX] {
            assert_eq!((after(Timestamp::MAX, far), before(Timestamp::MIN, far)), (Timestamp::MAX, Timestamp::MIN));
        }
        assert_eq!(before(Timestamp::MAX, SignedDuration::MIN), Timestamp::MAX);
        assert_eq!(after(Timestamp::MIN, SignedDuration::MIN), Timestamp::MIN);
    }

    #[test]
    fn an_ambiguous_time_is_refused() {
        for text in [
            "",
            "2026-09-30",
            "2026-09-30T18:00:00",
            "2026-09-30T18:00Z",
            "20260930T180000Z",
            "2026-09-30T18:00:00Z[Europe/Berlin]",
            "2026-09-30T18:00:00+02:00[UTC]",
            "2026-09-30T18:00:00+25:59",
            "2026-09-30T18:00:00+02:00:30",
            "2026-09-30T18:00:00,5Z",
            "2026-09-30T18:00:00.Z",
            "2026-09-30T24:00:00Z",
            "2026-02-30T18:00:00Z",
            "+002026-09-30T18:00:00Z",
            "-009999-01-02T01:59:59Z",
            "9999-12-31T23:59:59Z",
            "9999-12-30T18:00:00Z",
            "9001-01-01T00:00:00Z",
            "1999-12-31T23:59:59Z",
            "0000-01-01T00:00:00Z",
            "２026-09-30T18:00:00Z",
        ] {
            check(text, None);
        }
    }
}
