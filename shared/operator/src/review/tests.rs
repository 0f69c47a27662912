use std::collections::BTreeMap;

use model::config::Config;
use model::instance::Instance;
use model::notification_log::NotificationLogs;
use model::observation::{Observation, ObservedResource};
use model::usage::Usage;
use model::volume::{ObservedStorage, VolumeUse};
use proptest::prelude::*;
use reaping::fixture::{
    InstanceBuilder, NOW, VolumeBuilder, busy, enforcing, idle, instance, log_of_instances, log_of_labels, time,
    unknown, volume,
};
use reaping::policy::Policy;
use reaping::{instances, volumes};
use serde_json::json;

use super::*;

const ENFORCED: &str = "mode = \"enforce\"\n[limits]\nactions_max = 0";
const DUE: &str = "idle=stop@2026-09-01T11:55:00Z";
const HOME: &str = "us-east-1";

fn item(resource: &str, action: &str, rule: &str) -> RecordedStep {
    let step = json!({
        "region": HOME, "resource": resource, "action": action, "evidence": { "rule": rule }, "outcome": "not-reached",
    });
    serde_json::from_value(step).unwrap()
}

fn due() -> InstanceBuilder {
    instance().tag("curfew:marked", DUE)
}

/// What would be done now about these instances, which are all that there are.
fn fresh(instances: Vec<Instance>, usage: &Usage, config: &str) -> CurrentState {
    let usages = instances.iter().map(|one| (one.id.clone(), usage.clone())).collect();
    let seen = instances.iter().cloned().map(ObservedResource::Instance).collect();
    let items = Observation { items: instances, gaps: Vec::new() };
    let memory = NotificationLogs::from([(HOME.into(), log_of_instances(&items.items))]);
    let plan = instances::decide(&items, &usages, &memory, &enforcing(config), time(NOW));
    CurrentState { regions: vec![HOME.into()], seen, plan }
}

fn stop() -> Vec<RecordedStep> {
    vec![item("i-0abc", "stop", "idle")]
}

/// A reviewed item is carried out, and nothing else is.
fn check_carried_out(items: &[RecordedStep], fresh: CurrentState) {
    let ReviewResult { plan, left } = review(items, fresh);
    assert_eq!(left, []);
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(plan.skipped, []);
    let step = &plan.steps[0];
    assert_eq!(step.held, None);
    assert_eq!((step.target.resource.as_str(), step.action.as_str()), (items[0].resource.as_str(), &*items[0].action));
}

/// Nothing is carried out, for that reason.
fn check_left(items: &[RecordedStep], fresh: CurrentState, kind: OutcomeKind, why: &str) {
    let ReviewResult { plan, left } = review(items, fresh);
    assert_eq!(plan.steps, [], "{why}");
    assert_eq!(left.len(), 1);
    let outcome = &left[0].1;
    let error = outcome.error.as_deref().unwrap_or_default();
    assert!(outcome.kind == kind && error.contains(why), "{outcome:?}, not {kind:?} {why}");
}

#[test]
fn what_is_as_it_was_reviewed_is_carried_out_beyond_the_limits() {
    assert!(fresh(vec![due().build()], &idle(), ENFORCED).plan.steps[0].held.is_some());
    check_carried_out(&stop(), fresh(vec![due().build()], &idle(), ENFORCED));
}

#[test]
fn what_is_not_on_the_list_is_not() {
    let other = instance().id("i-0def").tag("curfew:marked", "idle=stop@2026-09-01T11:55:00Z");
    let mut fresh = fresh(vec![due().build(), other.build()], &idle(), ENFORCED);
    assert_eq!(fresh.plan.steps.len(), 2);
    check_carried_out(&stop(), fresh.clone());
    fresh.regions.push("eu-west-1".into());
    let elsewhere = RecordedStep { region: "eu-west-1".into(), ..stop().remove(0) };
    check_left(&[elsewhere], fresh, OutcomeKind::AlreadyGone, "it is gone");
}

#[test]
fn what_has_changed_since_is_left_alone() {
    let check = |given: InstanceBuilder, usage: &Usage, config: &str, why: &str| {
        check_left(&stop(), fresh(vec![given.build()], usage, config), OutcomeKind::Changed, why);
    };
    check(due(), &busy(), ENFORCED, "(idle) is called off");
    check(due(), &unknown(), ENFORCED, "is not due yet");
    check(due().tag("curfew:protected", ""), &idle(), ENFORCED, "skipped now: protected");
    check(due().tag("curfew:keep-until", "2026-12-31"), &idle(), ENFORCED, "skipped now: kept");
    check(due().tag("curfew:idle-after", "soon"), &idle(), ENFORCED, "skipped now: unreadable");
    check(due().tag("curfew:mode", "observe"), &idle(), ENFORCED, "observe mode now");
    check(due().tag("curfew:on-idle", "notify"), &idle(), ENFORCED, "(idle) is called off");
    let notified = instance().tag("curfew:on-idle", "notify");
    check(notified, &idle(), ENFORCED, "notify only now: the configured action is notify");
    check(due().tag("curfew:on-idle", "terminate"), &idle(), ENFORCED, "would mark it (idle)");
    check(due().launched("2026-09-01T11:58:00Z"), &idle(), ENFORCED, "would mark it (idle)");
    check(instance(), &idle(), ENFORCED, "would mark it (idle)");
    check(due(), &idle(), "", "observe mode now");
    check(due().state(InstanceState::Pending), &idle(), ENFORCED, "skipped now: young");
    let expired = due().tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    check(expired, &idle(), ENFORCED, "another action is due now: stop for expired");
}

