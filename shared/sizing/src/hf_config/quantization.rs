//! `quantization_config`: the format in which a file keeps the weights.
//!
//! Sources: Transformers 5.24.0, `utils/quantization_config.py` and `quantizers/quantizers_utils.py`; compressed-tensors,
//! `quant_config.py` and `quant_args.py`; NVIDIA `ModelOpt`, `hf_quant_config.json`.

use std::collections::BTreeMap;

use model::fault::one_line;
use serde_json::{Map, Value};

use super::bit_width::{BitWidth, arguments_width, describe_width, integer_width, preset_width};
use super::keys::ConfigKeys;
use super::name_patterns::{NamePatterns, NameRule};
use super::weight_names::{WeightMatrix, matrices};
use crate::architecture::{ModelArchitecture, PublishedFormat, QuantizedWeights};
use crate::count::format_parameters;
use crate::precision::Precision;

/// Lists of names that keep 16 bits, by different methods.
const KEPT: [&str; 7] = [
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "exclude_modules",
    "exclude",
    "llm_int8_skip_modules",
    "modules_to_not_quantize",
];

/// Formats of a file: published ones have at most some dozens.
const GROUPS_MAX: usize = 100;

/// Matrices in one format.
#[derive(Debug)]
struct FormatGroup {
    /// `None`: every linear layer.
    targets: Option<NamePatterns>,
    /// `None`: 16 bits.
    width: Option<BitWidth>,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent trait of a method")]
struct Scheme {
    /// The first group that has a matrix counts.
    groups: Vec<FormatGroup>,
    kept: NamePatterns,
    /// Only routed experts.
    is_of_experts: bool,
    /// The matrix that predicts tokens, unless it is kept.
    has_head: bool,
    /// The encoders of images and sound, unless they are kept.
    has_encoders: bool,
    description: String,
    trains_adapters: bool,
}

pub(super) fn published_format(
    keys: &ConfigKeys<'_>,
    architecture: &mut ModelArchitecture,
    sparse: &[bool],
) -> PublishedFormat {
    // compressed-tensors wrote `compression_config` before.
    let named = ["quantization_config", "compression_config"].into_iter().find_map(|key| Some((key, keys.value(key)?)));
    let Some((key, config)) = named else { return plain(keys) };
    let Some(config) = config.as_object() else {
        return unknown(key, "it is no object with a method and its settings");
    };
    let method = method(config);
    let read = scheme(config, &method).and_then(|scheme| match scheme {
        Some(scheme) => quantized(&scheme, architecture, sparse).map(PublishedFormat::Quantized),
        None => Ok(plain(keys)),
    });
    if let Ok(PublishedFormat::Quantized(_)) = &read
        && has_short_cache(config)
    {
        let note = "the file asks for a KV cache in fewer bits; it is counted in 16, which is twice as much as in 8";
        architecture.notes.push(note.to_owned());
    }
    read.unwrap_or_else(|reason| unknown(key, &reason))
}

fn unknown(key: &str, reason: &str) -> PublishedFormat {
    PublishedFormat::Unknown(format!(
        "{key}: {reason}; name the format in which the weights are used as the precision, such as int4"
    ))
}

fn plain(keys: &ConfigKeys<'_>) -> PublishedFormat {
    let dtype = [keys.text("dtype"), keys.text("torch_dtype")].into_iter().find(|dtype| !dtype.is_empty());
    PublishedFormat::Plain(match dtype.unwrap_or_default().trim_start_matches("torch.") {
        "float32" | "float" => Some(Precision::Fp32),
        "float16" | "half" => Some(Precision::Fp16),
        "bfloat16" => Some(Precision::Bf16),
        "" | "auto" => None,
        other => return unknown("torch_dtype", &format!("{:?} is not known", one_line(other, 40))),
    })
}

fn method(config: &Map<String, Value>) -> String {
    let named = text(config, "quant_method");
    let is_true = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
    match named {
        "" if is_true("load_in_4bit") || is_true("load_in_8bit") => "bitsandbytes".to_owned(),
        "" if config.contains_key("config_groups") => "compressed-tensors".to_owned(),
        "" if config.contains_key("quant_algo") || config.contains_key("quantization") => "modelopt".to_owned(),
        named => named.to_ascii_lowercase(),
    }
}

fn has_short_cache(config: &Map<String, Value>) -> bool {
    let scheme = config.get("kv_cache_scheme").filter(|scheme| scheme.is_object());
    scheme.is_some() || !["", "none", "None", "NONE"].contains(&text(nested(config), "kv_cache_quant_algo"))
}

/// `ModelOpt` has its keys in the document, or under `quantization`.
fn nested(config: &Map<String, Value>) -> &Map<String, Value> {
    config.get("quantization").and_then(Value::as_object).unwrap_or(config)
}

fn text<'a>(config: &'a Map<String, Value>, key: &str) -> &'a str {
    config.get(key).and_then(Value::as_str).unwrap_or("")
}

