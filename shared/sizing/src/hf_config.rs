//! The `config.json` of a model of the Hugging Face format.

mod family;
mod keys;
mod unsized_kind;

use model::fault::{InvalidValue, one_line};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::architecture::{
    ArchitectureBasis, Attention, Embeddings, Experts, LatentAttention, Mlp, ModelArchitecture, Norms, SlidingWindow,
};
use family::{Family, PositionKind};
use keys::ConfigKeys;
use unsized_kind::refuse_unsized_kind;

/// Published files have a few kilobytes.
pub const HF_CONFIG_BYTES_MAX: usize = 1 << 20;

/// Names of one key in different kinds of models, the usual name first.
const HIDDEN: [&str; 5] = ["hidden_size", "n_embd", "n_embed", "d_model", "dim"];
const HEADS: [&str; 3] = ["num_attention_heads", "n_head", "n_heads"];
const KV_HEADS: [&str; 3] = ["num_key_value_heads", "num_kv_heads", "n_head_kv"];

/// A file that describes no model that can be sized: why, and what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HfConfigError {
    #[error(
        "the file has more than {HF_CONFIG_BYTES_MAX} bytes, and a config.json never has; the weights are other files"
    )]
    TooLarge,
    #[error("it is no JSON object: {0}; take the file as the repository of the model has it")]
    NotJson(String),
    #[error("the model type {model_type:?} lacks {}; write them, or give the number of parameters instead", .keys.join(", "))]
    MissingKeys { model_type: String, keys: Vec<String> },
    #[error("{0}")]
    Invalid(#[from] InvalidValue),
}

/// Reads the text of a `config.json`. Of a model with several parts only the part for text is read.
///
/// # Errors
/// A text that is too long or no JSON object, keys that are missing, numbers that no model has, and kinds of models that are not sized.
pub fn read_hf_config(text: &str) -> Result<ModelArchitecture, HfConfigError> {
    if text.len() > HF_CONFIG_BYTES_MAX {
        return Err(HfConfigError::TooLarge);
    }
    let whole: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| HfConfigError::NotJson(describe_json_fault(&error)))?;
    let part = ["text_config", "llm_config", "language_config"].into_iter().find_map(|key| whole.get(key)?.as_object());
    let keys = ConfigKeys::new(part.unwrap_or(&whole), &whole);
    refuse_unsized_kind(&keys, &model_type(&keys))?;
    let family = Family::find(&keys)?;
    let mut architecture = read_architecture(&keys, &family)?;
    if part.is_some() {
        architecture.notes.push("only the part for text is counted, not the encoder of images or sound".to_owned());
    }
    architecture.check()?;
    Ok(architecture)
}

fn describe_json_fault(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Eof => format!("it ends at line {line}, column {column}, before it is complete"),
        Category::Data => "it has to begin with `{`".to_owned(),
        Category::Syntax | Category::Io => format!("line {line}, column {column} is no JSON"),
    }
}

