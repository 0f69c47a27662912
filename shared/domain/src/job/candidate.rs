//! Where a job can be launched.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{Region, ResourceId, TypeName};
use crate::money::Rate;

/// Every way to launch a job, best first, and what a launch needs to know. It is in the state before the first try, so that a try that is
/// repeated says exactly what it said before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ranking {
    /// When it was made.
    pub at: Timestamp,
    /// At most [`Ranking::MAX`] of them.
    pub candidates: Vec<Candidate>,
    /// One per region and architecture that a candidate names.
    pub images: Vec<Image>,
}

impl Ranking {
    /// So many candidates are kept: every type of every zone of two regions that somebody would wait for.
    pub const MAX: usize = 60;
}

/// One pool: a type in a zone, bought in one way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// Where.
    pub region: Region,
    /// Where in it.
    pub zone: String,
    /// The subnet.
    pub subnet: ResourceId,
    /// The type.
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    /// How it is bought.
    pub lifecycle: Lifecycle,
    /// What it costs now.
    pub rate: Rate,
    /// What it can cost at most: on Spot the highest price that is accepted.
    pub rate_max: Rate,
    /// Which quota counts it.
    pub quota: Option<Quota>,
    /// Which of [`Ranking::images`] it boots.
    pub image: u8,
}

/// How an instance is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifecycle {
    /// One-time Spot.
    Spot,
    /// On demand.
    OnDemand,
}

/// A quota of Service Quotas, such as `L-3819A6DF`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quota(pub String);

/// An image and what has to be said of it at a launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Image {
    /// Its id.
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
    /// The names of its other EBS devices. All of them are encrypted, and deleted with the instance.
    pub other_devices: Vec<String>,
}
