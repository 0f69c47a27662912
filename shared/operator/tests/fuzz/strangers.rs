//! What a stranger may write about a resource of his own: any tag, any moment up to the ends of the calendar, any sample of a metric, any line in
//! the log. No decider, no query, no scan and no command panics of it, and no other resource's decision changes.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::KEYS;
use model::id::{Region, ResourceId};
use model::instance::{Instance, Tags};
use model::notification_log::{CarriedOut, NotificationLog, NotificationLogs};
use model::observation::{Observation, ObservedResource};
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{Activity, ActivitySource, InactiveEvidence, SageMakerResource};
use model::usage::{
    ActivityCache, BusyEvidence, FirstRound, MetricSeries, MetricSignal, QueryDepth, QueryResult, Sample, Usage,
    UsageQuery, UsageWindow,
};
use model::volume::{ObservedStorage, Snapshot, SnapshotState, Volume, VolumeUse, snapshot_description};
use operator::doctor::tags::{KnownResources, TaggedResource};
use operator::keep::{KeepRequest, KeepUntil};
use operator::{doctor, keep, undo};
use plan::{Plan, SkipReason};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use reaping::fixture::{SageMakerBuilder, app, endpoint, idle, inference_component, notebook, training_job, volume};
use reaping::sagemaker::Activities;
use reaping::volumes::LiveJobs;
use reaping::{instances, sagemaker, scan, volumes};
use serde_json::{Value, json};

use super::memory::notices;
use super::{cases, instance, merciless, now};

/// The years from the first to the last, and what only looks like a moment.
const MOMENTS: [&str; 12] = [
    "-009999-01-02T01:59:59Z",
    "0000-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "2000-01-01T00:00:00Z",
    "2026-08-01T00:00:00Z",
    "2026-09-01T11:00:00Z",
    "2026-09-01T12:00:01Z",
    "9000-12-31T23:59:59Z",
    "9998-12-31T23:59:59Z",
    "9999-12-30T22:00:00Z",
    "9999-12-31",
    "18446744073709551615",
];

const WORDS: [&str; 9] = [
    "vol-gone",
    "vol-1",
    "us-east-1a,gp3,500,3000,125",
    "us-east-1a,gp3,18446744073709551615,,",
    "Mon-Sun 00:00-24:00 Pacific/Apia",
    "60d",
    "off",
    "enforce",
    "vision/llama-0123abcd",
];

