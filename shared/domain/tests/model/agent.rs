//! The agent on a machine, as far as the fence is concerned: DESIGN of the fence is in `domain::job::Head`.

use domain::job::{AGENT_ENDS_BEFORE, Checkpoint, ExitReason, Head, HeadResult};

use crate::explore::{Explored, Planted};
use crate::job;
use crate::world::{Agent, Broken, Life, Machine, Why, World};

/// The one step that is named, as of a command that writes each checkpoint over the one before. Each attempt names it once: more
/// of one attempt show nothing new.
const STEP: u64 = 1;

/// What an agent may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It comes up, beats its heart, and reads the fence.
    Begin,
    /// It swaps its number in.
    Swap,
    /// It names a checkpoint in head.
    Checkpoint,
    /// The command has ended, and it writes that into head.
    Result,
    /// It leaves an exit record and shuts its machine down.
    Shutdown(ExitReason),
}

/// What an agent may do without anything being wrong.
pub(crate) fn deeds(world: &World, machine: &Machine) -> Vec<Deed> {
    if !machine.lives() {
        return Vec::new();
    }
    let mut deeds = Vec::new();
    let mine = machine.order.attempt;
    match &machine.agent {
        Agent::Boots => deeds.push(Deed::Begin),
        Agent::Saw(head) => {
            let is_fenced = head.as_ref().is_some_and(|head| !head.admits(mine, &machine.order.token));
            deeds.push(if is_fenced { Deed::Shutdown(ExitReason::Fenced) } else { Deed::Swap });
        }
        Agent::Past(head) if (head.attempt, &head.launch) != (mine, &machine.order.token) => {
            deeds.push(Deed::Shutdown(ExitReason::Fenced));
        }
        Agent::Past(Head { result: Some(_), .. }) => deeds.push(Deed::Shutdown(ExitReason::Succeeded)),
        Agent::Past(head) => {
            deeds.push(Deed::Result);
            if head.checkpoint.is_none_or(|named| named.attempt < mine) {
                deeds.push(Deed::Checkpoint);
            }
            if machine.warned_at.is_some() {
                deeds.push(Deed::Shutdown(ExitReason::Interrupted));
            }
        }
        Agent::Dead => {}
    }
    if machine.agent != Agent::Boots && world.now >= machine.order.ends_at - AGENT_ENDS_BEFORE {
        deeds.push(Deed::Shutdown(ExitReason::Expired));
    }
    deeds
}

impl Explored {
    /// The agent of that machine does that.
    pub(crate) fn agent(&self, world: &mut World, index: usize, deed: Deed) {
        let machine = &world.machines[index];
        let mine = (machine.order.attempt, machine.order.token.clone());
        let then = match (&machine.agent, deed) {
            (_, Deed::Shutdown(reason)) => {
                let now = world.now;
                world.machines[index].exit = Some(reason);
                // One that Curfew is ending stays ended by Curfew.
                let why = if let Life::Ending(why, _) = world.machines[index].life { why } else { Why::Itself };
                world.machines[index].end(why, now);
                return;
            }
            (Agent::Boots, _) => Agent::Saw(world.head.clone()),
            (Agent::Saw(seen), _) => {
                let known_of = seen.clone();
                let known = seen.clone().unwrap_or_default();
                let bumps = self.planted != Some(Planted::FenceNotBumped);
                let (attempt, launch) = if bumps { mine.clone() } else { (known.attempt, known.launch.clone()) };
                let head = Head { attempt, launch, ..known };
                if swap(world, mine, known_of.as_ref(), &head) {
                    Agent::Past(head)
                } else {
                    Agent::Saw(world.head.clone())
                }
            }
            (Agent::Past(seen), deed) => {
                let (seen, mut head) = (seen.clone(), seen.clone());
                if deed == Deed::Result {
                    head.result =
                        Some(HeadResult { succeeded: true, code: Some(0), why: String::new(), at: job::begin() });
                } else {
                    head.checkpoint = Some(Checkpoint { attempt: mine.0, step: STEP, rewrite: 0 });
                }
                // Where somebody else wrote, it looks who: a later attempt, or an answer to itself that was lost.
                let swapped = swap(world, mine, Some(&seen), &head);
                Agent::Past(if swapped { head } else { world.head.clone().unwrap_or_default() })
            }
            (Agent::Dead, _) => return,
        };
        world.machines[index].agent = then;
    }
}

/// Writes head over what was read of it; whether that still stood there.
fn swap(world: &mut World, mine: (u32, String), seen: Option<&Head>, head: &Head) -> bool {
    if world.head.as_ref() != seen {
        return false;
    }
    if mine.0 < world.begun.0 || mine.0 == world.begun.0 && mine.1 != world.begun.1 {
        world.breaks(Broken::FencedWrote);
    }
    world.begun = mine;
    world.head = Some(head.clone());
    true
}
