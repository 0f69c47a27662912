//! In observe mode, the first run names the step that enforce mode would take, whatever the resource: the same action, rule and deadline.

use std::collections::BTreeMap;

use model::ceiling::Ceiling;
use model::config::Config;
use model::curfew_tags::{DELETED_AT, SNAPSHOT_OF, UNATTACHED_SINCE};
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState, PurchaseOption};
use model::mode::Mode;
use model::notification_log::{NotificationLog, NotificationLogs, ResourceRecord, SafetyRecord};
use model::observation::Observation;
use model::sagemaker::{Activity, ActivitySource, InactiveEvidence, SageMakerResource, UnknownActivity};
use model::usage::{ActivityCache, LastInquiry, UnknownUsage, Usage};
use model::volume::{ObservedStorage, Snapshot, SnapshotState, Volume, VolumeUse, snapshot_description};
use plan::Plan;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::fixture::{
    NOW, SageMakerBuilder, app, busy, endpoint, enforcing, idle, inference_component, log_of_instances, notebook,
    reserved, time, training_job, unknown, untagged, volume,
};
use crate::policy::Policy;

/// The sections that decide which rules are violated, and what is due.
const SECTIONS: [&str; 9] = [
    "[idle]\nlocal_disk = \"expendable\"\n",
    "[idle]\naction = \"terminate\"\n",
    "[idle]\naction = \"notify\"\n",
    "[lifetime]\naction = \"stop\"\n",
    "[lifetime]\nmax = \"1h\"\n",
    "[untagged]\nspare_busy = false\n",
    "[untagged]\naction = \"notify\"\n",
    "[projects]\nallowed = [\"atlas\"]\naction = \"stop\"\n",
    "[sagemaker]\nendpoint_action = \"delete\"\ncomponent_action = \"scale-to-zero\"\n",
];

const TAGS: [(&str, &str); 14] = [
    ("Team", "vision"),
    ("Owner", "ada"),
    ("Project", "doom"),
    ("Project", "atlas"),
    ("curfew:expires-at", "2026-09-01T11:00:00Z"),
    ("curfew:expires-at", "2026-09-03T11:00:00Z"),
    ("curfew:hours", "Mon-Fri 06:00-12:10 UTC"),
    ("curfew:hours", "Mon-Fri 06:00-10:00 UTC"),
    ("curfew:idle-after", "off"),
    ("curfew:on-idle", "notify"),
    ("curfew:local-disk", "expendable"),
    ("curfew:keep-until", "2026-09-03"),
    ("curfew:protected", ""),
    ("eks:cluster-name", "ml"),
];

/// A configuration that enforces everything, under both ceilings.
fn policies() -> impl Strategy<Value = [Policy; 2]> {
    subsequence(SECTIONS.to_vec(), 0..=3).prop_filter_map("a section twice", |sections| {
        let mut config = Config::read(&sections.concat()).ok()?;
        (config.mode, config.untagged.mode, config.sagemaker.mode) = (Mode::Enforce, Mode::Enforce, Mode::Enforce);
        Some([Mode::Enforce, Mode::Observe].map(|mode| Policy {
            ceiling: Ceiling::fixed(mode),
            config: config.clone(),
            ..enforcing("")
        }))
    })
}

fn tags() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    subsequence(TAGS.to_vec(), 0..=6)
}

fn launches() -> impl Strategy<Value = &'static str> {
    select(vec!["2026-09-01T11:56:00Z", "2026-09-01T09:00:00Z", "2026-08-31T12:00:00Z", "2026-08-15T12:00:00Z"])
}

fn instances() -> impl Strategy<Value = Instance> {
    let purchases = vec![PurchaseOption::OnDemand, PurchaseOption::SpotOneTime, PurchaseOption::SpotPersistent];
    let states = vec![InstanceState::Running, InstanceState::Running, InstanceState::Stopped];
    let kinds = (select(purchases), select(states), select(vec![0_u64, 250]), any::<bool>());
    (tags(), launches(), kinds).prop_map(|(tags, launched, (purchase, state, storage, is_ephemeral))| {
        let tagged = tags.iter().fold(untagged(), |builder, (key, value)| builder.tag(key, value));
        let built = tagged.launched(launched).purchase(purchase).state(state).instance_storage(storage);
        if is_ephemeral { built.root_on_instance_storage().build() } else { built.build() }
    })
}

