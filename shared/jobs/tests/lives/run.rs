//! A reconciler, step by step: the product's own loop, with any event between any two steps.

use jiff::Timestamp;
use jobs::{
    CancelRequest, DependencyState, Effect, EffectResult, ExitRecord, Job, JobFacts, JobMachine, JobResult,
    LaunchObstacle, MachineSight, PendingDecision, PendingWrite, Phase, Reconciliation, ReserveResult,
};
use model::id::ResourceId;
use model::money::Amount;

use crate::ec2::{found, sight, terminate};
use crate::explore::JobModel;
use crate::job::{self, NO_PROGRESS_ATTEMPTS_MAX};
use crate::planted_fault::PlantedFault;
use crate::world::{BrokenInvariant, LaunchOrder, ModelReservation, ModelWorld, SharedValue};

/// With which eyes a reconciler looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObservationQuality {
    /// It sees what there is.
    Open,
    /// It was woken by a warning of that machine, the first, a second or a late one.
    Warned(u8),
    /// EC2's answers lag behind.
    Late,
    /// Nothing of what it wants can be had.
    Blind,
}

impl ObservationQuality {
    const fn warned(self) -> Option<u8> {
        match self {
            Self::Warned(number) => Some(number),
            Self::Open | Self::Late | Self::Blind => None,
        }
    }
}

/// Where a reconciler stands, in the product's own loop. It can crash, or stand still for any time, at each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReconcilerState {
    Idle,
    At(SharedValue<Reconciliation<SharedValue<Job>>>),
}

/// What comes of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EffectOutcome {
    /// The intended effect.
    Done,
    /// It was done, and the answer was lost.
    AnswerLost,
    /// It never arrived, which is unknown.
    Lost,
    /// There is no capacity; there is no money; it is not to be had now.
    Refused,
    /// Of a launch: a quota.
    Quota,
    /// Of a launch: not with these permissions.
    Denied,
}

/// The possible outcomes of an effect, except for [`EffectOutcome::Done`].
pub(crate) const fn other_outcomes(effect: &Effect) -> &'static [EffectOutcome] {
    match effect {
        Effect::Rank | Effect::Terminate(_) | Effect::Release(_) => &[EffectOutcome::Refused],
        Effect::Reserve { .. } => &[EffectOutcome::Refused, EffectOutcome::AnswerLost, EffectOutcome::Lost],
        Effect::Launch(launch) if launch.only_find => &[EffectOutcome::Lost],
        Effect::Launch(_) => &[
            EffectOutcome::AnswerLost,
            EffectOutcome::Lost,
            EffectOutcome::Refused,
            EffectOutcome::Quota,
            EffectOutcome::Denied,
        ],
        // No job of the model is on several machines, so none has a group.
        Effect::Forget | Effect::Settle(_) | Effect::Record(_) | Effect::MakeGroup(_) | Effect::DeleteGroup(_) => &[],
    }
}

/// Whether it does nothing in this world.
const fn is_unseen(effect: &Effect) -> bool {
    matches!(effect, Effect::Settle(_) | Effect::Record(_))
}

const fn acts(effect: &Effect) -> bool {
    matches!(effect, Effect::Launch(_) | Effect::Terminate(_))
}

impl ReconcilerState {
    /// What the product's loop does next; what does nothing in this world is done with.
    fn from_next(mut next: Reconciliation<SharedValue<Job>>) -> Self {
        loop {
            next = match next {
                Reconciliation::CarryOut(effect, owed) if is_unseen(&effect) => owed.carried_out(None),
                Reconciliation::Done(_) | Reconciliation::Lost => return Self::Idle,
                other => return Self::At(SharedValue::new(other)),
            }
        }
    }

    /// The machine that it has launched, and ends if no state takes it.
    pub(crate) fn unrecorded_machine(&self) -> Option<ResourceId> {
        let Self::At(at) = self else { return None };
        match &**at {
            Reconciliation::Write(decided) => Self::from_next(decided.clone().lost()).unrecorded_machine(),
            Reconciliation::ReadAgain(launched) => Some(launched.machine().instance.clone()),
            Reconciliation::Terminate(machine, _) => Some(machine.instance.clone()),
            _ => None,
        }
    }

