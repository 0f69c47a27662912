mod changes;
mod fold;

use jiff::tz::TimeZone;
use model::fixture::time;

use crate::budget::LedgerSpends;

use super::*;

fn november() -> CalendarMonth {
    CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap()
}

fn facts() -> RunFacts {
    RunFacts {
        kind: RunKind::Instance,
        team: Some("vision".into()),
        owner: Some("ada".to_owned()),
        name: None,
        what: "g5.xlarge".to_owned(),
        terms: PurchaseTerms::OnDemand,
        job: None,
        attached_to: None,
        tariff: Tariff::new("g5.xlarge on-demand"),
    }
}

/// On the tenth, an instance launched at ten, at $3.60 an hour: a tenth of a cent a second.
fn sighting(life: BillingState) -> Sighting {
    Sighting {
        resource: "i-1".into(),
        began: moment("10:00"),
        facts: facts(),
        life,
        prices: vec![(time("2026-09-24T00:00:00Z"), Rate::from_usd_micros_per_hour(3_600_000))],
    }
}

fn moment(clock: &str) -> Timestamp {
    time(&format!("2026-11-10T{clock}:00Z"))
}

fn beat(clock: &str, items: Vec<Sighting>) -> LedgerBeat {
    LedgerBeat {
        at: moment(clock),
        region: "us-east-1".into(),
        whole: true,
        items,
        unread: std::collections::BTreeSet::new(),
    }
}

fn ledger(beats: &[LedgerBeat]) -> Ledger {
    let mut ledger = Ledger::new(&november(), &"us-east-1".into());
    for beat in beats {
        ledger.observe(beat);
    }
    ledger
}

fn stopped(clock: &str) -> BillingState {
    BillingState::Ended { at: Some(moment(clock)), terminated: false, reclaimed: false }
}

#[test]
fn a_volume_is_spent_on_the_instance_that_it_is_attached_to() {
    let facts = RunFacts { kind: RunKind::Volume, attached_to: Some("i-1".into()), ..facts() };
    let volume = Sighting { resource: "vol-1".into(), facts, ..sighting(BillingState::Live) };
    let ledger = ledger(&[beat("10:15", vec![sighting(BillingState::Live), volume])]);
    let spends = LedgerSpends::from_ledgers(&[ledger], &[], [], moment("10:15")).current;
    let on = spends.iter().map(|spend| (spend.resource.as_str(), spend.on.as_ref().map(ResourceId::as_str)));
    assert_eq!(on.collect::<Vec<_>>(), [("i-1", None), ("vol-1", Some("i-1"))]);
}

/// Known and uncertain, in tenths of a cent, until noon.
fn check(beats: Vec<LedgerBeat>, expect: (u64, u64)) {
    let until_noon = TimeSpan { to: moment("12:00"), ..november().span() };
    let spent: RunCost = ledger(&beats).runs().map(|run| run.spent(until_noon)).sum();
    let thousandths = |amount: model::money::Amount| amount.usd_micros() / 1_000;
    assert_eq!((thousandths(spent.amount), thousandths(spent.uncertain)), expect);
}

#[test]
fn a_running_instance_costs_until_it_was_seen_and_perhaps_since() {
    check(vec![beat("10:15", vec![sighting(BillingState::Live)])], (900, 6_300));
    check(vec![beat("12:00", vec![sighting(BillingState::Live)])], (7_200, 0));
}

#[test]
fn an_end_named_by_ec2_is_exact_and_an_unobserved_one_is_not() {
    let seen = beat("10:15", vec![sighting(BillingState::Live)]);
    check(vec![seen.clone(), beat("10:30", vec![sighting(stopped("10:20"))])], (1_200, 0));
    // The look that begins at half past takes a minute.
    check(vec![seen, beat("10:30", vec![])], (900, 960));
}

#[test]
fn a_look_that_was_not_whole_ends_nothing() {
    let seen = beat("10:15", vec![sighting(BillingState::Live)]);
    check(vec![seen, LedgerBeat { whole: false, ..beat("10:30", vec![]) }], (900, 6_300));
}

