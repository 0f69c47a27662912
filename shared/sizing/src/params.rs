//! A model of which only the number of parameters is known, and numbers with units.

use model::fault::{InvalidValue, shortened};

use crate::architecture::{ArchitectureBasis, Attention, Embeddings, Mlp, ModelArchitecture, Norms};
use crate::workload::TOKENS_MAX;

/// Limits of the number of parameters: one million, below which no table has the shape of a model, and ten trillion.
const PARAMETERS_MIN: u64 = 1_000_000;
const PARAMETERS_MAX: u64 = 10_000_000_000_000;

/// Shapes of published decoders, by size.
struct KnownShape {
    name: &'static str,
    parameters: u64,
    layers: u32,
    hidden: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    intermediate: u32,
    vocabulary: u32,
    is_tied: bool,
}

/// Their `config.json`. Each has a gated MLP, `RMSNorm` and no biases worth mentioning.
const KNOWN_SHAPES: [KnownShape; 12] = [
    shape("SmolLM2 135M", 134_515_008, [30, 576, 9, 3, 64, 1_536, 49_152], true),
    shape("Qwen2.5 0.5B", 494_032_768, [24, 896, 14, 2, 64, 4_864, 151_936], true),
    shape("Llama 3.2 1B", 1_235_814_400, [16, 2_048, 32, 8, 64, 8_192, 128_256], true),
    shape("Llama 3.2 3B", 3_212_749_824, [28, 3_072, 24, 8, 128, 8_192, 128_256], true),
    shape("Mistral 7B", 7_241_732_096, [32, 4_096, 32, 8, 128, 14_336, 32_000], false),
    shape("Llama 3 8B", 8_030_261_248, [32, 4_096, 32, 8, 128, 14_336, 128_256], false),
    shape("Mistral Nemo 12B", 12_247_782_400, [40, 5_120, 32, 8, 128, 14_336, 131_072], false),
    shape("Qwen2.5 14B", 14_770_033_664, [48, 5_120, 40, 8, 128, 13_824, 152_064], false),
    shape("Qwen2.5 32B", 32_763_876_352, [64, 5_120, 40, 8, 128, 27_648, 152_064], false),
    shape("Llama 2 70B", 68_976_648_192, [80, 8_192, 64, 8, 128, 28_672, 32_000], false),
    shape("Mistral Large 123B", 122_610_069_504, [88, 12_288, 96, 8, 128, 28_672, 32_768], false),
    shape("Llama 3.1 405B", 405_853_388_800, [126, 16_384, 128, 8, 128, 53_248, 128_256], false),
];

const fn shape(name: &'static str, parameters: u64, numbers: [u32; 7], is_tied: bool) -> KnownShape {
    let [layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary] = numbers;
    KnownShape { name, parameters, layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary, is_tied }
}

/// A model of so many parameters: `7b`, `350m`, `1.1b`, `1t`, or all digits. Its shape is assumed to be that of the published decoder whose
/// size is nearest.
///
/// # Errors
/// Anything else, and a size that no model has.
pub fn read_params(text: &str) -> Result<ModelArchitecture, InvalidValue> {
    let parameters = read_count(text, [('k', 1_000), ('m', 1_000_000), ('b', 1_000_000_000), ('t', 1_000_000_000_000)])
        .filter(|parameters| (PARAMETERS_MIN..=PARAMETERS_MAX).contains(parameters))
        .ok_or_else(|| {
            InvalidValue::new(format!(
                "{:?} is not a number of parameters; write one such as `7b`, `1.5b` or `350m`, from 1m to 10t, with at most three digits after the point",
                shortened(text, 40)
            ))
        })?;
    Ok(assume_architecture(text, parameters))
}

/// A number of tokens: `4096`, `8k` (8,192, as models count their context), `1m`.
///
/// # Errors
/// Anything else, none, and more than [`TOKENS_MAX`].
pub fn read_tokens(text: &str) -> Result<u32, InvalidValue> {
    read_count(text, [('k', 1_024), ('m', 1_048_576)])
        .and_then(|tokens| u32::try_from(tokens).ok())
        .filter(|tokens| (1..=TOKENS_MAX).contains(tokens))
        .ok_or_else(|| {
            InvalidValue::new(format!(
                "{:?} is not a number of tokens; write one such as `4096` or `8k`, from 1 to 16m",
                shortened(text, 40)
            ))
        })
}

/// Digits, with at most three after a point, and a unit.
fn read_count<const N: usize>(text: &str, units: [(char, u64); N]) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit))).unwrap_or((text.as_str(), 1));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 3 || digits.ends_with('.') {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let part = unit.checked_mul(thousandths)?;
    if part % 1_000 > 0 { None } else { whole.checked_add(part / 1_000) }
}

fn assume_architecture(name: &str, parameters: u64) -> ModelArchitecture {
    let distance = |shape: &&KnownShape| {
        let (less, more) = (shape.parameters.min(parameters), shape.parameters.max(parameters));
        u128::from(more) * 1_000_000 / u128::from(less)
    };
    let [first, rest @ ..] = &KNOWN_SHAPES;
    let nearest =
        rest.iter().fold(first, |nearest, shape| if distance(&shape) < distance(&nearest) { shape } else { nearest });
    ModelArchitecture {
        name: name.to_owned(),
        basis: ArchitectureBasis::Assumed { parameters, like: nearest.name },
        layers: nearest.layers,
        hidden: nearest.hidden,
        attention: Attention {
            heads: nearest.heads,
            kv_heads: nearest.kv_heads,
            head_dim: nearest.head_dim,
            latent: None,
            has_qkv_bias: false,
            has_out_bias: false,
            qk_norm_parameters: 0,
        },
        mlp: Mlp { intermediate: nearest.intermediate, is_gated: true, has_bias: false },
        experts: None,
        embeddings: Embeddings {
            vocabulary: nearest.vocabulary,
            positions: 0,
            token_types: 0,
            is_tied: nearest.is_tied,
            has_head_bias: false,
            has_pooler: false,
        },
        norms: Norms { per_layer: 2, outside: 1, has_bias: false },
        window: None,
        has_dropout: false,
        is_encoder: false,
        context_max: None,
        notes: Vec::new(),
    }
}
