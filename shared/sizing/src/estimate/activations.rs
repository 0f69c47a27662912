//! Activations, logits and the KV cache: what a model takes for what it is fed with.

use crate::estimate::{Sizing, part};
use crate::memory::MemoryPart;

const ACTIVATIONS_PAPER: &str = "Korthikanti et al. 2022, sections 4 and 5, for each tensor of the block";

/// Elements that a token leaves behind in one block.
struct BlockElements {
    /// Elements on every GPU, even with tensor parallelism.
    replicated: u128,
    /// Cut by tensor parallelism.
    cut: u128,
}

impl Sizing<'_> {
    fn block_elements(&self) -> BlockElements {
        let architecture = self.architecture;
        let hidden = u128::from(architecture.hidden);
        // The input of each norm, of attention and of the MLP.
        let replicated = (u128::from(architecture.norms.per_layer) + 2) * hidden;
        let (query, value) = (u128::from(architecture.query_width()), u128::from(architecture.value_width()));
        let keys_and_values = match architecture.attention.latent {
            Some(latent) => query + value + u128::from(latent.kv_rank) + u128::from(latent.q_rank.unwrap_or(0)),
            None => 2 * u128::from(architecture.kv_width()),
        };
        BlockElements { replicated, cut: query + keys_and_values + value + self.mlp_elements() }
    }

    /// Elements that one token leaves in the MLP of the widest block. A gated MLP leaves its two products, the activated gate and their
    /// product; any other leaves the product before and after the activation.
    fn mlp_elements(&self) -> u128 {
        let architecture = self.architecture;
        let tensors = if architecture.mlp.is_gated { 4 } else { 2 };
        match architecture.experts {
            Some(experts) => {
                let active = u128::from(experts.active);
                let width = active * u128::from(experts.intermediate) + u128::from(experts.shared_intermediate);
                tensors * width + active * u128::from(architecture.hidden)
            }
            None => tensors * u128::from(architecture.mlp.intermediate),
        }
    }

    pub(super) fn activations(&self) -> MemoryPart {
        if !self.workload.task.is_training() {
            return self.inference_activations();
        }
        let (tokens, bytes) = (self.tokens(), u128::from(self.compute_bytes()));
        let degree = u128::from(self.parallelism.tensor_degree());
        let hidden = u128::from(self.architecture.hidden);
        let layers = u128::from(self.architecture.layers);
        let elements = self.block_elements();
        // One byte each of the two dropout masks.
        let masks = if self.architecture.has_dropout { 2 * hidden } else { 0 };
        let heads = u128::from(self.architecture.attention.heads);
        let scores =
            if self.workload.flash_attention { 0 } else { (2 * bytes + 1) * heads * u128::from(self.workload.tokens) };
        let of_token = elements.replicated * bytes + masks + (elements.cut * bytes + scores) / degree;
        let of_block = tokens * of_token;
        // While a block goes backward, the gradients of the tensors of its MLP are there beside them, but for the first.
        let tensors = if self.architecture.mlp.is_gated { 4 } else { 2 };
        let backward = self.mlp_elements() * (tensors - 1) / tensors * bytes / degree;
        let (held, words) = if self.workload.gradient_checkpointing {
            let inputs = layers * tokens * hidden * bytes;
            (
                inputs + of_block,
                format!("{hidden} x {bytes} bytes x {layers} blocks, and {of_token} bytes of one block"),
            )
        } else {
            (layers * of_block, format!("{of_token} bytes x {layers} blocks"))
        };
        let formula = format!("{tokens} tokens x ({words}, and {backward} of its gradients)");
        part(held + tokens * backward, formula, ACTIVATIONS_PAPER)
    }

    /// Returns `true` if a prompt is longer than what is read at once.
    pub(super) const fn reads_in_pieces(&self) -> bool {
        let workload = self.workload;
        !workload.task.is_training() && !self.architecture.is_encoder && workload.tokens > workload.prefill_chunk
    }

    /// Activations of one block at a time: its input, its output, and its widest tensors. A decoder reads one prompt at a time, in pieces,
    /// and then one token of each sequence; an encoder reads the whole batch.
    fn inference_activations(&self) -> MemoryPart {
        let architecture = self.architecture;
        let chunk = self.workload.prefill_chunk.min(self.workload.tokens);
        let tokens = if architecture.is_encoder { self.tokens() } else { u128::from(chunk) };
        let bytes = u128::from(self.compute_bytes());
        // Without a backward pass the product before the activation is gone when the last one is made.
        let mlp = if architecture.mlp.is_gated { self.mlp_elements() * 3 / 4 } else { self.mlp_elements() };
        let heads = u128::from(architecture.attention.heads);
        let seen = if architecture.is_encoder { tokens } else { u128::from(self.workload.tokens) };
        let scores = if self.workload.flash_attention { 0 } else { heads * seen };
        let attention = self.block_elements().cut - self.mlp_elements() + scores;
        let degree = u128::from(self.parallelism.tensor_degree());
        let of_token = (2 * u128::from(architecture.hidden) + mlp.max(attention) / degree) * bytes;
        let formula = format!("{tokens} tokens x {of_token} bytes of the widest moment of one block");
        part(tokens * of_token, formula, "the tensors of one block; vLLM, \"Optimization and Tuning\", chunked prefill")
    }

    pub(super) fn logits(&self) -> MemoryPart {
        if self.architecture.is_encoder {
            return MemoryPart::default();
        }
        let vocabulary = u128::from(self.architecture.embeddings.vocabulary);
        let degree = u128::from(self.parallelism.tensor_degree());
        let share = if degree > 1 { format!(" / {degree} GPUs") } else { String::new() };
        if !self.workload.task.is_training() {
            let batch = u128::from(self.workload.batch);
            let formula = format!("{batch} sequences x {vocabulary} words x 4 bytes{share}");
            return part(batch * vocabulary * 4 / degree, formula, "one token of each sequence is predicted");
        }
        let tokens = self.tokens();
        if self.workload.fused_loss {
            let hidden = u128::from(self.architecture.hidden);
            let formula = format!("{tokens} tokens x {hidden} x 12 bytes, computed in pieces{share}");
            return part(tokens * hidden * 12 / degree, formula, "Liger Kernel (Hsu et al. 2024), section 3.2");
        }
        let formula =
            format!("{tokens} tokens x {vocabulary} words x 12 bytes of logits, probabilities and gradient{share}");
        part(tokens * vocabulary * 12 / degree, formula, "Cut Your Losses (Wijmans et al. 2024), table 1")
    }

    pub(super) fn kv_cache(&self) -> MemoryPart {
        if self.workload.task.is_training() || self.architecture.is_encoder {
            return MemoryPart::default();
        }
        let architecture = self.architecture;
        let (layers, tokens) = (u128::from(architecture.layers), u128::from(self.workload.tokens));
        let windowed = architecture.window.map_or(0, |window| u128::from(window.layers));
        let window = architecture.window.map_or(tokens, |window| tokens.min(u128::from(window.tokens)));
        let of_layers = (layers - windowed) * tokens + windowed * window;
        let degree = self.parallelism.tensor_degree();
        // Every GPU needs the whole of a latent vector.
        let (width, words) = if let Some(latent) = architecture.attention.latent {
            let width = u128::from(latent.kv_rank) + u128::from(latent.rope_dim);
            (width, format!("{width} of the latent vector"))
        } else {
            let heads = u64::from(architecture.attention.kv_heads).div_ceil(degree);
            let (heads, head) = (u128::from(heads), u128::from(architecture.attention.head_dim));
            (2 * heads * head, format!("2 x {heads} heads x {head}"))
        };
        let (batch, bytes) = (u128::from(self.workload.batch), u128::from(self.compute_bytes()));
        let formula = format!("{batch} sequences x {of_layers} tokens in {layers} layers x {words} x {bytes} bytes");
        part(batch * of_layers * width * bytes, formula, "Pope et al. 2022, section 2; DeepSeek-V2, section 2.1")
    }
}
