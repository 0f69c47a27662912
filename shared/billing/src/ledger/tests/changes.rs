//! Tags, sizes and prices that change during a run.

use model::id::TeamName;

use super::*;

fn sighting_of_team(team: &str) -> Sighting {
    let plain = sighting(BillingState::Live);
    Sighting { facts: RunFacts { team: Some(team.into()), ..plain.facts.clone() }, ..plain }
}

/// The amounts of each payer until noon, in tenths of a cent, known and uncertain, in order.
fn shares(ledger: &Ledger) -> String {
    let until_noon = TimeSpan { to: moment("12:00"), ..november().span() };
    let thousandths = |amount: model::money::Amount| amount.usd_micros() / 1_000;
    let runs: Vec<LedgerRun<'_>> = ledger.runs().collect();
    let shares = runs.iter().flat_map(|run| run.shares(until_noon).into_iter().map(move |share| (run, share)));
    let words = shares.map(|(run, share)| {
        let spent = run.spent(share.span);
        let (team, what) = (share.team.map_or("no team", TeamName::as_str), share.what);
        format!("{team} {what} {}+{}", thousandths(spent.amount), thousandths(spent.uncertain))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// In every order of these beats, and with each of them twice.
fn check_shares(beats: &[LedgerBeat], expect: &str) {
    let doubled: Vec<LedgerBeat> = beats.iter().chain(beats).cloned().collect();
    let mut documents = Vec::new();
    for first in 0..beats.len() {
        let turned = [&doubled[first..], &doubled[..first]].concat();
        let reversed: Vec<LedgerBeat> = turned.iter().rev().cloned().collect();
        documents.extend([ledger(&turned), ledger(&reversed)]);
    }
    for found in documents {
        assert_eq!(found, ledger(beats));
        let read: Ledger = serde_json::from_value(document(&found)).unwrap();
        assert_eq!(read, found);
        assert_eq!(shares(&read), expect);
    }
}

#[test]
fn a_retag_counts_from_the_beat_that_saw_it() {
    let seen = |clock, team| beat(clock, vec![sighting_of_team(team)]);
    // What the first beat saw counts from launch.
    check_shares(&[seen("11:00", "vision")], "vision g5.xlarge 3600+3600");
    check_shares(&[seen("11:00", "vision"), seen("12:00", "nlp")], "vision g5.xlarge 7200+0, nlp g5.xlarge 0+0");
    check_shares(
        &[seen("10:15", "vision"), seen("10:30", "nlp"), seen("11:00", "nlp")],
        "vision g5.xlarge 1800+0, nlp g5.xlarge 1800+3600",
    );
    check_shares(
        &[seen("10:15", "vision"), seen("10:30", "nlp"), seen("10:45", "vision"), seen("11:00", "vision")],
        "vision g5.xlarge 1800+0, nlp g5.xlarge 900+0, vision g5.xlarge 900+3600",
    );
    let run_of = |ledger: &Ledger| ledger.runs().next().map(|run| (run.is_running(), run.rate_now())).unwrap();
    let late = ledger(&[seen("11:00", "nlp"), seen("10:15", "vision")]);
    assert_eq!(run_of(&late), (true, Some(Rate::from_usd_micros_per_hour(3_600_000))));
}

#[test]
fn a_beat_that_did_not_see_a_run_says_nothing_of_its_tags() {
    let partial = |clock| LedgerBeat { whole: false, ..beat(clock, vec![]) };
    let beats = [
        beat("10:15", vec![sighting_of_team("vision")]),
        beat("10:30", vec![sighting_of_team("nlp")]),
        partial("10:45"),
        beat("11:00", vec![sighting_of_team("vision")]),
    ];
    check_shares(&beats, "vision g5.xlarge 1800+0, nlp g5.xlarge 1800+0, vision g5.xlarge 0+3600");
}

#[test]
fn a_volume_that_is_modified_while_it_is_attached_costs_more_from_then_on() {
    let volume = |size: &str, usd_micros| {
        let plain = sighting(BillingState::Live);
        let facts =
            RunFacts { kind: RunKind::Volume, what: size.to_owned(), tariff: Tariff::new(size), ..plain.facts.clone() };
        let prices = vec![(time("2026-09-24T00:00:00Z"), Rate::from_usd_micros_per_hour(usd_micros))];
        Sighting { resource: "vol-1".into(), facts, prices, ..plain }
    };
    let beats = [
        beat("10:30", vec![volume("100 GiB gp3", 360_000)]),
        beat("11:00", vec![volume("1000 GiB gp3", 3_600_000)]),
        beat("12:00", vec![volume("1000 GiB gp3", 3_600_000)]),
    ];
    check_shares(&beats, "vision 1000 GiB gp3 3960+0");
}

#[test]
fn a_retag_in_every_beat_does_not_grow_the_document() {
    let minutes = |minutes: i64| moment("10:00") + SignedDuration::from_mins(minutes);
    let beats: Vec<LedgerBeat> = (0..500_i32)
        .map(|nth| LedgerBeat {
            at: minutes(nth.into()),
            ..beat("10:00", vec![sighting_of_team(if nth % 2 == 0 { "vision" } else { "nlp" })])
        })
        .collect();
    let ledger = ledger(&beats);
    assert!(document(&ledger)["runs"][0].to_string().len() < 2_000);
    // No team pays for another's part: beyond the limit of changes the rest has no team.
    let noon = shares(&ledger);
    assert!(noon.ends_with("vision g5.xlarge 60+0, no team g5.xlarge 6180+0"), "{noon}");
    assert_eq!(noon.matches("vision").count(), 9, "{noon}");
    // That lasts until the next month.
    let mut december = Ledger::new(&november().next(), &"us-east-1".into());
    december.carry(&ledger);
    let first = LedgerBeat { at: time("2026-12-01T00:15:00Z"), ..beat("10:00", vec![sighting_of_team("nlp")]) };
    december.observe(&first);
    let teams = |ledger: &Ledger| {
        let run = ledger.runs().next().unwrap();
        run.shares(ledger.span()).iter().map(|share| share.team.cloned()).collect::<Vec<_>>()
    };
    assert_eq!(teams(&december), [None, Some("nlp".into())]);
}

#[test]
fn a_retag_over_the_end_of_a_month_counts_from_the_first_beat_of_the_next() {
    let turn = time("2026-12-01T00:00:00Z");
    let minutes = |minutes, team| LedgerBeat {
        at: turn + SignedDuration::from_mins(minutes),
        ..beat("10:15", vec![sighting_of_team(team)])
    };
    let mut november = ledger(&[minutes(-30, "nlp"), minutes(-10, "vision")]);
    let mut december = Ledger::new(&CalendarMonth::read("2026-12", &TimeZone::UTC).unwrap(), &"us-east-1".into());
    for beat in [minutes(20, "nlp"), minutes(40, "nlp")] {
        november.observe(&beat);
        december.carry(&november);
        december.observe(&beat);
    }
    let read: Ledger = serde_json::from_value(document(&december)).unwrap();
    assert_eq!(read, december);
    let run = read.runs().next().unwrap();
    let minutes = run.shares(TimeSpan { to: turn + SignedDuration::from_mins(40), ..read.span() });
    let minutes = minutes.iter().map(|share| (share.team.map(TeamName::as_str), share.span.seconds() / 60));
    assert_eq!(minutes.collect::<Vec<_>>(), [(Some("vision"), 20), (Some("nlp"), 20)]);
}
