//! Shape of a model.

use model::fault::InvalidValue;
use serde::Serialize;

use crate::precision::Precision;

/// The shape of a transformer, from which its parameters, activations and KV cache are counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelArchitecture {
    /// `model_type` of the configuration file, or the number of parameters as it was written.
    pub name: String,
    pub basis: ArchitectureBasis,
    pub layers: u32,
    /// Layers with weights of their own: fewer than `layers` where layers share them, as in ALBERT.
    pub weight_layers: u32,
    pub hidden: u32,
    pub attention: Attention,
    pub mlp: Mlp,
    pub experts: Option<Experts>,
    pub embeddings: Embeddings,
    pub norms: Norms,
    pub window: Option<SlidingWindow>,
    /// `true` if the model trains with dropout layers, whose masks are kept for the backward pass.
    pub has_dropout: bool,
    /// An encoder has no KV cache and, here, no head that predicts tokens.
    pub is_encoder: bool,
    /// Parameters of the encoders of images and sound, and of what joins them to the text. They keep 16 bits.
    pub other_parts: u64,
    /// The format in which the file keeps the weights.
    pub published: PublishedFormat,
    /// The longest context that the model was made for.
    pub context_max: Option<u64>,
    /// Assumptions where the file is silent, for people.
    pub notes: Vec<String>,
}

/// Source of the shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchitectureBasis {
    /// The file says so.
    HfConfig,
    /// Only the number of parameters is known. The shape is that of a published model of about this size. `active`: those that a token
    /// passes through, of a mixture of experts.
    Assumed { parameters: u64, active: Option<u64>, like: &'static str },
}

/// The format in which a file keeps the weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedFormat {
    /// One format for all weights; `None` if nothing says which.
    Plain(Option<Precision>),
    Quantized(QuantizedWeights),
    /// A format that is not understood, with the reason.
    Unknown(String),
}

/// Weights of which a part is quantized, as a file has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuantizedWeights {
    /// The nearest format that has a name.
    pub precision: Precision,
    /// The format, for people.
    pub description: String,
    pub bytes: u64,
    /// Bytes of the routed experts among `bytes`.
    pub expert_bytes: u64,
    pub largest_block_bytes: u64,
    /// `true` if frameworks train adapters beside weights in this format; others unpack them first.
    pub trains_adapters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Attention {
    pub heads: u32,
    /// Fewer than `heads` with grouped-query attention.
    pub kv_heads: u32,
    pub head_dim: u32,
    /// Multi-head latent attention of DeepSeek, which caches a compressed vector instead of keys and values.
    pub latent: Option<LatentAttention>,
    pub has_qkv_bias: bool,
    pub has_out_bias: bool,
    /// Parameters of the norms of queries and keys, in each layer.
    pub qk_norm_parameters: u64,
}

/// "DeepSeek-V2", section 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LatentAttention {
    /// `None`: queries are not compressed.
    pub q_rank: Option<u32>,
    pub kv_rank: u32,
    pub rope_dim: u32,
    pub value_dim: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mlp {
    pub intermediate: u32,
    /// Three matrices, as with SwiGLU, instead of two.
    pub is_gated: bool,
    pub has_bias: bool,
}

/// A mixture of experts, in all layers but `dense_layers` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Experts {
    pub count: u32,
    /// Number of experts that each token passes through.
    pub active: u32,
    pub intermediate: u32,
    /// Intermediate size of the expert that every token passes through; 0 if there is none.
    pub shared_intermediate: u32,
    pub has_shared_gate: bool,
    pub dense_layers: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Embeddings {
    pub vocabulary: u32,
    /// Width of an embedding, before a matrix that widens it to the hidden size; the hidden size where there is none.
    pub width: u32,
    /// Learned ones; 0 with rotary or other computed positions.
    pub positions: u32,
    pub token_types: u32,
    /// `true` if input and output share one matrix.
    pub is_tied: bool,
    pub has_head_bias: bool,
    /// The dense layer that an encoder has after its last layer.
    pub has_pooler: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Norms {
    pub per_layer: u32,
    /// Number of norms after the last layer or after the embeddings.
    pub outside: u32,
    /// A `LayerNorm` has a bias, an `RMSNorm` has none.
    pub has_bias: bool,
}

/// Layers that see only the last tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlidingWindow {
    pub tokens: u32,
    /// So many of the layers have it.
    pub layers: u32,
}

