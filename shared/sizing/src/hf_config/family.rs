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
    /// Only the key of the whole model counts: the part for text has another default than its model.
    pub(super) is_tied_by_whole: bool,
    pub(super) has_head_bias: bool,
    pub(super) has_pooler: bool,
    pub(super) positions: PositionKind,
    /// The MLP is four times as wide as the model where no key says how wide.
    pub(super) is_four_wide: bool,
    pub(super) has_dropout: bool,
    pub(super) is_encoder: bool,
    pub(super) has_experts: bool,
    /// One expert as wide as the others serves every token, and no key says so (Llama 4).
    pub(super) has_shared_expert: bool,
    /// `intermediate_size` counts the gate and what it gates together (the first Qwen).
    pub(super) counts_gate: bool,
    /// All layers have the same weights (ALBERT).
    pub(super) shares_layers: bool,
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
    /// A table of distances in both directions (`DeBERTa`).
    Relative,
}

#[derive(Debug, Clone, Copy)]
enum QkNorm {
    None,
    /// One for all heads.
    OfHead,
    /// Norms of query and key, if `use_qk_norm` is true.
    OfHeadIfUsed,
    /// One for the whole width.
    OfWidth,
}

#[derive(Debug, Clone, Copy)]
enum KvHeads {
    /// A key says how many.
    Key,
    /// `multi_query`, as `GPTBigCode` writes it.
    MultiQuery,
    /// `multi_query_group_num`, as `ChatGLM` writes it.
    Groups,
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
    is_tied_by_whole: false,
    has_head_bias: false,
    has_pooler: false,
    positions: PositionKind::Computed,
    is_four_wide: false,
    has_dropout: false,
    is_encoder: false,
    has_experts: false,
    has_shared_expert: false,
    counts_gate: false,
    shares_layers: false,
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

/// An encoder with rotary positions and a gate in its MLP.
const MODERN_ENCODER: Family =
    Family { is_encoder: true, is_tied: true, norms_outside: 2, has_dropout: false, ..LLAMA };

const MIXTURE: Family = Family { has_experts: true, ..LLAMA };

/// Types whose configuration says all that differs from Llama.
const LLAMAS: [&str; 26] = [
    "aquila",
    "baichuan",
    "cwm",
    "exaone",
    "exaone4",
    "glm",
    "granite",
    "helium",
    "hunyuan_v1_dense",
    "internlm",
    "internlm2",
    "internlm3",
    "llama",
    "ministral",
    "ministral3",
    "mistral",
    "mllama",
    "mllama_text_model",
    "orion",
    "phi3",
    "phi3_v",
    "phi4mm",
    "voxtral",
    "xverse",
    "Yi",
    "yi",
];

/// Mixtures of experts whose configuration says all that differs from Mixtral and DeepSeek.
const MIXTURES: [&str; 17] = [
    "Glm4vMoe_text",
    "bailing_moe",
    "deepseek",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "dots1",
    "glm4_moe_lite",
    "glm4v_moe",
    "glm4v_moe_text",
    "glm_moe_dsa",
    "granitemoe",
    "kimi_k2",
    "minimax_m2",
    "mistral4",
    "mixtral",
    "phimoe",
];

/// Classes of models whose `model_type` is their own, and the type by which they are computed.
const CLASSES: [(&str, &str); 12] = [
    ("DeepseekV2ForCausalLM", "deepseek_v2"),
    ("DeepseekV3ForCausalLM", "deepseek_v3"),
    ("Gemma2ForCausalLM", "gemma2"),
    ("Glm4MoeForCausalLM", "glm4_moe"),
    ("GptOssForCausalLM", "gpt_oss"),
    ("LlamaForCausalLM", "llama"),
    ("MistralForCausalLM", "mistral"),
    ("MixtralForCausalLM", "mixtral"),
    ("Phi3ForCausalLM", "phi3"),
    ("Qwen2ForCausalLM", "qwen2"),
    ("Qwen3ForCausalLM", "qwen3"),
    ("Qwen3MoeForCausalLM", "qwen3_moe"),
];

impl Family {
    /// Finds the family by `model_type`, or else by the class of the model; an unknown one is treated as a Llama if it has the same keys.
    pub(super) fn find(keys: &ConfigKeys<'_>) -> Result<Self, InvalidValue> {
        let named = Self::named(keys, keys.text("model_type"))?;
        let class_type =
            |class: &str| CLASSES.iter().find(|(name, _)| *name == class).map(|(_, model_type)| *model_type);
        match keys.classes().find_map(class_type) {
            Some(model_type) if named.is_guessed => Self::named(keys, model_type),
            _ => Ok(named),
        }
    }

