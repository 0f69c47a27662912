//! Announced actions, and the label by which the resource shows the earliest of them.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::rule::{ResourceAction, Rule};

/// The age after which an announcement is void: whatever delayed the action, people are notified again.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// An action that was announced for one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AnnouncedAction {
    #[serde(rename = "action")]
    pub ending: ResourceAction,
    /// The mode in which it was announced. What observe mode announced binds nothing in enforce mode.
    pub mode: Mode,
    /// The time of the announcement.
    pub at: Timestamp,
    /// Earliest time of the action, in whole seconds.
    pub deadline: Timestamp,
}

impl AnnouncedAction {
    /// `true` if the announcement still binds at `now`, for something that lives since `since`: it is neither of an earlier life, nor
    /// forgotten.
    #[must_use]
    pub fn is_fresh(self, since: Timestamp, now: Timestamp) -> bool {
        self.deadline >= since && now.duration_since(self.deadline) <= FORGOTTEN_AFTER
    }
}

/// Rounds a moment down to a whole second, as tags are written, so that a grace of `0s` is over in the next run, however soon that comes.
#[must_use]
pub fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The value of `curfew:marked`, for people and for IAM: the earliest announced action. Anybody may have written a tag, so Curfew never
/// reads it back; [`NotificationLog`](crate::notification_log::NotificationLog) knows what was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    pub rule: Rule,
    pub ending: ResourceAction,
    pub deadline: Timestamp,
}

impl Mark {
    /// The label of these announced actions; `None` where there are none.
    pub fn earliest(announced: impl IntoIterator<Item = (Rule, AnnouncedAction)>) -> Option<Self> {
        let earliest = announced.into_iter().min_by_key(|(rule, announced)| (announced.deadline, *rule));
        earliest.map(|(rule, AnnouncedAction { ending, deadline, .. })| Self { rule, ending, deadline })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, ending, deadline } = self;
        write!(f, "{rule}={ending}@{deadline}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(ending: ResourceAction, deadline: &str) -> AnnouncedAction {
        let at = "2026-09-01T11:00:00Z".parse().unwrap();
        AnnouncedAction { ending, mode: Mode::Enforce, at, deadline: deadline.parse().unwrap() }
    }

    #[test]
    fn the_label_has_the_earliest_action() {
        let of =
            |entries: &[(Rule, AnnouncedAction)]| Mark::earliest(entries.iter().copied()).map(|mark| mark.to_string());
        let (idle, hours) = (
            (Rule::Idle, announced(ResourceAction::Terminate, "2026-09-01T12:00:00Z")),
            (Rule::Hours, announced(ResourceAction::Stop, "2026-09-01T11:30:00Z")),
        );
        assert_eq!(of(&[idle, hours]).as_deref(), Some("hours=stop@2026-09-01T11:30:00Z"));
        assert_eq!(of(&[idle]).as_deref(), Some("idle=terminate@2026-09-01T12:00:00Z"));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_announcement_binds_in_its_own_life_and_for_a_week() {
        let check = |deadline: &str, since: &str, now: &str, expect: bool| {
            let announced = announced(ResourceAction::Stop, deadline);
            assert_eq!(announced.is_fresh(since.parse().unwrap(), now.parse().unwrap()), expect, "{deadline} at {now}");
        };
        check("2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", true);
        check("2026-09-01T11:59:59Z", "2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", false);
        check("2026-09-02T12:00:00Z", "2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", true);
        check("2026-09-01T12:00:00Z", "2026-08-01T12:00:00Z", "2026-09-08T12:00:00Z", true);
        check("2026-09-01T12:00:00Z", "2026-08-01T12:00:00Z", "2026-09-08T12:00:01Z", false);
    }
}
