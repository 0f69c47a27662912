//! Batching queries about volumes to `CloudWatch` into few calls. Pure.

use jiff::{SignedDuration, Timestamp};
use model::moment::before;
use model::volume::VolumeUseQuery;

use crate::observe::batch::{DATAPOINTS_MAX, QUERIES_MAX};

/// Period lengths from fine to coarse. Each divides a day, so that periods of every length are aligned with days.
const GRAINS: [PeriodGrain; 13] = [
    PeriodGrain::of_minutes(1, 15),
    PeriodGrain::of_minutes(5, 63),
    PeriodGrain::of_minutes(10, 63),
    PeriodGrain::of_minutes(15, 63),
    PeriodGrain::of_minutes(30, 63),
    PeriodGrain::of_minutes(60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(2 * 60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(3 * 60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(4 * 60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(6 * 60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(8 * 60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(12 * 60, OLDEST_KEPT_DAYS),
    PeriodGrain::of_minutes(24 * 60, OLDEST_KEPT_DAYS),
];
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
const OLDEST_KEPT_DAYS: i64 = 455;
/// A query covers at least so many periods, because up to one of them is lost.
const PERIODS_MIN: i32 = 24;

/// A period length, and for how long `CloudWatch` keeps its data: minutes for 15 days, five minutes for 63 and hours for 455 (`CloudWatch`
/// API reference, `GetMetricData`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PeriodGrain {
    period: SignedDuration,
    kept: SignedDuration,
}

/// One query: has this volume been in use at or after that moment?
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UseQuestion<'a> {
    pub(super) ask: &'a VolumeUseQuery,
    /// The start of the first period that counts.
    pub(super) from: Timestamp,
}

/// The questions of one call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UseCall<'a> {
    /// The length of each period.
    pub(super) period: SignedDuration,
    /// The end of the current period.
    pub(super) until: Timestamp,
    /// The earliest comes first.
    pub(super) questions: Vec<UseQuestion<'a>>,
}

impl UseCall<'_> {
    /// The call starts at the earliest query; samples before a query's own start do not count.
    pub(super) fn from(&self) -> Timestamp {
        self.questions.first().map_or(self.until, |question| question.from)
    }
}

/// Every query once, in few calls: the oldest together, each call with the shortest possible periods.
///
/// A volume without any sample also counts with all its periods: `CloudWatch` estimates the data points that it would have to look up, and
/// refuses too many (`CloudWatch` user guide, "CloudWatch service quotas": data points per second). 500 volumes over 14 days are ten
/// million minutes.
pub(super) fn calls<'a>(asks: impl Iterator<Item = &'a VolumeUseQuery>, now: Timestamp) -> Vec<UseCall<'a>> {
    let mut asks: Vec<&VolumeUseQuery> = asks.collect();
    asks.sort_by_key(|ask| ask.since);
    let mut rest = &asks[..];
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let prefixes = (1..=rest.len().min(QUERIES_MAX)).map(|count| (count, grain(&rest[..count], now)));
        let fitting = prefixes.map_while(|(count, grain)| Some((count, grain?))).last();
        let (count, grain) = fitting.unwrap_or((1, GRAINS[GRAINS.len() - 1]));
        let (together, later) = rest.split_at(count);
        let questions = together.iter().map(|ask| UseQuestion { ask, from: grain.start(ask.since, now) }).collect();
        calls.push(UseCall { period: grain.period, until: grain.end(now), questions });
        rest = later;
    }
    calls
}

/// The finest grain that reaches back to the oldest of these queries, which comes first, is not too long for the youngest, and keeps all of
/// them within the limit of data points.
fn grain(asks: &[&VolumeUseQuery], now: Timestamp) -> Option<PeriodGrain> {
    let (oldest, youngest) = (asks.first()?.since, asks.last()?.since);
    let fits = |grain: &&PeriodGrain| {
        grain.goes_back_to(oldest, now)
            && (grain.period == MINUTE || grain.period.saturating_mul(PERIODS_MIN) <= now.duration_since(youngest))
            && asks.len() * grain.periods(oldest, now) <= DATAPOINTS_MAX
    };
    GRAINS.iter().find(fits).copied()
}

impl PeriodGrain {
    /// Grain with an hour to spare, because the call follows later.
    const fn of_minutes(minutes: i64, kept_days: i64) -> Self {
        Self {
            period: SignedDuration::from_mins(minutes),
            kept: SignedDuration::from_hours(kept_days.saturating_mul(24).saturating_sub(1)),
        }
    }

    /// A query that is older than all data goes back as far as there are data.
    fn goes_back_to(self, since: Timestamp, now: Timestamp) -> bool {
        now.duration_since(since) < self.kept || self.kept.as_hours() > (OLDEST_KEPT_DAYS - 1) * 24
    }

    /// The number of periods that begin at or after that moment and have not ended.
    fn periods(self, since: Timestamp, now: Timestamp) -> usize {
        let seconds = self.end(now).duration_since(self.start(since, now)).as_secs();
        usize::try_from(seconds.div_euclid(self.period.as_secs().max(1))).unwrap_or(1)
    }

    /// The start of the first period that counts. Minutes begin with the one that contains `since`. Longer periods begin with the first
    /// that is entirely after `since`: the samples of an earlier one could be from before `since`.
    ///
    /// Neither in the future nor older than the data, because `CloudWatch` would refuse the whole call.
    fn start(self, since: Timestamp, now: Timestamp) -> Timestamp {
        let since = since.as_second().max(before(now, self.kept).as_second());
        let start = if self.period == MINUTE { self.rounded_down(since) } else { self.rounded_up(since) };
        second(start.min(self.rounded_down(now.as_second().saturating_sub(1))), now)
    }

    fn end(self, now: Timestamp) -> Timestamp {
        second(self.rounded_up(now.as_second()), now)
    }

    const fn rounded_down(self, second: i64) -> i64 {
        second.saturating_sub(second.rem_euclid(self.period.as_secs()))
    }

    const fn rounded_up(self, second: i64) -> i64 {
        self.rounded_down(second.saturating_add(self.period.as_secs()).saturating_sub(1))
    }
}

fn second(second: i64, now: Timestamp) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(now)
}

#[cfg(test)]
mod tests;
