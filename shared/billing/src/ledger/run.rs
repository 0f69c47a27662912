//! Facts that the ledger keeps about a run.

use std::collections::BTreeSet;
use std::ops::Bound;

use jiff::Timestamp;
use model::id::{ResourceId, TeamName};
use serde::{Deserialize, Serialize};

use super::Tariff;
use super::timeline::{BeatPosition, Timeline};

/// Retags of a run in a month that are followed. People move a machine a few times at most. A retag in every beat would
/// make the document grow by 3,000 entries a run. What costs after one more retag is counted for no team.
pub(super) const RETAGS_MAX: usize = 16;

/// Changes of what sets the price of a run, in a month, that are followed. A volume can be modified four times a day (EBS user guide,
/// "Modify an Amazon EBS volume using Elastic Volumes operations"): 124 times in 31 days. An endpoint of `SageMaker` that scales by itself changes
/// with most beats of a working day: 40 of them on 23 days. After one more, the last price stays.
pub(super) const REPRICINGS_MAX: usize = 1_000;

/// Beats of a month during which a run was seen by others alone. They place beats that come late, by minutes: older ones can go.
const MISSED_MAX: usize = 200;

/// Facts about a run and its owner, as one observation has them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunFacts {
    pub kind: RunKind,
    /// Its team, by its tags.
    pub team: Option<TeamName>,
    /// Its owner, by its tags.
    pub owner: Option<String>,
    /// Its `Name` tag.
    pub name: Option<String>,
    /// Type of the resource, for people: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    /// Purchase terms.
    pub terms: PurchaseTerms,
    /// The job, `<team>/<job>`, that it says it is of.
    pub job: Option<String>,
    /// Instance to which the volume is attached; `None` for everything but volumes.
    pub attached_to: Option<ResourceId>,
    /// Tariff that sets the price.
    pub tariff: Tariff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// An accelerated instance.
    Instance,
    /// A volume that hangs on one.
    Volume,
    /// A resource that runs on accelerated instances of `SageMaker`.
    #[serde(rename = "sagemaker")]
    SageMaker,
}

/// Terms of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurchaseTerms {
    /// Billed by the second at a price that hardly changes: a price that is learnt later also counts for the time before.
    OnDemand,
    /// Billed by the second at a price that changes: an unknown price is not guessed.
    Spot,
    /// Runs in an on-demand capacity reservation: billed as on demand, and the unused reservation is billed the same.
    Reserved,
    /// Runs on managed Spot of `SageMaker`, billed at the on-demand price for seconds that are known only after its end: until then it may
    /// have cost nothing (`DescribeTrainingJob`, `BillableTimeInSeconds`).
    ManagedSpot,
    /// Runs in a Capacity Block, in an interruptible reservation or on a dedicated host, none of which is paid by the instance: the price of an
    /// instance is unknown.
    Prepaid,
}

/// Quality of the source of a run's facts. The better source counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FactSource {
    /// Seen after its end, or in the month before: of these the earliest counts.
    Outside,
    /// Seen running after the month: of these the earliest counts.
    After,
    /// Seen running in the month: of these the latest counts.
    #[default]
    Within,
}

/// The payer of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Attribution {
    pub(super) team: Option<TeamName>,
    pub(super) job: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pricing {
    pub(super) what: String,
    pub(super) terms: PurchaseTerms,
    pub(super) tariff: Tariff,
}

/// The labels of a run, which decide no charge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunLabel {
    pub(super) kind: RunKind,
    pub(super) owner: Option<String>,
    pub(super) name: Option<String>,
    pub(super) attached_to: Option<ResourceId>,
}

/// Values at the start of the month.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CarriedRun {
    /// Last sighting in the previous month.
    pub(super) at: Timestamp,
    pub(super) attribution: Attribution,
    pub(super) pricing: Pricing,
}

impl RunFacts {
    pub(super) fn split(self) -> (RunLabel, Attribution, Pricing) {
        let Self { kind, team, owner, name, what, terms, job, attached_to, tariff } = self;
        (RunLabel { kind, owner, name, attached_to }, Attribution { team, job }, Pricing { what, terms, tariff })
    }
}

/// The facts of a run. Any two can be joined, in any order and any number of times.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunEntry {
    /// The latest.
    pub(super) label: RunLabel,
    pub(super) attribution: Timeline<Attribution, RETAGS_MAX>,
    pub(super) pricing: Timeline<Pricing, REPRICINGS_MAX>,
    pub(super) carried: Option<Box<CarriedRun>>,
    pub(super) source: FactSource,
    /// Time of the sighting that gave the facts: among those within the month, the latest.
    pub(super) facts_at: Timestamp,
    /// The earliest such moment.
    pub(super) first_at: Timestamp,
    /// The beats between these two that did not see it running, in order.
    pub(super) missed: Vec<Timestamp>,
    /// The latest moment at which it was seen running; an hour after the month for all that are later.
    pub(super) seen: Option<Timestamp>,
    /// Time of the stop, as EC2 reports it.
    pub(super) stopped: Option<Timestamp>,
    /// Time of the termination, as EC2 reports it.
    pub(super) terminated: Option<Timestamp>,
    /// The first beat that saw that it had ended, where EC2 did not say when.
    pub(super) ended_by: Option<Timestamp>,
    /// `true` if EC2 reclaimed it; `None` if the reason for its end is unknown.
    pub(super) reclaimed: Option<bool>,
}