#[test]
fn a_run_of_the_previous_month_continues_until_it_is_seen_gone() {
    let turn = time("2026-12-01T00:00:00Z");
    let minutes = |minutes| turn + SignedDuration::from_mins(minutes);
    let mut november = ledger(&[LedgerBeat { at: minutes(-10), ..beat("10:15", vec![sighting(BillingState::Live)]) }]);
    let gone = LedgerBeat { at: minutes(15), ..beat("10:15", vec![]) };
    november.observe(&gone);
    let mut december = Ledger::new(&CalendarMonth::read("2026-12", &TimeZone::UTC).unwrap(), &"us-east-1".into());
    december.carry(&november);
    december.observe(&gone);
    let spent: RunCost = december.runs().map(|run| run.spent(december.span())).sum();
    assert_eq!((spent.amount.usd_micros(), spent.uncertain.usd_micros()), (0, 960_000));
    assert!(!december.carry(&november), "twice is once");
}

#[test]
fn a_start_costs_a_minute_at_least_and_a_volume_does_not() {
    let second = time("2026-11-10T10:00:01Z");
    let ended = BillingState::Ended { at: Some(second), terminated: true, reclaimed: false };
    check(vec![beat("10:15", vec![sighting(ended)])], (60, 0));
    let volume = |life| {
        let plain = sighting(life);
        Sighting { facts: RunFacts { kind: RunKind::Volume, ..plain.facts.clone() }, ..plain }
    };
    check(
        vec![LedgerBeat { at: second, ..beat("10:00", vec![volume(BillingState::Live)]) }, beat("10:15", vec![])],
        (1, 959),
    );
}

fn spot(life: BillingState) -> Sighting {
    let plain = sighting(life);
    Sighting { facts: RunFacts { terms: PurchaseTerms::Spot, ..plain.facts.clone() }, ..plain }
}

fn reclaimed(clock: &str) -> BillingState {
    BillingState::Ended { at: Some(moment(clock)), terminated: true, reclaimed: true }
}

#[test]
fn a_spot_run_interrupted_within_its_first_hour_is_free() {
    let seen = beat("10:45", vec![spot(BillingState::Live)]);
    check(vec![seen.clone(), beat("11:15", vec![spot(reclaimed("10:59"))])], (0, 0));
    check(vec![seen.clone(), beat("11:15", vec![spot(reclaimed("11:00"))])], (3_600, 0));
    check(vec![seen.clone(), beat("11:15", vec![spot(stopped("10:59"))])], (3_540, 0));
    // The reason and the time are unknown.
    check(vec![seen.clone(), beat("11:15", vec![])], (0, 4_560));
    let without_time = BillingState::Ended { at: None, terminated: true, reclaimed: true };
    check(vec![seen, beat("11:15", vec![spot(without_time)])], (0, 4_560));
}

#[test]
fn a_termination_is_the_end_only_of_a_run_that_was_seen_running() {
    let terminated = |clock| BillingState::Ended { at: Some(moment(clock)), terminated: true, reclaimed: false };
    let seen = beat("10:15", vec![sighting(BillingState::Live)]);
    check(vec![seen.clone(), beat("11:30", vec![sighting(terminated("11:15"))])], (4_500, 0));
    check(vec![seen.clone(), beat("11:30", vec![sighting(terminated("11:16"))])], (900, 3_660));
    // It was stopped in between, and that was seen.
    let all =
        vec![seen, beat("10:30", vec![sighting(stopped("10:20"))]), beat("11:30", vec![sighting(terminated("11:15"))])];
    check(all, (1_200, 0));
}

#[test]
fn a_price_that_is_learnt_later_held_before_unless_it_is_spot() {
    let without_price = |sighting: Sighting| Sighting { prices: vec![], ..sighting };
    let later = |sighting: Sighting| {
        let prices = vec![(moment("11:00"), sighting.prices[0].1)];
        Sighting { prices, ..sighting }
    };
    check(vec![beat("12:00", vec![without_price(sighting(BillingState::Live))])], (0, 0));
    let beats = |make: fn(BillingState) -> Sighting| {
        vec![
            beat("11:00", vec![without_price(make(BillingState::Live))]),
            beat("12:00", vec![later(make(BillingState::Live))]),
        ]
    };
    check(beats(sighting), (7_200, 0));
    check(beats(spot), (3_600, 0));
    let whole = november().span();
    let ledger = ledger(&beats(spot));
    let seconds = ledger.runs().map(|run| run.spent(TimeSpan { to: moment("12:00"), ..whole }).unpriced_seconds);
    assert_eq!(seconds.sum::<u64>(), 3_600);
}