/// `None`: the weights are in no other format than the rest.
fn scheme(config: &Map<String, Value>, method: &str) -> Result<Option<Scheme>, String> {
    match method {
        "compressed-tensors" if text(config, "format") == "dense" => return Ok(None),
        "compressed-tensors" => return groups_scheme(config, "compressed-tensors").map(Some),
        "modelopt" | "modelopt_fp4" | "modelopt_mixed" if config.contains_key("config_groups") => {
            return groups_scheme(config, "modelopt").map(Some);
        }
        _ => {}
    }
    let config = nested(config);
    let (width, words) = whole_width(config, method)?;
    let rule = if method == "awq" { NameRule::Text } else { NameRule::Parts };
    let mut patterns: Vec<&str> = kept_names(config)?;
    let mut groups = Vec::new();
    if let Some(dynamic) = config.get("dynamic").and_then(Value::as_object) {
        patterns.extend(dynamic.keys().filter_map(|key| key.strip_prefix("-:")));
        groups.extend(overrides(dynamic, width)?);
    }
    let extra = config.get("extra_config").and_then(Value::as_object);
    for (name, settings) in extra.into_iter().flatten() {
        match settings.get("bits").and_then(Value::as_u64) {
            Some(16..) => patterns.push(name),
            None => {}
            Some(bits) if Some(bits) == config.get("bits").and_then(Value::as_u64) => {}
            Some(_) => return Err("some layers have other bits than the rest (`extra_config`)".to_owned()),
        }
    }
    let inside = config.get("modules_in_block_to_quantize").and_then(Value::as_array);
    let targets = match inside {
        Some(names) => {
            let names = names.iter().flat_map(|name| match name {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
                name => name.as_str().into_iter().collect(),
            });
            Some(NamePatterns::read(NameRule::Parts, names)?)
        }
        None => None,
    };
    groups.push(FormatGroup { targets, width: Some(width) });
    Ok(Some(Scheme {
        groups,
        kept: NamePatterns::read(rule, patterns.into_iter())?,
        is_of_experts: method == "mxfp4",
        has_head: method.starts_with("modelopt") || config.get("lm_head").and_then(Value::as_bool) == Some(true),
        has_encoders: matches!(method, "bitsandbytes" | "fp8" | "modelopt" | "modelopt_fp4"),
        description: format!("{method}, {words}"),
        trains_adapters: matches!(
            method,
            "bitsandbytes" | "awq" | "gptq" | "auto-round" | "auto_round" | "intel/auto-round" | "eetq"
        ),
    }))
}

/// # Errors
/// A list that is none: its name.
fn kept_names(config: &Map<String, Value>) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    for key in KEPT {
        match config.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => names.push(name.as_str()),
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
                names.extend(list.iter().filter_map(Value::as_str));
            }
            Some(_) => return Err(format!("{key} is no list of names")),
        }
    }
    Ok(names)
}

/// Overrides of `GPTQModel`, by a pattern that begins with `+:` or with nothing.
fn overrides(dynamic: &Map<String, Value>, usual: BitWidth) -> Result<Vec<FormatGroup>, String> {
    let mut groups = Vec::new();
    for (key, settings) in dynamic.iter().filter(|(key, _)| !key.starts_with("-:")) {
        let Some(bits) = settings.get("bits").and_then(Value::as_u64) else { continue };
        let pattern = key.strip_prefix("+:").unwrap_or(key);
        let regex = format!("re:{pattern}");
        let size = settings.get("group_size").and_then(Value::as_i64).unwrap_or(128);
        let width = if bits >= 16 { None } else { Some(integer_width(bits, size, true).unwrap_or(usual)) };
        let targets = Some(NamePatterns::read(NameRule::Parts, std::iter::once(regex.as_str()))?);
        groups.push(FormatGroup { targets, width });
        check_groups(groups.len())?;
    }
    Ok(groups)
}

fn check_groups(groups: usize) -> Result<(), String> {
    if groups > GROUPS_MAX { Err(format!("more than {GROUPS_MAX} formats are more than a file has")) } else { Ok(()) }
}

