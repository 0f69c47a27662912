//! What was seen of Spot, and what that says of how long it stays and stays away.
//!
//! Real availability has no typical length: most stays end within the hour, and a few last for days. What has lasted long is likely to last
//! long still. The Lomax distribution (a Pareto distribution that begins at zero) is the simplest with that property: what has lasted for
//! `t` ends within the next moment with a chance in proportion to `shape / (SCALE_HOURS + t)`. Its scale is fixed, and its shape is
//! learned: with a Gamma prior, the estimate needs only a count and a sum.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The length around which stays stop looking alike and begin to last in proportion to their age. Half an hour and two hours give the same
/// savings within half a point.
const SCALE_HOURS: f64 = 1.0;

/// The prior counts as this number of observed stays of shape 1: half of all stays last longer than an hour, and half of those that have lasted for
/// `t` hours last for another `t + 1`. Four outweigh the first outliers, and are outweighed within a day.
const PRIOR_STAYS: f64 = 4.0;

/// Sums are kept in thousandths, so that a state can be compared and hashed.
const THOUSANDTHS: f64 = 1000.0;

/// What a job has seen of Spot so far. It does not grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct SpotHistory {
    /// Whether Spot could be had when last seen, and since when. `None`: nothing was seen.
    current: Option<(bool, Timestamp)>,
    stays: LengthSummary,
    absences: LengthSummary,
}

/// What is remembered of the lengths of the stays that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
struct LengthSummary {
    count: u32,
    /// The sum of `ln(1 + hours / SCALE_HOURS)`.
    log_thousandths: u64,
}

/// How long stays last that are yet to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LengthDistribution {
    shape: f64,
}

impl SpotHistory {
    /// Notes whether Spot can be had now. Only a change changes anything.
    pub fn observe(&mut self, is_available: bool, now: Timestamp) {
        match self.current {
            Some((was_available, _)) if was_available == is_available => return,
            Some((true, _)) => self.stays.add(self.hours_since_change(now)),
            Some((false, _)) => self.absences.add(self.hours_since_change(now)),
            None => {}
        }
        self.current = Some((is_available, now));
    }

    /// For how long Spot has been as it is, in hours.
    pub(super) fn hours_since_change(&self, now: Timestamp) -> f64 {
        self.current.map_or(0.0, |(_, since)| now.duration_since(since).as_secs_f64().max(0.0) / 3600.0)
    }

    /// For how long Spot is as likely as not to stay as it is, in hours: to choose among zones.
    #[must_use]
    pub fn likely_hours_left(&self, now: Timestamp) -> f64 {
        let lengths = if self.current.is_some_and(|(is_available, _)| is_available) {
            self.stay_lengths(now)
        } else {
            self.absence_lengths(now)
        };
        (SCALE_HOURS + self.hours_since_change(now)) * (2_f64.powf(lengths.shape.recip()) - 1.0)
    }

    pub(super) fn stay_lengths(&self, now: Timestamp) -> LengthDistribution {
        self.stays
            .distribution(self.current.filter(|(is_available, _)| *is_available).map(|_| self.hours_since_change(now)))
    }

    pub(super) fn absence_lengths(&self, now: Timestamp) -> LengthDistribution {
        self.absences
            .distribution(self.current.filter(|(is_available, _)| !*is_available).map(|_| self.hours_since_change(now)))
    }
}

fn log_length(hours: f64) -> f64 {
    (hours / SCALE_HOURS).ln_1p()
}

impl LengthSummary {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the logarithm of hours is small, and not negative"
    )]
    fn add(&mut self, hours: f64) {
        self.count = self.count.saturating_add(1);
        self.log_thousandths = self.log_thousandths.saturating_add((log_length(hours) * THOUSANDTHS).round() as u64);
    }

    /// An unfinished stay, of `unfinished_hours`, only has a minimum.
    #[expect(clippy::cast_precision_loss, reason = "thousandths of the logarithms of hours stay far below 2^52")]
    fn distribution(self, unfinished_hours: Option<f64>) -> LengthDistribution {
        let logs = self.log_thousandths as f64 / THOUSANDTHS + unfinished_hours.map_or(0.0, log_length);
        LengthDistribution { shape: (PRIOR_STAYS + f64::from(self.count)) / (PRIOR_STAYS + logs) }
    }
}

impl LengthDistribution {
    /// The probability to last `hours`.
    pub(super) fn chance_to_last(self, hours: f64) -> f64 {
        (1.0 + hours / SCALE_HOURS).powf(-self.shape)
    }

    /// Such a share of them is shorter.
    pub(super) fn length_at(self, share: f64) -> f64 {
        SCALE_HOURS * ((1.0 - share).powf(-self.shape.recip()) - 1.0)
    }

    /// The mean length if everything is cut off after `hours`.
    pub(super) fn mean_within(self, hours: f64) -> f64 {
        let exponent = 1.0 - self.shape;
        if exponent.abs() < 1e-6 {
            SCALE_HOURS * log_length(hours)
        } else {
            SCALE_HOURS * ((1.0 + hours / SCALE_HOURS).powf(exponent) - 1.0) / exponent
        }
    }
}
