//! Taking down what a beat saw.

use jiff::Timestamp;

use super::bill::FREE_WITHIN;
use super::run::{Entry, Source};
use super::sighting::{Beat, Life, Sighting};
use super::{Ledger, Rates, Span, Tariff, whole_second};
use crate::id::ResourceId;
use crate::money::Rate;

/// More different moments than AWS publishes prices of one tariff in a month. Of more, those that say the same as both
/// neighbours are left out.
const RATES_MAX: usize = 1_000;

impl Ledger {
    /// Takes down what a beat saw. The same beats leave the same ledger, in whatever order and however often they come.
    ///
    /// A beat is for the document of its own month, and for that of the month before: the first whole one after a month is
    /// what tells its end. One before the month, or of another region, says nothing here.
    ///
    /// Returns whether anything was new: else the document need not be written.
    pub fn observe(&mut self, beat: &Beat) -> bool {
        let at = whole_second(beat.at);
        if at < self.span.from || self.region.as_ref().is_some_and(|region| *region != beat.region) {
            return false;
        }
        let mut news = beat.whole && self.looked(at);
        for sighting in &beat.items {
            news |= self.take(sighting, at);
        }
        news
    }

    /// Takes over what was not certainly over when the month before ended. Without it, what ended between the last beat of
    /// that month and the first of this one is known less exactly. To be repeated after each beat: a late one may have told the
    /// month before how a run ended.
    ///
    /// Returns whether anything was new.
    pub fn carry(&mut self, previous: &Self) -> bool {
        let mut news = false;
        for run in previous.all_runs() {
            let is_open = run.latest().is_none_or(|latest| latest > self.span.from);
            let is_known = || self.runs.get(run.resource).is_some_and(|runs| runs.contains_key(&run.began));
            if !is_open && !is_known() {
                continue;
            }
            if let Some(rates) = previous.rates.get(&run.facts.tariff) {
                news |= self.learn(&run.facts.tariff, rates.iter().map(|(from, rate)| (*from, *rate)));
            }
            let seen = run.entry.seen.or(Some(run.began));
            news |= self.keep(run.resource, run.began, Entry { source: Source::Outside, seen, ..run.entry.clone() });
        }
        news
    }

    /// Of the beats after the close only the first is kept.
    fn looked(&mut self, at: Timestamp) -> bool {
        let close = close(self.span);
        let after = self.beats.last().copied().filter(|last| *last >= close);
        match after {
            Some(last) if at >= last => false,
            Some(last) if at >= close => self.beats.remove(&last) && self.beats.insert(at),
            _ => self.beats.insert(at),
        }
    }

    fn take(&mut self, sighting: &Sighting, at: Timestamp) -> bool {
        let began = whole_second(sighting.began);
        let learnt = self.learn(&sighting.facts.tariff, sighting.prices.iter().copied());
        let is_of_month = began < self.span.to;
        is_of_month && self.keep(&sighting.resource, began, entry(sighting, began, at, self.span)) || learnt
    }

    fn keep(&mut self, resource: &ResourceId, began: Timestamp, entry: Entry) -> bool {
        let runs = self.runs.entry(resource.clone()).or_default();
        let Some(known) = runs.get_mut(&began) else {
            runs.insert(began, entry);
            return true;
        };
        let before = known.clone();
        known.join(&entry);
        *known != before
    }

    /// Of one moment the higher rate counts, so that the order of two does not.
    fn learn(&mut self, tariff: &Tariff, prices: impl Iterator<Item = (Timestamp, Rate)>) -> bool {
        let known = self.rates.get(tariff);
        let mut rates = known.cloned().unwrap_or_default();
        for (from, rate) in prices {
            let in_force = rates.entry(whole_second(from)).or_insert(rate);
            *in_force = rate.max(*in_force);
        }
        keep_to(&mut rates, self.span);
        let news = known != Some(&rates) && !rates.is_empty();
        if news {
            self.rates.insert(tariff.clone(), rates);
        }
        news
    }
}

/// What one sighting says of its run.
fn entry(sighting: &Sighting, began: Timestamp, at: Timestamp, month: Span) -> Entry {
    let mut entry = Entry {
        facts: sighting.facts.clone(),
        source: Source::Outside,
        facts_at: at,
        seen: None,
        stopped: None,
        terminated: None,
        ended_by: None,
        reclaimed: None,
    };
    match sighting.life {
        Life::Live => {
            entry.seen = Some(at.max(began).min(close(month)));
            entry.source = if at < month.to { Source::Within } else { Source::After };
        }
        Life::Ended { at: said, terminated, reclaimed } => {
            entry.reclaimed = Some(reclaimed);
            // What is said of a moment before the launch is about an earlier life.
            match said.map(whole_second).filter(|said| *said >= began) {
                Some(said) if terminated => entry.terminated = Some(said),
                Some(said) => entry.stopped = Some(said),
                None => entry.ended_by = Some(at),
            }
        }
    }
    entry
}

/// When nothing more can be learnt about the month: what was seen running then, an hour after its end, is past the hour in which EC2
/// could have taken it back for nothing.
fn close(month: Span) -> Timestamp {
    month.to.saturating_add(FREE_WITHIN).unwrap_or(month.to)
}

/// Leaves out what says nothing about the month: all but the last that began before it, and what began after it unless
/// nothing else is known.
fn keep_to(rates: &mut Rates, month: Span) {
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
