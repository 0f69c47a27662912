//! The pools from which a job can be launched.

use jiff::Timestamp;
use model::id::{Region, ResourceId, TypeName};
use model::money::Rate;
use serde::{Deserialize, Serialize};

use crate::efa::{InterfaceLayout, NetworkInterface};
use crate::spec::is_zero;
use crate::{Placement, TransferCost, VpcGroups};

/// Every way to launch a job, best first, and what a launch needs to know. It is in the state before the first try, so that a try that is
/// repeated says exactly what it said before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ranking {
    /// Time at which the ranking was made.
    pub at: Timestamp,
    /// The pools, at most [`Ranking::MAX`] of them.
    pub candidates: Vec<Candidate>,
    /// One per region and architecture that a candidate names.
    pub images: Vec<MachineImage>,
    /// `true` if jobs of another team had been accepted by then, as far as that was looked up: see [`machine_role`](super::machine_role).
    #[serde(default)]
    pub has_other_teams: bool,
    /// The machines that fit but were left out, and how to allow them; for the job's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl Ranking {
    /// The most candidates in a ranking: every type of every zone of two regions with a realistic price.
    pub const MAX: usize = 60;

    /// Takes in which quota counts a candidate: it counts all of its family that are bought alike in its region.
    pub fn correct_quota(&mut self, candidate: &Candidate, quota: &QuotaCode) {
        let family = |one: &Candidate| one.instance_type.as_str().split('.').next().map(str::to_owned);
        let is_alike = |one: &Candidate| {
            one.region == candidate.region && one.lifecycle == candidate.lifecycle && family(one) == family(candidate)
        };
        for one in self.candidates.iter_mut().filter(|one| is_alike(one)) {
            one.quota = Some(quota.clone());
        }
    }
}

/// One pool: a type in a zone, bought in one way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    pub region: Region,
    pub zone: String,
    pub subnet: ResourceId,
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    /// Market on which the instance is bought.
    pub lifecycle: Lifecycle,
    /// Present price, all nodes of the job together.
    pub rate: Rate,
    /// Highest price that it can cost, all nodes together: on Spot the highest price that is accepted, for each node.
    pub rate_max: Rate,
    /// The quota that counts it, by the table; after a refusal by a quota, by the answer of Service Quotas.
    pub quota: Option<QuotaCode>,
    /// Index of its image in [`Ranking::images`].
    pub image: u8,
    /// Cost of its checkpoints, where it is not in the bucket's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferCost>,
    /// The vCPUs of each machine of a gang; 0 for a single machine, whose quota EC2 itself compares.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vcpus: u32,
    /// Network of each machine of a job on several; `None` for a single machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Box<CandidateNetwork>>,
}

/// The network of each machine of a job on several machines, in one pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CandidateNetwork {
    /// The VPC of the subnet; `None` if EC2 did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<ResourceId>,
    /// The group that Curfew made for the job in that VPC; `None` before it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<ResourceId>,
    /// Security groups of each interface, with that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<ResourceId>,
    /// `true` if the machines are in a cluster placement group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_clustered: bool,
    /// Network interfaces, the primary one first; empty: the one that EC2 makes by itself, without EFA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NetworkInterface>,
    /// The EFA that it has, and why not more: `EFA: 1 of 32 cards, because …`; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efa: Option<String>,
}

impl CandidateNetwork {
    /// The network with these interfaces, before its security group is made. Without a wish it is in a placement group where it uses EFA.
    #[must_use]
    pub fn new(vpc: Option<ResourceId>, layout: InterfaceLayout, placement: Option<Placement>) -> Self {
        let efa = layout.describe();
        // EC2 makes a single plain interface by itself, and that request does without naming any.
        let has_efa = layout.interfaces.iter().any(|one| one.kind.is_efa());
        let is_clustered = placement.map_or(has_efa, |placement| placement == Placement::Cluster);
        let interfaces = if has_efa { layout.interfaces } else { Vec::new() };
        Self { vpc, interfaces, efa, is_clustered, group: None, security_groups: Vec::new() }
    }

    /// Adds the groups of the VPC to those that the job names. EC2 would add its default one only where none is named.
    pub fn add_groups(&mut self, named: &[ResourceId], groups: VpcGroups) {
        let VpcGroups { own, default } = groups;
        let default = default.filter(|_| named.is_empty());
        self.security_groups = named.iter().cloned().chain(default).chain([own.clone()]).collect();
        self.group = Some(own);
    }

    /// Describes it in a few words: `EFA, 4 cards each, placement group`, or `no EFA`.
    #[must_use]
    pub fn describe(&self) -> String {
        let efa = self.efa.as_deref().unwrap_or("no EFA");
        if self.is_clustered { format!("{efa}, placement group") } else { efa.to_owned() }
    }
}

/// The market on which an instance is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifecycle {
    /// One-time Spot.
    Spot,
    OnDemand,
}

/// A quota of Service Quotas, such as `L-3819A6DF`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuotaCode(pub String);

/// An image and what has to be said of it at a launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MachineImage {
    pub ami: ResourceId,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// The SHA-256 of the agent for it, in hex.
    pub agent_sha256: String,
    /// The name of its root device.
    pub root_device: String,
    /// The size of its root volume in GiB, below which EC2 makes none; 0 where EC2 does not say.
    #[serde(default)]
    pub root_gib: u32,
    /// `true` if every team's jobs may name it: EC2 says that it is public, or Amazon's; or it is that of `[jobs] image`.
    #[serde(default)]
    pub is_for_all: bool,
    /// The names of its other EBS devices. All of them are encrypted, and deleted with the instance.
    pub other_devices: Vec<String>,
}
