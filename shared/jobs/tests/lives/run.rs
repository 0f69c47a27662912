//! Whoever reconciles, step by step: the loop of `execution`, in which anything may happen between any two steps.

use std::hash::{Hash, Hasher};

use jiff::Timestamp;
use jobs::{
    CancelRequest, Effect, EffectResult, ExitRecord, Job, JobFacts, JobMachine, LaunchRequest, MachineSight, Phase,
    ReserveResult, next, wants,
};
use model::id::ResourceId;
use model::money::Amount;

use crate::ec2::{found, sight, terminate};
use crate::explore::{JobModel, PlantedFault};
use crate::job::{self, NO_PROGRESS_ATTEMPTS_MAX};
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

/// Where a reconciler stands. It can crash, or stand still for any time, at each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ReconcilerState {
    Idle,
    /// It knows what to write over what it read.
    Decided(SharedValue<PendingDecision>),
    /// It has written, and owes effects.
    Owes(SharedValue<PendingEffects>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PendingDecision {
    read: SharedValue<Job>,
    job: SharedValue<Job>,
    pub(crate) effects: Vec<ModelEffect>,
    warned: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PendingEffects {
    job: SharedValue<Job>,
    pub(crate) effects: Vec<ModelEffect>,
    /// Of one that is already carried out.
    answer: Option<CachedResult>,
    warned: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CachedResult(EffectResult);

impl Hash for CachedResult {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        format!("{:?}", self.0).hash(hasher);
    }
}

/// An effect that does something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ModelEffect {
    Rank,
    Reserve(Amount, Timestamp),
    Launch(SharedValue<LaunchOrder>),
    /// Looks for what was launched by that order.
    Find(SharedValue<LaunchOrder>),
    Terminate(JobMachine),
    Release,
    Forget,
}

/// What comes of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EffectOutcome {
    /// What it is meant to.
    Done,
    /// It was done, and the answer was lost.
    Unheard,
    /// It never got there, and nobody knows.
    Lost,
    /// There is no capacity; there is no money; it is not to be had now.
    Refused,
    /// Of a launch: a quota.
    Quota,
    /// Of a launch: not with these permissions.
    Denied,
}

impl ModelEffect {
    fn from_effect(effect: Effect) -> Option<Self> {
        match effect {
            Effect::Rank => Some(Self::Rank),
            Effect::Reserve { usd, until } => Some(Self::Reserve(usd, until)),
            Effect::Launch(launch) if launch.only_find => {
                Some(Self::Find(SharedValue::new(LaunchOrder::from(&launch as &LaunchRequest))))
            }
            Effect::Launch(launch) => {
                Some(Self::Launch(SharedValue::new(LaunchOrder::from(&launch as &LaunchRequest))))
            }
            Effect::Terminate(placed) => Some(Self::Terminate(placed)),
            Effect::Release => Some(Self::Release),
            Effect::Forget => Some(Self::Forget),
            Effect::Settle(_) | Effect::Record(_) => None,
        }
    }

    /// What may come of it, but for [`EffectOutcome::Done`].
    pub(crate) const fn otherwise(&self) -> &'static [EffectOutcome] {
        match self {
            Self::Rank | Self::Terminate(_) | Self::Release => &[EffectOutcome::Refused],
            Self::Reserve(..) => &[EffectOutcome::Refused, EffectOutcome::Unheard, EffectOutcome::Lost],
            Self::Launch(_) => &[
                EffectOutcome::Unheard,
                EffectOutcome::Lost,
                EffectOutcome::Refused,
                EffectOutcome::Quota,
                EffectOutcome::Denied,
            ],
            Self::Find(_) => &[EffectOutcome::Lost],
            Self::Forget => &[],
        }
    }

    const fn acts(&self) -> bool {
        matches!(self, Self::Launch(_) | Self::Terminate(_))
    }
}

impl ReconcilerState {
    /// What it does next, where it owes something.
    pub(crate) fn owes(&self) -> Option<&ModelEffect> {
        match self {
            Self::Owes(owed) => owed.effects.first(),
            Self::Idle | Self::Decided(_) => None,
        }
    }
}

impl ReconcilerState {
    /// What is left of it to explore. Whoever will lose its swap does nothing more, and what it owes that changes nothing, and whose answer
    /// it could not write, is as if it were not done. A state that becomes what it was before is not explored in this.
    pub(crate) fn reduced(self, world: &ModelWorld) -> Self {
        match self {
            Self::Decided(decision) if decision.read != world.state => Self::Idle,
            Self::Owes(owed) if owed.job != world.state => {
                let idle = owed.effects.iter().take_while(|effect| effect.is_idle(world)).count();
                if idle == 0 {
                    return Self::Owes(owed);
                }
                let effects = owed.effects[idle..].to_vec();
                if effects.is_empty() {
                    return Self::Idle;
                }
                Self::Owes(SharedValue::new(PendingEffects {
                    job: owed.job.clone(),
                    effects,
                    answer: None,
                    warned: owed.warned,
                }))
            }
            other => other,
        }
    }
}

