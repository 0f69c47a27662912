//! Sizes that a nested part of a file leaves out: Transformers writes of such a part only what differs from the defaults of its type.

use std::sync::LazyLock;

use model::table::embedded_table;

/// Sizes of a `model_type`: `data/model_defaults.csv`.
#[derive(Debug)]
pub(super) struct ModelDefaults {
    model_type: &'static str,
    layers: u32,
    hidden: u32,
    heads: u32,
    kv_heads: Option<u32>,
    head_dim: Option<u32>,
    intermediate: u32,
    vocabulary: u32,
    sliding_window: Option<u32>,
}

static MODEL_DEFAULTS: LazyLock<Vec<ModelDefaults>> = LazyLock::new(|| {
    embedded_table("model_defaults.csv", include_str!("../../../../data/model_defaults.csv"), |row| {
        Ok(ModelDefaults {
            model_type: row.text("model_type")?,
            layers: row.value("layers")?,
            hidden: row.value("hidden")?,
            heads: row.value("heads")?,
            kv_heads: row.optional("kv_heads")?,
            head_dim: row.optional("head_dim")?,
            intermediate: row.value("intermediate")?,
            vocabulary: row.value("vocabulary")?,
            sliding_window: row.optional("sliding_window")?,
        })
    })
});

impl ModelDefaults {
    pub(super) fn find(model_type: &str) -> Option<&'static Self> {
        MODEL_DEFAULTS.iter().find(|defaults| defaults.model_type == model_type)
    }

    pub(super) fn number(&self, key: &str) -> Option<u32> {
        match key {
            "num_hidden_layers" => Some(self.layers),
            "hidden_size" => Some(self.hidden),
            "num_attention_heads" => Some(self.heads),
            "num_key_value_heads" => self.kv_heads,
            "head_dim" => self.head_dim,
            "intermediate_size" => Some(self.intermediate),
            "vocab_size" => Some(self.vocabulary),
            "sliding_window" => self.sliding_window,
            _ => None,
        }
    }
}
