//! Whoever reconciles, step by step: the loop of `execution`, in which anything may happen between any two steps.

use std::hash::{Hash, Hasher};

use domain::id::ResourceId;
use domain::job::{Answer, Cancel, Effect, Exit, Facts, Job, Launch, Phase, Placed, ReserveAnswer, Sight, next, wants};
use domain::money::Amount;
use jiff::Timestamp;

use crate::ec2::{found, sight, terminate};
use crate::explore::{Explored, Planted};
use crate::job::{self, NO_PROGRESS_ATTEMPTS_MAX};
use crate::world::{Broken, Kept, Order, Reserved, World};

/// With which eyes a reconciler looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eyes {
    /// It sees what there is.
    Open,
    /// It was woken by a warning of that machine, the first, a second or a late one.
    Warned(u8),
    /// EC2's answers lag behind.
    Late,
    /// Nothing of what it wants can be had.
    Blind,
}

impl Eyes {
    const fn warned(self) -> Option<u8> {
        match self {
            Self::Warned(number) => Some(number),
            Self::Open | Self::Late | Self::Blind => None,
        }
    }
}

/// Where a reconciler stands. It can crash, or stand still for any time, at each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Run {
    Idle,
    /// It knows what to write over what it read.
    Decided(Kept<Decision>),
    /// It has written, and owes effects.
    Owes(Kept<Owed>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Decision {
    read: Kept<Job>,
    job: Kept<Job>,
    pub(crate) effects: Vec<Do>,
    warned: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owed {
    job: Kept<Job>,
    pub(crate) effects: Vec<Do>,
    /// Of one that is already carried out.
    answer: Option<Said>,
    warned: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Said(Answer);

impl Hash for Said {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        format!("{:?}", self.0).hash(hasher);
    }
}

/// An effect that does something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Do {
    Rank,
    Reserve(Amount, Timestamp),
    Launch(Kept<Order>),
    /// Looks for what was launched by that order.
    Find(Kept<Order>),
    Terminate(Placed),
    Release,
    Forget,
}

/// What comes of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
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

impl Do {
    fn of(effect: Effect) -> Option<Self> {
        match effect {
            Effect::Rank => Some(Self::Rank),
            Effect::Reserve { usd, until } => Some(Self::Reserve(usd, until)),
            Effect::Launch(launch) if launch.only_find => Some(Self::Find(Kept::new(Order::from(&launch as &Launch)))),
            Effect::Launch(launch) => Some(Self::Launch(Kept::new(Order::from(&launch as &Launch)))),
            Effect::Terminate(placed) => Some(Self::Terminate(placed)),
            Effect::Release => Some(Self::Release),
            Effect::Forget => Some(Self::Forget),
            Effect::Settle(_) | Effect::Note(_) => None,
        }
    }

    /// What may come of it, but for [`Outcome::Done`].
    pub(crate) const fn otherwise(&self) -> &'static [Outcome] {
        match self {
            Self::Rank | Self::Terminate(_) | Self::Release => &[Outcome::Refused],
            Self::Reserve(..) => &[Outcome::Refused, Outcome::Unheard, Outcome::Lost],
            Self::Launch(_) => &[Outcome::Unheard, Outcome::Lost, Outcome::Refused, Outcome::Quota, Outcome::Denied],
            Self::Find(_) => &[Outcome::Lost],
            Self::Forget => &[],
        }
    }

    const fn acts(&self) -> bool {
        matches!(self, Self::Launch(_) | Self::Terminate(_))
    }
}

impl Run {
    /// What it does next, where it owes something.
    pub(crate) fn owes(&self) -> Option<&Do> {
        match self {
            Self::Owes(owed) => owed.effects.first(),
            Self::Idle | Self::Decided(_) => None,
        }
    }
}

