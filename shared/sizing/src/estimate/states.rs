//! Weights, gradients and the optimizer's states: what a model takes whatever it is fed with.

use std::fmt::Write as _;

use crate::estimate::{Sizing, part};
use crate::memory::MemoryPart;
use crate::parallelism::Strategy;
use crate::workload::{Optimizer, Task};

const ZERO_PAPER: &str = "ZeRO (Rajbhandari et al. 2020), section 3.1";
const MIXED_PRECISION: &str = "Hugging Face, \"Model training anatomy\", mixed precision: 18 bytes a parameter in all";
const LORA_PAPER: &str = "LoRA (Hu et al. 2021), section 4.1; adapters in 32 bits as PEFT keeps them";

impl Sizing<'_> {
    /// Bytes of all weights, wherever they are.
    fn weight_bytes(&self) -> u128 {
        let linear = u128::from(self.parameters.linear);
        let other = u128::from(self.parameters.total) - linear;
        linear * u128::from(self.storage().weight_millibits()) / 8_000 + other * u128::from(self.compute_bytes())
    }

    /// Over how many GPUs the weights are spread.
    fn weight_shards(&self) -> u128 {
        u128::from(self.parallelism.shards(&[Strategy::Zero3, Strategy::Tensor]))
    }

    pub(super) fn weights(&self) -> MemoryPart {
        let (base, shards) = (self.weight_bytes(), self.weight_shards());
        let adapters = u128::from(self.adapter_parameters()) * u128::from(self.trained_bytes());
        let gathered = self.gathered_weight_bytes();
        let storage = self.storage();
        let mut formula = format!("{} parameters in {storage}", self.parameters.total);
        if storage.is_quantized() {
            let _ = write!(
                formula,
                ": {} in linear layers x {} bits, the others x {} bits",
                self.parameters.linear,
                f64::from(u32::try_from(storage.weight_millibits()).unwrap_or(u32::MAX)) / 1_000.0,
                8 * self.compute_bytes()
            );
        }
        if adapters > 0 {
            let _ = write!(formula, ", and {} of adapters x {} bytes", self.adapter_parameters(), self.trained_bytes());
        }
        if shards > 1 {
            let _ = write!(formula, ", / {shards} GPUs");
        }
        if gathered > 0 {
            formula.push_str(", and two blocks with the embeddings, gathered to compute with them");
        }
        let source = if self.is_adapted() { LORA_PAPER } else { ZERO_PAPER };
        part((base + adapters) / shards + gathered, formula, source)
    }

    /// ZeRO-3 gathers each block before it is computed, and the next one at the same time. The embeddings stay gathered.
    fn gathered_weight_bytes(&self) -> u128 {
        if self.parallelism.strategy != Strategy::Zero3 || self.parallelism.gpus == 1 {
            return 0;
        }
        let blocks =
            2 * u128::from(self.parameters.largest_block) * u128::from(self.storage().weight_millibits()) / 8_000;
        let matrices = if self.architecture.embeddings.is_tied { 1 } else { 2 };
        blocks + matrices * u128::from(self.parameters.vocabulary_matrix) * u128::from(self.compute_bytes())
    }

    /// Parameters that are trained.
    fn trained(&self) -> u64 {
        match self.workload.task {
            Task::Inference => 0,
            Task::Full => self.parameters.total,
            Task::Lora | Task::Qlora => self.adapter_parameters(),
        }
    }

    /// Bytes of a trained parameter, and of its gradient. Adapters are few, and are kept in 32 bits.
    fn trained_bytes(&self) -> u64 {
        if self.is_adapted() && self.workload.master_weights { 4 } else { self.compute_bytes() }
    }

    /// Mixed precision keeps gradients in 32 bits, as Megatron-LM and the `Trainer` of Hugging Face do. The ZeRO paper has them in 16.
    fn gradient_bytes(&self) -> u64 {
        if self.workload.master_weights { 4 } else { self.trained_bytes() }
    }

    pub(super) fn gradients(&self) -> MemoryPart {
        let trained = self.trained();
        if trained == 0 {
            return MemoryPart::default();
        }
        let shards = self.parallelism.shards(&[Strategy::Zero2, Strategy::Zero3, Strategy::Tensor]);
        let is_copied = self.parallelism.strategy == Strategy::Data && self.parallelism.gpus > 1;
        let copies = if is_copied { 2 } else { 1 };
        let of_one = self.gradient_bytes();
        let mut formula = format!("{trained} parameters x {of_one} bytes");
        if is_copied {
            formula.push_str(" x 2, because DistributedDataParallel keeps a copy in its buckets");
        }
        if shards > 1 {
            let _ = write!(formula, " / {shards} GPUs");
        }
        let bytes = u128::from(trained) * u128::from(of_one) * copies / u128::from(shards);
        part(
            bytes,
            formula,
            if is_copied { "PyTorch, DistributedDataParallel, gradient_as_bucket_view" } else { MIXED_PRECISION },
        )
    }

    pub(super) fn optimizer(&self) -> MemoryPart {
        let trained = self.trained();
        if trained == 0 {
            return MemoryPart::default();
        }
        let in_32_bits = self.compute_bytes() == 4 || self.workload.master_weights;
        let state = if in_32_bits { 4 } else { 2 };
        // Adapters in 32 bits are their own master copy.
        let master = if self.workload.master_weights && self.trained_bytes() == 2 { 4 } else { 0 };
        let (states, words) = match self.workload.optimizer {
            Optimizer::Adamw => (u128::from(trained) * 2 * state, format!("{} bytes of two moments", 2 * state)),
            Optimizer::Adamw8bit => (u128::from(trained) * 2, "2 bytes of two moments".to_owned()),
            Optimizer::Sgd | Optimizer::Lion => (u128::from(trained) * state, format!("{state} bytes of momentum")),
            Optimizer::Adafactor => {
                (u128::from(self.factored_parameters()) * 4, "4 bytes for each row and column".to_owned())
            }
        };
        let shards = self.parallelism.shards(&[Strategy::Zero1, Strategy::Zero2, Strategy::Zero3, Strategy::Tensor]);
        let mut formula = format!("{trained} parameters: {words}");
        if master > 0 {
            formula.push_str(", and 4 of the weights in 32 bits");
        }
        if shards > 1 {
            let _ = write!(formula, ", / {shards} GPUs");
        }
        let source = match self.workload.optimizer {
            Optimizer::Adamw | Optimizer::Sgd => ZERO_PAPER,
            Optimizer::Adamw8bit => "8-bit Optimizers via Block-wise Quantization (Dettmers et al. 2021)",
            Optimizer::Adafactor => "Adafactor (Shazeer and Stern 2018), section 3",
            Optimizer::Lion => "Symbolic Discovery of Optimization Algorithms (Chen et al. 2023)",
        };
        part((states + u128::from(trained) * master) / u128::from(shards), formula, source)
    }

    /// Rows and columns of all trained matrices.
    fn factored_parameters(&self) -> u64 {
        if self.is_adapted() {
            // Of each adapter the long side counts; the rank beside it is small.
            return self.adapter_parameters() / u64::from(self.workload.lora_rank);
        }
        let matrices = if self.architecture.embeddings.is_tied { 1 } else { 2 };
        let embeddings = u64::from(self.architecture.embeddings.vocabulary) + u64::from(self.architecture.hidden);
        self.architecture.adapter_parameters(1, crate::workload::LoraTargets::AllLinear) + matrices * embeddings
    }
}
