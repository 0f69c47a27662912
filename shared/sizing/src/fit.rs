//! Comparison of an estimate with the memory of a GPU.

use serde::Serialize;

use crate::memory::{BYTES_PER_GIB, MemoryEstimate};

const BYTES_PER_GB: u64 = 1_000_000_000;

/// Share of a GPU's memory that a plan may use, in percent. vLLM uses 90 % by default (`gpu_memory_utilization`): the rest is for
/// fragmentation and for needs that no formula covers.
pub const USABLE_SHARE_PERCENT: u64 = 90;

/// An estimate beside a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fit {
    pub fits: bool,
    pub needed_bytes: u64,
    /// [`USABLE_SHARE_PERCENT`] of the GPU's memory.
    pub usable_bytes: u64,
}

/// Returns the smallest memory that a GPU needs for an estimate, in GB as GPUs are sold: units of 10^9 bytes.
#[must_use]
pub fn gpu_gb_min(estimate: &MemoryEstimate) -> u64 {
    (estimate.total_bytes() / USABLE_SHARE_PERCENT).saturating_mul(100).div_ceil(BYTES_PER_GB)
}

/// Returns the smallest memory that a machine needs for what is offloaded, in GiB; 0 if nothing is.
#[must_use]
pub fn host_gib_min(estimate: &MemoryEstimate) -> u64 {
    (estimate.host.bytes / USABLE_SHARE_PERCENT).saturating_mul(100).div_ceil(BYTES_PER_GIB)
}

/// Compares an estimate with the memory of one GPU, in bytes.
#[must_use]
pub fn fit(estimate: &MemoryEstimate, gpu_memory_bytes: u64) -> Fit {
    let needed_bytes = estimate.total_bytes();
    let usable_bytes = gpu_memory_bytes / 100 * USABLE_SHARE_PERCENT;
    Fit { fits: needed_bytes <= usable_bytes, needed_bytes, usable_bytes }
}
