//! The matrices of a decoder that a file may quantize, by their names in Transformers and in programs beside the weights.

use crate::architecture::ModelArchitecture;
use crate::count::sum;

type Names = &'static [&'static str];

/// Names in a layer of one family of models.
#[derive(Debug, Clone, Copy)]
struct MatrixNames {
    /// Query, key, value, output.
    attention: [Names; 4],
    /// Gate, up, down. Without a gate, its place is not used.
    mlp: [Names; 3],
    /// The same of the routed experts: the first one, or all of them in one matrix.
    experts: [Names; 3],
    /// The same of the experts that every token passes through.
    shared: [Names; 3],
}

/// The parts of latent attention: queries in one matrix or compressed, keys and values, output.
const LATENT: [Names; 3] = [&["self_attn.kv_a_proj_with_mqa"], &["self_attn.kv_b_proj"], &["self_attn.o_proj"]];
const LATENT_QUERY: [Names; 1] = [&["self_attn.q_proj"]];
const LATENT_COMPRESSED_QUERY: [Names; 2] = [&["self_attn.q_a_proj"], &["self_attn.q_b_proj"]];

const LLAMA: MatrixNames = MatrixNames {
    attention: [&["self_attn.q_proj"], &["self_attn.k_proj"], &["self_attn.v_proj"], &["self_attn.o_proj"]],
    mlp: [&["mlp.gate_proj"], &["mlp.up_proj"], &["mlp.down_proj"]],
    experts: [&["mlp.experts.0.gate_proj"], &["mlp.experts.0.up_proj"], &["mlp.experts.0.down_proj"]],
    shared: [
        &["mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj"],
        &["mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj"],
        &["mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj"],
    ],
};

/// One matrix for queries, keys and values.
const fn joined(qkv: Names, output: Names) -> [Names; 4] {
    [qkv, qkv, qkv, output]
}

const HEADS_JOINED: [Names; 4] = joined(&["self_attention.query_key_value"], &["self_attention.dense"]);
const FOUR_WIDE: [Names; 3] = [&["mlp.dense_h_to_4h"], &["mlp.dense_h_to_4h"], &["mlp.dense_4h_to_h"]];
const GATE_JOINED: [Names; 3] = [&["mlp.gate_up_proj"], &["mlp.gate_up_proj"], &["mlp.down_proj"]];
const GPT2_MLP: [Names; 3] = [&[], &["mlp.c_fc"], &["mlp.c_proj"]];
const NUMBERED_MLP: [Names; 3] = [&[], &["mlp.fc1"], &["mlp.fc2"]];

const GPT_NEO_ATTENTION: [&[&str]; 4] =
    [&["attn.attention.q_proj"], &["attn.attention.k_proj"], &["attn.attention.v_proj"], &["attn.attention.out_proj"]];

