//! The history of Spot, and what it says of the lengths of stays and absences.
//!
//! Real availability has no typical length: most stays end within the hour, and a few last for days. What has lasted long is likely to last
//! long still. The Lomax distribution (a Pareto distribution that begins at zero) is the simplest with that property: what has lasted for
//! `t` ends within the next moment with a chance in proportion to `shape / (scale + t)`. With a long scale it nears the exponential
//! distribution, which has no memory. Several scales are weighed by how well they explain what was seen, and the shape of each is learned:
//! with a Gamma prior, both need only a count and a sum.

use jiff::{SignedDuration, Timestamp};
use model::moment::after;
use serde::{Deserialize, Serialize};

/// The lengths, in hours, around which stays stop looking alike and begin to last in proportion to their age.
const SCALES_HOURS: [f64; SCALES] = [0.5, 2.0, 8.0, 32.0];

const SCALES: usize = 4;

/// The prior counts as this number of observed stays. Two are soon outweighed.
const PRIOR_STAYS: f64 = 2.0;

/// The prior weighs the scales so.
const PRIOR_WEIGHTS: [f64; SCALES] = [0.4, 0.2, 0.2, 0.2];

/// Half of all stays last longer before anything was seen.
const PRIOR_MEDIAN_HOURS: f64 = 0.5;

/// Sums are kept in thousandths, so that a state can be compared and hashed.
const THOUSANDTHS: f64 = 1000.0;

/// The availability of Spot as one job has seen it so far. Its size is constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct SpotHistory {
    /// Availability of Spot at the last look (`true` if it could be had), and the time since which it is so. `None`: nothing was seen.
    current: Option<(bool, Timestamp)>,
    /// Time of the last refused launch, while Spot is away. `None`: Spot was not asked for since it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<Timestamp>,
    #[serde(default)]
    stay_lengths: LengthSummary,
    #[serde(default)]
    absence_lengths: LengthSummary,
}

/// Summary of the lengths of the stays that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
struct LengthSummary {
    count: u32,
    /// Sums of `ln(1 + hours / scale)` in thousandths, by scale.
    log_thousandths: [u64; SCALES],
}

/// The lengths of stays that are yet to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LengthDistribution {
    shapes: [f64; SCALES],
    weights: [f64; SCALES],
}

impl SpotHistory {
    /// Notes whether Spot was there when a launch asked for it, or that it was lost.
    pub fn observe(&mut self, is_available: bool, now: Timestamp) {
        let changed = match self.current {
            Some((was_available, _)) if was_available == is_available => {
                if !is_available {
                    self.refused = Some(now);
                }
                return;
            }
            Some((true, _)) => {
                self.stay_lengths.add(self.hours_since_change(now));
                now
            }
            Some((false, since)) => {
                // It came back between the last refusal and now.
                let refused = self.refused.unwrap_or(since);
                let changed = after(refused, SignedDuration::from_secs(now.duration_since(refused).as_secs() / 2));
                self.absence_lengths.add(self.hours_since_change(changed));
                changed
            }
            None => now,
        };
        self.current = Some((is_available, changed));
        self.refused = None;
    }

    /// Returns the time since Spot came or went, in hours.
    pub(crate) fn hours_since_change(&self, now: Timestamp) -> f64 {
        self.current.map_or(0.0, |(_, since)| now.duration_since(since).as_secs_f64().max(0.0) / 3600.0)
    }

    /// Returns the time since Spot was last asked for, and the time that it had been away then, both in hours.
    pub(crate) fn hours_unasked(&self, now: Timestamp) -> Option<(f64, f64)> {
        let (_, since) = self.current.filter(|(is_available, _)| !*is_available)?;
        let asked = self.refused.unwrap_or(since);
        let hours = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0) / 3600.0;
        Some((hours(asked, now), hours(since, asked)))
    }

    pub(crate) fn stay_lengths(&self, now: Timestamp) -> LengthDistribution {
        self.stay_lengths
            .distribution(self.current.filter(|(is_available, _)| *is_available).map(|_| self.hours_since_change(now)))
    }

    pub(crate) fn absence_lengths(&self, now: Timestamp) -> LengthDistribution {
        let asked = self.hours_unasked(now).map(|(_, age)| age);
        self.absence_lengths.distribution(asked)
    }
}

fn log_length(hours: f64, scale: f64) -> f64 {
    (hours / scale).ln_1p()
}

impl LengthSummary {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the logarithm of hours is small, and not negative"
    )]
    fn add(&mut self, hours: f64) {
        self.count = self.count.saturating_add(1);
        for (sum, scale) in self.log_thousandths.iter_mut().zip(SCALES_HOURS) {
            *sum = sum.saturating_add((log_length(hours, scale) * THOUSANDTHS).round() as u64);
        }
    }

    /// An unfinished stay, of `unfinished_hours`, only has a minimum.
    #[expect(clippy::cast_precision_loss, reason = "thousandths of the logarithms of hours stay far below 2^52")]
    fn distribution(self, unfinished_hours: Option<f64>) -> LengthDistribution {
        let count = f64::from(self.count);
        let (mut shapes, mut logs_of_weights) = ([1.0; SCALES], [0.0; SCALES]);
        for n in 0..SCALES {
            let scale = SCALES_HOURS[n];
            let complete = self.log_thousandths[n] as f64 / THOUSANDTHS;
            let logs = complete + unfinished_hours.map_or(0.0, |hours| log_length(hours, scale));
            let prior = PRIOR_STAYS * log_length(PRIOR_MEDIAN_HOURS, scale) / std::f64::consts::LN_2;
            shapes[n] = (PRIOR_STAYS + count) / (prior + logs);
            logs_of_weights[n] = PRIOR_WEIGHTS[n].ln() + PRIOR_STAYS * prior.ln()
                - (PRIOR_STAYS + count) * (prior + logs).ln()
                - count * scale.ln()
                - complete;
        }
        let most = logs_of_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut weights = logs_of_weights.map(|log| (log - most).exp());
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        LengthDistribution { shapes, weights }
    }
}

impl LengthDistribution {
    fn parts(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        (0..SCALES).map(|n| (self.weights[n], self.shapes[n], SCALES_HOURS[n]))
    }

    pub(crate) fn chance_to_last(&self, hours: f64) -> f64 {
        self.parts().map(|(weight, shape, scale)| weight * (-shape * log_length(hours, scale)).exp()).sum()
    }

    /// The mean length if everything is cut off after `hours`.
    pub(crate) fn mean_within(&self, hours: f64) -> f64 {
        let mean = |(weight, shape, scale): (f64, f64, f64)| {
            let exponent = 1.0 - shape;
            let log = log_length(hours, scale);
            let mean = if exponent.abs() < 1e-6 { log } else { (exponent * log).exp_m1() / exponent };
            weight * scale * mean
        };
        self.parts().map(mean).sum()
    }

    /// Such a share of them is shorter.
    pub(crate) fn length_at(&self, share: f64) -> f64 {
        let (mut low, mut high) = (0.0, 24.0 * 365.0);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.chance_to_last(middle) > 1.0 - share { low = middle } else { high = middle }
        }
        low
    }
}
