//! Workloads: a task on a model, with its settings.

use std::fmt;
use std::str::FromStr;

use model::fault::InvalidValue;
use serde::{Deserialize, Serialize};

use crate::architecture::{ModelArchitecture, PublishedFormat};
use crate::precision::{Precision, find_by_name};

/// The longest context that a published model takes is 10 million tokens (Llama 4 Scout).
pub const TOKENS_MAX: u32 = 1 << 24;

/// So many sequences at once are more than any server takes by default.
pub const BATCH_MAX: u32 = 1 << 16;

/// Tokens of a prompt that a server reads at once: `max_num_batched_tokens` of vLLM's server, and `chunked_prefill_size` of `SGLang`, on GPUs
/// with 80 GB or less.
pub const PREFILL_CHUNK: u32 = 8_192;

/// "LoRA", table 6, tries ranks up to 64; thousands gain nothing.
pub const LORA_RANK_MAX: u32 = 8_192;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Serve or generate.
    Inference,
    /// Train every parameter.
    Full,
    /// Train adapters beside frozen weights.
    Lora,
    /// Train adapters beside frozen weights of 4 bits.
    Qlora,
}

impl Task {
    pub const ALL: [Self; 4] = [Self::Inference, Self::Full, Self::Lora, Self::Qlora];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Full => "full",
            Self::Lora => "lora",
            Self::Qlora => "qlora",
        }
    }

    /// Returns `true` if the task has a backward pass.
    #[must_use]
    pub const fn is_training(self) -> bool {
        !matches!(self, Self::Inference)
    }
}

/// A setting that only some tasks use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSetting {
    Optimizer,
    GradientCheckpointing,
    LoraRank,
    LoraTargets,
    PrefillChunk,
    PureBf16,
    FusedLoss,
    Offload,
}

impl TaskSetting {
    const fn tasks(self) -> &'static [Task] {
        match self {
            Self::Optimizer | Self::GradientCheckpointing | Self::PureBf16 | Self::FusedLoss => {
                &[Task::Full, Task::Lora, Task::Qlora]
            }
            Self::LoraRank | Self::LoraTargets => &[Task::Lora, Task::Qlora],
            Self::PrefillChunk => &[Task::Inference],
            Self::Offload => &[Task::Full],
        }
    }

    /// # Errors
    /// The task does not use it; the error names the tasks that do. `name` is what its author calls it.
    pub fn check_used(self, name: &str, task: Task) -> Result<(), InvalidValue> {
        if self.tasks().contains(&task) {
            return Ok(());
        }
        let tasks: Vec<&str> = self.tasks().iter().map(|task| task.as_str()).collect();
        let choice = if tasks.len() == 1 { "the task" } else { "one of the tasks" };
        Err(InvalidValue::new(format!(
            "{name} changes nothing in the task {task}; leave it out, or choose {choice} {}",
            tasks.join(", ")
        )))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    Adamw,
    /// The 8-bit `AdamW` of bitsandbytes.
    #[serde(rename = "adamw-8bit")]
    Adamw8bit,
    Adafactor,
    /// Stochastic gradient descent with momentum.
    Sgd,
    Lion,
}

impl Optimizer {
    pub const ALL: [Self; 5] = [Self::Adamw, Self::Adamw8bit, Self::Adafactor, Self::Sgd, Self::Lion];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adamw => "adamw",
            Self::Adamw8bit => "adamw-8bit",
            Self::Adafactor => "adafactor",
            Self::Sgd => "sgd",
            Self::Lion => "lion",
        }
    }
}

/// Parts of a full training that are in the memory of the machine instead of the GPU's, and computed or fetched from there: ZeRO-Offload and
/// ZeRO-Infinity of `DeepSpeed`, `CPUOffload` of FSDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offload {
    /// Gradients, the optimizer's states and the weights in 32 bits: `offload_optimizer` of `DeepSpeed`.
    Optimizer,
    /// All that, and the weights in 16 bits: `offload_param` of `DeepSpeed`, `CPUOffload(offload_params=True)` of FSDP.
    Weights,
}

impl Offload {
    pub const ALL: [Self; 2] = [Self::Optimizer, Self::Weights];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Weights => "weights",
        }
    }
}

