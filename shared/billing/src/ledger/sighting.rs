//! Sightings of one beat.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::money::Rate;

use super::run::RunFacts;

/// One look at a region.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerBeat {
    /// Start of the beat: everything that it saw was so at this moment or later.
    pub at: Timestamp,
    pub region: Region,
    /// `true` if everything was seen: only then has a missing resource ended.
    pub whole: bool,
    /// Sightings of the beat.
    pub items: Vec<Sighting>,
    /// Resources of `SageMaker` that may exist although the beat did not see them: the beat ends none of their runs.
    pub unread: BTreeSet<ResourceId>,
}

/// One instance, or one attached volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    pub resource: ResourceId,
    /// Launch of the instance, or attachment of the volume: the earliest one, if it is attached to several instances.
    pub began: Timestamp,
    pub facts: RunFacts,
    /// Billing state.
    pub life: BillingState,
    /// Its known prices, each with its begin: for a list price the time of the first such answer, for Spot the change. Not the beat's own time, or
    /// the ledger would grow with every beat. An unknown price is left out.
    pub prices: Vec<(Timestamp, Rate)>,
}

/// Billing state of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BillingState {
    /// The resource runs or is about to; a volume is attached.
    Live,
    /// Its run has ended.
    Ended {
        /// Time of the end, if EC2 gives it in a text that can be parsed.
        at: Option<Timestamp>,
        /// `true` if the instance is terminated or about to be: `at` is then the time of the termination, and it may have been stopped
        /// before.
        terminated: bool,
        /// `true` if EC2 reclaimed a Spot instance (`Server.SpotInstanceTermination`, `Server.SpotInstanceShutdown`: EC2 API reference,
        /// `StateReason`).
        reclaimed: bool,
    },
}
