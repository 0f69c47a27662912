//! The ledger: what ran, from when to when, at which price. Of one region and one calendar month.
//!
//! A **run** is one start of an instance, by its id and its launch time, one attachment of a volume, or one life of a resource of `SageMaker`
//! (`sagemaker_observation.rs`). Every beat adds its observation; the ledger keeps facts of each run that can be merged in any order, any number of
//! times, and computes the end and the amount on demand. So a beat may be lost, repeated, late, or concurrent, and money is counted once:
//!
//! - The end of a run that EC2 names (`StateTransitionReason`) is exact. An unseen end lies between the last observation and the first whole beat
//!   without it, or the next launch: the possible cost of that time is uncertain.
//! - Of one resource, no two runs overlap.
//! - Prices are facts of a [`Tariff`], not of a run: each is kept once, with the moment from which AWS says that it holds.
//!
//! What AWS bills (EC2 user guide, "Amazon EC2 instance state changes", "On-Demand Instances", "Billing for interrupted Spot Instances"): seconds
//! of `running`, 60 of them at least for each start; nothing if EC2 interrupts a Spot instance within its first hour. EC2 does not report when
//! `pending` ended, so a run begins with its launch: some seconds too early. `stopping` and `shutting-down` are not billed. A volume counts while
//! it is attached, even if its instance is stopped.
//!
//! A run is charged to the team in its tags, at the price of its type, each from the beat that observed it: a retag, a changed size or a changed
//! discount never counts backwards. The first observation counts from the beginning. An observation after the end of a run counts only if there is
//! no earlier one: the type of a stopped instance can change, and that of its next start belongs to another run.

mod bill;
mod document;
mod fold;
mod month;
mod observe;
mod region_observation;
mod run;
mod sagemaker_observation;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId};
use model::money::Rate;
use serde::{Deserialize, Serialize};

pub use bill::{ChargeStatus, LedgerRun, RunCost, RunEnd, RunShare};
pub use fold::{FoldKey, FoldLimits, FoldSum};
pub use month::{CalendarMonth, TimeSpan};
pub use observe::{BillingState, LedgerBeat, Sighting};
pub use region_observation::{AttachedVolume, InspectedInstance, KnownPrices, RegionObservation};
pub use run::{PurchaseTerms, RunFacts, RunKind};
pub use sagemaker_observation::SageMakerObservation;

use fold::FoldedRuns;
use run::RunEntry;

/// Shortest time without a whole beat in which a run may begin and end unseen: EC2 shows a terminated instance for about an hour (EC2 user
/// guide, "Terminate Amazon EC2 instances").
pub const BLIND_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Everything that sets a price, in words: the type, the purchase terms, the zone of a Spot instance, the discount of an on-demand
/// instance; for a volume its configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tariff(String);

impl Tariff {
    /// Creates the tariff from its words.
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
pub type TariffRates = BTreeMap<Timestamp, Rate>;

/// `ledger/<yyyy-mm>/<region>.json`: what ran in a region in a month.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    month: Option<String>,
    span: TimeSpan,
    region: Option<Region>,
    /// The moments of whole beats, until an hour after the month, and the first one after that.
    beats: BTreeSet<Timestamp>,
    /// The moments of beats that saw all of `SageMaker`, kept for the same time: an account may forbid access to EC2 or to `SageMaker`.
    sagemaker_beats: BTreeSet<Timestamp>,
    /// The `SageMaker` beats that could not read a resource, by its id in lower case: `SageMaker` writes the type of an app in both ways.
    sagemaker_unread: BTreeMap<ResourceId, BTreeSet<Timestamp>>,
    /// The moments of all beats of the month, whole or not.
    looks: BTreeSet<Timestamp>,
    rates: BTreeMap<Tariff, TariffRates>,
    /// Runs by resource and start.
    runs: BTreeMap<(ResourceId, Timestamp), RunEntry>,
    /// Sums of runs that are no longer kept one by one.
    folded: FoldedRuns,
}

