//! The CPUs and GPUs on which a job runs.

use super::CapacityPool;
use crate::JobTerms;

/// Architecture of a job that names none: packages of Python for arm64 often have no CUDA.
pub(super) const USUAL_ARCHITECTURE: &str = "x86_64";

/// GPUs older than NVIDIA Turing. The default image has NVIDIA's open kernel modules (AWS Deep Learning AMI developer guide, release notes
/// of "AWS Deep Learning Base OSS Nvidia Driver GPU AMI"), and these drive Turing and newer (README of NVIDIA's open-gpu-kernel-modules).
const TOO_OLD: [&str; 7] = ["K520", "K80", "M60", "P4", "P40", "P100", "V100"];

/// True if a job may run on the CPU of a pool. Named types, or a named GPU, say on which.
pub(super) fn has_architecture(terms: &JobTerms, pool: &CapacityPool) -> bool {
    match &terms.machine.architecture {
        Some(architecture) => pool.architecture == *architecture,
        None => !terms.types().0.is_empty() || terms.gpu.name.is_some() || pool.architecture == USUAL_ARCHITECTURE,
    }
}

/// Returns `true` if the driver of a job's image drives the GPUs of a pool. The owner of a job that names an image knows which driver that
/// has. The image of the configuration is for the jobs of all teams, and Curfew does not know its driver: it gets no other GPUs than the
/// built-in one. A GPU that EC2 does not name, or by a new name, counts as one that is driven.
pub(super) fn has_driver(terms: &JobTerms, pool: &CapacityPool) -> bool {
    let is_too_old =
        || pool.gpu_name.split(|one: char| !one.is_ascii_alphanumeric()).any(|word| TOO_OLD.contains(&word));
    terms.machine.ami.is_some() || !is_too_old()
}
