//! What observing yields: what was seen, and what could not be.

use serde::{Deserialize, Serialize};

use crate::id::Region;

/// Items that were seen, and gaps where something could not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation<T> {
    /// What was seen.
    pub items: Vec<T>,
    /// What could not be seen, and why.
    pub gaps: Vec<Gap>,
}

impl<T> Observation<T> {
    /// Only a gap.
    #[must_use]
    pub fn nothing_but(gap: Gap) -> Self {
        Self { items: Vec::new(), gaps: vec![gap] }
    }

    /// Adds what another look saw.
    pub fn extend(&mut self, other: Self) {
        self.items.extend(other.items);
        self.gaps.extend(other.gaps);
    }
}

impl<T> Default for Observation<T> {
    fn default() -> Self {
        Self { items: Vec::new(), gaps: Vec::new() }
    }
}

/// Something that could not be seen. Never a reason to act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Where.
    pub region: Region,
    /// The call by its IAM action, such as `ec2:DescribeInstances`.
    pub call: String,
    /// What AWS answered, and what to do about it.
    pub error: String,
    /// What kind of gap it is.
    #[serde(skip)]
    pub kind: GapKind,
}

/// How often a gap is told, and what it leaves undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapKind {
    /// The whole region stayed unseen.
    Region,
    /// The organisation forbids the region, which nobody here can mend: told once.
    ForbiddenRegion,
    /// Something of the region stayed unseen.
    Part,
}