/// The width of all quantized weights of a method that has one, in words as well.
fn whole_width(config: &Map<String, Value>, method: &str) -> Result<(BitWidth, String), String> {
    let fixed = |precision: Precision, words: &str| Ok((BitWidth::named(precision), words.to_owned()));
    let is_true = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
    let number = |keys: [&str; 2]| keys.iter().find_map(|key| config.get(*key)?.as_i64());
    match method {
        "fp8" | "fbgemm_fp8" => fixed(Precision::Fp8, "8 bits"),
        "mxfp4" => fixed(Precision::Mxfp4, "4.25 bits, the experts alone"),
        "eetq" => fixed(Precision::Int8, "8 bits"),
        "awq" | "gptq" | "auto-round" | "intel/auto-round" | "auto_round" => {
            let bits = number(["bits", "w_bit"]).and_then(|bits| u64::try_from(bits).ok());
            let size = number(["group_size", "q_group_size"]).unwrap_or(128);
            let width = bits.and_then(|bits| integer_width(bits, size, true));
            let (Some(bits), Some(width)) = (bits, width) else {
                return Err(format!("{method} says no number of bits from 2 to 8"));
            };
            let groups = if size > 0 { format!(" in groups of {size}") } else { String::new() };
            Ok((width, format!("{bits} bits{groups}")))
        }
        "bitsandbytes" if is_true("load_in_4bit") || is_true("_load_in_4bit") => {
            let is_doubled = is_true("bnb_4bit_use_double_quant");
            // Blocks of 64 with a constant of 32 bits (QLoRA, section 3).
            let millibits = if is_doubled { Precision::Nf4.weight_millibits() } else { 4_500 };
            let words = if is_doubled { "4 bits with double quantization" } else { "4 bits" };
            Ok((BitWidth { precision: Precision::Nf4, millibits }, words.to_owned()))
        }
        "bitsandbytes" if is_true("load_in_8bit") || is_true("_load_in_8bit") => fixed(Precision::Int8, "8 bits"),
        "modelopt" | "modelopt_fp4" => {
            let algorithm = text(config, "quant_algo");
            match algorithm {
                "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" | "FP8_PB_WO" | "FP8_BLOCK" => fixed(Precision::Fp8, "FP8"),
                "NVFP4" | "NVFP4_AWQ" | "W4A16_NVFP4" | "W4A8_NVFP4_FP8" => fixed(Precision::Nvfp4, "NVFP4, 4.5 bits"),
                "W4A16_AWQ" | "W4A8_AWQ" | "W4A16" => fixed(Precision::Int4, "4 bits"),
                "INT8_SQ" | "W8A8_SQ_PER_CHANNEL" | "W8A16" => fixed(Precision::Int8, "8 bits"),
                _ => Err(format!("the algorithm {:?} of modelopt is not known", one_line(algorithm, 40))),
            }
        }
        "" => Err("it names no method (`quant_method`)".to_owned()),
        _ => Err(format!("the method {:?} is not known", one_line(method, 40))),
    }
}

/// `config_groups` of compressed-tensors, which `ModelOpt` writes as well.
fn groups_scheme(config: &Map<String, Value>, method: &str) -> Result<Scheme, String> {
    let written = config.get("config_groups").and_then(Value::as_object).ok_or("it has no config_groups")?;
    check_groups(written.len())?;
    let rule = if method == "compressed-tensors" { NameRule::Whole } else { NameRule::Parts };
    let (mut groups, mut words) = (Vec::new(), Vec::new());
    for (name, group) in written {
        // A name of a scheme, with its targets alone.
        let (width, targets) = match group {
            Value::Array(targets) => (preset_width(name)?, Some(targets)),
            group => (arguments_width(group.get("weights"))?, group.get("targets").and_then(Value::as_array)),
        };
        let targets: Vec<&str> = targets.into_iter().flatten().filter_map(Value::as_str).collect();
        let is_of_all = targets.iter().any(|target| ["Linear", "FusedMoE", "re:.*"].contains(target));
        let is_class = |target: &&str| target.starts_with(|letter: char| letter.is_ascii_uppercase());
        if let Some(class) =
            targets.iter().find(|target| is_class(target) && !is_of_all && !target.ends_with("Attention"))
        {
            return Err(format!("the target {:?} is not known", one_line(class, 40)));
        }
        words.extend(width.map(|width| describe_width(&width)));
        let targets = if is_of_all { None } else { Some(NamePatterns::read(rule, targets.into_iter())?) };
        groups.push(FormatGroup { targets, width });
    }
    // A group of names goes before that of all.
    groups.sort_by_key(|group| group.targets.is_none());
    words.dedup();
    let has_sparsity = config.get("sparsity_config").and_then(Value::as_object).is_some_and(|sparsity| {
        let format = text(sparsity, "format");
        !format.is_empty() && format != "dense"
    });
    let sparsity = if has_sparsity { ", without what its sparsity saves" } else { "" };
    Ok(Scheme {
        groups,
        kept: NamePatterns::read(rule, kept_names(config)?.into_iter())?,
        is_of_experts: false,
        has_head: true,
        has_encoders: true,
        description: format!("{method}, {}{sparsity}", words.join(" and ")),
        trains_adapters: false,
    })
}

