//! Cron expressions of five fields, as crontab(5) has them, and their moments in a time zone.

use std::collections::BTreeSet;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use model::fault::{InvalidValue, shortened};

/// The longest expression, in characters.
const CHARACTERS_MAX: usize = 200;

/// Days that a search for the next moment looks ahead. Between two 29th of February lie eight years at most.
const SEARCH_DAYS: usize = 366 * 8 + 2;

/// A day that a zone skips moves its moments forward by up to this many days, as in Samoa on 30 December 2011.
const SKIPPED_DAYS: i64 = 2;

struct FieldRule {
    name: &'static str,
    range: (i8, i8),
    /// Names of the values, from the first value on.
    names: &'static [&'static str],
}

const MINUTE: FieldRule = FieldRule { name: "minute", range: (0, 59), names: &[] };
const HOUR: FieldRule = FieldRule { name: "hour", range: (0, 23), names: &[] };
const DAY: FieldRule = FieldRule { name: "day of the month", range: (1, 31), names: &[] };
const MONTH: FieldRule = FieldRule {
    name: "month",
    range: (1, 12),
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// 0 and 7 are Sunday.
const WEEKDAY: FieldRule =
    FieldRule { name: "day of the week", range: (0, 7), names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };

/// A cron expression such as `0 2 * * MON-FRI`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    text: String,
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: BTreeSet<i8>,
    months: BTreeSet<i8>,
    /// 0 is Sunday.
    weekdays: BTreeSet<i8>,
    /// `true` if a day counts that is either in `days` or in `weekdays`: both fields are restricted. A field that begins with `*` is not.
    is_either_day: bool,
}

impl CronExpression {
    /// Reads the five fields minute, hour, day of the month, month and day of the week.
    ///
    /// # Errors
    /// A sentence that names the wrong field, or says that no day ever fits.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let shown = shortened(text, CHARACTERS_MAX);
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(InvalidValue::new(format!(
                "`{shown}` has {} fields; write five: minute, hour, day of the month, month, day of the week, such as `0 2 * * MON-FRI`",
                fields.len()
            )));
        };
        if text.chars().count() > CHARACTERS_MAX {
            return Err(InvalidValue::new(format!("it is longer than {CHARACTERS_MAX} characters")));
        }
        let cron = Self {
            text: fields.join(" "),
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays: WEEKDAY.read(weekday)?.into_iter().map(|day| if day == 7 { 0 } else { day }).collect(),
            is_either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        if cron.next_after(Timestamp::UNIX_EPOCH, &TimeZone::UTC).is_none() {
            return Err(InvalidValue::new(format!("`{shown}` fits no day of any year")));
        }
        Ok(cron)
    }

    /// The expression, with one blank between two fields.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The moments after `after` and up to `until`, in order. A local time that the zone skips, as summer time begins, stands for the moment as long
    /// after the gap; one that exists twice stands for the first of the two; two that stand for the same moment are one.
    #[must_use]
    pub fn between(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Vec<Timestamp> {
        if until <= after {
            return Vec::new();
        }
        let last = until.to_zoned(zone.clone()).date();
        let days = days_from(after, zone).take_while(|day| *day <= last);
        let found: BTreeSet<Timestamp> =
            days.flat_map(|day| self.moments_of(day, zone)).filter(|at| *at > after && *at <= until).collect();
        found.into_iter().collect()
    }

    /// The first moment after `after`; `None` beyond eight years.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut days = days_from(after, zone).take(SEARCH_DAYS);
        days.find_map(|day| self.moments_of(day, zone).into_iter().filter(|at| *at > after).min())
    }

    fn moments_of(&self, day: Date, zone: &TimeZone) -> Vec<Timestamp> {
        if !self.has_day(day) {
            return Vec::new();
        }
        let times = self.hours.iter().flat_map(|hour| self.minutes.iter().map(move |minute| (*hour, *minute)));
        let times = times.filter_map(|(hour, minute)| Time::new(hour, minute, 0, 0).ok());
        let moment = |time: Time| zone.to_ambiguous_timestamp(day.to_datetime(time)).compatible().ok();
        times.filter_map(moment).collect()
    }

    fn has_day(&self, day: Date) -> bool {
        let is_day = self.days.contains(&day.day());
        let is_weekday = self.weekdays.contains(&day.weekday().to_sunday_zero_offset());
        let fits = if self.is_either_day { is_day || is_weekday } else { is_day && is_weekday };
        fits && self.months.contains(&day.month())
    }
}

