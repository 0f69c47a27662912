//! Windows of days, in whole hours: what they measure changes slowly, so a run asks once a day.

use jiff::{SignedDuration, Timestamp};
use model::moment::before;
use model::usage::{LAG, UsageWindow};

/// Period of the samples of a long window.
pub(crate) const HOUR: SignedDuration = SignedDuration::from_hours(1);

const HALF_AN_HOUR: SignedDuration = SignedDuration::from_mins(30);

pub(crate) const HOURS_OF_A_DAY: i64 = 24;

/// The window of that length as seen at `now`, rounded down to whole hours.
pub(crate) fn ending_before(now: Timestamp, length: SignedDuration) -> Option<UsageWindow> {
    let hour = HOUR.as_secs();
    let last = before(now, LAG).as_second();
    let to = Timestamp::from_second(last.saturating_sub(last.rem_euclid(hour))).ok()?;
    Some(UsageWindow { from: before(to, SignedDuration::from_hours(length.as_hours().max(1))), to })
}

/// `true` around each full day since then: a run comes by the hour.
pub(crate) fn is_asked_today(since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since).saturating_add(HALF_AN_HOUR).as_hours().rem_euclid(HOURS_OF_A_DAY) == 0
}

/// Number of hours of a window.
pub(crate) fn hours(window: UsageWindow) -> usize {
    usize::try_from(window.to.duration_since(window.from).as_hours()).unwrap_or_default()
}

/// `true` if so many samples are enough for a window.
pub(crate) fn is_covered(samples: usize, window: UsageWindow, coverage_min_percent: u8) -> bool {
    samples > 0 && samples.saturating_mul(100) >= hours(window).saturating_mul(usize::from(coverage_min_percent))
}
