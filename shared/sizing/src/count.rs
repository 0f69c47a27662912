//! Number of parameters of a model.

use serde::Serialize;

use crate::architecture::{ArchitectureBasis, ModelArchitecture};
use crate::workload::LoraTargets;

/// The parameters of a model, by where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParameterCount {
    pub total: u64,
    /// Parameters that a token passes through: fewer than `total` with experts.
    pub active: u64,
    /// Weights of the linear layers inside the blocks: what quantization makes smaller.
    pub linear: u64,
    /// Weights of all routed experts among `linear`.
    pub routed: u64,
    /// Parameters of the largest block, which is gathered or recomputed as a whole.
    pub largest_block: u64,
    /// The larger of embedding and output matrix.
    pub vocabulary_matrix: u64,
}

/// Parameters for people, with at most two digits after the point: `7 billion`, `134.51 million`, `1 trillion`.
#[must_use]
pub fn format_parameters(parameters: u64) -> String {
    let units = [("trillion", 1_000_000_000_000), ("billion", 1_000_000_000), ("million", 1_000_000)];
    let hundredths = |unit: u64| (u128::from(parameters) * 100 + u128::from(unit) / 2) / u128::from(unit);
    let Some((name, hundredths)) =
        units.into_iter().map(|(name, unit)| (name, hundredths(unit))).find(|(_, hundredths)| *hundredths >= 100)
    else {
        return parameters.to_string();
    };
    let digits = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    format!("{} {name}", digits.trim_end_matches('0').trim_end_matches('.'))
}

impl ModelArchitecture {
    /// Every weight and bias. Where only the number of parameters is known, `total` is that number.
    #[must_use]
    pub fn parameters(&self) -> ParameterCount {
        let sparse_layers = u64::from(self.layers - self.dense_layers());
        let dense_layers = u64::from(self.weight_layers).saturating_sub(sparse_layers);
        let attention = sum(&self.attention_matrices());
        let dense_mlp = sum(&self.mlp_matrices(self.mlp.intermediate));
        let (experts, active_experts) = self.expert_weights();
        let linear = dense_layers * (attention + dense_mlp) + sparse_layers * (attention + experts);
        let inactive = sparse_layers * (experts - active_experts + self.inactive_expert_biases());
        let routed = sparse_layers * self.routed_weights();
        let other = (dense_layers + sparse_layers) * self.small_parameters_of_layer()
            + dense_layers * self.mlp_biases(self.mlp.intermediate)
            + sparse_layers * self.expert_biases();
        let text = linear + other + self.embedding_parameters();
        let largest = attention + experts.max(if dense_layers > 0 { dense_mlp } else { 0 });
        let vocabulary_matrix = self.vocabulary_matrix();
        match self.basis {
            ArchitectureBasis::HfConfig => ParameterCount {
                total: text.saturating_add(self.other_parts),
                active: text - inactive,
                linear,
                routed,
                largest_block: largest,
                vocabulary_matrix,
            },
            // The rounding of the shape is put into its blocks.
            ArchitectureBasis::Assumed { parameters, active, .. } => {
                let linear = parameters.saturating_sub(text - linear);
                let active = active.unwrap_or(parameters);
                ParameterCount {
                    total: parameters,
                    active,
                    linear,
                    routed: self.assumed_routed(parameters - active).min(linear),
                    largest_block: linear / u64::from(self.layers),
                    vocabulary_matrix,
                }
            }
        }
    }

    /// The routed experts of a model of which only the number of inactive parameters is known: a token passes through the same share of
    /// them as in the model with the same shape.
    fn assumed_routed(&self, inactive: u64) -> u64 {
        let Some(experts) = self.experts else { return 0 };
        let idle = u128::from(experts.count.saturating_sub(experts.active)).max(1);
        u64::try_from(u128::from(inactive) * u128::from(experts.count) / idle).unwrap_or(u64::MAX)
    }

