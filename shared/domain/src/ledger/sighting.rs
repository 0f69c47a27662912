//! What a beat saw.

use jiff::Timestamp;

use super::run::Facts;
use crate::id::{Region, ResourceId};
use crate::money::Rate;

/// One look at a region.
#[derive(Debug, Clone, PartialEq)]
pub struct Beat {
    /// When it began: what it saw was so at this moment or later.
    pub at: Timestamp,
    /// Where.
    pub region: Region,
    /// Whether all was seen: only then is what is missing gone.
    pub whole: bool,
    /// What was seen.
    pub items: Vec<Sighting>,
}

/// One instance, or one attached volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    /// Its id.
    pub resource: ResourceId,
    /// Of an instance its launch, of a volume its attachment: its earliest, where it hangs on several.
    pub began: Timestamp,
    /// What it is.
    pub facts: Facts,
    /// Whether it is billed.
    pub life: Life,
    /// What its tariff is known to cost, each with the moment from which AWS says that it holds: of a price list the day that it
    /// is of, of Spot the change. Not the beat's own moment, or the ledger grows with every beat. An unknown price is left out.
    pub prices: Vec<(Timestamp, Rate)>,
}

/// Whether something is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It runs, or is about to; of a volume: it is attached.
    Live,
    /// Its run has ended.
    Ended {
        /// When, where EC2 says so in words that can be read.
        at: Option<Timestamp>,
        /// Whether it is terminated, or on its way: then what EC2 says is when that was, and it may have been stopped before.
        terminated: bool,
        /// Whether EC2 took a Spot instance back (`Server.SpotInstanceTermination`, `Server.SpotInstanceShutdown`: EC2 API
        /// reference, `StateReason`).
        reclaimed: bool,
    },
}
