//! Waste in capacity that is paid for anyway: its cost, of which a stop saves nothing.

use billing::ledger::{BillingState, PurchaseTerms, Sighting};
use model::fixture::time;
use model::money::Rate;
use report::{MonthReport, digest, render_html};
use serde_json::{Value, json};

use crate::fixture::{Machine, facts, ledger, record, step};

const NOW: &str = "2026-11-11T10:00:00Z";

/// Of team vision, at $4 an hour since the morning before.
fn runs(resource: &str, terms: PurchaseTerms) -> Sighting {
    let (began, life, what) = (time("2026-11-10T10:00:00Z"), BillingState::Live, "g5.xlarge");
    Machine { resource, what, team: "vision", terms, job: None, began, life, usd_micros_per_hour: 4_000_000 }.sighting()
}

fn saves_nothing(resource: &str) -> Value {
    let mut step = step(resource, "vision", "notify", "done");
    step["saves_usd_per_hour"] = 0.0.into();
    step
}

/// `id costs saves`, each in USD an hour.
fn waste(report: &MonthReport) -> Vec<String> {
    let usd = |rate: Option<Rate>| rate.map_or("unknown".to_owned(), |rate| rate.usd_per_hour().to_string());
    let row =
        |row: &report::WasteRow| format!("{} {} {}", row.resource, usd(row.usd_per_hour), usd(row.saves_usd_per_hour));
    report.waste.iter().map(row).collect()
}

#[test]
fn what_a_stop_does_not_save_is_wasted_all_the_same() {
    let items = vec![runs("i-1", PurchaseTerms::Reserved), runs("i-3", PurchaseTerms::Reserved)];
    // The newest run only skips i-3; of i-2 the ledger knows nothing.
    let told = record("2026-11-11T09:00:00Z", &[saves_nothing("i-3")], &json!({}));
    let steps = [saves_nothing("i-1"), saves_nothing("i-2"), step("i-4", "vision", "stop", "observed")];
    let newest = record(NOW, &steps, &json!({ "notified": ["i-3"] }));
    let report = MonthReport::from_facts(&facts(NOW, ledger(NOW, items), &[told], newest));
    assert_eq!(waste(&report), ["i-1 4 0", "i-3 4 0", "i-4 1 1", "i-2 unknown 0"]);
    assert_eq!(report.headline.waste.known().map(Rate::usd_micros_per_hour), Some(9_000_000));
    let sum = "at least $6,570.00 a month if nothing changes, of which stops save $730.00; 1 without a price:";
    assert!(digest(&report).contains(&format!("4 resources waste {sum}")), "{}", digest(&report));
    assert!(render_html(&report).contains("$6,570.00 a month if nothing changes, of which stops save $730.00"));
}

#[test]
fn an_uninstrumented_machine_in_a_reservation_saves_nothing_either() {
    let newest = record(NOW, &[], &json!({ "usage-unknown": ["i-1"] }));
    let items = vec![runs("i-1", PurchaseTerms::Reserved)];
    let report = MonthReport::from_facts(&facts(NOW, ledger(NOW, items), &[], newest));
    assert_eq!(waste(&report), ["i-1 4 0"]);
}
