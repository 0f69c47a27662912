//! Number formats, and the bits that they take.

use std::fmt;
use std::str::FromStr;

use model::fault::InvalidValue;
use serde::{Deserialize, Serialize};

/// A number format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Fp32,
    /// Computed in 19 bits, kept in 32.
    Tf32,
    Fp16,
    Bf16,
    Fp8,
    Int8,
    /// Weights in groups of 128, as GPTQ and AWQ write it.
    Int4,
    /// The 4-bit `NormalFloat` of QLoRA with double quantization.
    Nf4,
    /// 4 bits in blocks of 32 with a scale of 8 bits (OCP Microscaling Formats); of a mixture of experts only the experts.
    Mxfp4,
    /// 4 bits in blocks of 16 with a scale of 8 bits, NVIDIA's format for Blackwell.
    Nvfp4,
}

impl Precision {
    pub const ALL: [Self; 10] = [
        Self::Fp32,
        Self::Tf32,
        Self::Fp16,
        Self::Bf16,
        Self::Fp8,
        Self::Int8,
        Self::Int4,
        Self::Nf4,
        Self::Mxfp4,
        Self::Nvfp4,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Nf4 => "nf4",
            Self::Mxfp4 => "mxfp4",
            Self::Nvfp4 => "nvfp4",
        }
    }

    /// Thousandths of a bit that one weight of a linear layer takes, with the constants of its quantization.
    ///
    /// int4: a scale of 16 bits and a zero point of 4 bits for each 128 weights (GPTQ, section 4, and the files of `AutoGPTQ`). nf4: 0.127
    /// bits for the constants (QLoRA, section 3, "Double Quantization"). int8 and fp8: a scale for each row, or for each matrix, is less than
    /// a thousandth.
    pub(crate) const fn weight_millibits(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 32_000,
            Self::Fp16 | Self::Bf16 => 16_000,
            Self::Fp8 | Self::Int8 => 8_000,
            Self::Int4 => 4_156,
            Self::Nf4 => 4_127,
            Self::Mxfp4 => 4_250,
            Self::Nvfp4 => 4_500,
        }
    }

    /// Bytes of a number that is computed with. Quantized weights are computed with in 16 bits.
    pub(crate) const fn compute_bytes(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4,
            _ => 2,
        }
    }

    /// Returns `true` if only the linear layers are kept in this format, and everything else in 16 bits.
    pub(crate) const fn is_quantized(self) -> bool {
        matches!(self, Self::Fp8 | Self::Int8 | Self::Int4 | Self::Nf4 | Self::Mxfp4 | Self::Nvfp4)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Precision {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        find_by_name(&Self::ALL, Self::as_str, text)
    }
}

/// The one with this name, in capitals or not.
pub(crate) fn find_by_name<T: Copy>(all: &[T], name: fn(T) -> &'static str, text: &str) -> Result<T, InvalidValue> {
    all.iter().copied().find(|one| name(*one).eq_ignore_ascii_case(text)).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|one| format!("`{}`", name(*one))).collect();
        InvalidValue::new(format!("{:?} is none of {}", model::fault::shortened(text, 40), names.join(", ")))
    })
}
