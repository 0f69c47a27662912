//! The response of a function, the audit record, and the evidence of each rule.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use model::ceiling::Ceiling;
use model::config::Config;
use model::curfew_tags::PROTECTED;
use model::gang::Gangs;
use model::instance::Instance;
use model::mode::Mode;
use model::observation::{Gap, GapKind, Observation};
use model::usage::{DeviceReport, UnknownUsage, Usage};
use plan::Facts;
use plan::report::{AuditRecord, OutcomeKind, Report, Response, RunUsage, SCHEMA, StepOutcome};
use reaping::instances::decide;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use serde_json::{Value, json};

use super::{STATE_BUCKET, blocks, instance, quoted, rows, section};

const POWER_SENTENCE: &str =
    "The evidence of an `idle`, by power, is the same with `gpu_power_max_percent` instead of `gpu_max_percent`.";

#[test]
fn the_evidence_of_each_rule() {
    for evidence in reaping::fixture::evidence_of_each_rule() {
        let written = serde_json::to_value(&evidence).unwrap();
        let mut keys: BTreeSet<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(keys.remove("rule"), "{written}");
        let sentence_about = |key: &str| match key {
            "not_queried_again" => Some("has the rule, and `not_queried_again`."),
            "resolved" => Some("An `unmark` has the rule that was announced, and `resolved`."),
            _ => None,
        };
        if let [key] = keys.iter().copied().collect::<Vec<_>>()[..]
            && let Some(sentence) = sentence_about(key)
        {
            assert!(section("### Rules").contains(sentence), "{written}");
            continue;
        }
        if keys.remove("gpu_power_max_percent") {
            assert!(keys.insert("gpu_max_percent") && section("### Rules").contains(POWER_SENTENCE), "{written}");
        }
        let sentence = match &evidence.facts {
            Facts::SnapshotExpired { .. } => Some("The evidence of an `expired`, of a snapshot"),
            _ if keys.contains("superseded_by") => Some("The evidence of an `orphaned`, of a snapshot that failed"),
            Facts::Inactive(_) => Some("The evidence of `idle`, of a resource of SageMaker"),
            _ => None,
        };
        if let Some(sentence) = sentence {
            let line = section("### Rules").lines().find(|line| line.starts_with(sentence)).unwrap();
            assert_eq!(quoted(line).skip(1).collect::<BTreeSet<_>>(), keys, "documented on the left");
            continue;
        }
        let rule = evidence.rule().as_str();
        let (_, cells) = rows("### Rules").into_iter().find(|(name, _)| *name == rule).unwrap();
        assert_eq!(quoted(cells[2]).collect::<BTreeSet<_>>(), keys, "{rule}: documented on the left");
    }
}

fn documented_response() -> Value {
    serde_json::from_str(blocks("## The response", "json")[0]).unwrap()
}

/// What the documented response answers: one instance without an owner, one protected, one region that was not seen.
fn real_report() -> Report {
    let documented = documented_response();
    let tags = |tags: &[(&str, &str)]| tags.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let gap = Gap::new(
        &"us-east-2".into(),
        "ec2:DescribeInstances",
        documented["gaps"][0]["error"].as_str().unwrap(),
        GapKind::Region,
    );
    let ownerless = Instance { tags: tags(&[("Team", "vision")]), ..instance("i-0aaa") };
    let protected = Instance { tags: tags(&[(PROTECTED, "")]), ..instance("i-0bbb") };
    let seen = Observation { items: vec![ownerless, protected], gaps: vec![gap] };
    let config = Config::read("[untagged]\nmode = \"enforce\"").unwrap();
    let policy = Policy {
        config,
        ceiling: Ceiling::fixed(Mode::Enforce),
        prices: PriceBook::dated(),
        budgets: BudgetStatuses::default(),
        jobs: JobStates::default(),
        gangs: Gangs::default(),
    };
    let now = documented["at"].as_str().unwrap().parse().unwrap();
    let unknown = Usage::Unknown(UnknownUsage::Uninstrumented(DeviceReport { devices: 1, ..DeviceReport::default() }));
    let plan = decide(&seen, &BTreeMap::from([("i-0aaa".into(), unknown)]), &BTreeMap::new(), &policy, now);
    let run = documented["run"].as_str().unwrap().into();
    let regions = vec!["us-east-1".into(), "us-east-2".into()];
    let mut report = Report::from_plan(plan, "reap-instances", run, now, Mode::Enforce, regions);
    for (_, outcome) in &mut report.steps {
        *outcome = StepOutcome::from_kind(OutcomeKind::Done);
    }
    report
}

#[test]
fn the_documented_response_is_a_real_one() {
    let real = serde_json::to_value(Response::from_report(&real_report())).unwrap();
    assert_eq!(documented_response(), real, "documented on the left");
}

#[test]
fn every_field_of_the_table_is_one_of_the_response() {
    let documented = documented_response();
    for (field, _) in rows("### Fields") {
        let exists = documented.get(field).is_some() || documented["steps"][0].get(field).is_some();
        assert!(exists, "no field {field}");
    }
}

#[test]
fn the_audit_record_is_the_response_and_what_the_page_says_besides() {
    let report = real_report();
    assert_eq!(AuditRecord::key(&report), "plans/2026-09-01/reap-instances/8476a536-e9f4-11e8-9739-2dfe598c3fcd.json");
    assert!(STATE_BUCKET.contains("| `plans/<yyyy-mm-dd>/reap-instances/<run>.json` |"));
    assert!(STATE_BUCKET.contains(&format!("carries `schema` (now {SCHEMA})")));
    let mut expect = documented_response();
    expect["schema"] = json!(SCHEMA);
    expect["skipped"] = json!({ "protected": ["i-0bbb"] });
    expect["steps"][0]["what"] = json!("g5.xlarge");
    expect["usage"] = json!(RunUsage::default());
    assert_eq!(expect, serde_json::to_value(AuditRecord::from_report(&report)).unwrap(), "documented on the left");
}