impl ModelEffect {
    /// Whether it changes nothing, now or ever, when the state is no longer what it was.
    fn is_idle(&self, world: &ModelWorld) -> bool {
        match self {
            Self::Rank | Self::Find(_) => true,
            Self::Launch(order) => world.machines.iter().any(|machine| machine.order == *order),
            Self::Terminate(placed) => {
                world.machines.iter().any(|machine| machine.id() == placed.instance && !machine.is_there())
            }
            // What is reserved too late is forgotten at its end.
            Self::Reserve(..) => world.state.phase != Phase::Reserving,
            Self::Release => world.reserved.is_none(),
            Self::Forget => !world.active,
        }
    }
}

impl JobModel {
    /// Reads the state and the facts that it wants, and decides. `blind`: none of them can be had.
    pub(crate) fn observe(&self, world: &mut ModelWorld, eyes: ObservationQuality) -> ReconcilerState {
        let job = world.state.clone();
        let run = self.decide(world, &job, None, eyes);
        match &run {
            // Planted: what was once written is never done again.
            ReconcilerState::Owes(_) if self.planted == Some(PlantedFault::EffectsOnce) => ReconcilerState::Idle,
            _ => run,
        }
    }

    /// Writes over the version that was read. Whoever loses stops.
    pub(crate) fn write(&self, world: &mut ModelWorld, decision: &PendingDecision) -> ReconcilerState {
        let wins = world.state == decision.read || self.planted == Some(PlantedFault::SwapIgnored);
        let job = decision.job.clone();
        if wins {
            check_step(world, &decision.job);
            world.state = job.clone();
        } else if self.planted != Some(PlantedFault::LoserGoesOn) {
            return ReconcilerState::Idle;
        }
        let effects = decision.effects.clone();
        if effects.is_empty() {
            return ReconcilerState::Idle;
        }
        ReconcilerState::Owes(SharedValue::new(PendingEffects { job, effects, answer: None, warned: decision.warned }))
    }

    /// Carries out the first effect that it owes. After the last it goes on with the answer, where there is one.
    pub(crate) fn carry_out(
        &self,
        world: &mut ModelWorld,
        owed: &PendingEffects,
        outcome: EffectOutcome,
    ) -> ReconcilerState {
        let Some((first, rest)) = owed.effects.split_first() else { return ReconcilerState::Idle };
        let answer = self.effect(world, first, outcome).map(CachedResult).or_else(|| owed.answer.clone());
        if !rest.is_empty() {
            let (job, effects, warned) = (owed.job.clone(), rest.to_vec(), owed.warned);
            return ReconcilerState::Owes(SharedValue::new(PendingEffects { job, effects, answer, warned }));
        }
        match answer {
            Some(CachedResult(answer)) => self.decide(
                world,
                &owed.job,
                Some(answer),
                owed.warned.map_or(ObservationQuality::Open, ObservationQuality::Warned),
            ),
            None => ReconcilerState::Idle,
        }
    }

    fn effect(&self, world: &mut ModelWorld, effect: &ModelEffect, outcome: EffectOutcome) -> Option<EffectResult> {
        let said = || "as the world has it".to_owned();
        match (effect, outcome) {
            (ModelEffect::Rank, EffectOutcome::Done) => Some(EffectResult::Ranked(Ok(job::ranking(world.now)))),
            (ModelEffect::Rank, _) => Some(EffectResult::Ranked(Err(said()))),
            (ModelEffect::Reserve(usd, until), EffectOutcome::Done) => {
                reserve(world, *usd, *until);
                Some(EffectResult::Reserved(ReserveResult::Granted))
            }
            (ModelEffect::Reserve(usd, until), EffectOutcome::Unheard) => {
                reserve(world, *usd, *until);
                Some(EffectResult::Reserved(ReserveResult::Unknown(said())))
            }
            (ModelEffect::Reserve(..), EffectOutcome::Lost) => {
                Some(EffectResult::Reserved(ReserveResult::Unknown(said())))
            }
            (ModelEffect::Reserve(..), _) => Some(EffectResult::Reserved(ReserveResult::Refused(said()))),
            (ModelEffect::Find(order), outcome) => Some(EffectResult::Launched(found(world, order, outcome))),
            (ModelEffect::Launch(order), outcome) => Some(EffectResult::Launched(self.launch(world, order, outcome))),
            (ModelEffect::Terminate(placed), EffectOutcome::Done) => {
                terminate(world, &placed.instance);
                Some(EffectResult::Terminated(Ok(())))
            }
            (ModelEffect::Terminate(_), _) => Some(EffectResult::Terminated(Err(said()))),
            (ModelEffect::Release, EffectOutcome::Done) => {
                world.reserved = None;
                Some(EffectResult::Released(Ok(())))
            }
            (ModelEffect::Release, _) => Some(EffectResult::Released(Err(said()))),
            (ModelEffect::Forget, _) => {
                world.active = false;
                None
            }
        }
    }

