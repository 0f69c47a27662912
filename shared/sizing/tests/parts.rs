//! What is read, what is refused, and what the parts are.

use sizing::{
    HfConfigError, Parallelism, Precision, Strategy, Task, TaskSetting, Workload, estimate, fit, read_hf_config,
    read_params, read_tokens, remedies, smallest_parallelism,
};

fn config(more: &str) -> String {
    format!(
        r#"{{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "intermediate_size": 11008, "vocab_size": 32000{more}}}"#
    )
}

/// GPT-3 with 175 billion parameters: Korthikanti et al. 2022, section 4.1, with the constants of its equation 2.
#[test]
fn a_block_of_gpt_with_dropout_keeps_34_bytes_and_5_of_the_scores() {
    let model = |layers: u32| {
        read_hf_config(&format!(
            "{{\"model_type\": \"gpt2\", \"n_layer\": {layers}, \"n_embd\": 12288, \"n_head\": 96, \"n_positions\": 2048, \
             \"vocab_size\": 50257}}"
        ))
        .unwrap()
    };
    let workload = Workload { batch: 1, tokens: 2_048, ..Workload::new(Task::Full, Precision::Fp16) };
    let kept = |flash_attention, gpus| {
        let parallelism = Parallelism::new(Strategy::Tensor, gpus);
        let of = |layers| {
            let workload = Workload { flash_attention, ..workload };
            estimate(&model(layers), &workload, parallelism).unwrap().activations.bytes
        };
        of(2) - of(1)
    };
    let (tokens, hidden, heads) = (2_048, 12_288, 96);
    assert_eq!(kept(true, 1), 34 * tokens * hidden);
    assert_eq!(kept(false, 1), tokens * (34 * hidden + 5 * heads * tokens));
    // Equation 2: 10 + 24 / t + 5as / ht.
    assert_eq!(kept(false, 8), tokens * (10 * hidden + 24 * hidden / 8 + 5 * heads * tokens / 8));
}

#[test]
fn numbers_of_parameters_and_tokens() {
    let params = |text| read_params(text).map(|model| model.parameters().total).ok();
    for (text, expect) in
        [("7b", 7_000_000_000), ("1.5B", 1_500_000_000), ("350m", 350_000_000), ("8030261248", 8_030_261_248)]
    {
        assert_eq!(params(text), Some(expect), "{text}");
    }
    for text in
        ["", "b", "7 b", "-7b", "7.b", ".5b", "7bb", "0", "999k", "11t", "1.2345b", "99999999999999999999b", "７b"]
    {
        assert_eq!(params(text), None, "{text}");
    }
    assert_eq!(
        (read_tokens("8k").ok(), read_tokens("4096").ok(), read_tokens("1m").ok()),
        (Some(8_192), Some(4_096), Some(1 << 20))
    );
    for text in ["0", "", "17m", "8kb", "1.0001k"] {
        assert!(read_tokens(text).is_err(), "{text}");
    }
}

