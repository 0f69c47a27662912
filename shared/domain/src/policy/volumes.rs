//! The volume reaper's decisions: whom to ask about, what to do to each volume and to each snapshot that Curfew made, and whom
//! to spare.
//!
//! Spares come first. What is attached, or shows use, is no longer remembered as unattached; what is unattached is
//! remembered as such at first sight, and judged by one rule, [`orphaned`](super::orphaned). An announced end is carried out
//! in two runs at least: one begins a snapshot, a later one that finds it whole deletes the volume.

mod explain;
mod owner;
mod scan;
mod snapshots;
mod spare;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::follow::{Followed, Track};
use super::orphaned::{self, Subject};
use super::{Policy, Verdict, effective_mode, value_of};
use crate::id::{Region, ResourceId};
use crate::instance::Tags;
use crate::limits;
use crate::mark::{Mark, whole_second};
use crate::mode::Mode;
use crate::notices::{Memory, Notices, Topic};
use crate::plan::{
    Action, Because, Memo, Plan, Safety, Seen, Spared, SparedBecause, Step, Target, is_safe, may_become_safe,
};
use crate::price;
use crate::rule::{Ending, Rule};
use crate::vocabulary::{PROTECTED, RESTORE, SNAPSHOT_OF, UNATTACHED_SINCE, Vocabulary};
use crate::volume::{Host, Origin, Snapshot, SnapshotState, Storage, Volume, VolumeAsk, VolumeUse, own_tags};

pub use explain::{ask, explain};
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
    seen: &Storage,
    uses: &BTreeMap<ResourceId, VolumeUse>,
    live_jobs: &LiveJobs,
    memory: &Memory,
    policy: &Policy,
    now: Timestamp,
) -> Plan {
    let view = View::of(seen, live_jobs, memory, policy, now);
    let mut plan =
        Plan { seen: seen.volumes.items.len(), steps: Vec::new(), spared: Vec::new(), gaps: seen.volumes.gaps.clone() };
    let mut volumes: Vec<&Volume> = seen.volumes.items.iter().collect();
    volumes.sort_by_key(|volume| (&volume.region, &volume.id));
    let of_volumes = volumes.into_iter().map(|volume| view.case(volume, uses.get(&volume.id).copied()).decide());
    let of_snapshots = seen.snapshots.iter().map(|snapshot| view.decide_snapshot(snapshot));
    for line in of_volumes.chain(of_snapshots) {
        match line {
            Line::Step(step) => plan.steps.push(*step),
            Line::Spared(spared) => plan.spared.push(*spared),
        }
    }
    limits::hold_where_exceeded(&mut plan, &policy.config.limits);
    plan
}

/// Whom to ask `CloudWatch` about, which bills by the metric: those of whom the answer may change anything, and once a day
/// those of whom everything has been said.
#[must_use]
pub fn asks(seen: &Storage, live_jobs: &LiveJobs, memory: &Memory, policy: &Policy, now: Timestamp) -> Vec<VolumeAsk> {
    let view = View::of(seen, live_jobs, memory, policy, now);
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    let cases = unattached.map(|volume| view.case(volume, Some(VolumeUse::None)));
    let due = cases.filter(|case| now.duration_since(case.since) >= policy.config.volumes.orphaned_after);
    due.filter(|case| case.matters())
        .map(|case| VolumeAsk { region: case.volume.region.clone(), volume: case.volume.id.clone(), since: case.since })
        .collect()
}

/// The jobs that unattached volumes were created for, as `<team>/<job>`.
#[must_use]
pub fn jobs(seen: &Storage) -> BTreeSet<String> {
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    unattached.filter_map(|volume| Vocabulary::read_volume(&volume.tags).ok()?.job).collect()
}

/// Where the plan has one volume, or one snapshot.
enum Line {
    Step(Box<Step>),
    Spared(Box<Spared>),
}

/// Everything that was seen, by what it belongs to.
struct View<'a> {
    volumes: BTreeSet<(&'a Region, &'a ResourceId)>,
    snapshots: BTreeMap<&'a ResourceId, Vec<&'a Snapshot>>,
    hosts: BTreeMap<&'a ResourceId, &'a Host>,
    sources: &'a BTreeMap<ResourceId, Tags>,
    live_jobs: &'a LiveJobs,
    memory: &'a Memory,
    nothing_told: Notices,
    policy: &'a Policy,
    now: Timestamp,
}

