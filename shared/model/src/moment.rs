//! Moments as people write them: RFC 3339, and nothing else.

use jiff::{SignedDuration, Timestamp};

/// S3 refuses a request whose clock differs by more (Amazon S3 API reference, "Error responses", `RequestTimeTooSkewed`), so this is the largest
/// difference between the clocks of a document's writer and reader.
pub const CLOCK_SKEW_MAX: SignedDuration = SignedDuration::from_mins(15);

/// Reads `2026-09-30T18:00:00Z` or `2026-09-30T20:00:00.5+02:00`; `None` for everything else.
///
/// jiff accepts more: a zone in brackets, which it ignores even if it contradicts the offset; offsets of over a day; years before 0. The author may
/// have meant another time, and an instance would end at ours.
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    if is_rfc_3339(text) { text.parse().ok() } else { None }
}

/// The same, of a moment until which something lasts: one past the last that there is lasts as long.
#[must_use]
pub fn read_until(text: &str) -> Option<Timestamp> {
    // Only the calendar's last year has such times, and the year before it has the same days.
    let is_moment_of_last_year = || read(&format!("9998{}", text.strip_prefix("9999")?));
    read(text).or_else(|| is_moment_of_last_year().map(|_| Timestamp::MAX))
}

/// Whether it looks like one. Whether there is such a day and such an hour is for jiff to say.
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
        assert_eq!(read_until("9999-12-31T23:59:59"), None);
        assert_eq!(read_until("9999-13-31T23:59:59Z"), None);
        assert_eq!(read_until("2026-09-30T18:00:00Z"), read("2026-09-30T18:00:00Z"));
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
            "２026-09-30T18:00:00Z",
        ] {
            check(text, None);
        }
    }
}
