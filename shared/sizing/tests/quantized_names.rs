//! Names of weights that keep 16 bits, compared as the library of each method does, and formats that no file can have.
#![expect(clippy::unwrap_used, reason = "a test that fails may say so by panicking")]

use sizing::{ModelArchitecture, PublishedFormat, read_hf_config};

const Q: u64 = 4_096 * 4_096;
const UP: u64 = 4_096 * 11_008;
const LAYER: u64 = 4 * Q + 3 * UP;

fn file(model_type: &str, quantization_config: &str) -> ModelArchitecture {
    read_hf_config(&format!(
        r#"{{"model_type": "{model_type}", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "intermediate_size": 11008, "vocab_size": 32000, "quantization_config": {quantization_config}}}"#
    ))
    .unwrap()
}

fn bytes(model: &ModelArchitecture) -> u64 {
    let PublishedFormat::Quantized(weights) = &model.published else { unreachable!("{:?}", model.published) };
    weights.bytes
}

/// Every method in 8 bits without constants: a parameter that is kept takes a byte more.
fn kept(model_type: &str, method: &str, names: &str) -> u64 {
    let of = |names: &str| {
        bytes(&file(
            model_type,
            &match method {
                "awq" => format!(
                    r#"{{"quant_method": "awq", "bits": 8, "group_size": -1, "modules_to_not_convert": [{names}]}}"#
                ),
                "compressed-tensors" => format!(
                    r#"{{"quant_method": "{method}", "config_groups": {{"FP8": ["Linear"]}}, "ignore": [{names}]}}"#
                ),
                "modelopt" => {
                    format!(r#"{{"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": [{names}]}}"#)
                }
                _ => format!(r#"{{"quant_method": "{method}", "modules_to_not_convert": [{names}]}}"#),
            },
        ))
    };
    of(names) - of("")
}

#[test]
fn each_library_compares_names_in_its_own_way() {
    for (method, names, expect) in [
        // Parts between points, whatever stands at the ends, and the end of a name.
        ("fp8", r#""model.layers.1""#, LAYER),
        ("fp8", r#""model.layers.1.""#, LAYER),
        ("fp8", r#""mlp.gate""#, 0),
        ("fp8", r#""model.layers.2.self_attn", "model.layers.2.self_attn.q_proj""#, 4 * Q),
        ("fp8", r#""down_proj""#, 32 * UP),
        ("fp8", r#"".mlp.down_proj""#, 32 * UP),
        // A text anywhere in a name: a number is also the beginning of a longer one.
        ("awq", r#""model.layers.1""#, 11 * LAYER),
        ("awq", r#""model.layers.1.""#, LAYER),
        ("awq", r#""up_pro""#, 32 * UP),
        ("awq", r#""mlp.gate.""#, 0),
        ("awq", r#""gate""#, 32 * UP),
        // Whole names.
        ("compressed-tensors", r#""model.layers.1.self_attn""#, 0),
        ("compressed-tensors", r#""model.layers.1.self_attn.q_proj""#, Q),
        ("compressed-tensors", r#""re:.*layers\\.1\\.self_attn""#, 4 * Q),
        ("modelopt", r#""model.layers.1*""#, 11 * LAYER),
        ("modelopt", r#""model.layers.1.*.""#, LAYER),
        ("modelopt", r#""*self_attn.""#, 32 * 4 * Q),
        // Layers of a part that predicts several tokens are no layers of the decoder.
        ("fp8", r#""mtp.layers.0""#, 0),
    ] {
        assert_eq!(kept("llama", method, names), expect, "{method} {names}");
    }
}

#[test]
fn each_family_has_its_own_names() {
    for (model_type, names, expect) in [
        ("gpt2", r#""transformer.h.3.attn.c_attn""#, 3 * Q),
        ("gpt2", r#""c_proj""#, 32 * (Q + UP)),
        ("internlm2", r#""feed_forward.w2""#, 32 * UP),
        ("internlm2", r#""attention.wqkv""#, 32 * 3 * Q),
        ("exaone", r#""transformer.h.0.mlp.c_fc_1", "attn.attention.out_proj""#, UP + 32 * Q),
        ("baichuan", r#""model.layers.0.self_attn.W_pack""#, 3 * Q),
        ("opt", r#""model.decoder.layers.0.fc1""#, UP),
        ("mpt", r#""transformer.blocks.0.ffn.up_proj""#, UP),
        ("phi3", r#""self_attn.qkv_proj", "model.layers.0.mlp.gate_up_proj""#, 32 * 3 * Q + 2 * UP),
        // A Llama has no such names.
        ("llama", r#""c_attn", "self_attn.dense", "feed_forward.w2""#, 0),
    ] {
        assert_eq!(kept(model_type, "fp8", names), expect, "{model_type} {names}");
    }
}

/// The format of Qwen2.5-Omni stands outside of the part that understands.
#[test]
fn the_format_of_a_whole_model_is_that_of_its_part() {
    let text = r#"{"model_type": "qwen2_5_omni_text", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064}"#;
    let omni = format!(
        r#"{{"model_type": "qwen2_5_omni", "quantization_config": {{"quant_method": "fp8"}}, "talker_config": {{"hidden_size": 896}},
            "thinker_config": {{"model_type": "qwen2_5_omni_thinker", "text_config": {text}}}}}"#
    );
    let model = read_hf_config(&omni).unwrap();
    assert!(bytes(&model) < model.parameters().total * 3 / 2, "{:?}", model.published);
    assert!(model.notes.iter().any(|note| note == "the part that speaks is not counted"), "{:?}", model.notes);
}

#[test]
fn a_format_of_another_kind_is_refused_with_its_key() {
    for (config, reason) in [
        (r#""fp8""#, "it is no object with a method and its settings"),
        (r#"["fp8"]"#, "it is no object with a method and its settings"),
        (r#"{"quant_method": "fp8", "ignored_layers": {"a": 1}}"#, "ignored_layers is no list of names"),
        (r#"{"quant_method": "fp8", "ignored_layers": [1]}"#, "ignored_layers is no list of names"),
    ] {
        let expect = format!(
            "quantization_config: {reason}; name the format in which the weights are used as the precision, such as int4"
        );
        assert_eq!(file("llama", config).published, PublishedFormat::Unknown(expect), "{config}");
    }
    assert!(matches!(file("llama", "null").published, PublishedFormat::Plain(None)));
    let notes = |algorithm: &str| {
        file(
            "llama",
            &format!(r#"{{"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": {algorithm}}}"#),
        )
        .notes
        .len()
    };
    assert_eq!([notes(r#""""#), notes("null"), notes(r#""FP8""#)], [0, 0, 1]);
}

/// Work grows with the length of patterns times their number, and is refused before it is done.
#[test]
fn hostile_lists_take_no_time() {
    let refused = |config: &str| matches!(file("llama", config).published, PublishedFormat::Unknown(_));
    let list = |count: usize, name: &dyn Fn(usize) -> String| {
        (0..count).map(|number| format!("\"{}\"", name(number))).collect::<Vec<_>>().join(",")
    };
    let fp8 = |names: &str| format!(r#"{{"quant_method": "fp8", "ignored_layers": [{names}]}}"#);
    let started = std::time::Instant::now();
    assert!(refused(&fp8(&format!("\"{}\"", "a.".repeat(100_000)))));
    assert!(refused(&fp8(&list(101, &|number| format!("*{number}*")))));
    assert!(refused(&fp8(&list(90, &|number| format!("re:{number}{}", "(a|b)*".repeat(100))))));
    assert!(refused(&fp8("\"re:((a{100}){100}){100}\"")));
    assert!(!refused(&fp8(&list(40_000, &|number| format!("model.layers.{number}.b.c")))));
    let overrides = (0..101).map(|number| format!(r#""{number}": {{"bits": 8}}"#)).collect::<Vec<_>>().join(",");
    assert!(refused(&format!(r#"{{"quant_method": "gptq", "bits": 4, "dynamic": {{{overrides}}}}}"#)));
    let groups = (0..101).map(|number| format!(r#""{number}": {{"targets": []}}"#)).collect::<Vec<_>>().join(",");
    assert!(refused(&format!(r#"{{"quant_method": "compressed-tensors", "config_groups": {{{groups}}}}}"#)));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
