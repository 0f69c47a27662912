//! A month of 10,000 runs, and one with enough runs for a fold: `cargo test --release -p billing --test ledger size -- --nocapture` prints the
//! figures.

use std::time::Instant;

use billing::budget::{LedgerSpends, ReservationTimes};
use billing::ledger::{
    BillingState, CalendarMonth, FoldLimits, Ledger, LedgerBeat, PurchaseTerms, RunFacts, RunKind, Sighting, Tariff,
};
use jiff::{SignedDuration, Timestamp};
use model::money::Rate;

use crate::story::{berlin, region};

const RUNS: usize = 10_000;
const RUNNING: usize = 400;
/// Fewer beats than a deployment's, every 15 minutes: each run is still seen while it runs, and once after it.
const BEAT_MINUTES: i64 = 240;
/// At least as many runs end between two beats.
const ENDED: usize = 60;
/// What a function of 128 MB has room for many times over, and less than a third of the largest document that is read. Most of it is
/// what people look for in each run.
const BYTES_MAX: usize = 5_000_000;

/// A number that the environment may set.
#[expect(clippy::disallowed_methods, reason = "the environment sets the size of the measurement")]
fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn sighting(number: usize, began: Timestamp, life: BillingState, day: Timestamp) -> Sighting {
    let kind = ["g5.xlarge", "g6e.12xlarge", "p5.48xlarge", "g4dn.xlarge"][number % 4];
    let zone = ["a", "b", "c"][number % 3];
    let spot = number.is_multiple_of(2);
    let how = if spot { format!("on Spot in eu-central-1{zone}") } else { "on demand".to_owned() };
    Sighting {
        resource: format!("i-{number:017x}").as_str().into(),
        began,
        facts: RunFacts {
            kind: RunKind::Instance,
            team: Some(format!("team-{}", number % 20).as_str().into()),
            owner: Some(format!("person-{}@example.com", number % 100)),
            name: Some(format!("train-{number}")),
            what: kind.to_owned(),
            terms: if spot { PurchaseTerms::Spot } else { PurchaseTerms::OnDemand },
            job: spot.then(|| format!("team-{}/llama-{number:08x}", number % 20)),
            attached_to: None,
            tariff: Tariff::new(format!("{kind} {how}")),
        },
        life,
        prices: vec![(day, Rate::from_usd_micros_per_hour(1_006_000))],
    }
}

/// A beat in which the newest of the runs are running, and the earlier ones have ended.
fn beat(at: Timestamp, begun: usize, month: &CalendarMonth) -> LedgerBeat {
    let from = month.span().from;
    let each = i64::try_from(month.span().seconds()).unwrap() / i64::try_from(RUNS).unwrap();
    let launch = |number: usize| from + SignedDuration::from_secs(each * i64::try_from(number).unwrap());
    let day = from + SignedDuration::from_hours(at.duration_since(from).as_hours() / 24 * 24);
    let items = (begun.saturating_sub(RUNNING + ENDED)..begun).map(|number| {
        let end = launch(number + RUNNING);
        let ended = BillingState::Ended { at: Some(end), terminated: true, reclaimed: false };
        let life = if end <= at { ended } else { BillingState::Live };
        sighting(number, launch(number), life, day)
    });
    LedgerBeat { at, region: region(), whole: true, items: items.collect(), unread: std::collections::BTreeSet::new() }
}

#[test]
fn size_and_time_of_a_month_of_ten_thousand_runs() {
    let month = CalendarMonth::read("2026-10", &berlin()).unwrap();
    let mut ledger = Ledger::new(&month, &region());
    let span = month.span();
    let between = SignedDuration::from_mins(setting("BEAT_MINUTES", BEAT_MINUTES));
    let mut at = span.from;
    let started = Instant::now();
    let mut beats = 0;
    while at < span.to {
        let done = usize::try_from(at.duration_since(span.from).as_secs()).unwrap();
        let begun = done * RUNS / usize::try_from(span.seconds()).unwrap();
        ledger.observe(&beat(at, begun.min(RUNS), &month));
        at += between;
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
    let spent: billing::ledger::RunCost = read.runs().map(|run| run.spent(span)).sum();
    let summed = started.elapsed();
    let runs = read.runs().count();
    println!(
        "{runs} runs, {beats} beats: {} bytes, {} a run; a beat {:?}, write {written:?}, read {read_in:?}, sum {summed:?}",
        text.len(),
        text.len() / runs,
        observed / beats,
    );
    assert_eq!(read, ledger);
    assert!(runs >= RUNS - ENDED && spent.amount > model::money::Amount::ZERO);
    assert!(text.len() < BYTES_MAX, "{} bytes", text.len());
}

/// 100,000 by `RUNS=100000 cargo test --release -p billing --test ledger folded -- --nocapture`.
#[test]
fn a_month_of_more_runs_than_are_kept_is_folded_and_stays_readable() {
    let runs = setting("RUNS", 2_000);
    let month = CalendarMonth::read("2026-10", &berlin()).unwrap();
    let limits =
        if runs > RUNS { FoldLimits::default() } else { FoldLimits { bytes_max: 300_000, ..FoldLimits::default() } };
    let mut ledger = Ledger::new(&month, &region());
    let (span, minute) = (month.span(), SignedDuration::from_mins(1));
    let launch = |number: usize| span.from + minute * i32::try_from(number * 44_000 / runs).unwrap();
    // Each ran an hour, and every beat of a day shows all that ended on it.
    for day in 1..=31_usize {
        let at = (span.from + SignedDuration::from_hours(24) * i32::try_from(day).unwrap()).min(span.to);
        let day_runs =
            (0..runs).filter(|number| launch(*number) < at && launch(*number) >= at - SignedDuration::from_hours(26));
        let items = day_runs.map(|number| {
            let end = launch(number) + SignedDuration::from_hours(1);
            let ended = BillingState::Ended { at: Some(end), terminated: false, reclaimed: false };
            sighting(number, launch(number), if end <= at { ended } else { BillingState::Live }, span.from)
        });
        ledger.observe(&LedgerBeat {
            at,
            region: region(),
            whole: true,
            items: items.collect(),
            unread: std::collections::BTreeSet::new(),
        });
        ledger.fold(&limits);
    }
    let started = Instant::now();
    let text = serde_json::to_vec(&ledger).unwrap();
    let written = started.elapsed();
    let started = Instant::now();
    let read: Ledger = serde_json::from_slice(&text).unwrap();
    let read_in = started.elapsed();
    let started = Instant::now();
    let mut spends = LedgerSpends::default();
    spends.add_region(Some(&read), None, &ReservationTimes::default(), span.to);
    let summed = started.elapsed();
    let kept = read.runs().count();
    println!("{runs} runs, {kept} kept: {} bytes; write {written:?}, read {read_in:?}, sum {summed:?}", text.len());
    assert_eq!(read, ledger);
    assert!(kept < runs && text.len() < 2 * limits.bytes_max, "{kept} of {} bytes", text.len());
    let hours: model::money::Amount = spends.current.iter().map(|one| one.spent).sum();
    let at_most = model::money::Amount::from_rate(
        Rate::from_usd_micros_per_hour(1_006_000),
        u64::try_from(runs).unwrap() * 3_600,
    );
    assert!(hours <= at_most && hours.scaled(101, 100) > at_most, "{hours} of {at_most}");
    assert!(spends.current.len() < 5_000, "{}", spends.current.len());
}