    /// The parameters of adapters of this rank: rank times input and output size of each matrix ("LoRA", section 4.1).
    pub(crate) fn adapter_parameters(&self, rank: u32, targets: LoraTargets) -> u64 {
        let sides = |matrices: &[[u64; 2]]| matrices.iter().map(|[input, output]| input + output).sum::<u64>();
        let attention = self.attention_matrices();
        // Layers that share their weights share their adapters.
        let layers = u64::from(self.weight_layers);
        let dense_layers = u64::from(self.dense_layers()).min(layers);
        let of_attention = match (targets, attention.as_slice()) {
            // Queries and values: the first and the third of a plain attention, and the ends of a latent one.
            (LoraTargets::QueryValue, [query, _, value, _]) => sides(&[*query, *value]),
            (_, all) => sides(all),
        };
        let of_mlps = if targets == LoraTargets::AllLinear {
            let dense = dense_layers * sides(&self.mlp_matrices(self.mlp.intermediate));
            let sparse = self.experts.map_or(0, |experts| {
                let one = sides(&self.mlp_matrices(experts.intermediate));
                let shared = sides(&self.mlp_matrices(experts.shared_intermediate));
                let shared = if experts.shared_intermediate > 0 { shared } else { 0 };
                layers.saturating_sub(dense_layers) * (u64::from(experts.count) * one + shared)
            });
            dense + sparse + sides(&self.matrices_outside_blocks())
        } else {
            0
        };
        u64::from(rank) * (layers * of_attention + of_mlps)
    }

    /// Input and output size of the matrix that widens the embeddings, and of the pooler.
    fn matrices_outside_blocks(&self) -> Vec<[u64; 2]> {
        let (hidden, width) = (u64::from(self.hidden), u64::from(self.embeddings.width));
        let widening = (width != hidden).then_some([width, hidden]);
        widening.into_iter().chain(self.embeddings.has_pooler.then_some([hidden, hidden])).collect()
    }

    /// Input and output size of each matrix of attention: query, key, value, output.
    pub(crate) fn attention_matrices(&self) -> Vec<[u64; 2]> {
        let hidden = u64::from(self.hidden);
        let Some(latent) = self.attention.latent else {
            let (query, kv) = (self.query_width(), self.kv_width());
            return vec![[hidden, query], [hidden, kv], [hidden, kv], [query, hidden]];
        };
        let (kv_rank, rope) = (u64::from(latent.kv_rank), u64::from(latent.rope_dim));
        let nope = self.query_width() - u64::from(self.attention.heads) * rope;
        let mut matrices = match latent.q_rank.map(u64::from) {
            Some(rank) => vec![[hidden, rank], [rank, self.query_width()]],
            None => vec![[hidden, self.query_width()]],
        };
        let value = self.value_width();
        matrices.extend([[hidden, kv_rank + rope], [kv_rank, nope + value], [value, hidden]]);
        matrices
    }

    pub(crate) fn mlp_matrices(&self, intermediate: u32) -> Vec<[u64; 2]> {
        let (hidden, intermediate) = (u64::from(self.hidden), u64::from(intermediate));
        let up = [hidden, intermediate];
        let down = [intermediate, hidden];
        if self.mlp.is_gated { vec![up, up, down] } else { vec![up, down] }
    }

    /// The weights of all experts of a layer with their router, and of those that a token passes through.
    fn expert_weights(&self) -> (u64, u64) {
        let Some(experts) = self.experts else { return (0, 0) };
        let hidden = u64::from(self.hidden);
        let one = sum(&self.mlp_matrices(experts.intermediate));
        let router = hidden * u64::from(experts.count) + if experts.has_shared_gate { hidden } else { 0 };
        let always = router + sum(&self.mlp_matrices(experts.shared_intermediate));
        (always + u64::from(experts.count) * one, always + u64::from(experts.active) * one)
    }

    /// The weights of all routed experts of a layer.
    pub(crate) fn routed_weights(&self) -> u64 {
        self.experts.map_or(0, |experts| u64::from(experts.count) * sum(&self.mlp_matrices(experts.intermediate)))
    }