impl<'a> View<'a> {
    fn of(seen: &'a Storage, live_jobs: &'a LiveJobs, memory: &'a Memory, policy: &'a Policy, now: Timestamp) -> Self {
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
            nothing_told: Notices::default(),
            policy,
            now,
        }
    }

    fn notices(&self, region: &Region) -> &Notices {
        self.memory.get(region).unwrap_or(&self.nothing_told)
    }

    fn case<'c>(&'c self, volume: &'c Volume, used: Option<VolumeUse>) -> Case<'c> {
        let notices = self.notices(&volume.region);
        let host = volume.attached_to.iter().find_map(|id| self.hosts.get(id).copied());
        let written = Vocabulary::read_volume(&volume.tags).ok().and_then(|says| says.unattached_since);
        // What is remembered beside a tag is newer: the tag could not be taken away when the volume was in use.
        let since =
            written.max(notices.first_sights.get(&volume.id).copied()).unwrap_or_else(|| whole_second(self.now));
        Case { view: self, volume, used, notices, host, written, since }
    }
}

/// One volume and all that is known about it.
#[derive(Clone, Copy)]
struct Case<'a> {
    view: &'a View<'a>,
    volume: &'a Volume,
    used: Option<VolumeUse>,
    notices: &'a Notices,
    /// The instance that it is attached to.
    host: Option<&'a Host>,
    /// Since when it is unattached, by its own tag.
    written: Option<Timestamp>,
    /// Since when it is unattached, as far as anybody has seen; now, where it was seen so for the first time.
    since: Timestamp,
}

impl<'a> Case<'a> {
    fn decide(self) -> Line {
        if let Some(spared) = self.spared_at_sight() {
            return Line::Spared(Box::new(spared));
        }
        // Unreadable tags have been spared at sight.
        let says = Vocabulary::read_volume(&self.volume.tags).unwrap_or_default();
        if self.volume.is_unattached() { self.decide_unattached(&says) } else { self.decide_attached(&says) }
    }

    fn subject(self) -> Subject<'a> {
        Subject {
            volume: self.volume,
            unattached_since: self.since,
            used: self.used,
            tags_to_keep: self.tags_of_snapshot().len(),
            price: price::rate(self.view.policy.prices.of_volume(self.volume)),
            last_host: self.last_seen_on(),
            rule: &self.view.policy.config.volumes,
            now: self.view.now,
        }
    }

    fn decide_unattached(self, says: &Vocabulary) -> Line {
        let verdicts = [(Rule::Orphaned, orphaned::judge(self.subject()))];
        let tracked = Tracked { case: self, says, mode: self.mode(says) };
        let track = tracked.track(&verdicts, tracked.mode);
        let observing = tracked.mode == Mode::Observe;
        let due = tracked.due(&track);
        let action = match due {
            // An observed end stays due in every run: once told, it hides nothing else.
            Some(step) if !(observing && step.told_before) => Some(step),
            due => {
                tracked.rewrite(&track).or_else(|| tracked.first_sight()).or_else(|| tracked.only_told(&track)).or(due)
            }
        };
        let memo = tracked.memo(&track, &verdicts[0].1);
        match action {
            Some(step) => Line::Step(Box::new(Step { memo, ..step })),
            None => Line::Spared(Box::new(self.spared_after_judging(&track, memo))),
        }
    }

    /// Nothing but an announcement, or the memory of its being unattached, has to go.
    fn decide_attached(self, says: &Vocabulary) -> Line {
        let tracked = Tracked { case: self, says, mode: self.mode(says) };
        let track = tracked.track(&[(Rule::Orphaned, Verdict::Kept)], tracked.mode);
        let memo = tracked.memo(&track, &Verdict::Kept);
        match tracked.rewrite(&track) {
            Some(step) => Line::Step(Box::new(Step { memo, ..step })),
            None => Line::Spared(Box::new(self.spared_as_attached(memo))),
        }
    }

    /// Whether the answer that nobody has used it changes anything.
    fn matters(self) -> bool {
        let its_hour = || {
            let number: i64 = self.volume.id.as_str().bytes().map(i64::from).sum();
            number.rem_euclid(24) == self.view.now.as_second().div_euclid(3600).rem_euclid(24)
        };
        match self.decide() {
            Line::Step(step) => step.mode == Mode::Enforce || !step.told_before || its_hour(),
            Line::Spared(spared) => match spared.because {
                SparedBecause::Marked | SparedBecause::SnapshotPending => true,
                SparedBecause::Told | SparedBecause::Observed => its_hour(),
                _ => false,
            },
        }
    }

    fn mode(self, says: &Vocabulary) -> Mode {
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
        tags.insert(RESTORE.to_owned(), Origin::of(volume).to_string());
        tags
    }

    fn target(self) -> Target {
        let owner = self.tags_of_owner();
        let config = &self.view.policy.config;
        Target {
            region: self.volume.region.clone(),
            resource: self.volume.id.clone(),
            team: super::team_of(&owner, config),
            owner: super::owner_of(&owner, config),
            name: value_of(&self.volume.tags, "Name").map(str::to_owned),
            what: format!("{} GiB {}", self.volume.size_gib, self.volume.volume_type),
        }
    }
}

