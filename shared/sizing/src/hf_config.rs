//! The `config.json` of a model of the Hugging Face format.

mod bit_width;
mod defaults;
mod experts;
mod family;
mod keys;
mod name_patterns;
mod other_parts;
mod quantization;
mod unsized_kind;
mod weight_names;

use model::fault::{InvalidValue, one_line};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::architecture::{
    ArchitectureBasis, Attention, Embeddings, LatentAttention, Mlp, ModelArchitecture, Norms, PublishedFormat,
    SlidingWindow,
};
use experts::{experts, refuse_unknown_experts};
use family::{Family, PositionKind};
use keys::ConfigKeys;
use other_parts::other_parts;
use unsized_kind::{is_body_alone, refuse_foreign_kind, refuse_unsized_kind};

/// Published files have a few kilobytes.
pub const HF_CONFIG_BYTES_MAX: usize = 1 << 20;

/// Names of one key in different kinds of models, the usual name first.
const HIDDEN: [&str; 5] = ["hidden_size", "n_embd", "n_embed", "d_model", "dim"];
const HEADS: [&str; 4] = ["num_attention_heads", "n_head", "n_heads", "num_heads"];
const KV_HEADS: [&str; 5] = ["num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_query_groups"];

/// Names of the part for text in a file of a model with several parts.
const TEXT_PARTS: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// Keys of layers that predict several tokens at once, beside the others.
const MORE_TOKENS: [&str; 3] = ["num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers"];

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

/// Reads the text of a `config.json`. Of a model with several parts the decoder is read, and the encoders' parameters are counted.
///
/// # Errors
/// A text that is too long or no JSON object, keys that are missing, numbers that no model has, and kinds of models that are not sized.
pub fn read_hf_config(text: &str) -> Result<ModelArchitecture, HfConfigError> {
    if text.len() > HF_CONFIG_BYTES_MAX {
        return Err(HfConfigError::TooLarge);
    }
    let whole: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| HfConfigError::NotJson(describe_json_fault(&error)))?;
    // Qwen's Omni models: the part that understands, beside one that speaks.
    let (whole, has_speaker) = match whole.get("thinker_config").and_then(Value::as_object) {
        Some(thinker) => (with_format(thinker.clone(), &whole), true),
        None => (whole, false),
    };
    let part = TEXT_PARTS.into_iter().find_map(|key| whole.get(key)?.as_object());
    let keys = ConfigKeys::new(part, &whole);
    keys.check_kinds()?;
    refuse_unsized_kind(&keys, &model_type(&keys))?;
    let family = Family::find(&keys)?;
    refuse_foreign_kind(&keys, &family, &model_type(&keys))?;
    refuse_unknown_experts(&keys, &family)?;
    let (mut architecture, sparse) = read_architecture(&keys, &family)?;
    architecture.check()?;
    let (parameters, notes) = other_parts(&keys, architecture.hidden);
    architecture.other_parts = parameters;
    architecture.notes.extend(notes);
    if has_speaker {
        architecture.notes.push("the part that speaks is not counted".to_owned());
    }
    architecture.published = quantization::published_format(&keys, &mut architecture, &sparse);
    Ok(architecture)
}

/// A part, with the format of the weights that only the whole model has.
fn with_format(mut part: Map<String, Value>, whole: &Map<String, Value>) -> Map<String, Value> {
    for key in ["quantization_config", "compression_config", "dtype", "torch_dtype"] {
        if let Some(value) = whole.get(key) {
            part.entry(key).or_insert_with(|| value.clone());
        }
    }
    part
}

fn describe_json_fault(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Eof => format!("it ends at line {line}, column {column}, before it is complete"),
        Category::Data => "it has to begin with `{`".to_owned(),
        Category::Syntax | Category::Io => format!("line {line}, column {column} is no JSON"),
    }
}

