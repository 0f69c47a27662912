//! The tags of owners by their structure: `model` reads the tags, the oracle the structure.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use model::config::{DiskPolicy, RuleAction};
use model::instance::Tags;
use model::mode::Mode;

use crate::chance::{MINUTE, RandomStream, stamp};
use crate::settings::{self, TEAMS};

/// Projects that machines name. A list of the account has the first.
pub(crate) const PROJECTS: [&str; 2] = ["atlas", "doom"];

/// Unreadable tags, which protect.
pub(crate) const TYPOS: [(&str, &str); 8] = [
    ("curfew:idle-after", "soon"),
    ("curfew:on-idle", "kill"),
    ("curfew:expires-at", "tomorrow"),
    ("curfew:hours", "9 to 5"),
    ("curfew:mode", "Observe"),
    ("Curfew:Protected", "yes"),
    ("curfew:keep-untill", "2030-01-01"),
    ("curfew-protected", ""),
];

/// `curfew:idle-after`.
#[derive(Clone, Copy)]
pub(crate) enum OwnerIdleAfter {
    Off,
    Seconds(i64),
}

#[derive(Clone, Default)]
pub(crate) struct OwnerTags {
    /// An index into [`TEAMS`].
    pub(crate) team: Option<usize>,
    /// The team is under a mistyped key, so there is none.
    pub(crate) team_mistyped: bool,
    pub(crate) owner: bool,
    /// An index into [`PROJECTS`].
    pub(crate) project: Option<usize>,
    pub(crate) protected: bool,
    pub(crate) kept_until: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) hours: Option<OwnerHours>,
    pub(crate) mode: Option<Mode>,
    pub(crate) idle_after: Option<OwnerIdleAfter>,
    pub(crate) on_idle: Option<RuleAction>,
    pub(crate) local_disk: Option<DiskPolicy>,
    /// An index into [`TYPOS`].
    pub(crate) typo: Option<usize>,
    /// The number of the job that it names.
    pub(crate) job: Option<u32>,
}

impl OwnerTags {
    pub(crate) fn team(&self) -> Option<&'static str> {
        self.team.filter(|_| !self.team_mistyped).map(|team| TEAMS[team])
    }

    /// The tags that its owner wrote.
    pub(crate) fn tags(&self) -> Tags {
        let mut tags = Tags::new();
        let mut tag = |key: &str, value: String| drop(tags.insert(key.to_owned(), value));
        if let Some(team) = self.team {
            tag(if self.team_mistyped { "team" } else { "Team" }, TEAMS[team].to_owned());
        }
        if self.owner {
            tag("Owner", "ada".to_owned());
        }
        if let Some(project) = self.project {
            tag("Project", PROJECTS[project].to_owned());
        }
        if self.protected {
            tag("curfew:protected", "yes".to_owned());
        }
        if let Some(until) = self.kept_until {
            tag("curfew:keep-until", stamp(until).to_string());
        }
        if let Some(at) = self.expires_at {
            tag("curfew:expires-at", stamp(at).to_string());
        }
        if let Some(hours) = self.hours {
            tag("curfew:hours", hours.text());
        }
        if let Some(mode) = self.mode {
            tag("curfew:mode", settings::mode(mode).to_owned());
        }
        match self.idle_after {
            Some(OwnerIdleAfter::Seconds(seconds)) => tag("curfew:idle-after", format!("{seconds}s")),
            Some(OwnerIdleAfter::Off) => tag("curfew:idle-after", "off".to_owned()),
            None => {}
        }
        if let Some(action) = self.on_idle {
            tag("curfew:on-idle", settings::action(action).to_owned());
        }
        if let Some(disk) = self.local_disk {
            tag("curfew:local-disk", disk.to_string());
        }
        if let Some(job) = self.job {
            tag("curfew:job", settings::job_name(job));
            tag("curfew:attempt", "1".to_owned());
        }
        if let Some((key, value)) = self.typo.map(|typo| TYPOS[typo]) {
            tag(key, value.to_owned());
        }
        tags
    }
}

/// Hours begin and end by it, in every zone.
const HALF_HOUR: i64 = 30 * MINUTE;

/// Hours that end on half hours and not at a change of the clocks, so that the time decides.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct OwnerHours {
    days: &'static str,
    /// Minutes of the day; an end before its start is on the next day.
    start: i64,
    end: i64,
    zone: &'static str,
}

impl OwnerHours {
    pub(crate) fn draw(chance: &mut RandomStream) -> Self {
        let (start, end) =
            chance.pick(&[(8 * 60, 20 * 60), (7 * 60 + 30, 18 * 60), (20 * 60, 6 * 60), (9 * 60, 17 * 60)]);
        let days = chance.pick(&["Mon-Fri", "Mon-Fri", "Mon-Sun"]);
        let zone = chance.pick(&["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]);
        Self { days, start, end, zone }
    }

    fn text(self) -> String {
        let clock = |minutes: i64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        format!("{} {}-{} {}", self.days, clock(self.start), clock(self.end), self.zone)
    }

    pub(crate) fn is_inside(self, now: i64) -> bool {
        let Ok(zone) = TimeZone::get(self.zone) else { return false };
        let local = stamp(now).to_zoned(zone);
        let minutes = i64::from(local.hour()) * 60 + i64::from(local.minute());
        let on = |day: Weekday| self.days == "Mon-Sun" || !matches!(day, Weekday::Saturday | Weekday::Sunday);
        if self.start < self.end {
            return on(local.weekday()) && (self.start..self.end).contains(&minutes);
        }
        (on(local.weekday()) && minutes >= self.start) || (on(local.weekday().previous()) && minutes < self.end)
    }

    /// When its hours last ended, and when they last began; within a week, which always holds.
    pub(crate) fn last_end(self, now: i64) -> i64 {
        Self::half_hours_before(now).find(|at| !self.is_inside(*at) && self.is_inside(*at - HALF_HOUR)).unwrap_or(0)
    }

    pub(crate) fn last_start(self, now: i64) -> i64 {
        Self::half_hours_before(now).find(|at| self.is_inside(*at) && !self.is_inside(*at - HALF_HOUR)).unwrap_or(0)
    }

    fn half_hours_before(now: i64) -> impl Iterator<Item = i64> {
        let last = now.div_euclid(HALF_HOUR) * HALF_HOUR;
        (0..7 * 48).map(move |back| last - back * HALF_HOUR)
    }
}
