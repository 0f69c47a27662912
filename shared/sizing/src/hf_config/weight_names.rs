//! Names of the matrices of a decoder, and the patterns by which files choose among them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use regex_lite::{Regex, RegexBuilder};

use crate::architecture::ModelArchitecture;
use crate::count::sum;

/// Published files have at most some dozens of patterns with wildcards, besides names and beginnings of names. The product with the names
/// of the largest model stays below a second.
const WILDCARDS_MAX: usize = 100;
const WILDCARD_CHARACTERS_MAX: usize = 1_000;
const COMPARISONS_MAX: usize = 300_000;

/// Beginnings of full names in Transformers, by the model around the decoder.
const PREFIXES: [&str; 3] = ["model.", "language_model.model.", "model.language_model."];

const QUERY: [&str; 8] = [
    "self_attn.q_proj",
    "self_attn.qkv_proj",
    "self_attn.W_pack",
    "self_attn.query_key_value",
    "self_attention.query_key_value",
    "attention.query_key_value",
    "attention.wqkv",
    "attn.c_attn",
];
const KEY: [&str; 8] = ["self_attn.k_proj", QUERY[1], QUERY[2], QUERY[3], QUERY[4], QUERY[5], QUERY[6], QUERY[7]];
const VALUE: [&str; 8] = ["self_attn.v_proj", QUERY[1], QUERY[2], QUERY[3], QUERY[4], QUERY[5], QUERY[6], QUERY[7]];
const OUTPUT: [&str; 7] = [
    "self_attn.o_proj",
    "self_attn.out_proj",
    "self_attn.dense",
    "self_attention.dense",
    "attention.dense",
    "attention.wo",
    "attn.c_proj",
];
const GATE: [&str; 6] =
    ["mlp.gate_proj", "mlp.gate_up_proj", "mlp.dense_h_to_4h", "mlp.c_fc", "feed_forward.gate_proj", "feed_forward.w1"];
const UP: [&str; 6] =
    ["mlp.up_proj", "mlp.gate_up_proj", "mlp.dense_h_to_4h", "mlp.c_fc", "feed_forward.up_proj", "feed_forward.w3"];
const DOWN: [&str; 5] =
    ["mlp.down_proj", "mlp.dense_4h_to_h", "mlp.c_proj", "feed_forward.down_proj", "feed_forward.w2"];
const EXPERT_GATE: [&str; 5] = [
    "mlp.experts.0.gate_proj",
    "mlp.experts.gate_up_proj",
    "block_sparse_moe.experts.0.w1",
    "feed_forward.experts.0.gate_proj",
    "feed_forward.experts.gate_up_proj",
];
const EXPERT_UP: [&str; 5] = [
    "mlp.experts.0.up_proj",
    "mlp.experts.gate_up_proj",
    "block_sparse_moe.experts.0.w3",
    "feed_forward.experts.0.up_proj",
    "feed_forward.experts.gate_up_proj",
];
const EXPERT_DOWN: [&str; 5] = [
    "mlp.experts.0.down_proj",
    "mlp.experts.down_proj",
    "block_sparse_moe.experts.0.w2",
    "feed_forward.experts.0.down_proj",
    "feed_forward.experts.down_proj",
];
const SHARED_GATE: [&str; 3] =
    ["mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj", "feed_forward.shared_expert.gate_proj"];
const SHARED_UP: [&str; 3] =
    ["mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj", "feed_forward.shared_expert.up_proj"];
const SHARED_DOWN: [&str; 3] =
    ["mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj", "feed_forward.shared_expert.down_proj"];

/// A matrix that a file may quantize.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightMatrix {
    pub(super) layer: u32,
    /// Names in the layer, in different programs.
    names: &'static [&'static str],
    pub(super) parameters: u64,
    /// `true` for the routed experts of a layer, all of them together.
    pub(super) is_routed: bool,
}

