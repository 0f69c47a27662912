//! What everybody in the field knows by heart.
#![expect(clippy::unwrap_used, reason = "a test that fails may say so by panicking")]

use sizing::{
    BYTES_PER_GIB, MemoryEstimate, Optimizer, Parallelism, Precision, Task, Workload, estimate, fit, read_hf_config,
    read_params,
};

/// As `DescribeInstanceTypes` says of a T4, an A10G and an H100.
const T4: u64 = 16_384 << 20;
const A10G: u64 = 22_888 << 20;
const H100: u64 = 81_920 << 20;

fn of(params: &str, task: Task, precision: Precision) -> MemoryEstimate {
    estimate(&read_params(params).unwrap(), &Workload::new(task, precision), Parallelism::ONE_GPU).unwrap()
}

/// Billions of bytes of weights, within so many percent.
fn check_weights(params: &str, precision: Precision, gb: u64, percent: u64) {
    let bytes = of(params, Task::Inference, precision).weights.bytes;
    let expect = gb * 1_000_000_000;
    assert!(bytes.abs_diff(expect) <= expect / 100 * percent, "{params} in {precision}: {bytes} bytes, not {gb} GB");
}

#[test]
fn seven_billion_parameters_take_14_gb_in_16_bits() {
    check_weights("7b", Precision::Fp16, 14, 0);
    check_weights("7b", Precision::Bf16, 14, 0);
}

#[test]
fn seventy_billion_take_140_70_and_35_gb() {
    check_weights("70b", Precision::Fp16, 140, 0);
    check_weights("70b", Precision::Int8, 70, 2);
    // With scales, and embeddings in 16 bits: a published file of Llama 2 70B in 4 bits has 36.7 GB.
    check_weights("70b", Precision::Int4, 35, 7);
    check_weights("70b", Precision::Nf4, 35, 7);
}

#[test]
fn fourteen_gb_fit_an_a10g_and_not_a_t4() {
    let served = of("7b", Task::Inference, Precision::Fp16);
    assert!(fit(&served, A10G).fits && !fit(&served, T4).fits);
}

#[test]
fn llama_3_8b_in_fp32_does_not_fit_24_gb_and_does_in_bf16() {
    let config = r#"{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}"#;
    let llama = read_hf_config(config).unwrap();
    let fits = |precision| {
        let workload = Workload::new(Task::Inference, precision);
        fit(&estimate(&llama, &workload, Parallelism::ONE_GPU).unwrap(), A10G).fits
    };
    assert!(!fits(Precision::Fp32) && fits(Precision::Bf16) && fits(Precision::Int4));
}

#[test]
fn full_training_takes_16_to_20_bytes_a_parameter_and_activations() {
    for precision in [Precision::Bf16, Precision::Fp16, Precision::Fp32] {
        let full = of("7b", Task::Full, precision);
        let of_parameter = (full.weights.bytes + full.gradients.bytes + full.optimizer.bytes) / 7_000_000_000;
        assert!((16..=20).contains(&of_parameter), "{precision}: {of_parameter}");
        assert!(full.activations.bytes > BYTES_PER_GIB && !fit(&full, H100).fits, "{precision}");
    }
}

#[test]
fn qlora_of_65_billion_fits_48_gb() {
    // QLoRA, abstract: 65 billion parameters on one GPU of 48 GB.
    let workload = Workload {
        gradient_checkpointing: true,
        tokens: 512,
        lora_rank: 64,
        optimizer: Optimizer::Adamw8bit,
        ..Workload::new(Task::Qlora, Precision::Bf16)
    };
    let llama = r#"{"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
        "intermediate_size": 22016, "vocab_size": 32000}"#;
    let estimate = estimate(&read_hf_config(llama).unwrap(), &workload, Parallelism::ONE_GPU).unwrap();
    assert!(estimate.total_bytes() <= 48 << 30, "{}", estimate.explain());
}
