//! Moments at the pace of 1. The rules of [`jobs::node_gang`] compare moments by real durations, and only tests have another pace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::node_gang::{DocumentSight, GangListing, GangStep, GangStop, Listed, OwnEnding, StopOrder};
use model::moment::after;

use crate::world::Pace;

/// Moments around one that is the same at any pace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    pub(super) pace: Pace,
    pub(super) now: Timestamp,
}

impl Moments {
    const fn is_real(self) -> bool {
        self.pace.0 <= 1
    }

    /// The moment as the rules see it.
    pub(super) fn stretch(self, at: Timestamp) -> Timestamp {
        after(self.now, self.pace.unhurried(at.duration_since(self.now)))
    }

    /// The real moment.
    pub(super) fn shrink(self, at: Timestamp) -> Timestamp {
        after(self.now, self.pace.scale(at.duration_since(self.now)))
    }

    /// The listing as the rules see it.
    pub(super) fn stretch_listing(self, listing: &GangListing) -> GangListing {
        let mut stretched = listing.clone();
        if self.is_real() {
            return stretched;
        }
        self.stretch_all(&mut stretched.members);
        self.stretch_all(&mut stretched.exits);
        for at in stretched.beats.values_mut() {
            *at = self.stretch(*at);
        }
        for round in stretched.rounds.values_mut() {
            if let Some(listed) = &mut round.round {
                listed.at = self.stretch(listed.at);
            }
            self.stretch_all(&mut round.ready);
            self.stretch_all(&mut round.ended);
        }
        if let Some(stop) = &mut stretched.stop {
            stop.at = self.stretch(stop.at);
            if let DocumentSight::Read(content) = &mut stop.content {
                content.until = self.stretch(content.until);
            }
        }
        stretched
    }

    fn stretch_all<K: Ord, T>(self, listed: &mut BTreeMap<K, Listed<T>>) {
        for listed in listed.values_mut() {
            listed.at = self.stretch(listed.at);
        }
    }

    pub(super) fn stretch_ending(self, ending: OwnEnding) -> OwnEnding {
        match ending {
            OwnEnding::Warned { at, notice } => {
                OwnEnding::Warned { at: self.stretch(at), notice: notice.map(|notice| self.stretch(notice)) }
            }
            OwnEnding::Expired { until } => OwnEnding::Expired { until: self.stretch(until) },
            other => other,
        }
    }

    /// The act with real moments.
    pub(super) fn shrink_step(self, act: GangStep) -> GangStep {
        match act {
            GangStep::Save { until } => GangStep::Save { until: until.map(|until| self.shrink(until)) },
            GangStep::WriteStop(stop) => GangStep::WriteStop(GangStop { until: self.shrink(stop.until), ..stop }),
            GangStep::Stop(order) => GangStep::Stop(StopOrder { until: self.shrink(order.until), ..order }),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_as_far_from_now_as_the_pace_says() {
        let at = |second: i64| Timestamp::from_second(1_796_000_000 + second).unwrap();
        let moments = Moments { pace: Pace(20), now: at(0) };
        assert_eq!((moments.stretch(at(-15)), moments.shrink(at(100))), (at(-300), at(5)));
        assert_eq!(Moments { pace: Pace(1), now: at(0) }.stretch(at(-15)), at(-15));
        let mut listing = GangListing::default();
        listing.beats.insert(1, at(-3));
        assert_eq!(moments.stretch_listing(&listing).beats[&1], at(-60));
    }
}
