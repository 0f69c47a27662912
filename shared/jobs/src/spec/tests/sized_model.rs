//! `[gpu] model`: what it comes to, and how it is refused.

use super::*;

/// Count and memory of each, and whether the GPUs share the model.
fn check_sized(gpu: &str, expect: (u32, u32)) {
    let spec = read(&format!("{LEAST}[gpu]\n{gpu}\n"));
    let GpuSpec { count, memory_gib_min, .. } = spec.terms.gpu;
    assert_eq!((count, memory_gib_min), expect, "{gpu}\n{:#?}", spec.sizing.map(|sizing| sizing.describe()));
}

#[test]
fn a_model_says_how_much_memory_each_gpu_needs() {
    // 14 GB of weights: more than a T4 of 16 GB can hold, and less than an A10G of 24.
    check_sized(r#"model = { params = "7b", task = "inference" }"#, (1, 18));
    check_sized(r#"model = { params = "7b", precision = "bf16", task = "lora" }"#, (1, 31));
    check_sized(r#"model = { params = "7b", task = "lora", gradient_checkpointing = true }"#, (1, 20));
    check_sized(r#"model = { params = "7b", task = "qlora", gradient_checkpointing = true, tokens = 1024 }"#, (1, 8));
    check_sized(r#"model = { params = "8b", precision = "fp32", task = "inference" }"#, (1, 39));
    check_sized(r#"model = { params = "7b", task = "inference", tokens = "32k", batch = 4 }"#, (1, 37));
    let whole = r#"model = { params = "7b", task = "inference", tokens = "32k", prefill_chunk = "32k", batch = 4 }"#;
    check_sized(whole, (1, 40));
    // As one GPU of 80 GB trains it: weights, gradients and states of 2 bytes.
    check_sized(
        r#"model = { params = "7b", task = "full", pure_bf16 = true, gradient_checkpointing = true }"#,
        (1, 79),
    );
}

#[test]
fn a_model_that_one_gpu_cannot_hold_gets_more_of_them() {
    check_sized(r#"model = { params = "70b", task = "inference" }"#, (2, 81));
    check_sized(r#"model = { params = "7b", task = "full", gradient_checkpointing = true }"#, (2, 75));
    // Eight are the most that a machine has: then each has to be larger than usual.
    check_sized(r#"model = { params = "70b", task = "full", gradient_checkpointing = true }"#, (8, 187));
}

#[test]
fn a_count_of_its_own_shares_the_model() {
    check_sized("count = 2\nmodel = { params = \"7b\", task = \"inference\" }", (2, 10));
    check_sized("count = 8\nmodel = { params = \"7b\", task = \"full\", gradient_checkpointing = true }", (8, 23));
}

#[test]
fn the_keys_of_a_configuration_file_are_read_as_the_file() {
    let model = r#"
[gpu.model]
task = "inference"
[gpu.model.hf_config]
model_type = "llama"
num_hidden_layers = 32
hidden_size = 4096
num_attention_heads = 32
num_key_value_heads = 8
intermediate_size = 14336
vocab_size = 128256
"#;
    let sizing = read(&format!("{LEAST}{model}")).sizing.unwrap();
    assert_eq!(sizing.estimate.parameters.total, 8_030_261_248);
    assert_eq!((sizing.model.as_str(), sizing.gpu_gb_min), ("llama", 21));
    check(
        "[gpu.model]\ntask = \"inference\"\nhf_config = { model_type = \"llama\", vocab_size = 10 }",
        &[
            "5 gpu.model.hf_config: the model type \"llama\" lacks num_hidden_layers, hidden_size, num_attention_heads, \
           intermediate_size; write them, or give the number of parameters instead",
        ],
    );
}

#[test]
fn the_precision_is_that_of_the_file_unless_it_is_named() {
    let model = r#"
[gpu.model]
task = "inference"PRECISION
[gpu.model.hf_config]
model_type = "llama"
num_hidden_layers = 32
hidden_size = 4096
num_attention_heads = 32
num_key_value_heads = 8
intermediate_size = 14336
vocab_size = 128256
[gpu.model.hf_config.quantization_config]
quant_method = "METHOD"
bits = 4
group_size = 128
"#;
    let document = |precision: &str, method: &str| model.replace("PRECISION", precision).replace("METHOD", method);
    let sized = |precision: &str| {
        let sizing = read(&format!("{LEAST}{}", document(precision, "awq"))).sizing.unwrap();
        (sizing.precision.to_string(), sizing.gpu_gb_min)
    };
    assert_eq!(sized(""), ("int4".to_owned(), 9));
    assert_eq!(sized("\nprecision = \"bf16\""), ("bf16".to_owned(), 21));
    check(
        &document("", "aqlm"),
        &[
            "4 gpu.model.precision: quantization_config: the method \"aqlm\" is not known; name the format in which the weights are used as the \
           precision, such as int4",
        ],
    );
}

#[test]
fn a_mixture_of_experts_and_what_is_offloaded() {
    check_sized(
        r#"count = 8
model = { params = "109b", active = "17b", task = "inference" }"#,
        (8, 32),
    );
    let offloaded = format!(
        "{LEAST}[gpu]\nmodel = {{ params = \"7b\", task = \"full\", gradient_checkpointing = true, offload = \"optimizer\" }}\n"
    );
    let spec = read(&offloaded);
    assert_eq!((spec.terms.gpu.count, spec.terms.gpu.memory_gib_min, spec.terms.machine.memory_gib), (1, 20, 116));
    assert!(spec.sizing.unwrap().describe()[1].contains("has to have 116 GiB of memory for what is offloaded"));
    check(
        "[gpu.model]\nparams = \"7b\"\nactive = \"9b\"\ntask = \"lora\"\noffload = \"weights\"\nprefill_chunk = 512\n",
        &[
            "4 gpu.model.params: of 7b parameters 9b cannot be those that a token passes through; write fewer, or leave them out if it passes \
             through all",
            "7 gpu.model.offload: offload changes nothing in the task lora; leave it out, or choose the task full",
            "8 gpu.model.prefill_chunk: prefill_chunk changes nothing in the task lora; leave it out, or choose the task inference",
        ],
    );
}

#[test]
fn the_owner_sees_how_it_was_estimated() {
    let spec = read(&format!("{LEAST}[gpu]\nmodel = {{ params = \"7b\", task = \"lora\" }}\n"));
    insta::assert_snapshot!(spec.sizing.unwrap().describe().join("\n"), @r"
    The model 7b (lora, bf16) takes about 25.8 GiB on one GPU, so a GPU has to have 31 GB: weights 13.2, gradients 0.2, optimizer 0.3, activations 10.4, logits 0.7, overhead 1.0
    Assumed: layers, heads and vocabulary are those of Mistral 7B; a config.json of the model says its own
    Assumed: the model is a decoder of text, and each token passes through all parameters; of a mixture of experts say how many are active (`active`)
    Assumed: measured runs took up to a fifth more than such an estimate, by fragmentation and buffers for communication
    ");
}

#[test]
fn mistakes_in_a_model() {
    let names = "none of `inference`, `full`, `lora`, `qlora`";
    check(
        "[gpu]\nmemory_gib_min = 24\n[gpu.model]\nparams = \"7x\"\ntask = \"train\"\nprecision = \"int3\"\ntokens = 0\n",
        &[
            "4 gpu.memory_gib_min: `gpu.model` says how much memory is needed; leave one of them out",
            "6 gpu.model.params: \"7x\" is not a number of parameters; write one such as `7b`, `1.5b` or `350m`, from 1m to 10t, with at most three digits after the point",
            &format!("7 gpu.model.task: \"train\" is {names}"),
            "8 gpu.model.precision: \"int3\" is none of `fp32`, `tf32`, `fp16`, `bf16`, `fp8`, `int8`, `int4`, `nf4`, `mxfp4`, `nvfp4`",
        ],
    );
    check(
        "[gpu]\nmodel = {}\n",
        &[
            "4 gpu.model.params: it is missing: write `params = \"7b\"`, or the keys of a config.json under `hf_config`",
            "4 gpu.model.task: it is missing: write one of `inference`, `full`, `lora`, `qlora`",
        ],
    );
    check(
        "[gpu]\nmodel = { params = \"7b\", task = \"full\", precision = \"int4\" }",
        &[
            "4 gpu.model: weights in int4 cannot be trained; write `bf16`, or the task `qlora`, which trains adapters beside them",
        ],
    );
    check(
        "[gpu.model]\nparams = \"7b\"\ntask = \"lora\"\nlora_ranks = 4\n",
        &["6 gpu.model.lora_ranks: there is no key `lora_ranks` here; did you mean `lora_rank`?"],
    );
    check(
        "[gpu.model]\nparams = \"7b\"\ntask = \"lora\"\ntokens = true\nbatch = 0\n",
        &[
            "6 gpu.model.tokens: write a number of tokens such as `4096` or `8k`, not true",
            "7 gpu.model.batch: 0 is out of range; write a whole number from 1 to 65536",
        ],
    );
    check(
        "[gpu]\ncount = 3\nmodel = { params = \"7b\", task = \"inference\" }",
        &["5 gpu.model: 32 attention heads cannot be cut for 3 GPUs; write a number of GPUs that divides 32"],
    );
    check(
        "[gpu.model]\nparams = \"1t\"\ntask = \"full\"\n",
        &[
            "3 gpu.model: it needs 2730 GB on each of 8 GPUs, more than any GPU has; use a lower precision, a shorter sequence, \
           or LoRA",
        ],
    );
}
