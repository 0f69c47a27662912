//! The phases of a job's life.

use jiff::Timestamp;
use model::id::{Region, ResourceId, TypeName};
use model::money::Rate;
use serde::{Deserialize, Serialize};

use super::node_gang::{GangLaunch, Node};
use super::{Candidate, JobId, Lifecycle, QuotaCode, TransferCost};

/// The phase of a job: what is left to do follows from this alone. Written as `"state": "running", "of": { … }` beside the job's own keys:
/// one object less, and `attempt` would be there twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", content = "of", rename_all = "kebab-case")]
pub enum Phase {
    /// Accepted, or about to be placed anew: it has to be ranked.
    Submitted,
    /// Ranked; money has to be reserved, [`Job::reserved`](super::Job::reserved).
    Reserving,
    /// A launch was decided, and has no result yet.
    Launching(LaunchInProgress),
    Running(JobMachine),
    /// Its machine was lost without a warning, and is ended before there is another one.
    Interrupted(MachineReplacement),
    /// There is no capacity.
    Waiting(CapacityWait),
    /// Its command failed, and is retried.
    Retrying(RetryWait),
    /// The job may not be launched.
    Held(LaunchHold),
    /// The job is over.
    #[serde(rename = "ended")]
    Ended(JobEnd),
}

/// One try to launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchInProgress {
    /// Index of the candidate in the ranking.
    pub candidate: u8,
    /// Number of the pass through the ranking, from 1 on: part of the token.
    pub pass: u32,
    /// Time of the decision to launch.
    pub at: Timestamp,
    /// The absolute end of the attempt.
    pub ends_at: Timestamp,
    /// No other candidate that one of them counts is tried in this pass.
    pub quotas: Vec<UsedUpQuota>,
    /// The pool that was just lost comes last.
    pub avoid: Option<u8>,
    /// `true` if EC2 has not answered for so long that the job's owner should know.
    #[serde(default)]
    pub unanswered: bool,
    /// The candidates that EC2 has refused for good in this pass.
    #[serde(default)]
    pub refused: RefusedCandidates,
    /// The machine that it replaces once EC2 accepts it; if EC2 refuses, that machine runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Box<JobMachine>>,
}

/// A quota that refused a launch. Each region has its own (EC2 user guide, "Amazon EC2 service quotas").
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UsedUpQuota {
    pub region: Region,
    pub code: QuotaCode,
}

impl UsedUpQuota {
    /// Returns `true` if the quota counts this candidate as well.
    #[must_use]
    pub fn counts(&self, candidate: &Candidate) -> bool {
        candidate.region == self.region && candidate.quota.as_ref() == Some(&self.code)
    }
}

/// The candidates of a pass that EC2 has refused for good. A job ends only once all are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RefusedCandidates {
    /// Refused candidates, by their place in the ranking.
    pub candidates: Vec<u8>,
    /// Reasons for the refusals, each once; at most [`RefusedCandidates::REASONS_MAX`].
    pub reasons: Vec<String>,
}

impl RefusedCandidates {
    /// The most reasons that are kept, so that the state stays small and a message readable.
    pub const REASONS_MAX: usize = 3;

    /// Adds one candidate, and the reason unless it is known.
    pub fn add(&mut self, candidate: u8, reason: &str) {
        if !self.candidates.contains(&candidate) {
            self.candidates.push(candidate);
        }
        if self.reasons.len() < Self::REASONS_MAX && !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }
}

/// The machine of an attempt, or all machines of a gang: place, price and times are the attempt's, and only the instances differ.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobMachine {
    /// The machine, or node 0 of a gang.
    pub instance: ResourceId,
    /// The nodes 1 and up of a gang, by EC2's launch index; empty for a single machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<ResourceId>,
    /// The launch of a gang ([`launch_id`](crate::launch_id)), which names the folder of its documents; empty for a single machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub launch: String,
    pub region: Region,
    pub zone: String,
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    /// Market on which it was bought.
    pub lifecycle: Lifecycle,
    /// Highest price that it can cost, all nodes together.
    pub rate_max: Rate,
    /// Price at its launch, all nodes together.
    pub rate: Rate,
    /// Cost of its checkpoints, where it is not in the bucket's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferCost>,
    pub attempt: u32,
    /// Index of its pool in the ranking.
    pub candidate: u8,
    pub launched_at: Timestamp,
    /// The attempt's absolute end.
    pub ends_at: Timestamp,
}

