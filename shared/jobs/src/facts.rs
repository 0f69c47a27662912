//! The facts about a job at one moment.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::ResourceId;
use model::instance::InstanceState;
use model::rule::Rule;

use super::boxes::{BoxFacts, ExtendRequest};
use super::node_gang::{GangReport, GangSight};
use super::takeover::{NewerMachines, Takeover};
use super::{
    CancelRequest, DependencyState, ExitRecord, Head, JobGroup, LaunchObstacle, MachineHold, QuotaCode, Ranking,
};

/// The facts about a job. An unread or unknown fact is `None`, or [`MachineSight::Unknown`]: never a reason to act.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFacts {
    /// `true` if anything may be launched or ended: `CURFEW_MODE`, and a confirmed subscription.
    pub may_act: bool,
    /// The attempts without progress after which a job ends: `[jobs] no_progress_attempts_max`.
    pub no_progress_attempts_max: u32,
    /// An instance that EC2 has warned of an interruption.
    pub warned: Option<ResourceId>,
    /// The machine of the present attempt; of a gang by [`gang_sight`](crate::node_gang::gang_sight).
    pub machine: MachineSight,
    /// The machines of a gang, each by itself; `None` for a single machine, and where nobody has looked.
    pub gang: Option<GangSight>,
    /// The words of its nodes about the end of the present attempt; `None` for a single machine, and where they were not read.
    pub gang_report: Option<GangReport>,
    /// The tag of the machine of the present attempt that holds it, as far as anybody has looked.
    pub machine_hold: Option<MachineHold>,
    /// The rule by which `reap-instances` ended the machine, by its log.
    pub reaped: Option<Rule>,
    /// The machine of an earlier attempt.
    pub previous_attempt: MachineSight,
    /// The fence. `Some(None)`: there is none yet.
    pub head: Option<Option<Head>>,
    /// The last heartbeat of the present attempt, by S3's clock. `Some(None)`: there is none.
    pub heartbeat: Option<Option<Timestamp>>,
    /// `true` if the present attempt's heartbeat says that its command runs.
    pub command_runs: bool,
    /// The exit record of the present attempt's agent. `Some(None)`: the agent has not ended the attempt.
    pub exit: Option<Option<ExitRecord>>,
    /// A person's request to end it. `Some(None)`: there is none.
    pub cancel: Option<Option<CancelRequest>>,
    /// States of all [`Job::waits_for`](super::Job::waits_for), by name.
    pub dependencies: BTreeMap<String, DependencyState>,
    /// Number of earlier members of its sweep that are unfinished, where it waits for its turn. Ends are final, so an old number is never
    /// too low.
    pub earlier_members: Option<u32>,
    /// The box that the job is.
    pub gpu_box: Option<BoxFacts>,
    /// The time at which its agent last found it in use: the word of its machine.
    pub box_in_use_at: Option<Timestamp>,
    /// The last sync of its home: the word of its machine.
    pub box_synced_at: Option<Timestamp>,
    /// A person's request to extend it. `Some(None)`: there is none.
    pub extend: Option<Option<ExtendRequest>>,
    /// The takeover by which this stack acts; `None` if its bucket was no copy.
    pub takeover: Option<Takeover>,
    /// The machines that EC2 shows and the state does not name, while [`Job::is_unsettled`](super::Job::is_unsettled).
    pub newer: NewerMachines,
    /// Result of the effect of the previous round.
    pub answer: Option<EffectResult>,
}

/// An instance as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MachineSight {
    /// Not read, or EC2 did not say.
    #[default]
    Unknown,
    /// EC2 does not know it: it is not there yet, or not any more.
    Absent,
    Seen {
        /// State of the instance.
        state: InstanceState,
        /// `StateReason.Code`.
        reason: Option<String>,
    },
}

/// `StateReason.Code` of an instance that somebody stopped or terminated by a call, Curfew included (EC2 API reference, `StateReason`).
pub(crate) const BY_HAND: &str = "Client.UserInitiatedShutdown";

impl MachineSight {
    /// Returns `true` if a call ended it, of a person or of Curfew.
    #[must_use]
    pub fn was_ended_by_hand(&self) -> bool {
        let Self::Seen { state, reason } = self else { return false };
        let is_over = matches!(
            state,
            InstanceState::Stopping | InstanceState::Stopped | InstanceState::ShuttingDown | InstanceState::Terminated
        );
        is_over && reason.as_deref() == Some(BY_HAND)
    }
}

