//! The effects of a decision about a job, carried out after its new state was written.

use jiff::Timestamp;
use model::id::ResourceId;
use model::instance::Tags;
use model::money::Amount;

use super::{Candidate, JobGroup, JobMachine, JobTerms, LossReason, MachineImage};

/// One action for a job. No more than one effect of a round has a result, which is a fact of the next round. All effects follow from the state
/// alone, so the run that comes after a crash does them again, and each can be done again without harm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Find out where it can be launched, at which price, from which image.
    Rank,
    /// Reserve the most that it can still cost, in place of what was reserved before.
    Reserve {
        /// [`JobReservation::number`](super::JobReservation::number).
        number: u32,
        /// Amount to reserve.
        usd: Amount,
        until: Timestamp,
    },
    /// Launch. The same token with the same parameters gives the same instance.
    Launch(LaunchRequest),
    /// End this machine, if it carries this job's tag.
    Terminate(JobMachine),
    /// Make this group, unless it is there.
    MakeGroup(JobGroup),
    /// Delete this group, if it carries this job's tag.
    DeleteGroup(JobGroup),
    /// Note on the budgets that what this instance costs settles what was reserved. Has no answer: without it the reservation only stays
    /// whole until the job has ended.
    Settle(Vec<ResourceId>),
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
    /// The image that the machine boots.
    pub image: MachineImage,
    /// The attempt's absolute end.
    pub ends_at: Timestamp,
    /// The placement group, which has to be there before.
    pub placement_group: Option<String>,
    /// `true` if nothing may be launched: the token is so old that EC2 may have forgotten it. The answer is the instance that was launched
    /// by it. If there surely is none, the answer is the same as without capacity.
    pub only_find: bool,
}

/// A complete launch request.
#[derive(Debug, Clone, Copy)]
pub struct LaunchOrder<'a> {
    /// Region, candidate, token and deadline.
    pub launch: &'a LaunchRequest,
    /// Security groups and the size of the root volume.
    pub terms: &'a JobTerms,
    /// Tags of the instance and of its volumes.
    pub tags: &'a Tags,
    /// User data as the machine reads it: not in base64.
    pub user_data: &'a str,
    /// The instance profile, by name; `None`: the machine gets no credentials.
    pub profile: Option<&'a str>,
}

/// The change that brought a job to its present state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobTransition {
    /// The kind of the change.
    pub kind: TransitionKind,
    /// The reason in words.
    pub why: String,
    pub attempt: u32,
    /// Step of the checkpoint that the job has reached.
    pub step: Option<u64>,
}

/// The kind of a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TransitionKind {
    /// A machine runs.
    Launched(ResourceId),
    /// A machine was lost.
    Lost(ResourceId, LossReason),
    /// A machine is being ended by Curfew.
    Ended(ResourceId),
    /// The job may not be launched.
    Held,
    /// The job waits for capacity, or until it is retried.
    Waits,
    /// The job is over.
    Finished,
}
