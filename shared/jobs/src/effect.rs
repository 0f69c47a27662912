//! What is done for a job, after its new state was written.

use jiff::Timestamp;
use model::id::ResourceId;
use model::money::Amount;

use super::{Candidate, JobMachine, LossReason, MachineImage};

/// What to do. At most one effect of a round has a result, which is a fact of the next; all follow from the state alone, so the run that
/// comes after a crash does them again, and each can be done again without harm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Find out where it can be launched, at which price, from which image.
    Rank,
    /// Reserve the most that it can still cost, in place of what was reserved before.
    Reserve {
        /// [`JobReservation::number`](super::JobReservation::number).
        number: u32,
        /// How much.
        usd: Amount,
        until: Timestamp,
    },
    /// Launch. The same token with the same parameters gives the same instance.
    Launch(LaunchRequest),
    /// End this machine, if it carries this job's tag.
    Terminate(JobMachine),
    /// Note on the budgets that what this instance costs settles what was reserved. Has no answer: without it the reservation only stays
    /// whole until the job has ended.
    Settle(ResourceId),
    /// Give back what was reserved, up to the reservation of this number.
    Release(u32),
    /// Take it off the index of unfinished jobs. Has no answer.
    Forget,
    /// Records a transition in the audit trail and the response. Has no result.
    Record(JobTransition),
}

/// One launch, whole: nothing else goes into the request, except for the spec's and the account's tags.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaunchRequest {
    pub attempt: u32,
    /// The latest failed attempt that is retried, [`JobRetries::attempt`](super::JobRetries); 0 if none is.
    pub retry_of: u32,
    /// The client token.
    pub token: String,
    pub candidate: Candidate,
    /// What it boots.
    pub image: MachineImage,
    /// The attempt's absolute end.
    pub ends_at: Timestamp,
    /// Nothing is launched: the token is so old that EC2 may have forgotten it. What was launched by it is the answer; that surely nothing
    /// is there, as if there were no capacity.
    pub only_find: bool,
}

/// Why a job is where it now is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobTransition {
    /// What happened.
    pub kind: TransitionKind,
    /// In words.
    pub why: String,
    pub attempt: u32,
    /// From which step of a checkpoint.
    pub step: Option<u64>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TransitionKind {
    /// A machine runs.
    Launched(ResourceId),
    /// A machine was lost.
    Lost(ResourceId, LossReason),
    /// A machine is being ended by Curfew.
    Ended(ResourceId),
    /// It may not be launched.
    Held,
    /// It waits for capacity, or until it is retried.
    Waits,
    /// It is over.
    Finished,
}
