//! GPU memory that a model needs, to run or to train it: part by part, each with its formula and source. `docs/sizing.md` explains the
//! formulas, and compares them with measured cases.
//!
//! [`read_params`] or [`read_hf_config`] gives a [`ModelArchitecture`]; [`estimate()`] computes the memory of a [`Workload`] on each GPU;
//! [`fit()`] compares that with a GPU, and [`remedies()`] finds the single changes that make it fit.

mod architecture;
mod count;
mod estimate;
mod fit;
mod hf_config;
mod memory;
mod parallelism;
mod params;
mod precision;
mod remedies;
mod workload;

pub use architecture::{ArchitectureBasis, ModelArchitecture, PublishedFormat, QuantizedWeights};
pub use count::{ParameterCount, format_parameters};
pub use estimate::{WorkloadError, estimate, generation_step_bytes};
pub use fit::{Fit, USABLE_SHARE_PERCENT, fit, gpu_gb_min, host_gib_min};
pub use hf_config::{HF_CONFIG_BYTES_MAX, HfConfigError, read_hf_config};
pub use memory::{BYTES_PER_GIB, MemoryEstimate, MemoryPart, to_gib};
pub use parallelism::{GPUS_MAX, Parallelism, Strategy};
pub use params::{read_mixture, read_params, read_tokens};
pub use precision::Precision;
pub use remedies::{Change, Remedy, remedies, smallest_parallelism};
pub use workload::{
    BATCH_MAX, LORA_RANK_MAX, LoraTargets, Offload, Optimizer, PREFILL_CHUNK, TOKENS_MAX, Task, TaskSetting, Workload,
};
