//! What holds of every model and workload.
#![expect(clippy::unwrap_used, reason = "a test that fails may say so by panicking")]

use proptest::prelude::*;
use sizing::{
    LoraTargets, ModelArchitecture, Optimizer, Parallelism, Precision, Task, Workload, estimate, gpu_gb_min,
    read_hf_config, read_params, read_tokens,
};

fn total(model: &ModelArchitecture, workload: &Workload, parallelism: Parallelism) -> u64 {
    estimate(model, workload, parallelism).unwrap().total_bytes()
}

fn workloads() -> impl Strategy<Value = Workload> {
    use proptest::sample::select;
    let choices = (
        select(Task::ALL.to_vec()),
        select(Precision::ALL.to_vec()),
        select(Optimizer::ALL.to_vec()),
        select(LoraTargets::ALL.to_vec()),
    );
    let numbers = (1_u32..=1 << 16, 1_u32..=1 << 24, 1_u32..=8_192);
    (choices, numbers, any::<[bool; 4]>()).prop_map(
        |((task, precision, optimizer, lora_targets), (batch, tokens, lora_rank), switches)| Workload {
            task,
            precision,
            as_published: false,
            batch,
            tokens,
            prefill_chunk: lora_rank,
            optimizer,
            gradient_checkpointing: switches[0],
            flash_attention: switches[1],
            master_weights: switches[2],
            lora_rank,
            lora_targets,
            fused_loss: switches[3],
            offload: if task == Task::Full && switches[3] { Some(sizing::Offload::Optimizer) } else { None },
        },
    )
}

/// The largest numbers that are possible, together.
#[test]
fn the_largest_model_is_sized_and_a_larger_one_refused() {
    let model = |head_dim: u32| {
        read_hf_config(&format!(
            "{{\"model_type\": \"mixtral\", \"num_hidden_layers\": 1024, \"hidden_size\": {0}, \"num_attention_heads\": 1024, \
             \"num_key_value_heads\": 1024, \"intermediate_size\": {0}, \"vocab_size\": {1}, \"head_dim\": {head_dim}, \
             \"num_local_experts\": 4096, \"num_experts_per_tok\": 4096}}",
            1 << 20,
            1 << 24
        ))
    };
    assert!(model(1 << 20).unwrap_err().to_string().contains("head_dim of all heads"));
    let model = model(1 << 10).unwrap();
    for task in Task::ALL {
        let workload =
            Workload { batch: 1 << 16, tokens: 1 << 24, lora_rank: 8_192, ..Workload::new(task, Precision::Bf16) };
        let _ = estimate(&model, &workload, Parallelism::ONE_GPU);
    }
}

proptest! {
    /// No number that is accepted overflows, and more never takes less.
    #[test]
    fn more_work_takes_no_less_and_more_gpus_take_no_more(
        workload in workloads(), params in 1_000_000_u64..10_000_000_000_000, gpus in 0_u32..4,
    ) {
        let model = read_params(&params.to_string()).unwrap();
        let one = Parallelism::ONE_GPU;
        prop_assume!(estimate(&model, &workload, one).is_ok());
        let at = total(&model, &workload, one);
        let less = Workload { batch: workload.batch.div_ceil(2), tokens: workload.tokens.div_ceil(2), ..workload };
        prop_assert!(total(&model, &less, one) <= at);
        let checkpointing = |gradient_checkpointing| total(&model, &Workload { gradient_checkpointing, ..workload }, one);
        prop_assert!(model.layers == 1 || checkpointing(true) <= checkpointing(false));
        let (few, many) = (1 << gpus, 2 << gpus);
        for strategy in [sizing::Strategy::Zero1, sizing::Strategy::Zero2] {
            prop_assert!(total(&model, &workload, Parallelism::new(strategy, many)) <= total(&model, &workload, Parallelism::new(strategy, few)));
        }
        prop_assert!(gpu_gb_min(&estimate(&model, &workload, one).unwrap()) > 0);
    }

    /// A file of the usual keys with any numbers is sized or refused.
    #[test]
    fn any_numbers_are_sized_or_refused(numbers in proptest::collection::vec(any::<u32>().prop_map(|n| n >> (n % 32)), 12), workload in workloads()) {
        let keys = ["num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
            "head_dim", "num_local_experts", "num_experts_per_tok", "first_k_dense_replace", "sliding_window", "n_shared_experts"];
        let pairs: Vec<String> = keys.iter().zip(&numbers).map(|(key, number)| format!("\"{key}\": {number}")).collect();
        let text = format!("{{\"model_type\": \"mixtral\", {}}}", pairs.join(", "));
        if let Ok(model) = read_hf_config(&text)
            && let Ok(estimate) = estimate(&model, &workload, Parallelism::ONE_GPU)
        {
            prop_assert!(estimate.total_bytes() >= estimate.weights.bytes);
            // A part of nothing, such as the KV cache of a training, has no line, and no empty one.
            let explained = estimate.explain();
            prop_assert!(explained.lines().all(|line| !line.trim().is_empty()), "{}", explained);
            prop_assert!(explained.contains("kv_cache") == (estimate.kv_cache.bytes > 0));
        }
    }

    #[test]
    fn any_text_is_sized_or_refused(text in ".{0,300}") {
        let _ = (read_hf_config(&text), read_params(&text), read_tokens(&text));
    }
}