impl RunEntry {
    /// Adds what another beat saw, or what the month before has, which has no changes of its own. `beats` are those of the month.
    pub(super) fn join(&mut self, other: &Self, beats: &BTreeSet<Timestamp>) {
        self.join_facts(other, beats);
        self.carried = self.carried.take().max(other.carried.clone());
        self.seen = self.seen.max(other.seen);
        self.stopped = earliest(self.stopped, other.stopped);
        self.terminated = earliest(self.terminated, other.terminated);
        self.ended_by = earliest(self.ended_by, other.ended_by);
        self.reclaimed = self.reclaimed.max(other.reclaimed);
    }

    fn join_facts(&mut self, other: &Self, beats: &BTreeSet<Timestamp>) {
        if other.source < self.source {
            return;
        }
        if (self.source, other.source) == (FactSource::Within, FactSource::Within) {
            return self.add(other, beats);
        }
        // Of two of one moment the greater counts, so that their order does not.
        let facts = |one: &Self| (one.label.clone(), one.attribution.first.clone(), one.pricing.first.clone());
        let is_earlier = || {
            let by_time = self.facts_at.cmp(&other.facts_at);
            by_time.then_with(|| facts(other).cmp(&facts(self))).is_gt()
        };
        if other.source > self.source || is_earlier() {
            self.label = other.label.clone();
            self.attribution = other.attribution.clone();
            self.pricing = other.pricing.clone();
            (self.source, self.facts_at, self.first_at) = (other.source, other.facts_at, other.first_at);
            self.missed = Vec::new();
        }
    }

    /// Adds an entry of one beat. Each entry saw the run within the month.
    fn add(&mut self, other: &Self, beats: &BTreeSet<Timestamp>) {
        let (at, first_at, last_at) = (other.facts_at, self.first_at, self.facts_at);
        let was_missed = self.missed.binary_search(&at);
        let is_repeated = (first_at..=last_at).contains(&at) && was_missed.is_err();
        if let Ok(place) = was_missed {
            self.missed.remove(place);
        }
        if at == last_at {
            self.label = self.label.clone().max(other.label.clone());
        } else if at > last_at {
            self.label = other.label.clone();
        }
        let between = |from, to| beats.range((Bound::Excluded(from), Bound::Excluded(to))).copied();
        if at > last_at {
            self.missed.extend(between(last_at, at));
        } else if at < first_at {
            self.missed.splice(0..0, between(at, first_at));
        }
        let after = (Bound::Excluded(at), Bound::Included(last_at));
        let next = if at < last_at {
            beats.range(after).copied().find(|beat| *beat >= first_at && self.missed.binary_search(beat).is_err())
        } else {
            None
        };
        self.keep_missed();
        (self.first_at, self.facts_at) = (first_at.min(at), last_at.max(at));
        let place = BeatPosition { at, first_at, next, is_repeated };
        self.attribution.add(place, &other.attribution.first);
        self.pricing.add(place, &other.pricing.first);
    }

    /// There was a beat at that moment, which may not have seen it.
    pub(super) fn missed(&mut self, at: Timestamp) {
        if self.source == FactSource::Within
            && self.first_at < at
            && at < self.facts_at
            && let Err(place) = self.missed.binary_search(&at)
        {
            self.missed.insert(place, at);
            self.keep_missed();
        }
    }

    fn keep_missed(&mut self) {
        let too_many = self.missed.len().saturating_sub(MISSED_MAX);
        self.missed.drain(..too_many);
    }

    /// The first beat of the month that can have seen it. Most were seen by that one.
    pub(super) fn first_possible(began: Timestamp, facts_at: Timestamp, beats: &BTreeSet<Timestamp>) -> Timestamp {
        beats.range(began..=facts_at.max(began)).next().copied().unwrap_or(facts_at)
    }

    /// The payers, each with its begin, in order; the first from ever, and `None` for no team.
    pub(super) fn attributions(&self) -> Vec<(Timestamp, Option<&Attribution>)> {
        let carried = self.carried.as_ref().map(|carried| &carried.attribution);
        let mut all = self.values(&self.attribution, carried);
        all.extend(self.attribution.untracked_since.filter(|_| self.source == FactSource::Within).map(|at| (at, None)));
        all
    }

    /// Returns the pricings, each with its begin, in order; the first counts from ever.
    pub(super) fn pricings(&self) -> impl DoubleEndedIterator<Item = (Timestamp, &Pricing)> {
        let carried = self.carried.as_ref().map(|carried| &carried.pricing);
        self.values(&self.pricing, carried).into_iter().filter_map(|(from, pricing)| Some((from, pricing?)))
    }

    /// Returns the values of a timeline with their starts. The previous month's value holds until the first beat of this month that saw the
    /// run.
    fn values<'a, T: Clone + Ord, const MAX: usize>(
        &self,
        timeline: &'a Timeline<T, MAX>,
        carried: Option<&'a T>,
    ) -> Vec<(Timestamp, Option<&'a T>)> {
        let Some(carried) = carried else { return timeline_from(Timestamp::MIN, timeline) };
        let month_timeline =
            if self.source == FactSource::Within { timeline_from(self.first_at, timeline) } else { Vec::new() };
        [(Timestamp::MIN, Some(carried))].into_iter().chain(month_timeline).collect()
    }
}

fn timeline_from<T: Clone + Ord, const MAX: usize>(
    from: Timestamp,
    timeline: &Timeline<T, MAX>,
) -> Vec<(Timestamp, Option<&T>)> {
    let changes = timeline.changes.iter().map(|(from, value)| (*from, Some(value)));
    std::iter::once((from, Some(&timeline.first))).chain(changes).collect()
}

/// The earlier of what is known.
pub(super) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