impl Ledger {
    /// Creates an empty ledger.
    #[must_use]
    pub fn new(month: &CalendarMonth, region: &Region) -> Self {
        Self { month: Some(month.to_string()), span: month.span(), region: Some(region.clone()), ..Self::default() }
    }

    /// Returns the ledger with the identity of that month and region, whatever time zone is in the document: it may have changed since.
    #[must_use]
    pub fn with_identity(self, month: &CalendarMonth, region: &Region) -> Self {
        let mut ledger = Self { month: Some(month.to_string()), region: Some(region.clone()), ..self };
        ledger.span = month.span();
        ledger.looks.extend(ledger.beats.range(..ledger.span.to));
        ledger.looks.extend(ledger.sagemaker_beats.range(..ledger.span.to));
        ledger
    }

    /// The whole beats that would have seen a run of that kind.
    const fn beats_of(&self, kind: RunKind) -> &BTreeSet<Timestamp> {
        match kind {
            RunKind::Instance | RunKind::Volume => &self.beats,
            RunKind::SageMaker => &self.sagemaker_beats,
        }
    }

    /// The first whole beat after that moment that would have seen a run of the resource.
    fn first_look_after(&self, after: Timestamp, kind: RunKind, resource: &ResourceId) -> Option<Timestamp> {
        let unread_at = self.beats_without(kind, resource);
        let mut beats = self.beats_of(kind).range((Bound::Excluded(after), Bound::Unbounded));
        beats.find(|at| unread_at.is_none_or(|unread_at| !unread_at.contains(at))).copied()
    }

    fn beats_without(&self, kind: RunKind, resource: &ResourceId) -> Option<&BTreeSet<Timestamp>> {
        let may_be = kind == RunKind::SageMaker && !self.sagemaker_unread.is_empty();
        may_be.then(|| self.sagemaker_unread.get(resource.as_str().to_ascii_lowercase().as_str())).flatten()
    }

    /// Returns the month and region in the document if they differ from these; `None` if they match, or the document names none.
    #[must_use]
    pub fn other_than(&self, month: &CalendarMonth, region: &Region) -> Option<String> {
        let (says_month, says_region) = (self.month.as_deref(), self.region.as_ref());
        let is_of_these =
            says_month.is_none_or(|says| says == month.to_string()) && says_region.is_none_or(|says| says == region);
        let shown = |text: Option<&str>| text.unwrap_or("any").to_owned();
        (!is_of_these).then(|| format!("{} in {}", shown(says_month), shown(says_region.map(Region::as_str))))
    }

    /// The month, from its beginning to its end.
    #[must_use]
    pub const fn span(&self) -> TimeSpan {
        self.span
    }

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
    pub fn blind(&self, now: Timestamp) -> Vec<TimeSpan> {
        let until = now.min(self.span.to);
        let looks = self.beats.iter().copied().filter(|at| *at > self.span.from && *at < until);
        let ends: Vec<Timestamp> = std::iter::once(self.span.from).chain(looks).chain([until]).collect();
        let gaps = ends.windows(2).map(|pair| TimeSpan { from: pair[0], to: pair[1] });
        gaps.filter(|gap| gap.from < gap.to && gap.to.duration_since(gap.from) > BLIND_AFTER).collect()
    }
}

/// The seconds of the years 1970 to 2999. Nothing ran before or after, and to all of them any time that is computed with can be
/// added.
const SANE: RangeInclusive<i64> = 0..=32_503_679_999;

/// Returns `true` for a moment at which something can have happened.
pub(crate) fn is_sane(at: Timestamp) -> bool {
    SANE.contains(&at.as_second())
}

/// Rounds down to the second, in which AWS bills. A moment outside the sane years moves to their edge, so that the document can be read
/// again.
fn whole_second(at: Timestamp) -> Timestamp {
    let second = at.as_second().clamp(*SANE.start(), *SANE.end());
    Timestamp::from_second(second).unwrap_or(at)
}

#[cfg(test)]
mod tests;
