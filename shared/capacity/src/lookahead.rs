//! Expected payments until the deadline, for each present choice.
//!
//! The time until the deadline is cut into layers. From the last layer back, each has the least expected cost for a job that waits, that
//! runs on Spot and that runs on on-demand, by the slack that is left and by the age of the stay or the absence. A restart takes time, and
//! so slack. A job on on-demand learns that Spot is back only by a launch, which is the move: so what it chooses is after which pause it
//! asks. A refusal costs nothing. Spot that is taken as soon as it is back is young and may go as soon, so it can pay to ask later.

use jiff::Timestamp;

use crate::market::{AskResult, MarketModel, SpotSight, Timing};
use crate::{DeadlineSituation, SpotHistory};

const LAYERS_MAX: usize = 256;

/// No layer need be shorter: runs come each minute, and machines take as long to start.
const LAYER_MIN_HOURS: f64 = 1.0 / 12.0;

/// Amounts of slack that are told apart.
const SLACKS: usize = 16;

/// Ages that are told apart: none, one layer, two, four and so on.
const AGES: usize = 9;

/// Layers after which Spot is asked for again.
const PAUSES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Costs by slack, in USD.
type Costs = [f64; SLACKS];

type CostsByAge = [Costs; AGES];

/// Least expected costs from a moment on.
#[derive(Clone)]
struct Layer {
    /// Costs for a job that waits, by the age of the absence.
    waiting: CostsByAge,
    /// Costs for a job on Spot after the restart, by the age of the stay.
    spot: CostsByAge,
    /// Costs for a job on on-demand after the restart, by the age of the absence, where Spot was just refused.
    on_demand: CostsByAge,
}

#[derive(Clone, Copy, PartialEq)]
enum Running {
    Nothing,
    Spot,
    OnDemand,
}

/// The transitions that are the same in every layer.
struct Transitions {
    stays: Vec<Timing>,
    absences: Vec<Timing>,
    /// Results of asking for Spot, by the age of the absence and by pause.
    asks: Vec<Vec<AskResult>>,
}

#[derive(Clone)]
pub(crate) struct Lookahead {
    market: MarketModel,
    on_demand_usd: f64,
    spot_usd: f64,
    restart: f64,
    /// Least slack in hours with which there is a choice; with less, only on-demand is left.
    slack_min: f64,
    slack_step: f64,
    /// The hours of a layer.
    step: f64,
    layers: Vec<Layer>,
}

#[expect(clippy::cast_precision_loss, reason = "seconds until a deadline stay far below 2^52")]
fn hours(seconds: i64) -> f64 {
    seconds as f64 / 3600.0
}

fn float(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::INFINITY, f64::from)
}

