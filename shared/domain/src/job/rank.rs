//! Which pool is tried first.

use crate::id::{Region, ResourceId, TypeName};

/// A type in a zone, as EC2 tells of it, before prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Where.
    pub region: Region,
    /// Where in it.
    pub zone: String,
    /// A subnet there.
    pub subnet: ResourceId,
    /// The type.
    pub instance_type: TypeName,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// GPUs of NVIDIA; whole ones.
    pub gpus: u32,
    /// Of each GPU, in MiB.
    pub gpu_memory_mib: u32,
    /// Whether it is to be had on Spot at all.
    pub spot: bool,
}
