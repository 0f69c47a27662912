//! Memory that a workload takes on each GPU, part by part.

use std::fmt::Write as _;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::count::ParameterCount;
use crate::parallelism::Parallelism;

pub const BYTES_PER_GIB: u64 = 1 << 30;

/// One part of the memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryPart {
    pub bytes: u64,
    /// Computation, with the numbers.
    pub formula: String,
    /// Source of the formula.
    pub source: &'static str,
}

/// The memory of each GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEstimate {
    pub parallelism: Parallelism,
    pub parameters: ParameterCount,
    pub weights: MemoryPart,
    pub gradients: MemoryPart,
    pub optimizer: MemoryPart,
    pub activations: MemoryPart,
    /// Memory of the last layer and the loss.
    pub logits: MemoryPart,
    pub kv_cache: MemoryPart,
    /// Memory that the driver and the framework take for themselves.
    pub overhead: MemoryPart,
    /// Memory of the machine, not of a GPU, for what is offloaded from all GPUs together.
    pub host: MemoryPart,
    /// Assumptions, for people.
    pub assumptions: Vec<String>,
}

impl MemoryEstimate {
    /// The parts by name, as they are shown and written.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, &MemoryPart); 7] {
        [
            ("weights", &self.weights),
            ("gradients", &self.gradients),
            ("optimizer", &self.optimizer),
            ("activations", &self.activations),
            ("logits", &self.logits),
            ("kv_cache", &self.kv_cache),
            ("overhead", &self.overhead),
        ]
    }

    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (_, part)| sum.saturating_add(part.bytes))
    }

    /// Every part with its formula, the numbers in it and its source, a line each.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for (name, part) in self.parts().into_iter().filter(|(_, part)| part.bytes > 0) {
            let _ = writeln!(text, "{name:<12} {:>9.2} GiB  {}", to_gib(part.bytes), part.formula);
            let _ = writeln!(text, "{:>28}{}", "", part.source);
        }
        let _ = writeln!(
            text,
            "{:<12} {:>9.2} GiB on each GPU, with {}",
            "total",
            to_gib(self.total_bytes()),
            self.parallelism
        );
        if self.host.bytes > 0 {
            let _ = writeln!(text, "machine      {:>9.2} GiB  {}", to_gib(self.host.bytes), self.host.formula);
            let _ = writeln!(text, "{:>28}{}", "", self.host.source);
        }
        for assumption in &self.assumptions {
            let _ = writeln!(text, "Assumed: {assumption}");
        }
        text
    }
}

/// Bytes in GiB, to show them.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
pub fn to_gib(bytes: u64) -> f64 {
    bytes as f64 / BYTES_PER_GIB as f64
}

impl Serialize for MemoryEstimate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = |bytes: u64| (to_gib(bytes) * 1_000.0).round() / 1_000.0;
        let mut document = serializer.serialize_struct("MemoryEstimate", 14)?;
        document.serialize_field("strategy", &self.parallelism.strategy)?;
        document.serialize_field("gpus", &self.parallelism.gpus)?;
        document.serialize_field("parameters", &self.parameters.total)?;
        document.serialize_field("active_parameters", &self.parameters.active)?;
        document.serialize_field("weights_gib", &rounded(self.weights.bytes))?;
        document.serialize_field("gradients_gib", &rounded(self.gradients.bytes))?;
        document.serialize_field("optimizer_gib", &rounded(self.optimizer.bytes))?;
        document.serialize_field("activations_gib", &rounded(self.activations.bytes))?;
        document.serialize_field("logits_gib", &rounded(self.logits.bytes))?;
        document.serialize_field("kv_cache_gib", &rounded(self.kv_cache.bytes))?;
        document.serialize_field("overhead_gib", &rounded(self.overhead.bytes))?;
        document.serialize_field("total_gib", &rounded(self.total_bytes()))?;
        document.serialize_field("host_gib", &rounded(self.host.bytes))?;
        document.serialize_field("assumptions", &self.assumptions)?;
        document.end()
    }
}