/// Days from the one of `after` on, with those before it whose moments a zone may have moved to it.
fn days_from(after: Timestamp, zone: &TimeZone) -> impl Iterator<Item = Date> {
    let first = after.to_zoned(zone.clone()).date().saturating_sub(SKIPPED_DAYS.days());
    std::iter::successors(Some(first), |day| day.tomorrow().ok())
}

impl FieldRule {
    fn read(&self, text: &str) -> Result<BTreeSet<i8>, InvalidValue> {
        let mut values = BTreeSet::new();
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, step.parse().ok().filter(|step| (1..=self.range.1).contains(step))),
                None => (part, Some(1)),
            };
            let bounds = match range.split_once('-') {
                _ if range == "*" => Some(self.range),
                Some((first, last)) => {
                    let values = self.value(first).zip(self.value(last));
                    values.map(|(first, last)| self.bounds(part, first, last)).transpose()?
                }
                // `5/10` means different things to different programs.
                None => self.value(range).filter(|_| part == range).map(|value| (value, value)),
            };
            let (Some((first, last)), Some(step)) = (bounds, step) else {
                return Err(self.refuse(part));
            };
            values.extend((first..=last).step_by(usize::try_from(step).unwrap_or(1)));
        }
        Ok(values)
    }

    /// The bounds of a range. A week may end with Sunday, under each of its names.
    fn bounds(&self, part: &str, first: i8, last: i8) -> Result<(i8, i8), InvalidValue> {
        match (first, last) {
            (first, last) if first <= last => Ok((first, last)),
            (first, 0) if self.range == WEEKDAY.range => Ok((first, WEEKDAY.range.1)),
            _ => Err(InvalidValue::new(format!(
                "`{}` is no {}: it ends before it begins; write two ranges with a comma",
                shortened(part, CHARACTERS_MAX),
                self.name
            ))),
        }
    }

    fn value(&self, text: &str) -> Option<i8> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(place) = named {
            return i8::try_from(place).ok()?.checked_add(self.range.0);
        }
        // `parse` takes a sign, too.
        let is_number = !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
        let number: i8 = text.parse().ok().filter(|_| is_number)?;
        (self.range.0..=self.range.1).contains(&number).then_some(number)
    }

    fn refuse(&self, part: &str) -> InvalidValue {
        let (first, last) = self.range;
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(", or {first} to {last}"),
            _ => String::new(),
        };
        InvalidValue::new(format!(
            "`{}` is no {}: write `*`, a number from {first} to {last}{names}, a range such as `{first}-{last}`, each with a step such as \
             `*/2`, or several with commas",
            shortened(part, CHARACTERS_MAX),
            self.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cron(text: &str) -> CronExpression {
        CronExpression::read(text).unwrap_or_else(|problem| panic!("{text}: {problem}"))
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn check(text: &str, zone: &str, (after, until): (&str, &str), expect: &[&str]) {
        let zone = TimeZone::get(zone).unwrap();
        let found = cron(text).between(at(after), at(until), &zone);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{text}");
        if let Some(first) = found.first() {
            assert_eq!(cron(text).next_after(at(after), &zone), Some(*first), "{text}");
        }
    }

    #[test]
    fn fields_are_those_of_crontab() {
        let day = ("2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z");
        check("0 2 * * *", "UTC", day, &["2026-11-30T02:00:00Z"]);
        check("0 2 * * *", "Europe/Berlin", day, &["2026-11-30T01:00:00Z"]);
        check(
            " 5,50-59/4  1-2 * nov Mon",
            "UTC",
            day,
            &[
                "2026-11-30T01:05:00Z",
                "2026-11-30T01:50:00Z",
                "2026-11-30T01:54:00Z",
                "2026-11-30T01:58:00Z",
                "2026-11-30T02:05:00Z",
                "2026-11-30T02:50:00Z",
                "2026-11-30T02:54:00Z",
                "2026-11-30T02:58:00Z",
            ],
        );
        check("0 */12 * * *", "UTC", day, &["2026-11-30T12:00:00Z", "2026-12-01T00:00:00Z"]);
        let week = ("2026-11-28T00:00:00Z", "2026-12-05T00:00:00Z");
        for sunday in ["0", "7", "SUN", "sun"] {
            check(&format!("0 3 * * {sunday}"), "UTC", week, &["2026-11-29T03:00:00Z"]);
        }
        for weekend in ["SAT-SUN", "6-7", "sat-0", "6,7"] {
            let both = ["2026-11-28T03:00:00Z", "2026-11-29T03:00:00Z"];
            check(&format!("0 3 * * {weekend}"), "UTC", week, &both);
        }
        check("0 3 * * SUN-SUN", "UTC", week, &["2026-11-29T03:00:00Z"]);
        check("0 3 * * SUN-MON", "UTC", week, &["2026-11-29T03:00:00Z", "2026-11-30T03:00:00Z"]);
        // Both fields of days are restricted: either counts.
        check("0 3 1 * FRI", "UTC", week, &["2026-12-01T03:00:00Z", "2026-12-04T03:00:00Z"]);
        check("0 3 */2 * FRI", "UTC", week, &[]);
        check("0 0 29 2 *", "UTC", ("2096-03-01T00:00:00Z", "2104-03-01T00:00:00Z"), &["2104-02-29T00:00:00Z"]);
    }

    #[test]
    fn a_wrong_field_is_named() {
        let check = |text: &str, expect: &str| {
            let problem =
                CronExpression::read(text).map_or_else(|problem| problem.to_string(), |read| panic!("{read:?}"));
            assert!(problem.contains(expect), "{text}: {problem}");
        };
        check("0 2 * *", "has 4 fields; write five");
        check("@daily", "has 1 fields; write five");
        check("60 2 * * *", "`60` is no minute: write `*`, a number from 0 to 59");
        check("0 24 * * *", "`24` is no hour");
        check("0 2 0 * *", "`0` is no day of the month");
        check("0 2 * 13 *", "`13` is no month: write `*`, a number from 1 to 12, or JAN to DEC");
        check("0 2 * * MOON", "`MOON` is no day of the week");
        for minute in ["5-1", "*/0", "5/10", "+5", "-5", "1,,2", "", "*/60", "1-2-3", "L", "5-", "*5", "300"] {
            let text = format!("{minute}{} 2 * * *", if minute.is_empty() { "," } else { "" });
            check(&text, "is no minute");
        }
        check("50-10 2 * * *", "`50-10` is no minute: it ends before it begins; write two ranges with a comma");
        check("0 2 * NOV-FEB *", "`NOV-FEB` is no month: it ends before it begins");
        check("0 2 * * SAT-MON", "`SAT-MON` is no day of the week: it ends before it begins");
        check("0 2 30 2 *", "fits no day of any year");
        check(&format!("{} 2 * * *", vec!["1"; 150].join(",")), "longer than 200 characters");
    }

    #[test]
    fn a_time_that_summer_time_skips_or_repeats_is_one_moment() {
        // Berlin, 29 March 2026: 02:00 to 03:00 does not exist. 25 October: it exists twice.
        let spring = ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
        check("30 2 * * *", "Europe/Berlin", spring, &["2026-03-29T01:30:00Z"]);
        check("30 2,3 * * *", "Europe/Berlin", spring, &["2026-03-29T01:30:00Z"]);
        let autumn = ("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
        check("30 2 * * *", "Europe/Berlin", autumn, &["2026-10-25T00:30:00Z"]);
        // A look between the two does not find it again.
        check("30 2 * * *", "Europe/Berlin", ("2026-10-25T00:30:00Z", "2026-10-25T12:00:00Z"), &[]);
        check(
            "0 2 30 12 *",
            "Pacific/Apia",
            ("2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z"),
            &["2011-12-30T12:00:00Z"],
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-0-9*/, A-Zmon]{0,40}") {
            if let Ok(read) = CronExpression::read(&text) {
                let _ = read.next_after(Timestamp::MAX, &TimeZone::UTC);
                let _ = read.between(Timestamp::MIN, Timestamp::MIN, &TimeZone::UTC);
                prop_assert_eq!(CronExpression::read(read.as_str()), Ok(read));
            }
        }

        #[test]
        fn windows_that_touch_find_each_moment_once(
            start in 1_700_000_000_i64..1_900_000_000, cuts in prop::collection::vec(1_i64..40_000, 1..12),
            minute in 0_i8..60, hour in 0_i8..24, is_hourly in any::<bool>(), zone in 0_usize..4
        ) {
            let zone = TimeZone::get(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"][zone]).unwrap();
            let cron = cron(&if is_hourly { format!("{minute} * * * *") } else { format!("{minute} {hour} * * *") });
            let moment = |second| Timestamp::from_second(second).unwrap();
            let (mut from, mut parts) = (start, Vec::new());
            for cut in cuts {
                parts.extend(cron.between(moment(from), moment(from + cut), &zone));
                from += cut;
            }
            prop_assert_eq!(&parts, &cron.between(moment(start), moment(from), &zone));
            prop_assert!(parts.windows(2).all(|pair| pair[0] < pair[1]));
            // By the day: one moment a local day and hour, whatever the clock does.
            let days = (from - start) / 86_400;
            let most = if is_hourly { (days + 2) * 24 } else { days + 2 };
            prop_assert!(i64::try_from(parts.len()).unwrap() <= most);
        }
    }
}
