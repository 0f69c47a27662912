//! The world as stateright explores it: what may happen next, and what must hold.

use std::collections::HashSet;
use std::sync::Mutex;

use domain::job::{Ending, ExitReason, HeadResult, Lifecycle, Phase};
use jiff::Timestamp;
use stateright::{Model, Property};

use crate::agent::{Deed, deeds};
use crate::fair::COURSES;
use crate::job::RUNTIME_MAX;
use crate::run::{Do, Eyes, Outcome, Run};
use crate::time::{INVOCATION_MAX, advance, long_after, next_moment};
use crate::world::{Agent, Broken, Life, Machine, Why, World};

/// What is explored: how much may go wrong, and what is wrong on purpose.
pub(crate) struct Explored {
    pub(crate) bounds: Bounds,
    pub(crate) planted: Option<Planted>,
    /// Places from which it was found to end.
    pub(crate) settled: Mutex<HashSet<u64>>,
}

/// How far it is explored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// So many reconcile at once: 1 or 2.
    pub(crate) reconcilers: usize,
    /// So much goes wrong at most, in one life.
    pub(crate) faults: u8,
    /// So often the clock moves on at most; after that nothing more becomes due.
    pub(crate) jumps: u8,
}

/// A fault of the world, or of the loop, put in on purpose: the properties must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// EC2 ignores the client token, or it is not sent.
    TokenDropped,
    /// `state.json` is written whatever its version.
    SwapIgnored,
    /// An agent begins without its number in head.
    FenceNotBumped,
    /// Who loses a swap carries its effects out all the same.
    LoserGoesOn,
    /// What is owed is not done again by who comes after a crash.
    EffectsOnce,
    /// A heart is taken to beat from the launch on.
    HeartImagined,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A reconciler reads the state, and the facts that it wants, and decides.
    Look(usize, Eyes),
    /// It writes what it decided.
    Write(usize),
    /// It carries out its next effect, and that comes of it.
    CarryOut(usize, Outcome),
    /// It is no more.
    Crash(usize),
    /// The agent of that machine goes on.
    Agent(usize, Deed),
    /// What shuts down is down.
    Down(usize),
    /// EC2 warns of taking it back.
    Warn(usize),
    /// EC2 takes it back.
    Reclaim(usize),
    /// EC2 had no capacity for it after all.
    Withhold(usize),
    /// Its agent hangs.
    Silence(usize),
    /// The timer of its boothook will not ring.
    BreakTimer(usize),
    /// A person terminates it.
    Kill(usize),
    /// A person stops it.
    Stop(usize),
    /// A person cancels the job.
    Cancel,
    /// `CURFEW_MODE` changes.
    Observe(bool),
    /// The clock moves on to the next moment at which anything may be due.
    Advance,
    /// Nobody reconciles for hours.
    Sleep,
}

impl Action {
    const fn is_fault(self, was_warned: bool) -> bool {
        match self {
            Self::CarryOut(_, outcome) => !matches!(outcome, Outcome::Done),
            Self::Reclaim(_) => !was_warned,
            Self::Agent(_, deed) => matches!(deed, Deed::Shutdown(ExitReason::Broken)),
            Self::Observe(observes) => observes,
            Self::Look(..) | Self::Write(_) | Self::Crash(_) | Self::Down(_) | Self::Advance | Self::Sleep => false,
            _ => true,
        }
    }
}

impl Explored {
    pub(crate) fn new(bounds: Bounds, planted: Option<Planted>) -> Self {
        Self { bounds, planted, settled: Mutex::default() }
    }

    fn of_runs(&self, world: &World, actions: &mut Vec<Action>) {
        for (run, at) in world.runs.iter().enumerate() {
            match at {
                Run::Idle if run >= self.bounds.reconcilers || run == 1 && world.runs[0] == Run::Idle => {}
                Run::Idle => {
                    actions.extend([Eyes::Open, Eyes::Late, Eyes::Blind].map(|eyes| Action::Look(run, eyes)));
                    let warned = world.machines.iter().filter(|machine| machine.warned_at.is_some());
                    actions.extend(warned.map(|machine| Action::Look(run, Eyes::Warned(machine.number))));
                }
                Run::Decided(_) => actions.extend([Action::Write(run), Action::Crash(run)]),
                Run::Owes(_) => {
                    actions.extend([Action::CarryOut(run, Outcome::Done), Action::Crash(run)]);
                    if world.faults > 0 {
                        let otherwise = at.owes().map(Do::otherwise).unwrap_or_default();
                        actions.extend(otherwise.iter().map(|outcome| Action::CarryOut(run, *outcome)));
                    }
                }
            }
        }
    }

