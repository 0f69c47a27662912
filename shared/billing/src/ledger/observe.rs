//! Taking down what a beat saw.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::money::Rate;

use super::bill::FREE_WITHIN;
use super::run::{CarriedRun, FactSource, RunEntry, RunFacts};
use super::timeline::Timeline;
use super::{Ledger, Tariff, TariffRates, TimeSpan, whole_second};

/// Resources that one beat could not read. A beat that could not read more, as when a permission is missing, ends no run at all; or an account with
/// thousands of jobs would fill the document with them.
const UNREAD_MAX: usize = 32;

/// More different moments than AWS publishes prices of one tariff in a month. Of more, those that say the same as both
/// neighbours are left out.
const RATES_MAX: usize = 1_000;

impl Ledger {
    /// Takes down what a beat saw. The same beats leave the same ledger, in whatever order and however often they come.
    ///
    /// A beat belongs to the document of its own month, and to that of the previous one: the first whole beat after a month shows its end. A beat
    /// before the month, or of another region, is ignored.
    ///
    /// Returns whether anything was new: else the document need not be written.
    pub fn observe(&mut self, beat: &LedgerBeat) -> bool {
        self.take_down(beat, |ledger| &mut ledger.beats)
    }

    /// Records what a beat saw of `SageMaker`. Order and repetition do not matter, as in [`Ledger::observe`].
    pub fn observe_sagemaker(&mut self, beat: &LedgerBeat) -> bool {
        if beat.unread.len() > UNREAD_MAX {
            return self.observe_sagemaker(&LedgerBeat { whole: false, unread: BTreeSet::new(), ..beat.clone() });
        }
        let changed = self.take_down(beat, |ledger| &mut ledger.sagemaker_beats);
        self.note_unread(beat) || changed
    }

    fn take_down(&mut self, beat: &LedgerBeat, whole_beats: fn(&mut Self) -> &mut BTreeSet<Timestamp>) -> bool {
        let at = whole_second(beat.at);
        if at < self.span.from || !self.is_of_region(beat) {
            return false;
        }
        let mut changed = at < self.span.to && self.begin_beat(at);
        let close = close(self.span);
        changed |= beat.whole && add_look(whole_beats(self), at, close);
        for sighting in &beat.items {
            changed |= self.add_sighting(sighting, at);
        }
        changed
    }

    fn is_of_region(&self, beat: &LedgerBeat) -> bool {
        self.region.as_ref().is_none_or(|region| *region == beat.region)
    }

    /// Records the unread resources for each kept beat: of the beats after the month only the first is kept.
    fn note_unread(&mut self, beat: &LedgerBeat) -> bool {
        let (at, before) = (whole_second(beat.at), self.sagemaker_unread.clone());
        let is_taken_down = beat.whole && self.is_of_region(beat);
        for resource in beat.unread.iter().filter(|_| is_taken_down) {
            let resource = ResourceId::new(resource.as_str().to_ascii_lowercase());
            self.sagemaker_unread.entry(resource).or_default().insert(at);
        }
        let kept = &self.sagemaker_beats;
        self.sagemaker_unread.retain(|_, moments| {
            moments.retain(|at| kept.contains(at));
            !moments.is_empty()
        });
        self.sagemaker_unread != before
    }

    /// Takes over the runs that had not certainly ended at the end of the previous month, with their values of then. Without it, an end between the
    /// last beat of that month and the first of this one is less exact. It is repeated after each beat, because a late one may have told the
    /// previous month how a run ended.
    ///
    /// Returns whether anything was new.
    pub fn carry(&mut self, previous: &Self) -> bool {
        let mut changed = false;
        for run in previous.all_runs() {
            let is_open = run.latest().is_none_or(|latest| latest > self.span.from);
            let is_known = || self.runs.contains_key(&(run.resource.clone(), run.began));
            if !is_open && !is_known() {
                continue;
            }
            let entry = carried(run.entry, run.began);
            if self.is_folded(run.resource, run.began, &entry) {
                continue;
            }
            let tariff = &entry.pricing.first.tariff;
            if let Some(rates) = previous.rates.get(tariff) {
                changed |= self.learn(tariff, rates.iter().map(|(from, rate)| (*from, *rate)));
            }
            changed |= self.keep(run.resource, run.began, entry);
        }
        changed
    }

    /// Notes the moment of a beat of the month. Where it comes late, the runs before and after it may have been missed by it.
    fn begin_beat(&mut self, at: Timestamp) -> bool {
        let is_late = self.looks.last().is_some_and(|last| at < *last);
        let is_new = self.looks.insert(at);
        if is_new && is_late {
            self.runs.values_mut().for_each(|entry| entry.missed(at));
        }
        is_new
    }

    fn add_sighting(&mut self, sighting: &Sighting, at: Timestamp) -> bool {
        let began = whole_second(sighting.began);
        let entry = entry(sighting, began, at, self.span);
        if self.is_folded(&sighting.resource, began, &entry) {
            return false;
        }
        let has_new_prices = self.learn(&sighting.facts.tariff, sighting.prices.iter().copied());
        let is_of_month = began < self.span.to;
        is_of_month && self.keep(&sighting.resource, began, entry) || has_new_prices
    }

