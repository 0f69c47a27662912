//! Facts about a model that only its `model_type` tells, and no other key.

use model::fault::InvalidValue;

use super::keys::ConfigKeys;

/// Properties that models of one type share. Each starts from the [`Family`] of Llama.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent trait of a kind of models")]
pub(super) struct Family {
    pub(super) is_gated: bool,
    pub(super) has_mlp_bias: bool,
    pub(super) has_qkv_bias: bool,
    pub(super) has_out_bias: bool,
    pub(super) has_norm_bias: bool,
    pub(super) norms_per_layer: u32,
    pub(super) norms_outside: u32,
    pub(super) is_tied: bool,
    pub(super) has_head_bias: bool,
    pub(super) has_pooler: bool,
    pub(super) positions: PositionKind,
    /// The MLP is four times as wide as the model where no key says how wide.
    pub(super) is_four_wide: bool,
    pub(super) has_dropout: bool,
    pub(super) is_encoder: bool,
    pub(super) has_experts: bool,
    qk_norm: QkNorm,
    kv_heads: KvHeads,
    /// Each so manieth layer sees all tokens.
    pub(super) window_pattern: Option<u32>,
    /// `true` for an unknown type, which is treated as a Llama.
    pub(super) is_guessed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PositionKind {
    /// Rotary or `ALiBi`.
    Computed,
    /// A table, with so many rows more than positions.
    Learned { more: u32 },
}

#[derive(Debug, Clone, Copy)]
enum QkNorm {
    None,
    /// One for all heads.
    OfHead,
    /// One for the whole width.
    OfWidth,
}

#[derive(Debug, Clone, Copy)]
enum KvHeads {
    /// A key says how many.
    Key,
    /// `multi_query`, as `GPTBigCode` writes it.
    MultiQuery,
    /// Falcon: `new_decoder_architecture` goes before `multi_query`.
    Falcon,
}

const LLAMA: Family = Family {
    is_gated: true,
    has_mlp_bias: false,
    has_qkv_bias: false,
    has_out_bias: false,
    has_norm_bias: false,
    norms_per_layer: 2,
    norms_outside: 1,
    is_tied: false,
    has_head_bias: false,
    has_pooler: false,
    positions: PositionKind::Computed,
    is_four_wide: false,
    has_dropout: false,
    is_encoder: false,
    has_experts: false,
    qk_norm: QkNorm::None,
    kv_heads: KvHeads::Key,
    window_pattern: None,
    is_guessed: false,
};

/// The classic block: two matrices in the MLP, `LayerNorm`, and biases everywhere.
const GPT: Family = Family {
    is_gated: false,
    has_mlp_bias: true,
    has_qkv_bias: true,
    has_out_bias: true,
    has_norm_bias: true,
    is_tied: true,
    is_four_wide: true,
    ..LLAMA
};

const BERT: Family = Family {
    is_encoder: true,
    has_pooler: true,
    has_dropout: true,
    positions: PositionKind::Learned { more: 0 },
    ..GPT
};

impl Family {
    /// Finds the family by `model_type`; an unknown type is treated as a Llama if it has the same keys.
    pub(super) fn find(keys: &ConfigKeys<'_>) -> Result<Self, InvalidValue> {
        let learned = PositionKind::Learned { more: 0 };
        Ok(match keys.model_type() {
            "llama" | "mistral" | "ministral" | "phi3" | "granite" | "smollm3" | "internlm2" | "exaone4" => LLAMA,
            "mixtral" | "phimoe" | "deepseek_v2" | "deepseek_v3" => Self { has_experts: true, ..LLAMA },
            "gpt_oss" => {
                Self { has_experts: true, has_mlp_bias: true, has_qkv_bias: true, has_out_bias: true, ..LLAMA }
            }
            "qwen2" | "qwen2_vl_text" | "qwen2_5_vl_text" => Self { has_qkv_bias: true, ..LLAMA },
            "qwen2_moe" => Self { has_qkv_bias: true, has_experts: true, ..LLAMA },
            "qwen3" | "qwen3_moe" | "qwen3_vl_text" => Self { qk_norm: QkNorm::OfHead, has_experts: true, ..LLAMA },
            "gemma" => Self { is_tied: true, ..LLAMA },
            "gemma2" => Self { is_tied: true, norms_per_layer: 4, window_pattern: Some(2), ..LLAMA },
            "gemma3" | "gemma3_text" => {
                Self { is_tied: true, norms_per_layer: 4, qk_norm: QkNorm::OfHead, window_pattern: Some(6), ..LLAMA }
            }
            "olmo" => Self { norms_per_layer: 0, norms_outside: 0, ..LLAMA },
            "olmo2" | "olmo3" => Self { qk_norm: QkNorm::OfWidth, window_pattern: Some(4), ..LLAMA },
            "cohere" | "cohere2" => Self { is_tied: true, norms_per_layer: 1, window_pattern: Some(4), ..LLAMA },
            "stablelm" => Self { has_norm_bias: true, ..LLAMA },
            "starcoder2" => Self { is_four_wide: false, ..GPT },
            "phi" => Self { norms_per_layer: 1, is_tied: false, has_head_bias: true, ..GPT },
            "gpt2" => Self { positions: learned, has_dropout: true, ..GPT },
            "gpt_bigcode" => Self { positions: learned, kv_heads: KvHeads::MultiQuery, has_dropout: true, ..GPT },
            "gptj" => Self {
                has_qkv_bias: false,
                has_out_bias: false,
                norms_per_layer: 1,
                has_head_bias: true,
                is_tied: false,
                ..GPT
            },
            "gpt_neox" => Self { is_tied: false, ..GPT },
            "opt" => Self::of_opt(keys)?,
            "bloom" => Self { norms_outside: 2, ..GPT },
            "falcon" | "RefinedWeb" | "RefinedWebModel" => Self::of_falcon(keys),
            "mpt" => {
                Self { has_mlp_bias: false, has_qkv_bias: false, has_out_bias: false, has_norm_bias: false, ..GPT }
            }
            "bert" | "roberta" | "xlm-roberta" | "camembert" => BERT,
            "distilbert" => Self { has_pooler: false, ..BERT },
            _ => Self { is_guessed: true, ..LLAMA },
        })
    }

