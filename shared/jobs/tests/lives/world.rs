//! The whole world at one moment: the bucket, EC2, the budget, machines with their agents, and reconcilers.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jobs::{DependencyState, ExitReason, Head, Job, LaunchRequest, Lifecycle, Phase};
use model::id::ResourceId;
use model::money::Amount;

use crate::job;
use crate::run::ReconcilerState;

/// What is large and shared, with its hash, which is made once.
pub(crate) struct SharedValue<T> {
    hash: u64,
    value: Arc<T>,
}

impl<T: Hash> SharedValue<T> {
    pub(crate) fn new(value: T) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self { hash: hasher.finish(), value: Arc::new(value) }
    }
}

impl<T: Hash> From<T> for SharedValue<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> std::ops::Deref for SharedValue<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for SharedValue<T> {
    fn clone(&self) -> Self {
        Self { hash: self.hash, value: Arc::clone(&self.value) }
    }
}

/// By their hashes, as stateright compares whole states.
impl<T> PartialEq for SharedValue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl<T> Eq for SharedValue<T> {}

impl<T> Hash for SharedValue<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// The whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelWorld {
    pub(crate) now: Timestamp,
    /// `state.json`. Its version is its content, as S3's `ETag` can be: a document that becomes what it was before has its
    /// old version again, which no counter would allow.
    pub(crate) state: SharedValue<Job>,
    /// `head.json`.
    pub(crate) head: Option<Head>,
    /// `cancel.json`.
    pub(crate) cancelled: bool,
    /// The job that it waits for, if it waits for any.
    pub(crate) dependency: DependencyState,
    /// How many earlier members of its sweep are unfinished.
    pub(crate) earlier_members: u32,
    /// `active/<team>/<job>`.
    pub(crate) active: bool,
    /// What the budget has reserved.
    pub(crate) reserved: Option<ModelReservation>,
    /// `CURFEW_MODE`, and a confirmed subscription.
    pub(crate) may_act: bool,
    /// What EC2 ever launched, in that order.
    pub(crate) machines: Vec<ModelMachine>,
    /// The reconcilers, in no order.
    pub(crate) runs: [ReconcilerState; 2],
    /// So much may still go wrong.
    pub(crate) faults: u8,
    /// So often the clock may still move on.
    pub(crate) jumps: u8,
    /// The latest attempt whose agent got past the fence, and which launch of it.
    pub(crate) begun: (u32, String),
    /// Commands that have failed, as head said.
    pub(crate) failures: u8,
    /// Tokens that EC2 has refused at some time.
    pub(crate) refused: Vec<String>,
    /// What must never happen, and did.
    pub(crate) broken: Option<BrokenInvariant>,
}

/// What must never happen, of what a single step shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BrokenInvariant {
    /// A token was used again with other parameters.
    TokenReused,
    /// An attempt wrote into head after a later one got past the fence, or another launch of the same.
    FencedWrote,
    /// Launched for more money, or longer, than the budget has reserved.
    Unreserved,
    /// Launched while an earlier machine without a warning runs.
    ReplacedTooSoon,
    /// Launched or ended where it may only observe.
    Acted,
    /// An ended job continued, or ended in another way.
    EndTakenBack,
    /// The number of the attempt fell.
    AttemptFell,
    /// Two effects of one round have an answer.
    TwoAnswers,
}

/// What is reserved on the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ModelReservation {
    pub(crate) number: u32,
    pub(crate) usd: Amount,
    pub(crate) until: Timestamp,
    /// Whether it came so late that the state no longer wanted it. It is never released; a budget drops it at its end.
    pub(crate) is_stray: bool,
}

/// An instance, and the agent on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelMachine {
    /// `i-<number>`.
    pub(crate) number: u8,
    /// What was asked for.
    pub(crate) order: SharedValue<LaunchOrder>,
    pub(crate) launched_at: Timestamp,
    pub(crate) warned_at: Option<Timestamp>,
    pub(crate) life: MachineLife,
    pub(crate) agent: AgentState,
    /// The last heartbeat of a machine that sends none any more.
    pub(crate) beat: Option<Timestamp>,
    pub(crate) exit: Option<ExitReason>,
    /// Whether the timer of its boothook will ring.
    pub(crate) timer: bool,
    /// Whether the response to its launch is lost: in transit, by a crash of its reconciler, or because that may only observe.
    pub(crate) is_left: bool,
}

/// A launch, as it can be compared and hashed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LaunchOrder {
    pub(crate) token: String,
    pub(crate) attempt: u32,
    pub(crate) retry_of: u32,
    pub(crate) zone: String,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) usd_per_hour_max: u64,
    pub(crate) ends_at: Timestamp,
}

impl From<&LaunchRequest> for LaunchOrder {
    fn from(launch: &LaunchRequest) -> Self {
        Self {
            token: launch.token.clone(),
            attempt: launch.attempt,
            retry_of: launch.retry_of,
            zone: launch.candidate.zone.clone(),
            lifecycle: launch.candidate.lifecycle,
            usd_per_hour_max: launch.candidate.rate_max.usd_micros_per_hour(),
            ends_at: launch.ends_at,
        }
    }
}

/// What a machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MachineLife {
    Running,
    /// It shuts down, and is not billed any more; its agent may still write.
    Ending(MachineEndReason, Timestamp),
    Over(MachineEndReason, Timestamp),
    /// A person stopped it, and it is still there.
    Stopped,
}

