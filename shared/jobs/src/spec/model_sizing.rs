//! The GPUs that `[gpu] model` calls for.

use serde::Serialize;
use sizing::{MemoryEstimate, Precision, Task, to_gib};

/// Less than this would be shown as 0.0.
const SHOWN_GIB_MIN: f64 = 0.05;

/// The GPUs that a job needs for its model, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelSizing {
    /// The number of parameters, or the model type of its configuration file.
    pub model: String,
    pub task: Task,
    pub precision: Precision,
    /// Least memory of a GPU that is large enough, in GB.
    pub gpu_gb_min: u32,
    /// Least memory of the machine for what is offloaded, in GiB; 0 if nothing is.
    pub host_gib_min: u32,
    pub estimate: MemoryEstimate,
}

impl ModelSizing {
    /// Sentences for the owner of the job.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let Self { model, task, precision, gpu_gb_min, host_gib_min, estimate } = self;
        let gpus = estimate.parallelism.gpus;
        let parts: Vec<String> = estimate
            .parts()
            .iter()
            .filter(|(_, part)| to_gib(part.bytes) >= SHOWN_GIB_MIN)
            .map(|(name, part)| format!("{} {:.1}", name.replace('_', " "), to_gib(part.bytes)))
            .collect();
        let total = to_gib(estimate.total_bytes());
        let where_it_is = match gpus {
            1 => "one GPU".to_owned(),
            _ => format!("each of {}", estimate.parallelism),
        };
        let mut lines = vec![format!(
            "The model {model} ({task}, {precision}) takes about {total:.1} GiB on {where_it_is}, so a GPU has to have {gpu_gb_min} GB: {}",
            parts.join(", ")
        )];
        if *host_gib_min > 0 {
            lines.push(format!("The machine has to have {host_gib_min} GiB of memory for what is offloaded."));
        }
        lines.extend(estimate.assumptions.iter().map(|assumption| format!("Assumed: {assumption}")));
        lines
    }
}
