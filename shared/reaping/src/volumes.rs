//! The decisions of reap-volumes: which volumes to query, which to skip, and what to do to the others and to the snapshots that Curfew
//! made.
//!
//! Skips come first. The first run that sees a volume unattached remembers that; use or an attachment ends it. One rule judges unattached
//! volumes, [`crate::rules::orphaned`]. A deletion takes at least two runs past the deadline: one starts a snapshot, a later one
//! that finds it complete deletes the volume.

mod explain;
mod owner;
mod scan;
mod skip;
mod snapshots;
mod tracked;

use std::collections::{BTreeMap, BTreeSet};

use billing::price;
use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::{CurfewTags, RESTORE, SNAPSHOT_OF, UnreadableTag};
use model::fault::Bug;
use model::id::{Region, ResourceId, RunId};
use model::instance::Tags;
use model::mark::whole_second;
use model::mode::Mode;
use model::notification_log::{NotificationKey, NotificationLog, NotificationLogs, ResourceRecord, SafetyRecord};
use model::rule::Rule;
use model::volume::{ObservedStorage, Snapshot, Volume, VolumeHost, VolumeOrigin, VolumeUse, VolumeUseQuery, own_tags};
use plan::{LeftCost, Plan, ResourceMemory, SkipReason, Skipped, Step, Target, limits};

use crate::engine::announcements::AnnouncedResource;
use crate::engine::{PlanDecision, ResourceCase, ResourceFacts, decide_each};
use crate::policy::{Policy, Verdict, configured_mode};
use crate::rules::orphaned::{self, VolumeSubject};

pub use explain::{explain, full_use_query};
pub use owner::{is_of_interest, wants_its_source};
pub use scan::scan;
use tracked::TrackedVolume;

/// A snapshot that failed is not tried again at once: every try may leave one more.
const TRY_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// The jobs that are not finished, as `<team>/<job>`.
pub type LiveJobs = BTreeSet<String>;

/// The plan for all observed volumes and snapshots that Curfew made. The same arguments give the same plan.
///
/// `live_jobs`: those of [`jobs()`] that are not finished, or whose state is unknown.
#[must_use]
pub fn decide(
    seen: &ObservedStorage,
    uses: &BTreeMap<ResourceId, VolumeUse>,
    live_jobs: &LiveJobs,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Plan {
    let view = StorageView::new(seen, live_jobs, memory, policy, now);
    let cases = seen.volumes.items.iter().map(|volume| view.case(volume, uses.get(&volume.id).copied()));
    let mut plan = decide_each(cases, &seen.volumes.gaps, policy.config.account.zone());
    for snapshot in &seen.snapshots {
        let log = view.log(&snapshot.region);
        let (target, decide) = (|| view.target(snapshot), || view.decide_snapshot(snapshot));
        PlanDecision::or_bug(&snapshot.region, &snapshot.id, log, target, decide).add_to(&mut plan);
    }
    limits::hold_where_exceeded(&mut plan, &policy.config.limits);
    plan
}

/// The volumes to query `CloudWatch` about, which bills by the metric: those where the answer may change the decision, and once a day the
/// others.
#[must_use]
pub fn volume_use_queries(
    seen: &ObservedStorage,
    live_jobs: &LiveJobs,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Vec<VolumeUseQuery> {
    let view = StorageView::new(seen, live_jobs, memory, policy, now);
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    let cases = unattached.map(|volume| view.case(volume, Some(VolumeUse::None)));
    let due = cases.filter(|case| now.duration_since(case.since) >= policy.config.volumes.orphaned_after);
    // A bug in it is one of the decision as well, which names it.
    due.filter(|case| Bug::catch(|| case.is_decided_by_use()).unwrap_or(false))
        .map(|case| VolumeUseQuery {
            region: case.volume.region.clone(),
            volume: case.volume.id.clone(),
            since: case.since,
        })
        .collect()
}

/// The jobs that unattached volumes were created for, as `<team>/<job>`.
#[must_use]
pub fn jobs(seen: &ObservedStorage) -> BTreeSet<String> {
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    unattached.filter_map(|volume| CurfewTags::read_volume(&volume.tags).ok()?.job).collect()
}

/// Curfew's record of a snapshot; `None` if Curfew did not make it. Both its description, which nobody can change, and the log must name
/// the run that made it: tags and descriptions are for anybody to write, and a copy has them too.
///
/// `first`: the first snapshot of that volume and run. A later one is a copy of the description.
fn safety_record(snapshot: &Snapshot, first: &FirstSnapshots<'_>, memory: &NotificationLogs) -> Option<SafetyRecord> {
    let run = snapshot.described_run()?;
    let log = memory.get(&snapshot.region)?;
    let recorded = log.record_about(&snapshot.id, snapshot.started_at);
    if let Some(safety) = recorded.and_then(|record| record.safety.as_ref()) {
        return (safety.run == run && safety.volume == snapshot.of_volume).then(|| safety.clone());
    }
    // Seen for the first time since that run.
    let requested = log.record(&snapshot.of_volume).is_some_and(|volume| volume.snapshot_runs.contains(&run));
    let is_first = first.get(&(&snapshot.of_volume, run.clone())).is_some_and(|(_, id)| **id == snapshot.id);
    (requested && is_first).then(|| SafetyRecord { volume: snapshot.of_volume.clone(), run, deleted_at: None })
}

/// The earliest snapshot of each volume and run.
type FirstSnapshots<'a> = BTreeMap<(&'a ResourceId, RunId), (Timestamp, &'a ResourceId)>;

fn first_snapshots(snapshots: &[Snapshot]) -> FirstSnapshots<'_> {
    let mut first = FirstSnapshots::new();
    for snapshot in snapshots {
        let Some(run) = snapshot.described_run() else { continue };
        let began = (snapshot.started_at, &snapshot.id);
        first.entry((&snapshot.of_volume, run)).and_modify(|first| *first = began.min(*first)).or_insert(began);
    }
    first
}

/// Everything that was observed, indexed.
struct StorageView<'a> {
    volumes: BTreeSet<(&'a Region, &'a ResourceId)>,
    /// Curfew's own, by volume.
    snapshots: BTreeMap<&'a ResourceId, Vec<&'a Snapshot>>,
    first_snapshots: FirstSnapshots<'a>,
    hosts: BTreeMap<&'a ResourceId, &'a VolumeHost>,
    sources: &'a BTreeMap<ResourceId, Tags>,
    live_jobs: &'a LiveJobs,
    memory: &'a NotificationLogs,
    empty_log: NotificationLog,
    policy: &'a Policy,
    now: Timestamp,
}

