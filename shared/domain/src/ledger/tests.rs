use super::*;
use crate::fixture::time;
use jiff::tz::TimeZone;

fn november() -> Month {
    Month::read("2026-11", &TimeZone::UTC).unwrap()
}

fn facts() -> Facts {
    Facts {
        kind: Kind::Instance,
        team: Some("vision".into()),
        owner: Some("ada".to_owned()),
        name: None,
        what: "g5.xlarge".to_owned(),
        terms: Terms::OnDemand,
        job: None,
        attached_to: None,
        tariff: Tariff::new("g5.xlarge on-demand"),
    }
}

/// On the tenth, an instance launched at ten, at $3.60 an hour: a tenth of a cent a second.
fn sighting(life: Life) -> Sighting {
    Sighting {
        resource: "i-1".into(),
        began: at("10:00"),
        facts: facts(),
        life,
        prices: vec![(time("2026-09-24T00:00:00Z"), Rate::from_usd_micros_per_hour(3_600_000))],
    }
}

fn at(clock: &str) -> Timestamp {
    time(&format!("2026-11-10T{clock}:00Z"))
}

fn beat(clock: &str, items: Vec<Sighting>) -> Beat {
    Beat { at: at(clock), region: "us-east-1".into(), whole: true, items }
}

fn ledger(beats: &[Beat]) -> Ledger {
    let mut ledger = Ledger::new(&november(), &"us-east-1".into());
    for beat in beats {
        ledger.observe(beat);
    }
    ledger
}

fn stopped(clock: &str) -> Life {
    Life::Ended { at: Some(at(clock)), terminated: false, reclaimed: false }
}

/// Known and uncertain, in tenths of a cent, until noon.
fn check(beats: Vec<Beat>, expect: (u64, u64)) {
    let until_noon = Span { to: at("12:00"), ..november().span() };
    let spent: Spent = ledger(&beats).runs().map(|run| run.spent(until_noon)).sum();
    let thousandths = |amount: crate::money::Amount| amount.usd_micros() / 1_000;
    assert_eq!((thousandths(spent.amount), thousandths(spent.uncertain)), expect);
}

#[test]
fn what_is_seen_running_costs_until_it_was_seen_and_perhaps_since() {
    check(vec![beat("10:15", vec![sighting(Life::Live)])], (900, 6_300));
    check(vec![beat("12:00", vec![sighting(Life::Live)])], (7_200, 0));
}

#[test]
fn an_end_that_ec2_names_is_exact_and_one_that_nobody_saw_is_not() {
    let seen = beat("10:15", vec![sighting(Life::Live)]);
    check(vec![seen.clone(), beat("10:30", vec![sighting(stopped("10:20"))])], (1_200, 0));
    check(vec![seen, beat("10:30", vec![])], (900, 900));
}
