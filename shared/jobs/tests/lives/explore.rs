//! The world as stateright explores it: what may happen next, and what must hold.

use std::collections::HashSet;
use std::sync::Mutex;

use jiff::Timestamp;
use jobs::{DependencyState, ExitReason, HeadResult, JobResult, Lifecycle, LossReason, Phase, Reconciliation};
use stateright::{Model, Property};

use crate::agent::{AgentAction, deeds};
use crate::dependencies::dependency_properties;
use crate::job::{RUNTIME_MAX, after_others, with_deadline, with_retries};
use crate::planted_fault::PlantedFault;
use crate::retries::retry_properties;
use crate::run::{EffectOutcome, ObservationQuality, ReconcilerState, other_outcomes};
use crate::time::{INVOCATION_MAX, advance, long_after, next_moment};
use crate::world::{AgentState, BrokenInvariant, MachineEndReason, MachineLife, ModelMachine, ModelWorld};

/// The bounds of one exploration, and the fault that is planted in it.
pub(crate) struct JobModel {
    pub(crate) bounds: ModelBounds,
    pub(crate) planted: Option<PlantedFault>,
    /// States from which the job is known to finish.
    pub(crate) settled: Mutex<HashSet<u64>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ModelBounds {
    /// 1 or 2 at once.
    pub(crate) reconcilers: usize,
    /// The most faults in one history.
    pub(crate) faults: u8,
    /// The most steps of the clock; after them nothing more becomes due.
    pub(crate) jumps: u8,
    /// Whether a deadline decides between Spot and on-demand.
    pub(crate) has_deadline: bool,
    /// How often a failed command is retried; at 0 none fails.
    pub(crate) retries: u32,
    /// Whether it waits for another job, and as a member of a sweep for an earlier one: each ends at any moment, or never.
    pub(crate) waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelAction {
    /// A reconciler reads the state, and the facts that it wants, and decides.
    Look(usize, ObservationQuality),
    /// It carries out the next effect, with this result.
    Step(usize, EffectOutcome),
    /// It crashes.
    Crash(usize),
    /// The agent of that machine takes its next step.
    Agent(usize, AgentAction),
    /// The machine that shuts down is off.
    Down(usize),
    /// EC2 warns of taking it back.
    Warn(usize),
    Reclaim(usize),
    /// EC2 found no capacity after it accepted the launch.
    Withhold(usize),
    Silence(usize),
    /// The timer of its boothook is broken.
    BreakTimer(usize),
    Kill(usize),
    Stop(usize),
    Cancel,
    /// The job that it waits for ends.
    EndDependency(JobResult),
    /// The earlier member of its sweep is closed.
    CloseEarlierMember,
    /// `CURFEW_MODE` changes.
    Observe(bool),
    /// The clock moves to the next moment at which something may be due.
    Advance,
    /// No reconciler runs for hours.
    Sleep,
}

impl ModelAction {
    const fn is_fault(self, was_warned: bool) -> bool {
        match self {
            Self::Step(_, outcome) => !matches!(outcome, EffectOutcome::Done),
            Self::Reclaim(_) => !was_warned,
            Self::Agent(_, deed) => matches!(deed, AgentAction::Shutdown(ExitReason::Broken)),
            Self::Observe(observes) => observes,
            Self::Look(..)
            | Self::Crash(_)
            | Self::Down(_)
            | Self::EndDependency(_)
            | Self::CloseEarlierMember
            | Self::Advance
            | Self::Sleep => false,
            _ => true,
        }
    }
}

impl JobModel {
    pub(crate) fn new(bounds: ModelBounds, planted: Option<PlantedFault>) -> Self {
        Self { bounds, planted, settled: Mutex::default() }
    }

    fn add_reconciler_actions(&self, world: &ModelWorld, actions: &mut Vec<ModelAction>) {
        for (run, at) in world.runs.iter().enumerate() {
            match at {
                ReconcilerState::Idle
                    if run >= self.bounds.reconcilers || run == 1 && world.runs[0] == ReconcilerState::Idle => {}
                ReconcilerState::Idle => {
                    actions.extend(
                        [ObservationQuality::Open, ObservationQuality::Late, ObservationQuality::Blind]
                            .map(|eyes| ModelAction::Look(run, eyes)),
                    );
                    let warned = world.machines.iter().filter(|machine| machine.warned_at.is_some());
                    actions.extend(
                        warned.map(|machine| ModelAction::Look(run, ObservationQuality::Warned(machine.number))),
                    );
                }
                ReconcilerState::At(at) => {
                    actions.extend([ModelAction::Step(run, EffectOutcome::Done), ModelAction::Crash(run)]);
                    let others = match &**at {
                        Reconciliation::CarryOut(effect, _) if world.faults > 0 => other_outcomes(effect),
                        _ => &[],
                    };
                    actions.extend(others.iter().map(|outcome| ModelAction::Step(run, *outcome)));
                }
            }
        }
    }

    fn add_machine_actions(world: &ModelWorld, index: usize, machine: &ModelMachine, actions: &mut Vec<ModelAction>) {
        actions.extend(deeds(world, machine).into_iter().map(|deed| ModelAction::Agent(index, deed)));
        if matches!(machine.life, MachineLife::Ending(..)) {
            actions.push(ModelAction::Down(index));
        }
        if machine.warned_at.is_some() && machine.runs() {
            actions.push(ModelAction::Reclaim(index));
        }
        if world.faults == 0 || !machine.runs() {
            return;
        }
        actions.push(ModelAction::Kill(index));
        if machine.order.lifecycle == Lifecycle::OnDemand {
            actions.push(ModelAction::Stop(index));
        } else if machine.warned_at.is_none() {
            actions.extend([ModelAction::Warn(index), ModelAction::Reclaim(index)]);
        }
        if machine.agent == AgentState::Boots && machine.launched_at == world.now {
            actions.push(ModelAction::Withhold(index));
        }
        if machine.agent != AgentState::Dead {
            actions.push(ModelAction::Silence(index));
            if machine.agent != AgentState::Boots {
                actions.push(ModelAction::Agent(index, AgentAction::Shutdown(ExitReason::Broken)));
            }
        }
        if machine.timer {
            actions.push(ModelAction::BreakTimer(index));
        }
    }

    fn happens(&self, world: &mut ModelWorld, action: ModelAction) -> Option<()> {
        let now = world.now;
        match action {
            ModelAction::Look(run, eyes) => world.runs[run] = self.observe(world, eyes),
            ModelAction::Step(run, outcome) => {
                let ReconcilerState::At(at) = world.runs[run].clone() else { return None };
                world.runs[run] = self.step(world, &at, outcome);
            }
            ModelAction::Crash(run) => world.runs[run] = ReconcilerState::Idle,
            ModelAction::Agent(index, deed) => self.agent(world, index, deed),
            ModelAction::Down(index) => {
                let MachineLife::Ending(why, at) = world.machines[index].life else { return None };
                world.machines[index].end(why, at);
            }
            ModelAction::Warn(index) => world.machines[index].warned_at = Some(now),
            ModelAction::Reclaim(index) => world.machines[index].end(MachineEndReason::Reclaimed, now),
            ModelAction::Withhold(index) => world.machines[index].end(MachineEndReason::NotGiven, now),
            ModelAction::Silence(index) => world.machines[index].silence(now),
            ModelAction::BreakTimer(index) => world.machines[index].timer = false,
            ModelAction::Kill(index) => world.machines[index].end(MachineEndReason::User, now),
            ModelAction::Stop(index) => {
                world.machines[index].silence(now);
                world.machines[index].life = MachineLife::Stopped;
            }
            ModelAction::Cancel => world.cancelled = true,
            ModelAction::CloseEarlierMember => world.earlier_members = 0,
            ModelAction::EndDependency(result) => world.dependency = DependencyState::Ended(result),
            ModelAction::Observe(observes) => world.may_act = !observes,
            ModelAction::Advance => jump(world, next_moment(world)?)?,
            ModelAction::Sleep => jump(world, long_after(world)?)?,
        }
        Some(())
    }
}

impl Model for JobModel {
    type State = ModelWorld;
    type Action = ModelAction;

    fn init_states(&self) -> Vec<ModelWorld> {
        let job = if self.bounds.has_deadline { with_deadline() } else { with_retries(self.bounds.retries) };
        let job = if self.bounds.waits { after_others(job) } else { job };
        vec![ModelWorld::new(job, self.bounds.faults, self.bounds.jumps)]
    }

    fn actions(&self, world: &ModelWorld, actions: &mut Vec<ModelAction>) {
        if world.broken.is_some() {
            return;
        }
        self.add_reconciler_actions(world, actions);
        for (index, machine) in world.machines.iter().enumerate() {
            Self::add_machine_actions(world, index, machine, actions);
        }
        if self.bounds.waits && world.dependency == DependencyState::Unfinished {
            actions.extend([JobResult::Succeeded, JobResult::Failed].map(ModelAction::EndDependency));
        }
        if self.bounds.waits && world.earlier_members > 0 {
            actions.push(ModelAction::CloseEarlierMember);
        }
        if world.faults > 0 {
            if !world.cancelled {
                actions.push(ModelAction::Cancel);
            }
            if world.may_act {
                actions.push(ModelAction::Observe(true));
            }
        }
        if !world.may_act {
            actions.push(ModelAction::Observe(false));
        }
        if world.jumps > 0 {
            actions.extend([ModelAction::Advance, ModelAction::Sleep]);
        }
    }

    fn next_state(&self, last: &ModelWorld, action: ModelAction) -> Option<ModelWorld> {
        let mut world = last.clone();
        let was_warned = matches!(action, ModelAction::Reclaim(index) if last.machines[index].warned_at.is_some());
        if action.is_fault(was_warned) {
            world.faults = world.faults.checked_sub(1)?;
        }
        self.happens(&mut world, action)?;
        let runs = std::mem::replace(&mut world.runs, [ReconcilerState::Idle, ReconcilerState::Idle]);
        let reduces = !self.planted.is_some_and(PlantedFault::is_lost_by_reduction);
        world.runs = runs.map(|run| if reduces { run.reduced(&world) } else { run });
        leave_machines(&mut world, last, action);
        // Both are alike.
        if rank(&world.runs[0]) < rank(&world.runs[1]) {
            world.runs.swap(0, 1);
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one attempt is past the fence", |_, world: &ModelWorld| one_past_the_fence(world)),
            Property::always("one machine runs of an attempt", |_, world: &ModelWorld| one_of_an_attempt(world)),
            Property::always("no machine is forgotten", |_, world: &ModelWorld| {
                let mut running = world.machines.iter().filter(|machine| machine.runs());
                running.all(|machine| machine.warned_at.is_some() || world.knows(machine) || world.is_stray(machine))
            }),
            Property::always("who loses the swap of a launch ends its machine", |_, world: &ModelWorld| {
                let mut running = world.machines.iter().filter(|machine| machine.runs());
                running.all(|machine| machine.is_left || world.knows(machine) || is_held(world, machine))
            }),
            Property::always("what is closed has ended", |_, world: &ModelWorld| {
                let runs =
                    |machine: &&ModelMachine| machine.runs() && machine.warned_at.is_none() && !world.is_stray(machine);
                let mut ours = world.machines.iter().filter(runs);
                !world.state.is_closed()
                    || ours.next().is_none() && world.reserved.is_none_or(|reserved| reserved.is_stray)
            }),
            Property::always("only what is closed is off the index", |_, world: &ModelWorld| {
                world.active || world.state.is_closed()
            }),
            Property::always("money is held only for what runs", |explored: &Self, world: &ModelWorld| {
                explored.gives_back(world)
            }),
            Property::always("it succeeded as head says", |_, world: &ModelWorld| succeeded_as_head_says(world)),
            Property::always("what never ran is no attempt without progress", |_, world: &ModelWorld| {
                // AWS terminates what it has warned.
                let gave = |one: &&ModelMachine| {
                    one.warned_at.is_some() || !matches!(one.life, MachineLife::Over(MachineEndReason::NotGiven, _))
                };
                let attempts = world.machines.iter().filter(gave).count();
                usize::try_from(world.state.progress.attempts_without).unwrap() <= attempts
            }),
            Property::always("it computes no longer than it may", |explored: &Self, world: &ModelWorld| {
                // A machine on demand and its replacement on Spot run side by side until a reconciler runs.
                let alone = |one: &ModelMachine| one.order.ends_at.duration_since(one.launched_at) <= RUNTIME_MAX;
                if explored.bounds.has_deadline {
                    world.machines.iter().all(alone)
                } else {
                    world.computed() <= RUNTIME_MAX
                }
            }),
            Property::always("it comes to an end", |explored: &Self, world: &ModelWorld| explored.ends(world)),
            Property::sometimes("an attempt follows a warning", |_, world: &ModelWorld| {
                world.begun.0 > 1 && world.state.attempt > 1
            }),
            Property::sometimes("it succeeds", |_, world: &ModelWorld| ended(world) == Some(JobResult::Succeeded)),
            Property::sometimes("it is closed", |_, world: &ModelWorld| !world.active),
        ];
        if self.bounds.has_deadline && self.bounds.jumps > 0 {
            properties.push(Property::sometimes("its deadline takes it from Spot", |_, world: &ModelWorld| {
                world.state.lost == Some(LossReason::Deadline)
            }));
        }
        if self.bounds.retries > 0 {
            properties.extend(retry_properties());
        }
        if self.bounds.waits {
            properties.extend(dependency_properties());
        }
        properties.extend(BROKEN.map(|(name, condition)| Property::always(name, condition)));
        properties
    }
}

/// No reconciler has the answer of a machine that no state names.
fn leave_machines(world: &mut ModelWorld, last: &ModelWorld, action: ModelAction) {
    let is_excused = match action {
        ModelAction::Crash(_) | ModelAction::Advance | ModelAction::Sleep => true,
        ModelAction::Step(_, outcome) => outcome == EffectOutcome::AnswerLost || !last.may_act,
        _ => false,
    };
    let left = |machine: &ModelMachine| {
        let is_safe = !machine.runs() || world.names(machine) || is_held(world, machine);
        !is_safe && (machine.is_left || is_excused)
    };
    let left: Vec<bool> = world.machines.iter().map(left).collect();
    for (machine, is_left) in world.machines.iter_mut().zip(left) {
        machine.is_left = is_left;
    }
}

/// Whether its launcher ends it if no state takes it.
fn is_held(world: &ModelWorld, machine: &ModelMachine) -> bool {
    world.runs.iter().any(|run| run.unrecorded_machine() == Some(machine.id()))
}

type Condition = fn(&JobModel, &ModelWorld) -> bool;

const BROKEN: [(&str, Condition); 8] = [
    ("a token has one set of parameters", |_, world| world.broken != Some(BrokenInvariant::TokenReused)),
    ("what a fenced attempt writes does not count", |_, world| world.broken != Some(BrokenInvariant::FencedWrote)),
    ("money is reserved before it is spent", |_, world| world.broken != Some(BrokenInvariant::Unreserved)),
    ("a machine without heartbeats is terminated before it is replaced", |_, world| {
        world.broken != Some(BrokenInvariant::ReplacedTooSoon)
    }),
    ("nothing is launched or ended while it observes", |_, world| world.broken != Some(BrokenInvariant::Acted)),
    ("an end is for ever", |_, world| world.broken != Some(BrokenInvariant::EndTakenBack)),
    ("attempts count upwards", |_, world| world.broken != Some(BrokenInvariant::AttemptFell)),
    ("one effect of a round has an answer", |_, world| world.broken != Some(BrokenInvariant::TwoAnswers)),
];

/// Moves the clock, and ends each reconciler that has run longer than Lambda allows.
fn jump(world: &mut ModelWorld, to: Timestamp) -> Option<()> {
    world.jumps = world.jumps.checked_sub(1)?;
    if to.duration_since(world.now) > INVOCATION_MAX {
        world.runs = [ReconcilerState::Idle, ReconcilerState::Idle];
    }
    advance(world, to);
    Some(())
}

fn one_past_the_fence(world: &ModelWorld) -> bool {
    let Some(head) = &world.head else { return true };
    let may_write = |machine: &&ModelMachine| {
        let is_past = matches!(machine.agent, AgentState::Past(_));
        machine.lives() && is_past && head.attempt == machine.order.attempt && head.launch == machine.order.token
    };
    world.machines.iter().filter(may_write).count() <= 1
}

/// Without strays, which the fence tells apart.
fn one_of_an_attempt(world: &ModelWorld) -> bool {
    let ours = world.machines.iter().filter(|machine| machine.runs() && !world.is_stray(machine));
    let attempts: Vec<u32> = ours.map(|machine| machine.order.attempt).collect();
    attempts.iter().collect::<HashSet<_>>().len() == attempts.len()
}

fn succeeded_as_head_says(world: &ModelWorld) -> bool {
    let result = world.head.as_ref().and_then(|head| head.result.as_ref());
    ended(world) != Some(JobResult::Succeeded) || matches!(result, Some(HeadResult { succeeded: true, .. }))
}

pub(crate) fn ended(world: &ModelWorld) -> Option<JobResult> {
    let Phase::Ended(ended) = &world.state.phase else { return None };
    Some(ended.result)
}

fn rank(run: &ReconcilerState) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    if *run == ReconcilerState::Idle {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    hasher.finish()
}