impl JobMachine {
    /// Returns its instances, by node.
    pub fn instances(&self) -> impl Iterator<Item = &ResourceId> {
        std::iter::once(&self.instance).chain(&self.members)
    }

    /// Returns `true` if the instance is one of them.
    #[must_use]
    pub fn has(&self, instance: &ResourceId) -> bool {
        self.instances().any(|own| own == instance)
    }

    /// Returns the machines that are not among those; `None` if none is left.
    #[must_use]
    pub fn without<'a>(&self, others: impl IntoIterator<Item = &'a ResourceId>) -> Option<Self> {
        let others: Vec<&ResourceId> = others.into_iter().collect();
        let mut left = self.instances().filter(|own| !others.contains(own)).cloned();
        let instance = left.next()?;
        Some(Self { instance, members: left.collect(), ..self.clone() })
    }

    /// Returns the launch of a gang; `None` for a single machine.
    #[must_use]
    pub fn gang(&self, job: &JobId) -> Option<GangLaunch> {
        let nodes = Node::try_from(self.members.len().checked_add(1)?).ok()?;
        let gang = GangLaunch { job: job.clone(), attempt: self.attempt, launch: self.launch.clone(), nodes };
        Some(gang).filter(GangLaunch::is_valid)
    }

    /// Names its type for people: `g5.xlarge`, or `4 × g6.12xlarge`.
    #[must_use]
    pub fn name_type(&self) -> String {
        match self.instances().count() {
            1 => self.instance_type.to_string(),
            nodes => format!("{nodes} × {}", self.instance_type),
        }
    }

    /// Names what is lost, for people: `i-0abc, the machine of attempt 2,`, or one of a gang's machines.
    #[must_use]
    pub fn name_lost(&self) -> String {
        let (named, attempt) = (self.name_instances(), self.attempt);
        match self.members.len() {
            0 => format!("{named}, the machine of attempt {attempt},"),
            _ => format!("one of {named}, the machines of attempt {attempt},"),
        }
    }

    /// Names its instances for people: `i-0abc`, or `i-0abc and 3 more`.
    #[must_use]
    pub fn name_instances(&self) -> String {
        match self.members.len() {
            0 => self.instance.to_string(),
            more => format!("{} and {more} more", self.instance),
        }
    }
}

/// A machine that has to be gone first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MachineReplacement {
    pub machine: JobMachine,
    pub lost: LossReason,
    pub since: Timestamp,
}

/// The way in which a machine was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// AWS took it back, after a warning or without one.
    Reclaimed,
    /// Its agent never sent a heartbeat.
    NoHeartbeat,
    /// The machine stopped sending heartbeats.
    HeartbeatStopped,
    /// The machine shut itself down and left no result.
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
    /// The machine is gone for an unknown reason.
    Gone,
    /// The machine ran on past its absolute end.
    Overdue,
    /// The machine was left for one on demand.
    Deadline,
    /// The machine was left for one on Spot.
    ReturnedToSpot,
    /// Its command failed.
    CommandFailed,
}

/// The wait of a job until there is capacity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityWait {
    /// Time of the next try.
    pub until: Timestamp,
    /// Passes through the ranking that came to nothing.
    pub passes: u32,
    /// Last answer of EC2.
    #[serde(rename = "said")]
    pub message: String,
}

/// The wait of a job after a failed attempt, until the next one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryWait {
    /// The machine that may still run: it has to be gone first.
    pub machine: Option<JobMachine>,
    /// The failure of the attempt, and the number and time of the retry; for the job's owner.
    pub why: String,
    /// Time at which the failure was read.
    pub since: Timestamp,
    /// Time of the retry.
    pub until: Timestamp,
}