impl<'a> StorageView<'a> {
    fn new(
        seen: &'a ObservedStorage,
        live_jobs: &'a LiveJobs,
        memory: &'a NotificationLogs,
        policy: &'a Policy,
        now: Timestamp,
    ) -> Self {
        let mut snapshots: BTreeMap<&ResourceId, Vec<&Snapshot>> = BTreeMap::new();
        let first_snapshots = first_snapshots(&seen.snapshots);
        let is_own = |snapshot: &&Snapshot| safety_record(snapshot, &first_snapshots, memory).is_some();
        for snapshot in seen.snapshots.iter().filter(is_own) {
            snapshots.entry(&snapshot.of_volume).or_default().push(snapshot);
        }
        Self {
            volumes: seen.volumes.items.iter().map(|volume| (&volume.region, &volume.id)).collect(),
            snapshots,
            first_snapshots,
            hosts: seen.hosts.iter().map(|host| (&host.id, host)).collect(),
            sources: &seen.sources,
            live_jobs,
            memory,
            empty_log: NotificationLog::default(),
            policy,
            now,
        }
    }

    fn log(&self, region: &Region) -> &NotificationLog {
        self.memory.get(region).unwrap_or(&self.empty_log)
    }

    fn case<'c>(&'c self, volume: &'c Volume, used: Option<VolumeUse>) -> VolumeCase<'c> {
        let log = self.log(&volume.region);
        let host = volume.attached_to.iter().find_map(|id| self.hosts.get(id).copied());
        let record = log.record(&volume.id);
        // Nobody saw a volume unattached before it existed, nor will in the future: such a record is damaged.
        let seen_since = record.and_then(|record| record.since).filter(|since| *since <= self.now);
        let since = seen_since.unwrap_or_else(|| whole_second(self.now));
        VolumeCase { view: self, volume, used, log, host, record, since }
    }
}

/// One volume with everything that is known about it.
#[derive(Clone, Copy)]
struct VolumeCase<'a> {
    view: &'a StorageView<'a>,
    volume: &'a Volume,
    used: Option<VolumeUse>,
    log: &'a NotificationLog,
    /// The instance that it is attached to.
    host: Option<&'a VolumeHost>,
    record: Option<&'a ResourceRecord>,
    /// Time at which it was first seen unattached; now, if this run is the first.
    since: Timestamp,
}

impl<'a> ResourceCase<'a> for VolumeCase<'a> {
    fn facts(self) -> ResourceFacts<'a> {
        let Self { volume: Volume { region, id, tags, .. }, log, view, since, .. } = self;
        ResourceFacts { region, id, tags, began: since, since, log, policy: view.policy, now: view.now }
    }

    fn target(self) -> Target {
        let what = format!("{} GiB {}", self.volume.size_gib, self.volume.volume_type);
        self.facts().target(&self.tags_of_owner(), what)
    }

    fn curfew_tags(self) -> Result<CurfewTags, Vec<UnreadableTag>> {
        CurfewTags::read_volume(&self.volume.tags)
    }

    fn unjudged(self, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        let remembered = self.record.and_then(|record| record.since).filter(|_| !self.volume.is_attached());
        self.memory(remembered, active_keys)
    }

    /// Skips unattached volumes that belong to somebody else, or whose use cannot be known.
    fn skip_of_kind(self, curfew_tags: &CurfewTags) -> Option<Skipped> {
        if self.volume.is_attached() {
            return None;
        }
        let reason = self.kept_by_others(curfew_tags)?;
        let is_of_others = matches!(reason, SkipReason::Kubernetes | SkipReason::ForeignOwned);
        let cost = LeftCost { price: self.view.policy.prices.volume_cost(self.volume), waste: None };
        Some(Skipped { left_cost: is_of_others.then_some(cost), ..self.skip(reason, Vec::new()) })
    }

    fn decide_by_rules(self, curfew_tags: &CurfewTags) -> PlanDecision {
        if self.volume.is_unattached() {
            self.decide_unattached(curfew_tags)
        } else {
            self.decide_attached(curfew_tags)
        }
    }
}