    fn of_machine(world: &World, index: usize, machine: &Machine, actions: &mut Vec<Action>) {
        actions.extend(deeds(world, machine).into_iter().map(|deed| Action::Agent(index, deed)));
        if matches!(machine.life, Life::Ending(..)) {
            actions.push(Action::Down(index));
        }
        if machine.warned_at.is_some() && machine.runs() {
            actions.push(Action::Reclaim(index));
        }
        if world.faults == 0 || !machine.runs() {
            return;
        }
        actions.push(Action::Kill(index));
        if machine.order.lifecycle == Lifecycle::OnDemand {
            actions.push(Action::Stop(index));
        } else if machine.warned_at.is_none() {
            actions.extend([Action::Warn(index), Action::Reclaim(index)]);
        }
        if machine.agent == Agent::Boots && machine.launched_at == world.now {
            actions.push(Action::Withhold(index));
        }
        if machine.agent != Agent::Dead {
            actions.push(Action::Silence(index));
            if machine.agent != Agent::Boots {
                actions.push(Action::Agent(index, Deed::Shutdown(ExitReason::Broken)));
            }
        }
        if machine.timer {
            actions.push(Action::BreakTimer(index));
        }
    }

    fn happens(&self, world: &mut World, action: Action) -> Option<()> {
        let now = world.now;
        match action {
            Action::Look(run, eyes) => world.runs[run] = self.look(world, eyes),
            Action::Write(run) => {
                let Run::Decided(decision) = world.runs[run].clone() else { return None };
                world.runs[run] = self.write(world, &decision);
            }
            Action::CarryOut(run, outcome) => {
                let Run::Owes(owed) = world.runs[run].clone() else { return None };
                world.runs[run] = self.carry_out(world, &owed, outcome);
            }
            Action::Crash(run) => world.runs[run] = Run::Idle,
            Action::Agent(index, deed) => self.agent(world, index, deed),
            Action::Down(index) => {
                let Life::Ending(why, at) = world.machines[index].life else { return None };
                world.machines[index].end(why, at);
            }
            Action::Warn(index) => world.machines[index].warned_at = Some(now),
            Action::Reclaim(index) => world.machines[index].end(Why::Reclaimed, now),
            Action::Withhold(index) => world.machines[index].end(Why::NotGiven, now),
            Action::Silence(index) => world.machines[index].silence(now),
            Action::BreakTimer(index) => world.machines[index].timer = false,
            Action::Kill(index) => world.machines[index].end(Why::User, now),
            Action::Stop(index) => {
                world.machines[index].silence(now);
                world.machines[index].life = Life::Stopped;
            }
            Action::Cancel => world.cancelled = true,
            Action::Observe(observes) => world.may_act = !observes,
            Action::Advance => jump(world, next_moment(world)?)?,
            Action::Sleep => jump(world, long_after(world)?)?,
        }
        Some(())
    }
}

