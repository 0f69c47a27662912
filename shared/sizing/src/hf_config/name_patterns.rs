//! Patterns by which files choose among the matrices of a decoder, compared as the library of each method does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use regex_lite::{Regex, RegexBuilder};

use super::weight_names::WeightMatrix;

/// Published files have at most some dozens of patterns with wildcards, besides names and beginnings of names.
const WILDCARDS_MAX: usize = 100;
/// The longest names of matrices have some 60 characters.
const PATTERN_CHARACTERS_MAX: usize = 1_000;
/// Characters of patterns times names: below some seconds.
const WORK_MAX: usize = 12_000_000;

/// Beginnings of full names in Transformers, by the model around the decoder.
const PREFIXES: [&str; 4] =
    ["model.layers.", "language_model.model.layers.", "model.language_model.layers.", "transformer.h."];

/// Names of the list of layers, as one part of a name.
const LAYER_LISTS: [&str; 5] = ["layers.", "h.", "blocks.", "layer.", "block."];

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

/// How the library of a method compares a name without wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameRule {
    /// Parts of a name between points, or the end of one: Transformers, `should_convert_module`; vLLM, `is_layer_skipped_bnb`.
    Parts,
    /// A text anywhere in a name: `AutoAWQ`, `exclude_layers_to_not_quantize`; vLLM, `is_layer_skipped_awq`.
    Text,
    /// A whole name: compressed-tensors, `match_name`.
    Whole,
}

/// Patterns of a list of a file.
#[derive(Debug)]
pub(super) struct NamePatterns {
    rule: NameRule,
    plain: BTreeSet<String>,
    /// Patterns with `*`, each also of the parts below and behind it.
    globs: Vec<[String; 3]>,
    /// Names that begin so.
    beginnings: BTreeSet<String>,
    regexes: Vec<Regex>,
    /// `true` if a regex has a digit, so it may choose among layers.
    names_layers: bool,
    /// Characters of all regexes.
    regex_characters: usize,
    /// Names that the regexes were compared with, by layer, or by the digits of its number if no regex names one.
    compared: RefCell<BTreeMap<(u32, &'static str), bool>>,
    /// Names in a layer whose ends or texts were compared.
    compared_in_layer: RefCell<BTreeMap<&'static str, bool>>,
    /// The whole patterns, for what is no block of the decoder.
    texts: Vec<String>,
    met: RefCell<BTreeSet<String>>,
}

impl NamePatterns {
    /// # Errors
    /// A pattern that is none, and more of them than files have: why, for people.
    pub(super) fn read<'a>(rule: NameRule, patterns: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut read = Self {
            rule,
            plain: BTreeSet::new(),
            globs: Vec::new(),
            beginnings: BTreeSet::new(),
            regexes: Vec::new(),
            names_layers: false,
            regex_characters: 0,
            compared: RefCell::default(),
            compared_in_layer: RefCell::default(),
            texts: Vec::new(),
            met: RefCell::default(),
        };
        for pattern in patterns {
            read.add(pattern)?;
            let wildcards = read.globs.len().saturating_add(read.regexes.len());
            if wildcards > WILDCARDS_MAX {
                return Err(format!("more than {WILDCARDS_MAX} patterns of names are more than a file has"));
            }
        }
        Ok(read)
    }

    fn add(&mut self, pattern: &str) -> Result<(), String> {
        if pattern.len() > PATTERN_CHARACTERS_MAX {
            let shown = model::fault::one_line(pattern, 60);
            return Err(format!("{shown:?} is longer than a name of weights, {PATTERN_CHARACTERS_MAX} characters"));
        }
        let (is_regex, text) = match pattern.strip_prefix("re:") {
            Some(regex) => (true, regex),
            None => (pattern.starts_with(".*") || pattern.contains(['\\', '(', '[', '^', '$', '|', '+']), pattern),
        };
        self.texts.push(text.to_owned());
        if is_regex {
            self.regexes.push(compile(text)?);
            self.names_layers |= text.contains(|letter: char| letter.is_ascii_digit());
            self.regex_characters = self.regex_characters.saturating_add(text.len());
            return Ok(());
        }
        let name = name_in_decoder(text);
        let beginning = name.strip_suffix('*').filter(|beginning| is_in_layers(beginning) && !beginning.contains('*'));
        match (self.rule, beginning) {
            (_, Some(beginning)) => _ = self.beginnings.insert(beginning.to_owned()),
            _ if name.contains('*') => {
                let glob = name.trim_end_matches('.');
                self.globs.push([glob.to_owned(), format!("{glob}.*"), format!("*.{glob}")]);
            }
            // The number of a layer stands at the beginning, so what follows it anywhere follows it there.
            (NameRule::Text, _) if is_in_layers(&name) => _ = self.beginnings.insert(name),
            (NameRule::Text | NameRule::Whole, _) => _ = self.plain.insert(name),
            // A point at the end closes the name of a part.
            (NameRule::Parts, _) => _ = self.plain.insert(name.trim_matches('.').to_owned()),
        }
        Ok(())
    }

    /// # Errors
    /// So many names and patterns that comparing them takes too long.
    pub(super) fn check_work<'a>(
        lists: impl Iterator<Item = &'a Self>,
        names: usize,
        names_of_layer: usize,
    ) -> Result<(), String> {
        let work = lists.fold(0_usize, |work, list| {
            let compared = if list.names_layers { names } else { names_of_layer };
            let globs = list.globs.iter().flatten().map(String::len).sum::<usize>().saturating_mul(names);
            let regexes = list.regex_characters.saturating_mul(compared).saturating_mul(PREFIXES.len());
            work.saturating_add(globs).saturating_add(regexes)
        });
        if work > WORK_MAX {
            return Err("too many patterns of names for so many layers".to_owned());
        }
        Ok(())
    }

    pub(super) fn matches(&self, matrix: &WeightMatrix) -> bool {
        matrix.names.iter().any(|suffix| {
            let name = format!("layers.{}.{suffix}", matrix.layer);
            self.matches_name(&name) || self.matches_in_layer(suffix) || self.matches_regex(matrix.layer, suffix, &name)
        })
    }

    fn matches_regex(&self, layer: u32, suffix: &'static str, name: &str) -> bool {
        if self.regexes.is_empty() {
            return false;
        }
        let key = if self.names_layers { layer } else { layer.checked_ilog10().unwrap_or(0) };
        *self.compared.borrow_mut().entry((key, suffix)).or_insert_with(|| {
            let rest = name.strip_prefix("layers.").unwrap_or(name);
            let names = PREFIXES.map(|prefix| format!("{prefix}{rest}"));
            self.regexes.iter().any(|regex| names.iter().any(|name| regex.is_match(name)))
        })
    }

    /// Compares what names no layer.
    fn matches_in_layer(&self, suffix: &'static str) -> bool {
        if self.plain.is_empty() || self.rule == NameRule::Whole {
            return false;
        }
        *self.compared_in_layer.borrow_mut().entry(suffix).or_insert_with(|| {
            let name = format!(".{suffix}");
            let is_met = |plain: &&String| match self.rule {
                NameRule::Text => !plain.is_empty() && name.contains(plain.as_str()),
                NameRule::Parts | NameRule::Whole => !plain.is_empty() && name.ends_with(plain.as_str()),
            };
            let mut met = self.plain.iter().filter(is_met).peekable();
            let is_any = met.peek().is_some();
            self.met.borrow_mut().extend(met.cloned());
            is_any
        })
    }

    fn matches_name(&self, name: &str) -> bool {
        let met = match self.rule {
            NameRule::Parts => spans(name).find(|span| self.plain.contains(*span)),
            NameRule::Whole => Some(name).filter(|name| self.plain.contains(*name)),
            NameRule::Text => None,
        };
        if let Some(met) = met {
            self.met.borrow_mut().insert(met.to_owned());
            return true;
        }
        self.begins(name) || self.globs.iter().flatten().any(|glob| matches_glob(glob, name))
    }

    fn begins(&self, name: &str) -> bool {
        let begin = (1..=name.len()).filter_map(|end| name.get(..end)).find(|begin| self.beginnings.contains(*begin));
        !self.beginnings.is_empty() && begin.is_some()
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
        self.regexes.iter().any(|regex| regex.is_match(name))
            || self.globs.iter().any(|[glob, ..]| matches_glob(glob, name))
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
        let is_below_met = |name: &str| {
            name.match_indices('.').filter_map(|(end, _)| name.get(..end)).any(|begin| met.contains(begin))
        };
        self.plain
            .iter()
            .map(String::as_str)
            .filter(|name| !met.contains(*name) && !is_known(name) && !is_beyond(name) && !is_below_met(name))
            .collect()
    }
}