    /// The rest to explore. A reconciler that will lose its swap does so now, and an effect without consequences, whose result it could not write,
    /// counts as not done. A state that becomes what it was before is not explored in this.
    pub(crate) fn reduced(self, world: &ModelWorld) -> Self {
        let Self::At(at) = &self else { return self };
        match &**at {
            Reconciliation::Write(decided) if *decided.read() != world.state => {
                Self::from_next(decided.clone().lost()).reduced(world)
            }
            Reconciliation::CarryOut(effect, owed) if *owed.job() != world.state && is_idle(effect, world) => {
                match Self::from_next(owed.clone().carried_out(None)) {
                    Self::At(next) if matches!(*next, Reconciliation::CarryOut(..)) => Self::At(next).reduced(world),
                    _ => Self::Idle,
                }
            }
            // What the state names, it names until it is gone; what it rejects, for good.
            Reconciliation::ReadAgain(launched) if is_named_or_ended(&launched.machine().instance, world) => Self::Idle,
            Reconciliation::ReadAgain(launched) => {
                match Self::from_next(launched.clone().compare(Some(world.state.clone()))) {
                    Self::Idle => self,
                    ends @ Self::At(_) => ends,
                }
            }
            Reconciliation::Terminate(machine, _) if is_ended(&machine.instance, world) => Self::Idle,
            // Which state rejects it makes no difference.
            Reconciliation::Terminate(machine, _) => {
                Self::from_next(Reconciliation::Terminate(machine.clone(), world.state.clone()))
            }
            _ => self,
        }
    }
}

/// Whether an effect changes nothing, now or ever, when the state is no longer what it was.
fn is_idle(effect: &Effect, world: &ModelWorld) -> bool {
    match effect {
        Effect::Launch(launch) => {
            launch.only_find || world.machines.iter().any(|machine| *machine.order == LaunchOrder::from(launch))
        }
        Effect::Terminate(placed) => is_ended(&placed.instance, world),
        // What is reserved too late is forgotten at its end.
        Effect::Reserve { .. } => world.state.phase != Phase::Reserving,
        Effect::Release(number) => world.reserved.is_none_or(|reserved| reserved.number > *number),
        Effect::Forget => !world.active,
        Effect::Rank | Effect::Settle(_) | Effect::Record(_) | Effect::MakeGroup(_) | Effect::DeleteGroup(_) => true,
    }
}

fn is_named_or_ended(instance: &ResourceId, world: &ModelWorld) -> bool {
    let mut named = world.state.machine().into_iter().chain(&world.state.previous_attempt);
    named.any(|machine| machine.instance == *instance) || is_ended(instance, world)
}

fn is_ended(instance: &ResourceId, world: &ModelWorld) -> bool {
    world.machines.iter().any(|machine| machine.id() == *instance && !machine.is_there())
}

impl JobModel {
    /// Reads the state and the facts that it wants, and decides. `blind`: none of them can be had.
    pub(crate) fn observe(&self, world: &mut ModelWorld, eyes: ObservationQuality) -> ReconcilerState {
        let warned = eyes.warned().map(|number| ResourceId::new(format!("i-{number}")));
        let Reconciliation::Observe(decision) = Reconciliation::begin(world.state.clone(), warned) else {
            return ReconcilerState::Idle;
        };
        let run = self.decide(world, decision, eyes);
        let owes = matches!(&run, ReconcilerState::At(at) if matches!(**at, Reconciliation::CarryOut(..)));
        // Planted: what was once written is never done again.
        if owes && self.planted == Some(PlantedFault::EffectsOnce) { ReconcilerState::Idle } else { run }
    }

