//! Kinds of models that no formula of this crate covers. Their keys look like those of a decoder, so they are refused by name, and a kind
//! that nobody knew yet by the keys that only such models have.

use std::sync::LazyLock;

use model::fault::InvalidValue;
use model::table::embedded_table;

use super::keys::ConfigKeys;

/// Kind of a model that is not sized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnsizedKind {
    /// The model has both an encoder and a decoder.
    EncoderDecoder,
    /// Recurrent, state-space or convolutional layers, in all blocks or in some.
    Recurrent,
}

/// Kinds by `model_type`: `data/unsized_models.csv`.
static UNSIZED_MODELS: LazyLock<Vec<(&str, UnsizedKind)>> = LazyLock::new(|| {
    embedded_table("unsized_models.csv", include_str!("../../../../data/unsized_models.csv"), |row| {
        let kind = row.value_by("kind", |kind| match kind {
            "encoder-decoder" => Some(UnsizedKind::EncoderDecoder),
            "recurrent" => Some(UnsizedKind::Recurrent),
            _ => None,
        })?;
        Ok((row.text("model_type")?, kind))
    })
});

const ENCODER_DECODER_KEYS: [&str; 3] = ["num_decoder_layers", "decoder_layers", "encoder_layers"];

const RECURRENT_KEYS: [&str; 6] =
    ["ssm_cfg", "ssm_state_size", "state_size", "mamba_d_state", "lru_width", "linear_num_value_heads"];

/// Names in `layer_types` of layers without attention, or with an attention that keeps no cache.
const RECURRENT_LAYERS: [&str; 4] = ["linear_attention", "mamba", "conv", "recurrent"];

/// # Errors
/// Models with an encoder and a decoder, and models with recurrent layers.
pub(super) fn refuse_unsized_kind(keys: &ConfigKeys<'_>, model_type: &str) -> Result<(), InvalidValue> {
    let kind = UNSIZED_MODELS.iter().find(|(name, _)| *name == model_type).map(|(_, kind)| *kind);
    let is_any_there = |names: &[&str]| names.iter().any(|name| keys.has(name));
    let has_both = keys.is_true("is_encoder_decoder")
        || kind == Some(UnsizedKind::EncoderDecoder)
        || is_any_there(&ENCODER_DECODER_KEYS);
    let has_recurrent_layers =
        || RECURRENT_LAYERS.iter().any(|layer| keys.count_in_list("layer_types", layer).is_some_and(|count| count > 0));
    let is_recurrent =
        || kind == Some(UnsizedKind::Recurrent) || is_any_there(&RECURRENT_KEYS) || has_recurrent_layers();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_of_a_kind_are_sorted_and_no_model_has_two() {
        for kind in [UnsizedKind::EncoderDecoder, UnsizedKind::Recurrent] {
            let names: Vec<&str> = UNSIZED_MODELS.iter().filter(|(_, of)| *of == kind).map(|(name, _)| *name).collect();
            assert!(names.len() >= 20 && names.is_sorted_by(|one, next| one < next), "{kind:?}: {names:?}");
        }
        let names: std::collections::BTreeSet<&str> = UNSIZED_MODELS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), UNSIZED_MODELS.len());
    }
}