/// Matrices that get an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoraTargets {
    /// Queries and values, the default of PEFT for Llama.
    QueryValue,
    /// Every matrix of attention.
    Attention,
    /// Every linear layer, as QLoRA does.
    AllLinear,
}

impl LoraTargets {
    pub const ALL: [Self; 3] = [Self::QueryValue, Self::Attention, Self::AllLinear];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueryValue => "query-value",
            Self::Attention => "attention",
            Self::AllLinear => "all-linear",
        }
    }
}

/// Task with a model, and its settings, on each GPU, or on each group of GPUs that share it by tensor parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Workload {
    pub task: Task,
    pub precision: Precision,
    /// `true` if the weights are in the format in which the model's file keeps them, with the parts that stay in 16 bits.
    pub as_published: bool,
    /// Sequences at once: concurrent requests, or the micro-batch of training.
    pub batch: u32,
    /// The length of each, in tokens: the context, or the sequence length.
    pub tokens: u32,
    /// The most tokens of a prompt that a decoder reads at once.
    pub prefill_chunk: u32,
    pub optimizer: Optimizer,
    pub gradient_checkpointing: bool,
    /// Attention that keeps no matrix of sequence length squared.
    pub flash_attention: bool,
    /// Training in 16 bits keeps a copy of the trained weights, and the optimizer's states, in 32.
    pub master_weights: bool,
    pub lora_rank: u32,
    pub lora_targets: LoraTargets,
    /// The loss is computed in pieces, as by Liger kernels, and never holds all logits in 32 bits.
    pub fused_loss: bool,
    pub offload: Option<Offload>,
}

impl Workload {
    /// Returns the usual workload of a task: the settings that people mean if they name none. LoRA's rank of 16 on every linear layer is
    /// the default of axolotl's and Unsloth's examples.
    #[must_use]
    pub const fn new(task: Task, precision: Precision) -> Self {
        Self {
            task,
            precision,
            as_published: false,
            batch: 1,
            tokens: if task.is_training() { 2_048 } else { 4_096 },
            prefill_chunk: PREFILL_CHUNK,
            optimizer: Optimizer::Adamw,
            gradient_checkpointing: false,
            flash_attention: true,
            master_weights: true,
            lora_rank: 16,
            lora_targets: LoraTargets::AllLinear,
            fused_loss: false,
            offload: None,
        }
    }

    /// Returns the usual workload of a task on a model: no longer than the model was made for. Without a precision it is that of the model's file: inference keeps the weights as
    /// published, and so do adapters beside weights that frameworks can train them with; everything else is in bf16.
    ///
    /// # Errors
    /// The file keeps the weights in a format that is not understood, the task uses them as they are, and no precision is given.
    pub fn for_model(
        task: Task,
        precision: Option<Precision>,
        architecture: &ModelArchitecture,
    ) -> Result<Self, InvalidValue> {
        let usual = match precision {
            Some(precision) => Self::new(task, precision),
            None => Self::from_published(task, &architecture.published)?,
        };
        let context_max = architecture.context_max.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
        Ok(Self { tokens: usual.tokens.min(context_max.max(1)), ..usual })
    }

    fn from_published(task: Task, published: &PublishedFormat) -> Result<Self, InvalidValue> {
        match published {
            PublishedFormat::Unknown(reason) if task != Task::Full => Err(InvalidValue::new(reason.clone())),
            PublishedFormat::Quantized(weights)
                if task == Task::Inference || (task != Task::Full && weights.trains_adapters) =>
            {
                Ok(Self { as_published: true, ..Self::new(task, weights.precision) })
            }
            PublishedFormat::Plain(Some(Precision::Fp16)) if task == Task::Inference => {
                Ok(Self::new(task, Precision::Fp16))
            }
            _ => Ok(Self::new(task, Precision::Bf16)),
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Offload {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        find_by_name(&Self::ALL, Self::as_str, text)
    }
}

impl fmt::Display for LoraTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Task {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        find_by_name(&Self::ALL, Self::as_str, text)
    }
}

impl FromStr for Optimizer {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        find_by_name(&Self::ALL, Self::as_str, text)
    }
}

impl FromStr for LoraTargets {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        find_by_name(&Self::ALL, Self::as_str, text)
    }
}
