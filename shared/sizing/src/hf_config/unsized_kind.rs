//! Kinds of models that no formula of this crate covers. Their keys look like those of a decoder, so they are refused by name, and a kind
//! that nobody knew yet by the keys that only such models have.

use model::fault::InvalidValue;

use super::keys::ConfigKeys;

/// `model_type` of models that have both an encoder and a decoder (Transformers, "Models", as of November 2026).
const ENCODER_DECODERS: [&str; 29] = [
    "bart",
    "bigbird_pegasus",
    "blenderbot",
    "blenderbot-small",
    "encoder-decoder",
    "fsmt",
    "led",
    "longt5",
    "m2m_100",
    "marian",
    "mbart",
    "moonshine",
    "mt5",
    "musicgen",
    "mvp",
    "nllb-moe",
    "pegasus",
    "pegasus_x",
    "plbart",
    "prophetnet",
    "seamless_m4t",
    "seamless_m4t_v2",
    "speech_to_text",
    "switch_transformers",
    "t5",
    "t5gemma",
    "umt5",
    "whisper",
    "xlm-prophetnet",
];

/// `model_type` of models that have recurrent, state-space or convolutional layers, in all blocks or in some (Transformers, "Models", as of
/// November 2026).
const RECURRENT: [&str; 20] = [
    "bamba",
    "falcon_h1",
    "falcon_mamba",
    "granitemoehybrid",
    "jamba",
    "kimi_linear",
    "lfm2",
    "lfm2_moe",
    "mamba",
    "mamba2",
    "minimax",
    "nemotron_h",
    "qwen3_next",
    "recurrent_gemma",
    "rwkv",
    "rwkv6",
    "rwkv7",
    "xlstm",
    "zamba",
    "zamba2",
];

const ENCODER_DECODER_KEYS: [&str; 3] = ["num_decoder_layers", "decoder_layers", "encoder_layers"];

const RECURRENT_KEYS: [&str; 6] =
    ["ssm_cfg", "ssm_state_size", "state_size", "mamba_d_state", "lru_width", "linear_num_value_heads"];

/// Names in `layer_types` of layers without attention, or with an attention that keeps no cache.
const RECURRENT_LAYERS: [&str; 4] = ["linear_attention", "mamba", "conv", "recurrent"];

/// # Errors
/// Models with an encoder and a decoder, and models with recurrent layers.
pub(super) fn refuse_unsized_kind(keys: &ConfigKeys<'_>, model_type: &str) -> Result<(), InvalidValue> {
    let is_any_there = |names: &[&str]| names.iter().any(|name| keys.has(name));
    let has_both = keys.is_true("is_encoder_decoder")
        || ENCODER_DECODERS.contains(&model_type)
        || is_any_there(&ENCODER_DECODER_KEYS);
    let has_recurrent_layers =
        || RECURRENT_LAYERS.iter().any(|layer| keys.count_in_list("layer_types", layer).is_some_and(|count| count > 0));
    let is_recurrent = || RECURRENT.contains(&model_type) || is_any_there(&RECURRENT_KEYS) || has_recurrent_layers();
    let what = if has_both {
        "an encoder and a decoder"
    } else if is_recurrent() {
        "recurrent or state-space layers"
    } else {
        return Ok(());
    };
    Err(InvalidValue::new(format!(
        "the model type {model_type:?} has {what}, which are not sized; the number of parameters instead gives its weights, and nothing else \
         of it"
    )))
}
