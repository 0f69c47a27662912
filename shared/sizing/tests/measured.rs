//! Estimates beside what others measured and published. `docs/sizing.md` has the same table.
#![expect(clippy::unwrap_used, reason = "a test that fails may say so by panicking")]

use sizing::{LoraTargets, Parallelism, Precision, Strategy, Task, Workload, estimate, read_hf_config, to_gib};

/// The parts of a measurement that its source counts.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    /// What the framework allocated: without the CUDA context.
    Allocated,
    /// What the GPU said, or what does not say otherwise.
    Everything,
}

const PAGE: &str = include_str!("../../../docs/sizing.md");

struct MeasuredCase {
    name: &'static str,
    config: &'static str,
    workload: Workload,
    parallelism: Parallelism,
    measured_gib: f64,
    counted: Counted,
    source: &'static str,
}

const GB: f64 = 1e9 / 1_073_741_824.0;

const QWEN_1_8B: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 16,
    "intermediate_size": 5504, "vocab_size": 151936}"#;
const QWEN_7B: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "intermediate_size": 11008, "vocab_size": 151936}"#;
const QWEN_14B: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40,
    "intermediate_size": 13696, "vocab_size": 152064}"#;
const QWEN_72B: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "intermediate_size": 24576, "vocab_size": 152064}"#;
const QWEN_2_5_7B: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064}"#;
const QWEN_2_5_14B: &str = r#"{"model_type": "qwen2", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
    "num_key_value_heads": 8, "intermediate_size": 13824, "vocab_size": 152064}"#;
const LLAMA_2_7B: &str = r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "intermediate_size": 11008, "vocab_size": 32000}"#;
const LLAMA_2_13B: &str = r#"{"model_type": "llama", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40,
    "intermediate_size": 13824, "vocab_size": 32000}"#;
const PHI_1_5: &str = r#"{"model_type": "phi", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
    "intermediate_size": 8192, "vocab_size": 51200}"#;
const LLAMA_3_8B: &str = r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}"#;
const LLAMA_3_70B: &str = r#"{"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256}"#;
const BERT_LARGE: &str = r#"{"model_type": "bert", "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
    "intermediate_size": 4096, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}"#;

const QWEN3_1_7B: &str = r#"{"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936, "tie_word_embeddings": true}"#;
const QWEN3_4B: &str = r#"{"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 2560, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728, "vocab_size": 151936, "tie_word_embeddings": true}"#;
const QWEN3_8B: &str = r#"{"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936}"#;
const QWEN3_32B: &str = r#"{"model_type": "qwen3", "num_hidden_layers": 64, "hidden_size": 5120, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 25600, "vocab_size": 151936}"#;
const QWEN3_30B_A3B: &str = r#"{"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768}"#;
const GLM_4_9B: &str = r#"{"model_type": "chatglm", "num_layers": 40, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
    "multi_query_attention": true, "multi_query_group_num": 2, "ffn_hidden_size": 13696, "padded_vocab_size": 151552,
    "add_qkv_bias": true}"#;
const YI_6B: &str = r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 4, "intermediate_size": 11008, "vocab_size": 64000}"#;
const YI_34B: &str = r#"{"model_type": "llama", "num_hidden_layers": 60, "hidden_size": 7168, "num_attention_heads": 56,
    "num_key_value_heads": 8, "intermediate_size": 20480, "vocab_size": 64000}"#;

/// Transformers reads a prompt whole.
fn infer(precision: Precision, tokens: u32) -> Workload {
    Workload { tokens, prefill_chunk: tokens, ..Workload::new(Task::Inference, precision) }
}

/// Qwen's `finetune.py`: rank 64 on every linear layer, one sequence, checkpointing.
fn qwen(task: Task, precision: Precision, tokens: u32) -> Workload {
    Workload { tokens, lora_rank: 64, gradient_checkpointing: true, ..Workload::new(task, precision) }
}

/// torchtune's recipes: rank 8, everything in bf16, two sequences of 2,048 tokens, the loss in pieces.
fn torchtune(task: Task) -> Workload {
    Workload {
        batch: 2,
        lora_rank: 8,
        gradient_checkpointing: true,
        master_weights: false,
        fused_loss: true,
        ..Workload::new(task, Precision::Bf16)
    }
}

/// A case of one GPU whose source counts everything.
fn case(
    source: &'static str,
    name: &'static str,
    config: &'static str,
    workload: Workload,
    measured_gib: f64,
) -> MeasuredCase {
    let (parallelism, counted) = (Parallelism::ONE_GPU, Counted::Everything);
    MeasuredCase { name, config, workload, parallelism, measured_gib, counted, source }
}

impl MeasuredCase {
    fn allocated(self) -> Self {
        Self { counted: Counted::Allocated, ..self }
    }

