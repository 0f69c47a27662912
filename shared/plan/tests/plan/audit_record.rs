//! The contract of responses and audit records, one step of each kind.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use billing::price::PriceBook;
use model::curfew_tags::{MARKED, STOPPED};
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::notification_log::NotificationLogs;
use model::observation::{Gap, GapKind, Observation};
use model::usage::Usage;
use plan::report::{AuditRecord, OutcomeKind, Report, Response, RunRecord, STEPS_MAX, StepOutcome};
use plan::*;
use reaping::fixture::{NOW, busy, enforcing, idle, instance, record_of_labels, time, unknown};
use reaping::instances::decide;
use serde_json::{Value, json};

const OFFICE: &str = "Mon-Fri 08:00-20:00 UTC";

fn every_kind() -> Vec<(Instance, Usage)> {
    let marked = |id: &str| instance().id(id).tag(MARKED, "idle=stop@2026-09-01T11:55:00Z");
    let doomed = |id: &str| instance().id(id).tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    let night = |id: &str| {
        let stopped = instance().id(id).state(InstanceState::Stopped).tag("curfew:hours", OFFICE);
        stopped.tag(STOPPED, "hours 2026-08-31T20:00:00Z")
    };
    vec![
        (instance().id("i-1").build(), idle()),
        (marked("i-2").build(), idle()),
        (marked("i-3").region("eu-west-1").build(), busy()),
        (doomed("i-4").tag("curfew:on-idle", "terminate").build(), busy()),
        (night("i-5").build(), unknown()),
        (instance().id("i-6").launched("2026-08-01T00:00:00Z").build(), busy()),
        (instance().id("i-7").tag("curfew:mode", "observe").build(), idle()),
        (instance().id("i-8").tag("curfew:protected", "").build(), idle()),
        (instance().id("i-9").build(), unknown()),
        (instance().id("i-10").tag("eks:cluster-name", "ml").build(), busy()),
    ]
}

fn report(instances: Vec<(Instance, Usage)>) -> Report {
    let usages = instances.iter().map(|(instance, usage)| (instance.id.clone(), usage.clone())).collect();
    let gap = Gap::new(&"ap-south-1".into(), "ec2:DescribeInstances", "UnauthorizedOperation", GapKind::Region);
    let seen = Observation { items: instances.into_iter().map(|(instance, _)| instance).collect(), gaps: vec![gap] };
    let mut memory = NotificationLogs::new();
    for one in &seen.items {
        let log = memory.entry(one.region.clone()).or_default();
        log.resources.insert(one.id.clone(), record_of_labels(one.launched_at, &one.tags));
    }
    let policy = enforcing("mode = \"enforce\"\n[limits]\nfleet_share_max_percent = 100\n");
    let plan = decide(&seen, &usages, &memory, &policy, time(NOW));
    let regions = vec!["eu-west-1".into(), "us-east-1".into()];
    let mut report = Report::from_plan(plan, "reap-instances", "run-1".into(), time(NOW), Mode::Enforce, regions);
    for (step, outcome) in &mut report.steps {
        *outcome = match (step.mode, &step.action) {
            (Mode::Observe, _) => StepOutcome::from_kind(OutcomeKind::Observed),
            (_, Action::Instance(_, InstanceAction::Start)) => {
                StepOutcome::with(OutcomeKind::Failed, "InsufficientInstanceCapacity")
            }
            _ => StepOutcome::from_kind(OutcomeKind::Done),
        };
    }
    report
}

fn find_step<'v>(response: &'v Value, resource: &str) -> &'v Value {
    let steps = response["steps"].as_array().unwrap();
    steps.iter().find(|step| step["resource"] == resource).unwrap_or_else(|| panic!("no step of {resource}"))
}

#[test]
fn a_response_has_the_contracts_fields_and_no_others() {
    let report = report(every_kind());
    let response = serde_json::to_value(Response::from_report(&report)).unwrap();
    let mut without_steps = response.clone();
    without_steps.as_object_mut().unwrap().remove("steps");
    assert_eq!(
        without_steps,
        json!({
            "function": "reap-instances",
            "run": "run-1",
            "at": "2026-09-01T12:00:00Z",
            "mode": "enforce",
            "regions": ["eu-west-1", "us-east-1"],
            "seen": 10,
            "skipped": { "protected": 1, "usage-unknown": 1, "foreign-owned": 1 },
            "gaps": [{ "region": "ap-south-1", "call": "ec2:DescribeInstances", "error": "UnauthorizedOperation" }],
        })
    );
    assert_eq!(response["steps"].as_array().unwrap().len(), 7);
    for step in response["steps"].as_array().unwrap() {
        let keys: Vec<&str> = step.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = ["action", "error", "evidence", "outcome", "region", "resource", "saves_usd_per_hour", "team"];
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert!(step["evidence"]["rule"].is_string(), "{step}");
    }
}

