//! Whole lives of a job of `run-jobs`, whose every decision is compared with that of the policy that the simulator measures.

use super::*;
use crate::next::{situation, spot_return};

struct Comparison {
    world: AdversaryWorld,
    /// What the measured policy has learned.
    history: SpotHistory,
    /// Decisions after an accepted launch, after a refused one, and against a launch.
    compared: [usize; 3],
}

fn on_demand_machine(job: &Job) -> Option<&JobMachine> {
    job.machine().filter(|machine| machine.lifecycle == Lifecycle::OnDemand)
}

impl Comparison {
    fn live(&mut self) {
        let before = self.world.job.clone();
        self.world.spot_launch = None;
        self.world.live();
        let (job, now) = (self.world.job.clone(), noon_plus(self.world.now));
        let spot_before = before.machine().filter(|machine| machine.lifecycle == Lifecycle::Spot);
        let is_lost = |before: &JobMachine| {
            self.world.machines.iter().any(|one| {
                let is_reclaimed = one.ended.is_some_and(|(_, reason)| reason == "Server.SpotInstanceTermination");
                before.instance.as_str() == one.id && is_reclaimed
            })
        };
        if spot_before.is_some_and(is_lost) {
            self.history.observe(false, now);
        }
        let ran_on_demand = on_demand_machine(&before);
        let stays =
            ran_on_demand.filter(|machine| on_demand_machine(&job).map(|now| &now.instance) == Some(&machine.instance));
        let without = stays.map_or(Job { phase: Phase::Submitted, ..job.clone() }, |machine| {
            spot_return::without_machine(&job, machine, now)
        });
        let running = if ran_on_demand.is_some() { Capacity::OnDemand } else { Capacity::None };
        let Some(situation) = situation(&without, true, now) else { return };
        let situation = DeadlineSituation { running, ..situation };
        let deadline = job.deadline.as_ref().unwrap();
        match self.world.spot_launch {
            Some(is_accepted) => {
                let measured = choose_by_launch(&situation, &mut self.history, is_accepted, now);
                let decided = deadline.decision.map(|decision| decision.capacity);
                assert_eq!(decided, Some(measured.capacity), "{situation:?} {:#?}", self.world.log);
                self.compared[usize::from(!is_accepted)] += 1;
            }
            None if stays.is_some() && deadline.checkpoint.is_some_and(|(_, seen)| seen == now) => {
                let measured = choose_by_launch(&situation, &mut self.history, true, now);
                assert_eq!(measured.capacity, Capacity::OnDemand, "{situation:?} {:#?}", self.world.log);
                self.compared[2] += 1;
            }
            None => {}
        }
        assert_eq!(deadline.spot, self.history, "{:#?}", self.world.log);
    }
}

#[test]
fn run_jobs_decides_as_the_measured_policy() {
    let mut compared = [0; 3];
    for seed in 0..8 {
        let spare = i64::try_from(seed).unwrap() % 4 * 2 * HOUR;
        let world = AdversaryWorld::new(seed, 12 * HOUR, spare, None);
        let mut comparison = Comparison { world, history: SpotHistory::default(), compared };
        let end = 12 * HOUR + 15 * MINUTE + spare;
        while comparison.world.finished_at.is_none() && comparison.world.now < end {
            comparison.live();
        }
        compared = comparison.compared;
    }
    assert!(compared.iter().all(|count| *count > 5), "{compared:?}");
}