    fn sharded(self, gpus: u32) -> Self {
        Self { parallelism: Parallelism::new(Strategy::Zero3, gpus), ..self }
    }
}

/// Of its first series Qwen's documentation says GB: of two GPUs of 80 GiB it says more than they have if these were GiB. Of Qwen2.5 it says
/// GiB: a model that has read one token would take less than its weights if these were GB. Both are what PyTorch allocated.
fn inference() -> Vec<MeasuredCase> {
    let (int4, int8, bf16) = (Precision::Int4, Precision::Int8, Precision::Bf16);
    let of_qwen = |name, config, workload, gb: f64| case("Qwen", name, config, workload, gb * GB);
    let of_newer = |name, config, workload, gib| case("Qwen2.5", name, config, workload, gib);
    let cases = vec![
        of_qwen("Qwen-7B, bf16, 2,048 tokens", QWEN_7B, infer(bf16, 2_048), 16.99),
        of_qwen("Qwen-7B, int4, 2,048 tokens", QWEN_7B, infer(int4, 2_048), 8.21),
        of_qwen("Qwen-72B, int4, 2,048 tokens", QWEN_72B, infer(int4, 2_048), 48.86),
        of_newer("Qwen2.5-7B, bf16, 16,384 tokens", QWEN_2_5_7B, infer(bf16, 16_384), 16.91),
        of_newer("Qwen2.5-7B, bf16, 32,768 tokens", QWEN_2_5_7B, infer(bf16, 32_768), 19.97),
        of_newer("Qwen2.5-14B, bf16, 8,192 tokens", QWEN_2_5_14B, infer(bf16, 8_192), 29.50),
        of_newer("Qwen2.5-14B, int8, 16,384 tokens", QWEN_2_5_14B, infer(int8, 16_384), 19.98),
        of_newer("Qwen2.5-14B, int4, 32,768 tokens", QWEN_2_5_14B, infer(int4, 32_768), 18.71),
    ];
    cases.into_iter().map(MeasuredCase::allocated).collect()
}

fn training_of_qwen() -> Vec<MeasuredCase> {
    let of = |name, config, workload, gb: f64| case("Qwen", name, config, workload, gb * GB);
    let full = |tokens| qwen(Task::Full, Precision::Bf16, tokens);
    let lora = |tokens| qwen(Task::Lora, Precision::Bf16, tokens);
    let qlora = |tokens| qwen(Task::Qlora, Precision::Int4, tokens);
    vec![
        of("Qwen-1.8B, full, 2,048 tokens", QWEN_1_8B, full(2_048), 43.5),
        of("Qwen-1.8B, full, 8,192 tokens", QWEN_1_8B, full(8_192), 48.3),
        of("Qwen-7B, full, 1,024 tokens, ZeRO-3 on 2 GPUs", QWEN_7B, full(1_024), 162.0 / 2.0).sharded(2),
        of("Qwen-7B, LoRA, 2,048 tokens", QWEN_7B, lora(2_048), 23.8),
        of("Qwen-7B, LoRA, 8,192 tokens", QWEN_7B, lora(8_192), 36.6),
        of("Qwen-14B, LoRA, 2,048 tokens", QWEN_14B, lora(2_048), 37.4),
        of("Qwen-72B, LoRA, 2,048 tokens, ZeRO-3 on 4 GPUs", QWEN_72B, lora(2_048), 228.8 / 4.0).sharded(4),
        of("Qwen-7B, QLoRA, 2,048 tokens", QWEN_7B, qlora(2_048), 13.9),
        of("Qwen-7B, QLoRA, 8,192 tokens", QWEN_7B, qlora(8_192), 23.5),
        of("Qwen-72B, QLoRA, 2,048 tokens", QWEN_72B, qlora(2_048), 64.1),
    ]
}

fn other_training() -> Vec<MeasuredCase> {
    let unchecked = Workload { gradient_checkpointing: false, ..torchtune(Task::Lora) };
    let of_torchtune = |name, config, workload, gib| case("torchtune", name, config, workload, gib).allocated();
    let factory = |tokens| Workload { lora_rank: 8, ..qwen(Task::Qlora, Precision::Bf16, tokens) };
    let of_factory = |name, tokens, gb: f64| case("LLaMA-Factory", name, LLAMA_2_7B, factory(tokens), gb * GB);
    let vanilla = Workload::new(Task::Full, Precision::Fp32);
    let vanilla = Workload { batch: 4, tokens: 512, flash_attention: false, ..vanilla };
    vec![
        of_torchtune("Llama 3.1 8B, LoRA", LLAMA_3_8B, torchtune(Task::Lora), 16.2),
        of_torchtune("Llama 3.1 8B, LoRA without checkpointing", LLAMA_3_8B, unchecked, 30.3),
        of_torchtune("Llama 3.1 8B, QLoRA", LLAMA_3_8B, torchtune(Task::Qlora), 7.4),
        of_torchtune("Llama 3.1 70B, LoRA, FSDP on 8 GPUs", LLAMA_3_70B, torchtune(Task::Lora), 27.6).sharded(8),
        of_factory("Llama 2 7B, QLoRA, 8,192 tokens", 8_192, 12.0),
        of_factory("Llama 2 7B, QLoRA, 16,384 tokens", 16_384, 19.0),
        case("Transformers", "BERT-large, full in fp32, 4 x 512 tokens", BERT_LARGE, vanilla, 14_949.0 / 1_024.0),
    ]
}

