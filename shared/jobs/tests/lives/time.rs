//! The clock, which moves from one interesting moment to the next.

use jiff::{SignedDuration, Timestamp};
use jobs::{
    AGENT_ENDS_BEFORE, ATTEMPT_MIN, EXPIRES_AFTER, FIRST_HEARTBEAT_AFTER, HEARTBEAT_EVERY, HEARTBEAT_TIMEOUT, Phase,
    WARNING,
};

use crate::job::{self, FINISH_WITHIN, leaves_spot_at};
use crate::world::{AgentState, MachineEndReason, MachineLife, ModelMachine, ModelWorld};

/// A wait ends up to a minute late: the schedule is every minute.
const LATE: SignedDuration = HEARTBEAT_EVERY;

/// Lambda ends an invocation after 15 minutes at most (AWS Lambda developer guide, "Lambda quotas").
pub(crate) const INVOCATION_MAX: SignedDuration = SignedDuration::from_mins(15);

/// How long after an end the agent has its chance.
const AFTER_END: SignedDuration = SignedDuration::from_mins(5);

/// The next moment at which anything may be due.
pub(crate) fn next_moment(world: &ModelWorld) -> Option<Timestamp> {
    let mut moments = Vec::new();
    match &world.state.phase {
        Phase::Held(held) => moments.push(held.until),
        Phase::Waiting(waiting) => moments.push(waiting.until),
        Phase::Retrying(waiting) => moments.extend([waiting.until, waiting.since + AFTER_END]),
        Phase::Interrupted(replacing) => moments.push(replacing.since + FIRST_HEARTBEAT_AFTER),
        Phase::Ended(ended) if !ended.closed => moments.push(ended.at + AFTER_END),
        Phase::Ended(_) | Phase::Submitted | Phase::Reserving | Phase::Launching(_) | Phase::Running(_) => {}
    }
    if world.state.waits_for_others() {
        moments.push(job::begin() + FINISH_WITHIN - ATTEMPT_MIN);
    }
    if world.state.deadline.is_some() && world.machines.iter().any(ModelMachine::runs) {
        moments.push(leaves_spot_at());
    }
    for machine in &world.machines {
        moments.extend(machine_moments(machine));
    }
    moments.into_iter().filter(|moment| *moment + LATE > world.now).min().map(|moment| moment + LATE)
}

fn machine_moments(machine: &ModelMachine) -> Vec<Timestamp> {
    if machine.over_at().is_some() {
        return Vec::new();
    }
    let ends_at = machine.order.ends_at;
    let mut moments = vec![ends_at - AGENT_ENDS_BEFORE, ends_at, ends_at + AGENT_ENDS_BEFORE, ends_at + EXPIRES_AFTER];
    match (&machine.agent, machine.beat) {
        (AgentState::Dead, Some(beat)) => moments.push(beat + HEARTBEAT_TIMEOUT),
        (AgentState::Boots, _) | (AgentState::Dead, None) => moments.push(machine.launched_at + FIRST_HEARTBEAT_AFTER),
        (AgentState::Saw(_) | AgentState::Past(_), _) => {}
    }
    moments.extend(machine.warned_at.map(|at| at + WARNING));
    moments
}

/// No reconciler runs until every machine should have ended by itself.
pub(crate) fn long_after(world: &ModelWorld) -> Option<Timestamp> {
    let running = world.machines.iter().filter(|machine| machine.over_at().is_none());
    let last = running.map(|machine| machine.order.ends_at).max()?;
    Some((last + EXPIRES_AFTER + LATE).max(world.now))
}

/// It is that late now, and what is due by itself has happened: machines are taken back two minutes after their warning, and the
/// boothook's timers ring.
pub(crate) fn advance(world: &mut ModelWorld, now: Timestamp) {
    world.now = now;
    for machine in &mut world.machines {
        if machine.over_at().is_some() {
            continue;
        }
        let taken_back = machine.warned_at.map(|at| at + WARNING).filter(|at| *at <= now);
        if let Some(at) = taken_back {
            machine.end(MachineEndReason::Reclaimed, at);
        } else if let MachineLife::Ending(why, at) = machine.life {
            machine.end(why, at);
        } else if machine.timer && machine.order.ends_at <= now && machine.runs() {
            let at = machine.order.ends_at;
            machine.end(MachineEndReason::Itself, at);
        }
    }
}
