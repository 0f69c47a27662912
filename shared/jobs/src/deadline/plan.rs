//! How long to wait for Spot, and how long to distrust it, so that the work is done just in time at the least cost.
//!
//! Spot comes and goes in cycles: a stay, then an absence. A [`WaitingPlan`] is two ages. For each plan one can say what a mean cycle costs
//! and how much work it does. A plan that waits long is cheap and slow, one that never waits is dear and fast. The pace that the deadline
//! asks for lies between, and plans can be mixed: first the one, then the other. So the cheapest mixture lies on the lower convex hull of
//! all plans, and the job follows the faster of the two plans that it mixes. Time gained so asks for less pace, and the slower one comes in
//! its turn.

use jiff::Timestamp;

use super::history::LengthDistribution;
use super::{DeadlineSituation, SpotHistory};

/// What a job does when Spot goes, and when it returns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WaitingPlan {
    /// How long Spot has to be away until a waiting job takes on-demand.
    pub(super) wait_hours: f64,
    /// How long Spot has to be back until a job on-demand returns to it.
    pub(super) distrust_hours: f64,
}

/// On-demand to the end.
const ON_DEMAND_ONLY: WaitingPlan = WaitingPlan { wait_hours: 0.0, distrust_hours: f64::INFINITY };

/// What an hour brings in the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// Hours of work.
    work: f64,
    usd: f64,
}

/// What a plan is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WaitingPlanner {
    stays: LengthDistribution,
    absences: LengthDistribution,
    /// No stay matters beyond the deadline.
    horizon_hours: f64,
    restart_hours: f64,
    on_demand_usd: f64,
    spot_usd: f64,
    /// The pace that the deadline asks for.
    work_per_hour: f64,
    sees_spot_return: bool,
}

#[expect(clippy::cast_precision_loss, reason = "seconds until a deadline stay far below 2^52")]
fn hours(seconds: i64) -> f64 {
    seconds as f64 / 3600.0
}

impl WaitingPlanner {
    pub(super) fn new(situation: &DeadlineSituation, history: &SpotHistory, now: Timestamp) -> Self {
        let work = hours(situation.work_left_seconds);
        Self {
            stays: history.stay_lengths(now),
            absences: history.absence_lengths(now),
            horizon_hours: hours(situation.time_left_seconds),
            restart_hours: hours(situation.restart_seconds),
            on_demand_usd: situation.on_demand.usd_per_hour(),
            spot_usd: situation.spot.usd_per_hour(),
            work_per_hour: work / (work + hours(situation.spare_seconds())),
            sees_spot_return: situation.sees_spot_return,
        }
    }

    /// Walks the lower convex hull from standing still towards on-demand only, until a plan is fast enough.
    pub(super) fn cheapest_plan(&self) -> WaitingPlan {
        let plans = self.plans();
        let mut last = Pace { work: 0.0, usd: 0.0 };
        loop {
            let usd_per_work = |pace: Pace| (pace.usd - last.usd) / (pace.work - last.work);
            let next = plans
                .iter()
                .filter(|(_, pace)| pace.work > last.work)
                .min_by(|(_, a), (_, b)| usd_per_work(*a).total_cmp(&usd_per_work(*b)));
            match next {
                Some((plan, pace)) if pace.work >= self.work_per_hour => return *plan,
                Some((_, pace)) => last = *pace,
                None => return ON_DEMAND_ONLY,
            }
        }
    }

    fn plans(&self) -> Vec<(WaitingPlan, Pace)> {
        let ages = self.ages();
        // Spot that has been away for longer than the time left is not waited for at all.
        let waits = ages.iter().copied().chain([self.horizon_hours]);
        let distrusts = if self.sees_spot_return { &ages[..] } else { &[0.0] };
        let pairs = waits.flat_map(|wait| distrusts.iter().map(move |distrust| (wait, *distrust)));
        let mut plans = vec![(ON_DEMAND_ONLY, Pace { work: 1.0, usd: self.on_demand_usd })];
        plans.extend(pairs.map(|(wait_hours, distrust_hours)| {
            let plan = WaitingPlan { wait_hours, distrust_hours };
            (plan, self.pace(plan))
        }));
        plans
    }

    /// The ages that are tried: none, and those that double in two steps from ten minutes to the deadline.
    fn ages(&self) -> Vec<f64> {
        let doubling = std::iter::successors(Some(1.0 / 6.0), |age| Some(age * std::f64::consts::SQRT_2));
        std::iter::once(0.0).chain(doubling.take_while(|age| *age < self.horizon_hours)).collect()
    }

    fn pace(&self, plan: WaitingPlan) -> Pace {
        let mean = |lengths: LengthDistribution, age: f64| lengths.mean_within(age.min(self.horizon_hours));
        let chance = |lengths: LengthDistribution, age: f64| {
            if age < self.horizon_hours { lengths.chance_to_last(age) } else { 0.0 }
        };
        let stay = mean(self.stays, f64::INFINITY);
        let absence = mean(self.absences, f64::INFINITY);
        let gives_up = chance(self.absences, plan.wait_hours);
        let trusts = chance(self.stays, plan.distrust_hours);

        // An absence after Spot was lost: some of it waiting, the rest on on-demand.
        let bridged = absence - mean(self.absences, plan.wait_hours);
        let absence_usd = self.on_demand_usd * bridged;
        let absence_work = bridged - self.restart_hours * gives_up;

        // A cycle that begins without a machine takes Spot at once.
        let idle_usd = self.spot_usd * stay + absence_usd;
        let idle_work = stay - mean(self.stays, self.restart_hours) + absence_work;

        // A cycle that begins on on-demand stays there until Spot is trusted, or for the whole cycle.
        let distrusted = mean(self.stays, plan.distrust_hours);
        let trusted_work = stay - mean(self.stays, plan.distrust_hours + self.restart_hours);
        let busy_usd = self.on_demand_usd * distrusted
            + self.spot_usd * (stay - distrusted)
            + trusts * absence_usd
            + (1.0 - trusts) * self.on_demand_usd * absence;
        let busy_work = distrusted + trusted_work + trusts * absence_work + (1.0 - trusts) * absence;

        // How many cycles begin on on-demand, in the long run.
        let to_idle = trusts * (1.0 - gives_up);
        let busy = if to_idle > 0.0 { gives_up / (gives_up + to_idle) } else { 1.0 };
        let cycle = stay + absence;
        Pace {
            work: (busy * busy_work + (1.0 - busy) * idle_work) / cycle,
            usd: (busy * busy_usd + (1.0 - busy) * idle_usd) / cycle,
        }
    }
}