/// A pattern that begins at the start of a name, as Python's `re.match` does. What it may take grows with its length alone.
fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&format!("^(?:{pattern})"))
        .size_limit(pattern.len().saturating_mul(64).saturating_add(4_096))
        .build()
        .map_err(|_| format!("{:?} is no pattern of names that is understood", model::fault::one_line(pattern, 60)))
}

fn is_in_layers(name: &str) -> bool {
    name.strip_prefix("layers.").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// The part of a name from the list of layers on, which is called `layers` then, whatever model is around the decoder; the whole name of a
/// part that is not of the decoder.
fn name_in_decoder(name: &str) -> String {
    let is_of_other_part = ["visual", "vision", "audio", "mtp"].iter().any(|word| name.contains(word));
    let rest = LAYER_LISTS.iter().find_map(|list| {
        let place = name.find(list)?;
        let begins_part = place == 0 || name.as_bytes().get(place.wrapping_sub(1)) == Some(&b'.');
        begins_part.then(|| name.get(place.saturating_add(list.len())..)).flatten()
    });
    match rest {
        Some(rest) if !is_of_other_part => format!("layers.{rest}"),
        _ => name.to_owned(),
    }
}

/// Every part of a name between points, and every sequence of such parts.
fn spans(name: &str) -> impl Iterator<Item = &str> {
    let starts = std::iter::once(0).chain(name.match_indices('.').map(|(place, _)| place.saturating_add(1)));
    starts.flat_map(move |start| {
        let rest = name.get(start..).unwrap_or_default();
        let ends = rest.match_indices('.').map(|(place, _)| place).chain(std::iter::once(rest.len()));
        ends.filter_map(move |end| rest.get(..end))
    })
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
