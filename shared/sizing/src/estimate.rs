//! Estimate of the memory that a workload takes on each GPU.
//!
//! Sources: "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al. 2020), "Reducing Activation
//! Recomputation in Large Transformer Models" (Korthikanti et al. 2022), "QLoRA" (Dettmers et al. 2023), "LoRA" (Hu et al. 2021).

mod activations;
mod assumptions;
mod states;

use model::fault::InvalidValue;

use crate::architecture::ModelArchitecture;
use crate::memory::{MemoryEstimate, MemoryPart};
use crate::parallelism::{GPUS_MAX, Parallelism};
use crate::precision::Precision;
use crate::workload::{BATCH_MAX, LORA_RANK_MAX, TOKENS_MAX, Task, Workload};

/// Memory of the CUDA context, loaded kernels and the workspaces of cuBLAS on each GPU.
const OVERHEAD_BYTES: u64 = 1 << 30;

/// A workload that cannot be: why, and what can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(#[from] InvalidValue);

/// Inputs that the computation of every part shares.
#[derive(Clone, Copy)]
struct Sizing<'a> {
    architecture: &'a ModelArchitecture,
    workload: &'a Workload,
    parallelism: Parallelism,
    parameters: crate::count::ParameterCount,
}

/// The memory that a workload takes on each GPU.
///
/// # Errors
/// A workload that cannot be: a number out of range, weights that cannot be trained, or heads that cannot be cut so.
pub fn estimate(
    architecture: &ModelArchitecture,
    workload: &Workload,
    parallelism: Parallelism,
) -> Result<MemoryEstimate, WorkloadError> {
    check(architecture, workload, parallelism)?;
    let parameters = architecture.parameters();
    let sizing = Sizing { architecture, workload, parallelism, parameters };
    let overhead = MemoryPart {
        bytes: OVERHEAD_BYTES,
        formula: "the CUDA context, kernels and workspaces, whatever the model".to_owned(),
        source: "Hugging Face, \"Model training anatomy\"",
    };
    Ok(MemoryEstimate {
        parallelism,
        parameters,
        weights: sizing.weights(),
        gradients: sizing.gradients(),
        optimizer: sizing.optimizer(),
        activations: sizing.activations(),
        logits: sizing.logits(),
        kv_cache: sizing.kv_cache(),
        overhead,
        host: sizing.host(),
        assumptions: assumptions::assumptions(&sizing),
    })
}

/// Bytes that one step of generating reads from memory at least, on all GPUs together.
///
/// # Errors
/// A workload that cannot be, as with [`estimate()`].
pub fn generation_step_bytes(architecture: &ModelArchitecture, workload: &Workload) -> Result<u64, WorkloadError> {
    let parallelism = Parallelism::ONE_GPU;
    check(architecture, workload, parallelism)?;
    let sizing = Sizing { architecture, workload, parallelism, parameters: architecture.parameters() };
    Ok(u64::try_from(sizing.step_bytes()).unwrap_or(u64::MAX))
}

fn check(architecture: &ModelArchitecture, workload: &Workload, parallelism: Parallelism) -> Result<(), InvalidValue> {
    let numbers = [
        ("batch", workload.batch, BATCH_MAX),
        ("number of tokens", workload.tokens, TOKENS_MAX),
        ("number of tokens of a prompt that are read at once", workload.prefill_chunk, TOKENS_MAX),
        ("rank of LoRA", workload.lora_rank, LORA_RANK_MAX),
        ("number of GPUs", parallelism.gpus, GPUS_MAX),
    ];
    for (what, number, most) in numbers {
        if number == 0 || number > most {
            return Err(InvalidValue::new(format!("the {what} is {number}; write a whole number from 1 to {most}")));
        }
    }
    if workload.task == Task::Full && workload.precision.is_quantized() {
        return Err(InvalidValue::new(format!(
            "weights in {} cannot be trained; write `bf16`, or the task `qlora`, which trains adapters beside them",
            workload.precision
        )));
    }
    if workload.task.is_training() && !workload.master_weights && workload.precision.compute_bytes() == 4 {
        return Err(InvalidValue::new(format!(
            "training purely in 16 bits is not in {}; write `bf16`, or leave the precision out",
            workload.precision
        )));
    }
    let degree = parallelism.tensor_degree();
    let heads = architecture.attention.heads;
    if !u64::from(heads).is_multiple_of(degree) {
        return Err(InvalidValue::new(format!(
            "{heads} attention heads cannot be cut for {degree} GPUs; write a number of GPUs that divides {heads}"
        )));
    }
    Ok(())
}

impl Sizing<'_> {
    /// Returns the number of tokens of all sequences in one pass.
    fn tokens(&self) -> u128 {
        u128::from(self.workload.batch) * u128::from(self.workload.tokens)
    }

    /// Returns `true` if only adapters are trained.
    fn is_adapted(&self) -> bool {
        matches!(self.workload.task, Task::Lora | Task::Qlora)
    }

    /// Returns the format in which the weights of the linear layers are kept.
    fn storage(&self) -> Precision {
        match (self.workload.task, self.workload.precision) {
            (Task::Qlora, precision) if !precision.is_quantized() => Precision::Nf4,
            (_, precision) => precision,
        }
    }

    /// Bytes of a number that is computed with.
    fn compute_bytes(&self) -> u64 {
        self.workload.precision.compute_bytes()
    }

    fn adapter_parameters(&self) -> u64 {
        if !self.is_adapted() {
            return 0;
        }
        self.architecture.adapter_parameters(self.workload.lora_rank, self.workload.lora_targets)
    }
}

fn part(bytes: u128, formula: String, source: &'static str) -> MemoryPart {
    MemoryPart { bytes: u64::try_from(bytes).unwrap_or(u64::MAX), formula, source }
}
