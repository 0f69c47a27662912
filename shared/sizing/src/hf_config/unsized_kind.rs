//! Kinds of models that no formula of this crate covers. Their keys look like those of a decoder, so they are refused by name, and a kind
//! that nobody knew yet by the keys that only such models have.

use std::sync::LazyLock;

use model::fault::{InvalidValue, one_line};
use model::table::embedded_table;

use super::family::Family;
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

const RECURRENT_KEYS: [&str; 7] = [
    "ssm_cfg",
    "ssm_state_size",
    "state_size",
    "mamba_d_state",
    "lru_width",
    "linear_num_value_heads",
    "linear_attn_config",
];

/// Endings of the classes of decoders.
const DECODER_CLASSES: [&str; 4] = ["ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForVisionText2Text"];

/// Activations of an MLP with a gate, where nothing else says that it has one.
const GATED_ACTIVATIONS: [&str; 5] = ["silu", "swish", "swiglu", "swiglu_oai", "SwiGLU"];

/// Parts of the names of keys that change what is counted by a factor: layers, keys or values that are shared, or sizes that differ from
/// layer to layer.
const SHAPE_WORDS: [&str; 10] = [
    "_groups",
    "group_num",
    "share_factor",
    "shared_layers",
    "_per_layer",
    "altup",
    "block_configs",
    "cross_layer",
    "ffn_config",
    "num_loops",
];

/// Keys of families that share no shape with Llama, such as Molmo, which counts a gate and its other half as one size.
const FOREIGN_KEYS: [&str; 3] = ["weight_tying", "layer_norm_type", "embedding_size"];

/// Keys with such a part that a Llama may have all the same.
const USUAL_KEYS: [&str; 2] = ["num_key_value_groups", "num_experts_per_layer"];

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
    let has_recurrent_layers = || {
        RECURRENT_LAYERS.iter().any(|layer| keys.count_in_list("layer_types", layer).is_some_and(|count| count > 0))
            // MiniMax: 0 for each layer with linear attention.
            || keys.list("attn_type_list").is_some_and(|list| list.iter().any(|one| one.as_u64() == Some(0)))
    };
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

/// # Errors
/// Models that are no decoder of text by their class or their keys, and unknown types with keys that change the shape and are not read.
pub(super) fn refuse_foreign_kind(
    keys: &ConfigKeys<'_>,
    family: &Family,
    model_type: &str,
) -> Result<(), InvalidValue> {
    let refuse = |what: String| {
        Err(InvalidValue::new(format!(
            "the model type {model_type:?} {what}; the number of parameters instead gives its weights, and besides them what a decoder of text \
             takes"
        )))
    };
    if keys.has("_class_name") {
        return refuse("is a part of a pipeline of Diffusers, which is not sized".to_owned());
    }
    if !family.is_guessed {
        return Ok(());
    }
    let class = keys.classes().next().map(|class| one_line(class, 60));
    if let Some(class) = class.filter(|_| !has_decoder_class(keys)) {
        return refuse(format!("with the class {class:?} is no decoder of text that is known, and is not sized"));
    }
    if !keys.has("vocab_size") && (keys.has("image_size") || keys.has("patch_size") || keys.has("sampling_rate")) {
        return refuse("reads images or sound, and is not sized".to_owned());
    }
    if keys.has("vision_config") {
        return refuse(
            "is not known, and may have weights of its own for images in each layer, so it is not sized".to_owned(),
        );
    }
    let is_odd = |key: &&str| {
        FOREIGN_KEYS.contains(key) || SHAPE_WORDS.iter().any(|word| key.contains(word)) && !USUAL_KEYS.contains(key)
    };
    if let Some(key) = keys.names_of_part().find(is_odd) {
        return refuse(format!(
            "is not known, and its key {:?} changes its shape, so it is not sized",
            one_line(key, 60)
        ));
    }
    let activation =
        ["hidden_act", "hidden_activation", "activation_function", "activation"].into_iter().find(|key| keys.has(key));
    let by = match activation.map(|key| keys.text(key)) {
        Some(name) if GATED_ACTIVATIONS.contains(&name) => return Ok(()),
        Some(name) => format!("by its activation {:?}", one_line(name, 40)),
        None => "because it names no activation (`hidden_act`)".to_owned(),
    };
    refuse(format!("is not known, and whether its MLP has a gate neither, {by}, so it is not sized"))
}

fn has_decoder_class(keys: &ConfigKeys<'_>) -> bool {
    keys.classes().any(|class| DECODER_CLASSES.iter().any(|ending| class.ends_with(ending)))
        || keys.object("auto_map").is_some_and(|map| map.contains_key("AutoModelForCausalLM"))
}

/// Returns `true` if the file is of a decoder without the head that predicts tokens, such as `MistralModel` of an embedding, or a
/// classifier.
pub(super) fn is_body_alone(keys: &ConfigKeys<'_>) -> bool {
    let endings = ["Model", "ForSequenceClassification", "ForTokenClassification", "ForRewardModel", "RewardModel"];
    !keys.is_nested()
        && !has_decoder_class(keys)
        && keys.classes().next().is_some_and(|class| endings.iter().any(|ending| class.ends_with(ending)))
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
