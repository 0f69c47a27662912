//! Distribution of a model over GPUs.

use std::fmt;
use std::str::FromStr;

use model::fault::InvalidValue;
use serde::{Deserialize, Serialize};

use crate::precision::find_by_name;

/// More than any cluster that is bought by the hour.
pub const GPUS_MAX: u32 = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Every GPU has everything.
    Data,
    /// The optimizer's states are spread.
    Zero1,
    /// The gradients as well.
    Zero2,
    /// The weights as well: ZeRO-3, which PyTorch calls FSDP.
    Zero3,
    /// Every matrix is cut.
    Tensor,
}

impl Strategy {
    pub const ALL: [Self; 5] = [Self::Data, Self::Zero1, Self::Zero2, Self::Zero3, Self::Tensor];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Zero1 => "zero1",
            Self::Zero2 => "zero2",
            Self::Zero3 => "zero3",
            Self::Tensor => "tensor",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Parallelism {
    pub strategy: Strategy,
    pub gpus: u32,
}

impl Parallelism {
    pub const ONE_GPU: Self = Self { strategy: Strategy::Data, gpus: 1 };

    #[must_use]
    pub const fn new(strategy: Strategy, gpus: u32) -> Self {
        Self { strategy, gpus }
    }

    /// Over how many GPUs something is spread that the given strategies spread.
    pub(crate) fn shards(self, by: &[Strategy]) -> u64 {
        if by.contains(&self.strategy) { u64::from(self.gpus) } else { 1 }
    }

    pub(crate) const fn tensor_degree(self) -> u64 {
        match self.strategy {
            Strategy::Tensor => self.gpus as u64,
            _ => 1,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Parallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus = self.gpus;
        match self.strategy {
            _ if gpus == 1 => f.write_str("one GPU"),
            Strategy::Data => write!(f, "{gpus} GPUs, each with the whole model"),
            Strategy::Zero1 => write!(f, "{gpus} GPUs with ZeRO-1"),
            Strategy::Zero2 => write!(f, "{gpus} GPUs with ZeRO-2"),
            Strategy::Zero3 => write!(f, "{gpus} GPUs with ZeRO-3 (FSDP)"),
            Strategy::Tensor => write!(f, "{gpus} GPUs with tensor parallelism"),
        }
    }
}

impl FromStr for Strategy {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        find_by_name(&Self::ALL, Self::as_str, text)
    }
}
