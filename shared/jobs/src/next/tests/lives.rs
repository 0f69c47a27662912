//! Whole lives of jobs in the product's loop, with many faults for half a day and none after that: more than `tests/lives/` explores in
//! one life, and with limits of money.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::world::JobWorld;
use crate::{JobResult, Phase};

/// Runs with faults, a few minutes apart.
const FAULTY: usize = 150;

/// Five minutes are the most between two of them: two days, and no job lasts longer.
const FAIR: usize = 2_000;

fn live(seed: u64) -> JobWorld {
    let mut world = JobWorld::new(seed);
    for _ in 0..FAULTY {
        world.live();
        world.judge_limits();
    }
    world.faults = false;
    for _ in 0..FAIR {
        if world.job.is_closed() {
            break;
        }
        world.live();
        world.judge_limits();
    }
    world
}

proptest! {
    /// With any faults: no two machines at once except for the two minutes of a warned one, no token with two meanings, never more time or money
    /// than the job may take, and an end.
    #[test]
    fn every_job_ends_within_its_limits(seed in any::<u64>()) {
        let world = live(seed);
        prop_assert!(world.job.is_closed(), "{:#?}", world.log());
        prop_assert_eq!(world.running(), 0, "{:#?}", world.log());
    }
}

#[test]
fn these_lives_cover_every_expected_event() {
    let mut endings = BTreeSet::new();
    let mut log = String::new();
    let mut attempts_most = 0;
    for seed in 0..150 {
        let world = live(seed);
        attempts_most = attempts_most.max(world.job.attempt);
        if let Phase::Ended(ended) = &world.job.phase {
            endings.insert(match ended.result {
                JobResult::Succeeded => "succeeded",
                JobResult::Failed => "failed",
                JobResult::Expired => "expired",
                JobResult::Cancelled => "cancelled",
            });
        }
        log += &world.log().join("\n");
    }
    assert_eq!(endings, BTreeSet::from(["cancelled", "expired", "failed"]));
    assert!(attempts_most >= 5, "{attempts_most}");
    let met = [
        "Reclaimed",
        "NoCapacity",
        "NoHeartbeat",
        "HeartbeatStopped",
        "ShutDown",
        "Gone",
        "Overdue",
        "held by budget",
        "held by quota",
        "held by unplaceable",
        "held by observing",
        "waiting after 3",
        "retrying with i-",
        "interrupted",
        "terminate i-",
    ];
    for met in met {
        assert!(log.contains(met), "never {met}");
    }
}
