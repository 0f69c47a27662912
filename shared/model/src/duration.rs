//! Durations as people write them: `90s`, `30m`, `1h30m`, `7d`, `2w`.

use std::fmt::{self, Write as _};

use jiff::fmt::friendly::SpanParser;
use jiff::{SignedDuration, SpanRelativeTo};
use serde::de::Visitor;
use serde::{Deserializer, Serializer};

const UNITS: [(char, i64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Ten years: nothing that Curfew waits for is longer, and sums of such durations stay far from overflow.
const SECONDS_MAX: i64 = 10 * 366 * 86_400;

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a duration; write a number and a unit of s, m, h, d or w, such as `30m`, `1h30m` or `0s`, ten years at most"
)]
pub struct UnreadableDuration(String);

/// Reads a duration: one or more pairs of whole number and unit, the larger unit first. `0s` is legal.
///
/// # Errors
/// Where the text is anything else, or longer than ten years.
pub fn parse(text: &str) -> Result<SignedDuration, UnreadableDuration> {
    // jiff reads signs, fractions, spaces, long names and milliseconds too.
    let is_plain =
        text.bytes().all(|letter| letter.is_ascii_digit() || b"wdhms".contains(&letter)) && !text.contains("ms");
    let span = Some(text).filter(|_| is_plain).and_then(|text| SpanParser::new().parse_span(text).ok());
    let duration = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    duration.filter(|duration| duration.as_secs() <= SECONDS_MAX).ok_or_else(|| UnreadableDuration(text.to_owned()))
}

/// Writes a duration as [`parse`] reads it, by its two largest units: `3d4h`, `30m`, `0s`.
#[must_use]
pub fn format_duration(duration: SignedDuration) -> String {
    in_units(duration, 2)
}

/// Writes a duration as [`parse`] reads it, to the second: `3d4h30m5s`.
#[must_use]
pub fn format_exact_duration(duration: SignedDuration) -> String {
    in_units(duration, UNITS.len())
}

fn in_units(duration: SignedDuration, units_max: usize) -> String {
    let mut seconds = duration.as_secs().max(0);
    let mut text = String::new();
    let mut units_left = units_max;
    for (name, unit_seconds) in UNITS.into_iter().skip(1) {
        let count = seconds.div_euclid(unit_seconds);
        if count > 0 && units_left > 0 {
            let _ = write!(text, "{count}{name}");
            seconds = seconds.rem_euclid(unit_seconds);
        }
        units_left = units_left.saturating_sub(usize::from(!text.is_empty()));
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Reads a duration such as `90m` from a document.
///
/// # Errors
/// It is no duration; the error says what to write.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
    deserializer.deserialize_any(DurationVisitor)
}

/// Writes a duration into a document, to the second.
///
/// # Errors
/// The serializer's own.
pub fn serialize<S: Serializer>(duration: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_exact_duration(*duration))
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = SignedDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `30m`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SignedDuration, E> {
        parse(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(parse(text).ok().map(|d| d.as_secs()), expect, "{text:?}");
    }

    #[test]
    fn reads_what_people_write() {
        check("0s", Some(0));
        check("30m", Some(1_800));
        check("1h30m", Some(5_400));
        check("7d", Some(604_800));
        check("2w", Some(1_209_600));
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "soon",
            "30",
            "m",
            "30 m",
            "-5m",
            "1.5h",
            "30m1h",
            "1h1h",
            "5M",
            "9999999999999999999s",
            "11y",
            "4000d",
            "5µ",
            "5ms",
            "1h 30m",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn shows_two_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (5_400, "1h30m"), (90_061, "1d1h"), (86_460, "1d"), (604_800, "7d")]
        {
            assert_eq!(format_duration(SignedDuration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn written_exactly_it_is_read_as_what_it_was() {
        for seconds in [0, 1, 59, 3_601, 90_061, 604_800, 1_209_661, SECONDS_MAX] {
            let duration = SignedDuration::from_secs(seconds);
            assert_eq!(parse(&format_exact_duration(duration)), Ok(duration));
        }
        assert_eq!(format_exact_duration(SignedDuration::from_secs(90_061)), "1d1h1m1s");
    }
}