    /// Does the step that it stands at. An observation follows at once: nothing happens between the answer and it that could not happen
    /// after it.
    pub(crate) fn step(
        &self,
        world: &mut ModelWorld,
        at: &Reconciliation<SharedValue<Job>>,
        outcome: EffectOutcome,
    ) -> ReconcilerState {
        let next = match at.clone() {
            Reconciliation::Write(decided) => self.write(world, decided),
            Reconciliation::CarryOut(effect, owed) => {
                let answer = self.effect(world, &effect, outcome);
                owed.carried_out(answer)
            }
            Reconciliation::ReadAgain(launched) => launched.compare(Some(world.state.clone())),
            Reconciliation::Terminate(machine, _) => {
                if outcome == EffectOutcome::Done {
                    terminate(world, &machine.instance);
                }
                Reconciliation::Lost
            }
            other => other,
        };
        match ReconcilerState::from_next(next) {
            ReconcilerState::At(next) => match (*next).clone() {
                Reconciliation::Observe(decision) => self.decide(world, decision, ObservationQuality::Open),
                _ => ReconcilerState::At(next),
            },
            ReconcilerState::Idle => ReconcilerState::Idle,
        }
    }

    /// Writes over the version that was read. A reconciler that loses carries nothing out.
    fn write(
        &self,
        world: &mut ModelWorld,
        decided: PendingWrite<SharedValue<Job>>,
    ) -> Reconciliation<SharedValue<Job>> {
        if world.state == *decided.read() || self.planted == Some(PlantedFault::SwapIgnored) {
            check_step(world, decided.job());
            world.state = decided.job().clone();
            return decided.written();
        }
        match self.planted {
            Some(PlantedFault::LoserKeepsWriting) => decided.written(),
            Some(PlantedFault::LoserLeaves) => Reconciliation::Lost,
            _ => decided.lost(),
        }
    }

    fn effect(&self, world: &mut ModelWorld, effect: &Effect, outcome: EffectOutcome) -> Option<EffectResult> {
        let message = || "as the world has it".to_owned();
        match (effect, outcome) {
            (Effect::Rank, EffectOutcome::Done) => Some(EffectResult::Ranked(Ok(job::ranking(world.now)))),
            (Effect::Rank, _) => Some(EffectResult::Ranked(Err(LaunchObstacle::new("so")))),
            (Effect::Reserve { number, usd, until }, outcome) => {
                if world.reserved.is_some_and(|there| there.number > *number) {
                    return Some(EffectResult::Reserved(ReserveResult::Overtaken));
                }
                if matches!(outcome, EffectOutcome::Done | EffectOutcome::AnswerLost) {
                    reserve(world, *number, *usd, *until);
                }
                Some(EffectResult::Reserved(match outcome {
                    EffectOutcome::Done => ReserveResult::Granted,
                    EffectOutcome::AnswerLost | EffectOutcome::Lost => ReserveResult::Unknown(message()),
                    _ => ReserveResult::Refused(message()),
                }))
            }
            (Effect::Launch(launch), outcome) => {
                let order = SharedValue::new(LaunchOrder::from(launch));
                Some(EffectResult::Launched(if launch.only_find {
                    found(world, &order, outcome)
                } else {
                    self.launch(world, &order, outcome)
                }))
            }
            (Effect::Terminate(placed), EffectOutcome::Done) => {
                terminate(world, &placed.instance);
                Some(EffectResult::Terminated)
            }
            (Effect::Terminate(_), _) => Some(EffectResult::Terminated),
            (Effect::Release(number), EffectOutcome::Done) => {
                let is_later = |reserved: &ModelReservation| reserved.number > *number;
                world.reserved = match self.planted {
                    Some(PlantedFault::ReleaseForgotten) => world.reserved,
                    Some(PlantedFault::ReleaseUnnumbered) => None,
                    _ => world.reserved.filter(is_later),
                };
                Some(EffectResult::Released(true))
            }
            (Effect::Release(_), _) => Some(EffectResult::Released(false)),
            (Effect::Forget, _) => {
                world.active = false;
                None
            }
            (Effect::MakeGroup(_) | Effect::DeleteGroup(_), _) => Some(EffectResult::GroupUnchanged),
            (Effect::Settle(_) | Effect::Record(_), _) => None,
        }
    }

