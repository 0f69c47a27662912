//! Bits of a quantized weight.

use model::fault::one_line;
use serde_json::Value;

use crate::precision::Precision;

/// Bits of one weight, with its scales and zero points.
#[derive(Debug, Clone, Copy)]
pub(super) struct BitWidth {
    pub(super) precision: Precision,
    pub(super) millibits: u64,
}

impl BitWidth {
    /// The width of a format that has a name.
    pub(super) const fn named(precision: Precision) -> Self {
        Self { precision, millibits: precision.weight_millibits() }
    }
}

/// Whole numbers of so many bits, with a scale of 16 bits and a zero point for each group.
pub(super) fn integer_width(bits: u64, group_size: i64, has_zeros: bool) -> Option<BitWidth> {
    let precision = match bits {
        2..=4 => Precision::Int4,
        5..=8 => Precision::Int8,
        _ => return None,
    };
    let constants = 16 + if has_zeros { bits } else { 0 };
    let group_millibits =
        u64::try_from(group_size).ok().filter(|size| *size > 0).map_or(0, |size| constants * 1_000 / size);
    Some(BitWidth { precision, millibits: bits * 1_000 + group_millibits })
}

pub(super) fn describe_width(BitWidth { precision, millibits }: &BitWidth) -> String {
    let (whole, part) = (millibits / 1_000, millibits % 1_000);
    let bits = format!("{whole}.{part:03}");
    format!("{precision}, {} bits", bits.trim_end_matches('0').trim_end_matches('.'))
}

/// `weights` of a group: `num_bits`, `type`, `strategy`, `group_size`, `symmetric`.
pub(super) fn arguments_width(weights: Option<&Value>) -> Result<Option<BitWidth>, String> {
    let Some(weights) = weights.and_then(Value::as_object) else { return Ok(None) };
    let text = |key: &str| weights.get(key).and_then(Value::as_str).unwrap_or("");
    let bits = weights.get("num_bits").and_then(Value::as_u64).unwrap_or(8);
    let size = weights.get("group_size").and_then(Value::as_i64).unwrap_or(-1);
    let size = if ["group", "tensor_group"].contains(&text("strategy")) || size > 0 { size } else { -1 };
    let is_symmetric = weights.get("symmetric").and_then(Value::as_bool).unwrap_or(true);
    let width = match (text("type"), bits) {
        (_, 16..) => return Ok(None),
        ("float", 8) if size == 32 => BitWidth { precision: Precision::Fp8, millibits: 8_250 },
        ("float", 8) => BitWidth::named(Precision::Fp8),
        ("float", 4) if size == 16 => BitWidth::named(Precision::Nvfp4),
        ("float", 4) if size == 32 => BitWidth::named(Precision::Mxfp4),
        ("int" | "", _) => {
            integer_width(bits, size, !is_symmetric).ok_or_else(|| format!("{bits} bits are not known"))?
        }
        (kind, _) => return Err(format!("{bits} bits of the type {:?} are not known", one_line(kind, 20))),
    };
    Ok(Some(width))
}

/// Schemes that have a name: compressed-tensors, `quant_scheme.py`.
pub(super) fn preset_width(name: &str) -> Result<Option<BitWidth>, String> {
    Ok(match name {
        "UNQUANTIZED" => None,
        "W8A16" | "W8A8" | "INT8" => Some(BitWidth::named(Precision::Int8)),
        "W4A16" | "W4A8" | "W4AFP8" => integer_width(4, 128, false),
        "W4A16_ASYM" => integer_width(4, 128, true),
        "FP8" | "FP8_DYNAMIC" | "FP8_BLOCK" => Some(BitWidth::named(Precision::Fp8)),
        "NVFP4" | "NVFP4A16" => Some(BitWidth::named(Precision::Nvfp4)),
        "MXFP4" | "MXFP4A16" => Some(BitWidth::named(Precision::Mxfp4)),
        _ => return Err(format!("the scheme {:?} is not known", one_line(name, 40))),
    })
}
