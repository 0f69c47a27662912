//! The expected market for Spot, from the history of it.

use jiff::Timestamp;

use crate::SpotHistory;
use crate::history::LengthDistribution;

/// Parts of a pause in which Spot may have come back.
const PARTS: u32 = 8;

/// An absence of Spot: its age when Spot was last asked for, and the time since then, in hours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Away {
    pub(crate) age: f64,
    pub(crate) unasked: f64,
}

/// The state of Spot at the last look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpotSight {
    /// `None`: it was there.
    pub(crate) away: Option<Away>,
    /// Age of the present stay, in hours.
    stay_age: f64,
}

/// Stays and absences as they are believed to be. All times are in hours.
#[derive(Clone)]
pub(crate) struct MarketModel {
    stays: LengthDistribution,
    absences: LengthDistribution,
    restart: f64,
    /// The share of the time in which Spot can be had.
    available: f64,
}

/// A stay or an absence within a layer.
pub(crate) struct Timing {
    /// Its age at the beginning.
    pub(crate) age: f64,
    /// The chance to last for the layer.
    pub(crate) lasts: f64,
    /// Mean time of its end within the layer, where it does not last for the layer.
    pub(crate) ends: f64,
}

/// The expected result of a launch on Spot.
pub(crate) struct AskResult {
    /// The chance that it is accepted.
    pub(crate) chance: f64,
    /// The age of the stay that it meets, in the mean.
    pub(crate) stay_age: f64,
    /// The slack that the restart takes then: less than all of it, where Spot may be lost before.
    pub(crate) lost_by_restart: f64,
    /// The age of the absence, where it is refused.
    pub(crate) absence_age: f64,
}

fn timing(lengths: &LengthDistribution, age: f64, step: f64) -> Timing {
    let survived = lengths.chance_to_last(age).max(f64::MIN_POSITIVE);
    let lasts = (lengths.chance_to_last(age + step) / survived).clamp(0.0, 1.0);
    let mean = (lengths.mean_within(age + step) - lengths.mean_within(age)) / survived;
    let ends = if lasts < 1.0 - 1e-9 { ((mean - step * lasts) / (1.0 - lasts)).clamp(0.0, step) } else { step };
    Timing { age, lasts, ends }
}

impl SpotSight {
    pub(crate) fn new(history: &SpotHistory, now: Timestamp) -> Self {
        let away = history.hours_unasked(now).map(|(unasked, age)| Away { age, unasked });
        Self { away, stay_age: history.hours_since_change(now) }
    }
}

impl MarketModel {
    pub(crate) fn new(history: &SpotHistory, restart: f64, horizon: f64, now: Timestamp) -> Self {
        let (stays, absences) = (history.stay_lengths(now), history.absence_lengths(now));
        let (stay, absence) = (stays.mean_within(horizon), absences.mean_within(horizon));
        Self { stays, absences, restart, available: stay / (stay + absence) }
    }

    pub(crate) fn stay(&self, age: f64, step: f64) -> Timing {
        timing(&self.stays, age, step)
    }

    pub(crate) fn absence(&self, age: f64, step: f64) -> Timing {
        timing(&self.absences, age, step)
    }

    /// The chance that a new stay lasts so long.
    pub(crate) fn chance_of_stay(&self, hours: f64) -> f64 {
        self.stays.chance_to_last(hours)
    }

    /// The mean time that a restart takes within a stay of that age, which may end before the restart does.
    pub(crate) fn lost_by_restart(&self, stay_age: f64) -> f64 {
        let survived = self.stays.chance_to_last(stay_age).max(f64::MIN_POSITIVE);
        (self.stays.mean_within(stay_age + self.restart) - self.stays.mean_within(stay_age)) / survived
    }

    /// Asks so many hours after a refusal at that age of the absence.
    pub(crate) fn ask(&self, age: f64, pause: f64) -> AskResult {
        let survived = self.absences.chance_to_last(age).max(f64::MIN_POSITIVE);
        let part = pause / f64::from(PARTS);
        let (mut chance, mut ages, mut away) = (0.0, 0.0, 1.0);
        for number in 1..=PARTS {
            let until = part * f64::from(number);
            let still_away = self.absences.chance_to_last(age + until) / survived;
            let stay_age = pause - until + part / 2.0;
            let is_there = (away - still_away) * self.stays.chance_to_last(stay_age);
            (chance, ages, away) = (chance + is_there, ages + is_there * stay_age, still_away);
        }
        // It came back and went again, perhaps several times.
        let again = (1.0 - away - chance).max(0.0) * self.available;
        ages += again * pause / 4.0;
        chance += again;
        let stay_age = if chance > 1e-12 { ages / chance } else { 0.0 };
        AskResult { chance, stay_age, lost_by_restart: self.lost_by_restart(stay_age), absence_age: age + pause }
    }

    /// Asks in so many hours, after what was seen.
    pub(crate) fn ask_anew(&self, sight: &SpotSight, pause: f64) -> AskResult {
        if let Some(away) = sight.away {
            return self.ask(away.age, away.unasked + pause);
        }
        let stay_age = sight.stay_age + pause;
        let survived = self.stays.chance_to_last(sight.stay_age).max(f64::MIN_POSITIVE);
        let chance = self.stays.chance_to_last(stay_age) / survived;
        AskResult { chance, stay_age, lost_by_restart: self.lost_by_restart(stay_age), absence_age: 0.0 }
    }
}
