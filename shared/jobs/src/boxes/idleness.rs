//! The idleness of a box: by its work, by people who are connected, and by their input.
//!
//! | work | connected | input within `idle` | the box |
//! |---|---|---|---|
//! | yes | any | any | is in use |
//! | no | yes | yes | is in use |
//! | no | yes | no, or unknown | is in use for `attached_max` from the last known input on, and then idle |
//! | no | no | any | is idle |
//! | unknown | any | any | is not judged: the clock stands still |
//! | no | unknown | any | is not judged |
//!
//! Unknown ends nothing. An open window without input keeps a box only for a while, and a connection is none before two looks in a row have seen
//! it.

use jiff::{SignedDuration, Timestamp};

/// The longest time that one look can add to the clock. A machine that slept, or an agent that stood still, has not seen the time between.
const LOOK_MAX: SignedDuration = SignedDuration::from_mins(2);

/// A connection without input keeps a box for so long.
pub const ATTACHED_MAX: SignedDuration = SignedDuration::from_hours(4);

/// Unknown for so long, it is reported.
const REPORTED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The answer of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    Yes,
    No,
    Unknown,
}

impl Sign {
    /// `Yes` if any source says so; else unknown if any is.
    #[must_use]
    pub fn any(signs: impl IntoIterator<Item = Self>) -> Self {
        signs.into_iter().fold(Self::No, |all, one| match (all, one) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::No, Self::No) => Self::No,
        })
    }
}

/// The signs of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub at: Timestamp,
    /// GPUs or processes of people at work, or a lock against idleness.
    pub works: Sign,
    /// A connection to the box that is established.
    pub is_connected: Sign,
    /// The newest input that can be read; `None` where none can.
    pub input_at: Option<Timestamp>,
}

/// The times of a box by which it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleLimits {
    /// Idle for so long, the box ends.
    pub idle: SignedDuration,
    /// A connection without input counts for so long.
    pub attached_max: SignedDuration,
}

/// The state of a box at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    InUse,
    /// The time for which nothing has kept it.
    Idle(SignedDuration),
    Unknown,
}

/// The time for which a box has been idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleClock {
    idle_for: SignedDuration,
    looked_at: Timestamp,
    was_connected: Sign,
    last_input: Timestamp,
    unknown_since: Option<Timestamp>,
}

impl IdleClock {
    /// Begins when the box is ready: before that nobody can use it.
    #[must_use]
    pub const fn begin(ready_at: Timestamp) -> Self {
        Self {
            idle_for: SignedDuration::ZERO,
            looked_at: ready_at,
            was_connected: Sign::No,
            last_input: ready_at,
            unknown_since: None,
        }
    }

    /// Takes one look into account.
    pub fn look(&mut self, look: &Look, limits: IdleLimits) -> Occupancy {
        let since_last = look.at.duration_since(self.looked_at).clamp(SignedDuration::ZERO, LOOK_MAX);
        self.looked_at = look.at;
        // An input of the future was not read right.
        let input_at = look.input_at.filter(|at| *at <= look.at);
        self.last_input = input_at.map_or(self.last_input, |at| at.max(self.last_input));
        // Who comes, or has something run, is there as much as who types.
        if look.works == Sign::Yes || (self.was_connected, look.is_connected) == (Sign::No, Sign::Yes) {
            self.last_input = self.last_input.max(look.at);
        }
        let is_connected = match (self.was_connected, look.is_connected) {
            (Sign::No, Sign::Yes) => Sign::No,
            (_, now) => now,
        };
        self.was_connected = look.is_connected;
        let occupancy = self.judge(look, is_connected, since_last, limits);
        self.unknown_since = match occupancy {
            Occupancy::Unknown => self.unknown_since.or(Some(look.at)),
            Occupancy::InUse | Occupancy::Idle(_) => None,
        };
        self.idle_for = match occupancy {
            Occupancy::Idle(idle_for) => idle_for,
            Occupancy::InUse => SignedDuration::ZERO,
            Occupancy::Unknown => self.idle_for,
        };
        occupancy
    }

    fn judge(&self, look: &Look, is_connected: Sign, since_last: SignedDuration, limits: IdleLimits) -> Occupancy {
        let without_input = look.at.duration_since(self.last_input);
        match (look.works, is_connected) {
            (Sign::Yes, _) => Occupancy::InUse,
            (Sign::Unknown, _) | (Sign::No, Sign::Unknown) => Occupancy::Unknown,
            (Sign::No, Sign::Yes) if without_input < limits.idle.max(limits.attached_max) => Occupancy::InUse,
            (Sign::No, Sign::Yes | Sign::No) => Occupancy::Idle(self.idle_for.saturating_add(since_last)),
        }
    }

    /// The time at which the box ends if nothing happens to it from now on; `None` while it is in use or not judged.
    #[must_use]
    pub fn ends_at(&self, occupancy: Occupancy, limits: IdleLimits) -> Option<Timestamp> {
        let Occupancy::Idle(idle_for) = occupancy else { return None };
        let left = limits.idle.saturating_sub(idle_for).max(SignedDuration::ZERO);
        Some(self.looked_at.saturating_add(left).unwrap_or(Timestamp::MAX))
    }