    /// "OPT": two rows of its table of positions are never used.
    fn of_opt(keys: &ConfigKeys<'_>) -> Result<Self, InvalidValue> {
        let [hidden, embedded] = [keys.number(&["hidden_size"])?, keys.number(&["word_embed_proj_dim"])?];
        if embedded.is_some_and(|embedded| Some(embedded) != hidden) {
            return Err(InvalidValue::new(
                "word_embed_proj_dim differs from hidden_size, which is not sized; give the number of parameters instead",
            ));
        }
        Ok(Self { positions: PositionKind::Learned { more: 2 }, has_dropout: true, ..GPT })
    }

    fn of_falcon(keys: &ConfigKeys<'_>) -> Self {
        let bias = keys.is_true("bias");
        let two_norms = keys.is_true("new_decoder_architecture") || !keys.boolean("parallel_attn", true);
        Self {
            has_mlp_bias: bias,
            has_qkv_bias: bias,
            has_out_bias: bias,
            norms_per_layer: if two_norms { 2 } else { 1 },
            kv_heads: KvHeads::Falcon,
            ..GPT
        }
    }

    /// Returns the number of key-value heads if another key than the usual one gives it.
    pub(super) fn kv_heads(&self, keys: &ConfigKeys<'_>) -> Option<u32> {
        match self.kv_heads {
            KvHeads::Key => None,
            KvHeads::MultiQuery => keys.boolean("multi_query", true).then_some(1),
            KvHeads::Falcon => {
                (!keys.is_true("new_decoder_architecture") && keys.boolean("multi_query", true)).then_some(1)
            }
        }
    }

    /// Returns the parameters of the norms of queries and keys in a layer with these heads, key-value heads and head size.
    pub(super) fn qk_norm_parameters(&self, keys: &ConfigKeys<'_>, [heads, kv_heads, head_dim]: [u64; 3]) -> u64 {
        match self.qk_norm {
            QkNorm::OfHead => 2 * head_dim,
            QkNorm::OfWidth => (heads + kv_heads) * head_dim,
            // Cohere has one of each head.
            QkNorm::None if keys.is_true("use_qk_norm") => (heads + kv_heads) * head_dim,
            QkNorm::None => 0,
        }
    }
}