    fn named(keys: &ConfigKeys<'_>, model_type: &str) -> Result<Self, InvalidValue> {
        let learned = PositionKind::Learned { more: 0 };
        Ok(match model_type {
            // Their configurations write the key only where it differs (transformers, `configuration_smollm3.py`,
            // `configuration_ernie4_5.py`; `configuration_minicpm.py` beside the weights).
            "ernie4_5" | "minicpm" | "minicpm3" | "paddleocr_vl" | "paddleocr_vl_text" | "smollm3" => {
                Self { is_tied: true, ..LLAMA }
            }
            "ernie4_5_moe" => Self { is_tied: true, ..MIXTURE },
            _ if LLAMAS.contains(&model_type) => LLAMA,
            _ if MIXTURES.contains(&model_type) => MIXTURE,
            "chatglm" => Self { kv_heads: KvHeads::Groups, ..LLAMA },
            "glm4" => Self { norms_per_layer: 4, ..LLAMA },
            "glm4v" | "glm4v_text" | "glm46v" => Self { norms_per_layer: 4, has_qkv_bias: true, ..LLAMA },
            "glm4_moe" => Self { qk_norm: QkNorm::OfHeadIfUsed, ..MIXTURE },
            "gpt_oss" => Self { has_mlp_bias: true, has_qkv_bias: true, has_out_bias: true, ..MIXTURE },
            "llama4" | "llama4_text" => Self { has_shared_expert: true, ..MIXTURE },
            "olmoe" => Self { qk_norm: QkNorm::OfWidth, ..MIXTURE },
            "qwen" => Self { has_qkv_bias: true, counts_gate: true, ..LLAMA },
            "qwen2" | "qwen2_vl" | "qwen2_vl_text" | "qwen2_5_vl" | "qwen2_5_vl_text" | "qwen2_5_omni_text"
            | "seed_oss" => Self { has_qkv_bias: true, is_tied_by_whole: model_type == "qwen2_5_omni_text", ..LLAMA },
            "qwen2_moe" => Self { has_qkv_bias: true, ..MIXTURE },
            "qwen3" | "qwen3_moe" | "qwen3_vl_text" | "qwen3_vl_moe_text" | "qwen3_omni_moe_text" => {
                Self { qk_norm: QkNorm::OfHead, is_tied_by_whole: model_type == "qwen3_vl_moe_text", ..MIXTURE }
            }
            "gemma" => Self { is_tied: true, ..LLAMA },
            "gemma2" => Self { is_tied: true, norms_per_layer: 4, window_pattern: Some(2), ..LLAMA },
            "gemma3" | "gemma3_text" => {
                Self { is_tied: true, norms_per_layer: 4, qk_norm: QkNorm::OfHead, window_pattern: Some(6), ..LLAMA }
            }
            "nemotron" => Self { is_gated: false, has_norm_bias: true, ..LLAMA },
            "arcee" | "apertus" => Self { is_gated: false, ..LLAMA },
            "olmo" => Self { norms_per_layer: 0, norms_outside: 0, ..LLAMA },
            "olmo2" | "olmo3" => Self { qk_norm: QkNorm::OfWidth, window_pattern: Some(4), ..LLAMA },
            "cohere" | "cohere2" => Self { is_tied: true, norms_per_layer: 1, window_pattern: Some(4), ..LLAMA },
            "stablelm" | "stablelm_epoch" => Self { has_norm_bias: true, ..LLAMA },
            "starcoder2" => Self { is_four_wide: false, ..GPT },
            "phi" => Self { norms_per_layer: 1, is_tied: false, has_head_bias: true, ..GPT },
            "gpt2" => Self { positions: learned, has_dropout: true, ..GPT },
            "gpt_bigcode" => Self { positions: learned, kv_heads: KvHeads::MultiQuery, has_dropout: true, ..GPT },
            "gpt_neo" => Self { positions: learned, has_qkv_bias: false, has_dropout: true, ..GPT },
            "gptj" | "codegen" => Self {
                has_qkv_bias: false,
                has_out_bias: false,
                norms_per_layer: 1,
                has_head_bias: true,
                is_tied: false,
                ..GPT
            },
            "gpt_neox" | "persimmon" => Self { is_tied: false, ..GPT },
            "opt" => Self::of_opt(keys)?,
            "bloom" => Self { norms_outside: 2, ..GPT },
            "falcon" | "RefinedWeb" | "RefinedWebModel" => Self::of_falcon(keys),
            "mpt" => {
                Self { has_mlp_bias: false, has_qkv_bias: false, has_out_bias: false, has_norm_bias: false, ..GPT }
            }
            "bert" | "roberta" | "xlm-roberta" | "camembert" | "ernie" | "esm" | "megatron-bert" | "mpnet"
            | "data2vec-text" => Self::of_bert(keys),
            "distilbert" | "electra" => Self { has_pooler: false, ..BERT },
            "albert" => Self { shares_layers: true, ..BERT },
            "deberta-v2" => Self::of_deberta(keys)?,
            "modernbert" => Self { has_pooler: true, ..MODERN_ENCODER },
            "jina_embeddings_v3" => Self { positions: PositionKind::Computed, ..BERT },
            "nomic_bert" if keys.number(&["num_experts"])?.is_none_or(|count| count < 2) => {
                Self { has_norm_bias: true, ..MODERN_ENCODER }
            }
            "new" | "gte" => Self { has_qkv_bias: true, has_out_bias: true, has_norm_bias: true, ..MODERN_ENCODER },
            "eurobert" => Self { norms_outside: 1, ..MODERN_ENCODER },
            _ => Self { is_guessed: true, ..LLAMA },
        })
    }

