//! The loop around [`next()`], without I/O: it says what to do next for one job, and its driver hands back the result.
//!
//! `execution` drives it on AWS. `tests/lives` drives it through every life of a job, and interleaves two of them step by step.

use std::ops::Deref;

use jiff::Timestamp;
use model::id::ResourceId;

use crate::{Effect, EffectResult, Job, JobFacts, JobId, JobMachine, LaunchResult, NeededFacts, needed_facts, next};

/// The next step for a job. A crash loses nothing at any of these: the next run follows the state.
///
/// `J` holds a job: a box, or whatever makes it cheap to clone and to compare.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reconciliation<J = Box<Job>> {
    /// Observe what the decision wants.
    Observe(PendingDecision<J>),
    /// Write the new state over the version that was read, and no other.
    Write(PendingWrite<J>),
    /// Carry out this effect of the state that is written.
    CarryOut(Effect, PendingEffects<J>),
    /// Read the state again, as another run has written it: this one has launched a machine.
    ReadAgain(UnrecordedMachine),
    /// Terminate this machine, which the job of that state rejects.
    Terminate(JobMachine, J),
    /// The job needs no further step now.
    Done(J),
    /// This run has no further step: another run has written the state, and does the rest.
    Lost,
}

/// The part that stays the same through a round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Round<J> {
    job: J,
    warned: Option<ResourceId>,
}

/// A job that is about to be decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PendingDecision<J> {
    round: Round<J>,
    answer: Option<EffectResult>,
}

/// A decision that is about to be written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PendingWrite<J> {
    round: Round<J>,
    job: J,
    effects: Vec<Effect>,
    launched: Option<UnrecordedMachine>,
}

/// The rest of a round after one of its effects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PendingEffects<J> {
    round: Round<J>,
    effects: Vec<Effect>,
    answer: Option<EffectResult>,
}

/// A launched machine that no state names: EC2 refused another run's request for capacity, and that run tried another pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnrecordedMachine {
    job: JobId,
    machine: JobMachine,
    token: String,
}

impl<J: Deref<Target = Job> + From<Job>> Reconciliation<J> {
    /// Begins with a job as it was read. `warned`: the instance that EC2 has warned of an interruption.
    pub const fn begin(job: J, warned: Option<ResourceId>) -> Self {
        Self::Observe(PendingDecision { round: Round { job, warned }, answer: None })
    }

    fn carry_out(round: Round<J>, effects: Vec<Effect>, answer: Option<EffectResult>) -> Self {
        let mut effects = effects.into_iter();
        match (effects.next(), answer) {
            (Some(effect), answer) => {
                Self::CarryOut(effect, PendingEffects { round, effects: effects.collect(), answer })
            }
            (None, answer @ Some(_)) => Self::Observe(PendingDecision { round, answer }),
            (None, None) => Self::Done(round.job),
        }
    }
}

impl<J: Deref<Target = Job> + From<Job>> PendingDecision<J> {
    /// The job as it stands.
    pub fn job(&self) -> &Job {
        &self.round.job
    }

    /// The job as it stands, where nothing more is done for it.
    pub fn into_job(self) -> J {
        self.round.job
    }

    /// The instance that was warned, where that may be the job's machine.
    pub fn warned(&self) -> Option<&ResourceId> {
        self.round.warned.as_ref().filter(|warned| self.job().is_warned_by(warned))
    }

    /// Returns the facts that have to be observed.
    pub fn needed_facts(&self, now: Timestamp) -> NeededFacts {
        needed_facts(self.job(), self.warned().is_some(), now)
    }

    /// Decides. Of the facts, the warning and the answer are those that are known here.
    #[must_use]
    pub fn decide(self, facts: JobFacts, now: Timestamp) -> Reconciliation<J> {
        let warned = self.warned().cloned();
        let Self { round, answer } = self;
        let facts = JobFacts { warned, answer, ..facts };
        let (job, effects) = next(&round.job, &facts, now);
        if job == *round.job {
            return Reconciliation::carry_out(round, effects, None);
        }
        let launched = UnrecordedMachine::find(&round.job, &job, facts.answer).filter(|_| facts.may_act);
        Reconciliation::Write(PendingWrite { round, job: J::from(job), effects, launched })
    }
}

impl<J: Deref<Target = Job> + From<Job>> PendingWrite<J> {
    /// The job as it was read.
    pub const fn read(&self) -> &J {
        &self.round.job
    }

    pub const fn job(&self) -> &J {
        &self.job
    }

    /// Returns `true` if this round decided the launch, so that EC2 has no earlier request.
    pub fn is_first_ask(&self) -> bool {
        self.job.awaited() != self.round.job.awaited()
    }

    /// Returns the effects that the new state of the job owes.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// The version that was read still stood there.
    #[must_use]
    pub fn written(self) -> Reconciliation<J> {
        Reconciliation::carry_out(Round { job: self.job, ..self.round }, self.effects, None)
    }

    /// Another run has written since.
    #[must_use]
    pub fn lost(self) -> Reconciliation<J> {
        self.launched.map_or(Reconciliation::Lost, Reconciliation::ReadAgain)
    }
}

impl<J: Deref<Target = Job> + From<Job>> PendingEffects<J> {
    /// The job as it is written.
    pub const fn job(&self) -> &J {
        &self.round.job
    }

    /// Returns the effects that are carried out after the present one.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// The job as it is written, where nothing more is done for it.
    pub fn into_job(self) -> J {
        self.round.job
    }

    /// The present effect is carried out; with its answer, where it has one.
    #[must_use]
    pub fn carried_out(self, answer: Option<EffectResult>) -> Reconciliation<J> {
        Reconciliation::carry_out(self.round, self.effects, answer.or(self.answer))
    }
}

impl UnrecordedMachine {
    /// The machine that was just launched, as the new state names it.
    fn find(read: &Job, job: &Job, answer: Option<EffectResult>) -> Option<Self> {
        let Some(EffectResult::Launched(LaunchResult::Launched { instance, .. })) = answer else { return None };
        let mut named = job.machine().into_iter().chain(&job.previous_attempt);
        let machine = named.find(|named| named.instance == instance)?.clone();
        Some(Self { job: job.job.clone(), machine, token: read.awaited()? })
    }

    #[must_use]
    pub const fn job(&self) -> &JobId {
        &self.job
    }

    #[must_use]
    pub const fn machine(&self) -> &JobMachine {
        &self.machine
    }

    /// The job as it is read again; `None` if it is not there any more.
    #[must_use]
    pub fn compare<J: Deref<Target = Job>>(self, job: Option<J>) -> Reconciliation<J> {
        match job {
            Some(job) if job.rejects_machine(&self.machine, &self.token) => {
                Reconciliation::Terminate(self.machine, job)
            }
            _ => Reconciliation::Lost,
        }
    }
}