fn read_architecture(keys: &ConfigKeys<'_>, family: &Family) -> Result<ModelArchitecture, HfConfigError> {
    let name = model_type(keys);
    let layers = keys.number(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"])?;
    let hidden = keys.number(&HIDDEN)?;
    let heads = keys.number(&HEADS)?;
    let vocabulary = keys.number(&["vocab_size"])?;
    let intermediate = intermediate(keys, family, hidden)?;
    let named = [
        ("num_hidden_layers", layers),
        ("hidden_size", hidden),
        ("num_attention_heads", heads),
        ("vocab_size", vocabulary),
        ("intermediate_size", intermediate),
    ];
    let [Some(layers), Some(hidden), Some(heads), Some(vocabulary), Some(intermediate)] =
        named.map(|(_, number)| number)
    else {
        let missing = named.iter().filter(|(_, number)| number.is_none()).map(|(key, _)| (*key).to_owned()).collect();
        return Err(HfConfigError::MissingKeys { model_type: name, keys: missing });
    };
    let attention = attention(keys, family, hidden, heads)?;
    let positions = match family.positions {
        PositionKind::Computed => 0,
        PositionKind::Learned { more } => {
            keys.number(&["max_position_embeddings", "n_positions", "n_ctx"])?.unwrap_or(0).saturating_add(more)
        }
    };
    Ok(ModelArchitecture {
        name: if name.is_empty() { "unnamed".to_owned() } else { name },
        basis: ArchitectureBasis::HfConfig,
        layers,
        hidden,
        attention,
        mlp: Mlp { intermediate, is_gated: family.is_gated, has_bias: keys.boolean("mlp_bias", family.has_mlp_bias) },
        experts: experts(keys, family, intermediate, layers)?,
        embeddings: Embeddings {
            vocabulary,
            positions,
            token_types: if family.is_encoder { keys.number(&["type_vocab_size"])?.unwrap_or(0) } else { 0 },
            is_tied: keys.boolean("tie_word_embeddings", family.is_tied),
            has_head_bias: family.has_head_bias,
            has_pooler: family.has_pooler,
        },
        norms: Norms {
            per_layer: family.norms_per_layer,
            outside: family.norms_outside,
            has_bias: family.has_norm_bias,
        },
        window: window(keys, family, layers)?,
        has_dropout: family.has_dropout,
        is_encoder: family.is_encoder,
        context_max: keys
            .number(&["max_position_embeddings", "n_positions", "max_seq_len", "seq_length"])?
            .map(u64::from),
        notes: note_guess(keys, family).into_iter().collect(),
    })
}

/// Returns `model_type` as it is shown to people: the file may contain anything.
fn model_type(keys: &ConfigKeys<'_>) -> String {
    one_line(keys.model_type(), 40)
}

fn note_guess(keys: &ConfigKeys<'_>, family: &Family) -> Option<String> {
    let model_type = model_type(keys);
    let what = if model_type.is_empty() {
        "no model_type is named".to_owned()
    } else {
        format!("the model type {model_type:?} is not known")
    };
    family.is_guessed.then(|| format!("{what}; it is counted as a Llama of these sizes"))
}

fn intermediate(keys: &ConfigKeys<'_>, family: &Family, hidden: Option<u32>) -> Result<Option<u32>, InvalidValue> {
    let written = keys.number(&["intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "hidden_dim"])?;
    // Of four times the hidden size where nothing is said: the shape of GPT.
    Ok(written.or_else(|| hidden.filter(|_| family.is_four_wide).and_then(|hidden| hidden.checked_mul(4))))
}

fn attention(keys: &ConfigKeys<'_>, family: &Family, hidden: u32, heads: u32) -> Result<Attention, HfConfigError> {
    let latent = latent(keys)?;
    let head_dim = match &latent {
        Some((_, head_dim)) => *head_dim,
        None => match keys.number(&["head_dim"])? {
            Some(head_dim) => head_dim,
            None => divide_into_heads(keys, hidden, heads)?,
        },
    };
    let kv_heads = match family.kv_heads(keys) {
        Some(kv_heads) => kv_heads,
        None => keys.number(&KV_HEADS)?.unwrap_or(heads),
    };
    // More of them than heads, and none, are refused with the range of all numbers.
    if latent.is_none() && (1..heads).contains(&kv_heads) && !heads.is_multiple_of(kv_heads) {
        let [all, of_keys] = [keys.name(&HEADS), keys.name(&KV_HEADS)];
        return Err(InvalidValue::new(format!(
            "{all}: {heads} is no multiple of {of_keys}: {kv_heads}, and each key-value head serves as many heads as the others; correct \
             one of them"
        ))
        .into());
    }
    let bias = keys.boolean("attention_bias", keys.boolean("use_bias", false));
    Ok(Attention {
        heads,
        kv_heads: if latent.is_some() { heads } else { kv_heads },
        head_dim,
        latent: latent.map(|(latent, _)| latent),
        has_qkv_bias: keys.boolean("qkv_bias", keys.boolean("use_qkv_bias", family.has_qkv_bias || bias)),
        has_out_bias: family.has_out_bias || bias,
        qk_norm_parameters: family.qk_norm_parameters(keys, [heads, kv_heads, head_dim].map(u64::from)),
    })
}

/// The size of a head where no key says it.
fn divide_into_heads(keys: &ConfigKeys<'_>, hidden: u32, heads: u32) -> Result<u32, InvalidValue> {
    let [width, count] = [keys.name(&HIDDEN), keys.name(&HEADS)];
    match hidden.checked_div(heads) {
        None => {
            Err(InvalidValue::new(format!("{count}: 0 is out of range; write a number that divides {width}: {hidden}")))
        }
        Some(head_dim) if hidden.is_multiple_of(heads) => Ok(head_dim),
        Some(_) => Err(InvalidValue::new(format!(
            "{width}: {hidden} is no multiple of {count}: {heads}, and no head_dim says how wide a head is; correct one of them, or write \
             head_dim"
        ))),
    }
}

/// Multi-head latent attention, and the size of its heads.
fn latent(keys: &ConfigKeys<'_>) -> Result<Option<(LatentAttention, u32)>, HfConfigError> {
    let Some(kv_rank) = keys.number(&["kv_lora_rank"])? else { return Ok(None) };
    let names = ["qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"];
    let [nope, rope_dim, value_dim] =
        [keys.number(&names[..1])?, keys.number(&names[1..2])?, keys.number(&names[2..])?];
    let (Some(nope), Some(rope_dim), Some(value_dim)) = (nope, rope_dim, value_dim) else {
        let missing = names.iter().filter(|name| !keys.has(name)).map(|name| (*name).to_owned()).collect();
        return Err(HfConfigError::MissingKeys { model_type: model_type(keys), keys: missing });
    };
    let q_rank = keys.number(&["q_lora_rank"])?;
    Ok(Some((LatentAttention { q_rank, kv_rank, rope_dim, value_dim }, nope.saturating_add(rope_dim))))
}

fn experts(
    keys: &ConfigKeys<'_>,
    family: &Family,
    intermediate: u32,
    layers: u32,
) -> Result<Option<Experts>, HfConfigError> {
    let Some(count) =
        keys.number(&["num_local_experts", "num_experts", "n_routed_experts"])?.filter(|count| *count > 0)
    else {
        return Ok(None);
    };
    // Experts in each so manieth layer only.
    let steps = keys.number(&["decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"])?;
    if !family.has_experts || steps.is_some_and(|steps| steps > 1) {
        return Err(InvalidValue::new(format!(
            "how experts are laid out in the model type {:?} is not known; give the number of parameters instead",
            model_type(keys)
        ))
        .into());
    }
    let Some(active) = keys.number(&["num_experts_per_tok", "experts_per_token"])? else {
        let keys_missing = vec!["num_experts_per_tok".to_owned()];
        return Err(HfConfigError::MissingKeys { model_type: model_type(keys), keys: keys_missing });
    };
    let of_expert = keys.number(&["moe_intermediate_size"])?.unwrap_or(intermediate);
    let shared = match keys.number(&["shared_expert_intermediate_size"])? {
        Some(width) => width,
        None => keys.number(&["n_shared_experts"])?.unwrap_or(0).saturating_mul(of_expert),
    };
    let dense = keys.number(&["first_k_dense_replace"])?.unwrap_or(0).max(keys.length("mlp_only_layers"));
    Ok(Some(Experts {
        count,
        active,
        intermediate: of_expert,
        shared_intermediate: shared,
        has_shared_gate: keys.has("shared_expert_intermediate_size"),
        dense_layers: dense.min(layers),
    }))
}

fn window(keys: &ConfigKeys<'_>, family: &Family, layers: u32) -> Result<Option<SlidingWindow>, InvalidValue> {
    let Some(tokens) = keys.number(&["sliding_window"])?.filter(|tokens| *tokens > 0) else { return Ok(None) };
    if !keys.boolean("use_sliding_window", true) {
        return Ok(None);
    }
    let listed = keys.count_in_list("layer_types", "sliding_attention");
    let pattern = keys.number(&["sliding_window_pattern"])?.or(family.window_pattern).filter(|pattern| *pattern > 0);
    // Each so manieth layer sees everything.
    let windowed = listed.unwrap_or_else(|| layers - pattern.map_or(0, |pattern| layers / pattern)).min(layers);
    Ok((windowed > 0).then_some(SlidingWindow { tokens, layers: windowed }))
}
