//! The volume reaper's decisions: whom to ask about, what to do to each volume and to each snapshot that Curfew made, and whom
//! to spare.
//!
//! Spares come first. What is attached, or shows use, is no longer remembered as unattached; what is unattached is
//! remembered as such at first sight, and judged by one rule, [`orphaned`](crate::rules::orphaned). An announced end is carried out
//! in two runs at least: one begins a snapshot, a later one that finds it whole deletes the volume.

mod explain;
mod owner;
mod scan;
mod skip;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet};

use billing::price;
use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::{CurfewTags, PROTECTED, RESTORE, SNAPSHOT_OF, UNATTACHED_SINCE};
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::mark::{Mark, whole_second};
use model::mode::Mode;
use model::notification_log::{NotificationKey, NotificationLog, NotificationLogs};
use model::ownership::value_of;
use model::rule::{ResourceAction, Rule};
use model::volume::{
    ObservedStorage, Snapshot, SnapshotState, Volume, VolumeHost, VolumeOrigin, VolumeUse, VolumeUseQuery, own_tags,
};
use plan::{
    Action, Announcement, Evidence, Plan, ResourceMemory, SafetySnapshot, SkipReason, Skipped, Step, Target,
    VolumeAction, is_safe, limits, may_become_safe,
};

use crate::announcements::{AnnouncementTarget, RuleTrack};
use crate::policy::{Policy, Verdict, effective_mode};
use crate::rules::orphaned::{self, VolumeSubject};

pub use explain::{explain, full_use_query};
pub use owner::{is_of_interest, wants_its_source};
pub use scan::scan;

/// A snapshot that failed is not tried again at once: every try may leave one more.
const TRY_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// What other documents of the bucket say.
pub type LiveJobs = BTreeSet<String>;

/// Plans for every volume, and every snapshot of Curfew's, that was seen. The same arguments give the same plan.
///
/// `live_jobs` are those of the jobs that [`jobs`] names which are not finished, or of which nobody can say.
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
    let mut plan = Plan {
        seen: seen.volumes.items.len(),
        steps: Vec::new(),
        skipped: Vec::new(),
        gaps: seen.volumes.gaps.clone(),
    };
    let mut volumes: Vec<&Volume> = seen.volumes.items.iter().collect();
    volumes.sort_by_key(|volume| (&volume.region, &volume.id));
    let of_volumes = volumes.into_iter().map(|volume| view.case(volume, uses.get(&volume.id).copied()).decide());
    let of_snapshots = seen.snapshots.iter().map(|snapshot| view.decide_snapshot(snapshot));
    for line in of_volumes.chain(of_snapshots) {
        match line {
            VolumeDecision::Step(step) => plan.steps.push(*step),
            VolumeDecision::Skipped(skipped) => plan.skipped.push(*skipped),
        }
    }
    limits::hold_where_exceeded(&mut plan, &policy.config.limits);
    plan
}

/// Whom to ask `CloudWatch` about, which bills by the metric: those of whom the answer may change anything, and once a day
/// those of whom everything has been said.
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
    due.filter(|case| case.matters())
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

/// Where the plan has one volume, or one snapshot.
enum VolumeDecision {
    Step(Box<Step>),
    Skipped(Box<Skipped>),
}

/// Everything that was seen, by what it belongs to.
struct StorageView<'a> {
    volumes: BTreeSet<(&'a Region, &'a ResourceId)>,
    snapshots: BTreeMap<&'a ResourceId, Vec<&'a Snapshot>>,
    hosts: BTreeMap<&'a ResourceId, &'a VolumeHost>,
    sources: &'a BTreeMap<ResourceId, Tags>,
    live_jobs: &'a LiveJobs,
    memory: &'a NotificationLogs,
    nothing_told: NotificationLog,
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
        for snapshot in seen.snapshots.iter().filter(|snapshot| snapshot.is_of_curfew()) {
            snapshots.entry(&snapshot.of_volume).or_default().push(snapshot);
        }
        Self {
            volumes: seen.volumes.items.iter().map(|volume| (&volume.region, &volume.id)).collect(),
            snapshots,
            hosts: seen.hosts.iter().map(|host| (&host.id, host)).collect(),
            sources: &seen.sources,
            live_jobs,
            memory,
            nothing_told: NotificationLog::default(),
            policy,
            now,
        }
    }

    fn notices(&self, region: &Region) -> &NotificationLog {
        self.memory.get(region).unwrap_or(&self.nothing_told)
    }

    fn case<'c>(&'c self, volume: &'c Volume, used: Option<VolumeUse>) -> VolumeCase<'c> {
        let notices = self.notices(&volume.region);
        let host = volume.attached_to.iter().find_map(|id| self.hosts.get(id).copied());
        let written = CurfewTags::read_volume(&volume.tags).ok().and_then(|says| says.unattached_since);
        // What is remembered beside a tag is newer: the tag could not be taken away when the volume was in use.
        let since =
            written.max(notices.first_sights.get(&volume.id).copied()).unwrap_or_else(|| whole_second(self.now));
        VolumeCase { view: self, volume, used, notices, host, written, since }
    }
}

