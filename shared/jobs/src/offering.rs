//! The instance types that a region offers, and the pools that they make with the account's subnets.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{Region, ResourceId, TypeName};

use super::{CapacityPool, JobTerms};
use crate::efa::{NetworkCards, SubnetAddresses};

/// The kind of machine that a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineKind {
    /// Whole NVIDIA GPUs.
    Gpu,
    /// No accelerator.
    Cpu,
}

impl MachineKind {
    /// The kind of a job's machine.
    #[must_use]
    pub fn from_terms(terms: &JobTerms) -> Self {
        if terms.is_cpu_job() { Self::Cpu } else { Self::Gpu }
    }
}

/// Properties of a type that its pools take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeOffering {
    /// `x86_64` or `arm64`.
    pub architecture: &'static str,
    pub vcpus: u32,
    pub memory_mib: u32,
    /// GPUs of NVIDIA; whole ones.
    pub gpus: u32,
    /// EC2's name of each GPU; empty if EC2 does not say.
    pub gpu_name: String,
    /// Memory of each GPU, in MiB.
    pub gpu_memory_mib: u32,
    /// `true` if it is to be had on Spot at all.
    pub spot: bool,
    pub cards: NetworkCards,
}

/// Properties and zones of each type that is sold by the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeOfferings {
    pub kinds: BTreeMap<TypeName, TypeOffering>,
    /// Each type with each zone that offers it.
    pub zones: BTreeSet<(TypeName, String)>,
}

/// A subnet in which a job may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSubnet {
    pub addresses: SubnetAddresses,
    /// `None` if EC2 did not say.
    pub vpc: Option<ResourceId>,
}

/// One subnet a zone.
pub type ZoneSubnets = BTreeMap<String, ZoneSubnet>;

/// The network of a pool's machines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolNetwork {
    pub cards: NetworkCards,
    /// [`SubnetAddresses::are_public`].
    pub are_addresses_public: Option<bool>,
    /// `None` if EC2 did not say.
    pub vpc: Option<ResourceId>,
}

impl TypeOfferings {
    /// Every type in every zone that has it and a subnet, sorted by type and zone.
    #[must_use]
    pub fn pools(&self, region: &Region, subnets: &ZoneSubnets) -> Vec<CapacityPool> {
        let pool = |(name, zone): &(TypeName, String)| {
            let (kind, subnet) = (self.kinds.get(name)?, subnets.get(zone)?);
            Some(CapacityPool {
                region: region.clone(),
                zone: zone.clone(),
                subnet: subnet.addresses.subnet.clone(),
                instance_type: name.clone(),
                architecture: kind.architecture.to_owned(),
                gpus: kind.gpus,
                gpu_name: kind.gpu_name.clone(),
                gpu_memory_mib: kind.gpu_memory_mib,
                vcpus: kind.vcpus,
                memory_mib: kind.memory_mib,
                spot: kind.spot,
                network: PoolNetwork {
                    cards: kind.cards.clone(),
                    are_addresses_public: subnet.addresses.are_public,
                    vpc: subnet.vpc.clone(),
                },
            })
        };
        self.zones.iter().filter_map(pool).collect()
    }
}
