//! Search for hours of work that repeat every week.

use std::fmt;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use model::hours::Hours;
use model::money::Rate;

use super::{FindingKind, InstanceUsage, UsageFinding, UsageHour};

const HOURS_OF_WEEK: u64 = 168;

/// Margin before and after the busy hours, so that no instance is stopped a minute early.
const MARGIN_HOURS: i8 = 1;

/// Less than this is no reason to stop a machine each evening.
const SAVED_MIN_PERCENT: u64 = 20;

/// The hours of the week that hold all work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeeklyHours {
    /// `true` if weekends have no work.
    pub is_weekdays: bool,
    /// First hour of the day; 0 to 23.
    pub from: i8,
    /// End of the last hour of the day; 1 to 24.
    pub to: i8,
    pub zone: String,
}

/// Text in the form of `curfew:hours`. Midnight as an end is `23:59`, because a day ends there.
impl fmt::Display for WeeklyHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_weekdays, from, to, zone } = self;
        let days = if *is_weekdays { "Mon-Fri" } else { "Mon-Sun" };
        let to = if *to == 24 { "23:59".to_owned() } else { format!("{to:02}:00") };
        write!(f, "{days} {from:02}:00-{to} {zone}")
    }
}

/// The finding about an instance without a tag of its hours, if its work keeps to some hours in this time zone. `busy_percent`: from which utilisation on a GPU works.
#[must_use]
pub fn find_hours(usage: &InstanceUsage, zone: &TimeZone, busy_percent: f64) -> Option<UsageFinding> {
    let rate = usage.rate.filter(|_| usage.is_evident() && !usage.has_hours)?;
    let weekly = weekly_hours(usage, zone, busy_percent)?;
    // The advice is to write this tag.
    Hours::read(&weekly.to_string()).ok()?;
    let outside = usage.hours.iter().filter(|hour| !weekly.holds(hour, zone)).count();
    let (outside, seen) = (u64::try_from(outside).ok()?, u64::try_from(usage.hours.len()).ok()?);
    (outside.saturating_mul(100) >= seen.saturating_mul(SAVED_MIN_PERCENT)).then_some(())?;
    let saves =
        u64::try_from(u128::from(rate.usd_micros_per_hour()) * u128::from(outside) / u128::from(seen.max(1))).ok()?;
    Some(UsageFinding {
        kind: FindingKind::Hours,
        region: usage.region.clone(),
        resource: usage.instance.to_string(),
        what: usage.instance_type.to_string(),
        team: usage.team.clone(),
        saves: Rate::from_usd_micros_per_hour(saves),
        evidence: format!(
            "{} its GPUs were never busy outside of {weekly}; it ran for {outside} of {seen} hours outside of them",
            usage.seen()
        ),
        action: format!("tag it curfew:hours={weekly}"),
    })
}

fn weekly_hours(usage: &InstanceUsage, zone: &TimeZone, busy_percent: f64) -> Option<WeeklyHours> {
    let is_busy = |hour: &&UsageHour| hour.utilization.iter().any(|percent| *percent >= busy_percent);
    let mut busy = usage.hours.iter().filter(is_busy).map(|hour| hour.from.to_zoned(zone.clone())).peekable();
    // What never works is idle, which another rule finds.
    busy.peek()?;
    let (mut is_weekdays, mut from, mut to) = (true, 24, 0);
    for hour in busy {
        is_weekdays &= !is_weekend(hour.weekday());
        from = from.min(hour.hour());
        to = to.max(hour.hour() + 1);
    }
    let (from, to) = ((from - MARGIN_HOURS).max(0), (to + MARGIN_HOURS).min(24));
    let weekly = WeeklyHours { is_weekdays, from, to, zone: zone.iana_name().unwrap_or("UTC").to_owned() };
    (weekly.count() < HOURS_OF_WEEK).then_some(weekly)
}

const fn is_weekend(day: Weekday) -> bool {
    matches!(day, Weekday::Saturday | Weekday::Sunday)
}

impl WeeklyHours {
    fn count(&self) -> u64 {
        let days = if self.is_weekdays { 5 } else { 7 };
        u64::try_from(self.to - self.from).unwrap_or(0).saturating_mul(days)
    }

    fn holds(&self, hour: &UsageHour, zone: &TimeZone) -> bool {
        let at = hour.from.to_zoned(zone.clone());
        !(self.is_weekdays && is_weekend(at.weekday())) && (self.from..self.to).contains(&at.hour())
    }
}