fn value() -> impl Strategy<Value = String> {
    let moment = || select(&MOMENTS[..]);
    prop_oneof![
        4 => moment().prop_map(str::to_owned),
        2 => (select(vec!["idle", "hours", "x", ""]), moment()).prop_map(|(rule, at)| format!("{rule} {at}")),
        2 => (select(vec!["i-1", "vol-1", "other"]), select(vec!["idle", "orphaned", "expired"]), moment())
            .prop_map(|(id, rule, at)| format!("{id} {rule}=stop@{at}")),
        2 => select(&WORDS[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Of a team, or of nobody.
pub(super) fn tags() -> impl Strategy<Value = Tags> {
    let keys = KEYS.iter().copied().filter(|key| *key != "curfew:protected").chain(["Team", "Owner", "Name"]);
    let tag = (select(keys.map(str::to_owned).collect::<Vec<_>>()), value());
    (any::<bool>(), vec(tag, 0..6)).prop_map(|(is_owned, tags)| {
        let owned = [("Team", "vision"), ("Owner", "ada")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        owned.into_iter().filter(|_| is_owned).chain(tags).collect()
    })
}

pub(super) fn moment() -> impl Strategy<Value = Timestamp> {
    let near = (-100_000_i64..10).prop_map(|minutes| now() + SignedDuration::from_mins(minutes));
    prop_oneof![select(vec![Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX]), near]
}

fn number() -> impl Strategy<Value = f64> {
    let ends =
        vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 1e308, -1e308, 5e-324, -0.0, 1.0, 100.0];
    prop_oneof![select(ends), any::<f64>(), 0.0..101.0]
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let in_window = (0_i64..30).prop_map(|periods| now() - SignedDuration::from_mins(10 + 5 * periods));
    vec((prop_oneof![4 => in_window, 1 => moment()], number()), 0..40)
}

fn answers() -> impl Strategy<Value = BTreeMap<MetricSignal, Vec<Sample>>> {
    use MetricSignal::{Cpu, DiskRead, DiskWrite, Gpu, GpuMemory, NetworkIn, NetworkOut};
    let signals = [Cpu, NetworkIn, NetworkOut, DiskRead, DiskWrite, Gpu(0), GpuMemory(0), Gpu(u32::MAX)];
    vec(samples(), signals.len()).prop_map(move |all| signals.into_iter().zip(all).collect())
}

pub(super) fn home() -> Region {
    "us-east-1".into()
}

/// With lines about the stranger's resources of every kind.
fn memory(mut notices: Value, first_sight: Timestamp) -> NotificationLogs {
    notices["resources"]["vol-1"] = json!({ "since": first_sight.to_string() });
    notices["resources"]["vol-gone"] = json!({ "since": "2026-01-01T00:00:00Z", "snapshot_runs": ["abc"] });
    let text = notices.to_string().replace("\"i-0\"", "\"vol-1\"").replace("\"i-2\"", "\"endpoint/llm\"");
    let log = serde_json::from_str::<NotificationLog>(&text).unwrap_or_default();
    NotificationLogs::from([(home(), log)])
}

/// No decision was given up for a bug, and that of the sound resource is as if it were alone.
fn check(plan: &Plan, alone: &Plan, sound: &str) -> Result<(), TestCaseError> {
    for skipped in &plan.skipped {
        prop_assert!(skipped.reason != SkipReason::Bug, "{skipped:?}");
    }
    let about_sound = |plan: &Plan| {
        let steps = plan.steps.iter().filter(|step| step.target.resource.as_str() == sound).cloned();
        let skipped = plan.skipped.iter().filter(|skipped| skipped.target.resource.as_str() == sound).cloned();
        (steps.collect::<Vec<_>>(), skipped.collect::<Vec<_>>())
    };
    prop_assert_eq!(about_sound(plan), about_sound(alone));
    Ok(())
}

fn stopped() -> CarriedOut {
    CarriedOut { rule: Rule::Hours, action: ResourceAction::Stop, at: now() }
}

/// What the commands make of it.
fn ask_commands(seen: &ObservedResource, until: Option<&KeepUntil>) {
    let requests = [KeepRequest::Protect, KeepRequest::Release { keep: true, protected: true }];
    for request in requests.into_iter().chain(until.map(KeepRequest::Keep)) {
        let _ = keep::change(seen, request, now());
    }
    match seen {
        ObservedResource::Instance(instance) => {
            if let Ok(stopped) = undo::stop_to_undo(instance, Some(stopped())) {
                let _ = undo::describe_next_action(instance, stopped, now());
            }
        }
        ObservedResource::Volume(volume) => drop(undo::volume_without_undo(volume)),
        ObservedResource::Snapshot(snapshot) => {
            let _ = undo::restoration_of_deleted(&snapshot.of_volume, std::slice::from_ref(snapshot));
        }
        ObservedResource::SageMaker(resource) => {
            let _ = undo::notebook_stop_to_undo(resource, Some(stopped()));
            let _ = undo::copies_to_restore(resource, Some((Timestamp::MAX, u32::MAX)));
        }
    }
    let tagged = TaggedResource {
        region: seen.region().clone(),
        resource: seen.id().clone(),
        kind: "instance".to_owned(),
        tags: seen.tags().clone(),
    };
    let known = KnownResources {
        volumes: BTreeMap::from([(seen.id().clone(), Some(Timestamp::MIN))]),
        ..KnownResources::default()
    };
    let _ = doctor::tags::check(&[tagged], &known, now());
}

fn sagemaker_resource() -> impl Strategy<Value = SageMakerResource> {
    let kinds = [notebook(), app(), endpoint(), inference_component(), training_job()];
    let kinds = kinds.map(SageMakerBuilder::build).to_vec();
    (select(kinds), tags(), moment(), moment(), prop::option::of(select(vec![0, 1, u32::MAX]))).prop_map(
        |(kind, tags, created_at, modified_at, instances)| SageMakerResource {
            tags,
            created_at,
            modified_at,
            instances,
            ..kind
        },
    )
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn about_instances(
        tags in tags(), launched_at in moment(), until in moment(), notices in notices(), first in answers(), further in answers(),
        is_busy in any::<bool>(), keep_until in value(),
    ) {
        let sound = instance("i-9", BTreeMap::new());
        let stranger = Instance { launched_at, ..instance("i-1", tags) };
        let (memory, policy) = (memory(notices, until), merciless());
        // What the metrics say of it, in each round.
        let config = &policy.config;
        let names = config.metrics.series_names(stranger.machine.accelerator);
        let window = UsageWindow::ending_before(now(), SignedDuration::from_hours(1));
        let ask = UsageQuery { instance: &stranger, window, likely: None, depth: QueryDepth::Full, looks_back: true };
        let devices = model::usage::DeviceSeries::from(vec![MetricSeries { namespace: "CWAgent".to_owned(), metric: "gpu".to_owned(), dimensions: Vec::new() }]);
        let mut answered = BTreeMap::new();
        match ask.after_first(first, true, names, &config.idle) {
            Some(FirstRound::Open(open)) => {
                let _ = open.questions(&devices, names, &config.idle);
                answered.extend(open.conclude(further, true, &devices, names, &config.idle).map(|found| (stranger.id.clone(), found)));
            }
            Some(FirstRound::Found(found)) => drop(answered.insert(stranger.id.clone(), found)),
            None => {}
        }
        let seen: Vec<&Instance> = vec![&sound, &stranger];
        let due = instances::usage_queries(&seen, &ActivityCache::default(), &memory, &policy, now());
        let learned = instances::learn_usage(&seen, &due, answered.clone(), &ActivityCache::default(), &policy, now());
        let learned_again = instances::learn_usage(&seen, &due, BTreeMap::new(), &learned.activity, &policy, now());
        let answered_usage = answered.into_values().find_map(|found| match found {
            QueryResult::Answered(usage, _) => Some(usage),
            QueryResult::NoWork => None,
        });
        let usage = if is_busy { Usage::Busy(BusyEvidence { until, shown: None }) } else { answered_usage.unwrap_or_else(idle) };
        let mut usages = learned_again.usages;
        usages.extend([(stranger.id.clone(), usage), (sound.id.clone(), idle())]);

        let decide = |items: &[Instance]| {
            let seen = Observation { items: items.to_vec(), gaps: Vec::new() };
            instances::decide(&seen, &usages, &memory, &policy, now())
        };
        check(&decide(&[stranger.clone(), sound.clone()]), &decide(std::slice::from_ref(&sound)), "i-9")?;
        let _ = instances::explain(&stranger, usages.get(&stranger.id), &memory[&home()], &policy, now());
        let all = [stranger.clone(), sound];
        prop_assert_eq!(scan::instances(&all, &usages, &policy, now()).gaps, vec![]);
        let _ = scan::unjudged(&all, &usages, &policy, now());
        let keep_until = KeepUntil::read(&keep_until, now()).ok();
        ask_commands(&ObservedResource::Instance(stranger), keep_until.as_ref());
    }

    #[test]
    fn about_volumes_and_snapshots(
        of_volume in tags(), of_snapshot in tags(), created_at in moment(), started_at in moment(), used_at in moment(), first_sight in moment(),
        size_gib in select(vec![0, 1, 500, u64::MAX]), notices in notices(), is_used in any::<bool>(), is_of_curfew in any::<bool>(),
    ) {
        let (memory, policy) = (memory(notices, first_sight), merciless());
        let sound = volume().id("vol-9").build();
        let stranger = Volume { tags: of_volume, created_at, size_gib, iops: Some(u64::MAX), ..volume().id("vol-1").build() };
        let snapshot = Snapshot {
            id: "snap-1".into(),
            region: "us-east-1".into(),
            of_volume: "vol-gone".into(),
            state: SnapshotState::Completed,
            started_at,
            size_gib,
            description: if is_of_curfew { snapshot_description(&"vol-gone".into(), &"abc".into()) } else { String::new() },
            tags: of_snapshot,
        };
        let mut uses = BTreeMap::from([(sound.id.clone(), VolumeUse::None)]);
        uses.insert(stranger.id.clone(), if is_used { VolumeUse::UsedAt(used_at) } else { VolumeUse::None });
        let storage = |items: &[&Volume], snapshots: &[&Snapshot]| ObservedStorage {
            volumes: Observation { items: items.iter().copied().cloned().collect(), gaps: Vec::new() },
            snapshots: snapshots.iter().copied().cloned().collect(),
            ..ObservedStorage::default()
        };
        let live = LiveJobs::new();
        let decide = |seen: &ObservedStorage| volumes::decide(seen, &uses, &live, &memory, &policy, now());
        let all = storage(&[&stranger, &sound], &[&snapshot]);
        check(&decide(&all), &decide(&storage(&[&sound], &[])), "vol-9")?;
        let _ = (volumes::volume_use_queries(&all, &live, &memory, &policy, now()), volumes::jobs(&all));
        for id in ["vol-1", "snap-1"].map(ResourceId::from) {
            let _ = volumes::explain(&all, &uses, &live, &memory, &policy, now(), &id);
            let _ = volumes::full_use_query(&all, &live, &memory, &policy, now(), &id);
        }
        prop_assert_eq!(scan::volumes(&all, &policy, now()).gaps, vec![]);
        ask_commands(&ObservedResource::Volume(stranger), None);
        ask_commands(&ObservedResource::Snapshot(snapshot), None);
    }

    #[test]
    fn about_resources_of_sagemaker(
        stranger in sagemaker_resource(), answers in vec(samples(), 3), from in moment(), to in moment(), at in moment(),
        notices in notices(), which in 0..3, percent in number(),
    ) {
        use model::sagemaker::ActivitySignal::{ConcurrentRequests, Gpu, Requests};
        let (memory, policy) = (memory(notices, at), merciless());
        let (log, config) = (&memory[&home()], &policy.config);
        let sound = notebook().id("notebook-instance/other").build();
        let all = [stranger.clone(), sound.clone()];
        let answers = BTreeMap::from([(stranger.id.clone(), [Requests, ConcurrentRequests, Gpu(0)].into_iter().zip(answers).collect())]);
        let _ = (sagemaker::first_questions(&all, config, now()), sagemaker::further_questions(&all, &answers, log, config, now()));
        let shown_by = ActivitySource::UserActivity;
        let activity = match which {
            0 => Activity::Inactive(InactiveEvidence { from, to, shown_by, gpu_max_percent: Some(percent) }),
            1 => sagemaker::evaluate_low_use(&stranger, Activity::Active(at), &answers, config, now()),
            _ => sagemaker::evaluate(&stranger, &answers, config, now()),
        };
        let activities = Activities::from([((stranger.region.clone(), stranger.id.clone()), activity)]);
        let decide = |items: &[SageMakerResource]| {
            let seen = Observation { items: items.to_vec(), gaps: Vec::new() };
            sagemaker::decide(&seen, &activities, &memory, &policy, now())
        };
        check(&decide(&all), &decide(&[sound]), "notebook-instance/other")?;
        let seen = Observation { items: all.to_vec(), gaps: Vec::new() };
        let _ = sagemaker::explain(&seen, &activities, &memory, &policy, now(), (&stranger.region, &stranger.id));
        prop_assert_eq!(scan::sagemaker(&all, &activities, &policy, now()).gaps, vec![]);
        ask_commands(&ObservedResource::SageMaker(stranger), None);
    }
}
