//! The model and its task, from the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use recommend::{FittingGpus, MachineShape, RunDuration, TokenWork};
use serde::Serialize;
use sizing::{
    BATCH_MAX, Fit, HF_CONFIG_BYTES_MAX, LORA_RANK_MAX, LoraTargets, MemoryEstimate, ModelArchitecture, Offload,
    Optimizer, Parallelism, Precision, Remedy, Strategy, Task, TaskSetting, Workload, estimate, fit,
    generation_step_bytes, host_gib_min, read_hf_config, read_mixture, read_params, read_tokens, remedies,
    smallest_parallelism,
};

use super::numbers::whole_number;
use crate::command_error::CommandError;

/// The numbers of GPUs that types have.
const GPU_COUNTS: [u32; 4] = [1, 2, 4, 8];

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(super) struct ModelArguments {
    /// The number of parameters of a decoder of text, such as 7b or 350m
    #[arg(long, value_name = "COUNT", group = "what", allow_hyphen_values = true)]
    params: Option<String>,
    /// The parameters that each token passes through, of a mixture of experts, such as 17b
    #[arg(long, value_name = "COUNT", requires = "params", conflicts_with = "hf_config", allow_hyphen_values = true)]
    active: Option<String>,
    /// The model's config.json, as Hugging Face has it
    #[arg(long, value_name = "FILE", group = "what")]
    hf_config: Option<PathBuf>,
    /// The task: inference, full, lora or qlora
    #[arg(long, value_name = "TASK", default_value_t = Task::Inference)]
    task: Task,
    /// The precision: fp32, tf32, bf16, fp16, fp8, int8, int4, nf4, mxfp4 or nvfp4 [default: that of the config.json, else bf16]
    #[arg(long, value_name = "FORMAT")]
    precision: Option<Precision>,
    /// The length of each sequence in tokens, such as 8k [default: 4096 for inference, 2048 for training]
    #[arg(long, value_name = "TOKENS", visible_alias = "seq-len", value_parser = read_tokens, allow_hyphen_values = true)]
    context: Option<u32>,
    /// Sequences at once: concurrent requests, or the micro-batch of training
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = whole_number::<u32>(1, BATCH_MAX),
        allow_negative_numbers = true
    )]
    batch: u32,
    /// The optimizer of training: adamw, adamw-8bit, adafactor, sgd or lion [default: adamw]
    #[arg(long, value_name = "NAME")]
    optimizer: Option<Optimizer>,
    /// Recompute activations in the backward pass of training instead of keeping them
    #[arg(long)]
    gradient_checkpointing: bool,
    /// The rank of LoRA [default: 16]
    #[arg(long, value_name = "RANK", value_parser = whole_number::<u32>(1, LORA_RANK_MAX), allow_negative_numbers = true)]
    lora_rank: Option<u32>,
    /// The layers that get an adapter of LoRA: query-value, attention or all-linear [default: all-linear]
    #[arg(long, value_name = "NAME")]
    lora_targets: Option<LoraTargets>,
    /// The most tokens of a prompt that are read at once [default: 8192]
    #[arg(long, value_name = "TOKENS", value_parser = read_tokens, allow_hyphen_values = true)]
    prefill_chunk: Option<u32>,
    /// Train purely in 16 bits: weights, gradients and the optimizer's states
    #[arg(long)]
    pure_bf16: bool,
    /// Compute the loss of training in pieces, as Liger kernels do
    #[arg(long)]
    fused_loss: bool,
    /// Keep parts of a full training in the memory of the machine: optimizer, or weights with all of it
    #[arg(long, value_name = "WHAT")]
    offload: Option<Offload>,
    /// Share the model among at least so many GPUs of one machine, instead of the fewest that hold it
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole_number::<u32>(1, 16), allow_negative_numbers = true)]
    gpus: u32,
}

