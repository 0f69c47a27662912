//! What is known of a job at one moment.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::ResourceId;
use model::instance::InstanceState;
use model::rule::Rule;

use super::{CancelRequest, DependencyState, ExitRecord, Head, LaunchObstacle, MachineHold, QuotaCode, Ranking};

/// What is known. An unread or unknown fact is `None`, or [`MachineSight::Unknown`]: never a reason to act.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFacts {
    /// Whether anything may be launched or ended: `CURFEW_MODE`, and a confirmed subscription.
    pub may_act: bool,
    /// The attempts without progress after which a job ends: `[jobs] no_progress_attempts_max`.
    pub no_progress_attempts_max: u32,
    /// An instance that EC2 has warned of an interruption.
    pub warned: Option<ResourceId>,
    /// The machine of the present attempt.
    pub machine: MachineSight,
    /// The tag of the machine of the present attempt that holds it, as far as anybody has looked.
    pub machine_hold: Option<MachineHold>,
    /// The rule by which `reap-instances` ended the machine, by its log.
    pub reaped: Option<Rule>,
    /// That of an earlier one.
    pub previous_attempt: MachineSight,
    /// The fence. `Some(None)`: there is none yet.
    pub head: Option<Option<Head>>,
    /// The last heartbeat of the present attempt, by S3's clock. `Some(None)`: there is none.
    pub heartbeat: Option<Option<Timestamp>>,
    /// Whether the present attempt's heartbeat says that its command runs.
    pub command_runs: bool,
    /// How the present attempt's agent ended it. `Some(None)`: it has not.
    pub exit: Option<Option<ExitRecord>>,
    /// A person's request to end it. `Some(None)`: there is none.
    pub cancel: Option<Option<CancelRequest>>,
    /// What is known of each of [`Job::waits_for`](super::Job::waits_for), by name.
    pub dependencies: BTreeMap<String, DependencyState>,
    /// How many earlier members of its sweep are unfinished, where it waits for its turn. Ends are final, so an old number is never too low.
    pub earlier_members: Option<u32>,
    /// What came of the effect of the round before.
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
        /// What it is doing.
        state: InstanceState,
        /// `StateReason.Code`.
        reason: Option<String>,
    },
}

/// `StateReason.Code` of an instance that somebody stopped or terminated by a call, Curfew included (EC2 API reference, `StateReason`).
pub(crate) const BY_HAND: &str = "Client.UserInitiatedShutdown";

impl MachineSight {
    /// Whether a call ended it, of a person or of Curfew.
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

/// What came of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectResult {
    /// Of [`Effect::Rank`](super::Effect::Rank): where it can be launched, or why nowhere.
    Ranked(Result<Ranking, LaunchObstacle>),
    /// Of [`Effect::Rank`](super::Effect::Rank) as well: in words why its machines would get no role.
    NoRole(String),
    /// Of [`Effect::Rank`](super::Effect::Rank) as well: in words why its team may not have what it names.
    NotAllowed(String),
    /// Of [`Effect::Reserve`](super::Effect::Reserve).
    Reserved(ReserveResult),
    /// Of [`Effect::Launch`](super::Effect::Launch).
    Launched(LaunchResult),
    /// Of [`Effect::Terminate`](super::Effect::Terminate): it was asked for. What came of it is seen on the machine.
    Terminated,
    /// Of [`Effect::Release`](super::Effect::Release): whether it is done.
    Released(bool),
}

/// What the budgets say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReserveResult {
    /// It fits, or holds nothing.
    Granted,
    /// It does not fit, or the state of the budget is unknown.
    Refused(String),
    /// The documents could not be read or written.
    Unknown(String),
    /// Other runs write them all the while, as where hundreds of jobs are submitted at once: the next run asks again.
    Overtaken,
}

/// What EC2 says to a launch (`AWS-FACTS`: three kinds of errors want three answers).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LaunchResult {
    Launched {
        instance: ResourceId,
        /// When, as EC2 says.
        launched_at: Timestamp,
    },
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
    /// By this token something else was asked for before; and nothing is there that was launched by it, as far as EC2 says yet.
    Mismatch(String),
    /// Whether it was launched is unknown: the next run repeats the request with the same token.
    Unknown(String),
}

/// What has to be looked at before the next decision: nothing else is worth a call.
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
}