/// Every matrix of the blocks but the routers.
pub(super) fn matrices(architecture: &ModelArchitecture, sparse: &[bool]) -> Vec<WeightMatrix> {
    let attention = architecture.attention_matrices();
    let attention_names: &[&'static [&'static str]] = match (architecture.attention.latent, attention.len()) {
        (None, _) => &[&QUERY, &KEY, &VALUE, &OUTPUT],
        (Some(_), 4) => &[&["self_attn.q_proj"], &["self_attn.kv_a_proj_with_mqa"], &["self_attn.kv_b_proj"], &OUTPUT],
        (Some(_), _) => &[
            &["self_attn.q_a_proj"],
            &["self_attn.q_b_proj"],
            &["self_attn.kv_a_proj_with_mqa"],
            &["self_attn.kv_b_proj"],
            &OUTPUT,
        ],
    };
    let mlp_names = |gate, up, down| if architecture.mlp.is_gated { vec![gate, up, down] } else { vec![up, down] };
    let mut matrices = Vec::new();
    for layer in 0..architecture.weight_layers {
        let mut push = |names: &'static [&'static str], parameters: u64, is_routed| {
            matrices.push(WeightMatrix { layer, names, parameters, is_routed });
        };
        for (matrix, names) in attention.iter().zip(attention_names) {
            push(names, sum(std::slice::from_ref(matrix)), false);
        }
        let place = usize::try_from(layer).unwrap_or(usize::MAX);
        let experts = architecture.experts.filter(|_| sparse.get(place).copied().unwrap_or(true));
        let Some(experts) = experts else {
            let mlp = architecture.mlp_matrices(architecture.mlp.intermediate);
            for (matrix, names) in mlp.iter().zip(mlp_names(&GATE[..], &UP[..], &DOWN[..])) {
                push(names, sum(std::slice::from_ref(matrix)), false);
            }
            continue;
        };
        let routed = architecture.mlp_matrices(experts.intermediate);
        for (matrix, names) in routed.iter().zip(mlp_names(&EXPERT_GATE[..], &EXPERT_UP[..], &EXPERT_DOWN[..])) {
            push(names, sum(std::slice::from_ref(matrix)) * u64::from(experts.count), true);
        }
        let shared = architecture.mlp_matrices(experts.shared_intermediate);
        for (matrix, names) in shared.iter().zip(mlp_names(&SHARED_GATE[..], &SHARED_UP[..], &SHARED_DOWN[..])) {
            push(names, sum(std::slice::from_ref(matrix)), false);
        }
    }
    matrices
}

/// Words in the names of parts that are in no block of the decoder, or that keep 16 bits whatever a file says.
const OTHER_WORDS: [&str; 21] = [
    "norm",
    "embed",
    "wte",
    "gate",
    "router",
    "head",
    "vision",
    "visual",
    "image",
    "audio",
    "project",
    "merger",
    "mtp",
    "eh_proj",
    "nextn",
    "score",
    "bias",
    "rotary",
    "sinks",
    "indexer",
    "output_layer",
];

/// Patterns of a list of a file.
#[derive(Debug, Default)]
pub(super) struct NamePatterns {
    /// Names, or parts of names between points.
    plain: BTreeSet<String>,
    /// A pattern with `*`.
    globs: Vec<String>,
    /// A pattern with `*` at its end alone: names that begin so.
    beginnings: BTreeSet<String>,
    regexes: Vec<Regex>,
    /// `true` if a regex has a digit, so it may choose among layers.
    names_layers: bool,
    /// Names that the regexes were compared with, by layer, or by the digits of its number if no regex names one.
    compared: RefCell<BTreeMap<(u32, &'static str), bool>>,
    /// The whole patterns, for what is no block of the decoder.
    texts: Vec<String>,
    met: RefCell<BTreeSet<String>>,
}

impl NamePatterns {
    /// # Errors
    /// A pattern that is none, and more of them than files have: why, for people.
    pub(super) fn read<'a>(patterns: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut read = Self::default();
        for pattern in patterns {
            let (is_regex, text) = match pattern.strip_prefix("re:") {
                Some(regex) => (true, regex),
                None => (pattern.starts_with(".*") || pattern.contains(['\\', '(', '[', '^', '$', '|', '+']), pattern),
            };
            read.texts.push(text.to_owned());
            if is_regex {
                read.regexes.push(compile(text)?);
                read.names_layers |= text.contains(|letter: char| letter.is_ascii_digit());
            } else if let Some(beginning) =
                without_prefix(text).strip_suffix('*').filter(|text| text.starts_with("layers.") && !text.contains('*'))
            {
                read.beginnings.insert(beginning.to_owned());
            } else if text.contains('*') {
                read.globs.push(without_prefix(text).to_owned());
            } else {
                read.plain.insert(without_prefix(text).to_owned());
            }
        }
        let wildcards = read.globs.len().saturating_add(read.regexes.len());
        let is_long = |text: &String| text.len() > WILDCARD_CHARACTERS_MAX;
        if wildcards > WILDCARDS_MAX || read.globs.iter().any(is_long) {
            return Err(format!("{wildcards} patterns of names are more than a file has"));
        }
        Ok(read)
    }

    /// # Errors
    /// So many names and patterns that comparing them takes too long.
    pub(super) fn check_work(&self, matrices: usize) -> Result<(), String> {
        let names = if self.names_layers { matrices } else { 0 };
        let names = names.saturating_mul(QUERY.len() * PREFIXES.len());
        if names.saturating_mul(self.regexes.len()) > COMPARISONS_MAX {
            return Err("too many patterns of names for so many layers".to_owned());
        }
        Ok(())
    }

