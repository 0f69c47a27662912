//! Encoders of images and sound beside the decoder, and what joins them to it.

use serde_json::{Map, Value};

use super::keys::ConfigKeys;
use crate::architecture::WIDTH_MAX;
use crate::count::format_parameters;

/// Keys of an encoder's own sizes.
const PARTS: [(&str, &str); 3] = [("vision_config", "images"), ("visual", "images"), ("audio_config", "sound")];

/// Keys that show that there is an encoder, without its sizes.
const SIGNS: [&str; 7] = [
    "img_processor",
    "embd_layer",
    "mm_vision_tower",
    "vision_tower",
    "image_processor",
    "audio_processor",
    "vit_config",
];

/// Encoders whose sizes no key says: the parameters that the pages of Phi-3.5-vision and Phi-4-multimodal count, less those of the decoder.
const UNWRITTEN: [(&str, u64); 2] = [("phi3_v", 325_541_888), ("phi4mm", 1_738_438_624)];

/// Sizes that Transformers leaves out where they are the defaults of their type: layers, width, intermediate size.
const DEFAULTS: [(&str, [u32; 3]); 6] = [
    ("clip_vision_model", [12, 768, 3_072]),
    ("mllama_vision_model", [32, 1_280, 5_120]),
    ("pixtral", [24, 1_024, 4_096]),
    ("qwen2_5_vl", [32, 1_280, 3_420]),
    ("qwen2_vl", [32, 1_280, 5_120]),
    ("siglip_vision_model", [12, 768, 3_072]),
];

/// Kinds whose MLP has a gate, as a part of their name.
const GATED: [&str; 6] = ["pixtral", "qwen2_5_vl", "qwen2_5_omni", "glm4v", "aimv2", "ovis2"];

/// Returns the parameters of all encoders, and a note for people on each.
pub(super) fn other_parts(keys: &ConfigKeys<'_>, hidden: u32) -> (u64, Vec<String>) {
    let (mut parameters, mut notes) = (0_u64, Vec::new());
    for (key, of) in PARTS {
        let Some(config) = keys.object(key) else { continue };
        if let Some(counted) = encoder_parameters(config, keys.text("model_type"), u64::from(hidden)) {
            parameters = parameters.saturating_add(counted);
            notes.push(format!(
                "the encoder of {of} is counted by its sizes, {} parameters in 16 bits; what it takes while it reads is not",
                format_parameters(counted)
            ));
        } else {
            notes
                .push(format!("only the part for text is counted, not the encoder of {of}, whose sizes are not known"));
        }
    }
    let unwritten = UNWRITTEN.iter().find(|(model_type, _)| *model_type == keys.text("model_type"));
    if let Some((_, counted)) = unwritten.filter(|_| notes.is_empty()) {
        parameters = *counted;
        notes.push(format!(
            "the encoders are counted as those of the published model, {} parameters in 16 bits; what they take while they read is not",
            format_parameters(*counted)
        ));
    }
    if notes.is_empty() && (keys.is_nested() || SIGNS.iter().any(|sign| keys.has(sign))) {
        notes.push("only the part for text is counted, not the encoder of images or sound".to_owned());
    }
    (parameters, notes)
}

/// A vision transformer of these sizes: its blocks, patches, positions, and two matrices that join it to the decoder.
/// Some files name no type of the encoder, but one of the whole model.
fn encoder_parameters(config: &Map<String, Value>, model_type: &str, hidden: u64) -> Option<u64> {
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or(model_type);
    let default = DEFAULTS.iter().find(|(name, _)| *name == kind).map(|(_, sizes)| *sizes);
    let written = |names: &[&str]| names.iter().find_map(|name| whole_number(config.get(*name)?));
    let number = |names: &[&str], place: usize| {
        written(names).or_else(|| default.and_then(|sizes| sizes.get(place).copied()).map(u64::from))
    };
    let layers = number(&["num_hidden_layers", "depth", "layers", "num_layers", "encoder_layers"], 0)?;
    let layers = layers.saturating_add(written(&["num_global_layers"]).unwrap_or(0));
    // Qwen2-VL calls the width of its output `hidden_size`.
    let width = number(&["embed_dim", "hidden_size", "width", "d_model"], 1)?;
    let ratio = config.get("mlp_ratio").and_then(Value::as_f64).filter(|ratio| (0.5..=16.0).contains(ratio));
    let intermediate = match (written(&["intermediate_size", "encoder_ffn_dim"]), ratio) {
        (Some(intermediate), _) => intermediate,
        (None, Some(ratio)) => times(width, ratio),
        (None, None) => number(&[], 2)?,
    };
    let sizes = [layers, width, intermediate];
    if sizes.iter().any(|size| *size == 0 || *size > u64::from(WIDTH_MAX)) || layers > 1_024 {
        return None;
    }
    let matrices = if GATED.iter().any(|name| kind.contains(name)) { 3 } else { 2 };
    let block = 4 * width * width + matrices * width * intermediate + 9 * width + intermediate;
    let patch = written(&["patch_size"]).unwrap_or(0).min(1_024);
    let frames = written(&["temporal_patch_size"]).unwrap_or(1).min(64);
    let side = written(&["image_size"]).unwrap_or(0).min(1 << 16).checked_div(patch).unwrap_or(0);
    // Rotary positions have no table.
    let has_positions = !GATED.iter().any(|name| kind.contains(name)) && !kind.contains("qwen2_vl");
    let positions = if has_positions { written(&["num_position_embeddings"]).unwrap_or(side * side) } else { 0 };
    let patches = 3 * frames * patch * patch * width + positions.min(1 << 24) * width;
    Some(layers * block + patches + joint(config, kind, width, hidden))
}

/// Matrices between an encoder and the decoder.
fn joint(config: &Map<String, Value>, kind: &str, width: u64, hidden: u64) -> u64 {
    let merged = config.get("spatial_merge_size").and_then(whole_number).unwrap_or(1).clamp(1, 16);
    if kind.contains("siglip") {
        return width * hidden;
    }
    if let Some(output) = config.get("vision_output_dim").and_then(whole_number) {
        let adapter = config.get("projector_input_dim").and_then(whole_number).unwrap_or(0).min(1 << 20);
        return 4 * width * adapter + adapter * adapter + output.min(1 << 20) * hidden;
    }
    let wide = width * merged * merged;
    // A merger of its own for each level of features that reaches a deeper layer (Qwen3-VL).
    let levels = config.get("deepstack_visual_indexes").and_then(Value::as_array).map_or(0, Vec::len).min(64);
    let mergers = 1 + u64::try_from(levels).unwrap_or(0);
    let second = if merged > 1 { wide * hidden } else { hidden * hidden };
    let first = if merged > 1 { wide * wide } else { width * hidden };
    mergers * (first + second)
}

fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a width is below 2^20, and the ratio below 17"
)]
fn times(width: u64, ratio: f64) -> u64 {
    (width.min(u64::from(WIDTH_MAX)) as f64 * ratio) as u64
}