/// The hold of a job that may not be launched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchHold {
    pub by: HoldReason,
    /// The explanation, for the job's owner.
    pub why: String,
    /// Time at which the hold is looked at again.
    pub until: Timestamp,
    /// Passes through the ranking that came to nothing.
    pub passes: u32,
}

/// The reason for which a job is held.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldReason {
    /// A budget is spent, or its state is unknown.
    Budget,
    /// A quota of the account.
    Quota,
    /// `CURFEW_MODE=observe`, or no confirmed subscription.
    Observing,
    /// A permission that the role had before, or is about to get.
    Permission,
    /// The account has no service-linked role for Spot.
    SpotRole,
    /// EC2 does not know the instance profile of its machines.
    InstanceProfile,
    /// Its machines would get no role: their team has none, or they may not have it.
    Role,
    /// The configuration does not allow its team what it names, or does not name its team.
    NotAllowed,
    /// No fitting pool is known, or no price of one, or no image.
    Unplaceable,
    /// Its deadline cannot be met.
    Deadline,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobEnd {
    /// Its name in documents.
    pub result: JobResult,
    /// The explanation, for the job's owner.
    pub why: String,
    pub at: Timestamp,
    /// The machine that may still run.
    pub machine: Option<JobMachine>,
    /// `true` if the reservation has been given back.
    pub released: bool,
    /// `true` if nothing is left to do.
    pub closed: bool,
}

/// Its name in documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobResult {
    /// The command came to its end.
    Succeeded,
    /// The command failed, or could never be run.
    Failed,
    /// Time or money ran out.
    Expired,
    /// A person ended it.
    Cancelled,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next::tests::fixture::placed;

    /// A machine as it was written before there were gangs.
    const ALONE: &str = r#"{"instance":"i-1","region":"us-east-1","zone":"us-east-1a","type":"g6.xlarge","lifecycle":"spot","rate_max":0.8,"rate":0.3,"attempt":2,"candidate":0,"launched_at":"2026-11-22T05:00:00Z","ends_at":"2026-11-22T12:00:00Z"}"#;

    #[test]
    fn a_single_machine_is_written_as_before_there_were_gangs() {
        let read: JobMachine = serde_json::from_str(ALONE).unwrap();
        assert_eq!((read.members.len(), read.launch.as_str()), (0, ""));
        assert_eq!(serde_json::to_string(&read).unwrap(), ALONE);
        let job = JobId { team: "vision".into(), job: "llama-0123abcd".to_owned() };
        assert_eq!(
            (read.gang(&job), read.name_type(), read.name_instances()),
            (None, "g6.xlarge".into(), "i-1".into())
        );
    }

    #[test]
    fn a_gang_has_all_its_instances() {
        let (members, launch) = (vec!["i-2".into(), "i-3".into()], "0123456789abcdef".to_owned());
        let machine = JobMachine { members, launch, ..placed("i-1", 2) };
        let written = serde_json::to_string(&machine).unwrap();
        assert!(written.contains(r#""members":["i-2","i-3"],"launch":"0123456789abcdef""#), "{written}");
        assert_eq!(serde_json::from_str::<JobMachine>(&written).unwrap(), machine);
        for (instance, is_its) in [("i-1", true), ("i-3", true), ("i-4", false)] {
            assert_eq!(machine.has(&instance.into()), is_its, "{instance}");
        }
        assert_eq!(
            (machine.name_type().as_str(), machine.name_instances().as_str()),
            ("3 × g6.xlarge", "i-1 and 2 more")
        );
        let job = JobId { team: "vision".into(), job: "llama-0123abcd".to_owned() };
        assert_eq!(machine.gang(&job).map(|gang| (gang.nodes, gang.attempt)), Some((3, 2)));
        // A launch that is none of Curfew's names no folder.
        assert_eq!(JobMachine { launch: "..".to_owned(), ..machine }.gang(&job), None);
    }
}