#[test]
fn a_step_of_each_kind() {
    let report = report(every_kind());
    let response = serde_json::to_value(Response::from_report(&report)).unwrap();
    let idleness = |deadline: &str| {
        json!({
            "rule": "idle",
            "from": "2026-09-01T10:50:00Z",
            "to": "2026-09-01T11:50:00Z",
            "devices": 1,
            "coverage_percent": 100,
            "gpu_max_percent": 0.0,
            "cpu_max_vcpus": 0.1,
            "network_max_mbps": 0.1,
            "disk_max_mbps": null,
            "gpu_memory_held_mib": null,
            "reserved": false,
            "deadline": deadline,
        })
    };
    let check =
        |resource: &str, region: &str, action: &str, evidence: Value, saves: Value, outcome: &str, error: Value| {
            let expected = json!({
                "region": region,
                "resource": resource,
                "team": "vision",
                "action": action,
                "evidence": evidence,
                "saves_usd_per_hour": saves,
                "outcome": outcome,
                "error": error,
            });
            assert_eq!(*find_step(&response, resource), expected);
        };
    let (us, none) = ("us-east-1", Value::Null);
    check("i-1", us, "mark", idleness("2026-09-01T13:00:00Z"), json!(1.006), "done", none.clone());
    check("i-2", us, "stop", idleness("2026-09-01T11:55:00Z"), json!(1.006), "done", none.clone());
    let resolved = json!({ "rule": "idle", "resolved": true, "deadline": "2026-09-01T11:55:00Z" });
    check("i-3", "eu-west-1", "unmark", resolved, none.clone(), "done", none.clone());
    let expired =
        json!({ "rule": "expired", "expires_at": "2026-09-01T11:00:00Z", "deadline": "2026-09-01T11:00:00Z" });
    check("i-4", us, "terminate", expired, json!(1.006), "done", none.clone());
    let hours =
        json!({ "rule": "hours", "hours": OFFICE, "at": "2026-09-01T08:00:00Z", "deadline": "2026-09-01T08:00:00Z" });
    check("i-5", us, "start", hours, none.clone(), "failed", json!("InsufficientInstanceCapacity"));
    let lifetime = json!({
        "rule": "lifetime", "launched_at": "2026-08-01T00:00:00Z", "max_seconds": 604_800, "notify_only": "configured",
    });
    check("i-6", us, "notify", lifetime, json!(1.006), "done", none.clone());
    check("i-7", us, "mark", idleness("2026-09-01T13:00:00Z"), json!(1.006), "observed", none);
}

#[test]
fn what_is_not_known_is_null() {
    let anonymous = reaping::fixture::untagged().id("i-1").region("ap-east-2").build();
    let report = report(vec![(anonymous, unknown())]);
    let response = serde_json::to_value(Response::from_report(&report)).unwrap();
    let step = find_step(&response, "i-1");
    assert_eq!((&step["team"], &step["saves_usd_per_hour"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&step["evidence"]["rule"], &step["evidence"]["missing"]),
        (&json!("untagged"), &json!(["Team", "Owner"]))
    );
}

#[test]
fn a_response_has_a_thousand_steps_at_most_and_the_audit_record_has_all() {
    let many =
        |count: usize| (0..count).map(|place| (instance().id(&format!("i-{place:04}")).build(), idle())).collect();
    let report = report(many(STEPS_MAX + 1));
    let steps = |value: Value| value["steps"].as_array().unwrap().len();
    assert_eq!(steps(serde_json::to_value(Response::from_report(&report)).unwrap()), STEPS_MAX);
    assert_eq!(steps(serde_json::to_value(AuditRecord::from_report(&report)).unwrap()), STEPS_MAX + 1);
    assert_eq!(serde_json::to_value(Response::from_report(&report)).unwrap()["seen"], STEPS_MAX + 1);
}

#[test]
fn an_audit_record_has_its_schema_and_the_skipped_resources() {
    let report = report(every_kind());
    let record = serde_json::to_value(AuditRecord::from_report(&report)).unwrap();
    assert_eq!(record["schema"], 1);
    assert_eq!(record["skipped"], json!({ "protected": ["i-8"], "usage-unknown": ["i-9"], "foreign-owned": ["i-10"] }));
    let mut steps = record["steps"].clone();
    for step in steps.as_array_mut().unwrap().iter_mut().map(|step| step.as_object_mut().unwrap()) {
        assert_eq!((step.remove("what"), step.remove("name")), (Some(json!("g5.xlarge")), None), "{step:?}");
    }
    assert_eq!(steps, serde_json::to_value(Response::from_report(&report)).unwrap()["steps"]);
}

#[test]
fn an_audit_record_has_the_cost_of_skipped_resources_of_others() {
    let mut report = report(vec![(instance().id("i-10").tag("eks:cluster-name", "ml").build(), busy())]);
    assert_eq!(serde_json::to_value(AuditRecord::from_report(&report)).unwrap().get("skipped_costs"), None);
    let price = PriceBook::dated().saved_by_ending(&instance().build());
    report.skipped[0].left_cost = Some(LeftCost { price, waste: None });
    let record = serde_json::to_string(&AuditRecord::from_report(&report)).unwrap();
    let read: RunRecord = serde_json::from_str(&record).unwrap();
    let cost = &read.skipped_costs["i-10"];
    assert!(cost.usd_per_hour.is_some() && cost.usd_per_hour == billing::price::rate(price), "{cost:?}");
    assert_eq!(cost.what, "g5.xlarge");
}

#[test]
fn an_audit_record_has_the_names_that_people_know() {
    let report = report(vec![(instance().id("i-1").tag("Name", "trainer").build(), idle())]);
    let record = serde_json::to_value(AuditRecord::from_report(&report)).unwrap();
    assert_eq!((&record["steps"][0]["what"], &record["steps"][0]["name"]), (&json!("g5.xlarge"), &json!("trainer")));
}

#[test]
fn an_audit_record_lies_under_its_day_function_and_run() {
    let mut report = report(Vec::new());
    assert_eq!(AuditRecord::key(&report), "plans/2026-09-01/reap-instances/run-1.json");
    report.at = time("2026-12-31T23:59:59.9Z");
    assert_eq!(AuditRecord::key(&report), "plans/2026-12-31/reap-instances/run-1.json");
}