#[test]
fn another_action_or_rule_than_was_reviewed_is_left_alone() {
    let check = |action, rule| {
        let items = [item("i-0abc", action, rule)];
        check_left(&items, fresh(vec![due().build()], &idle(), ENFORCED), OutcomeKind::Changed, "stop for idle");
    };
    check("terminate", "idle");
    check("stop", "untagged");
    check("delete", "idle");
}

#[test]
fn what_has_ended_before_is_no_news() {
    let check = |action: &str, state, expect, why: &str| {
        let fresh = fresh(vec![due().state(state).build()], &idle(), ENFORCED);
        check_left(&[item("i-0abc", action, "idle")], fresh, expect, why);
    };
    for state in
        [InstanceState::Stopped, InstanceState::Stopping, InstanceState::ShuttingDown, InstanceState::Terminated]
    {
        check("stop", state, OutcomeKind::AlreadyGone, "already stopped or deleted");
    }
    check("terminate", InstanceState::ShuttingDown, OutcomeKind::AlreadyGone, "already stopped or deleted");
    check("terminate", InstanceState::Stopped, OutcomeKind::Changed, "not-running");
    check_left(&stop(), fresh(Vec::new(), &idle(), ENFORCED), OutcomeKind::AlreadyGone, "gone");
}

fn gap(region: &str, call: &str, kind: GapKind) -> Gap {
    Gap::new(&region.into(), call, "denied", kind)
}

#[test]
fn unobserved_resources_are_not_reached() {
    let check = |regions: &[&str], gap: Gap| {
        let mut fresh = fresh(Vec::new(), &idle(), ENFORCED);
        fresh.regions = regions.iter().map(|region| (*region).into()).collect();
        fresh.plan.gaps.push(gap);
        check_left(&stop(), fresh, OutcomeKind::NotReached, "denied");
    };
    check(&[HOME], gap(HOME, "ec2:DescribeInstances", GapKind::Region));
    check(&[HOME], gap(HOME, "s3:GetObject", GapKind::Region));
    check(&[HOME], gap(HOME, "ec2:DescribeInstances", GapKind::Listing));
    check(&[HOME], gap(HOME, "ec2:DescribeRegions", GapKind::OtherRegions));
    check(&["eu-west-1"], gap("eu-west-1", "ec2:DescribeRegions", GapKind::OtherRegions));
}

#[test]
fn a_gap_elsewhere_or_of_something_else_is_no_reason() {
    for gap in [gap("eu-west-1", "ec2:DescribeInstances", GapKind::Region), gap(HOME, "s3:PutObject", GapKind::Part)] {
        let mut fresh = fresh(vec![due().build()], &idle(), ENFORCED);
        fresh.plan.gaps.push(gap);
        check_carried_out(&stop(), fresh);
    }
}

#[test]
fn a_region_that_is_no_longer_looked_at_is_left_alone() {
    let fresh = CurrentState { regions: Vec::new(), ..fresh(Vec::new(), &idle(), ENFORCED) };
    check_left(&stop(), fresh, OutcomeKind::Changed, "us-east-1 is no longer");
}

fn orphan() -> VolumeBuilder {
    volume()
        .tag("curfew:unattached-since", "2026-08-01T12:00:00Z")
        .tag("curfew:marked", "orphaned=delete@2026-09-01T11:55:00Z")
}

fn fresh_volumes(given: VolumeBuilder, action: &str) -> CurrentState {
    let volume = given.build();
    let config = Config::read(&format!("{ENFORCED}\n[volumes]\naction = \"{action}\"")).unwrap();
    let policy = Policy { config, ..enforcing("") };
    let log = log_of_labels(&volume.id, time("2026-08-01T12:00:00Z"), &volume.tags);
    let memory = NotificationLogs::from([(HOME.into(), log)]);
    let uses = BTreeMap::from([(volume.id.clone(), VolumeUse::None)]);
    let seen = vec![ObservedResource::Volume(volume.clone())];
    let volumes = Observation { items: vec![volume], gaps: Vec::new() };
    let storage = ObservedStorage { volumes, ..ObservedStorage::default() };
    let plan = volumes::decide(&storage, &uses, &volumes::LiveJobs::new(), &memory, &policy, time(NOW));
    CurrentState { regions: vec![HOME.into()], seen, plan }
}