impl Scheme {
    fn width(&self, matrix: &WeightMatrix) -> Option<BitWidth> {
        if self.kept.matches(matrix) || (self.is_of_experts && !matrix.is_routed) {
            return None;
        }
        let group = self.groups.iter().find(|group| group.targets.as_ref().is_none_or(|names| names.matches(matrix)));
        group.and_then(|group| group.width)
    }

    /// The width of what the group of all linear layers has, if there is one.
    fn usual_width(&self) -> Option<BitWidth> {
        self.groups.iter().find(|group| group.targets.is_none()).and_then(|group| group.width)
    }
}

fn quantized(
    scheme: &Scheme,
    architecture: &mut ModelArchitecture,
    sparse: &[bool],
) -> Result<QuantizedWeights, String> {
    let matrices = matrices(architecture, sparse);
    let names = |matrices: &[WeightMatrix]| matrices.iter().map(|matrix| matrix.names.len()).sum::<usize>();
    let names_in_layer =
        matrices.iter().filter(|matrix| matrix.layer == 0).map(|matrix| matrix.names.len()).sum::<usize>();
    let lists = scheme.groups.iter().filter_map(|group| group.targets.as_ref()).chain([&scheme.kept]);
    NamePatterns::check_work(lists, names(&matrices), names_in_layer.saturating_mul(4))?;
    let (mut bytes, mut expert_bytes, mut quantized) = (0_u64, 0_u64, 0_u64);
    let mut by_layer: BTreeMap<u32, u64> = BTreeMap::new();
    let mut by_precision: BTreeMap<&str, (u64, Precision)> = BTreeMap::new();
    let mut put = |parameters: u64, width: Option<BitWidth>| {
        let Some(BitWidth { precision, millibits }) = width else { return bytes_of(parameters, 16_000) };
        quantized = quantized.saturating_add(parameters);
        let (of_precision, _) = by_precision.entry(precision.as_str()).or_insert((0, precision));
        *of_precision = of_precision.saturating_add(parameters);
        bytes_of(parameters, millibits)
    };
    let mut matrix_parameters = 0_u64;
    for matrix in &matrices {
        let matrix_bytes = put(matrix.parameters, scheme.width(matrix));
        matrix_parameters = matrix_parameters.saturating_add(matrix.parameters);
        bytes = bytes.saturating_add(matrix_bytes);
        expert_bytes = expert_bytes.saturating_add(if matrix.is_routed { matrix_bytes } else { 0 });
        let layer_bytes = by_layer.entry(matrix.layer).or_insert(0);
        *layer_bytes = layer_bytes.saturating_add(matrix_bytes);
    }
    let usual = scheme.usual_width();
    let head = if architecture.has_head() { architecture.vocabulary_matrix() } else { 0 };
    let head_width = usual.filter(|_| scheme.has_head && !scheme.kept.names_head());
    let encoders_width = usual.filter(|_| scheme.has_encoders && !scheme.kept.names_encoder());
    bytes = bytes.saturating_add(put(head, head_width)).saturating_add(put(architecture.other_parts, encoders_width));
    let parameters = architecture.parameters();
    let counted = matrix_parameters.saturating_add(head).saturating_add(architecture.other_parts);
    bytes = bytes.saturating_add(bytes_of(parameters.total.saturating_sub(counted), 16_000));
    let (_, precision) =
        by_precision.into_values().max_by_key(|(parameters, _)| *parameters).ok_or("it quantizes nothing")?;
    note_unknown(&scheme.kept, architecture);
    let kept = format_parameters(parameters.total.saturating_sub(quantized));
    Ok(QuantizedWeights {
        precision,
        description: format!("{} ({kept} parameters in 16 bits)", scheme.description),
        bytes,
        expert_bytes,
        largest_block_bytes: by_layer.into_values().max().unwrap_or(0),
        trains_adapters: scheme.trains_adapters,
    })
}

fn bytes_of(parameters: u64, millibits: u64) -> u64 {
    u64::try_from(u128::from(parameters) * u128::from(millibits) / 8_000).unwrap_or(u64::MAX)
}

fn note_unknown(kept: &NamePatterns, architecture: &mut ModelArchitecture) {
    let unknown = kept.unknown(architecture.layers);
    if let Some(first) = unknown.first() {
        architecture.notes.push(format!(
            "of the names that keep 16 bits {} are not known, such as {:?}; they are counted as the rest",
            unknown.len(),
            one_line(first, 60)
        ));
    }
}
