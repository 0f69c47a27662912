//! EC2: what it launches, what it ends, and what it says of it.

use domain::id::ResourceId;
use domain::instance::State;
use domain::job::{LaunchAnswer, Quota, Sight};
use domain::money::{Amount, Rate};
use jiff::{SignedDuration, Timestamp};

use crate::explore::{Explored, Planted};
use crate::run::Outcome;
use crate::world::{Agent, Broken, Kept, Life, Machine, Order, Reserved, Why, World};

/// How long EC2 shows what is terminated (AWS, "Terminate Amazon EC2 instances": "usually within an hour").
const SHOWN: SignedDuration = SignedDuration::from_hours(1);

/// By then EC2's answers have an instance that was launched. AWS gives no bound ("Eventual consistency in the Amazon EC2 API"); this
/// is the assumption.
const VISIBLE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// By then they have that it was terminated.
const ENDED_AFTER: SignedDuration = SignedDuration::from_mins(1);

impl Explored {
    /// EC2's `RunInstances`: one token, one instance, for the day that this world lasts (EC2 API reference, "Ensuring idempotency in
    /// Amazon EC2 API requests"). A refusal is not remembered: the same token may succeed later.
    pub(crate) fn launch(&self, world: &mut World, order: &Kept<Order>, outcome: Outcome) -> LaunchAnswer {
        let said = || "as the world has it".to_owned();
        let launched =
            |machine: &Machine| LaunchAnswer::Launched { instance: machine.id(), launched_at: machine.launched_at };
        if outcome == Outcome::Lost {
            return LaunchAnswer::Unknown(said());
        }
        let same = world.machines.iter().find(|machine| machine.order.token == order.token);
        if let Some(machine) = same
            && self.planted != Some(Planted::TokenDropped)
        {
            if machine.order != *order {
                world.breaks(Broken::TokenReused);
                return LaunchAnswer::Mismatch("IdempotentParameterMismatch".to_owned());
            }
            return if outcome == Outcome::Unheard { LaunchAnswer::Unknown(said()) } else { launched(machine) };
        }
        let is_refused = matches!(outcome, Outcome::Refused | Outcome::Quota | Outcome::Denied);
        if is_refused && !world.refused.contains(&order.token) {
            world.refused.push(order.token.clone());
            world.refused.sort();
        }
        match outcome {
            Outcome::Refused => LaunchAnswer::NoCapacity(said()),
            Outcome::Quota => LaunchAnswer::Quota(said(), Some(Quota("L-3819A6DF".to_owned()))),
            Outcome::Denied => LaunchAnswer::Denied(said()),
            _ => {
                check_launch(world, order);
                let machine = Machine {
                    number: u8::try_from(world.machines.len()).unwrap(),
                    order: order.clone(),
                    launched_at: world.now,
                    warned_at: None,
                    life: Life::Running,
                    agent: Agent::Boots,
                    beat: None,
                    exit: None,
                    timer: true,
                };
                let answer = launched(&machine);
                world.machines.push(machine);
                if outcome == Outcome::Unheard { LaunchAnswer::Unknown(said()) } else { answer }
            }
        }
    }
}

/// What was launched by that order's token, where EC2 says so.
pub(crate) fn found(world: &World, order: &Order, outcome: Outcome) -> LaunchAnswer {
    let same = world.machines.iter().find(|machine| machine.order.token == order.token);
    match same {
        _ if outcome == Outcome::Lost => LaunchAnswer::Unknown("as the world has it".to_owned()),
        Some(machine) => LaunchAnswer::Launched { instance: machine.id(), launched_at: machine.launched_at },
        None => LaunchAnswer::NoCapacity("nothing is there".to_owned()),
    }
}

/// What EC2 says. `late`: it does not know yet what was launched, nor that something has ended.
pub(crate) fn sight(world: &World, instance: &ResourceId, late: bool) -> Sight {
    let Some(machine) = world.machines.iter().find(|machine| machine.id() == *instance) else { return Sight::Absent };
    let since = |at: Timestamp| world.now.duration_since(at);
    if late && since(machine.launched_at) < VISIBLE_AFTER || machine.over_at().is_some_and(|at| since(at) >= SHOWN) {
        return Sight::Absent;
    }
    let code = |why| match why {
        Why::Reclaimed => "Server.SpotInstanceTermination",
        Why::Itself => "Client.InstanceInitiatedShutdown",
        Why::User => "Client.UserInitiatedShutdown",
        Why::NotGiven => "Server.InsufficientInstanceCapacity",
    };
    let (state, why) = match machine.life {
        Life::Over(_, at) if late && since(at) < ENDED_AFTER => (State::Running, None),
        Life::Running => (State::Running, None),
        Life::Ending(why, _) => (State::ShuttingDown, Some(why)),
        Life::Over(why, _) => (State::Terminated, Some(why)),
        Life::Stopped => (State::Stopped, Some(Why::User)),
    };
    Sight::Seen { state, reason: why.map(|why| code(why).to_owned()) }
}

pub(crate) fn terminate(world: &mut World, instance: &ResourceId) {
    let now = world.now;
    for machine in world.machines.iter_mut().filter(|machine| machine.id() == *instance) {
        match machine.life {
            Life::Running => machine.life = Life::Ending(Why::User, now),
            Life::Stopped => machine.end(Why::User, now),
            Life::Ending(..) | Life::Over(..) => {}
        }
    }
}

/// What a launch may not do, seen from where EC2 and the budget stand. A stray request, which comes through after another one of the
/// same token was refused, is launched by nobody's decision.
fn check_launch(world: &mut World, order: &Order) {
    if world.launching().as_deref() != Some(&order.token) && world.refused.contains(&order.token) {
        return;
    }
    let seconds = order.ends_at.duration_since(world.now).as_secs().max(0).unsigned_abs();
    let cost = Amount::of(Rate::from_usd_micros_per_hour(order.usd_per_hour_max), seconds);
    let covers = |reserved: Reserved| reserved.is_stray || reserved.usd >= cost && reserved.until >= order.ends_at;
    if !world.reserved.is_some_and(covers) {
        world.breaks(Broken::Unreserved);
    }
    let is_in_the_way = |machine: &Machine| machine.runs() && machine.warned_at.is_none() && !world.is_stray(machine);
    if world.machines.iter().any(is_in_the_way) {
        world.breaks(Broken::ReplacedTooSoon);
    }
}