    pub(super) fn matches(&self, matrix: &WeightMatrix) -> bool {
        matrix.names.iter().any(|suffix| {
            let name = format!("layers.{}.{suffix}", matrix.layer);
            self.matches_name(&name) || self.matches_regex(matrix.layer, suffix, &name)
        })
    }

    fn matches_regex(&self, layer: u32, suffix: &'static str, name: &str) -> bool {
        if self.regexes.is_empty() {
            return false;
        }
        let key = if self.names_layers { layer } else { layer.checked_ilog10().unwrap_or(0) };
        *self.compared.borrow_mut().entry((key, suffix)).or_insert_with(|| {
            let names = PREFIXES.map(|prefix| format!("{prefix}{name}"));
            self.regexes.iter().any(|regex| names.iter().any(|name| regex.is_match(name)))
        })
    }

    fn matches_name(&self, name: &str) -> bool {
        let parts: Vec<&str> = name.split('.').collect();
        let spans = (0..parts.len()).flat_map(|first| (first..parts.len()).map(move |last| (first, last)));
        for (first, last) in spans {
            let span = parts.get(first..=last).unwrap_or_default().join(".");
            if self.plain.contains(&span) {
                self.met.borrow_mut().insert(span);
                return true;
            }
        }
        let is_globbed = |glob: &String| {
            matches_glob(glob, name)
                || matches_glob(&format!("{glob}.*"), name)
                || matches_glob(&format!("*.{glob}"), name)
        };
        let begins = || (1..=name.len()).filter_map(|end| name.get(..end)).any(|begin| self.beginnings.contains(begin));
        (!self.beginnings.is_empty() && begins()) || self.globs.iter().any(is_globbed)
    }

    /// Returns `true` if a pattern is of the matrix that predicts tokens.
    pub(super) fn names_head(&self) -> bool {
        self.texts.iter().any(|text| text.contains("lm_head") || text.contains("output_layer"))
            || ["lm_head", "language_model.lm_head"].iter().any(|name| self.matches_whole(name))
    }

    /// Returns `true` if a pattern is of the encoders of images or sound.
    pub(super) fn names_encoder(&self) -> bool {
        self.texts.iter().any(|text| ["visual", "vision", "audio"].iter().any(|word| text.contains(word)))
            || ["model.visual.blocks.0.attn.qkv", "vision_tower.layers.0"].iter().any(|name| self.matches_whole(name))
    }

    fn matches_whole(&self, name: &str) -> bool {
        self.regexes.iter().any(|regex| regex.is_match(name)) || self.globs.iter().any(|glob| matches_glob(glob, name))
    }

    /// Returns plain names that no matrix has and that are of no other known part. Layers from `layers` on are those that predict several
    /// tokens at once.
    pub(super) fn unknown(&self, layers: u32) -> Vec<&str> {
        let met = self.met.borrow();
        let is_class = |name: &str| !name.contains('.') && name.starts_with(|letter: char| letter.is_ascii_uppercase());
        let is_known = |name: &str| is_class(name) || OTHER_WORDS.iter().any(|word| name.contains(word));
        let is_beyond = |name: &str| {
            let layer = name.strip_prefix("layers.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
            layer.is_some_and(|layer| layer >= layers)
        };
        // A longer name than one that matched is never looked at.
        let is_below_met = |name: &str| met.iter().any(|met| name.starts_with(met.as_str()));
        self.plain
            .iter()
            .map(String::as_str)
            .filter(|name| !met.contains(*name) && !is_known(name) && !is_beyond(name) && !is_below_met(name))
            .collect()
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    // Python's `re.match` begins at the start of a name.
    RegexBuilder::new(&format!("^(?:{pattern})"))
        .size_limit(1 << 16)
        .build()
        .ok()
        .filter(|_| pattern.len() <= WILDCARD_CHARACTERS_MAX)
        .ok_or_else(|| format!("{:?} is no pattern of names that is understood", model::fault::one_line(pattern, 60)))
}

/// The part of a name from `layers.` on, whatever model is around the decoder; the whole name of a part that is not of the decoder.
fn without_prefix(name: &str) -> &str {
    let is_of_encoder = ["visual", "vision", "audio"].iter().any(|word| name.contains(word));
    let begin = ["layers.", "h."].iter().find_map(|begin| {
        let place = name.find(begin)?;
        let begins_part = place == 0 || name.as_bytes().get(place.wrapping_sub(1)) == Some(&b'.');
        begins_part.then_some((place, begin))
    });
    match begin {
        Some((place, &"layers.")) if !is_of_encoder => name.get(place..).unwrap_or(name),
        _ => name,
    }
}

/// `*` is any text, and `?` is not special.
fn matches_glob(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(place) = rest.find(part) else { return false };
        rest = rest.get(place.saturating_add(part.len())..).unwrap_or_default();
    }
    rest.is_empty()
}
