//! Whether Curfew acts or only says what it would do.

use serde::{Deserialize, Serialize};

/// Ordered: observe is the lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Say what would be done.
    #[default]
    Observe,
    /// Do it.
    Enforce,
}

impl Mode {
    /// Reads `observe` or `enforce`, exactly so.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "observe" => Some(Self::Observe),
            "enforce" => Some(Self::Enforce),
            _ => None,
        }
    }
}
