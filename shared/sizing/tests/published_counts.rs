//! Parameters counted from configuration files, beside the counts that are published.

use sizing::read_hf_config;

fn check(config: &str, expect: u64) {
    assert_eq!(read_hf_config(config).map(|architecture| architecture.parameters().total), Ok(expect), "{config}");
}

/// A file of the usual keys: layers, hidden size, heads, key-value heads, intermediate size, vocabulary.
fn usual(
    model_type: &str,
    [layers, hidden, heads, kv_heads, intermediate, vocabulary]: [u32; 6],
    more: &str,
) -> String {
    format!(
        r#"{{"model_type": "{model_type}", "num_hidden_layers": {layers}, "hidden_size": {hidden},
            "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "intermediate_size": {intermediate},
            "vocab_size": {vocabulary}{more}}}"#
    )
}

#[test]
fn llama_and_mistral() {
    check(&usual("llama", [32, 4_096, 32, 32, 11_008, 32_000], ""), 6_738_415_616);
    check(&usual("llama", [40, 5_120, 40, 40, 13_824, 32_000], ""), 13_015_864_320);
    check(&usual("llama", [80, 8_192, 64, 8, 28_672, 32_000], ""), 68_976_648_192);
    check(&usual("llama", [32, 4_096, 32, 8, 14_336, 128_256], ""), 8_030_261_248);
    check(&usual("llama", [80, 8_192, 64, 8, 28_672, 128_256], ""), 70_553_706_496);
    check(&usual("llama", [126, 16_384, 128, 8, 53_248, 128_256], ""), 405_853_388_800);
    check(&usual("llama", [16, 2_048, 32, 8, 8_192, 128_256], r#", "tie_word_embeddings": true"#), 1_235_814_400);
    check(&usual("llama", [22, 2_048, 32, 4, 5_632, 32_000], ""), 1_100_048_384);
    check(&usual("mistral", [32, 4_096, 32, 8, 14_336, 32_000], ""), 7_241_732_096);
    check(&usual("phi3", [32, 3_072, 32, 32, 8_192, 32_064], ""), 3_821_079_552);
}

#[test]
fn qwen() {
    check(&usual("qwen2", [28, 3_584, 28, 4, 18_944, 152_064], ""), 7_615_616_512);
    check(&usual("qwen2", [24, 896, 14, 2, 4_864, 151_936], r#", "tie_word_embeddings": true"#), 494_032_768);
    check(&usual("qwen3", [36, 4_096, 32, 8, 12_288, 151_936], r#", "head_dim": 128"#), 8_190_735_360);
}

#[test]
fn experts() {
    let mixtral = r#", "num_local_experts": 8, "num_experts_per_tok": 2"#;
    check(&usual("mixtral", [32, 4_096, 32, 8, 14_336, 32_000], mixtral), 46_702_792_704);
    let qwen3 = r#", "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768"#;
    check(&usual("qwen3_moe", [48, 2_048, 32, 4, 6_144, 151_936], qwen3), 30_532_122_624);
    let qwen2 = r#", "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632"#;
    check(&usual("qwen2_moe", [24, 2_048, 16, 16, 5_632, 151_936], qwen2), 14_315_784_192);
    let deepseek = r#", "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408, "first_k_dense_replace": 1"#;
    check(&usual("deepseek_v2", [27, 2_048, 16, 16, 10_944, 102_400], deepseek), 15_706_484_224);
    let deepseek = r#", "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3"#;
    // Without the 14,848 correction biases of its routers, which are no parameters, and its layer for two tokens at once.
    check(&usual("deepseek_v3", [61, 7_168, 128, 128, 18_432, 129_280], deepseek), 671_026_404_352);
}

#[test]
fn gemma() {
    check(&usual("gemma", [28, 3_072, 16, 16, 24_576, 256_000], r#", "head_dim": 256"#), 8_537_680_896);
    check(&usual("gemma2", [42, 3_584, 16, 8, 14_336, 256_000], r#", "head_dim": 256"#), 9_241_705_984);
    check(&usual("gemma3_text", [26, 1_152, 4, 1, 6_912, 262_144], r#", "head_dim": 256"#), 999_885_952);
}

#[test]
fn gpt() {
    check(
        r#"{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}"#,
        124_439_808,
    );
    check(&usual("gpt_neox", [32, 4_096, 32, 32, 16_384, 50_432], ""), 6_857_302_016);
    check(&usual("phi", [32, 2_560, 32, 32, 10_240, 51_200], ""), 2_779_683_840);
    check(
        r#"{"model_type": "opt", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "ffn_dim": 3072,
            "max_position_embeddings": 2048, "vocab_size": 50272, "word_embed_proj_dim": 768}"#,
        125_239_296,
    );
    check(
        r#"{"model_type": "bloom", "n_layer": 30, "hidden_size": 4096, "n_head": 32, "vocab_size": 250880}"#,
        7_069_016_064,
    );
    check(
        r#"{"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "vocab_size": 65024,
            "multi_query": true, "parallel_attn": true, "bias": false, "new_decoder_architecture": false}"#,
        6_921_720_704,
    );
    check(
        r#"{"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16, "n_positions": 2048, "vocab_size": 50400}"#,
        6_050_882_784,
    );
}

#[test]
fn bert() {
    let positions = r#", "max_position_embeddings": 512, "type_vocab_size": 2"#;
    check(&usual("bert", [12, 768, 12, 12, 3_072, 30_522], positions), 109_482_240);
    let positions = r#", "max_position_embeddings": 514, "type_vocab_size": 1"#;
    check(&usual("roberta", [12, 768, 12, 12, 3_072, 50_265], positions), 124_645_632);
}

/// Compares with a count by Transformers 5.24.0, which built the class of the configuration without weights. What is left out here are single
/// biases, norms of heads and correction terms of routers.
fn near(config: &str, expect: u64) {
    let total = read_hf_config(config).map(|architecture| architecture.parameters().total);
    let is_near = total.as_ref().is_ok_and(|total| total.abs_diff(expect) < expect / 10_000);
    assert!(is_near, "{config}: {total:?}, not {expect}");
}

#[test]
fn counts_of_transformers() {
    // Phi-4, Falcon 40B, and BERT large, whose page counts its two heads besides.
    near(&usual("phi3", [40, 5_120, 40, 10, 17_920, 100_352], ""), 14_659_507_200);
    near(
        r#"{"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
            "vocab_size": 65024, "new_decoder_architecture": true, "parallel_attn": true, "bias": false}"#,
        41_303_293_952,
    );
    let positions = r#", "max_position_embeddings": 512, "type_vocab_size": 2"#;
    near(&usual("bert", [24, 1_024, 16, 16, 4_096, 30_522], positions), 335_141_888);
    near(&usual("jina_embeddings_v3", [24, 1_024, 16, 16, 4_096, 250_002], r#", "type_vocab_size": 1"#), 559_364_096);
    // Input and output share a matrix unless the file says otherwise: ERNIE-4.5-21B-A3B.
    let ernie = r#", "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1, "moe_layer_interval": 1"#;
    near(&usual("ernie4_5_moe", [28, 2_560, 20, 4, 12_288, 103_424], ernie), 21_825_437_888);
    // GLM-4.7-Flash, as Transformers 5 writes which layers have experts.
    let kinds = vec![r#""sparse""#; 46].join(", ");
    let flash = format!(
        r#", "moe_intermediate_size": 1536, "n_routed_experts": 64, "n_shared_experts": 1, "num_experts_per_tok": 4, "q_lora_rank": 768,
        "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "mlp_layer_types": ["dense", {kinds}]"#
    );
    near(&usual("glm4_moe_lite", [47, 2_048, 20, 20, 10_240, 154_880], &flash), 29_943_390_976);
}

/// GLM-4.1V-9B-Thinking, GLM-4.5V, PaddleOCR-VL with the defaults of its type, Voxtral-Mini-3B and Qwen2-Audio-7B.
#[test]
fn encoders_of_images_and_sound() {
    let glm = |of_text: &str, intermediate: u32| {
        format!(
            r#"{{"model_type": "glm4v", "tie_word_embeddings": false, "text_config": {of_text},
            "vision_config": {{"hidden_size": 1536, "depth": 24, "num_heads": 12, "intermediate_size": {intermediate}, "image_size": 336,
            "patch_size": 14, "out_hidden_size": 4096, "spatial_merge_size": 2, "temporal_patch_size": 2}}}}"#
        )
    };
    near(&glm(&usual("glm4v_text", [40, 4_096, 32, 2, 13_696, 151_552], ""), 13_696), 10_292_777_472);
    let experts = r#", "head_dim": 128, "attention_bias": true, "first_k_dense_replace": 1, "moe_intermediate_size": 1408,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8"#;
    let text = usual("glm4v_moe_text", [46, 4_096, 96, 8, 10_944, 151_552], experts);
    near(&glm(&text, 10_944), 107_710_927_360);
    let vision = r#", "head_dim": 128, "vision_config": {"model_type": "paddleocr_vl", "hidden_size": 1152, "intermediate_size": 4304,
        "num_hidden_layers": 27, "image_size": 384, "patch_size": 14, "spatial_merge_size": 2}"#;
    near(&usual("paddleocr_vl", [18, 1_024, 16, 2, 3_072, 103_424], vision), 799_695_472);
    let sound = r#""num_mel_bins": 128, "max_source_positions": 1500"#;
    let text = usual("llama", [30, 3_072, 32, 8, 8_192, 131_072], r#", "head_dim": 128"#);
    let audio =
        r#""model_type": "voxtral_encoder", "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32"#;
    near(
        &format!(r#"{{"model_type": "voxtral", "text_config": {text}, "audio_config": {{{audio}, {sound}}}}}"#),
        4_676_271_104,
    );
    let text = usual("qwen2", [32, 4_096, 32, 32, 11_008, 156_032], "");
    let audio =
        r#""model_type": "qwen2_audio_encoder", "d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120"#;
    near(
        &format!(r#"{{"model_type": "qwen2_audio", "text_config": {text}, "audio_config": {{{audio}, {sound}}}}}"#),
        8_397_094_912,
    );
}

/// The part for text of CSM is a Llama, beside a second decoder and a codec; Granite Speech has its encoder under a name of its own.
#[test]
fn parts_that_are_not_counted_are_named() {
    let notes = |more: &str| {
        let config = usual("llama", [16, 2_048, 32, 8, 8_192, 128_256], more);
        read_hf_config(&config).map(|architecture| architecture.notes)
    };
    assert_eq!(
        notes(
            r#", "depth_decoder_config": {"hidden_size": 1024}, "codec_config": {"hidden_size": 512}, "empty_config": {}"#
        ),
        Ok(vec!["not counted, because what it has is not known: codec_config, depth_decoder_config".to_owned()])
    );
    let many: Vec<String> = (0..8).map(|number| format!(r#", "part{number}_config": {{"hidden_size": 1}}"#)).collect();
    let found = notes(&many.join(""));
    assert!(
        found.as_ref().is_ok_and(|notes| notes.len() == 1 && notes[0].ends_with("part4_config, 3 more")),
        "{found:?}"
    );
    assert_eq!(
        notes(r#", "quantization_config": {"quant_method": "fp8"}, "generation_config": {"top_k": 1}"#),
        Ok(vec![])
    );
}
