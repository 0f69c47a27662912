//! What values mean, read once more: by hand, and by nothing of what is tested.

use jiff::Timestamp;

const DAY: i64 = 86_400;

/// Nanoseconds since 1970 of an RFC 3339 moment of the years 2000 to 9000.
pub(crate) fn moment(text: &str) -> Option<i128> {
    any_moment(text).filter(|_| (2000..=9000).contains(&year(text)))
}

/// The year that a moment or a date begins with.
fn year(text: &str) -> i64 {
    text.get(..4).and_then(|year| year.parse().ok()).unwrap_or_default()
}

fn any_moment(text: &str) -> Option<i128> {
    let (date, clock) = text.split_at_checked(10)?;
    let day = date_number(date)?;
    let clock = clock.strip_prefix(['T', 't', ' '])?;
    let (time, rest) = clock.split_at_checked(8)?;
    let [hour, minute, second] = parts(time, ':')?;
    if time.len() != "18:00:00".len() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanos, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (fraction, zone) = rest.split_at(digits);
            if !(1..=9).contains(&digits) {
                return None;
            }
            (format!("{fraction:0<9}").parse().ok()?, zone)
        }
    };
    // jiff has no leap seconds: the sixtieth is the fifty-ninth.
    let seconds = day * DAY + hour * 3600 + minute * 60 + second.min(59) - offset(zone)?;
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
}

fn offset(zone: &str) -> Option<i64> {
    let (sign, clock) = match zone {
        "Z" | "z" => return Some(0),
        _ => zone.strip_prefix('+').map(|clock| (1, clock)).or_else(|| Some((-1, zone.strip_prefix('-')?)))?,
    };
    let [hours, minutes] = parts(clock, ':')?;
    (clock.len() == "02:00".len() && hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970 of `yyyy-mm-dd`.
fn date_number(text: &str) -> Option<i64> {
    let [year, month, day] = parts(text, '-')?;
    let shape = text.len() == 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = |month| match month {
        2 => 28 + i64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !shape || !(1..=12).contains(&month) || !(1..=length(month)).contains(&day) {
        return None;
    }
    let years: i64 = (0..year).map(|year| 365 + i64::from(leap(year))).sum();
    Some(years + (1..month).map(length).sum::<i64>() + day - 1 - 719_528)
}

/// The end of a date in UTC, or a moment; after the year 9000 the last that there is.
pub(crate) fn until(text: &str) -> Option<i128> {
    let end = |day: i64| i128::from(day + 1) * i128::from(DAY) * 1_000_000_000;
    let until = date_number(text).map(end).or_else(|| any_moment(text))?;
    let until = if year(text) > 9000 { Timestamp::MAX.as_nanosecond() } else { until };
    (year(text) >= 2000).then_some(until)
}

/// Seconds.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let mut seconds = 0_i64;
    let mut units = "wdhms".chars();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = rest[digits..].chars().next()?;
        units.find(|known| *known == unit)?;
        let count = rest[..digits].trim_start_matches('0');
        if digits == 0 || count.len() > 9 {
            return None;
        }
        let length = match unit {
            'w' => 7 * DAY,
            'd' => DAY,
            'h' => 3600,
            'm' => 60,
            _ => 1,
        };
        seconds += format!("0{count}").parse::<i64>().ok()? * length;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty() && seconds <= 3660 * DAY).then_some(seconds)
}

pub(crate) fn hours(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [days, times, zone] = words[..] else { return false };
    let is_day = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].contains(&name.as_str())
    };
    let mut parts_of_days = days.split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
    let clock = |text: &str| {
        let [hour, minute] = parts(text, ':')?;
        (text.len() == 5 && hour <= 23 && minute <= 59).then_some((hour, minute))
    };
    let times = times.split_once('-').is_some_and(|(start, end)| {
        let whole_day = times == "00:00-24:00";
        let end = if end == "24:00" { Some((0, 0)) } else { clock(end) };
        clock(start).is_some_and(|start| end.is_some_and(|end| whole_day || start != end))
    });
    let nowhere = ["etc/unknown", "factory"].contains(&zone.to_ascii_lowercase().as_str());
    parts_of_days.all(|(first, last)| is_day(first) && is_day(last))
        && times
        && !nowhere
        && jiff::tz::TimeZone::get(zone).is_ok()
}

/// Whole numbers between separators.
fn parts<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let number = |part: &str| {
        let legal = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if legal { part.parse().ok() } else { None }
    };
    text.split(separator).map(number).collect::<Option<Vec<i64>>>()?.try_into().ok()
}