/// One volume and all that is known about it.
#[derive(Clone, Copy)]
struct VolumeCase<'a> {
    view: &'a StorageView<'a>,
    volume: &'a Volume,
    used: Option<VolumeUse>,
    notices: &'a NotificationLog,
    /// The instance that it is attached to.
    host: Option<&'a VolumeHost>,
    /// Since when it is unattached, by its own tag.
    written: Option<Timestamp>,
    /// Since when it is unattached, as far as anybody has seen; now, where it was seen so for the first time.
    since: Timestamp,
}

impl<'a> VolumeCase<'a> {
    fn decide(self) -> VolumeDecision {
        if let Some(skipped) = self.immediate_skip() {
            return VolumeDecision::Skipped(Box::new(skipped));
        }
        // Unreadable tags have been spared at sight.
        let says = CurfewTags::read_volume(&self.volume.tags).unwrap_or_default();
        if self.volume.is_unattached() { self.decide_unattached(&says) } else { self.decide_attached(&says) }
    }

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

    fn decide_unattached(self, says: &CurfewTags) -> VolumeDecision {
        let verdicts = [(Rule::Orphaned, orphaned::judge(self.subject()))];
        let tracked = TrackedVolume { case: self, curfew_tags: says, mode: self.mode(says) };
        let track = tracked.track(&verdicts, tracked.mode);
        let observing = tracked.mode == Mode::Observe;
        let due = tracked.due(&track);
        let action = match due {
            // An observed end stays due in every run: once told, it hides nothing else.
            Some(step) if !(observing && step.already_notified) => Some(step),
            due => {
                let changed = tracked.rewrite(&track).or_else(|| tracked.first_sight());
                changed.or_else(|| tracked.notify_only_step(&track)).or(due).or_else(|| tracked.observed_before(&track))
            }
        };
        let memo = tracked.memo(&track, &verdicts[0].1);
        match action {
            Some(step) => VolumeDecision::Step(Box::new(Step { memory: memo, ..step })),
            None => VolumeDecision::Skipped(Box::new(self.skip_after_judging(&track, memo))),
        }
    }

    /// Nothing but an announcement, or the memory of its being unattached, has to go.
    fn decide_attached(self, says: &CurfewTags) -> VolumeDecision {
        let tracked = TrackedVolume { case: self, curfew_tags: says, mode: self.mode(says) };
        let track = tracked.track(&[(Rule::Orphaned, Verdict::Compliant)], tracked.mode);
        let memo = tracked.memo(&track, &Verdict::Compliant);
        match tracked.rewrite(&track) {
            Some(step) => VolumeDecision::Step(Box::new(Step { memory: memo, ..step })),
            None => VolumeDecision::Skipped(Box::new(self.skip_attached(memo))),
        }
    }

    /// Whether the answer that nobody has used it changes anything.
    fn matters(self) -> bool {
        let its_hour = || {
            let number: i64 = self.volume.id.as_str().bytes().map(i64::from).sum();
            number.rem_euclid(24) == self.view.now.as_second().div_euclid(3600).rem_euclid(24)
        };
        match self.decide() {
            VolumeDecision::Step(step) => step.mode == Mode::Enforce || !step.already_notified || its_hour(),
            VolumeDecision::Skipped(skipped) => match skipped.reason {
                SkipReason::Marked | SkipReason::SnapshotPending => true,
                SkipReason::Notified => its_hour(),
                _ => false,
            },
        }
    }

    fn mode(self, says: &CurfewTags) -> Mode {
        let policy = self.view.policy;
        effective_mode(says, &self.tags_of_owner(), &policy.config).min(policy.ceiling)
    }

    /// Whether something shows that it is, or was, in use since it was first seen unattached.
    fn is_in_use(self) -> bool {
        !self.volume.is_unattached() || matches!(self.used, Some(VolumeUse::UsedAt(_)))
    }

    fn snapshots(self) -> &'a [&'a Snapshot] {
        self.view.snapshots.get(&self.volume.id).map_or(&[], Vec::as_slice)
    }

    /// Whose it is, which must be known when volume, instance and source are gone; what its owner wrote on the volume; and from
    /// what and to what it can be restored.
    fn tags_of_snapshot(self) -> Tags {
        let Self { volume, .. } = self;
        let mut tags = self.tags_of_owner();
        tags.extend(own_tags(&volume.tags).map(|(key, value)| (key.clone(), value.clone())));
        tags.insert(SNAPSHOT_OF.to_owned(), volume.id.to_string());
        tags.insert(RESTORE.to_owned(), VolumeOrigin::from_volume(volume).to_string());
        tags
    }

    fn target(self) -> Target {
        let owner = self.tags_of_owner();
        let config = &self.view.policy.config;
        Target {
            region: self.volume.region.clone(),
            resource: self.volume.id.clone(),
            team: model::ownership::team_of(&owner, config),
            owner: model::ownership::owner_of(&owner, config),
            name: value_of(&self.volume.tags, "Name").map(str::to_owned),
            what: format!("{} GiB {}", self.volume.size_gib, self.volume.volume_type),
        }
    }
}