impl Run {
    /// What is left of it to explore. Whoever will lose its swap does nothing more, and what it owes that changes nothing, and whose answer
    /// it could not write, is as if it were not done. A state that becomes what it was before is not explored in this.
    pub(crate) fn reduced(self, world: &World) -> Self {
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
                Self::Owes(Kept::new(Owed { job: owed.job.clone(), effects, answer: None, warned: owed.warned }))
            }
            other => other,
        }
    }
}

impl Do {
    /// Whether it changes nothing, now or ever, when the state is no longer what it was.
    fn is_idle(&self, world: &World) -> bool {
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

impl Explored {
    /// Reads the state and the facts that it wants, and decides. `blind`: none of them can be had.
    pub(crate) fn look(&self, world: &mut World, eyes: Eyes) -> Run {
        let job = world.state.clone();
        let run = self.decide(world, &job, None, eyes);
        match &run {
            // Planted: what was once written is never done again.
            Run::Owes(_) if self.planted == Some(Planted::EffectsOnce) => Run::Idle,
            _ => run,
        }
    }

    /// Writes over the version that was read. Whoever loses stops.
    pub(crate) fn write(&self, world: &mut World, decision: &Decision) -> Run {
        let wins = world.state == decision.read || self.planted == Some(Planted::SwapIgnored);
        let job = decision.job.clone();
        if wins {
            check_step(world, &decision.job);
            world.state = job.clone();
        } else if self.planted != Some(Planted::LoserGoesOn) {
            return Run::Idle;
        }
        let effects = decision.effects.clone();
        if effects.is_empty() {
            return Run::Idle;
        }
        Run::Owes(Kept::new(Owed { job, effects, answer: None, warned: decision.warned }))
    }

    /// Carries out the first effect that it owes. After the last it goes on with the answer, where there is one.
    pub(crate) fn carry_out(&self, world: &mut World, owed: &Owed, outcome: Outcome) -> Run {
        let Some((first, rest)) = owed.effects.split_first() else { return Run::Idle };
        let answer = self.effect(world, first, outcome).map(Said).or_else(|| owed.answer.clone());
        if !rest.is_empty() {
            let (job, effects, warned) = (owed.job.clone(), rest.to_vec(), owed.warned);
            return Run::Owes(Kept::new(Owed { job, effects, answer, warned }));
        }
        match answer {
            Some(Said(answer)) => {
                self.decide(world, &owed.job, Some(answer), owed.warned.map_or(Eyes::Open, Eyes::Warned))
            }
            None => Run::Idle,
        }
    }

    fn effect(&self, world: &mut World, effect: &Do, outcome: Outcome) -> Option<Answer> {
        let said = || "as the world has it".to_owned();
        match (effect, outcome) {
            (Do::Rank, Outcome::Done) => Some(Answer::Ranked(Ok(job::ranking(world.now)))),
            (Do::Rank, _) => Some(Answer::Ranked(Err(said()))),
            (Do::Reserve(usd, until), Outcome::Done) => {
                reserve(world, *usd, *until);
                Some(Answer::Reserved(ReserveAnswer::Granted))
            }
            (Do::Reserve(usd, until), Outcome::Unheard) => {
                reserve(world, *usd, *until);
                Some(Answer::Reserved(ReserveAnswer::Unknown(said())))
            }
            (Do::Reserve(..), Outcome::Lost) => Some(Answer::Reserved(ReserveAnswer::Unknown(said()))),
            (Do::Reserve(..), _) => Some(Answer::Reserved(ReserveAnswer::Refused(said()))),
            (Do::Find(order), outcome) => Some(Answer::Launched(found(world, order, outcome))),
            (Do::Launch(order), outcome) => Some(Answer::Launched(self.launch(world, order, outcome))),
            (Do::Terminate(placed), Outcome::Done) => {
                terminate(world, &placed.instance);
                Some(Answer::Terminated(Ok(())))
            }
            (Do::Terminate(_), _) => Some(Answer::Terminated(Err(said()))),
            (Do::Release, Outcome::Done) => {
                world.reserved = None;
                Some(Answer::Released(Ok(())))
            }
            (Do::Release, _) => Some(Answer::Released(Err(said()))),
            (Do::Forget, _) => {
                world.active = false;
                None
            }
        }
    }

    fn decide(&self, world: &mut World, job: &Kept<Job>, answer: Option<Answer>, eyes: Eyes) -> Run {
        let mut facts = if eyes == Eyes::Blind { blind(world, answer) } else { facts(world, job, answer, eyes) };
        if self.planted == Some(Planted::HeartImagined) {
            facts.heartbeat = facts.heartbeat.map(|beat| beat.or(Some(world.now)));
        }
        let warned = eyes.warned();
        let (then, effects) = next(job, &facts, world.now);
        let effects: Vec<Do> = effects.into_iter().filter_map(Do::of).collect();
        if !facts.may_act && effects.iter().any(Do::acts) {
            world.breaks(Broken::Acted);
        }
        if effects.iter().filter(|effect| **effect != Do::Forget).count() > 1 {
            world.breaks(Broken::TwoAnswers);
        }
        if then == **job {
            return if effects.is_empty() {
                Run::Idle
            } else {
                Run::Owes(Kept::new(Owed { job: job.clone(), effects, answer: None, warned }))
            };
        }
        Run::Decided(Kept::new(Decision { read: job.clone(), job: Kept::new(then), effects, warned }))
    }
}

fn blind(world: &World, answer: Option<Answer>) -> Facts {
    Facts { may_act: world.may_act, no_progress_attempts_max: NO_PROGRESS_ATTEMPTS_MAX, answer, ..Facts::default() }
}

fn facts(world: &World, job: &Job, answer: Option<Answer>, eyes: Eyes) -> Facts {
    let wants = wants(job, eyes.warned().is_some(), world.now);
    let sight = |wanted: bool, placed: Option<&Placed>| match placed {
        Some(placed) if wanted => sight(world, &placed.instance, eyes == Eyes::Late),
        _ => Sight::Unknown,
    };
    let of_attempt = || world.machines.iter().filter(|machine| machine.order.attempt == job.attempt);
    let heart = || of_attempt().filter_map(|machine| machine.heart(world.now)).max();
    let exit = || {
        let exits = of_attempt().filter_map(|machine| Some((machine.over_at()?, machine.exit?)));
        let last = exits.max_by_key(|(at, _)| *at);
        last.map(|(at, reason)| Exit { attempt: job.attempt, at, reason, code: None, why: String::new() })
    };
    Facts {
        warned: eyes.warned().map(|number| ResourceId::new(format!("i-{number}"))),
        machine: sight(wants.machine, job.machine()),
        predecessor: sight(wants.predecessor, job.predecessor.as_ref()),
        head: wants.head.then(|| world.head.clone()),
        heartbeat: wants.heartbeat.then(heart),
        exit: wants.exit.then(exit),
        cancel: wants.cancel.then(|| world.cancelled.then(|| Cancel { at: job::begin(), by: None })),
        ..blind(world, answer)
    }
}

fn reserve(world: &mut World, usd: Amount, until: Timestamp) {
    let wanted = world.state.reserved.filter(|_| world.state.phase == Phase::Reserving);
    let is_stray = wanted.is_none_or(|wanted| (wanted.usd, wanted.until) != (usd, until));
    world.reserved = Some(Reserved { usd, until, is_stray });
}

/// What a new state may not say of the one before.
fn check_step(world: &mut World, then: &Job) {
    if then.attempt < world.state.attempt {
        world.breaks(Broken::AttemptFell);
    }
    let Phase::Ended(before) = &world.state.phase else { return };
    if !matches!(&then.phase, Phase::Ended(after) if after.result == before.result && after.closed >= before.closed) {
        world.breaks(Broken::EndTakenBack);
    }
}
