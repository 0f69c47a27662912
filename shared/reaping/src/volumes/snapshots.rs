//! The snapshots that Curfew made: each ends `keep_snapshots` after its volume was deleted, and never while that exists.
//!
//! The message of the deletion announces the expiry. If no run could announce it then, a run that finds the volume gone does. The mode is
//! that of team and configuration, which `curfew:mode=observe` on the snapshot may only restrict.

use jiff::Timestamp;
use model::config::Config;
use model::curfew_tags::{CurfewTags, DELETED_AT, PROTECTED, SNAPSHOT_OF, explain_unreadable, kept_until};
use model::instance::Tags;
use model::mark::{AnnouncedAction, whole_second};
use model::mode::Mode;
use model::moment::after;
use model::notification_log::{NotificationKey, ResourceRecord, SafetyRecord, would_fingerprint};
use model::refusal::Refusal;
use model::rule::{ResourceAction, Rule};
use model::volume::{Snapshot, SnapshotState};
use plan::{
    Action, ExpiryAnnouncement, FindingKind, OwnerFinding, ResourceMemory, SkipReason, Skipped, SnapshotAction, Step,
    Target,
};

use super::{StorageView, safety_record};
use crate::engine::{PlanDecision, target};
use crate::policy::{ModeSource, configured_mode_and_its_source};
use crate::rules::expired::evidence_of_snapshot;
use crate::rules::orphaned::evidence_of_failed_snapshot;

impl StorageView<'_> {
    /// The decision about one snapshot that is described as Curfew's.
    pub(super) fn decide_snapshot(&self, snapshot: &Snapshot) -> PlanDecision {
        let target = self.target(snapshot);
        let Some(safety) = safety_record(snapshot, &self.first_snapshots, self.memory) else {
            let (reason, memory) = (SkipReason::ForeignOwned, ResourceMemory::default());
            return Skipped::new(target, reason, memory).into();
        };
        let record = self.log(&snapshot.region).record(&snapshot.id);
        let announced = record.and_then(|record| record.announced.get(&Rule::Expired)).copied();
        let deletion_refused = record.and_then(|record| record.refused.get(&ResourceAction::Delete)).copied();
        let label_refused = record.and_then(|record| record.label_refused);
        OwnSnapshot { view: self, snapshot, safety, announced, deletion_refused, label_refused }.decide()
    }

    /// `true` if it failed, and the next run deletes it for a later one.
    pub(super) fn is_superseded(&self, snapshot: &Snapshot) -> bool {
        self.superseding(snapshot).is_some_and(|(_, mode)| mode == Mode::Enforce)
    }

    /// The later snapshot of the same volume, where this one failed and may be deleted for it, and the mode of that.
    fn superseding(&self, snapshot: &Snapshot) -> Option<(&Snapshot, Mode)> {
        let is_exempt = snapshot.tags.contains_key(PROTECTED)
            || kept_until(&snapshot.tags).is_some_and(|until| self.now < until)
            || !snapshot.tags.contains_key(SNAPSHOT_OF);
        let curfew_tags = CurfewTags::read_volume(&snapshot.tags).ok()?;
        if snapshot.state != SnapshotState::Error || is_exempt {
            return None;
        }
        let (mode, _) = snapshot_mode(&curfew_tags, &snapshot.tags, &self.policy.config);
        let own = self.snapshots.get(&snapshot.of_volume)?;
        let later = own.iter().copied().find(|other| other.started_at > snapshot.started_at)?;
        Some((later, mode.min(self.ceiling_of(snapshot, None))))
    }

    pub(super) fn ceiling_of(&self, snapshot: &Snapshot, announced: Option<&AnnouncedAction>) -> Mode {
        self.policy.ceiling_of(&snapshot.tags, announced, &self.log(&snapshot.region).readers)
    }

    pub(super) fn target(&self, snapshot: &Snapshot) -> Target {
        let Snapshot { region, id, tags, of_volume, size_gib, .. } = snapshot;
        target(region, id, tags, tags, format!("snapshot of {of_volume}, {size_gib} GiB"), &self.policy.config)
    }
}