/// A model, its task, and what that takes on one GPU.
pub(super) struct Sized {
    pub(super) architecture: ModelArchitecture,
    pub(super) workload: Workload,
    pub(super) on_one_gpu: MemoryEstimate,
    /// The name of the model, for a comment.
    pub(super) name: String,
    gpus_min: u32,
}

/// The spread of the workload over the GPUs of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct GpuFit {
    pub(super) strategy: Strategy,
    /// GPUs that hold it; a type may have more, which it does not use.
    pub(super) gpus: u32,
    pub(super) needed_bytes: u64,
    pub(super) usable_bytes: u64,
}

/// The memory on each GPU, spread in one way.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    pub(super) strategy: Strategy,
    /// GiB on each of 1, 2, 4 and 8 GPUs; null if the model cannot be split so.
    pub(super) gib_by_gpus: Vec<(u32, Option<f64>)>,
}

impl ModelArguments {
    /// Reads the model, and sizes it for one GPU.
    pub(super) fn size(&self) -> Result<Sized, CommandError> {
        let (architecture, name) = match (&self.params, &self.hf_config) {
            (Some(params), _) => {
                let (read, name) = match &self.active {
                    Some(active) => (read_mixture(params, active), format!("--params {params} --active {active}")),
                    None => (read_params(params), format!("--params {params}")),
                };
                (read.map_err(|error| CommandError::new(format!("--params: {error}")))?, name)
            }
            (None, Some(file)) => (read_file(file)?, format!("--hf-config {}", file.display())),
            (None, None) => return Err(unnamed()),
        };
        self.check_settings()?;
        let usual = Workload::for_model(self.task, self.precision, &architecture).map_err(|error| {
            CommandError::with(error.to_string(), "pass the format in which it is used, such as --precision int4")
        })?;
        let workload = Workload {
            batch: self.batch,
            tokens: self.context.unwrap_or(usual.tokens),
            optimizer: self.optimizer.unwrap_or(usual.optimizer),
            gradient_checkpointing: self.gradient_checkpointing,
            lora_rank: self.lora_rank.unwrap_or(usual.lora_rank),
            lora_targets: self.lora_targets.unwrap_or(usual.lora_targets),
            prefill_chunk: self.prefill_chunk.unwrap_or(usual.prefill_chunk),
            master_weights: !self.pure_bf16,
            fused_loss: self.fused_loss,
            offload: self.offload,
            ..usual
        };
        let on_one_gpu = estimate(&architecture, &workload, Parallelism::ONE_GPU).map_err(CommandError::new)?;
        Ok(Sized { architecture, workload, on_one_gpu, name, gpus_min: self.gpus })
    }

    fn check_settings(&self) -> Result<(), CommandError> {
        let settings = [
            ("--optimizer", self.optimizer.is_some(), TaskSetting::Optimizer),
            ("--gradient-checkpointing", self.gradient_checkpointing, TaskSetting::GradientCheckpointing),
            ("--lora-rank", self.lora_rank.is_some(), TaskSetting::LoraRank),
            ("--lora-targets", self.lora_targets.is_some(), TaskSetting::LoraTargets),
            ("--prefill-chunk", self.prefill_chunk.is_some(), TaskSetting::PrefillChunk),
            ("--pure-bf16", self.pure_bf16, TaskSetting::PureBf16),
            ("--fused-loss", self.fused_loss, TaskSetting::FusedLoss),
            ("--offload", self.offload.is_some(), TaskSetting::Offload),
        ];
        let mut named = settings.into_iter().filter(|(_, is_named, _)| *is_named);
        named.try_for_each(|(option, _, setting)| setting.check_used(option, self.task)).map_err(CommandError::new)
    }
}

fn unnamed() -> CommandError {
    CommandError::with(
        "nothing to recommend for: no model is named",
        "pass --params 7b or --hf-config config.json, or look at what was used with --from-usage",
    )
}

