//! Where a job stands.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Lifecycle, Quota};
use crate::id::{Region, ResourceId, TypeName};
use crate::money::Rate;

/// Where a job stands: what is left to do follows from this alone. Written as `"state": "running", "of": { … }` beside the job's own keys:
/// one object less, and `attempt` would be there twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", content = "of", rename_all = "kebab-case")]
pub enum Phase {
    /// Accepted, or about to be placed anew: it has to be ranked.
    Submitted,
    /// Ranked; money has to be reserved, [`Job::reserved`](super::Job::reserved).
    Reserving,
    /// A launch was decided, and nobody has heard yet what came of it.
    Launching(Launching),
    /// It has a machine.
    Running(Placed),
    /// Its machine was lost without a warning, and is ended before there is another one.
    Interrupted(Replacing),
    /// There is no capacity.
    Waiting(Waiting),
    /// It may not be launched.
    Held(Held),
    /// It is over.
    #[serde(rename = "ended")]
    Ended(Ended),
}

/// One try to launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Launching {
    /// Which candidate of the ranking.
    pub candidate: u8,
    /// Which pass through the ranking, from 1 on: part of the token.
    pub pass: u32,
    /// When it was decided.
    pub at: Timestamp,
    /// The absolute end of the attempt.
    pub ends_at: Timestamp,
    /// Quotas that refused this pass: no other candidate that they count is tried in it.
    pub quotas: Vec<Quota>,
    /// The pool that was just lost comes last.
    pub avoid: Option<u8>,
    /// Whether EC2 has said nothing of it for so long that its owner should know.
    #[serde(default)]
    pub unanswered: bool,
}

/// A machine of the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placed {
    /// Its id.
    pub instance: ResourceId,
    /// Where it is.
    pub region: Region,
    /// Where in it.
    pub zone: String,
    /// Its type.
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    /// How it is bought.
    pub lifecycle: Lifecycle,
    /// What it can cost at most.
    pub rate_max: Rate,
    /// What it cost when it was launched.
    pub rate: Rate,
    /// Of which attempt.
    pub attempt: u32,
    /// Which pool of the ranking it is of.
    pub candidate: u8,
    /// When it was launched.
    pub launched_at: Timestamp,
    /// The attempt's absolute end.
    pub ends_at: Timestamp,
}

/// A machine that has to be gone first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacing {
    /// Which.
    pub machine: Placed,
    /// Why.
    pub lost: Lost,
    /// Since when.
    pub since: Timestamp,
}

/// How a machine was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// AWS took it back, after a warning or without one.
    Reclaimed,
    /// Its agent was never heard of.
    NeverHeard,
    /// Its heart stopped.
    Silent,
    /// It shut itself down and left no result.
    ShutDown,
    /// EC2 could not launch it after all, most often for want of a permission on the key that encrypts its volumes.
    KeyRefused,
    /// The account's storage on EBS is used up.
    StorageUsedUp,
    /// Its image is of a snapshot that is not there.
    NoSnapshot,
    /// There was no capacity after all.
    NoCapacity,
    /// AWS had a fault of its own.
    AwsFault,
    /// It is gone, and nobody knows why.
    Gone,
    /// It ran on past its absolute end.
    Overdue,
}

/// Until there is capacity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// When it is tried again.
    pub until: Timestamp,
    /// Passes through the ranking that came to nothing.
    pub passes: u32,
    /// What EC2 said last.
    pub said: String,
}

/// Why it may not be launched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Held {
    /// By what.
    pub by: HeldBy,
    /// For its owner.
    pub why: String,
    /// When it is looked at again.
    pub until: Timestamp,
    /// Passes through the ranking that came to nothing.
    pub passes: u32,
}

/// What holds a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// A budget, or that nobody can say where it stands.
    Budget,
    /// A quota of the account.
    Quota,
    /// `CURFEW_MODE=observe`, or nobody listening.
    Observing,
    /// A permission that the role had before, or is about to get.
    Permission,
    /// Nothing that fits is known, or a price of it, or the image.
    Unplaceable,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ended {
    /// In a word.
    pub result: Ending,
    /// For its owner.
    pub why: String,
    /// When.
    pub at: Timestamp,
    /// The machine that may still run.
    pub machine: Option<Placed>,
    /// Whether what was reserved has been given back.
    pub released: bool,
    /// Whether nothing is left to do.
    pub closed: bool,
}

/// How it ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The command came to its end.
    Succeeded,
    /// The command failed, or could never be run.
    Failed,
    /// Time or money ran out.
    Expired,
    /// A person ended it.
    Cancelled,
}
