//! Forecast of the cost of a job by its deadline: the policy in a market as it is believed to be before anything was seen of it.

use std::borrow::Cow;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use model::moment::after;
use model::money::{Amount, Rate};
use serde::Serialize;

use crate::history::LengthDistribution;
use crate::lookahead::Lookahead;
use crate::market::SpotSight;
use crate::{
    Capacity, CapacityDecision, CapacityReason, DeadlineSituation, SpotHistory, choose_and_launch, keep_promise,
};

/// The mean of this number of simulations is within a tenth of that of 5,000, for the job of `a_looser_deadline_is_expected_to_cost_less`.
const LIVES: u64 = 100;

/// Decisions of a life that is made up.
const STEP: SignedDuration = SignedDuration::from_mins(10);

/// A job without a deadline still ends: so many times its work is longer than nearly all of them take.
const WITHOUT_DEADLINE: i64 = 100;

/// A job without a deadline waits for as long as Spot is away.
const WAITS: CapacityDecision = CapacityDecision { capacity: Capacity::None, reason: CapacityReason::SpotMayReturn };

const TAKES_SPOT: CapacityDecision = CapacityDecision { capacity: Capacity::Spot, reason: CapacityReason::SpotPays };

/// The expected cost of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExpectedCost {
    /// The deadline, in seconds from the submission; `None`: without one.
    pub within_seconds: Option<i64>,
    /// The mean.
    pub usd: Amount,
    /// One in ten costs less.
    pub usd_low: Amount,
    /// One in ten costs more.
    pub usd_high: Amount,
}

/// A job whose cost is forecast. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForecastJob {
    /// The time that it takes on a machine that is never lost.
    pub work: i64,
    /// The time between two checkpoints.
    pub every: i64,
    /// The work that an interruption loses.
    pub lost: i64,
    /// The time that a start takes.
    pub start: i64,
    /// Prices of the cheapest candidates.
    pub spot: Rate,
    pub on_demand: Rate,
}

#[expect(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
fn draw_seconds(lengths: &LengthDistribution, chance: &mut Rng) -> i64 {
    (lengths.length_at(chance.f64()) * 3600.0) as i64
}

impl ForecastJob {
    /// Returns the expected cost with a deadline after so many seconds, or without one. `LIVES` lives of the job are made up, the same for each
    /// deadline and each time.
    #[must_use]
    pub fn expected_cost(&self, within_seconds: Option<i64>) -> ExpectedCost {
        let within = within_seconds.unwrap_or_else(|| self.work.saturating_mul(WITHOUT_DEADLINE));
        let mut seeds = Rng::with_seed(0);
        let begin = Timestamp::UNIX_EPOCH;
        // What a life would learn of a market that is the believed one is chance.
        let lookahead =
            within_seconds.map(|within| Lookahead::new(&self.situation(within), &SpotHistory::default(), begin));
        let life = |mut chance: Rng| self.simulate_life(within, lookahead.as_ref(), &mut chance);
        let mut costs: Vec<Amount> = (0..LIVES).map(|_| life(seeds.fork())).collect();
        costs.sort();
        let at = |percent: usize| costs.get(costs.len() * percent / 100).copied().unwrap_or_default();
        let sum: Amount = costs.iter().copied().sum();
        let usd = Amount::from_usd_micros(sum.usd_micros() / LIVES);
        ExpectedCost { within_seconds, usd, usd_low: at(10), usd_high: at(90) }
    }

    fn situation(&self, within: i64) -> DeadlineSituation {
        DeadlineSituation {
            work_left_seconds: self.work,
            time_left_seconds: within,
            restart_seconds: self.start,
            interval_seconds: STEP.as_secs().saturating_add(self.every),
            on_demand: self.on_demand,
            spot: self.spot,
            running: Capacity::None,
            spot_is_refused: false,
        }
    }

    /// Returns the cost of one simulated life of the job.
    fn simulate_life(&self, within: i64, lookahead: Option<&Lookahead>, chance: &mut Rng) -> Amount {
        let begin = Timestamp::UNIX_EPOCH;
        let prior = SpotHistory::default().stay_lengths(begin);
        let (mut history, mut cost) = (SpotHistory::default(), Amount::ZERO);
        let (mut elapsed, mut done, mut restart_left, mut running) = (0_i64, 0_i64, 0_i64, Capacity::None);
        let (mut is_available, mut changes_at) = (chance.f64() < 0.5, draw_seconds(&prior, chance));
        while done < self.work {
            while changes_at <= elapsed {
                is_available = !is_available;
                changes_at = changes_at.saturating_add(draw_seconds(&prior, chance).max(1));
                if running == Capacity::Spot {
                    (running, done) = (Capacity::None, done.saturating_sub(self.lost).max(0));
                }
            }
            let now = after(begin, SignedDuration::from_secs(elapsed));
            let situation = DeadlineSituation {
                work_left_seconds: self.work.saturating_sub(done),
                time_left_seconds: within.saturating_sub(elapsed),
                running,
                ..self.situation(within)
            };
            let choose = |situation: &DeadlineSituation, history: &SpotHistory| match lookahead {
                Some(ready) => keep_promise(situation, &SpotSight::new(history, now), || Cow::Borrowed(ready)),
                None if situation.spot_is_refused => WAITS,
                None => TAKES_SPOT,
            };
            let next = choose_and_launch(&situation, &mut history, is_available, now, choose).capacity;
            if next != running {
                restart_left = self.start;
            }
            running = next;
            let used = if running == Capacity::None {
                // A long wait need not be exact to ten minutes.
                let pause = (elapsed / 50).max(STEP.as_secs());
                pause.min(changes_at.saturating_sub(elapsed)).min(situation.spare_seconds().saturating_add(1)).max(1)
            } else {
                STEP.as_secs().min(restart_left.saturating_add(self.work).saturating_sub(done))
            };
            if running != Capacity::None {
                let rate = if running == Capacity::Spot { self.spot } else { self.on_demand };
                cost = cost + Amount::from_rate(rate, used.unsigned_abs());
                done = done.saturating_add(used.saturating_sub(restart_left).max(0));
                restart_left = restart_left.saturating_sub(used).max(0);
            }
            elapsed = elapsed.saturating_add(used);
        }
        cost
    }
}
