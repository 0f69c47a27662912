//! The agent on a machine, as far as the fence is concerned: DESIGN of the fence is in `jobs::Head`.

use jobs::{AGENT_ENDS_BEFORE, Checkpoint, ExitReason, Head, HeadResult};

use crate::explore::JobModel;
use crate::job;
use crate::planted_fault::PlantedFault;
use crate::world::{AgentState, BrokenInvariant, LaunchOrder, MachineEndReason, MachineLife, ModelMachine, ModelWorld};

/// The one step in head, for a command that overwrites each checkpoint. Each attempt names it once: further ones of one attempt show nothing new.
const STEP: u64 = 1;

/// What an agent may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentAction {
    /// It boots, sends a heartbeat, and reads the fence.
    Begin,
    /// It swaps its number in.
    Swap,
    /// It names a checkpoint in head.
    Checkpoint,
    /// The command has ended with success, and it writes that into head.
    Result,
    /// The command has failed, and it writes that into head.
    Failure,
    /// A limit of the job has ended the command, and it writes that into head.
    LimitReached,
    /// It leaves an exit record and shuts its machine down.
    Shutdown(ExitReason),
}

/// What an agent may do without anything being wrong.
pub(crate) fn deeds(world: &ModelWorld, machine: &ModelMachine) -> Vec<AgentAction> {
    if !machine.lives() {
        return Vec::new();
    }
    let mut deeds = Vec::new();
    let mine = machine.order.attempt;
    match &machine.agent {
        AgentState::Boots => deeds.push(AgentAction::Begin),
        AgentState::Saw(head) => {
            let LaunchOrder { token, retry_of, .. } = &*machine.order;
            let is_fenced = head.as_ref().is_some_and(|head| !head.admits(mine, token, *retry_of));
            deeds.push(if is_fenced { AgentAction::Shutdown(ExitReason::Fenced) } else { AgentAction::Swap });
        }
        AgentState::Past(head) if (head.attempt, &head.launch) != (mine, &machine.order.token) => {
            deeds.push(AgentAction::Shutdown(ExitReason::Fenced));
        }
        AgentState::Past(Head { result: Some(result), .. }) => deeds.push(AgentAction::Shutdown(result.reason())),
        AgentState::Past(head) => {
            deeds.push(AgentAction::Result);
            if world.state.terms.retries > 0 {
                deeds.extend([AgentAction::Failure, AgentAction::LimitReached]);
            }
            if head.checkpoint.is_none_or(|named| named.attempt < mine) {
                deeds.push(AgentAction::Checkpoint);
            }
            if machine.warned_at.is_some() {
                deeds.push(AgentAction::Shutdown(ExitReason::Interrupted));
            }
        }
        AgentState::Dead => {}
    }
    if machine.agent != AgentState::Boots && world.now >= machine.order.ends_at - AGENT_ENDS_BEFORE {
        deeds.push(AgentAction::Shutdown(ExitReason::Expired));
    }
    deeds
}

impl JobModel {
    /// The agent of that machine does that.
    pub(crate) fn agent(&self, world: &mut ModelWorld, index: usize, deed: AgentAction) {
        let machine = &world.machines[index];
        let mine = (machine.order.attempt, machine.order.token.clone());
        let then = match (&machine.agent, deed) {
            (_, AgentAction::Shutdown(reason)) => {
                let now = world.now;
                world.machines[index].exit = Some(reason);
                // One that Curfew is ending stays ended by Curfew.
                let why = if let MachineLife::Ending(why, _) = world.machines[index].life {
                    why
                } else {
                    MachineEndReason::Itself
                };
                world.machines[index].end(why, now);
                return;
            }
            (AgentState::Boots, _) => AgentState::Saw(world.head.clone()),
            (AgentState::Saw(seen), _) => {
                let known_of = seen.clone();
                let mut head = seen.clone().unwrap_or_default();
                let earlier = head.result.clone();
                if self.planted != Some(PlantedFault::FenceNotBumped) {
                    head.claim(mine.0, &mine.1);
                }
                if self.planted == Some(PlantedFault::FailureKept) {
                    head.result = earlier;
                }
                if swap(world, mine, known_of.as_ref(), &head) {
                    AgentState::Past(head)
                } else {
                    AgentState::Saw(world.head.clone())
                }
            }
            (AgentState::Past(seen), deed) => {
                let (seen, mut head) = (seen.clone(), seen.clone());
                if matches!(deed, AgentAction::Result | AgentAction::Failure | AgentAction::LimitReached) {
                    let succeeded = deed == AgentAction::Result;
                    let code = Some(i32::from(!succeeded));
                    let is_final = deed == AgentAction::LimitReached;
                    head.result = Some(HeadResult { succeeded, code, why: String::new(), at: job::begin(), is_final });
                } else {
                    head.checkpoint = Some(Checkpoint { attempt: mine.0, step: STEP, rewrite: 0 });
                }
                // If another process wrote, it reads which: a later attempt, or itself with a lost response.
                let swapped = swap(world, mine, Some(&seen), &head);
                world.failures += u8::from(swapped && deed == AgentAction::Failure);
                AgentState::Past(if swapped { head } else { world.head.clone().unwrap_or_default() })
            }
            (AgentState::Dead, _) => return,
        };
        world.machines[index].agent = then;
    }
}

/// Writes head over what was read of it; whether that still stood there.
fn swap(world: &mut ModelWorld, mine: (u32, String), seen: Option<&Head>, head: &Head) -> bool {
    if world.head.as_ref() != seen {
        return false;
    }
    if mine.0 < world.begun.0 || mine.0 == world.begun.0 && mine.1 != world.begun.1 {
        world.breaks(BrokenInvariant::FencedWrote);
    }
    world.begun = mine;
    world.head = Some(head.clone());
    true
}