#[test]
fn a_life_ends_where_the_next_begins_and_a_volume_on_two_instances_counts_once() {
    let next = Sighting { began: moment("11:00"), ..sighting(BillingState::Live) };
    check(vec![beat("10:15", vec![sighting(BillingState::Live)]), beat("12:00", vec![next.clone()])], (4_500, 2_700));
    check(vec![beat("12:00", vec![sighting(BillingState::Live), next])], (7_200, 0));
}

#[test]
fn long_times_without_a_beat_are_known() {
    let beats = ["10:15", "11:15", "11:30", "13:00"].map(|clock| beat(clock, vec![]));
    let blind = |clock| -> Vec<String> {
        let spans = ledger(&beats).blind(moment(clock));
        spans
            .iter()
            .map(|span| format!("{} {}", span.from.as_second() - moment("00:00").as_second(), span.seconds()))
            .collect()
    };
    assert_eq!(blind("13:30"), ["-777600 814500", "41400 5400"]);
    assert_eq!(blind("14:01"), ["-777600 814500", "41400 5400", "46800 3660"]);
}

#[test]
fn another_regions_beat_and_one_before_the_month_say_nothing() {
    let mut ledger = ledger(&[]);
    let empty = ledger.clone();
    let seen = vec![sighting(BillingState::Live)];
    assert!(!ledger.observe(&LedgerBeat { region: "eu-west-1".into(), ..beat("10:15", seen.clone()) }));
    assert!(!ledger.observe(&LedgerBeat { at: time("2026-10-31T23:59:59Z"), ..beat("10:15", seen.clone()) }));
    assert_eq!(ledger, empty);
    assert!(ledger.observe(&beat("10:15", seen.clone())));
    assert!(!ledger.observe(&beat("10:15", seen)));
}

fn document(ledger: &Ledger) -> serde_json::Value {
    serde_json::to_value(ledger).unwrap()
}

