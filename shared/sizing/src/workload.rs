//! Workloads: a task on a model, with its settings.

use std::fmt;
use std::str::FromStr;

use model::fault::InvalidValue;
use serde::{Deserialize, Serialize};

use crate::precision::{Precision, find_by_name};

/// The longest context that a published model takes is 10 million tokens (Llama 4 Scout).
pub const TOKENS_MAX: u32 = 1 << 24;

/// So many sequences at once are more than any server takes by default.
pub const BATCH_MAX: u32 = 1 << 16;

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
}

impl TaskSetting {
    const fn tasks(self) -> &'static [Task] {
        match self {
            Self::Optimizer | Self::GradientCheckpointing => &[Task::Full, Task::Lora, Task::Qlora],
            Self::LoraRank | Self::LoraTargets => &[Task::Lora, Task::Qlora],
        }
    }

    /// # Errors
    /// The task does not use it; the error names the tasks that do. `name` is what its author calls it.
    pub fn check_used(self, name: &str, task: Task) -> Result<(), InvalidValue> {
        if self.tasks().contains(&task) {
            return Ok(());
        }
        let tasks: Vec<&str> = self.tasks().iter().map(|task| task.as_str()).collect();
        Err(InvalidValue::new(format!(
            "{name} changes nothing in the task {task}; leave it out, or choose one of the tasks {}",
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
    /// Sequences at once: concurrent requests, or the micro-batch of training.
    pub batch: u32,
    /// The length of each, in tokens: the context, or the sequence length.
    pub tokens: u32,
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
}

impl Workload {
    /// Returns the usual workload of a task: the settings that people mean if they name none. LoRA's rank of 16 on every linear layer is
    /// the default of axolotl's and Unsloth's examples.
    #[must_use]
    pub const fn new(task: Task, precision: Precision) -> Self {
        Self {
            task,
            precision,
            batch: 1,
            tokens: if task.is_training() { 2_048 } else { 4_096 },
            optimizer: Optimizer::Adamw,
            gradient_checkpointing: false,
            flash_attention: true,
            master_weights: true,
            lora_rank: 16,
            lora_targets: LoraTargets::AllLinear,
            fused_loss: false,
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