/// A volume whose tags can be read.
#[derive(Clone, Copy)]
struct Tracked<'a> {
    case: Case<'a>,
    says: &'a Vocabulary,
    mode: Mode,
}

impl Tracked<'_> {
    /// That it is unattached is written down at once, of which nobody needs to hear.
    fn first_sight(self) -> Option<Step> {
        let Case { since, written, .. } = self.case;
        if self.mode == Mode::Observe || self.case.is_in_use() || written == Some(since) {
            return None;
        }
        let because = Because::Orphaned(self.case.subject().evidence());
        Some(self.step(self.mode, Action::Date { key: UNATTACHED_SINCE, at: since }, because))
    }

    fn memo(self, track: &Track, verdict: &Verdict) -> Memo {
        let standing = match verdict {
            Verdict::Kept => Vec::new(),
            Verdict::Unknown | Verdict::Broken(_) => {
                vec![Topic::rule(Rule::Orphaned), Topic::would(Rule::Orphaned), Topic::undone(Rule::Orphaned)]
            }
        };
        let observed = self.mode == Mode::Observe;
        Memo {
            standing: [standing, self.case.standing_findings()].concat(),
            shadow_mark: self.still_announced(track).filter(|_| observed),
            unwritten_mark: self.still_unwritten(track).filter(|_| !observed),
            void_mark: self.called_off_unwritten(track),
            first_sight: self.first_sight_to_remember(),
            last_host: self.case.last_host(),
        }
    }

    /// What no tag says. Where only observing keeps a tag from being taken away, or corrected, what is remembered here is newer.
    fn first_sight_to_remember(self) -> Option<Timestamp> {
        let Case { view, since, written, .. } = self.case;
        if self.case.is_in_use() {
            return written.filter(|_| self.mode == Mode::Observe).map(|_| whole_second(view.now));
        }
        let remembered = self.case.notices.first_sights.contains_key(&self.case.volume.id);
        Some(since).filter(|since| written != Some(*since) && (remembered || self.mode == Mode::Observe))
    }
}

impl Followed for Tracked<'_> {
    fn id(&self) -> &ResourceId {
        &self.case.volume.id
    }

    fn since(self) -> Timestamp {
        self.case.since
    }

    fn says(&self) -> &Vocabulary {
        self.says
    }

    fn notices(&self) -> &Notices {
        self.case.notices
    }

    fn now(self) -> Timestamp {
        self.case.view.now
    }

    fn mode(self, _: Rule) -> Mode {
        self.mode
    }

    fn step(self, mode: Mode, action: Action, because: Because) -> Step {
        let saves = match action {
            Action::Unmark { .. } => None,
            _ => self.case.view.policy.prices.of_volume(self.case.volume),
        };
        Step { saves, ..Step::bare(self.case.target(), action, because, mode, Seen::Volume(self.case.volume.clone())) }
    }

    /// A snapshot first, where one is wanted; the volume goes once that is whole.
    fn end(self, ending: Ending, _: Rule, _: Option<Mark>) -> Option<Action> {
        let Case { view, volume, since, .. } = self.case;
        let snapshots = self.case.snapshots();
        let at = whole_second(view.now);
        // Nobody may write on a protected one, and one of several that is refused is all of them.
        let datable = snapshots.iter().filter(|snapshot| !snapshot.tags.contains_key(PROTECTED));
        let expiring = datable.map(|snapshot| snapshot.id.clone()).collect();
        match ending {
            Ending::Delete => Some(Action::Delete { safety: None, expiring, at }),
            Ending::SnapshotAndDelete => {
                if let Some(safe) = snapshots.iter().find(|snapshot| is_safe(snapshot, volume, since)) {
                    let kept_until = at + view.policy.config.volumes.keep_snapshots;
                    return Some(Action::Delete {
                        safety: Some(Safety { snapshot: safe.id.clone(), kept_until }),
                        expiring,
                        at,
                    });
                }
                let mut tried = snapshots.iter().filter(|snapshot| may_become_safe(snapshot, volume, since));
                let waits = tried.any(|snapshot| {
                    snapshot.state == SnapshotState::Pending
                        || view.now.duration_since(snapshot.started_at) < TRY_AGAIN_AFTER
                });
                (!waits).then(|| Action::Snapshot { tags: self.case.tags_of_snapshot() })
            }
            Ending::Stop | Ending::Terminate => None,
        }
    }

    fn outlived(self) -> Option<(Rule, &'static str)> {
        let is_written = self.case.volume.tags.contains_key(UNATTACHED_SINCE);
        (self.case.is_in_use() && is_written).then_some((Rule::Orphaned, UNATTACHED_SINCE))
    }
}

#[cfg(test)]
mod tests;