#[test]
fn a_volume_goes_only_as_it_was_reviewed() {
    let items = [item("vol-0abc", "delete", "orphaned")];
    check_carried_out(&items, fresh_volumes(orphan(), "delete"));
    let check = |given: VolumeBuilder, action: &str, kind, why: &str| {
        check_left(&items, fresh_volumes(given, action), kind, why);
    };
    let without_mark = volume().tag("curfew:unattached-since", "2026-08-01T12:00:00Z");
    check(without_mark, "delete", OutcomeKind::Changed, "would mark it (orphaned)");
    let safely = orphan().tag("curfew:marked", "orphaned=snapshot-and-delete@2026-09-01T11:55:00Z");
    check(safely, "snapshot-and-delete", OutcomeKind::Changed, "no complete snapshot");
    check(orphan().on("i-0abc"), "delete", OutcomeKind::Changed, "(orphaned) is called off");
    check(
        orphan().with(|volume| volume.state = VolumeState::Deleting),
        "delete",
        OutcomeKind::AlreadyGone,
        "already stopped or deleted",
    );
}

/// One of six, as it may be found.
fn any_instance(number: usize) -> impl Strategy<Value = Instance> {
    let tag = prop_oneof![
        Just(None),
        Just(Some(("curfew:protected", ""))),
        Just(Some(("curfew:mode", "observe"))),
        Just(Some(("curfew:on-idle", "terminate"))),
        Just(Some(("curfew:expires-at", "2026-09-01T11:00:00Z"))),
        Just(Some(("curfew:idle-after", "soon"))),
    ];
    let state = prop_oneof![4 => Just(InstanceState::Running), 1 => Just(InstanceState::Stopped), 1 => Just(InstanceState::ShuttingDown)];
    let marked = prop_oneof![Just(""), Just("idle=stop"), Just("idle=terminate"), Just("lifetime=stop")];
    (tag, state, marked).prop_map(move |(tag, state, marked)| {
        let id = format!("i-{number}");
        let mark = format!("{marked}@2026-09-01T11:55:00Z");
        let builder = instance().id(&id).state(state);
        let builder = if marked.is_empty() { builder } else { builder.tag("curfew:marked", &mark) };
        match tag {
            Some((key, value)) => builder.tag(key, value).build(),
            None => builder.build(),
        }
    })
}

fn any_item() -> impl Strategy<Value = RecordedStep> {
    let action = prop_oneof![3 => Just("stop"), 1 => Just("terminate"), 1 => Just("delete")];
    let rule = prop_oneof![3 => Just("idle"), 1 => Just("lifetime"), 1 => Just("untagged")];
    (0..8_usize, action, rule).prop_map(|(number, action, rule)| item(&format!("i-{number}"), action, rule))
}

proptest! {
    /// Whatever there is, and whatever was reviewed: only what is on the list is carried out, and only as it was reviewed;
    /// each item is carried out or left, with a reason; and what may not be touched is not.
    #[test]
    fn only_the_list_is_carried_out_and_only_as_reviewed(
        fleet in (0..6_usize).prop_flat_map(|count| (0..count).map(any_instance).collect::<Vec<_>>()),
        items in prop::collection::btree_map(0..8_usize, any_item(), 0..6)
            .prop_map(|items| items.into_values().map(|one| (one.resource.clone(), one)).collect::<BTreeMap<_, _>>()),
        is_idle in any::<bool>(),
    ) {
        let items: Vec<RecordedStep> = items.into_values().collect();
        let usage = if is_idle { idle() } else { busy() };
        let ReviewResult { plan, left } = review(&items, fresh(fleet, &usage, ENFORCED));
        prop_assert_eq!(plan.steps.len() + left.len(), items.len());
        for step in &plan.steps {
            let reviewed = items.iter().find(|item| item.resource == step.target.resource);
            let reviewed = reviewed.expect("it is on the list");
            prop_assert_eq!(step.action.as_str(), &reviewed.action);
            prop_assert_eq!(step.evidence.rule().as_str(), &reviewed.evidence.rule);
            prop_assert!(step.mode == Mode::Enforce && step.action.stops_or_deletes() && step.held.is_none());
            let seen = step.action.instance().expect("it was seen");
            prop_assert!(!seen.tags.contains_key("curfew:protected") && seen.state == InstanceState::Running);
            prop_assert!(seen.tags.contains_key("curfew:marked"));
        }
        for (item, outcome) in &left {
            prop_assert!(outcome.kind != OutcomeKind::Done && outcome.error.is_some(), "{item:?} {outcome:?}");
        }
    }
}
