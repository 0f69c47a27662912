//! A month of 10,000 runs: `cargo test --release -p domain --test ledger size -- --nocapture` prints the figures.

use std::time::Instant;

use domain::ledger::{Beat, Facts, Kind, Ledger, Life, Month, Sighting, Tariff, Terms};
use domain::money::Rate;
use jiff::{SignedDuration, Timestamp};

use crate::story::{berlin, region};

const RUNS: usize = 10_000;
const RUNNING: usize = 400;
/// What a function of 128 MB has room for many times over, and less than a third of the largest document that is read. Most of it is
/// what people look for in each run.
const BYTES_MAX: usize = 5_000_000;

fn sighting(number: usize, began: Timestamp, life: Life, day: Timestamp) -> Sighting {
    let kind = ["g5.xlarge", "g6e.12xlarge", "p5.48xlarge", "g4dn.xlarge"][number % 4];
    let zone = ["a", "b", "c"][number % 3];
    let spot = number.is_multiple_of(2);
    let how = if spot { format!("on Spot in eu-central-1{zone}") } else { "on demand".to_owned() };
    Sighting {
        resource: format!("i-{number:017x}").as_str().into(),
        began,
        facts: Facts {
            kind: Kind::Instance,
            team: Some(format!("team-{}", number % 20).as_str().into()),
            owner: Some(format!("person-{}@example.com", number % 100)),
            name: Some(format!("train-{number}")),
            what: kind.to_owned(),
            terms: if spot { Terms::Spot } else { Terms::OnDemand },
            job: spot.then(|| format!("team-{}/llama-{number:08x}", number % 20)),
            attached_to: None,
            tariff: Tariff::new(format!("{kind} {how}")),
        },
        life,
        prices: vec![(day, Rate::from_usd_micros_per_hour(1_006_000))],
    }
}

/// A beat in which the newest of so many runs live, and the ones before them have ended.
fn beat(at: Timestamp, begun: usize, month: &Month) -> Beat {
    let from = month.span().from;
    let each = i64::try_from(month.span().seconds()).unwrap() / i64::try_from(RUNS).unwrap();
    let launch = |number: usize| from + SignedDuration::from_secs(each * i64::try_from(number).unwrap());
    let day = from + SignedDuration::from_hours(at.duration_since(from).as_hours() / 24 * 24);
    let items = (begun.saturating_sub(RUNNING + 20)..begun).map(|number| {
        let end = launch(number + RUNNING);
        let ended = Life::Ended { at: Some(end), terminated: true, reclaimed: false };
        let life = if end <= at { ended } else { Life::Live };
        sighting(number, launch(number), life, day)
    });
    Beat { at, region: region(), whole: true, items: items.collect() }
}

#[test]
fn size_and_time_of_a_month_of_ten_thousand_runs() {
    let month = Month::read("2026-10", &berlin()).unwrap();
    let mut ledger = Ledger::new(&month, &region());
    let span = month.span();
    let mut at = span.from;
    let started = Instant::now();
    let mut beats = 0;
    while at < span.to {
        let done = usize::try_from(at.duration_since(span.from).as_secs()).unwrap();
        let begun = done * RUNS / usize::try_from(span.seconds()).unwrap();
        ledger.observe(&beat(at, begun.min(RUNS), &month));
        at += SignedDuration::from_mins(15);
        beats += 1;
    }
    let observed = started.elapsed();
    let started = Instant::now();
    let text = serde_json::to_vec(&ledger).unwrap();
    let written = started.elapsed();
    let started = Instant::now();
    let read: Ledger = serde_json::from_slice(&text).unwrap();
    let read_in = started.elapsed();
    let started = Instant::now();
    let spent: domain::ledger::Spent = read.runs().map(|run| run.spent(span)).sum();
    let summed = started.elapsed();
    let runs = read.runs().count();
    println!(
        "{runs} runs, {beats} beats: {} bytes, {} a run; a beat {:?}, write {written:?}, read {read_in:?}, sum {summed:?}",
        text.len(),
        text.len() / runs,
        observed / beats,
    );
    assert_eq!(read, ledger);
    assert!(runs > RUNS - 10 && spent.amount > domain::money::Amount::ZERO);
    assert!(text.len() < BYTES_MAX, "{} bytes", text.len());
}
