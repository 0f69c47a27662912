//! Weights, gradients and the optimizer's states: what a model takes whatever it is fed with.

use std::fmt::Write as _;

use crate::architecture::{PublishedFormat, QuantizedWeights};
use crate::estimate::{Sizing, part};
use crate::memory::MemoryPart;
use crate::parallelism::Strategy;
use crate::precision::Precision;
use crate::workload::{Offload, Optimizer, Task};

const ZERO_PAPER: &str = "ZeRO (Rajbhandari et al. 2020), section 3.1";
const MIXED_PRECISION: &str = "Hugging Face, \"Model training anatomy\", mixed precision: 18 bytes a parameter in all";
const OFFLOAD_PAGE: &str = "DeepSpeed, \"Memory Requirements\"; ZeRO-Offload (Ren et al. 2021), section 4";
const LORA_PAPER: &str = "LoRA (Hu et al. 2021), section 4.1; adapters in 32 bits as PEFT keeps them";

impl Sizing<'_> {
    /// The weights as the file keeps them, if they are counted so.
    fn quantized(&self) -> Option<&QuantizedWeights> {
        match &self.architecture.published {
            PublishedFormat::Quantized(weights) if self.workload.as_published => Some(weights),
            _ => None,
        }
    }

    /// Linear weights in the format of the workload. MXFP4 is published for experts only (`OpenAI`, gpt-oss model card, section 2.1).
    fn stored_linear(&self) -> u64 {
        let is_of_experts = self.storage() == Precision::Mxfp4 && self.architecture.experts.is_some();
        if is_of_experts { self.parameters.routed } else { self.parameters.linear }
    }

    fn stored_bytes(&self, parameters: u64) -> u128 {
        u128::from(parameters) * u128::from(self.storage().weight_millibits()) / 8_000
    }

    /// Bytes of all weights, wherever they are.
    fn weight_bytes(&self) -> u128 {
        if let Some(weights) = self.quantized() {
            return u128::from(weights.bytes);
        }
        let linear = self.stored_linear();
        self.stored_bytes(linear) + u128::from(self.parameters.total - linear) * u128::from(self.compute_bytes())
    }

    /// Bytes that one step of generating reads from memory at least: the weights that its tokens pass through, and half of the KV cache,
    /// which grows from nothing. Of a matrix of embeddings that predicts nothing it reads a row a sequence, and of the encoders nothing.
    pub(super) fn step_bytes(&self) -> u128 {
        let routed = match self.quantized() {
            Some(weights) => u128::from(weights.expert_bytes),
            None => self.stored_bytes(self.parameters.routed),
        };
        let is_read_by_row = self.architecture.has_head();
        let embeddings = if is_read_by_row { self.parameters.vocabulary_matrix } else { 0 };
        let unread = u128::from(embeddings + self.architecture.other_parts) * u128::from(self.compute_bytes());
        // At least: all sequences of a step may go through the same experts.
        let read = self.architecture.experts.map_or(routed, |experts| {
            routed * u128::from(experts.active.min(experts.count)) / u128::from(experts.count)
        });
        self.weight_bytes().saturating_sub(routed + unread) + read + u128::from(self.kv_cache().bytes) / 2
    }

    /// Over how many GPUs the weights are spread.
    fn weight_shards(&self) -> u128 {
        u128::from(self.parallelism.shards(&[Strategy::Zero3, Strategy::Tensor]))
    }

    /// Weights on the GPU, or on all GPUs together where they are spread.
    fn held_weight_bytes(&self) -> u128 {
        if self.workload.offload == Some(Offload::Weights) { 0 } else { self.weight_bytes() }
    }

    pub(super) fn weights(&self) -> MemoryPart {
        let (base, shards) = (self.held_weight_bytes(), self.weight_shards());
        let adapters = u128::from(self.adapter_parameters()) * u128::from(self.trained_bytes());
        let gathered = self.gathered_weight_bytes();
        let mut formula = self.describe_weights();
        if adapters > 0 {
            let _ = write!(formula, ", and {} of adapters x {} bytes", self.adapter_parameters(), self.trained_bytes());
        }
        if self.workload.offload == Some(Offload::Weights) {
            formula.push_str(", in the memory of the machine");
        } else if shards > 1 {
            let _ = write!(formula, ", / {shards} GPUs");
        }
        if gathered > 0 {
            formula.push_str(", and two blocks with the embeddings, gathered to compute with them");
        }
        let source = match self.workload.offload {
            Some(Offload::Weights) => OFFLOAD_PAGE,
            _ if self.is_adapted() => LORA_PAPER,
            _ => ZERO_PAPER,
        };
        part((base + adapters) / shards + gathered, formula, source)
    }

    fn describe_weights(&self) -> String {
        let storage = self.storage();
        let mut formula = format!("{} parameters in {storage}", self.parameters.total);
        if self.quantized().is_some() {
            formula.push_str(" as published");
        } else if storage.is_quantized() {
            let linear = self.stored_linear();
            let place = if linear < self.parameters.linear { "experts" } else { "linear layers" };
            let _ = write!(
                formula,
                ": {linear} in {place} x {} bits, the others x {} bits",
                f64::from(u32::try_from(storage.weight_millibits()).unwrap_or(u32::MAX)) / 1_000.0,
                8 * self.compute_bytes()
            );
        }
        formula
    }

    /// ZeRO-3 gathers each block before it is computed, and the next one at the same time. The embeddings stay gathered.
    fn gathered_weight_bytes(&self) -> u128 {
        let is_spread = self.parallelism.strategy == Strategy::Zero3 && self.parallelism.gpus > 1;
        if !is_spread && self.workload.offload != Some(Offload::Weights) {
            return 0;
        }
        let block = match self.quantized() {
            Some(weights) => u128::from(weights.largest_block_bytes),
            None => self.stored_bytes(self.parameters.largest_block),
        };
        let matrices = if self.architecture.embeddings.is_tied { 1 } else { 2 };
        2 * block + matrices * u128::from(self.parameters.vocabulary_matrix) * u128::from(self.compute_bytes())
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
        if self.workload.offload.is_some() {
            let block = self.parameters.largest_block;
            let bytes = self.compute_bytes();
            let formula =
                format!("{block} parameters of a block x {bytes} bytes, until they are in the memory of the machine");
            return part(u128::from(block) * u128::from(bytes), formula, OFFLOAD_PAGE);
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
        if self.trained() == 0 || self.workload.offload.is_some() {
            return MemoryPart::default();
        }
        let (bytes, mut formula) = self.optimizer_bytes();
        let bytes = bytes + self.step_bytes_of_optimizer();
        if self.step_bytes_of_optimizer() > 0 {
            formula
                .push_str(", and what a step takes beside them, less activations and logits, which are gone by then");
        }
        let shards = self.parallelism.shards(&[Strategy::Zero1, Strategy::Zero2, Strategy::Zero3, Strategy::Tensor]);
        if shards > 1 {
            let _ = write!(formula, ", / {shards} GPUs");
        }
        let source = match self.workload.optimizer {
            Optimizer::Adamw | Optimizer::Sgd => ZERO_PAPER,
            Optimizer::Adamw8bit => "8-bit Optimizers via Block-wise Quantization (Dettmers et al. 2021)",
            Optimizer::Adafactor => "Adafactor (Shazeer and Stern 2018), section 3",
            Optimizer::Lion => "Symbolic Discovery of Optimization Algorithms (Chen et al. 2023)",
        };
        part(bytes / u128::from(shards), formula, source)
    }

    /// A step of `AdamW` in PyTorch takes as much as the weights besides (PyTorch, `torch.optim.AdamW`, `foreach`). Activations and logits
    /// are gone by then. With weights in 32 bits besides, `DeepSpeed` and fused optimizers take nothing more.
    fn step_bytes_of_optimizer(&self) -> u128 {
        if self.workload.master_weights
            || self.workload.task != Task::Full
            || self.workload.optimizer != Optimizer::Adamw
        {
            return 0;
        }
        let shards =
            u128::from(self.parallelism.shards(&[Strategy::Zero1, Strategy::Zero2, Strategy::Zero3, Strategy::Tensor]));
        let gone = u128::from(self.activations().bytes) + u128::from(self.logits().bytes);
        (u128::from(self.trained()) * u128::from(self.trained_bytes())).saturating_sub(gone * shards)
    }

    /// States of the optimizer and the weights in 32 bits, on all GPUs together, and their formula.
    fn optimizer_bytes(&self) -> (u128, String) {
        let trained = self.trained();
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
        let mut formula = format!("{trained} parameters: {words}");
        if master > 0 {
            formula.push_str(", and 4 of the weights in 32 bits");
        }
        (states + u128::from(trained) * master, formula)
    }

    /// Memory of the machine that offloading takes, of all GPUs together.
    pub(super) fn host(&self) -> MemoryPart {
        let Some(offload) = self.workload.offload else { return MemoryPart::default() };
        let trained = self.trained();
        let (states, mut formula) = self.optimizer_bytes();
        let gradients = self.gradient_bytes();
        let _ = write!(formula, ", and {gradients} of gradients");
        let weights = if offload == Offload::Weights { self.weight_bytes() } else { 0 };
        if weights > 0 {
            let _ = write!(formula, ", and {} of the weights", self.compute_bytes());
        }
        part(states + u128::from(trained) * u128::from(gradients) + weights, formula, OFFLOAD_PAGE)
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
