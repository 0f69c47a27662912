//! EC2: what it launches, what it ends, and what it says of it.

use jiff::{SignedDuration, Timestamp};
use jobs::{LaunchResult, MachineSight, QuotaCode};
use model::id::ResourceId;
use model::instance::InstanceState;
use model::money::{Amount, Rate};

use crate::explore::JobModel;
use crate::planted_fault::PlantedFault;
use crate::run::EffectOutcome;
use crate::world::{
    AgentState, BrokenInvariant, LaunchOrder, MachineEndReason, MachineLife, ModelMachine, ModelReservation,
    ModelWorld, SharedValue,
};

/// How long EC2 shows what is terminated (AWS, "Terminate Amazon EC2 instances": "usually within an hour").
const SHOWN: SignedDuration = SignedDuration::from_hours(1);

/// By then EC2's answers have an instance that was launched. AWS gives no bound ("Eventual consistency in the Amazon EC2 API"); this
/// is the assumption.
const VISIBLE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// By then they have that it was terminated.
const ENDED_AFTER: SignedDuration = SignedDuration::from_mins(1);

impl JobModel {
    /// EC2's `RunInstances`: one token, one instance, for the day that this world lasts (EC2 API reference, "Ensuring idempotency in
    /// Amazon EC2 API requests"). A refusal is not remembered: the same token may succeed later.
    pub(crate) fn launch(
        &self,
        world: &mut ModelWorld,
        order: &SharedValue<LaunchOrder>,
        outcome: EffectOutcome,
    ) -> LaunchResult {
        let message = || "as the world has it".to_owned();
        let launched = |machine: &ModelMachine| LaunchResult::Launched {
            members: Vec::new(),
            instance: machine.id(),
            launched_at: machine.launched_at,
        };
        if outcome == EffectOutcome::Lost {
            return LaunchResult::Unknown(message());
        }
        let same = world.machines.iter().find(|machine| machine.order.token == order.token);
        if let Some(machine) = same
            && self.planted != Some(PlantedFault::TokenDropped)
        {
            if machine.order != *order {
                world.breaks(BrokenInvariant::TokenReused);
                return LaunchResult::Mismatch("IdempotentParameterMismatch".to_owned());
            }
            return if outcome == EffectOutcome::AnswerLost {
                LaunchResult::Unknown(message())
            } else {
                launched(machine)
            };
        }
        let is_refused = matches!(outcome, EffectOutcome::Refused | EffectOutcome::Quota | EffectOutcome::Denied);
        if is_refused && !world.refused.contains(&order.token) {
            world.refused.push(order.token.clone());
            world.refused.sort();
        }
        match outcome {
            EffectOutcome::Refused => LaunchResult::NoCapacity(message()),
            EffectOutcome::Quota => LaunchResult::Quota(message(), Some(QuotaCode("L-3819A6DF".to_owned()))),
            EffectOutcome::Denied => LaunchResult::Denied(message()),
            _ => {
                check_launch(world, order);
                let machine = ModelMachine {
                    number: u8::try_from(world.machines.len()).unwrap(),
                    order: order.clone(),
                    launched_at: world.now,
                    warned_at: None,
                    life: MachineLife::Running,
                    agent: AgentState::Boots,
                    beat: None,
                    exit: None,
                    timer: true,
                    is_left: false,
                };
                let answer = launched(&machine);
                world.machines.push(machine);
                if outcome == EffectOutcome::AnswerLost { LaunchResult::Unknown(message()) } else { answer }
            }
        }
    }
}

/// What was launched by that order's token, where EC2 says so.
pub(crate) fn found(world: &ModelWorld, order: &LaunchOrder, outcome: EffectOutcome) -> LaunchResult {
    let same = world.machines.iter().find(|machine| machine.order.token == order.token);
    match same {
        _ if outcome == EffectOutcome::Lost => LaunchResult::Unknown("as the world has it".to_owned()),
        Some(machine) => {
            LaunchResult::Launched { instance: machine.id(), members: Vec::new(), launched_at: machine.launched_at }
        }
        None => LaunchResult::NoCapacity("nothing is there".to_owned()),
    }
}

/// What EC2 says. `late`: it does not know yet what was launched, nor that something has ended.
pub(crate) fn sight(world: &ModelWorld, instance: &ResourceId, late: bool) -> MachineSight {
    let Some(machine) = world.machines.iter().find(|machine| machine.id() == *instance) else {
        return MachineSight::Absent;
    };
    let since = |at: Timestamp| world.now.duration_since(at);
    if late && since(machine.launched_at) < VISIBLE_AFTER || machine.over_at().is_some_and(|at| since(at) >= SHOWN) {
        return MachineSight::Absent;
    }
    let code = |why| match why {
        MachineEndReason::Reclaimed => "Server.SpotInstanceTermination",
        MachineEndReason::Itself => "Client.InstanceInitiatedShutdown",
        MachineEndReason::User => "Client.UserInitiatedShutdown",
        MachineEndReason::NotGiven => "Server.InsufficientInstanceCapacity",
    };
    let (state, why) = match machine.life {
        MachineLife::Over(_, at) if late && since(at) < ENDED_AFTER => (InstanceState::Running, None),
        MachineLife::Running => (InstanceState::Running, None),
        MachineLife::Ending(why, _) => (InstanceState::ShuttingDown, Some(why)),
        MachineLife::Over(why, _) => (InstanceState::Terminated, Some(why)),
        MachineLife::Stopped => (InstanceState::Stopped, Some(MachineEndReason::User)),
    };
    MachineSight::Seen { state, reason: why.map(|why| code(why).to_owned()) }
}

pub(crate) fn terminate(world: &mut ModelWorld, instance: &ResourceId) {
    let now = world.now;
    for machine in world.machines.iter_mut().filter(|machine| machine.id() == *instance) {
        match machine.life {
            MachineLife::Running => machine.life = MachineLife::Ending(MachineEndReason::User, now),
            MachineLife::Stopped => machine.end(MachineEndReason::User, now),
            MachineLife::Ending(..) | MachineLife::Over(..) => {}
        }
    }
}

/// The limits of a launch, by the state of EC2 and of the budget. A stray request, which comes through after another one of the same token was
/// refused, is a launch without a decision.
fn check_launch(world: &mut ModelWorld, order: &LaunchOrder) {
    if world.launching().as_deref() != Some(&order.token) && world.refused.contains(&order.token) {
        return;
    }
    let seconds = order.ends_at.duration_since(world.now).as_secs().max(0).unsigned_abs();
    let cost = Amount::from_rate(Rate::from_usd_micros_per_hour(order.usd_per_hour_max), seconds);
    let covers =
        |reserved: ModelReservation| reserved.is_stray || reserved.usd >= cost && reserved.until >= order.ends_at;
    if !world.reserved.is_some_and(covers) {
        world.breaks(BrokenInvariant::Unreserved);
    }
    let is_in_the_way = |machine: &ModelMachine| {
        machine.runs() && machine.warned_at.is_none() && !world.is_stray(machine) && !world.is_left_for_spot(machine)
    };
    if world.machines.iter().any(is_in_the_way) {
        world.breaks(BrokenInvariant::ReplacedTooSoon);
    }
}