/// Read after the formulas were fixed. Rank 8 on queries and values, everything in bf16, no checkpointing; the longest example has 1,304
/// tokens of Llama 2 and 1,044 of phi-1.5.
fn training_of_litgpt() -> Vec<MeasuredCase> {
    let of = |name, config, task, batch, tokens, gb: f64| {
        let defaults = Workload::new(task, Precision::Bf16);
        let lora_targets = LoraTargets::QueryValue;
        let workload = Workload { batch, tokens, lora_rank: 8, lora_targets, master_weights: false, ..defaults };
        case("LitGPT", name, config, workload, gb * GB).allocated()
    };
    vec![
        of("phi-1.5, LoRA, 1,044 tokens", PHI_1_5, Task::Lora, 1, 1_044, 4.82),
        of("phi-1.5, LoRA, 4 x 1,044 tokens", PHI_1_5, Task::Lora, 4, 1_044, 10.68),
        of("Llama 2 7B, LoRA, 1,304 tokens", LLAMA_2_7B, Task::Lora, 1, 1_304, 21.30),
        of("Llama 2 7B, LoRA, 2 x 1,304 tokens", LLAMA_2_7B, Task::Lora, 2, 1_304, 29.07),
        of("Llama 2 7B, QLoRA, 1,304 tokens", LLAMA_2_7B, Task::Qlora, 1, 1_304, 13.84),
        of("Llama 2 13B, LoRA, 1,304 tokens", LLAMA_2_13B, Task::Lora, 1, 1_304, 38.12),
        of("Llama 2 13B, QLoRA, 1,304 tokens", LLAMA_2_13B, Task::Qlora, 1, 1_304, 22.55),
    ]
}

/// Read after the formulas were fixed. Prompts are read in pieces, as by default.
fn later_inference() -> Vec<MeasuredCase> {
    let (int4, fp8, bf16) = (Precision::Int4, Precision::Fp8, Precision::Bf16);
    let usual = |precision, tokens| Workload { tokens, ..Workload::new(Task::Inference, precision) };
    let of_qwen =
        |name, config, precision, tokens, gib| case("Qwen3", name, config, usual(precision, tokens), gib).allocated();
    let of_glm =
        |name, precision, tokens, mib: f64| case("GLM-4", name, GLM_4_9B, usual(precision, tokens), mib / 1_024.0);
    vec![
        of_qwen("Qwen3-1.7B, bf16, 2,049 tokens", QWEN3_1_7B, bf16, 2_049, 3.33),
        of_qwen("Qwen3-1.7B, fp8, 32,768 tokens", QWEN3_1_7B, fp8, 32_768, 6.01),
        of_qwen("Qwen3-4B, bf16, 32,768 tokens", QWEN3_4B, bf16, 32_768, 12.03),
        of_qwen("Qwen3-4B, int4, 2,049 tokens", QWEN3_4B, int4, 2_049, 2.85),
        of_qwen("Qwen3-4B, int4, 32,768 tokens", QWEN3_4B, int4, 32_768, 7.56),
        of_qwen("Qwen3-8B, bf16, 32,768 tokens", QWEN3_8B, bf16, 32_768, 19.79),
        of_qwen("Qwen3-8B, fp8, 16,384 tokens", QWEN3_8B, fp8, 16_384, 11.07),
        of_qwen("Qwen3-8B, int4, 32,768 tokens", QWEN3_8B, int4, 32_768, 10.74),
        of_qwen("Qwen3-30B-A3B, bf16, 32,768 tokens", QWEN3_30B_A3B, bf16, 32_768, 59.90),
        of_qwen("Qwen3-32B, bf16, 32,768 tokens", QWEN3_32B, bf16, 32_768, 69.07),
        of_qwen("Qwen3-32B, fp8, 16,384 tokens", QWEN3_32B, fp8, 16_384, 36.10),
        of_qwen("Qwen3-32B, int4, 32,768 tokens", QWEN3_32B, int4, 32_768, 27.07),
        of_glm("GLM-4-9B, bf16, 1,000 tokens", bf16, 1_000, 19_047.0),
        of_glm("GLM-4-9B, bf16, 8,000 tokens", bf16, 8_000, 20_629.0),
        of_glm("GLM-4-9B, nf4, 1,000 tokens", Precision::Nf4, 1_000, 8_251.0),
    ]
}

