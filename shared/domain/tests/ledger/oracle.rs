//! What a life truly cost, by other words: second after second, each at the price of that second. Asks nothing of the ledger.

use domain::ledger::{Beat, Life as Seen, Span};
use domain::money::{Amount, Rate};

use crate::story::{Ending, Life, Story};

/// Micro-USD per hour, summed over seconds.
pub(crate) fn cost(story: &Story, life: &Life, window: Span) -> u128 {
    let end = life.end.unwrap_or(story.until);
    let took_back = life.spot && matches!(life.ending, Ending::Reclaimed | Ending::ReclaimedUnsaid);
    if took_back && life.end.is_some() && end - life.began < 3600 {
        return 0;
    }
    let until = if life.volume { end } else { end.max(life.began + 60) };
    let mut sum = 0;
    for second in life.began.max(window.from.as_second())..until.min(window.to.as_second()) {
        let (_, rate) = story.prices[life.tariff].iter().rev().find(|(from, _)| *from <= second).unwrap();
        sum += u128::from(*rate);
    }
    sum
}

/// The same as an amount.
pub(crate) fn amount(sum: u128) -> Amount {
    Amount::of(Rate::from_usd_micros_per_hour(1), u64::try_from(sum).unwrap())
}

/// What the beats that arrived told of a life.
#[derive(Debug)]
pub(crate) struct Told {
    /// One saw it running at a time that concerns the window.
    pub(crate) seen_live: bool,
    /// Nobody saw its type before it was changed for the next life.
    pub(crate) type_unseen: bool,
    /// They told all that there is to know of it in the window.
    pub(crate) end: bool,
}

pub(crate) fn is_told(life: &Life, arrived: &[Beat], window: Span) -> Told {
    let sightings = arrived.iter().flat_map(|beat| {
        let of_it = |item: &&domain::ledger::Sighting| {
            item.resource.as_str() == life.id && item.began.as_second() == life.began
        };
        beat.items.iter().filter(of_it).map(|item| (beat.at.as_second(), item.life, tariff_of(item)))
    });
    let all: Vec<(i64, Seen, String)> = sightings.collect();
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
        lives.clone().next().is_none() && first.is_some_and(|(.., of)| *of != format!("type {}", life.tariff));
    Told { type_unseen, seen_live: lives.clone().any(|at| at >= from), end: end || spans }
}

fn tariff_of(item: &domain::ledger::Sighting) -> String {
    item.facts.tariff.as_str().to_owned()
}
