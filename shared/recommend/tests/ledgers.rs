//! What is read from ledgers: interruptions, quotas in use, hourly spend, and jobs on demand.

use std::collections::BTreeMap;

use billing::ledger::{
    BillingState, CalendarMonth, Ledger, LedgerBeat, PurchaseTerms, RunFacts, RunKind, Sighting, Tariff,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::fixture::time;
use model::money::Rate;
use recommend::commitment::{ExistingCommitments, PlanChoice, PlanDiscount, SpendCurve, UsageCurve};
use recommend::usage::{JobRuns, on_demand_jobs};
use recommend::{AccountQuotas, Interruptions, interruption_history};

const BEGAN: &str = "2026-11-10T00:30:00Z";

/// An instance at $1 an hour.
fn machine(resource: &str, terms: PurchaseTerms, job: Option<&str>, life: BillingState) -> Sighting {
    Sighting {
        resource: resource.into(),
        began: time(BEGAN),
        facts: RunFacts {
            kind: RunKind::Instance,
            team: Some("vision".into()),
            owner: None,
            name: None,
            what: "g5.xlarge".to_owned(),
            terms,
            job: job.map(str::to_owned),
            attached_to: None,
            tariff: Tariff::new("g5.xlarge"),
        },
        life,
        prices: vec![(time(BEGAN), Rate::from_usd_micros_per_hour(1_000_000))],
    }
}

/// Each beat with what it saw.
fn ledger(beats: Vec<(&str, Vec<Sighting>)>) -> Ledger {
    let month = CalendarMonth::containing(time(BEGAN), &TimeZone::UTC);
    let mut ledger = Ledger::new(&month, &"us-east-1".into());
    for (at, items) in beats {
        ledger.observe(&LedgerBeat {
            at: time(at),
            region: "us-east-1".into(),
            whole: true,
            items,
            unread: std::collections::BTreeSet::new(),
        });
    }
    ledger
}

fn ended(at: &str, reclaimed: bool) -> BillingState {
    BillingState::Ended { at: Some(time(at)), terminated: true, reclaimed }
}

fn spot_and_on_demand() -> Ledger {
    use PurchaseTerms::{OnDemand, Spot};
    let running = || {
        let on_spot = |resource| machine(resource, Spot, None, BillingState::Live);
        let job = machine("i-4", OnDemand, Some("vision/llama-1a2b3c4d"), BillingState::Live);
        vec![on_spot("i-1"), on_spot("i-2"), on_spot("i-3"), job]
    };
    let mut later = running();
    later[0] = machine("i-1", Spot, None, ended("2026-11-10T02:30:00Z", true));
    later[1] = machine("i-2", Spot, None, ended("2026-11-10T03:30:00Z", false));
    ledger(vec![("2026-11-10T00:45:00Z", running()), ("2026-11-10T04:00:00Z", later)])
}

#[test]
fn interruptions_are_counted_among_the_runs_on_spot_that_have_ended() {
    let history = interruption_history([&spot_and_on_demand()]);
    // The third one runs on, for 3.5 hours until now. Of the others a quarter of an hour is certain: a termination may follow a stop.
    let seen = Interruptions { runs: 2, interrupted: 1, unknown: 0, seconds: 14_400 };
    assert_eq!(history, BTreeMap::from([(("us-east-1".into(), "g5.xlarge".into()), seen)]));
}

#[test]
fn what_runs_uses_up_the_quota_of_its_market() {
    let quotas = AccountQuotas::new(BTreeMap::new(), [&spot_and_on_demand()]);
    let used = [(("us-east-1".into(), "L-3819A6DF"), 4), (("us-east-1".into(), "L-DB2E81BA"), 4)];
    assert_eq!(quotas.used, BTreeMap::from(used));
}

fn curve(ledgers: &[Ledger], now: &str, discount: PlanDiscount) -> SpendCurve {
    let existing = ExistingCommitments::default();
    UsageCurve::from_ledgers(ledgers, time(now)).spend(&existing, &PlanChoice::Compute, time(now), discount)
}

#[test]
fn the_curve_has_the_whole_hours_of_what_runs_on_demand() {
    let discount = PlanDiscount::from_percent(28.0).unwrap();
    let curve = curve(&[spot_and_on_demand()], "2026-11-10T04:10:00Z", discount);
    let hours: Vec<(Timestamp, String)> = curve.hours.iter().map(|hour| (hour.from, hour.spent.to_string())).collect();
    let hour = |at: &str| (time(at), "$1.00".to_owned());
    let expect = ["2026-11-10T01:00:00Z", "2026-11-10T02:00:00Z", "2026-11-10T03:00:00Z"].map(hour);
    assert_eq!(hours, expect);
    assert_eq!((curve.unpriced_seconds, curve.folded_runs, curve.hours_without_ledger), (0, 0, 0));
    assert_eq!(self::curve(&[], BEGAN, discount).hours, []);
}

#[test]
fn a_month_without_a_ledger_has_no_hours_and_is_no_hour_without_spend() {
    let month = CalendarMonth::read("2026-09", &TimeZone::UTC).unwrap();
    let mut september = Ledger::new(&month, &"us-east-1".into());
    let (whole, items, unread) = (true, Vec::new(), std::collections::BTreeSet::new());
    september.observe(&LedgerBeat {
        at: time("2026-09-30T22:00:00Z"),
        region: "us-east-1".into(),
        whole,
        items,
        unread,
    });
    let discount = PlanDiscount::from_percent(28.0).unwrap();
    let curve = curve(&[september, spot_and_on_demand()], "2026-11-10T04:10:00Z", discount);
    assert_eq!(curve.hours_without_ledger, 31 * 24);
    assert!(curve.hours.iter().all(|hour| !hour.from.to_string().starts_with("2026-10")));
}

#[test]
fn jobs_on_demand_have_their_hours_and_costs() {
    let ledger = spot_and_on_demand();
    let jobs = on_demand_jobs([&ledger], ledger.span());
    let shown: Vec<(&str, u64, String)> =
        jobs.iter().map(|JobRuns { job, seconds, cost, .. }| (job.as_str(), *seconds, cost.to_string())).collect();
    assert_eq!(shown, [("vision/llama-1a2b3c4d", 12_600, "$3.50".to_owned())]);
}