/// A volume whose tags can be read.
#[derive(Clone, Copy)]
struct TrackedVolume<'a> {
    case: VolumeCase<'a>,
    curfew_tags: &'a CurfewTags,
    mode: Mode,
}

impl TrackedVolume<'_> {
    /// That it is unattached is written down at once, of which nobody needs to hear.
    fn first_sight(self) -> Option<Step> {
        let VolumeCase { since, written, .. } = self.case;
        if self.mode == Mode::Observe || self.case.is_in_use() || written == Some(since) {
            return None;
        }
        let evidence = Evidence::Orphaned(self.case.subject().evidence());
        Some(self.step(self.mode, VolumeAction::TagUnattachedSince(since), evidence))
    }

    fn memo(self, track: &RuleTrack, verdict: &Verdict) -> ResourceMemory {
        let active_keys = match verdict {
            Verdict::Compliant => Vec::new(),
            Verdict::Unknown | Verdict::Violated(_) => {
                vec![
                    NotificationKey::rule(Rule::Orphaned),
                    NotificationKey::would(Rule::Orphaned),
                    NotificationKey::undone(Rule::Orphaned),
                ]
            }
        };
        let observed = self.mode == Mode::Observe;
        ResourceMemory {
            active_keys: [active_keys, self.case.active_finding_keys()].concat(),
            shadow_mark: self.still_announced(track).filter(|_| observed),
            unwritten_mark: self.still_unwritten(track).filter(|_| !observed),
            void_mark: self.called_off_unwritten(track),
            first_sight: self.first_sight_to_remember(),
            last_host: self.case.last_host(),
        }
    }

    /// What no tag says. Where only observing keeps a tag from being taken away, or corrected, what is remembered here is newer.
    fn first_sight_to_remember(self) -> Option<Timestamp> {
        let VolumeCase { view, since, written, .. } = self.case;
        if self.case.is_in_use() {
            return written.filter(|_| self.mode == Mode::Observe).map(|_| whole_second(view.now));
        }
        let remembered = self.case.notices.first_sights.contains_key(&self.case.volume.id);
        Some(since).filter(|since| written != Some(*since) && (remembered || self.mode == Mode::Observe))
    }
}

impl AnnouncementTarget for TrackedVolume<'_> {
    type Action = VolumeAction;

    fn id(&self) -> &ResourceId {
        &self.case.volume.id
    }

    fn since(self) -> Timestamp {
        self.case.since
    }

    fn curfew_tags(&self) -> &CurfewTags {
        self.curfew_tags
    }

    fn notices(&self) -> &NotificationLog {
        self.case.notices
    }

    fn now(self) -> Timestamp {
        self.case.view.now
    }

    fn mode(self, _: Rule) -> Mode {
        self.mode
    }

    fn step(self, mode: Mode, action: VolumeAction, evidence: Evidence) -> Step {
        let VolumeCase { view, volume, .. } = self.case;
        let saves = match action {
            VolumeAction::Announce(Announcement::Unmark { .. }) => None,
            _ => view.policy.prices.volume_cost(volume),
        };
        Step { saves, ..Step::bare(self.case.target(), Action::Volume(volume.clone(), action), evidence, mode) }
    }

    /// A snapshot first, where one is wanted; the volume goes once that is whole.
    fn end(self, ending: ResourceAction, _: Rule, _: Option<Mark>) -> Option<VolumeAction> {
        let VolumeCase { view, volume, since, .. } = self.case;
        let snapshots = self.case.snapshots();
        let at = whole_second(view.now);
        // Nobody may write on a protected one, and one of several that is refused is all of them.
        let datable = snapshots.iter().filter(|snapshot| !snapshot.tags.contains_key(PROTECTED));
        let expiring = datable.map(|snapshot| snapshot.id.clone()).collect();
        match ending {
            ResourceAction::Delete => Some(VolumeAction::Delete { safety: None, expiring, at }),
            ResourceAction::SnapshotAndDelete => {
                if let Some(safe) = snapshots.iter().find(|snapshot| is_safe(snapshot, volume, since)) {
                    let kept_until = at + view.policy.config.volumes.keep_snapshots;
                    return Some(VolumeAction::Delete {
                        safety: Some(SafetySnapshot { snapshot: safe.id.clone(), kept_until }),
                        expiring,
                        at,
                    });
                }
                let mut tried = snapshots.iter().filter(|snapshot| may_become_safe(snapshot, volume, since));
                let waits = tried.any(|snapshot| {
                    snapshot.state == SnapshotState::Pending
                        || view.now.duration_since(snapshot.started_at) < TRY_AGAIN_AFTER
                });
                (!waits).then(|| VolumeAction::Snapshot { tags: self.case.tags_of_snapshot() })
            }
            ResourceAction::Stop | ResourceAction::Terminate => None,
        }
    }

    fn stale_tag(self) -> Option<(Rule, &'static str)> {
        let is_written = self.case.volume.tags.contains_key(UNATTACHED_SINCE);
        (self.case.is_in_use() && is_written).then_some((Rule::Orphaned, UNATTACHED_SINCE))
    }
}
