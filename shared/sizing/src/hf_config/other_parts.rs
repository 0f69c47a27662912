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

/// Keys with the ending of a part that have settings and no weights of their own. Those of attention and MLP belong to the decoder.
const SETTINGS: [&str; 7] = [
    "attn_config",
    "compression_config",
    "ffn_config",
    "generation_config",
    "init_config",
    "peft_config",
    "quantization_config",
];

/// Named parts that a note may list.
const NAMED_PARTS_MAX: usize = 5;

/// Encoders whose sizes no key says: the parameters that the pages of Phi-3.5-vision and Phi-4-multimodal count, less those of the decoder.
const UNWRITTEN: [(&str, u64); 2] = [("phi3_v", 325_541_888), ("phi4mm", 1_738_438_624)];

/// Sizes that Transformers leaves out where they are the defaults of their type: layers, width, intermediate size.
const DEFAULTS: [(&str, [u32; 3]); 7] = [
    ("clip_vision_model", [12, 768, 3_072]),
    ("mllama_vision_model", [32, 1_280, 5_120]),
    ("paddleocr_vl_vision", [27, 1_152, 4_304]),
    ("pixtral", [24, 1_024, 4_096]),
    ("qwen2_5_vl", [32, 1_280, 3_420]),
    ("qwen2_vl", [32, 1_280, 5_120]),
    ("siglip_vision_model", [12, 768, 3_072]),
];

/// Kinds whose MLP has a gate, as a part of their name.
const GATED: [&str; 5] = ["pixtral", "qwen2_5_vl", "qwen2_5_omni", "aimv2", "ovis2"];

/// Returns the parameters of all encoders, and a note for people on each part that is counted or left out.
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
    let uncounted = uncounted_parts(keys);
    if !uncounted.is_empty() {
        notes.push(format!("not counted, because what it has is not known: {}", uncounted.join(", ")));
    } else if notes.is_empty() && (keys.is_nested() || SIGNS.iter().any(|sign| keys.has(sign))) {
        notes.push("only the part for text is counted, not the encoder of images or sound".to_owned());
    }
    (parameters, notes)
}

/// Keys of the whole file that describe a part and that nothing here reads, such as `codec_config`.
fn uncounted_parts(keys: &ConfigKeys<'_>) -> Vec<String> {
    let is_read = |key: &str| {
        super::TEXT_PARTS.contains(&key) || SETTINGS.contains(&key) || PARTS.iter().any(|(part, _)| *part == key)
    };
    let mut parts: Vec<String> = keys
        .parts_of_whole()
        .filter(|key| key.ends_with("_config") && !is_read(key))
        .map(|key| model::fault::one_line(key, 40))
        .collect();
    let more = parts.len().saturating_sub(NAMED_PARTS_MAX);
    if more > 0 {
        parts.truncate(NAMED_PARTS_MAX);
        parts.push(format!("{more} more"));
    }
    parts
}

/// The sizes of an encoder, and the kind of it. Some files name no type of the encoder, but one of the whole model.
struct Encoder<'a> {
    config: &'a Map<String, Value>,
    kind: &'a str,
    /// The width of the decoder.
    hidden: u64,
}

fn encoder_parameters(config: &Map<String, Value>, model_type: &str, hidden: u64) -> Option<u64> {
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or(model_type);
    Encoder { config, kind, hidden }.parameters()
}

