use std::collections::BTreeSet;

use billing::ledger::TimeSpan;
use billing::price::{PriceBook, PriceDocument, SpotPrice};
use jiff::tz::TimeZone;
use model::config::PricesConfig;
use model::fixture::time;
use model::money::Amount;

use super::*;
use crate::tabled_offers;

const BEGAN: &str = "2026-11-02T00:00:00Z";
const NOW: &str = "2026-11-23T00:00:00Z";

/// A machine with 4 GPUs, seen every hour for three weeks from a Monday on; `busy` says how it worked.
fn usage(busy: impl Fn(Timestamp) -> (Vec<f64>, Vec<f64>)) -> InstanceUsage {
    let began = time(BEGAN);
    let hour = |hour: i64| {
        let from = began + SignedDuration::from_hours(hour);
        let (utilization, memory_mib) = busy(from);
        UsageHour { from, utilization, memory_mib }
    };
    InstanceUsage {
        region: "us-east-1".into(),
        instance: ResourceId::new("i-0abc"),
        instance_type: "g5.12xlarge".into(),
        team: Some("vision".into()),
        has_hours: false,
        rate: Some(Rate::from_usd_micros_per_hour(5_672_000)),
        hours: (0..21 * 24).map(hour).collect(),
    }
}

fn is_office(at: Timestamp) -> bool {
    let at = at.to_zoned(TimeZone::UTC);
    at.weekday().to_monday_one_offset() <= 5 && (9..18).contains(&at.hour())
}

fn office(at: Timestamp) -> (Vec<f64>, Vec<f64>) {
    let percent = if is_office(at) { 80.0 } else { 0.0 };
    (vec![percent, 0.0, 0.0, 0.0], vec![9_000.0, 0.0, 0.0, 0.0])
}

fn hours(usage: &InstanceUsage, zone: &str) -> Option<UsageFinding> {
    find_hours(usage, &TimeZone::get(zone).unwrap(), 5.0)
}

#[test]
fn work_that_keeps_to_office_hours_gets_them_as_a_tag() {
    let found = hours(&usage(office), "UTC").unwrap();
    assert_eq!(found.action, "tag it curfew:hours=Mon-Fri 08:00-19:00 UTC");
    assert_eq!(
        found.evidence,
        "from 2026-11-02 to 2026-11-22 its GPUs were never busy outside of Mon-Fri 08:00-19:00 UTC; it ran for 339 of 504 hours outside \
         of them"
    );
    // 339 of 504 hours of $5.672.
    assert_eq!(found.saves.to_string(), "$3.82/h");
    assert_eq!(
        hours(&usage(office), "Europe/Berlin").unwrap().action,
        "tag it curfew:hours=Mon-Fri 09:00-20:00 Europe/Berlin"
    );
}

#[test]
fn nothing_is_found_about_hours_without_evidence() {
    let all_day = |_| (vec![50.0; 4], vec![9_000.0; 4]);
    assert_eq!(hours(&usage(all_day), "UTC"), None);
    let never = |_| (vec![0.0; 4], vec![0.0; 4]);
    assert_eq!(hours(&usage(never), "UTC"), None, "idle is another finding");
    let mut short = usage(office);
    short.hours.truncate(13 * 24);
    assert_eq!(hours(&short, "UTC"), None);
    let mut patchy = usage(office);
    patchy.hours.retain(|hour| is_office(hour.from));
    assert_eq!(hours(&patchy, "UTC"), None, "what was not seen may have been work");
    let tagged = InstanceUsage { has_hours: true, ..usage(office) };
    assert_eq!(hours(&tagged, "UTC"), None);
    let unpriced = InstanceUsage { rate: None, ..usage(office) };
    assert_eq!(hours(&unpriced, "UTC"), None);
    let nights = ["2026-11-14T23:00:00Z", "2026-11-16T02:00:00Z"].map(time);
    let two_nights = |at: Timestamp| if nights.contains(&at) { (vec![90.0; 4], vec![0.0; 4]) } else { office(at) };
    assert_eq!(hours(&usage(two_nights), "UTC"), None, "work at any hour leaves no hours to stop it");
}