/// More than any published model has, and small enough that no product overflows.
pub(crate) const LAYERS_MAX: u32 = 1_024;
pub(crate) const WIDTH_MAX: u32 = 1 << 20;
pub(crate) const VOCABULARY_MAX: u32 = 1 << 24;
pub(crate) const EXPERTS_MAX: u32 = 4_096;

impl ModelArchitecture {
    /// Checks that every number is one that a model can have.
    pub(crate) fn check(&self) -> Result<(), InvalidValue> {
        let attention = &self.attention;
        let mut numbers = vec![
            ("num_hidden_layers", self.layers, 1, LAYERS_MAX),
            ("num_hidden_groups", self.weight_layers, 1, self.layers),
            ("hidden_size", self.hidden, 1, WIDTH_MAX),
            ("num_attention_heads", attention.heads, 1, WIDTH_MAX),
            ("num_key_value_heads", attention.kv_heads, 1, attention.heads),
            ("head_dim", attention.head_dim, 1, WIDTH_MAX),
            ("head_dim of all heads", attention.heads.saturating_mul(attention.head_dim), 1, WIDTH_MAX),
            ("intermediate_size", self.mlp.intermediate, 1, WIDTH_MAX),
            ("vocab_size", self.embeddings.vocabulary, 1, VOCABULARY_MAX),
            ("embedding_size", self.embeddings.width, 1, WIDTH_MAX),
            ("max_position_embeddings", self.embeddings.positions, 0, VOCABULARY_MAX),
            ("type_vocab_size", self.embeddings.token_types, 0, VOCABULARY_MAX),
        ];
        if let Some(latent) = attention.latent {
            numbers.extend([
                ("kv_lora_rank", latent.kv_rank, 1, WIDTH_MAX),
                ("q_lora_rank", latent.q_rank.unwrap_or(1), 1, WIDTH_MAX),
                ("qk_rope_head_dim", latent.rope_dim, 1, attention.head_dim),
                ("v_head_dim of all heads", attention.heads.saturating_mul(latent.value_dim), 1, WIDTH_MAX),
            ]);
        }
        if let Some(experts) = self.experts {
            numbers.extend([
                ("num_experts", experts.count, 1, EXPERTS_MAX),
                ("num_experts_per_tok", experts.active, 1, experts.count),
                ("moe_intermediate_size", experts.intermediate, 1, WIDTH_MAX),
                ("shared_expert_intermediate_size", experts.shared_intermediate, 0, WIDTH_MAX),
                ("layers without experts", experts.dense_layers, 0, self.layers),
            ]);
        }
        for (what, number, least, most) in numbers {
            if number < least || number > most {
                return Err(InvalidValue::new(format!(
                    "{what}: {number} is out of range; {least} to {most} are possible"
                )));
            }
        }
        Ok(())
    }

    /// `true` for a mixture of experts.
    #[must_use]
    pub const fn has_experts(&self) -> bool {
        self.experts.is_some()
    }

    pub(crate) const fn dense_layers(&self) -> u32 {
        match self.experts {
            Some(experts) => experts.dense_layers,
            None => self.layers,
        }
    }

    /// The width of all queries, or of all values for `o_proj`.
    pub(crate) fn query_width(&self) -> u64 {
        u64::from(self.attention.heads) * u64::from(self.attention.head_dim)
    }

    pub(crate) fn kv_width(&self) -> u64 {
        u64::from(self.attention.kv_heads) * u64::from(self.attention.head_dim)
    }

    /// The width of what attention gives to its last projection.
    pub(crate) fn value_width(&self) -> u64 {
        let head = self.attention.latent.map_or(self.attention.head_dim, |latent| latent.value_dim);
        u64::from(self.attention.heads) * u64::from(head)
    }
}