impl Encoder<'_> {
    fn written(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.config.get(*name)?.as_u64())
    }

    /// A size that no encoder exceeds.
    fn width(&self, name: &str) -> Option<u64> {
        self.written(&[name]).map(|width| width.min(u64::from(WIDTH_MAX)))
    }

    fn is_kind(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|name| self.kind.contains(name))
    }

    /// Blocks, patches or spectrum, positions, and the matrices that join it to the decoder.
    fn parameters(&self) -> Option<u64> {
        let default = DEFAULTS.iter().find(|(name, _)| *name == self.kind).map(|(_, sizes)| *sizes);
        let number = |names: &[&str], place: usize| {
            self.written(names).or_else(|| default.and_then(|sizes| sizes.get(place).copied()).map(u64::from))
        };
        let layers = number(&["num_hidden_layers", "depth", "layers", "num_layers", "encoder_layers"], 0)?;
        let layers = layers.saturating_add(self.written(&["num_global_layers"]).unwrap_or(0));
        // Qwen2-VL calls the width of its output `hidden_size`.
        let width = number(&["embed_dim", "hidden_size", "width", "d_model"], 1)?;
        let ratio = self.config.get("mlp_ratio").and_then(Value::as_f64).filter(|ratio| (0.5..=16.0).contains(ratio));
        let intermediate = match (self.written(&["intermediate_size", "encoder_ffn_dim"]), ratio) {
            (Some(intermediate), _) => intermediate,
            (None, Some(ratio)) => times(width, ratio),
            (None, None) => number(&[], 2)?,
        };
        let sizes = [layers, width, intermediate];
        if sizes.iter().any(|size| *size == 0 || *size > u64::from(WIDTH_MAX)) || layers > 1_024 {
            return None;
        }
        if self.is_kind(&["glm4v", "glm46v", "Glm4v"]) {
            return self.glm_parameters(layers, width, intermediate);
        }
        let matrices = if self.is_kind(&GATED) { 3 } else { 2 };
        let block = 4 * width * width + matrices * width * intermediate + 9 * width + intermediate;
        // Rotary positions have no table.
        let has_positions = !self.is_kind(&GATED) && !self.is_kind(&["qwen2_vl"]);
        let positions = if has_positions { self.positions() } else { 0 };
        Some(
            layers * block
                + self.input_matrices(width)
                + positions.min(1 << 24) * width
                + self.joint(width, intermediate),
        )
    }

    /// GLM-4.1V and GLM-4.5V (Transformers, `modeling_glm4v.py`): the MLP of a block has the width of the output, and `intermediate_size` is
    /// that of the merger behind the blocks.
    fn glm_parameters(&self, layers: u64, width: u64, intermediate: u64) -> Option<u64> {
        let output = self.width("out_hidden_size")?;
        let side = self.merged();
        let block = 4 * width * width + 3 * width * output + 2 * width;
        let downsampling = width * output * side * side + output;
        let merger = output * output + 3 * output * intermediate + 2 * output;
        let norms = 2 * width;
        Some(
            layers * block
                + self.input_matrices(width)
                + self.positions() * width
                + width
                + downsampling
                + merger
                + norms,
        )
    }

    /// The convolution over patches of an image; of sound two, over three steps of the spectrum.
    fn input_matrices(&self, width: u64) -> u64 {
        let spectrum =
            self.written(&["num_mel_bins"]).map_or(0, |bins| 3 * width * (bins.min(1_024) + width) + 2 * width);
        let patch = self.written(&["patch_size"]).unwrap_or(0).min(1_024);
        let frames = self.written(&["temporal_patch_size"]).unwrap_or(1).min(64);
        spectrum + 3 * frames * patch * patch * width
    }

    fn positions(&self) -> u64 {
        let patch = self.written(&["patch_size"]).unwrap_or(0).min(1_024);
        let side = self.written(&["image_size"]).unwrap_or(0).min(1 << 16).checked_div(patch).unwrap_or(0);
        // Qwen's encoders of sound compute theirs.
        let names: &[&str] = if self.is_kind(&["omni"]) {
            &["num_position_embeddings"]
        } else {
            &["num_position_embeddings", "max_source_positions"]
        };
        self.written(names).unwrap_or(side * side).min(1 << 24)
    }

    /// Tokens along one side of an image that become one.
    fn merged(&self) -> u64 {
        self.written(&["spatial_merge_size"]).unwrap_or(1).clamp(1, 16)
    }

    /// Matrices between an encoder and the decoder.
    fn joint(&self, width: u64, intermediate: u64) -> u64 {
        let (hidden, merged) = (self.hidden, self.merged());
        if self.is_kind(&["siglip", "qwen2_audio"]) {
            return width * hidden;
        }
        if self.is_kind(&["voxtral"]) {
            return intermediate * hidden + hidden * hidden;
        }
        if let Some(output) = self.width("output_dim").filter(|_| self.is_kind(&["audio"])) {
            return width * output;
        }
        if let Some(output) = self.width("vision_output_dim") {
            let adapter = self.width("projector_input_dim").unwrap_or(0);
            return 4 * width * adapter + adapter * adapter + output * hidden;
        }
        let wide = width * merged * merged;
        // A merger of its own for each level of features that reaches a deeper layer (Qwen3-VL).
        let levels = self.config.get("deepstack_visual_indexes").and_then(Value::as_array).map_or(0, Vec::len).min(64);
        let mergers = 1 + u64::try_from(levels).unwrap_or(0);
        let second = if merged > 1 { wide * hidden } else { hidden * hidden };
        let first = if merged > 1 { wide * wide } else { width * hidden };
        mergers * (first + second)
    }
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