fn smaller(usage: &InstanceUsage) -> Option<UsageFinding> {
    find_smaller(usage, &tabled_offers(&["us-east-1".into()]), &PriceBook::dated(), (5.0, 1_024.0))
}

#[test]
fn a_machine_that_uses_one_of_its_gpus_can_be_smaller() {
    let found = smaller(&usage(office)).unwrap();
    assert_eq!(
        found.evidence,
        "from 2026-11-02 to 2026-11-22 it used 1 of its 4 GPUs, and at most 8.8 of 22.4 GiB on one"
    );
    // An L4 costs less, and its memory is slower.
    assert!(found.action.starts_with("try a g5.xlarge (1 x A10G) at $1.01/h; "), "{}", found.action);
    assert_eq!(found.saves.to_string(), "$4.67/h");
}

#[test]
fn what_is_used_fits_with_room_to_spare_or_it_is_not_found() {
    let full = |_| (vec![80.0; 4], vec![9_000.0; 4]);
    assert_eq!(smaller(&usage(full)), None, "all GPUs work");
    let held = |at: Timestamp| (office(at).0, vec![9_000.0; 4]);
    assert_eq!(smaller(&usage(held)), None, "memory is held on all of them");
    let tight = |at: Timestamp| (office(at).0, vec![21_500.0, 0.0, 0.0, 0.0]);
    let found = smaller(&usage(tight)).unwrap();
    assert!(found.action.contains("g6e.xlarge"), "{}", found.action);
    let unmeasured = |at: Timestamp| (office(at).0, Vec::new());
    assert_eq!(smaller(&usage(unmeasured)), None);
}

fn prices(spot: u64) -> PriceBook {
    let (mut document, now, name) = (PriceDocument::default(), time(NOW), TypeName::from("g5.xlarge"));
    let change =
        SpotPrice { instance_type: name.clone(), zone: "us-east-1a".to_owned(), from: now, usd_micros_per_hour: spot };
    document.learn_spot(&"us-east-1".into(), &BTreeSet::from([name]), vec![change], now);
    PriceBook::from_document(document, &PricesConfig::default(), now)
}

fn spot(step: Option<u64>, spot_price: u64) -> Option<UsageFinding> {
    let runs = JobRuns {
        job: "vision/llama-1a2b3c4d".to_owned(),
        team: Some("vision".into()),
        region: "us-east-1".into(),
        instance_type: "g5.xlarge".into(),
        seconds: 360_000,
        cost: Amount::from_usd(100.6),
    };
    find_spot(&runs, step, &prices(spot_price), TimeSpan { from: time(BEGAN), to: time(NOW) })
}

#[test]
fn a_job_with_checkpoints_that_ran_on_demand_could_be_on_spot() {
    let found = spot(Some(9_000), 406_000).unwrap();
    assert_eq!(
        found.evidence,
        "it ran for 100 hours on demand for $100.60; in us-east-1a that costs $40.60 on Spot now, and it resumes from its checkpoint at \
         step 9000"
    );
    // $60 in 504 hours.
    assert_eq!(found.saves.usd_cents_per_month(), 8_690);
    assert_eq!(spot(None, 406_000), None, "it would begin at zero");
    assert_eq!(spot(Some(9_000), 2_000_000), None, "Spot costs more");
}

#[test]
fn the_largest_come_first_and_no_more_than_asked_for() {
    let all: Vec<UsageFinding> =
        [smaller(&usage(office)), hours(&usage(office), "UTC"), spot(Some(1), 406_000)].into_iter().flatten().collect();
    let kinds: Vec<FindingKind> = top_findings(all.clone(), 2).into_iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::Smaller, FindingKind::Hours]);
    let free = UsageFinding { saves: Rate::ZERO, ..all[0].clone() };
    assert_eq!(top_findings(vec![free], 5), []);
}
