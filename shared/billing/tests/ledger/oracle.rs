//! What a life cost, by other words: second after second, each at the price of that second, and for the team, of what a beat saw last
//! before that second. Asks nothing of the ledger.

use std::collections::BTreeMap;

use billing::ledger::{BillingState as Seen, LedgerBeat, Sighting, TimeSpan};
use model::money::{Amount, Rate};

use crate::story::{LedgerStory, LifeEnd, ResourceLife};

/// By team; `None` is no team.
pub(crate) type Costs = BTreeMap<Option<String>, u128>;

/// What the beats that arrived say of a life, by their moments: whether they saw it running, its team and its tariff.
fn sightings<'a>(life: &'a ResourceLife, arrived: &'a [LedgerBeat]) -> impl Iterator<Item = (i64, &'a Sighting)> {
    let is_life = |item: &&Sighting| item.resource.as_str() == life.id && item.began.as_second() == life.began;
    let beats = arrived.iter().map(|beat| (beat.at.as_second(), &beat.items));
    beats.flat_map(move |(at, items)| items.iter().filter(is_life).map(move |item| (at, item)))
}

/// Micro-USD per hour, summed over seconds, by those beats: the first observation counts from the beginning, and a change from the beat that saw
/// it. A run that was never seen running is charged by the observation of its end.
pub(crate) fn costs(story: &LedgerStory, life: &ResourceLife, arrived: &[LedgerBeat], window: TimeSpan) -> Costs {
    let mut costs = Costs::new();
    let end = life.end.unwrap_or(story.until);
    let took_back = life.spot && matches!(life.ending, LifeEnd::Reclaimed | LifeEnd::ReclaimedUnsaid);
    if took_back && life.end.is_some() && end - life.began < 3600 {
        return costs;
    }
    let to_figure = |(at, item): (i64, &Sighting)| {
        let team = item.facts.team.as_ref().map(ToString::to_string);
        (at, team, item.facts.tariff.as_str()["type ".len()..].parse::<usize>().unwrap())
    };
    let mut figures: Vec<_> =
        sightings(life, arrived).filter(|(_, item)| item.life == Seen::Live).map(to_figure).collect();
    figures.sort();
    if figures.is_empty() {
        figures = sightings(life, arrived).min_by_key(|(at, _)| *at).map(to_figure).into_iter().collect();
    }
    let unobserved = (life.began, None, life.tariff);
    let until = if life.volume { end } else { end.max(life.began + 60) };
    for second in life.began.max(window.from.as_second())..until.min(window.to.as_second()) {
        let (_, team, tariff) =
            figures.iter().rev().find(|(at, ..)| *at <= second).or(figures.first()).unwrap_or(&unobserved);
        let (_, rate) = story.prices[*tariff].iter().rev().find(|(from, _)| *from <= second).unwrap();
        *costs.entry(team.clone()).or_default() += u128::from(*rate);
    }
    costs
}

/// The same as an amount.
pub(crate) fn amount(sum: u128) -> Amount {
    Amount::from_rate(Rate::from_usd_micros_per_hour(1), u64::try_from(sum).unwrap())
}

/// What the arrived beats reported of a run.
#[derive(Debug)]
pub(crate) struct LifeEvidence {
    /// One saw it running at a time that concerns the window.
    pub(crate) seen_live: bool,
    /// Its type was not observed before it was changed for the next start.
    pub(crate) type_unseen: bool,
    /// They reported everything about it in the window.
    pub(crate) end: bool,
}

pub(crate) fn is_told(life: &ResourceLife, arrived: &[LedgerBeat], window: TimeSpan) -> LifeEvidence {
    let all: Vec<(i64, Seen, String)> =
        sightings(life, arrived).map(|(at, item)| (at, item.life, tariff_of(item))).collect();
    let lives = all.iter().filter(|(_, seen, _)| *seen == Seen::Live).map(|(at, ..)| *at);
    let last_live = lives.clone().max().unwrap_or(life.began);
    let (from, to) = (window.from.as_second(), window.to.as_second());
    let says = |wanted: bool| {
        all.iter()
            .any(|(_, seen, _)| matches!(seen, Seen::Ended { at: Some(_), terminated, .. } if *terminated == wanted))
    };
    // It was stopped: that is exact. It was terminated: if it was seen running within the hour before.
    let end =
        life.end.is_some_and(|end| says(false) || says(true) && !life.stopped_before() && end - last_live <= 3600);
    // Running until the window ended, and beyond.
    let spans = lives.clone().any(|at| at >= to);
    let first = all.iter().min_by_key(|(at, ..)| *at);
    let type_unseen =
        lives.clone().next().is_none() && first.is_some_and(|(.., tariff)| *tariff != format!("type {}", life.tariff));
    LifeEvidence { type_unseen, seen_live: lives.clone().any(|at| at >= from), end: end || spans }
}

fn tariff_of(item: &Sighting) -> String {
    item.facts.tariff.as_str().to_owned()
}