fn usages() -> impl Strategy<Value = Usage> {
    select(vec![idle(), idle(), reserved(), busy(), unknown(), Usage::Unknown(UnknownUsage::NotAsked)])
}

fn resources() -> impl Strategy<Value = SageMakerResource> {
    let kinds = [notebook(), app(), endpoint(), inference_component(), training_job()].map(SageMakerBuilder::build);
    (select(kinds.to_vec()), tags(), launches()).prop_map(|(resource, tags, created)| SageMakerResource {
        created_at: time(created),
        modified_at: time(created),
        tags: tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..resource
    })
}

fn activities() -> impl Strategy<Value = Activity> {
    let inactive = InactiveEvidence {
        from: time("2026-08-31T12:00:00Z"),
        to: time(NOW),
        shown_by: ActivitySource::Requests,
        gpu_max_percent: Some(0.0),
    };
    select(vec![
        Activity::Inactive(inactive.clone()),
        Activity::Inactive(inactive),
        Activity::Active(time("2026-09-01T11:00:00Z")),
        Activity::Unknown(UnknownActivity::NotAsked),
    ])
}

fn volumes() -> impl Strategy<Value = Volume> {
    // Shown as unattached, so that only an announcement is left to write.
    tags().prop_map(|tags| {
        let seen = volume().untagged().tag(UNATTACHED_SINCE, SINCE);
        tags.iter().fold(seen, |builder, (key, value)| builder.tag(key, value)).build()
    })
}

const SINCE: &str = "2026-08-10T12:00:00Z";
const SNAPSHOT_RUN: &str = "2026-08-02T12-00-00Z-1";

fn snapshot(place: usize, state: SnapshotState, tags: &[(&str, &str)]) -> Snapshot {
    let labels = [(SNAPSHOT_OF, "vol-0abc"), (DELETED_AT, "2026-08-02T12:00:00Z")];
    Snapshot {
        id: format!("snap-{place}").as_str().into(),
        region: "us-east-1".into(),
        of_volume: "vol-0abc".into(),
        state,
        started_at: time(["2026-07-01T12:00:00Z", "2026-07-02T12:00:00Z"][place]),
        size_gib: 500,
        tags: labels.iter().chain(tags).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        description: snapshot_description(&"vol-0abc".into(), &SNAPSHOT_RUN.into()),
    }
}

/// The log of a volume that was first seen unattached then, and of its snapshots, whose volume was there or was deleted then.
fn storage_log(snapshots: &[Snapshot], deleted_at: Option<&str>) -> NotificationLog {
    let record = |snapshot: &Snapshot| {
        let deleted_at = deleted_at.map(time);
        let safety = SafetyRecord { volume: "vol-0abc".into(), run: SNAPSHOT_RUN.into(), deleted_at };
        ResourceRecord { safety: Some(safety), ..ResourceRecord::about(snapshot.started_at) }
    };
    let mut resources: BTreeMap<ResourceId, ResourceRecord> =
        snapshots.iter().map(|snapshot| (snapshot.id.clone(), record(snapshot))).collect();
    resources.insert("vol-0abc".into(), ResourceRecord { since: Some(time(SINCE)), ..ResourceRecord::default() });
    NotificationLog { resources, ..NotificationLog::default() }
}

/// The action, rule and deadline of each step, and the reason of each skip, by resource.
fn describe(plan: &Plan) -> BTreeMap<&ResourceId, String> {
    let steps = plan.steps.iter().map(|step| {
        let (action, rule) = (step.action.as_str(), step.evidence.rule());
        (&step.target.resource, format!("{action} {rule} {:?} {:?}", step.deadline, step.notify_only))
    });
    let skipped = plan.skipped.iter().map(|skipped| (&skipped.target.resource, format!("skip {:?}", skipped.reason)));
    steps.chain(skipped).collect()
}

