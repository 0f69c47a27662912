//! Experts of a mixture, and the layers that have them.

use std::collections::BTreeSet;

use model::fault::{InvalidValue, one_line};
use serde_json::Value;

use super::HfConfigError;
use super::family::Family;
use super::keys::ConfigKeys;
use crate::architecture::{Experts, LAYERS_MAX};

const COUNT: [&str; 4] = ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
const ACTIVE: [&str; 4] = ["num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k"];
const SHARED: [&str; 3] = ["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"];

/// `true` for each layer with experts; empty for a model without.
pub(super) type SparseLayers = Vec<bool>;

/// # Errors
/// Experts of a kind of model that is not known to have some.
pub(super) fn refuse_unknown_experts(keys: &ConfigKeys<'_>, family: &Family) -> Result<(), InvalidValue> {
    if family.has_experts || keys.number(&COUNT)?.is_none_or(|count| count <= 1) {
        return Ok(());
    }
    Err(InvalidValue::new(format!(
        "how experts are laid out in the model type {:?} is not known; give the number of parameters instead, and how many of them are \
         active, such as `109b` and `17b`",
        one_line(keys.text("model_type"), 40)
    )))
}

pub(super) fn experts(
    keys: &ConfigKeys<'_>,
    family: &Family,
    intermediate: u32,
    layers: u32,
) -> Result<Option<(Experts, SparseLayers)>, HfConfigError> {
    let model_type = one_line(keys.text("model_type"), 40);
    let Some(count) = keys.number(&COUNT)?.filter(|count| *count > 1) else { return Ok(None) };
    let Some(active) = keys.number(&ACTIVE)? else {
        return Err(HfConfigError::MissingKeys { model_type, keys: vec!["num_experts_per_tok".to_owned()] });
    };
    // Llama 4 calls the width of an expert `intermediate_size`, and that of a layer without experts `intermediate_size_mlp`.
    let width = keys.number(&["moe_intermediate_size"])?.unwrap_or(intermediate);
    let shared_intermediate = match keys.number(&["shared_expert_intermediate_size"])? {
        Some(width) => width,
        None if family.has_shared_expert => width,
        None => keys.number(&SHARED)?.unwrap_or(0).saturating_mul(width),
    };
    let sparse = sparse_layers(keys, family, layers)?;
    let dense_layers = sparse.iter().filter(|is_sparse| !**is_sparse).count();
    let experts = Experts {
        count,
        active,
        intermediate: width,
        shared_intermediate,
        has_shared_gate: keys.has("shared_expert_intermediate_size"),
        dense_layers: u32::try_from(dense_layers).unwrap_or(layers),
    };
    Ok(Some((experts, sparse)))
}

/// Each family has its own keys: the first layers are dense, or each so manieth has experts, counted from the end of a group, or a list
/// says which.
fn sparse_layers(keys: &ConfigKeys<'_>, family: &Family, layers: u32) -> Result<SparseLayers, InvalidValue> {
    let first = keys.number(&["first_k_dense_replace", "moe_layer_start_index"])?.unwrap_or(0);
    let from_first = keys.number(&["moe_layer_freq"])?.unwrap_or(1).max(1);
    let steps = ["decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"];
    let step = keys.number(&steps)?.unwrap_or(1).max(1);
    // Files of Transformers 5 have a kind of each layer instead of the number of dense ones.
    if let Some(kinds) = keys.list("mlp_layer_types").filter(|kinds| u32::try_from(kinds.len()) == Ok(layers)) {
        return Ok(kinds.iter().take(LAYERS_MAX as usize).map(|kind| kind.as_str() == Some("sparse")).collect());
    }
    let listed = |name: &str| -> Option<BTreeSet<u64>> { keys.list(name)?.iter().map(Value::as_u64).collect() };
    let named = if family.has_shared_expert { listed("moe_layers") } else { None };
    let dense = listed("mlp_only_layers").unwrap_or_default();
    Ok((0..layers.min(LAYERS_MAX))
        .map(|layer| match &named {
            Some(named) => named.contains(&layer.into()),
            None => {
                layer >= first
                    && layer.is_multiple_of(from_first)
                    && (layer + 1).is_multiple_of(step)
                    && !dense.contains(&layer.into())
            }
        })
        .collect())
}
