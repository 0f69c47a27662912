//! What a beat saw.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::money::Rate;

use super::run::RunFacts;

/// One look at a region.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerBeat {
    /// When it began: what it saw was so at this moment or later.
    pub at: Timestamp,
    pub region: Region,
    /// Whether all was seen: only then is what is missing gone.
    pub whole: bool,
    /// What was seen.
    pub items: Vec<Sighting>,
    /// What may be there, whatever else was seen: it ends no run of these. Of `SageMaker` alone.
    pub unread: BTreeSet<ResourceId>,
}

/// One instance, or one attached volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    pub resource: ResourceId,
    /// Of an instance its launch, of a volume its attachment: its earliest, where it hangs on several.
    pub began: Timestamp,
    pub facts: RunFacts,
    /// Whether it is billed.
    pub life: BillingState,
    /// Its known prices, each with its begin: for a list price the time of the first such answer, for Spot the change. Not the beat's own time, or
    /// the ledger would grow with every beat. An unknown price is left out.
    pub prices: Vec<(Timestamp, Rate)>,
}

/// Whether something is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BillingState {
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