impl Model for Explored {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds.faults, self.bounds.jumps)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_some() {
            return;
        }
        self.of_runs(world, actions);
        for (index, machine) in world.machines.iter().enumerate() {
            Self::of_machine(world, index, machine, actions);
        }
        if world.faults > 0 {
            if !world.cancelled {
                actions.push(Action::Cancel);
            }
            if world.may_act {
                actions.push(Action::Observe(true));
            }
        }
        if !world.may_act {
            actions.push(Action::Observe(false));
        }
        if world.jumps > 0 {
            actions.extend([Action::Advance, Action::Sleep]);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        let was_warned = matches!(action, Action::Reclaim(index) if last.machines[index].warned_at.is_some());
        if action.is_fault(was_warned) {
            world.faults = world.faults.checked_sub(1)?;
        }
        self.happens(&mut world, action)?;
        let runs = std::mem::replace(&mut world.runs, [Run::Idle, Run::Idle]);
        let reduces = !matches!(self.planted, Some(Planted::SwapIgnored | Planted::LoserGoesOn));
        world.runs = runs.map(|run| if reduces { run.reduced(&world) } else { run });
        // Which of the two it is makes no difference.
        if rank(&world.runs[0]) < rank(&world.runs[1]) {
            world.runs.swap(0, 1);
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one attempt is past the fence", |_, world: &World| one_past_the_fence(world)),
            Property::always("one machine runs of an attempt", |_, world: &World| one_of_an_attempt(world)),
            Property::always("no machine is forgotten", |_, world: &World| {
                let mut running = world.machines.iter().filter(|machine| machine.runs());
                running.all(|machine| machine.warned_at.is_some() || world.knows(machine) || world.is_stray(machine))
            }),
            Property::always("what is closed has ended", |_, world: &World| {
                let runs =
                    |machine: &&Machine| machine.runs() && machine.warned_at.is_none() && !world.is_stray(machine);
                let mut ours = world.machines.iter().filter(runs);
                !world.state.is_closed()
                    || ours.next().is_none() && world.reserved.is_none_or(|reserved| reserved.is_stray)
            }),
            Property::always("only what is closed is off the index", |_, world: &World| {
                world.active || world.state.is_closed()
            }),
            Property::always("it succeeded as head says", |_, world: &World| succeeded_as_head_says(world)),
            Property::always("what never ran is no attempt without progress", |_, world: &World| {
                // Whom AWS has warned, it has taken back.
                let gave =
                    |one: &&Machine| one.warned_at.is_some() || !matches!(one.life, Life::Over(Why::NotGiven, _));
                let attempts = world.machines.iter().filter(gave).count();
                usize::try_from(world.state.progress.attempts_without).unwrap() <= attempts
            }),
            Property::always("it computes no longer than it may", |_, world: &World| world.computed() <= RUNTIME_MAX),
            Property::always("it comes to an end", |explored: &Self, world: &World| explored.ends(world)),
            Property::sometimes("an attempt follows a warning", |_, world: &World| {
                world.begun.0 > 1 && world.state.attempt > 1
            }),
            Property::sometimes("it succeeds", |_, world: &World| ended(world) == Some(Ending::Succeeded)),
            Property::sometimes("it is closed", |_, world: &World| !world.active),
        ];
        properties.extend(BROKEN.map(|(name, condition)| Property::always(name, condition)));
        properties
    }
}

type Condition = fn(&Explored, &World) -> bool;

const BROKEN: [(&str, Condition); 8] = [
    ("a token has one set of parameters", |_, world| world.broken != Some(Broken::TokenReused)),
    ("what a fenced attempt writes does not count", |_, world| world.broken != Some(Broken::FencedWrote)),
    ("money is reserved before it is spent", |_, world| world.broken != Some(Broken::Unreserved)),
    ("a silent machine is ended before it is replaced", |_, world| world.broken != Some(Broken::ReplacedTooSoon)),
    ("nothing is launched or ended while it observes", |_, world| world.broken != Some(Broken::Acted)),
    ("an end is for ever", |_, world| world.broken != Some(Broken::EndTakenBack)),
    ("attempts count upwards", |_, world| world.broken != Some(Broken::AttemptFell)),
    ("one effect of a round has an answer", |_, world| world.broken != Some(Broken::TwoAnswers)),
];

impl Explored {
    /// Asked only where nobody reconciles: from everywhere else a crash leads there.
    fn ends(&self, world: &World) -> bool {
        world.runs != [Run::Idle, Run::Idle]
            || world.broken.is_some()
            || COURSES.into_iter().all(|course| self.comes_to_an_end(world, course))
    }
}

/// The clock moves on, and whoever has reconciled for longer than Lambda lets it is no more.
fn jump(world: &mut World, to: Timestamp) -> Option<()> {
    world.jumps = world.jumps.checked_sub(1)?;
    if to.duration_since(world.now) > INVOCATION_MAX {
        world.runs = [Run::Idle, Run::Idle];
    }
    advance(world, to);
    Some(())
}

fn one_past_the_fence(world: &World) -> bool {
    let Some(head) = &world.head else { return true };
    let may_write = |machine: &&Machine| {
        let is_past = matches!(machine.agent, Agent::Past(_));
        machine.lives() && is_past && head.attempt == machine.order.attempt && head.launch == machine.order.token
    };
    world.machines.iter().filter(may_write).count() <= 1
}

/// But for strays, which the fence tells apart.
fn one_of_an_attempt(world: &World) -> bool {
    let ours = world.machines.iter().filter(|machine| machine.runs() && !world.is_stray(machine));
    let attempts: Vec<u32> = ours.map(|machine| machine.order.attempt).collect();
    attempts.iter().collect::<HashSet<_>>().len() == attempts.len()
}

fn succeeded_as_head_says(world: &World) -> bool {
    let result = world.head.as_ref().and_then(|head| head.result.as_ref());
    ended(world) != Some(Ending::Succeeded) || matches!(result, Some(HeadResult { succeeded: true, .. }))
}

fn ended(world: &World) -> Option<Ending> {
    let Phase::Ended(ended) = &world.state.phase else { return None };
    Some(ended.result)
}

fn rank(run: &Run) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    if *run == Run::Idle {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    hasher.finish()
}
