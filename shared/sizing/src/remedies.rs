//! Changes that make a workload fit.

use std::mem::discriminant;

use serde::Serialize;

use crate::architecture::ModelArchitecture;
use crate::estimate::estimate;
use crate::fit::fit;
use crate::memory::MemoryEstimate;
use crate::parallelism::{Parallelism, Strategy};
use crate::precision::Precision;
use crate::workload::{Optimizer, Task, Workload};

/// Numbers of GPUs that machines of EC2 have.
const GPU_COUNTS: [u32; 4] = [2, 4, 8, 16];

/// Shorter sequences are no use to anybody.
const TOKENS_WORTH_WHILE: u32 = 512;

/// One change of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Precision(Precision),
    GradientCheckpointing,
    FusedLoss,
    Optimizer(Optimizer),
    Task(Task),
    Batch(u32),
    /// Shorter sequences.
    Tokens(u32),
    Gpus(Parallelism),
}

/// A change, and what it comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    pub change: Change,
    pub workload: Workload,
    pub estimate: MemoryEstimate,
}

/// The single changes that make a workload fit GPUs of so many bytes: the least of each kind that is enough, those first that change nothing
/// of the result. Empty where it fits already, and where no single change is enough.
#[must_use]
pub fn remedies(
    architecture: &ModelArchitecture,
    workload: &Workload,
    parallelism: Parallelism,
    gpu_memory_bytes: u64,
) -> Vec<Remedy> {
    let fitting = |workload: &Workload, parallelism| {
        estimate(architecture, workload, parallelism).ok().filter(|estimate| fit(estimate, gpu_memory_bytes).fits)
    };
    if fitting(workload, parallelism).is_some() {
        return Vec::new();
    }
    let mut found: Vec<Remedy> = Vec::new();
    for change in changes(workload, parallelism) {
        if found.iter().any(|remedy| discriminant(&remedy.change) == discriminant(&change)) {
            continue;
        }
        let (workload, parallelism) = change.apply(workload, parallelism);
        found.extend(fitting(&workload, parallelism).map(|estimate| Remedy { change, workload, estimate }));
    }
    found
}

/// The fewest GPUs of so many bytes, `gpus_min` or more, that hold a workload, of one machine: sharded by ZeRO-3 to train, by tensor
/// parallelism to infer.
#[must_use]
pub fn smallest_parallelism(
    architecture: &ModelArchitecture,
    workload: &Workload,
    gpu_memory_bytes: u64,
    gpus_min: u32,
) -> Option<Parallelism> {
    let strategy = if workload.task.is_training() { Strategy::Zero3 } else { Strategy::Tensor };
    let more = GPU_COUNTS.into_iter().map(|gpus| Parallelism::new(strategy, gpus));
    std::iter::once(Parallelism::ONE_GPU).chain(more).filter(|parallelism| parallelism.gpus >= gpus_min).find(
        |parallelism| {
            estimate(architecture, workload, *parallelism).is_ok_and(|estimate| fit(&estimate, gpu_memory_bytes).fits)
        },
    )
}

impl Change {
    fn apply(self, workload: &Workload, parallelism: Parallelism) -> (Workload, Parallelism) {
        let mut changed = *workload;
        match self {
            Self::Precision(precision) => {
                changed.precision = precision;
                changed.as_published = false;
            }
            Self::GradientCheckpointing => changed.gradient_checkpointing = true,
            Self::FusedLoss => changed.fused_loss = true,
            Self::Optimizer(optimizer) => changed.optimizer = optimizer,
            Self::Task(task) => changed.task = task,
            Self::Batch(batch) => changed.batch = batch,
            Self::Tokens(tokens) => changed.tokens = tokens,
            Self::Gpus(parallelism) => return (changed, parallelism),
        }
        (changed, parallelism)
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Precision(precision) => write!(f, "precision {precision}"),
            Self::GradientCheckpointing => f.write_str("gradient checkpointing"),
            Self::FusedLoss => f.write_str("a loss that is computed in pieces"),
            Self::Optimizer(optimizer) => write!(f, "the optimizer {optimizer}"),
            Self::Task(task) => write!(f, "the task {task}"),
            Self::Batch(batch) => write!(f, "a batch of {batch}"),
            Self::Tokens(tokens) => write!(f, "sequences of {tokens} tokens"),
            Self::Gpus(parallelism) => write!(f, "{parallelism}"),
        }
    }
}

/// Every change that is worth a try; of each kind the least first.
fn changes(workload: &Workload, parallelism: Parallelism) -> Vec<Change> {
    let mut changes = Vec::new();
    let is_training = workload.task.is_training();
    if is_training && !workload.gradient_checkpointing {
        changes.push(Change::GradientCheckpointing);
    }
    if is_training && !workload.fused_loss {
        changes.push(Change::FusedLoss);
    }
    changes.extend(halves(workload.batch, 1).map(Change::Batch));
    let strategy = if is_training { Strategy::Zero3 } else { Strategy::Tensor };
    let more = GPU_COUNTS.into_iter().filter(|gpus| *gpus > parallelism.gpus);
    changes.extend(more.map(|gpus| Change::Gpus(Parallelism::new(strategy, gpus))));
    if is_training && workload.optimizer == Optimizer::Adamw {
        changes.push(Change::Optimizer(Optimizer::Adamw8bit));
    }
    let lower: &[Precision] = match (workload.task, workload.precision.compute_bytes()) {
        (Task::Inference, 4) => &[Precision::Bf16, Precision::Int8, Precision::Int4],
        (Task::Inference, _) => &[Precision::Int8, Precision::Int4],
        (_, 4) => &[Precision::Bf16],
        _ => &[],
    };
    // A format of 4 bits is no remedy for another one.
    let takes_less = |lower: &Precision| lower.weight_millibits() * 4 < workload.precision.weight_millibits() * 3;
    changes.extend(lower.iter().copied().filter(takes_less).map(Change::Precision));
    match workload.task {
        Task::Full => changes.extend([Change::Task(Task::Lora), Change::Task(Task::Qlora)]),
        Task::Lora => changes.push(Change::Task(Task::Qlora)),
        Task::Inference | Task::Qlora => {}
    }
    changes.extend(halves(workload.tokens, TOKENS_WORTH_WHILE).map(Change::Tokens));
    changes
}

/// Half of it, half of that, and so on.
fn halves(number: u32, least: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(number / 2), |half| Some(half / 2)).take_while(move |half| *half >= least)
}