    /// `true` if it could not be judged for so long that people should know.
    #[must_use]
    pub fn is_unknown_for_long(&self) -> bool {
        self.unknown_since.is_some_and(|since| self.looked_at.duration_since(since) >= REPORTED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: IdleLimits =
        IdleLimits { idle: SignedDuration::from_hours(1), attached_max: SignedDuration::from_hours(4) };
    const SIGNS: [Sign; 3] = [Sign::Yes, Sign::No, Sign::Unknown];

    fn at(minute: i64) -> Timestamp {
        "2026-11-02T09:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minute)
    }

    fn look(minute: i64, works: Sign, is_connected: Sign, input: Option<i64>) -> Look {
        Look { at: at(minute), works, is_connected, input_at: input.map(at) }
    }

    /// The occupancy after looks of each minute, all alike but for their input.
    fn after(minutes: i64, works: Sign, is_connected: Sign, input: impl Fn(i64) -> Option<i64>) -> Occupancy {
        let mut clock = IdleClock::begin(at(0));
        let looks = (1..=minutes).map(|minute| look(minute, works, is_connected, input(minute)));
        looks.map(|look| clock.look(&look, LIMITS)).last().unwrap()
    }

    #[test]
    fn every_row_of_the_table() {
        for works in SIGNS {
            for is_connected in SIGNS {
                for input in SIGNS {
                    let input_at = |minute| match input {
                        Sign::Yes => Some(minute),
                        Sign::No => Some(0),
                        Sign::Unknown => None,
                    };
                    let found = after(300, works, is_connected, input_at);
                    let expected = match (works, is_connected, input) {
                        (Sign::Yes, ..) | (Sign::No, Sign::Yes, Sign::Yes) => Occupancy::InUse,
                        // Four hours after somebody came, of the five that went by.
                        (Sign::No, Sign::Yes, _) => Occupancy::Idle(SignedDuration::from_mins(60)),
                        (Sign::No, Sign::No, _) => Occupancy::Idle(SignedDuration::from_mins(300)),
                        (Sign::Unknown, ..) | (Sign::No, Sign::Unknown, _) => Occupancy::Unknown,
                    };
                    assert_eq!(found, expected, "{works:?}, {is_connected:?}, {input:?}");
                }
            }
        }
    }

    #[test]
    fn a_connection_counts_from_its_second_look_on() {
        let mut clock = IdleClock::begin(at(0));
        let idle = |minutes| Occupancy::Idle(SignedDuration::from_mins(minutes));
        assert_eq!(clock.look(&look(1, Sign::No, Sign::Yes, None), LIMITS), idle(1));
        assert_eq!(clock.look(&look(2, Sign::No, Sign::No, None), LIMITS), idle(2));
        assert_eq!(clock.look(&look(3, Sign::No, Sign::Yes, None), LIMITS), idle(3));
        assert_eq!(clock.look(&look(4, Sign::No, Sign::Yes, None), LIMITS), Occupancy::InUse);
    }

    #[test]
    fn who_comes_after_hours_of_work_is_there() {
        let mut clock = IdleClock::begin(at(0));
        for minute in 1..=300 {
            clock.look(&look(minute, Sign::Yes, Sign::No, None), LIMITS);
        }
        for minute in 301..=400 {
            clock.look(&look(minute, Sign::No, Sign::No, None), LIMITS);
        }
        clock.look(&look(401, Sign::No, Sign::Yes, None), LIMITS);
        for minute in 402..=640 {
            let editing = clock.look(&look(minute, Sign::No, Sign::Yes, None), LIMITS);
            assert_eq!(editing, Occupancy::InUse, "at minute {minute}: an editor has no terminal");
        }
        assert_ne!(clock.look(&look(641, Sign::No, Sign::Yes, None), LIMITS), Occupancy::InUse);
    }

    #[test]
    fn the_clock_stands_still_while_it_is_unknown() {
        let mut clock = IdleClock::begin(at(0));
        for minute in 1..=59 {
            clock.look(&look(minute, Sign::No, Sign::No, None), LIMITS);
        }
        for minute in 60..=118 {
            assert_eq!(clock.look(&look(minute, Sign::Unknown, Sign::No, None), LIMITS), Occupancy::Unknown);
        }
        assert!(!clock.is_unknown_for_long());
        clock.look(&look(120, Sign::Unknown, Sign::No, None), LIMITS);
        assert!(clock.is_unknown_for_long());
        let occupancy = clock.look(&look(121, Sign::No, Sign::No, None), LIMITS);
        assert_eq!(occupancy, Occupancy::Idle(SignedDuration::from_mins(60)));
        assert_eq!(clock.ends_at(occupancy, LIMITS), Some(at(121)));
    }

    #[test]
    fn time_that_nobody_saw_does_not_count() {
        let mut clock = IdleClock::begin(at(0));
        let asleep = clock.look(&look(600, Sign::No, Sign::No, None), LIMITS);
        assert_eq!(asleep, Occupancy::Idle(LOOK_MAX));
        assert_eq!(clock.ends_at(asleep, LIMITS), Some(at(658)));
        // A clock that was set back.
        assert_eq!(clock.look(&look(10, Sign::No, Sign::No, Some(900)), LIMITS), Occupancy::Idle(LOOK_MAX));
    }

    #[test]
    fn one_source_that_says_yes_is_enough() {
        assert_eq!(Sign::any([Sign::No, Sign::Unknown, Sign::Yes]), Sign::Yes);
        assert_eq!(Sign::any([Sign::No, Sign::Unknown]), Sign::Unknown);
        assert_eq!(Sign::any([Sign::No, Sign::No]), Sign::No);
        assert_eq!(Sign::any([]), Sign::No);
    }
}