#[test]
fn a_file_that_describes_no_model_is_refused_with_what_it_lacks() {
    let refusal = |text: &str| read_hf_config(text).unwrap_err().to_string();
    assert_eq!(
        refusal(
            r#"{"model_type": "tomorrow", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280, "hidden_act": "silu"}"#
        ),
        "the model type \"tomorrow\" lacks num_attention_heads, intermediate_size; write them, or give the number of parameters instead"
    );
    assert!(
        refusal(r#"{"model_type": "llama"}"#)
            .contains("num_hidden_layers, hidden_size, num_attention_heads, vocab_size, intermediate_size")
    );
    let broken = |text: &str| {
        refusal(text)
            .replace("it is no JSON object: ", "")
            .replace("; take the file as the repository of the model has it", "")
    };
    assert_eq!(broken("[]"), "it has to begin with `{`");
    assert_eq!(broken("{\"a\": "), "it ends at line 1, column 6, before it is complete");
    assert_eq!(broken("{\n  \"a\": x}"), "line 2, column 8 is no JSON");
    assert!(refusal(&"[".repeat(100_000)).starts_with("it is no JSON object"));
    assert!(refusal(&config(r#", "head_dim": -1"#)).starts_with("head_dim: -1 is not a number"));
    assert!(refusal(&config(r#", "head_dim": 0"#)).contains("head_dim: 0 is out of range"));
    assert!(refusal(&config(r#", "num_key_value_heads": 64"#)).contains("1 to 32 are possible"));
    assert!(refusal(&config(r#", "num_local_experts": 16"#)).contains("how experts are laid out"));
    for (key, expect) in [
        (
            r#""tie_word_embeddings": "yes""#,
            "tie_word_embeddings: \"yes\" is neither true nor false; correct it, or leave it out",
        ),
        (r#""hidden_act": 5"#, "hidden_act: 5 is no text; correct it, or leave it out"),
        (r#""layer_types": {}"#, "layer_types: {} is no list; correct it, or leave it out"),
        (r#""text_config": []"#, "text_config: [] is no object with keys; correct it, or leave it out"),
        (r#""vision_config": 1"#, "vision_config: 1 is no object with keys; correct it, or leave it out"),
        (
            r#""max_position_embeddings": 0"#,
            "max_position_embeddings: 0 is out of range; write the longest context of the model, or leave it out",
        ),
    ] {
        assert_eq!(refusal(&config(&format!(", {key}"))), expect);
    }
    let huge = r#"{"model_type": "llama", "num_hidden_layers": 4294967295, "hidden_size": 4294967295, "num_attention_heads": 1,
        "intermediate_size": 1, "vocab_size": 1}"#;
    assert!(refusal(huge).contains("out of range"));
    assert!(
        refusal(&config(r#", "num_experts": 8, "num_experts_per_tok": 2"#))
            .contains("how experts are laid out in the model type \"llama\"")
    );
    let named = read_hf_config(&config(r#", "hidden_act": "silu""#).replace("\"llama\"", "\"a\\n\u{202e}b\""))
        .map(|model| model.name);
    assert_eq!(named.as_deref(), Ok("a  b"));
    let long = format!("{}{}", config(""), " ".repeat(1 << 20));
    assert!(matches!(read_hf_config(&long), Err(HfConfigError::TooLarge)));
}

/// Whatever keys of a Llama they have besides.
#[test]
fn a_model_with_other_layers_than_a_transformer_is_refused() {
    let check = |config: String, what: &str| {
        let refusal = read_hf_config(&config).unwrap_err().to_string();
        assert!(refusal.contains(&format!(" has {what}, which are not sized; ")), "{refusal}");
    };
    let named = |model_type: &str| config("").replace("llama", model_type);
    for model_type in ["t5", "whisper"] {
        check(named(model_type), "an encoder and a decoder");
    }
    check(config(r#", "is_encoder_decoder": true"#), "an encoder and a decoder");
    check(named("tomorrow").replace("32000", r#"32000, "decoder_layers": 6"#), "an encoder and a decoder");
    for model_type in ["mamba", "jamba"] {
        check(named(model_type), "recurrent or state-space layers");
    }
    check(named("tomorrow").replace("32000", r#"32000, "ssm_state_size": 128"#), "recurrent or state-space layers");
    check(config(r#", "layer_types": ["full_attention", "linear_attention"]"#), "recurrent or state-space layers");
    assert!(read_hf_config(&config(r#", "is_encoder_decoder": false, "layer_types": ["full_attention"]"#)).is_ok());
}

/// A Molmo counts both halves of its gated MLP as one size, and a `CogVLM` has a second set of matrices for images.
#[test]
fn an_unknown_type_of_another_shape_is_refused() {
    for key in [r#""weight_tying": true"#, r#""layer_norm_type": "rms""#, r#""vision_config": {"image_size": 490}"#] {
        let refusal =
            read_hf_config(&config(&format!(", {key}")).replace("llama", "tomorrow")).unwrap_err().to_string();
        assert!(refusal.contains("so it is not sized; the number of parameters instead"), "{refusal}");
    }
}

/// `MiniCPM-2B` has 2.72 billion parameters, and one matrix of its vocabulary.
#[test]
fn what_a_configuration_leaves_out_is_the_default_of_its_type() {
    let minicpm = r#"{"model_type": "minicpm", "num_hidden_layers": 40, "hidden_size": 2304, "num_attention_heads": 36,
        "num_key_value_heads": 36, "intermediate_size": 5760, "vocab_size": 122753, "hidden_act": "silu"}"#;
    let total = |file: &str| read_hf_config(file).unwrap().parameters().total;
    assert_eq!(total(minicpm) / 1_000_000, 2_724);
    let latent = r#"{"model_type": "minicpm3", "num_hidden_layers": 62, "hidden_size": 2560, "num_attention_heads": 40,
        "num_key_value_heads": 40, "intermediate_size": 6400, "vocab_size": 73448, "hidden_act": "silu", "q_lora_rank": 768,
        "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32}"#;
    assert_eq!(total(latent) / 10_000_000, 407);
}

#[test]
fn heads_that_do_not_divide_are_refused_with_their_keys() {
    let check = |heads: &str, expect: Option<&str>| {
        let refusal = read_hf_config(&config("").replace(r#""num_attention_heads": 32,"#, heads)).err();
        assert_eq!(refusal.map(|refusal| refusal.to_string()).as_deref(), expect);
    };
    check(
        r#""n_head": 30,"#,
        Some(
            "hidden_size: 4096 is no multiple of n_head: 30, and no head_dim says how wide a head is; correct one of them, or write head_dim",
        ),
    );
    check(r#""num_attention_heads": 30, "head_dim": 128,"#, None);
    check(
        r#""num_attention_heads": 32, "num_key_value_heads": 6,"#,
        Some(
            "num_attention_heads: 32 is no multiple of num_key_value_heads: 6, and each key-value head serves as many heads as the others; \
             correct one of them",
        ),
    );
    check(
        r#""num_attention_heads": 0,"#,
        Some("num_attention_heads: 0 is out of range; write a number that divides hidden_size: 4096"),
    );
}

#[test]
fn names_are_read_in_capitals_and_settings_belong_to_tasks() {
    assert_eq!(("BF16".parse(), "QLoRA".parse()), (Ok(Precision::Bf16), Ok(Task::Qlora)));
    let refusal =
        |setting: TaskSetting, task| setting.check_used("--lora-rank", task).err().map(|refusal| refusal.to_string());
    assert_eq!(
        refusal(TaskSetting::LoraRank, Task::Full).as_deref(),
        Some("--lora-rank changes nothing in the task full; leave it out, or choose one of the tasks lora, qlora")
    );
    for (setting, tasks) in
        [(TaskSetting::Optimizer, 3), (TaskSetting::GradientCheckpointing, 3), (TaskSetting::LoraTargets, 2)]
    {
        assert_eq!(
            Task::ALL.into_iter().filter(|task| refusal(setting, *task).is_none()).count(),
            tasks,
            "{setting:?}"
        );
    }
}

#[test]
fn an_unknown_type_with_the_usual_keys_is_counted_as_a_llama_and_says_so() {
    let unknown = config(r#", "hidden_act": "silu""#).replace("\"llama\"", "\"tomorrow\"");
    let model = read_hf_config(&unknown).unwrap();
    assert_eq!(model.parameters().total, 6_738_415_616);
    assert_eq!(model.notes, ["the model type \"tomorrow\" is not known; it is counted as a Llama of these sizes"]);
    let unnamed = read_hf_config(&unknown.replace("\"tomorrow\"", "null")).unwrap();
    assert_eq!(unnamed.name, "unnamed");
    assert_eq!(unnamed.notes, ["no model_type is named; it is counted as a Llama of these sizes"]);
    let refusal = read_hf_config(&config("").replace("\"llama\"", "\"tomorrow\"")).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "the model type \"tomorrow\" is not known, and whether its MLP has a gate neither, because it names no activation (`hidden_act`), so it \
         is not sized; the number of parameters instead gives its weights, and besides them what a decoder of text takes"
    );
    // The class says it.
    let classed = config(r#", "architectures": ["LlamaForCausalLM"]"#).replace("\"llama\"", "\"tomorrow\"");
    assert!(read_hf_config(&classed).is_ok());
}

#[test]
fn the_part_for_text_of_a_larger_model_is_read() {
    let nested = format!(
        r#"{{"model_type": "llava", "text_config": {}, "vision_config": {{"hidden_size": 1024}}}}"#,
        config("")
    );
    let model = read_hf_config(&nested).unwrap();
    assert_eq!((model.parameters().total, model.notes.len()), (6_738_415_616, 1));
}

#[test]
fn windows_and_latent_attention_shrink_the_kv_cache() {
    let cache = |text: &str| {
        let workload = Workload { tokens: 32_768, ..Workload::new(Task::Inference, Precision::Bf16) };
        estimate(&read_hf_config(text).unwrap(), &workload, Parallelism::ONE_GPU).unwrap().kv_cache.bytes
    };
    let whole = cache(&config(""));
    assert_eq!(whole, 2 * 32 * 4_096 * 32_768 * 2);
    assert_eq!(cache(&config(r#", "sliding_window": 4096"#)), whole / 8);
    assert_eq!(cache(&config(r#", "sliding_window": 4096, "use_sliding_window": false"#)), whole);
    // Qwen: off unless it is written, and not in the first layers.
    assert_eq!(cache(&config(r#", "sliding_window": 4096, "max_window_layers": 32"#)), whole);
    let qwen =
        |first: u32| format!(r#", "sliding_window": 4096, "use_sliding_window": true, "max_window_layers": {first}"#);
    assert_eq!(cache(&config(&qwen(32))), whole);
    assert_eq!(cache(&config(&qwen(16))), whole / 2 + whole / 16);
    let by_default =
        |more: &str| cache(&config(&format!(r#", "sliding_window": 4096{more}"#)).replace("llama", "qwen3"));
    assert_eq!(by_default(""), whole);
    assert_eq!(by_default(r#", "use_sliding_window": true"#), whole / 32 * 28 + whole / 32 * 4 / 8);
    // What is listed counts, whatever the number of the first ones.
    let listed = vec![r#""sliding_attention""#; 32].join(",");
    assert_eq!(cache(&config(&format!(r#"{}, "layer_types": [{listed}]"#, qwen(32)))), whole / 8);
    let listed =
        format!(r#", "sliding_window": 4096, "layer_types": [{}]"#, vec![r#""sliding_attention""#; 40].join(","));
    assert_eq!(cache(&config(&listed)), whole / 8, "more layers than there are");
    let latent = r#", "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128"#;
    assert_eq!(cache(&config(latent)), 32 * (512 + 64) * 32_768 * 2);
}

#[test]
fn remedies_are_computed_and_fit() {
    let model = read_params("7b").unwrap();
    let gpu = 24 << 30;
    let named = |workload: &Workload| -> Vec<String> {
        let found = remedies(&model, workload, Parallelism::ONE_GPU, gpu);
        assert!(found.iter().all(|remedy| fit(&remedy.estimate, gpu).fits));
        found.iter().map(|remedy| remedy.change.to_string()).collect()
    };
    assert_eq!(
        named(&Workload::new(Task::Inference, Precision::Fp32)),
        ["2 GPUs with tensor parallelism", "precision bf16"]
    );
    assert_eq!(
        named(&Workload::new(Task::Lora, Precision::Bf16)),
        ["gradient checkpointing", "2 GPUs with ZeRO-3 (FSDP)", "the task qlora", "sequences of 1024 tokens"]
    );
    let long = Workload { batch: 16, tokens: 8_192, ..Workload::new(Task::Inference, Precision::Bf16) };
    assert_eq!(
        named(&long),
        ["a batch of 4", "2 GPUs with tensor parallelism", "precision int4", "sequences of 2048 tokens"]
    );
    assert_eq!(named(&Workload::new(Task::Inference, Precision::Bf16)), Vec::<String>::new());
    let full = Workload { gradient_checkpointing: true, ..Workload::new(Task::Full, Precision::Bf16) };
    assert_eq!(smallest_parallelism(&model, &full, 80 << 30, 1), Some(Parallelism::new(Strategy::Zero3, 2)));
    assert_eq!(smallest_parallelism(&model, &full, 1 << 30, 1), None);
}

#[test]
fn every_part_is_explained_with_its_numbers_and_source() {
    let model = read_params("7b").unwrap();
    let text = estimate(&model, &Workload::new(Task::Qlora, Precision::Bf16), Parallelism::ONE_GPU).unwrap().explain();
    insta::assert_snapshot!(text, @r#"
    weights           3.88 GiB  7000000000 parameters in nf4: 6737589760 in linear layers x 4.127 bits, the others x 16 bits, and 41943040 of adapters x 4 bytes
                                LoRA (Hu et al. 2021), section 4.1; adapters in 32 bits as PEFT keeps them
    gradients         0.16 GiB  41943040 parameters x 4 bytes
                                Hugging Face, "Model training anatomy", mixed precision: 18 bytes a parameter in all
    optimizer         0.31 GiB  41943040 parameters: 8 bytes of two moments
                                ZeRO (Rajbhandari et al. 2020), section 3.1
    activations      10.41 GiB  2048 tokens x (167936 bytes x 32 blocks, and 86016 of its gradients)
                                Korthikanti et al. 2022, sections 4 and 5, for each tensor of the block
    logits            0.73 GiB  2048 tokens x 32000 words x 12 bytes of logits, probabilities and gradient
                                Cut Your Losses (Wijmans et al. 2024), table 1
    overhead          1.00 GiB  the CUDA context, kernels and workspaces, whatever the model
                                Hugging Face, "Model training anatomy"
    total            16.50 GiB on each GPU, with one GPU
    Assumed: layers, heads and vocabulary are those of Mistral 7B; a config.json of the model says its own
    Assumed: the model is a decoder of text, and each token passes through all parameters; of a mixture of experts say how many are active (`active`)
    Assumed: measured runs took up to a fifth more than such an estimate, by fragmentation and buffers for communication
    "#);
}