fn age_layers(age: usize) -> f64 {
    if age == 0 { 0.0 } else { float(1 << (age - 1)) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
fn layers_within(hours: f64) -> usize {
    ((hours / LAYER_MIN_HOURS) as usize).clamp(1, LAYERS_MAX)
}

/// The cost at a place between two amounts of slack.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
fn at(costs: &Costs, place: f64) -> f64 {
    let place = place.clamp(0.0, float(SLACKS - 1));
    let lower = (place as usize).min(SLACKS - 2);
    costs[lower] + (place - float(lower)) * (costs[lower + 1] - costs[lower])
}

impl Lookahead {
    pub(crate) fn new(situation: &DeadlineSituation, history: &SpotHistory, now: Timestamp) -> Self {
        let (work, time) = (hours(situation.work_left_seconds), hours(situation.time_left_seconds));
        let restart = hours(situation.restart_seconds);
        let slack_min = restart + hours(situation.interval_seconds);
        let nothing = [[0.0; SLACKS]; AGES];
        let count = layers_within(time);
        let layer = Layer { waiting: nothing, spot: nothing, on_demand: nothing };
        let mut lookahead = Self {
            market: MarketModel::new(history, restart, time, now),
            on_demand_usd: situation.on_demand.usd_per_hour(),
            spot_usd: situation.spot.usd_per_hour(),
            restart,
            slack_min,
            slack_step: ((time - work - slack_min) / float(SLACKS - 1)).max(1e-6),
            step: time / float(count),
            layers: vec![layer; count],
        };
        lookahead.fill();
        lookahead
    }

    /// Returns `true` if waiting for Spot, which was just refused, is expected to cost less than taking on-demand.
    pub(crate) fn waits(&self, situation: &DeadlineSituation, sight: &SpotSight) -> bool {
        let (layer, place) = self.moment(situation);
        let age = sight.away.map_or(0.0, |away| away.age + away.unasked);
        let waiting = at(&self.wait(layer, &self.market.absence(age, self.step)), place);
        let started = place - self.restart / self.slack_step;
        if started < 0.0 {
            return waiting < self.on_demand_usd * (hours(situation.work_left_seconds) + self.restart);
        }
        let asks: Vec<AskResult> = self.pauses().map(|pause| self.market.ask(age, pause)).collect();
        waiting < at(&self.run_on_demand(layer, &asks), started)
    }

    /// Returns `true` if asking for Spot now is expected to cost less than asking later, for a job on on-demand.
    pub(crate) fn asks(&self, situation: &DeadlineSituation, sight: &SpotSight) -> bool {
        let (layer, place) = self.moment(situation);
        let now = at(&self.ask(layer, &self.market.ask_anew(sight, 0.0)), place);
        let asks: Vec<AskResult> = self.pauses().map(|pause| self.market.ask_anew(sight, pause)).collect();
        now < at(&self.run_on_demand(layer, &asks), place)
    }

    /// The layer, and the place of the slack in it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    fn moment(&self, situation: &DeadlineSituation) -> (usize, f64) {
        let left = hours(situation.time_left_seconds) / self.step;
        let layer = (float(self.layers.len()) - left + 1e-6).max(0.0) as usize;
        let slack = hours(situation.slack_seconds());
        (layer.min(self.layers.len() - 1), (slack - self.slack_min) / self.slack_step)
    }

    fn pauses(&self) -> impl Iterator<Item = f64> {
        PAUSES.iter().map(|layers| float(*layers) * self.step)
    }

    fn fill(&mut self) {
        let ages: Vec<f64> = (0..AGES).map(|age| age_layers(age) * self.step).collect();
        let transitions = Transitions {
            stays: ages.iter().map(|age| self.market.stay(*age, self.step)).collect(),
            absences: ages.iter().map(|age| self.market.absence(*age, self.step)).collect(),
            asks: ages.iter().map(|age| self.pauses().map(|pause| self.market.ask(*age, pause)).collect()).collect(),
        };
        for layer in (0..self.layers.len()).rev() {
            for age in 0..AGES {
                self.layers[layer].on_demand[age] = self.run_on_demand(layer, &transitions.asks[age]);
                self.layers[layer].spot[age] = self.run_spot(layer, &transitions.stays[age]);
            }
            for age in 0..AGES {
                let start = self.costs(layer, Running::OnDemand, age_layers(age), self.restart);
                let mut waiting = self.wait(layer, &transitions.absences[age]);
                for (wait, start) in waiting.iter_mut().zip(start) {
                    *wait = wait.min(start);
                }
                self.layers[layer].waiting[age] = waiting;
            }
        }
    }

    fn time_left(&self, layer: usize) -> f64 {
        float(self.layers.len().saturating_sub(layer)) * self.step
    }

    fn work_left(&self, layer: usize) -> Costs {
        let most = self.time_left(layer) - self.slack_min;
        std::array::from_fn(|place| (most - float(place) * self.slack_step).max(0.0))
    }

    /// The costs from this layer on, with so much less slack, for an age in layers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    fn costs(&self, layer: usize, running: Running, age: f64, less_slack: f64) -> Costs {
        let Some(row) = self.layers.get(layer) else { return [0.0; SLACKS] };
        let by_age = match running {
            Running::Nothing => &row.waiting,
            Running::Spot => &row.spot,
            Running::OnDemand => &row.on_demand,
        };
        let lower = if age < 1.0 { 0 } else { (age.log2() as usize + 1).min(AGES - 2) };
        let start = age_layers(lower);
        let weight = ((age - start) / (age_layers(lower + 1) - start)).clamp(0.0, 1.0);
        let (young, old) = (&by_age[lower], &by_age[lower + 1]);
        let costs: Costs = std::array::from_fn(|place| young[place] + weight * (old[place] - young[place]));
        let places = less_slack / self.slack_step;
        let (whole, part) = (places as usize, places.fract());
        let restart = if running == Running::OnDemand { 0.0 } else { self.restart };
        let most = self.time_left(layer) - self.slack_min + less_slack;
        let inside = if part > 0.0 { whole.saturating_add(1) } else { whole }.min(SLACKS);
        let mut shifted = [0.0; SLACKS];
        for (place, cost) in shifted.iter_mut().enumerate().skip(inside) {
            let upper = costs[place - whole];
            *cost = upper + part * (costs[(place - whole).saturating_sub(1)] - upper);
        }
        // Below all places only on-demand is left.
        for (place, cost) in shifted.iter_mut().enumerate().take(inside) {
            let work = most - float(place) * self.slack_step;
            *cost = if work > 0.0 { self.on_demand_usd * (work + restart) } else { 0.0 };
        }
        shifted
    }

    fn ask(&self, layer: usize, asked: &AskResult) -> Costs {
        let accepted = self.costs(layer, Running::Spot, asked.stay_age / self.step, asked.lost_by_restart);
        let refused = self.costs(layer, Running::OnDemand, asked.absence_age / self.step, 0.0);
        std::array::from_fn(|place| asked.chance * accepted[place] + (1.0 - asked.chance) * refused[place])
    }

    /// Runs on on-demand, and asks for Spot after the pause that costs least, or never.
    fn run_on_demand(&self, layer: usize, asks: &[AskResult]) -> Costs {
        let work = self.work_left(layer);
        let mut least = work.map(|work| self.on_demand_usd * work);
        for (pause, asked) in PAUSES.iter().zip(asks).take_while(|(pause, _)| layer + **pause < self.layers.len()) {
            let run = self.on_demand_usd * float(*pause) * self.step;
            let costs = self.ask(layer + pause, asked);
            for (least, cost) in least.iter_mut().zip(costs) {
                *least = least.min(run + cost);
            }
        }
        least
    }

    /// Runs on Spot for a layer. Where it is lost meanwhile, the job waits or takes on-demand.
    fn run_spot(&self, layer: usize, stay: &Timing) -> Costs {
        let work = self.work_left(layer);
        let rest = self.step - stay.ends;
        let lasts = self.costs(layer + 1, Running::Spot, (stay.age + self.step) / self.step, 0.0);
        let waits = self.costs(layer + 1, Running::Nothing, rest / self.step, rest);
        let starts = self.costs(layer + 1, Running::OnDemand, rest / self.step, self.restart);
        std::array::from_fn(|place| {
            let starts = self.on_demand_usd * rest.min((work[place] - stay.ends).max(0.0)) + starts[place];
            let lasts = self.spot_usd * self.step.min(work[place]) + lasts[place];
            let lost = self.spot_usd * stay.ends.min(work[place]) + waits[place].min(starts);
            if work[place] > 0.0 { stay.lasts * lasts + (1.0 - stay.lasts) * lost } else { 0.0 }
        })
    }

    /// Waits for a layer. Spot that comes back meanwhile is taken.
    fn wait(&self, layer: usize, absence: &Timing) -> Costs {
        let work = self.work_left(layer);
        let rest = self.step - absence.ends;
        let stays = self.market.chance_of_stay(rest);
        let away = self.costs(layer + 1, Running::Nothing, (absence.age + self.step) / self.step, self.step);
        let lost_by_restart = absence.ends + self.market.lost_by_restart(0.0);
        let back = self.costs(layer + 1, Running::Spot, rest / self.step, lost_by_restart);
        let lost = self.costs(layer + 1, Running::Nothing, rest / self.step / 2.0, self.step);
        std::array::from_fn(|place| {
            let back = self.spot_usd * rest + back[place];
            let lost = self.spot_usd * rest / 2.0 + lost[place];
            let returns = stays * back + (1.0 - stays) * lost;
            if work[place] > 0.0 { absence.lasts * away[place] + (1.0 - absence.lasts) * returns } else { 0.0 }
        })
    }
}
