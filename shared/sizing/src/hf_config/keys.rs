//! The keys of a `config.json`. Nothing in it is trusted.

use model::fault::{InvalidValue, shortened};
use serde_json::{Map, Value};

use super::defaults::ModelDefaults;

/// Keys that are true or false wherever they are read.
const BOOLEANS: [&str; 16] = [
    "attention_bias",
    "bias",
    "is_encoder_decoder",
    "mlp_bias",
    "multi_query",
    "multi_query_attention",
    "new_decoder_architecture",
    "parallel_attn",
    "position_biased_input",
    "qkv_bias",
    "share_att_key",
    "tie_word_embeddings",
    "use_bias",
    "use_qk_norm",
    "use_qkv_bias",
    "use_sliding_window",
];
const TEXTS: [&str; 8] = [
    "activation",
    "activation_function",
    "dtype",
    "hidden_act",
    "hidden_activation",
    "model_type",
    "position_embedding_type",
    "torch_dtype",
];
const LISTS: [&str; 6] =
    ["architectures", "attn_type_list", "layer_types", "mlp_layer_types", "mlp_only_layers", "moe_layers"];
const OBJECTS: [&str; 7] =
    ["audio_config", "auto_map", "language_config", "llm_config", "text_config", "thinker_config", "vision_config"];

/// Returns `true` for a value of a kind.
type IsKind = fn(&Value) -> bool;

/// The part for text, the whole file where the part says nothing, and then the defaults of the part's type.
pub(super) struct ConfigKeys<'a> {
    part: &'a Map<String, Value>,
    whole: &'a Map<String, Value>,
    defaults: Option<&'static ModelDefaults>,
}

impl<'a> ConfigKeys<'a> {
    /// `part` is `None` for a file that has no part of its own for text: only nested parts leave out what is a default.
    pub(super) fn new(part: Option<&'a Map<String, Value>>, whole: &'a Map<String, Value>) -> Self {
        let model_type = part.and_then(|part| part.get("model_type")).and_then(Value::as_str);
        let defaults = model_type.and_then(ModelDefaults::find);
        Self { part: part.unwrap_or(whole), whole, defaults }
    }

    /// # Errors
    /// A key whose value is of another kind than the key has in every model.
    pub(super) fn check_kinds(&self) -> Result<(), InvalidValue> {
        let kinds: [(&[&str], IsKind, &str); 4] = [
            (&BOOLEANS, Value::is_boolean, "neither true nor false"),
            (&TEXTS, Value::is_string, "no text"),
            (&LISTS, Value::is_array, "no list"),
            (&OBJECTS, Value::is_object, "no object with keys"),
        ];
        for (names, is_of_kind, what) in kinds {
            for (name, map) in names.iter().flat_map(|name| [(name, self.part), (name, self.whole)]) {
                if let Some(value) = map.get(*name).filter(|value| !value.is_null() && !is_of_kind(value)) {
                    let value = shortened(&value.to_string(), 40);
                    return Err(InvalidValue::new(format!("{name}: {value} is {what}; correct it, or leave it out")));
                }
            }
        }
        Ok(())
    }

    /// `null` says nothing.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        let in_map = |map: &'a Map<String, Value>| map.get(key).filter(|value| !value.is_null());
        in_map(self.part).or_else(|| in_map(self.whole))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Returns `true` if the text has a part of its own.
    pub(super) fn is_nested(&self) -> bool {
        !std::ptr::eq(self.part, self.whole)
    }

    /// The keys of the part for text that say something.
    pub(super) fn names_of_part(&self) -> impl Iterator<Item = &'a str> {
        let says = |(_, value): &(&'a String, &'a Value)| !value.is_null() && **value != Value::Bool(false);
        self.part.iter().filter(says).map(|(key, _)| key.as_str())
    }

    /// Keys of the whole file whose value is an object with keys.
    pub(super) fn parts_of_whole(&self) -> impl Iterator<Item = &'a str> {
        let has_keys = |(_, value): &(&'a String, &'a Value)| value.as_object().is_some_and(|part| !part.is_empty());
        self.whole.iter().filter(has_keys).map(|(key, _)| key.as_str())
    }

    /// Under which of these names it is there; the first if under none.
    pub(super) fn name<'n>(&self, names: &[&'n str]) -> &'n str {
        names.iter().find(|name| self.has(name)).or(names.first()).copied().unwrap_or_default()
    }

    pub(super) fn text(&self, key: &str) -> &'a str {
        self.value(key).and_then(Value::as_str).unwrap_or("")
    }

    /// The classes of the model in Transformers or in its own program: `LlamaForCausalLM`.
    pub(super) fn classes(&self) -> impl Iterator<Item = &'a str> {
        self.value("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn object(&self, key: &str) -> Option<&'a Map<String, Value>> {
        self.value(key)?.as_object()
    }

    /// The first of these keys that is there, or that has a default.
    pub(super) fn number(&self, names: &[&str]) -> Result<Option<u32>, InvalidValue> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.value(name)?))) else {
            return Ok(names.iter().find_map(|name| self.defaults?.number(name)));
        };
        value.as_u64().and_then(|number| u32::try_from(number).ok()).map(Some).ok_or_else(|| {
            let value = shortened(&value.to_string(), 40);
            InvalidValue::new(format!("{name}: {value} is not a number that a model can have; write a whole number"))
        })
    }

    pub(super) fn boolean(&self, name: &str, default: bool) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or(default)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.boolean(name, false)
    }

    pub(super) fn is_true_of_whole(&self, name: &str) -> bool {
        self.whole.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn list(&self, name: &str) -> Option<&'a Vec<Value>> {
        self.value(name)?.as_array()
    }

    /// Counts the entries of a list that equal `item`.
    pub(super) fn count_in_list(&self, name: &str, item: &str) -> Option<u32> {
        u32::try_from(self.list(name)?.iter().filter(|one| one.as_str() == Some(item)).count()).ok()
    }
}