    fn keep(&mut self, resource: &ResourceId, began: Timestamp, entry: RunEntry) -> bool {
        let Some(known) = self.runs.get_mut(&(resource.clone(), began)) else {
            self.runs.insert((resource.clone(), began), entry);
            return true;
        };
        let before = known.clone();
        known.join(&entry, &self.looks);
        *known != before
    }

    /// Adds the prices of a tariff. For the same moment the higher rate counts, so that the order does not matter.
    fn learn(&mut self, tariff: &Tariff, prices: impl Iterator<Item = (Timestamp, Rate)>) -> bool {
        let known = self.rates.get(tariff);
        let mut rates = known.cloned().unwrap_or_default();
        for (from, rate) in prices {
            let in_force = rates.entry(whole_second(from)).or_insert(rate);
            *in_force = rate.max(*in_force);
        }
        keep_to(&mut rates, self.span);
        let changed = known != Some(&rates) && !rates.is_empty();
        if changed {
            self.rates.insert(tariff.clone(), rates);
        }
        changed
    }
}

/// Adds a whole beat. Only the first beat after the close is kept.
fn add_look(beats: &mut BTreeSet<Timestamp>, at: Timestamp, close: Timestamp) -> bool {
    let after = beats.last().copied().filter(|last| *last >= close);
    match after {
        Some(last) if at >= last => false,
        Some(last) if at >= close => beats.remove(&last) && beats.insert(at),
        _ => beats.insert(at),
    }
}

/// A run of the month before, as this month begins with it.
fn carried(entry: &RunEntry, began: Timestamp) -> RunEntry {
    let attribution = entry.attributions().pop().and_then(|(_, last)| last).cloned().unwrap_or_default();
    let pricing = entry.pricings().next_back().map_or_else(|| entry.pricing.last(), |(_, last)| last).clone();
    let seen_last = || CarriedRun { at: entry.facts_at, attribution: attribution.clone(), pricing: pricing.clone() };
    RunEntry {
        carried: if entry.source == FactSource::Within { Some(Box::new(seen_last())) } else { entry.carried.clone() },
        attribution: Timeline::new(attribution),
        pricing: Timeline::new(pricing),
        source: FactSource::Outside,
        first_at: entry.facts_at,
        missed: Vec::new(),
        seen: entry.seen.or(Some(began)),
        ..entry.clone()
    }
}

/// Converts one sighting to an entry for its run.
fn entry(sighting: &Sighting, began: Timestamp, at: Timestamp, month: TimeSpan) -> RunEntry {
    let (label, attribution, pricing) = sighting.facts.clone().split();
    let mut entry = RunEntry {
        label,
        attribution: Timeline::new(attribution),
        pricing: Timeline::new(pricing),
        carried: None,
        source: FactSource::Outside,
        facts_at: at,
        first_at: at,
        missed: Vec::new(),
        seen: None,
        stopped: None,
        terminated: None,
        ended_by: None,
        reclaimed: None,
    };
    match sighting.life {
        BillingState::Live => {
            entry.seen = Some(at.max(began).min(close(month)));
            entry.source = if at < month.to { FactSource::Within } else { FactSource::After };
        }
        BillingState::Ended { at: ended_at, terminated, reclaimed } => {
            entry.reclaimed = Some(reclaimed);
            // A time before the launch belongs to an earlier start.
            match ended_at.map(whole_second).filter(|ended_at| *ended_at >= began) {
                Some(ended_at) if terminated => entry.terminated = Some(ended_at),
                Some(ended_at) => entry.stopped = Some(ended_at),
                None => entry.ended_by = Some(at),
            }
        }
    }
    entry
}

/// Returns the moment from which no beat can add to the month. A run seen at that time, an hour after the month's end, is past the hour in
/// which EC2 could have reclaimed it free of charge.
fn close(month: TimeSpan) -> Timestamp {
    month.to.saturating_add(FREE_WITHIN).unwrap_or(month.to)
}

/// Leaves out what says nothing about the month: all but the last that began before it, and what began after it unless
/// nothing else is known.
fn keep_to(rates: &mut TariffRates, month: TimeSpan) {
    if let Some((last_before, _)) = rates.range(..=month.from).next_back() {
        let last_before = *last_before;
        rates.retain(|from, _| *from >= last_before);
    }
    if let Some((first, _)) = rates.first_key_value() {
        let first = *first;
        rates.retain(|from, _| *from < month.to || *from == first);
    }
    if rates.len() > RATES_MAX {
        let all: Vec<_> = rates.iter().map(|(from, rate)| (*from, *rate)).collect();
        let repeats = all.windows(3).filter(|three| three.iter().all(|(_, rate)| *rate == three[1].1));
        for from in repeats.map(|three| three[1].0).collect::<Vec<_>>() {
            rates.remove(&from);
        }
    }
}

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