/// Families whose names differ from those of Llama.
const FAMILIES: [(&[&str], MatrixNames); 20] = [
    (
        &["phi3", "phi3_v", "phi4mm"],
        MatrixNames { attention: joined(&["self_attn.qkv_proj"], &["self_attn.o_proj"]), mlp: GATE_JOINED, ..LLAMA },
    ),
    (&["glm", "glm4", "glm4v", "glm4v_text", "glm46v"], MatrixNames { mlp: GATE_JOINED, ..LLAMA }),
    (
        &["gpt_oss"],
        MatrixNames {
            experts: [&["mlp.experts.gate_up_proj"], &["mlp.experts.gate_up_proj"], &["mlp.experts.down_proj"]],
            ..LLAMA
        },
    ),
    (
        &["mixtral", "phimoe", "minimax_m2"],
        MatrixNames {
            experts: [
                &["block_sparse_moe.experts.0.w1"],
                &["block_sparse_moe.experts.0.w3"],
                &["block_sparse_moe.experts.0.w2"],
            ],
            ..LLAMA
        },
    ),
    (
        &["granitemoe"],
        MatrixNames {
            experts: [
                &["block_sparse_moe.input_linear"],
                &["block_sparse_moe.input_linear"],
                &["block_sparse_moe.output_linear"],
            ],
            ..LLAMA
        },
    ),
    (
        &["llama4", "llama4_text"],
        MatrixNames {
            mlp: [&["feed_forward.gate_proj"], &["feed_forward.up_proj"], &["feed_forward.down_proj"]],
            experts: [
                &["feed_forward.experts.0.gate_proj", "feed_forward.experts.gate_up_proj"],
                &["feed_forward.experts.0.up_proj", "feed_forward.experts.gate_up_proj"],
                &["feed_forward.experts.0.down_proj", "feed_forward.experts.down_proj"],
            ],
            shared: [
                &["feed_forward.shared_expert.gate_proj"],
                &["feed_forward.shared_expert.up_proj"],
                &["feed_forward.shared_expert.down_proj"],
            ],
            ..LLAMA
        },
    ),
    (
        &["internlm2"],
        MatrixNames {
            attention: joined(&["attention.wqkv"], &["attention.wo"]),
            mlp: [&["feed_forward.w1"], &["feed_forward.w3"], &["feed_forward.w2"]],
            ..LLAMA
        },
    ),
    (&["baichuan"], MatrixNames { attention: joined(&["self_attn.W_pack"], &["self_attn.o_proj"]), ..LLAMA }),
    (
        &["chatglm", "falcon", "RefinedWeb", "RefinedWebModel", "bloom"],
        MatrixNames { attention: HEADS_JOINED, mlp: FOUR_WIDE, ..LLAMA },
    ),
    (
        &["gpt_neox"],
        MatrixNames {
            attention: joined(&["attention.query_key_value"], &["attention.dense"]),
            mlp: FOUR_WIDE,
            ..LLAMA
        },
    ),
    (
        &["persimmon"],
        MatrixNames {
            attention: joined(&["self_attn.query_key_value"], &["self_attn.dense"]),
            mlp: FOUR_WIDE,
            ..LLAMA
        },
    ),
    (
        &["gpt2", "gpt_bigcode"],
        MatrixNames { attention: joined(&["attn.c_attn"], &["attn.c_proj"]), mlp: GPT2_MLP, ..LLAMA },
    ),
    (
        &["qwen"],
        MatrixNames {
            attention: joined(&["attn.c_attn"], &["attn.c_proj"]),
            mlp: [&["mlp.w2"], &["mlp.w1"], &["mlp.c_proj"]],
            ..LLAMA
        },
    ),
    (&["starcoder2"], MatrixNames { mlp: GPT2_MLP, ..LLAMA }),
    (&["gpt_neo"], MatrixNames { attention: GPT_NEO_ATTENTION, mlp: GPT2_MLP, ..LLAMA }),
    (
        &["exaone"],
        MatrixNames { attention: GPT_NEO_ATTENTION, mlp: [&["mlp.c_fc_0"], &["mlp.c_fc_1"], &["mlp.c_proj"]], ..LLAMA },
    ),
    (
        &["phi"],
        MatrixNames {
            attention: [&["self_attn.q_proj"], &["self_attn.k_proj"], &["self_attn.v_proj"], &["self_attn.dense"]],
            mlp: NUMBERED_MLP,
            ..LLAMA
        },
    ),
    (
        &["opt"],
        MatrixNames {
            attention: [&["self_attn.q_proj"], &["self_attn.k_proj"], &["self_attn.v_proj"], &["self_attn.out_proj"]],
            mlp: [&[], &["fc1"], &["fc2"]],
            ..LLAMA
        },
    ),
    (
        &["gptj", "codegen"],
        MatrixNames {
            attention: [
                &["attn.q_proj", "attn.qkv_proj"],
                &["attn.k_proj", "attn.qkv_proj"],
                &["attn.v_proj", "attn.qkv_proj"],
                &["attn.out_proj"],
            ],
            mlp: [&[], &["mlp.fc_in"], &["mlp.fc_out"]],
            ..LLAMA
        },
    ),
    (
        &["mpt"],
        MatrixNames {
            attention: joined(&["attn.Wqkv"], &["attn.out_proj"]),
            mlp: [&[], &["ffn.up_proj"], &["ffn.down_proj"]],
            ..LLAMA
        },
    ),
];

impl MatrixNames {
    /// The names of a `model_type`; those of Llama for every other one.
    fn find(model_type: &str) -> Self {
        FAMILIES.iter().find(|(types, _)| types.contains(&model_type)).map_or(LLAMA, |(_, names)| *names)
    }
}

/// A matrix that a file may quantize.
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightMatrix {
    pub(super) layer: u32,
    /// Names in the layer, in different programs.
    pub(super) names: Names,
    pub(super) parameters: u64,
    /// `true` for the routed experts of a layer, all of them together.
    pub(super) is_routed: bool,
}

/// Every matrix of the blocks but the routers.
pub(super) fn matrices(architecture: &ModelArchitecture, sparse: &[bool]) -> Vec<WeightMatrix> {
    let attention = architecture.attention_matrices();
    let names = MatrixNames::find(&architecture.name);
    let attention_names: Vec<Names> = match (architecture.attention.latent, attention.len()) {
        (None, _) => names.attention.to_vec(),
        (Some(_), 4) => LATENT_QUERY.into_iter().chain(LATENT).collect(),
        (Some(_), _) => LATENT_COMPRESSED_QUERY.into_iter().chain(LATENT).collect(),
    };
    let mlp_names = |[gate, up, down]: [Names; 3]| {
        if architecture.mlp.is_gated { vec![gate, up, down] } else { vec![up, down] }
    };
    let mut matrices = Vec::new();
    for layer in 0..architecture.weight_layers {
        let mut push = |names: Names, parameters: u64, is_routed| {
            matrices.push(WeightMatrix { layer, names, parameters, is_routed });
        };
        for (matrix, called) in attention.iter().zip(&attention_names) {
            push(called, sum(std::slice::from_ref(matrix)), false);
        }
        let place = usize::try_from(layer).unwrap_or(usize::MAX);
        let experts = architecture.experts.filter(|_| sparse.get(place).copied().unwrap_or(true));
        let Some(experts) = experts else {
            let mlp = architecture.mlp_matrices(architecture.mlp.intermediate);
            for (matrix, called) in mlp.iter().zip(mlp_names(names.mlp)) {
                push(called, sum(std::slice::from_ref(matrix)), false);
            }
            continue;
        };
        let routed = architecture.mlp_matrices(experts.intermediate);
        for (matrix, called) in routed.iter().zip(mlp_names(names.experts)) {
            push(called, sum(std::slice::from_ref(matrix)) * u64::from(experts.count), true);
        }
        let shared = architecture.mlp_matrices(experts.shared_intermediate);
        for (matrix, called) in shared.iter().zip(mlp_names(names.shared)) {
            push(called, sum(std::slice::from_ref(matrix)), false);
        }
    }
    matrices
}
