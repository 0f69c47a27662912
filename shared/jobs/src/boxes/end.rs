//! The ends of a box: the hard one that is fixed at its launch, the soft one that a person moves, and idleness.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// People hear of an end so long before it.
pub(super) const WARNED_BEFORE: SignedDuration = SignedDuration::from_mins(10);

/// A box that its agent has not ended is ended from outside so long after its soft end.
const FROM_OUTSIDE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The times at which a box ends whatever happens in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxTimes {
    /// Fixed at the launch of its machine: nobody can move it.
    pub hard_end: Timestamp,
    /// Moved by `extend`, never beyond the hard end.
    pub soft_end: Timestamp,
    /// The time before which it does not end by idleness.
    pub kept_until: Timestamp,
}

/// An end, and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoxEnd {
    pub at: Timestamp,
    pub cause: BoxEndCause,
}

/// The reason for the end of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BoxEndCause {
    HardEnd,
    SoftEnd,
    Idle,
}

impl BoxTimes {
    /// The times of a box that is launched now, without a word of anybody about idleness.
    #[must_use]
    pub fn new(soft_end: Timestamp, hard_end: Timestamp, now: Timestamp) -> Self {
        Self { hard_end, soft_end: soft_end.min(hard_end), kept_until: now }
    }

    /// The times after `extend`: the box ends within that time neither by idleness nor by its soft end. An end that is later stays.
    ///
    /// # Errors
    /// The hard end, if that would be later.
    pub fn extended(self, by: SignedDuration, now: Timestamp) -> Result<Self, Timestamp> {
        let until = now.saturating_add(by).unwrap_or(Timestamp::MAX);
        if until > self.hard_end {
            return Err(self.hard_end);
        }
        Ok(Self { soft_end: self.soft_end.max(until), kept_until: self.kept_until.max(until), ..self })
    }

    /// The next end, as far as is known now. `idle_until`: when it ends by idleness if nobody comes; `None` while it is in use.
    #[must_use]
    pub fn next_end(self, idle_until: Option<Timestamp>) -> BoxEnd {
        let idle = idle_until.map(|at| BoxEnd { at: at.max(self.kept_until), cause: BoxEndCause::Idle });
        let soft = BoxEnd { at: self.soft_end, cause: BoxEndCause::SoftEnd };
        let hard = BoxEnd { at: self.hard_end, cause: BoxEndCause::HardEnd };
        [Some(hard), Some(soft), idle].into_iter().flatten().min_by_key(|end| (end.at, end.cause)).unwrap_or(hard)
    }

    /// The time from which it is ended from outside, whatever its agent says.
    #[must_use]
    pub fn ended_from_outside_at(self) -> Timestamp {
        self.soft_end.saturating_add(FROM_OUTSIDE_AFTER).unwrap_or(Timestamp::MAX).min(self.hard_end)
    }
}

impl BoxEnd {
    /// `true` once people are to hear of it.
    #[must_use]
    pub fn is_near(self, now: Timestamp) -> bool {
        self.at.duration_since(now) <= WARNED_BEFORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64) -> Timestamp {
        "2026-11-02T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(hour)
    }

    fn end(hour: i64, cause: BoxEndCause) -> BoxEnd {
        BoxEnd { at: at(hour), cause }
    }

    #[test]
    fn extending_moves_the_soft_end_up_to_the_hard_one() {
        let times = BoxTimes::new(at(19), at(32), at(8));
        assert_eq!(times.next_end(None), end(19, BoxEndCause::SoftEnd));
        assert_eq!(times.next_end(Some(at(13))), end(13, BoxEndCause::Idle));
        let extended = times.extended(SignedDuration::from_hours(3), at(17)).unwrap();
        assert_eq!(extended.next_end(None), end(20, BoxEndCause::SoftEnd));
        assert_eq!(extended.next_end(Some(at(18))), end(20, BoxEndCause::SoftEnd), "it is kept until then");
        assert_eq!(times.extended(SignedDuration::from_hours(3), at(9)).unwrap().soft_end, at(19), "it is later");
        assert_eq!(times.extended(SignedDuration::from_hours(16), at(17)), Err(at(32)));
        assert_eq!(times.extended(SignedDuration::MAX, at(17)), Err(at(32)));
    }

    #[test]
    fn the_hard_end_is_the_last() {
        assert_eq!(BoxTimes::new(at(40), at(32), at(8)).next_end(None), end(32, BoxEndCause::HardEnd));
        let times = BoxTimes::new(at(19), at(32), at(8));
        assert_eq!(times.ended_from_outside_at(), at(19) + SignedDuration::from_mins(5));
        assert_eq!(BoxTimes::new(at(32), at(32), at(8)).ended_from_outside_at(), at(32));
        let soft = times.next_end(None);
        assert!(soft.is_near(at(19)) && soft.is_near(at(19) - WARNED_BEFORE) && !soft.is_near(at(18)));
    }
}