fn read_file(file: &Path) -> Result<ModelArchitecture, CommandError> {
    use std::io::Read as _;

    let cannot = |error| CommandError::new(format!("{} cannot be read: {error}", file.display()));
    let bytes_max = u64::try_from(HF_CONFIG_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let open = std::fs::File::open(file).map_err(cannot)?;
    open.take(bytes_max).read_to_end(&mut bytes).map_err(cannot)?;
    // What is no text is no JSON either, at that place.
    read_hf_config(&String::from_utf8_lossy(&bytes))
        .map_err(|error| CommandError::new(format!("{}: {error}", file.display())))
}

impl Sized {
    /// The fewest GPUs of a machine that hold it, as many as were asked for or more.
    pub(super) fn fit(&self, shape: MachineShape) -> Option<FittingGpus<GpuFit>> {
        let MachineShape { gpus, gpu_memory_bytes, .. } = shape;
        let parallelism = smallest_parallelism(&self.architecture, &self.workload, gpu_memory_bytes, self.gpus_min)?;
        let estimate = estimate(&self.architecture, &self.workload, parallelism).ok()?;
        (parallelism.gpus <= gpus && shape.has_memory(host_gib_min(&estimate))).then_some(())?;
        let Fit { needed_bytes, usable_bytes, .. } = fit(&estimate, gpu_memory_bytes);
        let Parallelism { strategy, gpus } = parallelism;
        Some(FittingGpus { gpus, fit: GpuFit { strategy, gpus, needed_bytes, usable_bytes } })
    }

    /// Returns `true` if one GPU with this memory holds it.
    pub(super) fn fits_one(&self, gpu_memory_bytes: u64) -> bool {
        fit(&self.on_one_gpu, gpu_memory_bytes).fits
    }

    /// The changes that make it fit one GPU with this memory.
    pub(super) fn remedies(&self, gpu_memory_bytes: u64) -> Vec<Remedy> {
        remedies(&self.architecture, &self.workload, Parallelism::ONE_GPU, gpu_memory_bytes)
    }

    /// Spread over several GPUs, in every way.
    pub(super) fn spreads(&self) -> Vec<Spread> {
        let strategies = Strategy::ALL.into_iter();
        let sensible = strategies.filter(|strategy| match strategy {
            Strategy::Data | Strategy::Tensor => true,
            Strategy::Zero1 | Strategy::Zero2 | Strategy::Zero3 => self.workload.task.is_training(),
        });
        let gib = |strategy, gpus| {
            let estimate = estimate(&self.architecture, &self.workload, Parallelism::new(strategy, gpus)).ok()?;
            Some((sizing::to_gib(estimate.total_bytes()) * 100.0).round() / 100.0)
        };
        let spread = |strategy| Spread {
            strategy,
            gib_by_gpus: GPU_COUNTS.into_iter().map(|gpus| (gpus, gib(strategy, gpus))).collect(),
        };
        sensible.map(spread).collect()
    }

    /// The time for this number of tokens.
    #[expect(clippy::cast_precision_loss, reason = "it is an estimate of two digits")]
    pub(super) fn work(&self, tokens: f64) -> RunDuration {
        let parameters = self.on_one_gpu.parameters.active as f64;
        let has_bound = self.workload.offload.is_none();
        // An encoder reads all tokens of its sequences in one step.
        let tokens_per_sequence = if self.architecture.is_encoder { self.workload.tokens } else { 1 };
        RunDuration::Tokens(match self.workload.task {
            Task::Inference => TokenWork::Generation {
                tokens,
                batch: f64::from(self.workload.batch) * f64::from(tokens_per_sequence),
                bytes_per_step: generation_step_bytes(&self.architecture, &self.workload).unwrap_or_default() as f64,
            },
            Task::Full => TokenWork::Training { tokens, operations_per_token: 6.0 * parameters, has_bound },
            Task::Lora | Task::Qlora => {
                TokenWork::Training { tokens, operations_per_token: 4.0 * parameters, has_bound }
            }
        })
    }
}
