//! The times of a month in which it is unknown what ran.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use model::id::Region;
use serde::{Deserialize, Serialize};

use crate::ledger::TimeSpan;

/// The most gaps in a document.
const TIMES_MAX: usize = 20;

/// A time in which something may have begun and ended unseen: longer than [`crate::ledger::BLIND_AFTER`] without a whole look.
/// What it cost is in no figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationGap {
    /// The last whole look before it, or the month's beginning.
    pub from: Timestamp,
    /// The first one after it, or when the document was made.
    pub to: Timestamp,
    pub regions: Vec<Region>,
}

impl ObservationGap {
    /// The times without a beat since the ledger is kept, the longest first, 20 at most. Where Curfew did not run, it is
    /// one time of all regions.
    pub(super) fn from_blind_spans(blind: &BTreeMap<TimeSpan, BTreeSet<Region>>, ledger_began: Timestamp) -> Vec<Self> {
        let found = blind.iter().filter(|(span, _)| span.to > ledger_began);
        let to_gap = |(span, regions): (&TimeSpan, &BTreeSet<Region>)| Self {
            from: span.from,
            to: span.to,
            regions: regions.iter().cloned().collect(),
        };
        let mut all: Vec<Self> = found.map(to_gap).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.to.duration_since(one.from)));
        all.truncate(TIMES_MAX);
        all
    }
}

/// `us-east-1 and 2 others from 2026-11-20T10:00:00Z to 2026-11-20T13:00:00Z`.
impl fmt::Display for ObservationGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.regions.first().map(Region::as_str).unwrap_or_default();
        match self.regions.len() {
            0 | 1 => f.write_str(first)?,
            2 => write!(f, "{first} and 1 other region")?,
            all => write!(f, "{first} and {} other regions", all - 1)?,
        }
        write!(f, " from {} to {}", self.from, self.to)
    }
}

/// The longest, and how many there are besides; `None` if all was seen.
pub(super) fn describe_gaps(all: &[ObservationGap]) -> Option<String> {
    let (first, others) = all.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => ", and 1 other time".to_owned(),
        others => format!(", and {others} other times"),
    };
    Some(format!("{first}{others}; no figure includes what started and stopped in that time"))
}
