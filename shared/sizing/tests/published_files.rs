//! Published `config.json` files: their parameters, and the bytes of their weights.
//!
//! `published_files.json` has the keys of the files on Hugging Face that concern the shape, each with the parameters that the page of its
//! repository counts, and the size of its weights. Lists of names are cut to one layer where all layers have the same. DeepSeek-V3 is without
//! its layer for two tokens at once, which is counted apart: with it the files have 688.6 GB.
#![expect(clippy::unwrap_used, reason = "a test that fails may say so by panicking")]

use serde::Deserialize;
use serde_json::Value;
use sizing::{
    ModelArchitecture, Offload, Parallelism, Precision, PublishedFormat, Strategy, Task, Workload, estimate,
    generation_step_bytes, read_hf_config, read_mixture, read_params, remedies, to_gib,
};

#[derive(Deserialize)]
struct PublishedFile {
    name: String,
    config: Value,
    parameters: f64,
    gigabytes: Option<f64>,
}

fn files() -> Vec<PublishedFile> {
    serde_json::from_str(include_str!("published_files.json")).unwrap()
}

fn config(name: &str) -> Value {
    files().into_iter().find(|file| file.name == name).unwrap().config
}

fn read(config: &Value) -> ModelArchitecture {
    read_hf_config(&config.to_string()).unwrap()
}

fn infer(model: &ModelArchitecture) -> Workload {
    Workload::for_model(Task::Inference, None, model).unwrap()
}

fn weights(model: &ModelArchitecture, workload: &Workload) -> f64 {
    to_gib(estimate(model, workload, Parallelism::ONE_GPU).unwrap().weights.bytes)
}

#[expect(clippy::cast_precision_loss, reason = "compared within a percent")]
#[test]
fn parameters_and_bytes_are_those_of_the_published_files() {
    for PublishedFile { name, config, parameters, gigabytes } in files() {
        let model = read(&config);
        let error = model.parameters().total as f64 / parameters - 1.0;
        assert!(error.abs() < 0.007, "{name}: {} parameters, {:+.2} %", model.parameters().total, error * 100.0);
        let Some(gigabytes) = gigabytes else { continue };
        let bytes = estimate(&model, &infer(&model), Parallelism::ONE_GPU).unwrap().weights.bytes;
        let error = bytes as f64 / 1e9 / gigabytes - 1.0;
        assert!(error.abs() < 0.01, "{name}: {bytes} bytes, {:+.2} %", error * 100.0);
    }
}

/// Billions of active parameters: Mixtral's paper counts all, and the model card of gpt-oss all but the input embedding.
#[expect(clippy::cast_precision_loss, reason = "compared within a percent")]
#[test]
fn active_parameters_are_those_of_the_published_pages() {
    for (name, without, billions) in
        [("TheBloke/Mixtral-8x7B-v0.1-AWQ", 0, 12.9), ("openai/gpt-oss-20b", 1, 3.61), ("openai/gpt-oss-120b", 1, 5.13)]
    {
        let parameters = read(&config(name)).parameters();
        let active = parameters.active - without * parameters.vocabulary_matrix;
        assert!((active as f64 / 1e9 / billions - 1.0).abs() < 0.01, "{name}: {active}");
    }
}

#[test]
fn the_format_of_the_file_is_counted_and_named_unless_another_is_named() {
    let model = read(&config("openai/gpt-oss-20b"));
    let workload = infer(&model);
    assert_eq!((workload.precision, workload.as_published), (Precision::Mxfp4, true));
    let assumptions = estimate(&model, &workload, Parallelism::ONE_GPU).unwrap().assumptions;
    assert_eq!(
        assumptions,
        [
            "the weights are as the file keeps them: mxfp4, 4.25 bits, the experts alone (1.8 billion parameters in 16 bits); `precision` counts \
             another format"
        ]
    );
    let by_hand = Workload::for_model(Task::Inference, Some(Precision::Bf16), &model).unwrap();
    assert!((weights(&model, &by_hand) - 39.0).abs() < 0.1);
    let assumptions = estimate(&model, &by_hand, Parallelism::ONE_GPU).unwrap().assumptions;
    assert!(assumptions.iter().any(|line| line.ends_with("; bf16 is counted instead")), "{assumptions:?}");
    // The same by hand: of a mixture of experts MXFP4 is of the experts alone.
    let by_hand = Workload::for_model(Task::Inference, Some(Precision::Mxfp4), &model).unwrap();
    assert!((weights(&model, &by_hand) / weights(&model, &workload) - 1.0).abs() < 0.001);
}