    /// Norms and the biases of attention.
    fn small_parameters_of_layer(&self) -> u64 {
        let attention = &self.attention;
        let qkv_bias = if attention.has_qkv_bias { self.query_width() + 2 * self.kv_width() } else { 0 };
        let out_bias = if attention.has_out_bias { u64::from(self.hidden) } else { 0 };
        let latent_norms =
            attention.latent.map_or(0, |latent| u64::from(latent.kv_rank) + latent.q_rank.map_or(0, u64::from));
        qkv_bias
            + out_bias
            + attention.qk_norm_parameters
            + latent_norms
            + u64::from(self.norms.per_layer) * self.norm_parameters()
    }

    fn mlp_biases(&self, intermediate: u32) -> u64 {
        if !self.mlp.has_bias {
            return 0;
        }
        let ups = if self.mlp.is_gated { 2 } else { 1 };
        ups * u64::from(intermediate) + u64::from(self.hidden)
    }

    fn expert_biases(&self) -> u64 {
        self.experts.map_or(0, |experts| u64::from(experts.count) * self.mlp_biases(experts.intermediate))
    }

    fn inactive_expert_biases(&self) -> u64 {
        self.experts.map_or(0, |experts| {
            u64::from(experts.count.saturating_sub(experts.active)) * self.mlp_biases(experts.intermediate)
        })
    }

    fn norm_parameters(&self) -> u64 {
        u64::from(self.hidden) * if self.norms.has_bias { 2 } else { 1 }
    }

    /// Embedding or output matrix.
    pub(crate) fn vocabulary_matrix(&self) -> u64 {
        u64::from(self.embeddings.vocabulary) * u64::from(self.embeddings.width)
    }

    /// `true` if a matrix of its own predicts tokens.
    pub(crate) const fn has_head(&self) -> bool {
        !self.embeddings.is_tied && !self.is_encoder
    }

    fn embedding_parameters(&self) -> u64 {
        let (hidden, embeddings) = (u64::from(self.hidden), &self.embeddings);
        let (vocabulary, width) = (u64::from(embeddings.vocabulary), u64::from(embeddings.width));
        let rows = vocabulary + u64::from(embeddings.positions) + u64::from(embeddings.token_types);
        let widening = if width == hidden { 0 } else { width * hidden + hidden };
        let head = if self.has_head() { self.vocabulary_matrix() } else { 0 };
        let head_bias = if embeddings.has_head_bias { vocabulary } else { 0 };
        let pooler = if embeddings.has_pooler { hidden * (hidden + 1) } else { 0 };
        rows * width + widening + head + head_bias + pooler + u64::from(self.norms.outside) * self.norm_parameters()
    }
}

pub(crate) fn sum(matrices: &[[u64; 2]]) -> u64 {
    matrices.iter().map(|[input, output]| input * output).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ALBERT xxlarge: one block for 12 layers, embeddings of 128 that a matrix widens, and a pooler.
    #[test]
    fn layers_that_share_their_weights_share_their_adapters() {
        let albert = crate::read_hf_config(
            r#"{"model_type": "albert", "embedding_size": 128, "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 64,
                "num_hidden_groups": 1, "num_hidden_layers": 12, "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30000}"#,
        );
        let adapters = |targets| albert.as_ref().map(|albert| albert.adapter_parameters(16, targets)).ok();
        let block = 4 * (4_096 + 4_096) + 2 * (4_096 + 16_384);
        assert_eq!(adapters(LoraTargets::AllLinear), Some(16 * (block + 128 + 4_096 + 4_096 + 4_096)));
        assert_eq!(adapters(LoraTargets::QueryValue), Some(16 * 2 * (4_096 + 4_096)));
    }

    #[test]
    fn parameters_have_the_largest_unit_of_which_there_is_one() {
        for (parameters, expect) in [
            (0, "0"),
            (994_999, "994999"),
            (1_000_000, "1 million"),
            (134_515_008, "134.52 million"),
            (999_999_999, "1 billion"),
            (7_000_000_000, "7 billion"),
            (7_241_732_096, "7.24 billion"),
            (1_000_000_000_000, "1 trillion"),
            (1_600_000_000_000, "1.6 trillion"),
            (u64::MAX, "18446744.07 trillion"),
        ] {
            assert_eq!(format_parameters(parameters), expect);
        }
    }
}
