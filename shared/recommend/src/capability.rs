//! Features that a workload asks for and the hardware of a GPU lacks.
//!
//! The workload runs nevertheless: slower, or in another precision. So a lacking feature is shown with a place, and changes neither whether
//! the workload fits nor the rank.

use std::sync::LazyLock;

use model::table::embedded_table;
use serde::Serialize;
use sizing::{Change, Precision, Remedy, Workload};

/// Feature that only some GPUs have in hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuFeature {
    Bf16,
    Tf32,
    Fp8,
    FlashAttention,
}

/// Major and minor version.
type ComputeCapability = (u8, u8);

/// Compute capabilities by the names of EC2: `data/gpu_capabilities.csv`.
static CAPABILITIES: LazyLock<Vec<(&str, ComputeCapability)>> = LazyLock::new(|| {
    embedded_table("gpu_capabilities.csv", include_str!("../../../data/gpu_capabilities.csv"), |row| {
        Ok((row.text("gpu")?, (row.value("major")?, row.value("minor")?)))
    })
});

/// The sources of what a GPU lacks, for people.
pub const CAPABILITY_SOURCE: &str =
    "NVIDIA, CUDA GPU Compute Capability, and Transformer Engine, support matrix; FlashAttention, README; 2026";

impl GpuFeature {
    /// Returns the features that a workload asks for. Weights in 4 bits and in int8 are computed with in 16 bits, which may be fp16.
    #[must_use]
    pub fn needed_by(workload: &Workload) -> Vec<Self> {
        let of_precision = match workload.precision {
            Precision::Bf16 => Some(Self::Bf16),
            Precision::Tf32 => Some(Self::Tf32),
            Precision::Fp8 => Some(Self::Fp8),
            Precision::Fp32
            | Precision::Fp16
            | Precision::Int8
            | Precision::Int4
            | Precision::Nf4
            | Precision::Mxfp4
            | Precision::Nvfp4 => None,
        };
        of_precision.into_iter().chain(workload.flash_attention.then_some(Self::FlashAttention)).collect()
    }

    /// Returns those of `needed` that this GPU lacks; none for a GPU without a known compute capability.
    #[must_use]
    pub fn lacking(needed: &[Self], gpu_name: &str) -> Vec<Self> {
        let capability = CAPABILITIES.iter().find(|(name, _)| name.eq_ignore_ascii_case(gpu_name));
        let lacks = |feature: &Self| capability.is_some_and(|(_, capability)| *capability < feature.capability_min());
        needed.iter().copied().filter(lacks).collect()
    }

    /// bf16 and fp8: NVIDIA, "Transformer Engine", "Datatype and hardware support matrix". tf32: NVIDIA, "CUTLASS", Ampere.
    /// `FlashAttention`: its README, "NVIDIA CUDA Support", where version 2 begins with Ampere.
    const fn capability_min(self) -> ComputeCapability {
        match self {
            Self::Bf16 | Self::Tf32 | Self::FlashAttention => (8, 0),
            Self::Fp8 => (8, 9),
        }
    }

    /// Describes for people that a GPU lacks it.
    #[must_use]
    pub const fn absence(self) -> &'static str {
        match self {
            Self::Bf16 => "no hardware for bf16",
            Self::Tf32 => "no hardware for tf32",
            Self::Fp8 => "no hardware for fp8",
            Self::FlashAttention => "no FlashAttention-2",
        }
    }

    /// Describes the effect of the lack, and the step to take.
    #[must_use]
    pub const fn consequence(self) -> &'static str {
        match self {
            Self::Bf16 => "Without hardware for bf16 it is emulated, which is slower: choose fp16.",
            Self::Tf32 => "Without hardware for tf32 the GPU computes in fp32, which is slower.",
            Self::Fp8 => "Without hardware for fp8 only the weights are kept in it, and the GPU computes in 16 bits.",
            Self::FlashAttention => {
                "Without FlashAttention-2 the estimate holds with another attention that keeps no matrix of scores, such as PyTorch's \
                 memory-efficient one."
            }
        }
    }
}

/// Adapts the changes to a GPU that has no bf16: fp16 takes as much memory.
#[must_use]
pub fn suit_remedies(mut remedies: Vec<Remedy>, gpu_name: &str) -> Vec<Remedy> {
    if !GpuFeature::lacking(&[GpuFeature::Bf16], gpu_name).is_empty() {
        for remedy in remedies.iter_mut().filter(|remedy| remedy.change == Change::Precision(Precision::Bf16)) {
            remedy.change = Change::Precision(Precision::Fp16);
            remedy.workload.precision = Precision::Fp16;
        }
    }
    remedies
}

#[cfg(test)]
mod tests {
    use sizing::{Parallelism, Task, read_params, remedies};

    use super::*;
    use crate::tabled_offers;

    fn check(precision: Precision, expect: &[(&str, &[GpuFeature])]) {
        let needed = GpuFeature::needed_by(&Workload::new(Task::Inference, precision));
        for (gpu_name, lacking) in expect {
            assert_eq!(GpuFeature::lacking(&needed, gpu_name), *lacking, "{precision} {gpu_name}");
        }
    }

    #[test]
    fn no_gpu_has_two_compute_capabilities() {
        let names: std::collections::BTreeSet<&str> = CAPABILITIES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), CAPABILITIES.len());
        assert!(CAPABILITIES.iter().all(|(_, capability)| ((3, 0)..(20, 0)).contains(capability)));
    }

    #[test]
    fn what_came_with_ampere_and_ada_is_lacking_before_them() {
        use GpuFeature::{Bf16, FlashAttention, Fp8, Tf32};
        check(
            Precision::Bf16,
            &[("V100", &[Bf16, FlashAttention]), ("T4g", &[Bf16, FlashAttention]), ("A10G", &[]), ("H100", &[])],
        );
        check(Precision::Fp8, &[("T4", &[Fp8, FlashAttention]), ("A100", &[Fp8]), ("L4", &[]), ("B300", &[])]);
        check(Precision::Tf32, &[("T4", &[Tf32, FlashAttention]), ("A100", &[])]);
        check(Precision::Fp16, &[("T4", &[FlashAttention]), ("of tomorrow", &[])]);
        check(Precision::Int4, &[("T4", &[FlashAttention])]);
    }

    #[test]
    fn a_gpu_without_bf16_is_advised_fp16() {
        let (model, workload) = (read_params("3b").unwrap(), Workload::new(Task::Inference, Precision::Fp32));
        let advised = |gpu_name| {
            let remedies = remedies(&model, &workload, Parallelism::ONE_GPU, 12 << 30);
            let remedies = suit_remedies(remedies, gpu_name);
            remedies
                .into_iter()
                .find(|remedy| matches!(remedy.change, Change::Precision(_)))
                .unwrap()
                .workload
                .precision
        };
        assert_eq!((advised("T4"), advised("L4")), (Precision::Fp16, Precision::Bf16));
    }

    #[test]
    fn every_gpu_of_the_table_has_a_compute_capability() {
        for offer in tabled_offers(&["us-east-1".into()]) {
            assert!(CAPABILITIES.iter().any(|(name, _)| *name == offer.gpu_name), "{}", offer.gpu_name);
        }
    }
}
