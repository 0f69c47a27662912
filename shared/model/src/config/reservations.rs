//! `[reservations]`: capacity reservations that are paid for and unused.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::duration;

/// `[reservations]`: capacity reservations and Capacity Blocks with unused capacity. Curfew only notifies of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReservationsConfig {
    /// Time for which every look must have found unused capacity.
    #[serde(with = "duration")]
    pub empty_after: SignedDuration,
}

impl Default for ReservationsConfig {
    fn default() -> Self {
        Self { empty_after: SignedDuration::from_hours(24) }
    }
}