    fn decide(
        &self,
        world: &mut ModelWorld,
        job: &SharedValue<Job>,
        answer: Option<EffectResult>,
        eyes: ObservationQuality,
    ) -> ReconcilerState {
        let mut facts =
            if eyes == ObservationQuality::Blind { blind(world, answer) } else { facts(world, job, answer, eyes) };
        if self.planted == Some(PlantedFault::HeartImagined) {
            facts.heartbeat = facts.heartbeat.map(|beat| beat.or(Some(world.now)));
        }
        let warned = eyes.warned();
        let (then, effects) = next(job, &facts, world.now);
        let effects: Vec<ModelEffect> = effects.into_iter().filter_map(ModelEffect::from_effect).collect();
        if !facts.may_act && effects.iter().any(ModelEffect::acts) {
            world.breaks(BrokenInvariant::Acted);
        }
        if effects.iter().filter(|effect| **effect != ModelEffect::Forget).count() > 1 {
            world.breaks(BrokenInvariant::TwoAnswers);
        }
        if then == **job {
            return if effects.is_empty() {
                ReconcilerState::Idle
            } else {
                ReconcilerState::Owes(SharedValue::new(PendingEffects {
                    job: job.clone(),
                    effects,
                    answer: None,
                    warned,
                }))
            };
        }
        ReconcilerState::Decided(SharedValue::new(PendingDecision {
            read: job.clone(),
            job: SharedValue::new(then),
            effects,
            warned,
        }))
    }
}

fn blind(world: &ModelWorld, answer: Option<EffectResult>) -> JobFacts {
    JobFacts {
        may_act: world.may_act,
        no_progress_attempts_max: NO_PROGRESS_ATTEMPTS_MAX,
        answer,
        ..JobFacts::default()
    }
}

fn facts(world: &ModelWorld, job: &Job, answer: Option<EffectResult>, eyes: ObservationQuality) -> JobFacts {
    let wants = wants(job, eyes.warned().is_some(), world.now);
    let sight = |wanted: bool, placed: Option<&JobMachine>| match placed {
        Some(placed) if wanted => sight(world, &placed.instance, eyes == ObservationQuality::Late),
        _ => MachineSight::Unknown,
    };
    let of_attempt = || world.machines.iter().filter(|machine| machine.order.attempt == job.attempt);
    let heart = || of_attempt().filter_map(|machine| machine.heart(world.now)).max();
    let exit = || {
        let exits = of_attempt().filter_map(|machine| Some((machine.over_at()?, machine.exit?)));
        let last = exits.max_by_key(|(at, _)| *at);
        last.map(|(at, reason)| ExitRecord { attempt: job.attempt, at, reason, code: None, why: String::new() })
    };
    JobFacts {
        warned: eyes.warned().map(|number| ResourceId::new(format!("i-{number}"))),
        machine: sight(wants.machine, job.machine()),
        previous_attempt: sight(wants.previous_attempt, job.previous_attempt.as_ref()),
        head: wants.head.then(|| world.head.clone()),
        heartbeat: wants.heartbeat.then(heart),
        exit: wants.exit.then(exit),
        cancel: wants.cancel.then(|| world.cancelled.then(|| CancelRequest { at: job::begin(), by: None })),
        ..blind(world, answer)
    }
}

fn reserve(world: &mut ModelWorld, usd: Amount, until: Timestamp) {
    let wanted = world.state.reserved.filter(|_| world.state.phase == Phase::Reserving);
    let is_stray = wanted.is_none_or(|wanted| (wanted.usd, wanted.until) != (usd, until));
    world.reserved = Some(ModelReservation { usd, until, is_stray });
}

/// What a new state may not say of the one before.
fn check_step(world: &mut ModelWorld, then: &Job) {
    if then.attempt < world.state.attempt {
        world.breaks(BrokenInvariant::AttemptFell);
    }
    let Phase::Ended(before) = &world.state.phase else { return };
    if !matches!(&then.phase, Phase::Ended(after) if after.result == before.result && after.closed >= before.closed) {
        world.breaks(BrokenInvariant::EndTakenBack);
    }
}