/// EC2's answer about one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineObservation {
    pub instance: ResourceId,
    /// Its state. [`MachineSight::Unknown`] if EC2's answer leaves something out.
    pub sight: MachineSight,
    /// Launch time, if the instance is seen.
    pub launched_at: Option<Timestamp>,
    /// The value of its tag `curfew:job`.
    pub job: Option<String>,
    /// The number of its tag `curfew:attempt`.
    pub attempt: Option<u32>,
    /// The tag that keeps it from being terminated.
    pub hold: Option<MachineHold>,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectResult {
    /// Result of [`Effect::Rank`](super::Effect::Rank): the pools from which it can be launched, or the reason why there are none.
    Ranked(Result<Ranking, LaunchObstacle>),
    /// Another result of [`Effect::Rank`](super::Effect::Rank): in words why its machines would get no role.
    NoRole(String),
    /// Another result of [`Effect::Rank`](super::Effect::Rank): in words why its team may not have what it names.
    NotAllowed(String),
    /// Result of [`Effect::Reserve`](super::Effect::Reserve).
    Reserved(ReserveResult),
    /// Result of [`Effect::Launch`](super::Effect::Launch).
    Launched(LaunchResult),
    /// Result of [`Effect::Terminate`](super::Effect::Terminate): the termination was requested. Its effect is seen on the machine.
    Terminated,
    /// Result of [`Effect::MakeGroup`](super::Effect::MakeGroup): EC2 has the group.
    GroupMade(JobGroup),
    /// Result of [`Effect::DeleteGroup`](super::Effect::DeleteGroup): the group is gone, or was another's.
    GroupDeleted(JobGroup),
    /// Another result of both: nothing is known to have changed. The next run tries again.
    GroupUnchanged,
    /// Result of [`Effect::Release`](super::Effect::Release): `true` if it is done.
    Released(bool),
}

/// The answer of the budgets to a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReserveResult {
    /// The reservation fits, or holds nothing.
    Granted,
    /// The reservation does not fit, or the state of the budget is unknown.
    Refused(String),
    /// The documents could not be read or written.
    Unknown(String),
    /// Other runs write them all the while, as where hundreds of jobs are submitted at once: the next run asks again.
    Overtaken,
}

/// The answer of EC2 to a launch (`AWS-FACTS`: three kinds of errors want three answers).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LaunchResult {
    Launched {
        instance: ResourceId,
        /// The nodes 1 and up of a gang, by EC2's launch index.
        members: Vec<ResourceId>,
        /// Time of the launch, as EC2 says.
        launched_at: Timestamp,
    },
    /// EC2 shows fewer machines of a gang than it has launched: those that are not ending. It may show the others a moment later, or never.
    Incomplete(Vec<ResourceId>),
    /// This pool has none now.
    NoCapacity(String),
    /// A quota is used up: which one, where that is known.
    Quota(String, Option<QuotaCode>),
    /// Not this candidate with these parameters, now or later.
    Refused(String),
    /// No candidate with this request, now or later.
    RefusedRequest(String),
    /// The job's team has no role for its machines, or they may not have the one that is named.
    NoProfile(String),
    /// The configuration does not allow the job's team what it names.
    NotAllowed(String),
    /// Not with these permissions.
    Denied(String),
    /// The account has no service-linked role for Spot, and Curfew may not create it.
    SpotRoleMissing(String),
    /// EC2 does not know the instance profile, or does not know it yet.
    ProfileUnknown(String),
    /// This token was used before for another request; and no instance is there that was launched by it, as far as EC2 says yet.
    Mismatch(String),
    /// The launch may have happened or not: the next run repeats the request with the same token.
    Unknown(String),
}

/// The facts that have to be read before the next decision: no other fact is worth a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question, and any set of them may be asked")]
pub struct NeededFacts {
    /// [`JobFacts::machine`].
    pub machine: bool,
    /// [`JobFacts::previous_attempt`].
    pub previous_attempt: bool,
    /// [`JobFacts::head`].
    pub head: bool,
    /// [`JobFacts::heartbeat`].
    pub heartbeat: bool,
    /// [`JobFacts::exit`].
    pub exit: bool,
    /// [`JobFacts::cancel`].
    pub cancel: bool,
    /// [`JobFacts::dependencies`].
    pub dependencies: bool,
    /// [`JobFacts::earlier_members`].
    pub earlier_members: bool,
    /// [`JobFacts::gpu_box`].
    pub gpu_box: bool,
    /// [`JobFacts::extend`].
    pub extend: bool,
}