fn later_training() -> Vec<MeasuredCase> {
    let checked = |task, batch, tokens, lora_rank| Workload {
        batch,
        tokens,
        lora_rank,
        gradient_checkpointing: true,
        ..Workload::new(task, Precision::Bf16)
    };
    let of_answer = |name, task, batch, tokens, gib| {
        case("fsdp_qlora", name, LLAMA_2_7B, checked(task, batch, tokens, 64), gib).allocated()
    };
    let of_swift = |name, config, tokens, gib| case("ms-swift", name, config, checked(Task::Lora, 1, tokens, 8), gib);
    let pure = Workload { master_weights: false, ..checked(Task::Full, 1, 2_048, 8) };
    vec![
        of_answer("Llama 2 7B, QLoRA, 1 x 512 tokens, FSDP on 2 GPUs", Task::Qlora, 1, 512, 4.98).sharded(2),
        of_answer("Llama 2 7B, QLoRA, 1 x 2,048 tokens, FSDP on 2 GPUs", Task::Qlora, 1, 2_048, 5.21).sharded(2),
        of_answer("Llama 2 7B, QLoRA, 10 x 2,048 tokens, FSDP on 2 GPUs", Task::Qlora, 10, 2_048, 20.97).sharded(2),
        of_answer("Llama 2 7B, LoRA, 4 x 2,048 tokens, FSDP on 2 GPUs", Task::Lora, 4, 2_048, 16.14).sharded(2),
        of_answer("Llama 2 7B, LoRA, 6 x 2,048 tokens, FSDP on 2 GPUs", Task::Lora, 6, 2_048, 21.35).sharded(2),
        of_answer("Llama 2 7B, QLoRA, 8 x 2,048 tokens", Task::Qlora, 8, 2_048, 20.94),
        of_answer("Llama 2 7B, LoRA, 4 x 2,048 tokens", Task::Lora, 4, 2_048, 22.04),
        of_swift("Yi-6B, LoRA, 512 tokens", YI_6B, 512, 13.72),
        of_swift("Yi-6B, LoRA, 2,048 tokens", YI_6B, 2_048, 16.95),
        of_swift("Yi-34B, LoRA, 512 tokens", YI_34B, 512, 66.72),
        of_swift("Yi-34B, LoRA, 4,096 tokens", YI_34B, 4_096, 78.72),
        case("ms-swift", "Qwen-7B, full, purely bf16, 2,048 tokens", QWEN_7B, pure, 74.26),
        case(
            "GLM-4",
            "GLM-4-9B, LoRA, 1,024 tokens",
            GLM_4_9B,
            Workload { lora_targets: LoraTargets::QueryValue, ..checked(Task::Lora, 1, 1_024, 8) },
            21.03,
        ),
    ]
}

fn estimated_gib(case: &MeasuredCase) -> f64 {
    let architecture = read_hf_config(case.config).unwrap();
    let estimate = estimate(&architecture, &case.workload, case.parallelism).unwrap();
    let overhead = if case.counted == Counted::Allocated { estimate.overhead.bytes } else { 0 };
    to_gib(estimate.total_bytes() - overhead)
}

#[test]
fn the_median_error_is_small_none_is_large_and_the_page_has_every_row() {
    let cases: Vec<MeasuredCase> = inference()
        .into_iter()
        .chain(training_of_qwen())
        .chain(other_training())
        .chain(training_of_litgpt())
        .chain(later_inference())
        .chain(later_training())
        .collect();
    let mut errors = Vec::new();
    let mut rows = String::new();
    for case in &cases {
        let estimated = estimated_gib(case);
        let percent = (estimated / case.measured_gib - 1.0) * 100.0;
        errors.push(percent.abs());
        let MeasuredCase { name, source, measured_gib, .. } = case;
        rows.push_str("| ");
        rows.push_str(
            &[
                name.to_string(),
                source.to_string(),
                format!("{measured_gib:.1}"),
                format!("{estimated:.1}"),
                format!("{percent:+.0} %"),
            ]
            .join(" | "),
        );
        rows.push_str(" |\n");
    }
    errors.sort_by(f64::total_cmp);
    let median = f64::midpoint(errors[(errors.len() - 1) / 2], errors[errors.len() / 2]);
    let most = errors[errors.len() - 1];
    assert!(cases.len() >= 10 && median <= 10.0 && most <= 25.0, "median {median}, most {most}\n{rows}");
    assert!(PAGE.contains(&rows), "docs/sizing.md lacks these rows:\n{rows}");
    let summary = format!("median error of {median:.0} %, and the largest is {most:.0} %");
    assert!(PAGE.contains(&summary), "docs/sizing.md lacks: {summary}");
}