impl<'a> VolumeCase<'a> {
    fn subject(self) -> VolumeSubject<'a> {
        VolumeSubject {
            volume: self.volume,
            unattached_since: self.since,
            used: self.used,
            tags_to_keep: self.tags_of_snapshot().len(),
            price: price::rate(self.view.policy.prices.volume_cost(self.volume)),
            last_host: self.last_seen_on(),
            rule: &self.view.policy.config.volumes,
            now: self.view.now,
        }
    }

    fn decide_unattached(self, curfew_tags: &CurfewTags) -> PlanDecision {
        let tracked = TrackedVolume { case: self, curfew_tags, mode: self.mode(curfew_tags) };
        let verdicts = tracked.within_labels(vec![(Rule::Orphaned, orphaned::judge(self.subject()))]);
        let track = tracked.track(&verdicts, tracked.mode);
        let observing = tracked.mode == Mode::Observe;
        let due = tracked.due(&track);
        let action = match due {
            // An observed action stays due in every run: once announced, it must not hide others.
            Some(step) if !(observing && step.already_notified) => Some(step),
            due => {
                let changed = tracked.rewrite(&track).or_else(|| tracked.first_sight());
                changed.or_else(|| tracked.notify_only_step(&track)).or(due).or_else(|| tracked.observed_before(&track))
            }
        };
        let resource_memory = tracked.resource_memory(&track, &verdicts);
        match action {
            Some(step) => Step { memory: resource_memory, ..step }.into(),
            None => self.skip_after_judging(&track, resource_memory).into(),
        }
    }

    /// Only an announcement, or the record that it was unattached, may have to be removed.
    fn decide_attached(self, curfew_tags: &CurfewTags) -> PlanDecision {
        let tracked = TrackedVolume { case: self, curfew_tags, mode: self.mode(curfew_tags) };
        let verdicts = [(Rule::Orphaned, Verdict::Compliant)];
        let track = tracked.track(&verdicts, tracked.mode);
        let resource_memory = tracked.resource_memory(&track, &verdicts);
        match tracked.rewrite(&track) {
            Some(step) => Step { memory: resource_memory, ..step }.into(),
            None => self.skip_attached(resource_memory).into(),
        }
    }

    /// `true` if an answer without any use would change the decision.
    fn is_decided_by_use(self) -> bool {
        let its_hour = || {
            let number: i64 = self.volume.id.as_str().bytes().map(i64::from).sum();
            number.rem_euclid(24) == self.view.now.as_second().div_euclid(3600).rem_euclid(24)
        };
        match self.decide() {
            PlanDecision::Step(step) => step.mode == Mode::Enforce || !step.already_notified || its_hour(),
            PlanDecision::Skipped(skipped) => match skipped.reason {
                SkipReason::Marked | SkipReason::SnapshotPending | SkipReason::SnapshotFailed | SkipReason::Refused => {
                    true
                }
                SkipReason::Notified => its_hour(),
                _ => false,
            },
        }
    }

    fn mode(self, curfew_tags: &CurfewTags) -> Mode {
        let owner_tags = self.tags_of_owner();
        let ceiling = self.facts().ceiling(&owner_tags, Rule::Orphaned);
        configured_mode(curfew_tags, &owner_tags, &self.view.policy.config).min(ceiling)
    }

    /// `true` if it is in use, or was since it was first seen unattached.
    fn is_in_use(self) -> bool {
        !self.volume.is_unattached() || matches!(self.used, Some(VolumeUse::UsedAt(_)))
    }

    fn snapshots(self) -> &'a [&'a Snapshot] {
        self.view.snapshots.get(&self.volume.id).map_or(&[], Vec::as_slice)
    }

    /// The owner tags, which must survive volume, instance and source; the tags of the volume; and what a restoration needs.
    fn tags_of_snapshot(self) -> Tags {
        let Self { volume, .. } = self;
        let mut tags = self.tags_of_owner();
        tags.extend(own_tags(&volume.tags).map(|(key, value)| (key.clone(), value.clone())));
        tags.insert(SNAPSHOT_OF.to_owned(), volume.id.to_string());
        tags.insert(RESTORE.to_owned(), VolumeOrigin::from_volume(volume).to_string());
        tags
    }
}