/// Adapters are trained beside weights in 4 bits; other formats are unpacked.
#[test]
fn training_unpacks_what_it_cannot_train_beside() {
    let of = |name: &str, task| Workload::for_model(task, None, &read(&config(name))).unwrap();
    let bits_and_bytes = "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit";
    for (name, task, expect) in [
        (bits_and_bytes, Task::Lora, (Precision::Nf4, true)),
        (bits_and_bytes, Task::Full, (Precision::Bf16, false)),
        ("Qwen/Qwen3-8B-AWQ", Task::Qlora, (Precision::Int4, true)),
        ("Qwen/Qwen3-8B-FP8", Task::Lora, (Precision::Bf16, false)),
        ("openai/gpt-oss-20b", Task::Qlora, (Precision::Bf16, false)),
    ] {
        let workload = of(name, task);
        assert_eq!((workload.precision, workload.as_published), expect, "{name} {task}");
    }
}

fn quantized(quantization_config: &str) -> Value {
    let mut config = config("Qwen/Qwen3-8B-AWQ");
    config["quantization_config"] = serde_json::from_str(quantization_config).unwrap();
    config
}

#[test]
fn a_format_that_is_not_understood_is_refused_with_the_way_out() {
    for (config, reason) in [
        (r#"{"quant_method": "hqq"}"#, "the method \"hqq\" is not known"),
        (r"{}", "it names no method (`quant_method`)"),
        (r#"{"quant_method": "awq"}"#, "awq says no number of bits from 2 to 8"),
        (r#"{"quant_method": "gptq", "bits": 16}"#, "gptq says no number of bits from 2 to 8"),
        (
            r#"{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}"#,
            "the algorithm \"MIXED_PRECISION\" of modelopt is not known",
        ),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"W3A16": ["Linear"]}}"#,
            "the scheme \"W3A16\" is not known",
        ),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Odd"], "weights": {"num_bits": 4, "type": "int"}}}}"#,
            "the target \"Odd\" is not known",
        ),
        (
            r#"{"quant_method": "auto-round", "bits": 4, "extra_config": {"model.layers.0.mlp.down_proj": {"bits": 8}}}"#,
            "some layers have other bits than the rest (`extra_config`)",
        ),
        (r#"{"quant_method": "fp8", "ignored_layers": ["re:(("]}"#, "\"((\" is no pattern of names that is understood"),
    ] {
        let model = read(&quantized(config));
        let refusal = Workload::for_model(Task::Inference, None, &model).unwrap_err().to_string();
        assert_eq!(
            refusal,
            format!(
                "quantization_config: {reason}; name the format in which the weights are used as the precision, such as int4"
            )
        );
        assert!(Workload::for_model(Task::Inference, Some(Precision::Int4), &model).is_ok());
        // Trained in full, weights are unpacked.
        assert!(Workload::for_model(Task::Full, None, &model).is_ok());
    }
}

