//! The response of a function, the audit record, and the evidence of each rule.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{BudgetStatuses, OverBudgetEvidence};
use billing::price::PriceBook;
use model::config::{Config, OverBudget};
use model::curfew_tags::PROTECTED;
use model::instance::Instance;
use model::mode::Mode;
use model::money::Amount;
use model::observation::{Gap, GapKind, Observation};
use model::rule::Rule;
use model::sagemaker::{ActivitySource, InactiveEvidence};
use model::usage::{DeviceReport, IdleEvidence, UnknownUsage, Usage};
use plan::report::{AuditRecord, OutcomeKind, Report, Response, RunUsage, SCHEMA, StepOutcome};
use plan::{Evidence, OrphanedEvidence, RepeatedEvidence, ResolvedEvidence};
use reaping::instances::decide;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use serde_json::{Value, json};

use super::{REFERENCE, blocks, every, instance, quoted, rows, section};

#[test]
#[expect(clippy::too_many_lines, reason = "one of each rule")]
fn the_evidence_of_each_rule() {
    let at = "2026-09-01T12:00:00Z".parse().unwrap();
    let quiet = IdleEvidence {
        from: at,
        to: at,
        devices: 1,
        coverage_percent: 100,
        gpu_max_percent: 0.0,
        cpu_max_vcpus: 0.0,
        network_max_mbps: 0.0,
        disk_max_mbps: None,
        gpu_memory_held_mib: None,
        reserved: false,
    };
    let all = every(Evidence::Expired { expires_at: at, first_seen_past: true }, |because| match because {
        Evidence::Expired { .. } => Some(Evidence::OverBudget(OverBudgetEvidence {
            month: String::new(),
            month_began: at,
            of: "team",
            budget_usd: Amount::ZERO,
            spent_usd: Amount::ZERO,
            reserved_usd: Amount::ZERO,
            percent: 0,
            threshold_percent: 0,
            over_budget: OverBudget::Notify,
            as_of: at,
            text: String::new(),
        })),
        Evidence::OverBudget(_) => Some(Evidence::Untagged { missing: Vec::new(), disowned_by: Some(String::new()) }),
        Evidence::Untagged { .. } => Some(Evidence::Idle(quiet.clone())),
        Evidence::Idle(_) => Some(Evidence::Hours { hours: String::new(), at }),
        Evidence::Hours { .. } => Some(Evidence::Lifetime { launched_at: at, max: jiff::SignedDuration::ZERO }),
        Evidence::Lifetime { .. } => Some(Evidence::Orphaned(OrphanedEvidence {
            unattached_since: at,
            size_gib: 0,
            volume_type: String::new(),
            usd_per_month: None,
            last_attached_to: Some("i-0abc".into()),
        })),
        Evidence::Orphaned(_) => {
            Some(Evidence::SnapshotExpired { volume: "vol-0abc".into(), deleted_at: at, expires_at: at })
        }
        Evidence::SnapshotExpired { .. } => {
            Some(Evidence::SnapshotFailed { volume: "vol-0abc".into(), superseded_by: "snap-0def".into() })
        }
        Evidence::SnapshotFailed { .. } => {
            Some(Evidence::Resolved(ResolvedEvidence { rule: Rule::Idle, resolved: true }))
        }
        Evidence::Resolved(_) => {
            Some(Evidence::Repeated(RepeatedEvidence { rule: Rule::Idle, not_queried_again: true }))
        }
        Evidence::Repeated(_) => Some(Evidence::Inactive(InactiveEvidence {
            from: at,
            to: at,
            shown_by: ActivitySource::Requests,
            gpu_max_percent: Some(0.0),
        })),
        Evidence::Inactive(_) => None,
    });
    for because in all {
        let written = serde_json::to_value(&because).unwrap();
        let mut evidence: BTreeSet<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(evidence.remove("rule"), "{written}");
        let without_evidence = match because {
            Evidence::Repeated(_) => Some(("not_queried_again", "has the rule, and `not_queried_again`.")),
            Evidence::Resolved(_) => Some(("resolved", "An `unmark` has the rule that was announced, and `resolved`.")),
            _ => None,
        };
        if let Some((key, sentence)) = without_evidence {
            assert!(evidence == BTreeSet::from([key]) && section("### Rules").contains(sentence), "{written}");
            continue;
        }
        let rule = because.rule().as_str();
        let sentence = match because {
            Evidence::SnapshotExpired { .. } => Some("The evidence of an `expired`, of a snapshot"),
            Evidence::SnapshotFailed { .. } => Some("The evidence of an `orphaned`, of a snapshot that failed"),
            Evidence::Inactive(_) => Some("The evidence of `idle`, of a resource of SageMaker"),
            _ => None,
        };
        if let Some(sentence) = sentence {
            let line = section("### Rules").lines().find(|line| line.starts_with(sentence)).unwrap();
            assert_eq!(quoted(line).skip(1).collect::<BTreeSet<_>>(), evidence, "documented on the left");
            continue;
        }
        let (_, cells) = rows("### Rules").into_iter().find(|(name, _)| *name == rule).unwrap();
        assert_eq!(quoted(cells[2]).collect::<BTreeSet<_>>(), evidence, "{rule}: documented on the left");
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
        ceiling: Mode::Enforce,
        prices: PriceBook::dated(),
        budgets: BudgetStatuses::default(),
        jobs: JobStates::default(),
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
    assert!(REFERENCE.contains("| `plans/<yyyy-mm-dd>/reap-instances/<run>.json` |"));
    assert!(REFERENCE.contains(&format!("carries `schema` (now {SCHEMA})")));
    let mut expect = documented_response();
    expect["schema"] = json!(SCHEMA);
    expect["skipped"] = json!({ "protected": ["i-0bbb"] });
    expect["steps"][0]["what"] = json!("g5.xlarge");
    expect["usage"] = json!(RunUsage::default());
    assert_eq!(expect, serde_json::to_value(AuditRecord::from_report(&report)).unwrap(), "documented on the left");
}
