//! Working hours as owners write them: `Mon-Fri 08:00-20:00 Europe/Berlin`.
//!
//! Days are a comma list of names or ranges of names, and name the day on which a window starts; a window whose end is
//! not later than its start ends on the next day. Windows that touch are one. Where a clock change skips or repeats a
//! written time, the time means what [`jiff`] calls compatible: skipped times move forward, repeated ones are the first.

use std::fmt;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::fault::InvalidValue;
use crate::moment::{after, before};
use crate::time_zone::read_time_zone;

/// A little more than a week: every window repeats within it.
const NEAR: SignedDuration = SignedDuration::from_hours(8 * 24);

/// The hours in which an instance should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours {
    text: String,
    days: [bool; 7],
    start: Time,
    end: Time,
    ends_next_day: bool,
    zone: TimeZone,
}

/// Position of a moment among the windows around it. Windows further than a week away are not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoursPosition {
    /// Within a window that ends then; `None` if no end is within a week.
    Inside {
        /// Start of the window; `None` if that is over a week ago.
        since: Option<Timestamp>,
        /// End of the window.
        until: Option<Timestamp>,
    },
    /// Outside of every window.
    Outside {
        /// End of the last window; `None` if that is over a week ago.
        since: Option<Timestamp>,
        /// Start of the next window.
        until: Option<Timestamp>,
    },
}

impl Hours {
    /// Reads the tag's value.
    ///
    /// # Errors
    /// A sentence that says which part cannot be read, and what is legal.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [days, times, zone] = parts[..] else {
            return Err(InvalidValue::new(
                "write days, times and time zone, such as `Mon-Fri 08:00-20:00 Europe/Berlin`",
            ));
        };
        let (start, end) = read_times(times)?;
        let zone = read_time_zone(zone)?;
        Ok(Self { text: text.to_owned(), days: read_days(days)?, start, end, ends_next_day: end <= start, zone })
    }

    /// Returns the position of `now` among the windows around it.
    #[must_use]
    pub fn position(&self, now: Timestamp) -> HoursPosition {
        let windows = self.windows_around(now);
        let horizon = (before(now, NEAR), after(now, NEAR));
        let near = |at: Timestamp| Some(at).filter(|at| *at > horizon.0 && *at < horizon.1);
        if let Some((start, end)) = windows.iter().find(|(start, end)| *start <= now && now < *end) {
            return HoursPosition::Inside { since: near(*start), until: near(*end) };
        }
        HoursPosition::Outside {
            since: windows.iter().map(|(_, end)| *end).rfind(|end| *end <= now).and_then(near),
            until: windows.iter().map(|(start, _)| *start).find(|start| *start > now).and_then(near),
        }
    }

    /// Returns all windows from ten days before to ten days after, in order, touching ones joined.
    fn windows_around(&self, now: Timestamp) -> Vec<(Timestamp, Timestamp)> {
        let today = now.to_zoned(self.zone.clone()).date();
        let mut joined: Vec<(Timestamp, Timestamp)> = Vec::new();
        for offset in -10..=10 {
            let window = today.checked_add(i64::from(offset).days()).ok().and_then(|day| self.window_of(day));
            match (window, joined.last_mut()) {
                (Some((start, end)), Some((_, last_end))) if start <= *last_end => {
                    *last_end = end.max(*last_end);
                }
                (Some(window), _) => joined.push(window),
                (None, _) => {}
            }
        }
        joined
    }

    fn window_of(&self, day: Date) -> Option<(Timestamp, Timestamp)> {
        if !self.days[day_index(day.weekday())] {
            return None;
        }
        let end_day = if self.ends_next_day { day.tomorrow().ok()? } else { day };
        let start = self.zone.to_timestamp(day.to_datetime(self.start)).ok()?;
        let end = self.zone.to_timestamp(end_day.to_datetime(self.end)).ok()?;
        (start < end).then_some((start, end))
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const DAY_NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

fn day_index(day: Weekday) -> usize {
    usize::try_from(day.to_monday_zero_offset()).unwrap_or_default()
}

fn read_days(text: &str) -> Result<[bool; 7], InvalidValue> {
    let index = |name: &str| {
        DAY_NAMES.iter().position(|day| name.eq_ignore_ascii_case(day)).ok_or_else(|| {
            InvalidValue::new(format!(
                "`{name}` is no day; write Mon, Tue, Wed, Thu, Fri, Sat, Sun, such as `Mon-Fri` or `Mon,Wed`"
            ))
        })
    };
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (index(first)?, index(last)?);
        days[day] = true;
        while day != last {
            day = (day + 1) % 7;
            days[day] = true;
        }
    }
    Ok(days)
}

