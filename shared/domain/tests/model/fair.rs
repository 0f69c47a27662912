//! From any moment on, nothing goes wrong any more: does it come to an end?

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::SignedDuration;

use crate::agent::{Deed, deeds};
use crate::explore::Explored;
use crate::run::{Do, Eyes, Outcome, Run};
use crate::time::{advance, next_moment};
use crate::world::{Agent, Why, World};

/// How the world goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Course {
    /// Each agent does its work.
    Works,
    /// Each agent beats its heart, and its command never ends; nor do timers ring: only Curfew ends anything.
    Endless,
    /// No agent is heard of any more.
    Mute,
    /// Nothing can be launched any more.
    Dry,
    /// Everything is launched, and ended by EC2 before anything is heard of it.
    Withheld,
}

pub(crate) const COURSES: [Course; 5] = [Course::Works, Course::Endless, Course::Mute, Course::Dry, Course::Withheld];

/// So often the clock moves on until it must be over. Waiting takes the most: six hours by quarters of an hour.
const MOMENTS_MAX: usize = 120;

/// So often a run goes round (the loop's own bound).
const ROUNDS_MAX: usize = 60;

impl Explored {
    /// Whether the job is over, off the index and given back, and no machine runs, after some time in which nothing goes wrong. What
    /// was once found to end is remembered.
    pub(crate) fn comes_to_an_end(&self, world: &World, course: Course) -> bool {
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

    fn live(&self, world: &mut World, course: Course) {
        let now = world.now;
        for index in 0..world.machines.len() {
            if course == Course::Mute {
                world.machines[index].silence(now);
            }
            if course == Course::Withheld && world.machines[index].agent == Agent::Boots {
                world.machines[index].end(Why::NotGiven, now);
            }
            if course == Course::Endless {
                world.machines[index].timer = false;
            }
            // Begin, swap, result, shutdown; a lost swap more each.
            for _ in 0..8 {
                let can = deeds(world, &world.machines[index]);
                let wanted = |deed: &&Deed| course != Course::Endless || matches!(deed, Deed::Begin | Deed::Swap);
                let Some(deed) = can.iter().find(wanted).copied() else { break };
                self.agent(world, index, deed);
            }
            // `reap-instances`: what no state knows is ended like what has no tag.
            if !world.knows(&world.machines[index]) && world.machines[index].over_at().is_none() {
                world.machines[index].end(Why::User, now);
            }
        }
    }

    fn reconcile(&self, world: &mut World, course: Course) {
        let mut run = self.look(world, Eyes::Open);
        for _ in 0..2 * ROUNDS_MAX {
            run = match run {
                Run::Idle => return,
                Run::Decided(decision) => self.write(world, &decision),
                Run::Owes(owed) => {
                    let dry = course == Course::Dry && matches!(owed.effects.first(), Some(Do::Launch(_)));
                    self.carry_out(world, &owed, if dry { Outcome::Refused } else { Outcome::Done })
                }
            };
        }
    }
}

fn is_over(world: &World) -> bool {
    let quiet = world.machines.iter().all(|machine| !machine.runs());
    world.state.is_closed() && !world.active && world.reserved.is_none_or(|reserved| reserved.is_stray) && quiet
}

/// What the way from here on depends on.
fn place(world: &World, course: Course) -> u64 {
    let mut hasher = DefaultHasher::new();
    (course, world.now, &world.state, &world.head, world.cancelled, world.active, world.reserved).hash(&mut hasher);
    world.machines.hash(&mut hasher);
    hasher.finish()
}