/// Why it ends: what EC2 says as `StateReason.Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MachineEndReason {
    Reclaimed,
    Itself,
    User,
    /// EC2 took the launch, and had no capacity after all.
    NotGiven,
}

/// How far the agent is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AgentState {
    /// It sent no heartbeat.
    Boots,
    /// It sends heartbeats, has read the fence, and is about to swap its number in.
    Saw(Option<Head>),
    /// It is past the fence, and this is what it believes to stand there.
    Past(Head),
    /// It hangs, or its machine is over.
    Dead,
}

impl ModelMachine {
    pub(crate) fn id(&self) -> ResourceId {
        ResourceId::new(format!("i-{}", self.number))
    }

    pub(crate) fn runs(&self) -> bool {
        self.life == MachineLife::Running
    }

    /// Whether it can still be terminated.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.life, MachineLife::Running | MachineLife::Stopped)
    }

    /// Whether its agent can still write anything.
    pub(crate) fn lives(&self) -> bool {
        matches!(self.life, MachineLife::Running | MachineLife::Ending(..)) && self.agent != AgentState::Dead
    }

    /// When it was gone.
    pub(crate) fn over_at(&self) -> Option<Timestamp> {
        match self.life {
            MachineLife::Over(_, at) => Some(at),
            MachineLife::Running | MachineLife::Ending(..) | MachineLife::Stopped => None,
        }
    }

    pub(crate) fn last_heartbeat(&self, now: Timestamp) -> Option<Timestamp> {
        match self.agent {
            AgentState::Saw(_) | AgentState::Past(_) => Some(now),
            AgentState::Boots | AgentState::Dead => self.beat,
        }
    }

    /// Its agent does nothing from now on.
    pub(crate) fn silence(&mut self, now: Timestamp) {
        self.beat = self.last_heartbeat(now);
        self.agent = AgentState::Dead;
    }

    pub(crate) fn end(&mut self, why: MachineEndReason, now: Timestamp) {
        if !matches!(self.life, MachineLife::Over(..)) {
            self.silence(now);
            self.life = MachineLife::Over(why, now);
        }
    }
}

impl ModelWorld {
    pub(crate) fn new(job: Job, faults: u8, jumps: u8) -> Self {
        Self {
            now: job::begin(),
            state: SharedValue::new(job),
            head: None,
            cancelled: false,
            dependency: DependencyState::Unfinished,
            earlier_members: 1,
            active: true,
            reserved: None,
            may_act: true,
            machines: Vec::new(),
            runs: [ReconcilerState::Idle, ReconcilerState::Idle],
            faults,
            jumps,
            begun: (0, String::new()),
            failures: 0,
            refused: Vec::new(),
            broken: None,
        }
    }

    /// The first violation is reported.
    pub(crate) fn breaks(&mut self, what: BrokenInvariant) {
        self.broken = self.broken.or(Some(what));
    }

    /// Whether the state names that machine, or a launch of it is under way.
    pub(crate) fn knows(&self, machine: &ModelMachine) -> bool {
        self.names(machine) || self.launching().as_deref() == Some(&machine.order.token)
    }

    /// Whether the state names that machine.
    pub(crate) fn names(&self, machine: &ModelMachine) -> bool {
        let id = machine.id();
        let mut placed = self.state.machine().into_iter().chain(&self.state.previous_attempt);
        placed.any(|placed| placed.instance == id)
    }

    /// Whether a launch on Spot is under way for which it is left, or it was left for one: where a crash lost its termination, the next run
    /// terminates it, and until then the fence holds it off.
    pub(crate) fn is_left_for_spot(&self, machine: &ModelMachine) -> bool {
        let Phase::Launching(launching) = &self.state.phase else { return false };
        let is_on_demand = machine.order.lifecycle == Lifecycle::OnDemand && self.state.deadline.is_some();
        let mut left = launching.replaces.as_deref().into_iter().chain(&self.state.previous_attempt);
        is_on_demand && left.any(|left| left.instance == machine.id())
    }

    /// Whether a launch of that token was certainly refused: then another request of it may have come through later, without a response.
    pub(crate) fn is_stray(&self, machine: &ModelMachine) -> bool {
        !self.knows(machine) && self.refused.contains(&machine.order.token)
    }

    /// The token of the launch that is under way.
    pub(crate) fn launching(&self) -> Option<String> {
        let Phase::Launching(launching) = &self.state.phase else { return None };
        Some(jobs::launch_token(&self.state.job, self.state.attempt, launching.pass, launching.candidate))
    }

    /// Compute time, until now, of all that the job ever launched except for strays. A machine whose timer failed counts until it should have
    /// fired.
    pub(crate) fn computed(&self) -> SignedDuration {
        let running_time = |machine: &ModelMachine| {
            let end = match machine.life {
                MachineLife::Ending(_, at) | MachineLife::Over(_, at) => at,
                MachineLife::Running | MachineLife::Stopped => self.now,
            };
            let end = end.min(machine.order.ends_at);
            end.duration_since(machine.launched_at)
        };
        let ours = self.machines.iter().filter(|machine| !self.refused.contains(&machine.order.token));
        ours.map(running_time).sum()
    }
}