/// A snapshot that Curfew made.
struct OwnSnapshot<'a> {
    view: &'a StorageView<'a>,
    snapshot: &'a Snapshot,
    safety: SafetyRecord,
    announced: Option<AnnouncedAction>,
    deletion_refused: Option<Refusal>,
    label_refused: Option<Refusal>,
}

impl OwnSnapshot<'_> {
    fn decide(mut self) -> PlanDecision {
        let Self { view, snapshot, .. } = self;
        // What was announced is over where it is skipped, or was kept since: it begins anew.
        let announced = self.announced.take();
        if view.volumes.contains(&(&snapshot.region, &snapshot.of_volume)) {
            self.safety.deleted_at = None;
            return self.delete_failed().unwrap_or_else(|| self.skipped(SkipReason::VolumeExists));
        }
        let deleted_at = *self.safety.deleted_at.get_or_insert_with(|| whole_second(view.now));
        if snapshot.tags.contains_key(PROTECTED) {
            return self.skipped(SkipReason::Protected);
        }
        let kept_until = kept_until(&snapshot.tags);
        if kept_until.is_some_and(|until| view.now < until) {
            return self.skipped(SkipReason::Kept);
        }
        let curfew_tags = match CurfewTags::read_volume(&snapshot.tags) {
            Ok(curfew_tags) => curfew_tags,
            Err(unreadable) => return self.unreadable(explain_unreadable(&unreadable)),
        };
        let config = &view.policy.config;
        let ceiling = view.ceiling_of(snapshot, announced.as_ref());
        let mode = snapshot_mode(&curfew_tags, &snapshot.tags, config).0.min(ceiling);
        let binds = |announced: &AnnouncedAction| {
            announced.mode >= mode && kept_until.is_none_or(|until| until <= announced.at)
        };
        self.announced = announced.filter(binds).map(|announced| AnnouncedAction { mode, ..announced });
        let expires_at = view.policy.snapshots_kept_until(deleted_at);
        match self.announced {
            None => {
                let expires_at = expires_at.max(after(view.now, config.volumes.grace));
                self.announce(deleted_at, expires_at, mode, false)
            }
            Some(announced) => self.follow_announcement(deleted_at, expires_at.max(announced.deadline), mode),
        }
    }

    /// Ends one that failed, once there is a later one: each try would leave one more. Whoever exempts the snapshot keeps it.
    fn delete_failed(&self) -> Option<PlanDecision> {
        let Self { view, snapshot, .. } = self;
        let (later, mode) = view.superseding(snapshot)?;
        if mode == Mode::Enforce && self.deletion_refused.is_some_and(|refusal| refusal.holds(view.now)) {
            return Some(self.skipped_with(SkipReason::Refused, vec![NotificationKey::undone(Rule::Orphaned)]));
        }
        let evidence = evidence_of_failed_snapshot(&snapshot.of_volume, &later.id);
        let action = Action::Snapshot((*snapshot).clone(), SnapshotAction::DeleteFailed { at: whole_second(view.now) });
        let step = Step::bare(view.target(snapshot), action, evidence, mode);
        Some(Step { memory: self.memory(Vec::new()), ..step }.into())
    }

    /// IAM asks for both labels before a deletion, which observe mode does not write.
    fn follow_announcement(self, deleted_at: Timestamp, expires_at: Timestamp, mode: Mode) -> PlanDecision {
        let Self { view, snapshot, .. } = self;
        let lacks_label = [SNAPSHOT_OF, DELETED_AT].iter().any(|label| !snapshot.tags.contains_key(*label));
        if mode == Mode::Enforce && lacks_label {
            return self.announce(deleted_at, expires_at, mode, true);
        }
        if view.now < expires_at {
            self.skipped(SkipReason::Restorable)
        } else {
            self.delete(deleted_at, expires_at, mode)
        }
    }

    fn announce(
        self,
        deleted_at: Timestamp,
        expires_at: Timestamp,
        mode: Mode,
        already_notified: bool,
    ) -> PlanDecision {
        if mode == Mode::Enforce && self.label_refused.is_some_and(|refusal| refusal.holds(self.view.now)) {
            return self.skipped_with(SkipReason::Refused, vec![NotificationKey::undone(Rule::Expired)]);
        }
        let action = SnapshotAction::AnnounceExpiry(ExpiryAnnouncement { deleted_at, kept_until: expires_at });
        let step = self.step(action, deleted_at, expires_at, mode);
        Step { already_notified, ..step }.into()
    }

    fn delete(self, deleted_at: Timestamp, expires_at: Timestamp, mode: Mode) -> PlanDecision {
        let refused = self.deletion_refused.filter(|_| mode == Mode::Enforce);
        if refused.is_some_and(|refusal| refusal.holds(self.view.now)) {
            return self.skipped_with(SkipReason::Refused, vec![NotificationKey::undone(Rule::Expired)]);
        }
        let would = NotificationKey::would(Rule::Expired);
        let what = would_fingerprint(ResourceAction::Delete, expires_at);
        let log = self.view.log(&self.snapshot.region);
        let already_notified = mode == Mode::Observe && log.was_notified(&self.snapshot.id, &would, &what);
        let step = self.step(SnapshotAction::Delete, deleted_at, expires_at, mode);
        let refused_at = refused.map(|refusal| refusal.at);
        Step { deadline: Some(expires_at), already_notified, refused_at, ..step }.into()
    }

    fn step(&self, action: SnapshotAction, deleted_at: Timestamp, expires_at: Timestamp, mode: Mode) -> Step {
        let volume = self.snapshot.of_volume.clone();
        let evidence = evidence_of_snapshot(volume, deleted_at, expires_at);
        let action = Action::Snapshot(self.snapshot.clone(), action);
        let memory = self.memory(vec![NotificationKey::would(Rule::Expired)]);
        Step { memory, ..Step::bare(self.view.target(self.snapshot), action, evidence, mode) }
    }

    fn skipped(&self, reason: SkipReason) -> PlanDecision {
        self.skipped_with(reason, Vec::new())
    }

    fn skipped_with(&self, reason: SkipReason, active_keys: Vec<NotificationKey>) -> PlanDecision {
        let (target, memory) = (self.view.target(self.snapshot), self.memory(active_keys));
        Skipped::new(target, reason, memory).into()
    }

    fn unreadable(&self, text: String) -> PlanDecision {
        let kind = FindingKind::Unreadable;
        let (target, memory) = (self.view.target(self.snapshot), self.memory(vec![kind.key()]));
        let finding = Some(OwnerFinding { kind, what: text.clone(), text });
        Skipped { finding, ..Skipped::new(target, SkipReason::Unreadable, memory) }.into()
    }

    fn memory(&self, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        let record = ResourceRecord {
            announced: self.announced.into_iter().map(|announced| (Rule::Expired, announced)).collect(),
            refused: self.deletion_refused.map(|refusal| (ResourceAction::Delete, refusal)).into_iter().collect(),
            label_refused: self.label_refused,
            safety: Some(self.safety.clone()),
            ..ResourceRecord::about(self.snapshot.started_at)
        };
        ResourceMemory { active_keys, record, host_tags: None }
    }
}

/// The mode of a snapshot before the ceiling, and its source. `curfew:mode=enforce` on it enforces nothing, because people who may tag a snapshot
/// need not own it.
pub(super) fn snapshot_mode(curfew_tags: &CurfewTags, tags: &Tags, config: &Config) -> (Mode, ModeSource) {
    match (curfew_tags.mode, configured_mode_and_its_source(&CurfewTags::default(), tags, config)) {
        (Some(Mode::Observe), (Mode::Enforce, _)) => (Mode::Observe, ModeSource::Tag),
        (_, configured) => configured,
    }
}