fn read_times(text: &str) -> Result<(Time, Time), InvalidValue> {
    let unreadable = || InvalidValue::new(format!("`{text}` are no times; write them as `08:00-20:00`, 24:00 at most"));
    let (start, end) = text.split_once('-').ok_or_else(unreadable)?;
    let start = read_time(start).ok_or_else(unreadable)?;
    let end = if end == "24:00" { Some(Time::midnight()) } else { read_time(end) }.ok_or_else(unreadable)?;
    if start == end && text != "00:00-24:00" {
        return Err(InvalidValue::new(format!(
            "`{text}` begins and ends at the same time; write `00:00-24:00` for a whole day"
        )));
    }
    Ok((start, end))
}

fn read_time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two_digits = |part: &str| {
        part.parse::<i8>().ok().filter(|_| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    Time::new(two_digits(hour)?, two_digits(minute)?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect` is `in|out since..until`, in UTC, `-` for none.
    fn check(hours: &str, now: &str, expect: &str) {
        let show = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| at.strftime("%a %d %H:%M").to_string());
        let found = match Hours::read(hours).unwrap().position(now.parse().unwrap()) {
            HoursPosition::Inside { since, until } => format!("in {}..{}", show(since), show(until)),
            HoursPosition::Outside { since, until } => format!("out {}..{}", show(since), show(until)),
        };
        assert_eq!(found, expect, "{hours} at {now}");
    }

    const OFFICE: &str = "Mon-Fri 08:00-20:00 Europe/Berlin";

    #[test]
    fn working_days_in_summer_and_winter() {
        check(OFFICE, "2026-07-15T12:00:00Z", "in Wed 15 06:00..Wed 15 18:00");
        check(OFFICE, "2026-01-14T12:00:00Z", "in Wed 14 07:00..Wed 14 19:00");
        check(OFFICE, "2026-07-17T18:00:00Z", "out Fri 17 18:00..Mon 20 06:00");
        check(OFFICE, "2026-07-20T05:59:59Z", "out Fri 17 18:00..Mon 20 06:00");
    }

    #[test]
    fn a_clock_change_over_the_weekend_moves_the_next_start() {
        check(OFFICE, "2026-03-28T12:00:00Z", "out Fri 27 19:00..Mon 30 06:00");
        check(OFFICE, "2026-10-24T12:00:00Z", "out Fri 23 18:00..Mon 26 07:00");
    }

    #[test]
    fn times_that_a_clock_change_skips_or_repeats() {
        let night = "Mon-Sun 02:30-05:00 Europe/Berlin";
        check(night, "2026-03-29T01:45:00Z", "in Sun 29 01:30..Sun 29 03:00");
        check(night, "2026-10-25T00:45:00Z", "in Sun 25 00:30..Sun 25 04:00");
    }

    #[test]
    fn over_midnight_the_day_is_the_one_of_the_start() {
        let night = "Fri 22:00-06:00 America/New_York";
        check(night, "2026-07-18T04:00:00Z", "in Sat 18 02:00..Sat 18 10:00");
        check(night, "2026-07-18T10:00:00Z", "out Sat 18 10:00..Sat 25 02:00");
    }

    #[test]
    fn windows_that_touch_are_one() {
        check("Mon-Sun 00:00-24:00 UTC", "2026-07-18T04:00:00Z", "in -..-");
        check("Sat,Sun 00:00-24:00 UTC", "2026-07-18T04:00:00Z", "in Sat 18 00:00..Mon 20 00:00");
        check("Fri-Mon 22:00-21:00 UTC", "2026-07-18T21:30:00Z", "out Sat 18 21:00..Sat 18 22:00");
    }

    #[test]
    fn an_unreadable_value_is_answered_with_the_legal_ones() {
        for text in [
            "",
            "weekdays",
            "Mon-Fri 8-20 UTC",
            "Mon-Fri 08:00-20:00",
            "Mo-Fr 08:00-20:00 UTC",
            "Mon 08:00-25:00 UTC",
            "Mon 08:00-08:00 UTC",
            "Mon 08:00-20:00 Mars/Olympus",
            "Mon 08:00-20:00 Etc/Unknown",
            "Mon 08:00-20:00 factory",
            "Mon- 08:00-20:00 UTC",
            "Mon 24:00-08:00 UTC",
            "Mon +8:00-20:00 UTC",
        ] {
            assert!(Hours::read(text).is_err(), "{text:?}");
        }
    }
}