/// Returns the shape, and which layers have experts.
fn read_architecture(
    keys: &ConfigKeys<'_>,
    family: &Family,
) -> Result<(ModelArchitecture, experts::SparseLayers), HfConfigError> {
    let name = model_type(keys);
    let layers = keys.number(&["num_hidden_layers", "n_layer", "n_layers", "num_layers"])?;
    let hidden = keys.number(&HIDDEN)?;
    let heads = keys.number(&HEADS)?;
    let vocabulary = keys.number(&["padded_vocab_size", "vocab_size"])?;
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
    let (experts, sparse) = experts(keys, family, intermediate, layers)?.unzip();
    // Llama 4 has both widths; of a model without experts in every layer the other one is that of a layer without.
    let dense_intermediate = if family.has_shared_expert { keys.number(&["intermediate_size_mlp"])? } else { None };
    let is_encoder = family.is_encoder || is_body_alone(keys);
    let architecture = ModelArchitecture {
        name: if name.is_empty() { "unnamed".to_owned() } else { name },
        basis: ArchitectureBasis::HfConfig,
        layers,
        weight_layers: weight_layers(keys, family, layers)?,
        hidden,
        attention,
        mlp: Mlp {
            intermediate: dense_intermediate.unwrap_or(intermediate),
            is_gated: family.is_gated,
            has_bias: keys.boolean("mlp_bias", family.has_mlp_bias),
        },
        experts,
        embeddings: embeddings(keys, family, vocabulary, hidden)?,
        norms: Norms {
            per_layer: family.norms_per_layer,
            outside: family.norms_outside,
            has_bias: family.has_norm_bias,
        },
        window: window(keys, family, layers)?,
        has_dropout: family.has_dropout,
        is_encoder,
        other_parts: 0,
        published: PublishedFormat::Plain(None),
        context_max: context_max(keys)?,
        notes: notes(keys, family)?,
    };
    Ok((architecture, sparse.unwrap_or_default()))
}

/// Layers with weights of their own.
fn weight_layers(keys: &ConfigKeys<'_>, family: &Family, layers: u32) -> Result<u32, InvalidValue> {
    if !family.shares_layers {
        return Ok(layers);
    }
    let [groups, of_group] = [keys.number(&["num_hidden_groups"])?, keys.number(&["inner_group_num"])?];
    Ok(groups.unwrap_or(1).saturating_mul(of_group.unwrap_or(1)))
}

/// # Errors
/// A model that reads nothing.
fn context_max(keys: &ConfigKeys<'_>) -> Result<Option<u64>, InvalidValue> {
    let names = ["max_position_embeddings", "n_positions", "max_seq_len", "seq_length"];
    match keys.number(&names)? {
        Some(0) => Err(InvalidValue::new(format!(
            "{}: 0 is out of range; write the longest context of the model, or leave it out",
            keys.name(&names)
        ))),
        most => Ok(most.map(u64::from)),
    }
}

fn embeddings(
    keys: &ConfigKeys<'_>,
    family: &Family,
    vocabulary: u32,
    hidden: u32,
) -> Result<Embeddings, InvalidValue> {
    let positions = match family.positions {
        PositionKind::Computed => 0,
        PositionKind::Learned { more } => {
            keys.number(&["max_position_embeddings", "n_positions", "n_ctx"])?.unwrap_or(0).saturating_add(more)
        }
        PositionKind::Relative => keys.number(&["position_buckets"])?.unwrap_or(0).saturating_mul(2),
    };
    // Only a type with an embedding of another width has the key.
    let width = if family.is_encoder { keys.number(&["embedding_size"])? } else { None };
    Ok(Embeddings {
        vocabulary,
        width: width.unwrap_or(hidden),
        positions,
        token_types: if family.is_encoder { keys.number(&["type_vocab_size"])?.unwrap_or(0) } else { 0 },
        is_tied: if family.is_tied_by_whole {
            keys.is_true_of_whole("tie_word_embeddings")
        } else {
            keys.boolean("tie_word_embeddings", family.is_tied)
        },
        has_head_bias: family.has_head_bias,
        has_pooler: family.has_pooler,
    })
}

/// Returns `model_type` as it is shown to people: the file may contain anything.
fn model_type(keys: &ConfigKeys<'_>) -> String {
    one_line(keys.text("model_type"), 40)
}

