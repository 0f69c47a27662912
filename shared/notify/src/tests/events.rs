//! Events, as `docs/chat.md` describes them and `docs/events/` shows them.

use serde_json::{Value, json};

use super::*;
use crate::{DETAIL_TYPE, SOURCE, events};

const SCHEMA: &str = include_str!("../../../../docs/events/schema.json");
const ANNOUNCEMENT: &str = include_str!("../../../../docs/events/announcement.json");
const STOPPED: &str = include_str!("../../../../docs/events/stopped.json");
const GAP: &str = include_str!("../../../../docs/events/gap.json");

/// The details of all notifications of a run, each as the schema wants it.
fn details(report: &Report) -> Vec<Value> {
    let notifications = notify(report);
    let events = events(report, &notifications.iter().collect::<Vec<_>>());
    let details: Vec<Value> = events.iter().map(|event| serde_json::from_str(&event.detail).unwrap()).collect();
    details.iter().for_each(check_schema);
    details
}

/// The part of JSON Schema that `schema.json` uses: each field is there, is listed, and has one of its types or values.
fn check_schema(detail: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    let fields = detail.as_object().unwrap();
    let names: Vec<&String> = fields.keys().collect();
    let required: BTreeSet<&str> = schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(names.iter().map(|name| name.as_str()).collect::<BTreeSet<_>>(), required);
    for (name, value) in fields {
        let property = properties.get(name).unwrap_or_else(|| panic!("the schema has no {name}"));
        let kind = match value {
            Value::Null => "null",
            Value::String(_) => "string",
            Value::Number(number) if number.is_u64() => "integer",
            Value::Number(_) => "number",
            other => panic!("{name} is {other}"),
        };
        let is_of_type = |legal: &Value| legal == kind || (legal == "number" && kind == "integer");
        let types = &property["type"];
        let is_legal = types.as_array().map_or_else(|| is_of_type(types), |types| types.iter().any(is_of_type));
        assert!(is_legal, "{name} is {value}, and the schema says {types}");
        let values = property["enum"].as_array();
        assert!(
            values.is_none_or(|values| values.contains(value)),
            "{name} is {value}, and the schema says {values:?}"
        );
    }
}

#[track_caller]
fn check_sample(sample: &str, report: &Report) {
    let sample: Value = serde_json::from_str(sample).unwrap();
    assert_eq!((&sample["source"], &sample["detail-type"]), (&json!(SOURCE), &json!(DETAIL_TYPE)));
    let [detail] = &details(report)[..] else { panic!("one notification makes one event") };
    assert_eq!(sample["detail"], *detail, "{}", serde_json::to_string_pretty(detail).unwrap());
}

#[test]
fn the_samples_are_what_curfew_writes() {
    let named = instance().tag("Name", "bench").instance_storage(250).tag("curfew:local-disk", "expendable");
    check_sample(ANNOUNCEMENT, &planned(named, &idle(), ENFORCED));
    check_sample(STOPPED, &done(instance().tag(MARKED, DUE), &idle(), ENFORCED));
    let gap = Gap::new(&"eu-west-1".into(), "ec2:DescribeInstances", "UnauthorizedOperation", GapKind::Region);
    check_sample(GAP, &Report { gaps: vec![gap], ..planned(instance(), &busy(), ENFORCED) });
}

#[test]
fn the_schema_knows_every_rule() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let known: BTreeSet<&str> =
        schema["properties"]["rule"]["enum"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(known, model::rule::Rule::ALL.map(model::rule::Rule::as_str).into());
}

#[test]
fn every_kind_of_notification_is_an_event_of_the_schema() {
    let failed = StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation");
    let kinds = [
        observed(instance().tag(MARKED, DUE), &idle(), ""),
        done(instance().tag(MARKED, DUE), &busy(), ENFORCED),
        done(instance().launched("2026-08-01T00:00:00Z"), &busy(), ENFORCED),
        with(planned(instance().tag(MARKED, DUE), &idle(), ENFORCED), &failed),
        planned(instance().tag("curfew:idle-after", "soon"), &idle(), ENFORCED),
        planned(instance(), &unknown(), ENFORCED),
        planned(instance().region("eu-west-1"), &idle(), ENFORCED),
        planned(untagged(), &idle(), "[untagged]\nmode = \"enforce\""),
        budgets::beat("teams.vision", "hold", 100.0, Mode::Enforce),
        budgets::beat("account", "notify", 100.0, Mode::Enforce),
    ];
    for report in kinds {
        assert_eq!(details(&report).len(), 1);
    }
    let digest = Message {
        audience: Audience::Team,
        teams: BTreeSet::new(),
        paragraphs: 1,
        body: "$5.00 spent on GPUs in 2026-09.\nMore.\n".to_owned(),
        ..message(&budgets::beat("account", "notify", 100.0, Mode::Enforce))
    };
    let event = crate::digest_event(&planned(instance(), &busy(), ENFORCED), &digest);
    let detail: Value = serde_json::from_str(&event.detail).unwrap();
    check_schema(&detail);
    assert_eq!((&detail["about"], &detail["headline"]), (&json!("report"), &json!("$5.00 spent on GPUs in 2026-09")));
}

#[test]
fn ten_events_of_hostile_tags_fit_one_call() {
    let hostile = "\u{1}\"".repeat(128);
    let mut report =
        planned(instance().tag("Name", &hostile).tag("Owner", &hostile).tag("Team", &hostile), &idle(), ENFORCED);
    report.steps[0].0.target.what = hostile.clone();
    let notifications: Vec<Notification> = notify(&report)
        .into_iter()
        .map(|one| Notification { text: Paragraph::new(&hostile.repeat(1000)), ..one })
        .collect();
    let [event] = &events(&report, &[&notifications[0]])[..] else { panic!("one notification makes one event") };
    assert!(event.detail.len() * 10 < 256 * 1024, "{}", event.detail.len());
}