    /// Models of BERT's type differ by keys: rotary positions and `ALiBi` have no table, and Jina's MLP has a gate.
    fn of_bert(keys: &ConfigKeys<'_>) -> Self {
        let is_computed = ["alibi", "rotary", "rope"].contains(&keys.text("position_embedding_type"));
        Self {
            is_gated: keys.text("feed_forward_type").contains("glu"),
            positions: if is_computed { PositionKind::Computed } else { BERT.positions },
            ..BERT
        }
    }

    fn of_deberta(keys: &ConfigKeys<'_>) -> Result<Self, InvalidValue> {
        if keys.is_true("position_biased_input") || (keys.has("pos_att_type") && !keys.is_true("share_att_key")) {
            return Err(InvalidValue::new(
                "attention with matrices of its own for positions is not sized; the number of parameters instead gives its weights, and \
                 nothing else of it",
            ));
        }
        Ok(Self { has_pooler: false, positions: PositionKind::Relative, ..BERT })
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
            KvHeads::Groups => {
                keys.is_true("multi_query_attention").then_some(keys.number(&["multi_query_group_num"]).ok()??)
            }
            KvHeads::Falcon => {
                (!keys.is_true("new_decoder_architecture") && keys.boolean("multi_query", true)).then_some(1)
            }
        }
    }

    /// Returns the parameters of the norms of queries and keys in a layer with these heads, key-value heads and head size.
    pub(super) fn qk_norm_parameters(&self, keys: &ConfigKeys<'_>, [heads, kv_heads, head_dim]: [u64; 3]) -> u64 {
        match self.qk_norm {
            QkNorm::OfHead => 2 * head_dim,
            QkNorm::OfHeadIfUsed => 2 * head_dim * u64::from(keys.is_true("use_qk_norm")),
            QkNorm::OfWidth => (heads + kv_heads) * head_dim,
            // Cohere has one of each head.
            QkNorm::None if keys.is_true("use_qk_norm") => (heads + kv_heads) * head_dim,
            QkNorm::None => 0,
        }
    }
}
