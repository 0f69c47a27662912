use model::id::TeamName;

use super::*;

/// Folds each run that may be folded.
const ALL: FoldLimits = FoldLimits { bytes_max: 0, settled_after: SignedDuration::from_hours(1) };

/// Of each team, what is known and what is uncertain, in tenths of a cent, until noon.
fn teams(ledger: &Ledger) -> String {
    let until_noon = TimeSpan { to: moment("12:00"), ..november().span() };
    let runs: Vec<LedgerRun<'_>> = ledger.runs().collect();
    let kept =
        runs.iter().flat_map(|run| run.shares(until_noon).into_iter().map(|one| (one.team, run.spent(one.span))));
    let folded = ledger.folded().map(|(key, sum)| (key.team.as_ref(), sum.spent));
    let mut sums: BTreeMap<&str, RunCost> = BTreeMap::new();
    for (team, spent) in kept.chain(folded) {
        let sum = sums.entry(team.map_or("no team", TeamName::as_str)).or_default();
        *sum = *sum + spent;
    }
    let thousandths = |amount: model::money::Amount| amount.usd_micros() / 1_000;
    let words = sums
        .iter()
        .map(|(team, spent)| format!("{team} {}+{}", thousandths(spent.amount), thousandths(spent.uncertain)));
    words.collect::<Vec<_>>().join(", ")
}

/// A ledger that folds after each of these beats, and sees all of them again in the end; and whether it folded any run.
fn check(beats: &[LedgerBeat], expect: &str, folds: bool) {
    let mut folding = ledger(&[]);
    let mut has_folded = false;
    for beat in beats {
        folding.observe(beat);
        has_folded |= folding.fold(&ALL);
    }
    for beat in beats {
        folding.observe(beat);
    }
    assert_eq!((teams(&folding), teams(&ledger(beats)), has_folded), (expect.to_owned(), expect.to_owned(), folds));
}

fn run(resource: &str, team: &str, began: &str, life: BillingState) -> Sighting {
    let plain = sighting(life);
    let facts = RunFacts { team: Some(team.into()), ..plain.facts.clone() };
    Sighting { resource: resource.into(), began: moment(began), facts, ..plain }
}

fn short(team: &str) -> Sighting {
    run("i-1", team, "06:00", stopped("06:10"))
}

#[test]
fn a_run_is_folded_once_a_whole_beat_after_its_end_is_settled() {
    let beats = [beat("06:15", vec![short("vision")]), beat("07:14", vec![])];
    check(&beats, "vision 600+0", false);
    check(&[beats[0].clone(), beat("07:15", vec![])], "vision 600+0", true);
    // A look begins within five minutes of the end: it may not show yet what began just before.
    let soon = LedgerBeat { at: moment("06:14"), ..beats[0].clone() };
    check(&[soon, beat("07:30", vec![])], "vision 600+0", false);
    let partial = LedgerBeat { whole: false, ..beats[0].clone() };
    check(&[partial, beat("07:30", vec![])], "vision 600+0", false);
}

#[test]
fn rates_are_kept_as_long_as_a_run_has_them() {
    let mut ledger = ledger(&[beat("06:15", vec![short("vision")]), beat("07:15", vec![])]);
    assert_eq!(ledger.rates.len(), 1);
    assert!(ledger.fold(&ALL));
    assert_eq!(ledger.rates.len(), 0);
}

#[test]
fn a_run_that_is_seen_first_long_after_its_end_waits_for_late_beats() {
    check(&[beat("09:00", vec![short("nlp")]), beat("08:40", vec![short("vision")])], "vision 600+0", false);
    let settles = [beat("09:00", vec![short("nlp")]), beat("08:40", vec![short("vision")]), beat("10:00", vec![])];
    check(&settles, "vision 600+0", true);
}

#[test]
fn a_run_seen_only_by_a_late_beat_is_not_taken_for_folded() {
    // From 05:45 to 09:00 no beat arrives in time: i-1 ends, and i-2 begins before that and ends after it.
    let beats = [
        beat("05:45", vec![run("i-1", "vision", "05:30", BillingState::Live)]),
        beat("09:00", vec![run("i-1", "vision", "05:30", stopped("07:00"))]),
        beat(
            "08:40",
            vec![
                run("i-1", "vision", "05:30", stopped("07:00")),
                run(
                    "i-2",
                    "nlp",
                    "06:58",
                    BillingState::Ended { at: Some(moment("07:55")), terminated: true, reclaimed: false },
                ),
            ],
        ),
    ];
    check(&beats, "nlp 3420+0, vision 5400+0", false);
}

#[test]
fn a_volume_that_was_seen_beyond_its_last_attachment_is_not_counted_again() {
    let volume = |began, life| {
        let plain = run("vol-1", "vision", began, life);
        Sighting { facts: RunFacts { kind: RunKind::Volume, ..plain.facts.clone() }, ..plain }
    };
    let beats = [
        beat("07:00", vec![volume("06:00", BillingState::Live)]),
        beat("07:15", vec![volume("06:30", BillingState::Live)]),
        beat("07:30", vec![]),
        beat("08:30", vec![]),
    ];
    check(&beats, "vision 4500+960", true);
}
