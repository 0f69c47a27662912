//! From any moment on, nothing goes wrong any more: does it come to an end?

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::SignedDuration;
use jobs::{Effect, Phase, Reconciliation};

use crate::agent::{AgentAction, deeds};
use crate::explore::JobModel;
use crate::run::{EffectOutcome, ObservationQuality, ReconcilerState};
use crate::time::{advance, next_moment};
use crate::world::{AgentState, MachineEndReason, ModelWorld};

/// How the world continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FairScenario {
    /// Each agent does its work.
    Works,
    /// Each agent sends heartbeats, and no command or timer ends: only Curfew ends anything.
    Endless,
    /// No agent sends heartbeats any more.
    Mute,
    /// Nothing can be launched any more.
    Dry,
    /// Everything is launched, and ended by EC2 before a heartbeat.
    Withheld,
    /// Each command fails.
    Fails,
}

const COURSES: [FairScenario; 5] =
    [FairScenario::Works, FairScenario::Endless, FairScenario::Mute, FairScenario::Dry, FairScenario::Withheld];

/// The courses of a job that is retried. In the others a retry is an attempt like any other.
const COURSES_OF_RETRIES: [FairScenario; 3] = [FairScenario::Works, FairScenario::Endless, FairScenario::Fails];

/// So often the clock moves on until it must be over. Waiting takes the most: six hours by quarters of an hour.
const MOMENTS_MAX: usize = 120;

/// So often a run goes round (the loop's own bound).
const ROUNDS_MAX: usize = 60;

impl JobModel {
    /// Only where no reconciler runs: from everywhere else a crash leads there.
    pub(crate) fn ends(&self, world: &ModelWorld) -> bool {
        world.runs != [ReconcilerState::Idle, ReconcilerState::Idle]
            || world.broken.is_some()
            || self.courses().iter().all(|course| self.comes_to_an_end(world, *course))
    }

    /// What the state of a job does not have, is not reserved; and one good run gives back what a job has that neither runs nor is launched.
    pub(crate) fn gives_back(&self, world: &ModelWorld) -> bool {
        let is_held = |world: &ModelWorld| world.reserved.is_some_and(|reserved| !reserved.is_stray);
        if !is_held(world) || world.broken.is_some() {
            return true;
        }
        let is_idle = world.runs == [ReconcilerState::Idle, ReconcilerState::Idle];
        if !is_idle || runs(&world.state.phase) {
            return world.state.unreleased().is_some();
        }
        let mut world = world.clone();
        self.reconcile(&mut world, FairScenario::Dry);
        !is_held(&world) || runs(&world.state.phase)
    }

    const fn courses(&self) -> &'static [FairScenario] {
        if self.bounds.retries > 0 { &COURSES_OF_RETRIES } else { &COURSES }
    }

    /// Whether the job is over, off the index and given back, and no machine runs, after some time in which nothing goes wrong. What
    /// was once found to end is remembered.
    fn comes_to_an_end(&self, world: &ModelWorld, course: FairScenario) -> bool {
        let mut world = world.clone();
        world.may_act = true;
        let mut way = Vec::new();
        for _ in 0..MOMENTS_MAX {
            let here = place(&world, course);
            if self.settled.lock().unwrap().contains(&here) {
                break;
            }
            way.push(here);
            self.live(&mut world, course);
            self.reconcile(&mut world, course);
            if is_over(&world) {
                self.settled.lock().unwrap().extend(way);
                return true;
            }
            let now = next_moment(&world).unwrap_or(world.now + SignedDuration::from_mins(1));
            advance(&mut world, now);
        }
        let known = self.settled.lock().unwrap().contains(&place(&world, course));
        if known {
            self.settled.lock().unwrap().extend(way);
        }
        known
    }

    fn live(&self, world: &mut ModelWorld, course: FairScenario) {
        let now = world.now;
        for index in 0..world.machines.len() {
            if course == FairScenario::Mute {
                world.machines[index].silence(now);
            }
            if course == FairScenario::Withheld && world.machines[index].agent == AgentState::Boots {
                world.machines[index].end(MachineEndReason::NotGiven, now);
            }
            if course == FairScenario::Endless {
                world.machines[index].timer = false;
            }
            // Begin, swap, result, shutdown; a lost swap more each.
            for _ in 0..8 {
                let can = deeds(world, &world.machines[index]);
                let wanted = |deed: &&AgentAction| match course {
                    FairScenario::Endless => matches!(deed, AgentAction::Begin | AgentAction::Swap),
                    FairScenario::Fails => !matches!(deed, AgentAction::Result),
                    _ => true,
                };
                let Some(deed) = can.iter().find(wanted).copied() else { break };
                self.agent(world, index, deed);
            }
            // `reap-instances`: what no state knows is ended like what has no tag.
            if !world.knows(&world.machines[index]) && world.machines[index].over_at().is_none() {
                world.machines[index].end(MachineEndReason::User, now);
            }
        }
    }

    fn reconcile(&self, world: &mut ModelWorld, course: FairScenario) {
        let mut run = self.observe(world, ObservationQuality::Open);
        for _ in 0..2 * ROUNDS_MAX {
            let ReconcilerState::At(at) = run else { return };
            let launches = matches!(&*at, Reconciliation::CarryOut(Effect::Launch(launch), _) if !launch.only_find);
            let is_dry = course == FairScenario::Dry && launches;
            run = self.step(world, &at, if is_dry { EffectOutcome::Refused } else { EffectOutcome::Done });
        }
    }
}

/// Whether it has a machine, or one is asked for.
const fn runs(phase: &Phase) -> bool {
    match phase {
        Phase::Reserving | Phase::Launching(_) | Phase::Running(_) | Phase::Interrupted(_) => true,
        Phase::Retrying(waiting) => waiting.machine.is_some(),
        Phase::Submitted | Phase::Waiting(_) | Phase::Held(_) | Phase::Ended(_) => false,
    }
}

fn is_over(world: &ModelWorld) -> bool {
    let quiet = world.machines.iter().all(|machine| !machine.runs());
    world.state.is_closed() && !world.active && world.reserved.is_none_or(|reserved| reserved.is_stray) && quiet
}

/// What the way from here on depends on.
fn place(world: &ModelWorld, course: FairScenario) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        course,
        world.now,
        &world.state,
        &world.head,
        world.cancelled,
        world.dependency,
        world.earlier_members,
        world.active,
        world.reserved,
    )
        .hash(&mut hasher);
    world.machines.hash(&mut hasher);
    hasher.finish()
}