fn logs(log: NotificationLog) -> NotificationLogs {
    NotificationLogs::from([(Region::from("us-east-1"), log)])
}

proptest! {
    #[test]
    fn of_an_instance(given in instances(), usage in usages(), policies in policies(), knows_expiry: bool) {
        let items = vec![given];
        let log = if knows_expiry { log_of_instances(&items) } else { NotificationLog::default() };
        let usages = BTreeMap::from([(items[0].id.clone(), usage)]);
        let seen = Observation { items, gaps: Vec::new() };
        let memory = logs(log);
        let [enforced, observed] =
            policies.map(|policy| crate::instances::decide(&seen, &usages, &memory, &policy, time(NOW)));
        prop_assert_eq!(describe(&observed), describe(&enforced));
    }

    #[test]
    fn of_a_resource_of_sagemaker(given in resources(), activity in activities(), policies in policies()) {
        let items = vec![given];
        let activities = BTreeMap::from([((items[0].region.clone(), items[0].id.clone()), activity)]);
        let seen = Observation { items, gaps: Vec::new() };
        let memory = NotificationLogs::new();
        let [enforced, observed] =
            policies.map(|policy| crate::sagemaker::decide(&seen, &activities, &memory, &policy, time(NOW)));
        prop_assert_eq!(describe(&observed), describe(&enforced));
    }

    #[test]
    fn of_a_volume_and_its_snapshots(
        given in proptest::option::of(volumes()),
        states in proptest::collection::vec(select(vec![SnapshotState::Completed, SnapshotState::Error]), 0..=2),
        tags in tags(),
        deleted_at in select(vec![None, Some("2026-08-02T12:00:00Z"), Some("2026-08-20T12:00:00Z")]),
        policies in policies(),
    ) {
        let snapshots: Vec<Snapshot> =
            states.into_iter().enumerate().map(|(place, state)| snapshot(place, state, &tags)).collect();
        let memory = logs(storage_log(&snapshots, deleted_at));
        let items: Vec<Volume> = given.into_iter().collect();
        let uses = items.iter().map(|volume| (volume.id.clone(), VolumeUse::None)).collect();
        let volumes = Observation { items, gaps: Vec::new() };
        let seen = ObservedStorage { volumes, snapshots, ..ObservedStorage::default() };
        let jobs = crate::volumes::LiveJobs::new();
        let [enforced, observed] =
            policies.map(|policy| crate::volumes::decide(&seen, &uses, &jobs, &memory, &policy, time(NOW)));
        prop_assert_eq!(describe(&observed), describe(&enforced));
    }

    /// What was not announced yet is queried as often and as deeply, whatever an earlier query found.
    #[test]
    fn asks_the_same_questions(
        instance in instances(),
        policies in policies(),
        found in proptest::option::of(any::<bool>()),
        minutes in 1_i64..1500,
        full in any::<bool>(),
    ) {
        let at = time(NOW) - jiff::SignedDuration::from_mins(minutes);
        let inquiry = LastInquiry {
            at,
            busy_until: None,
            shown_by: None,
            found_idle_reserved: found,
            found_idle_by_power: false,
            looked_back: None,
            in_full_at: full.then_some(at),
            idle_not_before: at,
        };
        let activity = ActivityCache { instances: BTreeMap::from([(instance.id.clone(), inquiry)]) };
        let memory = NotificationLogs::new();
        let [enforced, observed] = policies.map(|policy| {
            let queries = crate::instances::usage_queries(&[&instance], &activity, &memory, &policy, time(NOW));
            queries.iter().map(|query| format!("{:?} {:?}", query.depth, query.window)).collect::<Vec<_>>()
        });
        prop_assert_eq!(observed, enforced);
    }
}
