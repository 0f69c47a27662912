//! What is known of a job at one moment.

use jiff::Timestamp;

use super::{Cancel, Exit, Head, Quota, Ranking};
use crate::id::ResourceId;
use crate::instance::State;
use crate::rule::Rule;

/// What is known. What was not looked at, and what nobody could say, is `None`, or [`Sight::Unknown`]: never a reason to act.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Whether anything may be launched or ended: `CURFEW_MODE`, and somebody listens.
    pub may_act: bool,
    /// After so many attempts without progress a job ends: `[jobs] no_progress_attempts_max`.
    pub no_progress_attempts_max: u32,
    /// An instance that EC2 has warned of an interruption.
    pub warned: Option<ResourceId>,
    /// The machine of the present attempt.
    pub machine: Sight,
    /// The rule for which Curfew's own `reap-instances` has ended the machine, as far as the machine's tags say.
    pub reaped: Option<Rule>,
    /// That of an earlier one.
    pub predecessor: Sight,
    /// The fence. `Some(None)`: there is none yet.
    pub head: Option<Option<Head>>,
    /// When the present attempt's heart last beat, by S3's clock. `Some(None)`: never.
    pub heartbeat: Option<Option<Timestamp>>,
    /// How the present attempt's agent ended it. `Some(None)`: it has not.
    pub exit: Option<Option<Exit>>,
    /// Whether a person wants it to end. `Some(None)`: nobody does.
    pub cancel: Option<Option<Cancel>>,
    /// What came of the effect of the round before.
    pub answer: Option<Answer>,
}

/// An instance, as EC2 tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sight {
    /// Nobody has looked, or EC2 did not say.
    #[default]
    Unknown,
    /// EC2 does not know it: it is not there yet, or not any more.
    Absent,
    /// It is there.
    Seen {
        /// What it is doing.
        state: State,
        /// `StateReason.Code`.
        reason: Option<String>,
    },
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Of [`Effect::Rank`](super::Effect::Rank): where it can be launched, or in words why nowhere.
    Ranked(Result<Ranking, String>),
    /// Of [`Effect::Reserve`](super::Effect::Reserve).
    Reserved(ReserveAnswer),
    /// Of [`Effect::Launch`](super::Effect::Launch).
    Launched(LaunchAnswer),
    /// Of [`Effect::Terminate`](super::Effect::Terminate): taken, or in words why not.
    Terminated(Result<(), String>),
    /// Of [`Effect::Release`](super::Effect::Release): done, or in words why not.
    Released(Result<(), String>),
}

/// What the budgets say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReserveAnswer {
    /// It fits, or holds nothing.
    Granted,
    /// It does not fit, or nobody can say where the budget stands.
    Refused(String),
    /// The documents could not be read or written.
    Unknown(String),
    /// Other runs write them all the while, as where hundreds of jobs are submitted at once: the next run asks again.
    Overtaken,
}

/// What EC2 says to a launch (`AWS-FACTS`: three kinds of errors want three answers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchAnswer {
    /// There it is.
    Launched {
        /// Its id.
        instance: ResourceId,
        /// When, as EC2 says.
        launched_at: Timestamp,
    },
    /// This pool has none now.
    NoCapacity(String),
    /// A quota is used up.
    Quota(String, Option<Quota>),
    /// Not with these parameters.
    Refused(String),
    /// Not with these permissions.
    Denied(String),
    /// By this token something else was asked for before; and nothing is there that was launched by it, as far as EC2 says yet.
    Mismatch(String),
    /// Nobody knows whether it was launched: the same token has to be asked again.
    Unknown(String),
}

/// What has to be looked at before the next decision: nothing else is worth a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question, and any set of them may be asked")]
pub struct Wants {
    /// [`Facts::machine`].
    pub machine: bool,
    /// [`Facts::predecessor`].
    pub predecessor: bool,
    /// [`Facts::head`].
    pub head: bool,
    /// [`Facts::heartbeat`].
    pub heartbeat: bool,
    /// [`Facts::exit`].
    pub exit: bool,
    /// [`Facts::cancel`].
    pub cancel: bool,
}
