//! The ledger: what ran, from when to when, at which price. Of one region and one calendar month.
//!
//! A **run** is one life of an instance, by its id and its launch time, or one attachment of a volume. Every beat tells what it
//! saw; the ledger keeps of each run the facts of which any two can be joined in any order, any number of times, and works
//! out the end and the amount when asked. So a beat may be lost, repeated, late, or come together with another one, and
//! money is counted once:
//!
//! - The end of a run that EC2 names (`StateTransitionReason`) is exact. One that nobody saw lies between the last sighting and
//!   the first whole beat without it, or the launch of its next life: what that could cost is said as uncertain.
//! - Of one resource, no two runs overlap.
//! - Prices are facts of a [`Tariff`], not of a run: each is kept once, with the moment from which AWS says that it holds.
//!
//! What AWS bills (EC2 user guide, "Amazon EC2 instance state changes", "On-Demand Instances", "Billing for interrupted Spot
//! Instances"): seconds of `running`, 60 of them at least for each start; nothing where EC2 reclaims a Spot instance within its
//! first hour. EC2 does not tell when `pending` ended, so a run begins with its launch: some seconds too early. `stopping` and
//! `shutting-down` are not billed. A volume counts while it is attached, whether its instance runs or is stopped.
//!
//! A run belongs, as a whole, to whom its tags named when it was last seen running, and its price follows what it was then:
//! the type of a stopped instance can change, and that of its next life is another run's.

mod bill;
mod document;
mod look;
mod month;
mod observe;
mod run;
mod sighting;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::id::{Region, ResourceId};
use crate::money::Rate;

pub use bill::{Charge, End, Run, Spent};
pub use look::{Attached, Inspected, Known, Look};
pub use month::{Month, Span};
pub use run::{Facts, Kind, Terms};
pub use sighting::{Beat, Life, Sighting};

use run::Entry;

/// Without a whole beat for so long, something may have begun and ended unseen: EC2 shows what was terminated for about an
/// hour (EC2 user guide, "Terminate Amazon EC2 instances").
pub const BLIND_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// What sets a price: type, way of buying and, of Spot, zone, on demand what the account pays less; of a volume what it is made
/// of. In words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tariff(String);

impl Tariff {
    /// By those words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The rates of one tariff, each by the moment from which it is in force.
pub type Rates = BTreeMap<Timestamp, Rate>;

/// `ledger/<yyyy-mm>/<region>.json`: what ran in a region in a month.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    month: Option<String>,
    span: Span,
    region: Option<Region>,
    /// The moments of whole beats, until an hour after the month, and the first one after that.
    beats: BTreeSet<Timestamp>,
    rates: BTreeMap<Tariff, Rates>,
    runs: BTreeMap<ResourceId, BTreeMap<Timestamp, Entry>>,
}

impl Ledger {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(month: &Month, region: &Region) -> Self {
        Self { month: Some(month.to_string()), span: month.span(), region: Some(region.clone()), ..Self::default() }
    }

    /// The same of that month and region, whatever the document said: its time zone may have been changed since.
    #[must_use]
    pub fn of(self, month: &Month, region: &Region) -> Self {
        Self { month: Some(month.to_string()), span: month.span(), region: Some(region.clone()), ..self }
    }

    /// The month, from its beginning to its end.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.span
    }

    /// The region.
    #[must_use]
    pub const fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    /// The first whole beat of the month: of what ended before, nothing is known.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        self.beats.first().copied()
    }

    /// The newest whole beat.
    #[must_use]
    pub fn as_of(&self) -> Option<Timestamp> {
        self.beats.last().copied()
    }

    /// The times in the month, until `now`, in which something may have begun and ended unseen: longer than [`BLIND_AFTER`]
    /// without a whole beat.
    #[must_use]
    pub fn blind(&self, now: Timestamp) -> Vec<Span> {
        let until = now.min(self.span.to);
        let looks = self.beats.iter().copied().filter(|at| *at > self.span.from && *at < until);
        let ends: Vec<Timestamp> = std::iter::once(self.span.from).chain(looks).chain([until]).collect();
        let gaps = ends.windows(2).map(|pair| Span { from: pair[0], to: pair[1] });
        gaps.filter(|gap| gap.from < gap.to && gap.to.duration_since(gap.from) > BLIND_AFTER).collect()
    }
}

/// The seconds of the years 1970 to 2999. Nothing ran before or after, and to all of them any time that is computed with can be
/// added.
const SANE: RangeInclusive<i64> = 0..=32_503_679_999;

/// Whether anything can have happened then.
pub(crate) fn is_sane(at: Timestamp) -> bool {
    SANE.contains(&at.as_second())
}

/// To the second, in which AWS bills. What is beyond all sane years is at their edge: what is kept can be read again.
fn whole_second(at: Timestamp) -> Timestamp {
    let second = at.as_second().clamp(*SANE.start(), *SANE.end());
    Timestamp::from_second(second).unwrap_or(at)
}

#[cfg(test)]
mod tests;