#[test]
fn the_document_says_of_each_run_all_that_is_known() {
    let seen = beat("10:15", vec![sighting(BillingState::Live)]);
    let ended = Sighting { resource: "i-2".into(), ..sighting(stopped("10:20")) };
    let text = serde_json::to_string(&ledger(&[seen, beat("10:30", vec![ended])])).unwrap();
    insta::assert_snapshot!(text, @r#"{"month":"2026-11","region":"us-east-1","from":"2026-11-01T00:00:00Z","to":"2026-12-01T00:00:00Z","beats":[1794305700,900],"rates":{"g5.xlarge on-demand":{"2026-09-24T00:00:00Z":3600000}},"runs":[{"instance":"i-1","launched_at":"2026-11-10T10:00:00Z","team":"vision","type":"g5.xlarge","lifecycle":"on-demand","tariff":"g5.xlarge on-demand","usd_per_hour":3.6,"from":"2026-11-10T10:00:00Z","until":"2026-11-10T10:15:00Z","ended":true,"usd":0.9,"owner":"ada","seen":"2026-11-10T10:15:00Z"},{"instance":"i-2","launched_at":"2026-11-10T10:00:00Z","team":"vision","type":"g5.xlarge","lifecycle":"on-demand","tariff":"g5.xlarge on-demand","usd_per_hour":3.6,"from":"2026-11-10T10:00:00Z","until":"2026-11-10T10:20:00Z","ended":true,"usd":1.2,"owner":"ada","told":"outside","at":"2026-11-10T10:30:00Z","stopped":"2026-11-10T10:20:00Z","reclaimed":false}]}"#);
}

#[test]
fn derived_fields_are_not_read_back() {
    let ledger = ledger(&[beat("10:15", vec![sighting(BillingState::Live)])]);
    let mut changed = document(&ledger);
    for (field, value) in [("from", "soon"), ("until", "later"), ("ended", "perhaps"), ("usd_per_hour", "much")] {
        changed["runs"][0][field] = value.into();
    }
    changed["runs"][0]["usd"] = serde_json::Value::Null;
    assert_eq!(serde_json::from_value::<Ledger>(changed.clone()).unwrap(), ledger);
    changed["runs"][0]["volume"] = "vol-1".into();
    assert!(serde_json::from_value::<Ledger>(changed).is_err());
    let empty = Ledger::default();
    assert_eq!(serde_json::from_value::<Ledger>(document(&empty)).unwrap(), empty);
}

/// Of the only run: `from`, `until`, `ended`, `usd_per_hour` and `usd`.
fn check_row(ledger: &Ledger, expect: &str) {
    let row = &document(ledger)["runs"][0];
    let fields = ["from", "until", "ended", "usd_per_hour", "usd"].map(|field| row[field].to_string());
    assert_eq!(fields.join(" ").replace('"', ""), expect);
}

#[test]
fn the_document_says_from_when_until_when_at_which_rate() {
    let live = || beat("10:15", vec![sighting(BillingState::Live)]);
    let row = |beats: &[LedgerBeat], expect| check_row(&ledger(beats), expect);
    row(&[live()], "2026-11-10T10:00:00Z 2026-11-10T10:15:00Z false 3.6 0.9");
    row(&[live(), beat("10:30", vec![])], "2026-11-10T10:00:00Z 2026-11-10T10:15:00Z true 3.6 0.9");
    let ended = beat("10:30", vec![sighting(stopped("10:20"))]);
    row(&[live(), ended], "2026-11-10T10:00:00Z 2026-11-10T10:20:00Z true 3.6 1.2");
    let without_price = Sighting { prices: vec![], ..sighting(BillingState::Live) };
    row(&[beat("10:15", vec![without_price])], "2026-11-10T10:00:00Z 2026-11-10T10:15:00Z false null 0.0");
    // It cost nothing, and the last rate is known.
    let taken_back = beat("10:30", vec![spot(reclaimed("10:30"))]);
    row(&[taken_back], "2026-11-10T10:00:00Z 2026-11-10T10:30:00Z true 3.6 0.0");
}

#[test]
fn a_run_over_the_end_of_a_month_is_in_both_documents_with_its_part() {
    let launched = time("2026-11-30T23:00:00Z");
    let run = Sighting { began: launched, ..sighting(BillingState::Live) };
    let beats = ["2026-11-30T23:30:00Z", "2026-12-01T00:30:00Z"]
        .map(|at| LedgerBeat { at: time(at), ..beat("10:00", vec![run.clone()]) });
    let month_ledger = |month: &CalendarMonth| {
        let mut ledger = Ledger::new(month, &"us-east-1".into());
        for beat in &beats {
            ledger.observe(beat);
        }
        ledger
    };
    check_row(&month_ledger(&november()), "2026-11-30T23:00:00Z 2026-12-01T00:00:00Z false 3.6 3.6");
    check_row(&month_ledger(&november().next()), "2026-12-01T00:00:00Z 2026-12-01T00:30:00Z false 3.6 1.8");
}

#[test]
fn a_document_that_names_a_moment_beyond_all_years_is_damaged() {
    let check = |second: i64, is_readable: bool| {
        let document = |beats: &str, rate: i64, began: i64, ended_by: i64| {
            let [rate, began, ended_by] = [rate, began, ended_by].map(|at| Timestamp::from_second(at).unwrap());
            let text = format!(
                r#"{{"beats":[{beats}],"rates":{{"t":{{"{rate}":1}}}},
                    "runs":[{{"instance":"i-1","launched_at":"{began}","type":"g5.xlarge","lifecycle":"on-demand","tariff":"t",
                              "seen":"{began}","ended_by":"{ended_by}"}}]}}"#
            );
            serde_json::from_str::<Ledger>(&text).map(|ledger| ledger.runs().count()).is_ok()
        };
        let read = [
            document(&second.to_string(), 1, 1, 1),
            document("1", second, 1, 1),
            document("1", 1, second, 1),
            document("1", 1, 1, second),
            document(&format!("1,{}", second - 1), 1, 1, 1),
        ];
        assert_eq!(read, [is_readable; 5], "{second}");
    };
    check(1_790_208_000, true);
    check(32_503_679_999, true);
    check(32_503_680_000, false);
    check(253_402_207_200, false);
    check(-1, false);
}

#[test]
fn impossible_times_of_aws_can_be_read_again() {
    let forever = Timestamp::MAX;
    let rate = Rate::from_usd_micros_per_hour(1);
    for began in [Timestamp::MIN, Timestamp::MAX] {
        let items = vec![
            Sighting { began, prices: vec![(forever, rate)], ..sighting(BillingState::Live) },
            Sighting {
                began,
                ..sighting(BillingState::Ended { at: Some(forever), terminated: true, reclaimed: false })
            },
        ];
        let kept = ledger(&[beat("10:15", items)]);
        let read: Ledger = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        assert_eq!(read, kept);
        assert!(read.runs().map(|run| run.spent(november().span())).sum::<RunCost>().amount.usd() < 1.0e6);
    }
}
