//! A model of which only the number of parameters is known, and numbers with units.

use model::fault::{InvalidValue, shortened};

use crate::architecture::{
    ArchitectureBasis, Attention, Embeddings, Experts, LatentAttention, Mlp, ModelArchitecture, Norms, PublishedFormat,
};
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

/// A mixture of experts: its shape, and count, active ones, width, width of the shared ones, and layers without experts.
struct KnownMixture {
    shape: KnownShape,
    experts: [u32; 5],
    has_latent_attention: bool,
}

/// The `config.json` of published mixtures of experts. DeepSeek-V3 and Kimi K2 share the numbers of their latent attention.
const KNOWN_MIXTURES: [KnownMixture; 8] = [
    mixture(
        shape("gpt-oss-20b", 20_914_757_184, [24, 2_880, 64, 8, 64, 2_880, 201_088], false),
        [32, 4, 2_880, 0, 0],
        false,
    ),
    mixture(
        shape("Qwen3-30B-A3B", 30_532_122_624, [48, 2_048, 32, 4, 128, 6_144, 151_936], false),
        [128, 8, 768, 0, 0],
        false,
    ),
    mixture(
        shape("Mixtral 8x7B", 46_702_792_704, [32, 4_096, 32, 8, 128, 14_336, 32_000], false),
        [8, 2, 14_336, 0, 0],
        false,
    ),
    mixture(
        shape("GLM-4.5-Air", 106_852_245_504, [46, 4_096, 96, 8, 128, 10_944, 151_552], false),
        [128, 8, 1_408, 1_408, 1],
        false,
    ),
    mixture(
        shape("Qwen3-235B-A22B", 235_093_634_560, [94, 4_096, 64, 4, 128, 12_288, 151_936], false),
        [128, 8, 1_536, 0, 0],
        false,
    ),
    mixture(
        shape("GLM-4.5", 352_797_829_120, [92, 5_120, 96, 8, 128, 12_288, 151_552], false),
        [160, 8, 1_536, 1_536, 3],
        false,
    ),
    mixture(
        shape("DeepSeek-V3", 671_026_404_352, [61, 7_168, 128, 128, 192, 18_432, 129_280], false),
        [256, 8, 2_048, 2_048, 3],
        true,
    ),
    mixture(
        shape("Kimi K2", 1_026_408_207_360, [61, 7_168, 64, 64, 192, 18_432, 163_840], false),
        [384, 8, 2_048, 2_048, 1],
        true,
    ),
];

const fn mixture(shape: KnownShape, experts: [u32; 5], has_latent_attention: bool) -> KnownMixture {
    KnownMixture { shape, experts, has_latent_attention }
}

/// A model of so many parameters: `7b`, `350m`, `1.1b`, `1t`, or all digits. Its shape is assumed to be that of the published decoder whose
/// size is nearest.
///
/// # Errors
/// Anything else, and a size that no model has.
pub fn read_params(text: &str) -> Result<ModelArchitecture, InvalidValue> {
    let parameters = read_parameters(text)?;
    let shape = nearest(KNOWN_SHAPES.iter(), parameters);
    Ok(shape.architecture(text, parameters, None))
}

/// A mixture of experts of so many parameters, of which a token passes through `active`. Its shape is assumed to be that of the published
/// mixture whose size is nearest.
///
/// # Errors
/// The errors of [`read_params`], and more active parameters than there are.
pub fn read_mixture(text: &str, active: &str) -> Result<ModelArchitecture, InvalidValue> {
    let (parameters, active_parameters) = (read_parameters(text)?, read_parameters(active)?);
    if active_parameters >= parameters {
        return Err(InvalidValue::new(format!(
            "of {text} parameters {active} cannot be those that a token passes through; write fewer, or leave them out if it passes through all"
        )));
    }
    let shape = nearest(KNOWN_MIXTURES.iter().map(|mixture| &mixture.shape), parameters);
    let mut architecture = shape.architecture(&format!("{text}-a{active}"), parameters, Some(active_parameters));
    if let Some(mixture) = KNOWN_MIXTURES.iter().find(|mixture| mixture.shape.name == shape.name) {
        let [count, active, intermediate, shared_intermediate, dense_layers] = mixture.experts;
        architecture.experts =
            Some(Experts { count, active, intermediate, shared_intermediate, has_shared_gate: false, dense_layers });
        architecture.attention.latent = mixture.has_latent_attention.then_some(LatentAttention {
            q_rank: Some(1_536),
            kv_rank: 512,
            rope_dim: 64,
            value_dim: 128,
        });
    }
    Ok(architecture)
}

fn read_parameters(text: &str) -> Result<u64, InvalidValue> {
    read_count(text, [('k', 1_000), ('m', 1_000_000), ('b', 1_000_000_000), ('t', 1_000_000_000_000)])
        .filter(|parameters| (PARAMETERS_MIN..=PARAMETERS_MAX).contains(parameters))
        .ok_or_else(|| {
            InvalidValue::new(format!(
                "{:?} is not a number of parameters; write one such as `7b`, `1.5b` or `350m`, from 1m to 10t, with at most three digits after the point",
                shortened(text, 40)
            ))
        })
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

fn nearest<'a>(mut shapes: impl Iterator<Item = &'a KnownShape>, parameters: u64) -> &'a KnownShape {
    let distance = |shape: &KnownShape| {
        let (less, more) = (shape.parameters.min(parameters), shape.parameters.max(parameters));
        u128::from(more) * 1_000_000 / u128::from(less)
    };
    let first = shapes.next().unwrap_or(&KNOWN_SHAPES[0]);
    shapes.fold(first, |nearest, shape| if distance(shape) < distance(nearest) { shape } else { nearest })
}

impl KnownShape {
    fn architecture(&self, name: &str, parameters: u64, active: Option<u64>) -> ModelArchitecture {
        ModelArchitecture {
            name: name.to_owned(),
            basis: ArchitectureBasis::Assumed { parameters, active, like: self.name },
            layers: self.layers,
            weight_layers: self.layers,
            hidden: self.hidden,
            attention: Attention {
                heads: self.heads,
                kv_heads: self.kv_heads,
                head_dim: self.head_dim,
                latent: None,
                has_qkv_bias: false,
                has_out_bias: false,
                qk_norm_parameters: 0,
            },
            mlp: Mlp { intermediate: self.intermediate, is_gated: true, has_bias: false },
            experts: None,
            embeddings: Embeddings {
                vocabulary: self.vocabulary,
                width: self.hidden,
                positions: 0,
                token_types: 0,
                is_tied: self.is_tied,
                has_head_bias: false,
                has_pooler: false,
            },
            norms: Norms { per_layer: 2, outside: 1, has_bias: false },
            window: None,
            has_dropout: false,
            is_encoder: false,
            other_parts: 0,
            published: PublishedFormat::Plain(None),
            context_max: None,
            notes: Vec::new(),
        }
    }
}