fn notes(keys: &ConfigKeys<'_>, family: &Family) -> Result<Vec<String>, InvalidValue> {
    let mut notes: Vec<String> = note_guess(keys, family).into_iter().collect();
    if !family.is_encoder && is_body_alone(keys) {
        notes.push(
            "the file is of a model that predicts no tokens, so it is counted without output matrix and KV cache"
                .to_owned(),
        );
    }
    if let Some(layers) = keys.number(&MORE_TOKENS)?.filter(|layers| *layers > 0) {
        let layers = if layers == 1 { "1 more layer".to_owned() } else { format!("{layers} more layers") };
        notes.push(format!(
            "{layers} of the file to predict several tokens at once not counted: servers load them only on request"
        ));
    }
    if keys.has("index_topk") {
        notes.push("the index that chooses what attention sees is not counted: below 1 % of the weights, and 132 bytes a token and layer".to_owned());
    }
    if keys.has("cross_attention_layers") {
        notes.push("layers that look at an image are counted as the others".to_owned());
    }
    Ok(notes)
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
    let written = if family.counts_gate { written.map(|both| both / 2) } else { written };
    // Of four times the hidden size where nothing is said: the shape of GPT.
    Ok(written.or_else(|| hidden.filter(|_| family.is_four_wide).and_then(|hidden| hidden.checked_mul(4))))
}

fn attention(keys: &ConfigKeys<'_>, family: &Family, hidden: u32, heads: u32) -> Result<Attention, HfConfigError> {
    let latent = latent(keys)?;
    let head_dim = match &latent {
        Some((_, head_dim)) => *head_dim,
        None => match keys.number(&["head_dim", "kv_channels"])? {
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
    let [nope, rope_dim, mut value_dim] =
        [keys.number(&names[..1])?, keys.number(&names[1..2])?, keys.number(&names[2..])?];
    if value_dim.is_none() && model_type(keys) == "minicpm3" {
        // `v_head_dim = hidden_size // num_attention_heads` (`modeling_minicpm.py` beside the weights).
        let (hidden, heads) = (keys.number(&["hidden_size"])?, keys.number(&["num_attention_heads"])?);
        value_dim = hidden.zip(heads).and_then(|(hidden, heads)| hidden.checked_div(heads));
    }
    let (Some(nope), Some(rope_dim), Some(value_dim)) = (nope, rope_dim, value_dim) else {
        let missing = names.iter().filter(|name| !keys.has(name)).map(|name| (*name).to_owned()).collect();
        return Err(HfConfigError::MissingKeys { model_type: model_type(keys), keys: missing });
    };
    let q_rank = keys.number(&["q_lora_rank"])?;
    Ok(Some((LatentAttention { q_rank, kv_rank, rope_dim, value_dim }, nope.saturating_add(rope_dim))))
}

fn window(keys: &ConfigKeys<'_>, family: &Family, layers: u32) -> Result<Option<SlidingWindow>, InvalidValue> {
    if let Some(tokens) = keys.number(&["attention_chunk_size"])?.filter(|tokens| *tokens > 0) {
        // Llama 4: each so manieth layer has no positions, and sees everything.
        let interval = keys.number(&["no_rope_layer_interval"])?.filter(|interval| *interval > 0).unwrap_or(4);
        return Ok(Some(SlidingWindow { tokens, layers: layers - layers / interval }));
    }
    let Some(tokens) = keys.number(&["sliding_window"])?.filter(|tokens| *tokens > 0) else { return Ok(None) };
    // Qwen: off, unless it is written; and the first layers see everything, where none is listed (transformers, `configuration_qwen2.py`).
    let qwen_default = model_type(keys).starts_with("qwen").then_some(28);
    let first_full = keys.number(&["max_window_layers"])?.or(qwen_default);
    if !keys.boolean("use_sliding_window", first_full.is_none()) {
        return Ok(None);
    }
    let listed = keys.count_in_list("layer_types", "sliding_attention");
    // EXAONE 4 writes the layers of one period: `LLLG`.
    let period = keys.text("sliding_window_pattern");
    if !period.is_empty() {
        let [local, all] =
            [period.matches('L').count(), period.chars().count()].map(|count| u32::try_from(count).unwrap_or(1));
        let layers = listed.unwrap_or_else(|| layers.saturating_mul(local) / all.max(1)).min(layers);
        return Ok((layers > 0).then_some(SlidingWindow { tokens, layers }));
    }
    let from_first = layers - first_full.unwrap_or_default().min(layers);
    let pattern = keys.number(&["sliding_window_pattern"])?.or(family.window_pattern).filter(|pattern| *pattern > 0);
    // Each so manieth layer sees everything.
    let by_pattern = || from_first - pattern.map_or(0, |pattern| from_first / pattern);
    let windowed = listed.unwrap_or_else(by_pattern).min(layers);
    Ok((windowed > 0).then_some(SlidingWindow { tokens, layers: windowed }))
}
