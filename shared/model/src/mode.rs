//! Curfew's mode: it acts, or only says what it would do.

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
    /// Returns the mode as tags, configuration and documents write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Enforce => "enforce",
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_and_read_by_its_name() {
        for (mode, name) in [(Mode::Observe, "observe"), (Mode::Enforce, "enforce")] {
            assert_eq!((mode.as_str(), Mode::read(name)), (name, Some(mode)));
            assert_eq!(serde_json::to_value(mode).unwrap(), name);
        }
    }
}