    fn decide(
        &self,
        world: &mut ModelWorld,
        decision: PendingDecision<SharedValue<Job>>,
        eyes: ObservationQuality,
    ) -> ReconcilerState {
        let mut facts = if eyes == ObservationQuality::Blind { blind(world) } else { facts(world, &decision, eyes) };
        if self.planted == Some(PlantedFault::SuccessImagined) {
            facts.dependencies.values_mut().for_each(|state| *state = DependencyState::Ended(JobResult::Succeeded));
        }
        if self.planted == Some(PlantedFault::TurnImagined) {
            facts.earlier_members = facts.earlier_members.map(|_| 0);
        }
        if self.planted == Some(PlantedFault::HeartbeatImagined) {
            facts.heartbeat = facts.heartbeat.map(|beat| beat.or(Some(world.now)));
        }
        let may_act = facts.may_act;
        let next = decision.decide(facts, world.now);
        let effects: Vec<&Effect> = match &next {
            Reconciliation::Write(decided) => decided.effects().iter().collect(),
            Reconciliation::CarryOut(effect, owed) => std::iter::once(effect).chain(owed.effects()).collect(),
            _ => Vec::new(),
        };
        if !may_act && effects.iter().any(|effect| acts(effect)) {
            world.breaks(BrokenInvariant::Acted);
        }
        if effects.iter().filter(|effect| !is_unseen(effect) && ***effect != Effect::Forget).count() > 1 {
            world.breaks(BrokenInvariant::TwoAnswers);
        }
        ReconcilerState::from_next(next)
    }
}

fn blind(world: &ModelWorld) -> JobFacts {
    JobFacts { may_act: world.may_act, no_progress_attempts_max: NO_PROGRESS_ATTEMPTS_MAX, ..JobFacts::default() }
}

fn facts(world: &ModelWorld, decision: &PendingDecision<SharedValue<Job>>, eyes: ObservationQuality) -> JobFacts {
    let (job, needed) = (decision.job(), decision.needed_facts(world.now));
    let sight = |wanted: bool, placed: Option<&JobMachine>| match placed {
        Some(placed) if wanted => sight(world, &placed.instance, eyes == ObservationQuality::Late),
        _ => MachineSight::Unknown,
    };
    let attempt_machines = || world.machines.iter().filter(|machine| machine.order.attempt == job.machine_attempt());
    let beat_at = || attempt_machines().filter_map(|machine| machine.last_heartbeat(world.now)).max();
    let exit = || {
        let exits = attempt_machines().filter_map(|machine| Some((machine.over_at()?, machine.exit?)));
        let last = exits.max_by_key(|(at, _)| *at);
        last.map(|(at, reason)| ExitRecord {
            attempt: job.machine_attempt(),
            at,
            reason,
            code: None,
            why: String::new(),
            is_final: world.head.iter().any(|head| {
                head.attempt == job.machine_attempt() && head.result.as_ref().is_some_and(|result| result.is_final)
            }),
        })
    };
    JobFacts {
        machine: sight(needed.machine, job.machine()),
        previous_attempt: sight(needed.previous_attempt, job.previous_attempt.as_ref()),
        head: needed.head.then(|| world.head.clone()),
        heartbeat: needed.heartbeat.then(beat_at),
        exit: needed.exit.then(exit),
        dependencies: job.waits_for.iter().map(|name| (name.clone(), world.dependency)).collect(),
        earlier_members: needed.earlier_members.then_some(world.earlier_members),
        cancel: needed.cancel.then(|| world.cancelled.then(|| CancelRequest { at: job::begin(), by: None })),
        ..blind(world)
    }
}

fn reserve(world: &mut ModelWorld, number: u32, usd: Amount, until: Timestamp) {
    let wanted = world.state.reserved.filter(|_| world.state.phase == Phase::Reserving);
    let is_stray = wanted.is_none_or(|wanted| wanted.number != number);
    world.reserved = Some(ModelReservation { number, usd, until, is_stray });
}

/// What a new state may not claim after the previous one.
fn check_step(world: &mut ModelWorld, then: &Job) {
    if then.attempt < world.state.attempt {
        world.breaks(BrokenInvariant::AttemptFell);
    }
    let Phase::Ended(before) = &world.state.phase else { return };
    if !matches!(&then.phase, Phase::Ended(after) if after.result == before.result && after.closed >= before.closed) {
        world.breaks(BrokenInvariant::EndTakenBack);
    }
}
