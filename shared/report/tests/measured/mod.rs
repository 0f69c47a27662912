//! What the report of a large month takes: `make measure-report`, optimised. Each is a process of its own, because its peak of memory is.

use std::collections::BTreeMap;
use std::fs;

use billing::ledger::{BillingState, Ledger, PurchaseTerms, TimeSpan};
use jiff::SignedDuration;
use model::fixture::time;
use report::{DayCondenser, FunctionRuns, MonthFacts, MonthReport, OwnCost, RunOutline, digest, render_html};
use serde_json::{Value, json};

use crate::fixture::{Machine, facts, ledger, november, record};

const RUNS: i64 = 10_000;
const NOW: &str = "2026-11-30T23:00:00Z";

/// The targets: one second of CPU, and the smallest Lambda.
const CPU_SECONDS_MAX: f64 = 1.0;
const MIB_MAX: u64 = 128;

/// Of this thread (proc(5), `/proc/pid/schedstat`), in nanoseconds.
fn cpu_nanoseconds() -> u64 {
    fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse().unwrap()
}

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn check(what: &str, nanoseconds: u64) {
    let (seconds, mib) = (std::time::Duration::from_nanos(nanoseconds).as_secs_f64(), peak_mib());
    println!("{what}: {seconds:.2} s of CPU, {mib} MiB at the peak");
    assert!(seconds < CPU_SECONDS_MAX && mib < MIB_MAX, "the target is {CPU_SECONDS_MAX} s and {MIB_MAX} MiB");
}

fn finish(facts: &MonthFacts) -> usize {
    let report = MonthReport::from_facts(facts);
    render_html(&report).len() + digest(&report).len()
}

/// From the document of the ledger to the page: every run was an instance of one of 40 teams for 30 hours, on Spot.
#[test]
#[ignore = "a measurement: make measure-report"]
fn ten_thousand_runs_in_the_ledger() {
    let began = time("2026-11-01T00:00:00Z");
    let machine = |place: i64| {
        let began = began + SignedDuration::from_mins(place * 4);
        let at = Some(began + SignedDuration::from_hours(30));
        let (resource, team) = (format!("i-{place:017x}"), format!("team-{}", place % 40));
        Machine {
            resource: &resource,
            what: "g5.xlarge",
            team: &team,
            terms: PurchaseTerms::Spot,
            job: Some(format!("{team}/llama-{place:08x}")),
            began,
            life: BillingState::Ended { at, terminated: true, reclaimed: false },
            usd_micros_per_hour: 400_000,
        }
        .sighting()
    };
    let document = serde_json::to_vec(&ledger(NOW, (0..RUNS).map(machine).collect())).unwrap();
    let before = cpu_nanoseconds();
    let read: Ledger = serde_json::from_slice(&document).unwrap();
    let read = read.with_identity(&november(), &"us-east-1".into());
    let bytes = finish(&facts(NOW, read, &[], record(NOW, &[], &json!({}))));
    let taken = cpu_nanoseconds() - before;
    assert!(bytes > 10_000);
    check("10,000 runs in the ledger", taken);
}

/// A record as a reaper writes it: 1,000 instances, most of them skipped, 20 announced again and again, one stopped.
fn audit_record(place: i64) -> Vec<u8> {
    let at = time("2026-11-01T00:00:00Z") + SignedDuration::from_mins(place * 4);
    let step = |resource: String, action: &str, outcome: &str| {
        json!({ "region": "us-east-1", "resource": resource, "what": "g5.xlarge", "name": "notebook", "team": "vision", "action": action,
                "evidence": { "rule": "idle", "since": at, "deadline": at, "reporting": 1 }, "saves_usd_per_hour": 1.006,
                "outcome": outcome, "error": Value::Null })
    };
    let mut steps: Vec<Value> = (0..20).map(|one| step(format!("i-0{one:016x}"), "notify", "done")).collect();
    steps.push(step(format!("i-1{place:016x}"), "stop", "done"));
    let busy: Vec<String> = (0..979).map(|one| format!("i-2{one:016x}")).collect();
    let record = json!({ "schema": 1, "function": "reap-instances", "run": format!("run-{place}"), "at": at, "mode": "enforce",
                         "regions": ["us-east-1"], "seen": 1_000, "steps": steps, "skipped": { "busy": busy }, "gaps": [],
                         "usage": { "runs": 1, "milliseconds": 300, "metrics": 2_000, "s3_reads": 5, "s3_writes": 3 } });
    serde_json::to_vec(&record).unwrap()
}

/// From the documents to the page, one after the other. The clock is read once a day of 360 records: reading it takes as long as a record.
#[test]
#[ignore = "a measurement: make measure-report"]
fn ten_thousand_audit_records() {
    let (mut taken, mut bytes) = (0, 0);
    let (mut days, mut runs) = (Vec::new(), FunctionRuns::default());
    let places: Vec<i64> = (0..RUNS).collect();
    for day_places in places.chunks(360) {
        let documents: Vec<Vec<u8>> = day_places.iter().map(|place| audit_record(*place)).collect();
        let before = cpu_nanoseconds();
        let mut day = DayCondenser::default();
        for document in &documents {
            // As `shared/store/src/month_facts/records.rs` reads it.
            let read: RunOutline<'_> = serde_json::from_str(str::from_utf8(document).unwrap()).unwrap();
            assert!(read.schema == Some(1) && read.key().starts_with("plans/2026-11-"));
            runs.add_record(&read, u64::try_from(document.len()).unwrap());
            day.add(&read);
        }
        days.push(day.finish());
        taken += cpu_nanoseconds() - before;
        bytes += documents.iter().map(Vec::len).sum::<usize>();
    }
    let runs = BTreeMap::from([("reap-instances".to_owned(), runs)]);
    let cost = OwnCost::from_runs(&runs, TimeSpan { to: time(NOW), ..november().span() });
    assert_eq!((cost.runs, cost.metrics), (10_000, 20_000_000));
    let before = cpu_nanoseconds();
    let facts = facts(NOW, ledger(NOW, Vec::new()), &[], record(NOW, &[], &json!({})));
    assert!(finish(&MonthFacts { days, runs, ..facts }) > 10_000);
    taken += cpu_nanoseconds() - before;
    println!("{} MB of records", bytes / 1_000_000);
    check("10,000 audit records of 1,000 instances", taken);
}