/// Bits of a linear layer, and of what the names keep.
#[test]
fn methods_differ_by_bits_and_by_what_they_keep() {
    let bytes = |config: &str| {
        let model = read(&quantized(config));
        match model.published {
            PublishedFormat::Quantized(weights) => weights.bytes,
            other => panic!("{config}: {other:?}"),
        }
    };
    let (linear, total, head) = (6_945_767_424_u64, 8_190_735_360_u64, 622_329_856_u64);
    let expect = |millibits: u64, linear: u64| linear * millibits / 8_000 + (total - linear) * 2;
    let check = |config: &str, expect: u64| {
        let found = bytes(config);
        assert!(found.abs_diff(expect) <= 1_000, "{config}: {found}, not {expect}");
    };
    let attention = 36 * 2 * (4_096 * 4_096 + 4_096 * 1_024);
    check(r#"{"quant_method": "fp8"}"#, expect(8_000, linear));
    check(r#"{"quant_method": "gptq", "bits": 4, "group_size": 32}"#, expect(4_625, linear));
    check(r#"{"quant_method": "gptq", "bits": 8, "group_size": -1}"#, expect(8_000, linear));
    check(r#"{"quant_method": "gptq", "bits": 4, "lm_head": true}"#, expect(4_156, linear + head));
    check(
        r#"{"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*self_attn": {}}}"#,
        expect(4_156, linear - attention),
    );
    check(r#"{"quant_method": "awq", "w_bit": 4, "q_group_size": 64}"#, expect(4_312, linear));
    check(r#"{"load_in_8bit": true}"#, expect(8_000, linear));
    check(r#"{"quant_method": "bitsandbytes", "load_in_4bit": true}"#, expect(4_500, linear));
    let skipped = r#"["lm_head", "merger", "model.layers.0.self_attn", "model.layers.1.mlp.down_proj"]"#;
    let kept = attention / 36 + 4_096 * 12_288;
    check(
        &format!(r#"{{"load_in_4bit": true, "bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": {skipped}}}"#),
        expect(4_127, linear - kept),
    );
    check(
        r#"{"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "*self_attn*"]}}"#,
        expect(4_500, linear - attention),
    );
    check(r#"{"quant_method": "modelopt", "quant_algo": "FP8"}"#, expect(8_000, linear + head));
    let two = r#"{"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}},
        "group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}"#;
    check(two, expect(4_125, linear) - attention * 4_125 / 8_000 + attention);
    check(
        r#"{"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"FP8_DYNAMIC": ["Linear"]}}"#,
        expect(8_000, linear),
    );
    let unknown = read(&quantized(r#"{"quant_method": "fp8", "ignored_layers": ["model.layers.0.mixer", "lm_head"]}"#));
    assert_eq!(
        unknown.notes,
        ["of the names that keep 16 bits 1 are not known, such as \"layers.0.mixer\"; they are counted as the rest"]
    );
    let dense = read(&quantized(r#"{"quant_method": "compressed-tensors", "format": "dense", "config_groups": {}}"#));
    assert_eq!(dense.published, PublishedFormat::Plain(Some(Precision::Bf16)));
}

/// A file may hold anything: neither many patterns nor many layers take long.
#[test]
fn many_patterns_are_refused() {
    let patterns: Vec<String> = (0..200).map(|number| format!("\"re:.*{number}.*\"")).collect();
    let config = format!(r#"{{"quant_method": "fp8", "ignored_layers": [{}]}}"#, patterns.join(","));
    assert!(matches!(read(&quantized(&config)).published, PublishedFormat::Unknown(_)));
    let mut many =
        quantized(&format!(r#"{{"quant_method": "fp8", "ignored_layers": [{}]}}"#, patterns[..90].join(",")));
    many["num_hidden_layers"] = 1_024.into();
    assert!(matches!(read(&many).published, PublishedFormat::Unknown(_)));
}

/// QwenLM/Qwen3, `docs/source/getting_started/speed_benchmark.md`: 137 tokens a second on one H20 with 4.0 TB/s, Qwen3-30B-A3B in bf16.
#[test]
fn a_step_reads_the_experts_of_its_tokens_only() {
    let model = read_hf_config(
        r#"{"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
            "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
            "moe_intermediate_size": 768}"#,
    )
    .unwrap();
    let step = |batch| generation_step_bytes(&model, &Workload { batch, tokens: 2_048, ..infer(&model) }).unwrap();
    assert!(4_000_000_000_000 / step(1) >= 137, "{}", step(1));
    let all = weights(&model, &infer(&model));
    let weights_read = |batch: u64| to_gib(step(u32::try_from(batch).unwrap()) - batch * 2_048 * 48 * 2 * 512 * 2 / 2);
    // At least: those of a batch may be the same.
    assert!(
        (weights_read(16) - weights_read(1)).abs() < 0.01 && weights_read(1) < all / 8.0,
        "{all} {}",
        weights_read(16)
    );
    // The same by numbers: 30.5 billion parameters of which 3.3 are active.
    let by_numbers = read_mixture("30.5b", "3.3b").unwrap();
    let rough = generation_step_bytes(&by_numbers, &Workload { tokens: 2_048, ..infer(&by_numbers) }).unwrap();
    assert!(rough.abs_diff(step(1)) < step(1) / 20, "{rough}");
    assert_eq!((by_numbers.parameters().total, by_numbers.parameters().active), (30_500_000_000, 3_300_000_000));
    assert!(read_mixture("7b", "8b").unwrap_err().to_string().contains("cannot be those that a token passes through"));
}

#[test]
fn a_long_prompt_is_read_in_pieces() {
    let model = read_params("8b").unwrap();
    let workload = Workload { tokens: 131_072, ..infer(&model) };
    let activations = |workload: &Workload| estimate(&model, workload, Parallelism::ONE_GPU).unwrap().activations.bytes;
    assert_eq!(activations(&workload), activations(&Workload { tokens: 8_192, ..workload }));
    assert_eq!(activations(&Workload { prefill_chunk: 131_072, ..workload }), 16 * activations(&workload));
    let assumptions = estimate(&model, &workload, Parallelism::ONE_GPU).unwrap().assumptions;
    assert!(
        assumptions.iter().any(|line| line.starts_with("a prompt is read 8192 tokens at a time")),
        "{assumptions:?}"
    );
}

/// `DeepSpeed`, "Memory Requirements": 16 bytes a parameter of the machine's memory, and 18 with the weights.
#[test]
fn what_is_offloaded_is_in_the_memory_of_the_machine() {
    let model = read_params("7b").unwrap();
    let full = Workload { gradient_checkpointing: true, ..Workload::new(Task::Full, Precision::Bf16) };
    let with = |offload| estimate(&model, &Workload { offload, ..full }, Parallelism::new(Strategy::Zero3, 2)).unwrap();
    let (none, optimizer, weights) = (with(None), with(Some(Offload::Optimizer)), with(Some(Offload::Weights)));
    assert_eq!(
        (none.host.bytes, optimizer.host.bytes, weights.host.bytes),
        (0, 16 * 7_000_000_000, 18 * 7_000_000_000)
    );
    assert_eq!((optimizer.optimizer.bytes, optimizer.weights.bytes), (0, none.weights.bytes));
    assert!(
        weights.weights.bytes < optimizer.weights.bytes / 2 && optimizer.gradients.bytes < none.gradients.bytes / 20
    );
    assert!(
        optimizer.explain().contains("\nmachine         104.31 GiB  7000000000 parameters: 8 bytes of two moments")
    );
    assert!(
        remedies(&model, &full, Parallelism::ONE_GPU, 80 << 30).iter().all(|remedy| remedy.workload.offload.is_none())
    );
}

#[test]
fn kinds_that_are_no_known_decoder_are_refused_with_the_way_out() {
    let usual = r#""num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096"#;
    for (config, reason) in [
        (
            r#""architectures": ["CLIPModel"], "model_type": "clip", "vocab_size": 49408"#,
            "with the class \"CLIPModel\" is no decoder of text",
        ),
        (
            r#""architectures": ["ViTForImageClassification"], "model_type": "vit", "image_size": 224"#,
            "\"ViTForImageClassification\" is no decoder",
        ),
        (r#""model_type": "vit", "image_size": 224"#, "reads images or sound"),
        (
            r#""architectures": ["NewForMaskedLM"], "model_type": "tomorrow", "vocab_size": 50000"#,
            "\"NewForMaskedLM\" is no decoder",
        ),
        (r#""_class_name": "FluxTransformer2DModel""#, "is a part of a pipeline of Diffusers"),
        (
            r#""model_type": "tomorrow", "vocab_size": 50000, "num_hidden_groups": 1"#,
            "its key \"num_hidden_groups\" changes its shape",
        ),
        (
            r#""model_type": "tomorrow", "vocab_size": 50000, "hidden_act": "relu2""#,
            "whether its MLP has a gate neither, by its activation \"relu2\"",
        ),
        (
            r#""model_type": "minimax_text", "vocab_size": 50000, "attn_type_list": [0, 1]"#,
            "has recurrent or state-space layers",
        ),
    ] {
        let refusal = read_hf_config(&format!("{{{usual}, {config}}}")).unwrap_err().to_string();
        assert!(refusal.contains(reason) && refusal.contains("the number of parameters instead"), "{refusal}");
    }
}
