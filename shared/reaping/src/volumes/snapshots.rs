//! The snapshots that Curfew made: each ends `keep_snapshots` after its volume was deleted, and never while that exists.

use model::curfew_tags::{CurfewTags, PROTECTED, explain_unreadable, kept_until};
use model::mark::{AnnouncedAction, whole_second};
use model::mode::Mode;
use model::moment::after;
use model::notification_log::{NotificationKey, would_fingerprint};
use model::ownership::{owner_of, team_of, value_of};
use model::rule::{ResourceAction, Rule};
use model::volume::Snapshot;
use plan::{Action, Evidence, OwnerFinding, ResourceMemory, SkipReason, Skipped, SnapshotAction, Step, Target};

use super::{StorageView, VolumeDecision};
use crate::policy::effective_mode;

impl StorageView<'_> {
    /// What becomes of one snapshot that says it is Curfew's.
    pub(super) fn decide_snapshot(&self, snapshot: &Snapshot) -> VolumeDecision {
        let of = |evidence| Skipped {
            target: self.target(snapshot),
            reason: evidence,
            finding: None,
            memory: ResourceMemory::default(),
        };
        let skipped = |evidence| VolumeDecision::Skipped(Box::new(of(evidence)));
        if !snapshot.is_of_curfew() {
            return skipped(SkipReason::ForeignOwned);
        }
        if snapshot.tags.contains_key(PROTECTED) {
            return skipped(SkipReason::Protected);
        }
        if kept_until(&snapshot.tags).is_some_and(|until| self.now < until) {
            return skipped(SkipReason::Kept);
        }
        let curfew_tags = match CurfewTags::read_snapshot(&snapshot.tags) {
            Ok(curfew_tags) => curfew_tags,
            Err(unreadable) => {
                let (topic, text) = (NotificationKey::named("unreadable"), explain_unreadable(&unreadable));
                let resource_memory = ResourceMemory { active_keys: vec![topic.clone()], ..ResourceMemory::default() };
                let finding = Some(OwnerFinding { topic, what: text.clone(), text });
                return VolumeDecision::Skipped(Box::new(Skipped {
                    finding,
                    memory: resource_memory,
                    ..of(SkipReason::Unreadable)
                }));
            }
        };
        if self.volumes.contains(&(&snapshot.region, &snapshot.of_volume)) {
            return skipped(SkipReason::VolumeExists);
        }
        let deleted_at = curfew_tags.deleted_at.unwrap_or_else(|| whole_second(self.now));
        let expires_at = after(deleted_at, self.policy.config.volumes.keep_snapshots);
        let evidence = Evidence::SnapshotExpired { volume: snapshot.of_volume.clone(), deleted_at, expires_at };
        let mode = effective_mode(&curfew_tags, &snapshot.tags, &self.policy.config).min(self.policy.ceiling);
        if curfew_tags.deleted_at.is_none() {
            // People hear of it: a run whose deletion was answered too late, or not at all, could not say so.
            let step = self.step(snapshot, SnapshotAction::TagDeletedAt(deleted_at), evidence, mode);
            return VolumeDecision::Step(Box::new(Step { already_notified: mode == Mode::Observe, ..step }));
        }
        if self.now < expires_at {
            return skipped(SkipReason::Restorable);
        }
        let announced = AnnouncedAction { ending: ResourceAction::Delete, deadline: expires_at };
        let notices = self.notices(&snapshot.region);
        let already_notified = mode == Mode::Observe
            && notices.was_notified(
                &snapshot.id,
                &NotificationKey::would(Rule::Expired),
                &would_fingerprint(announced),
            );
        let step = self.step(snapshot, SnapshotAction::Delete, evidence, mode);
        VolumeDecision::Step(Box::new(Step { deadline: Some(expires_at), already_notified, ..step }))
    }

    fn step(&self, snapshot: &Snapshot, action: SnapshotAction, evidence: Evidence, mode: Mode) -> Step {
        let action = Action::Snapshot(snapshot.clone(), action);
        let active_keys = vec![NotificationKey::would(Rule::Expired), NotificationKey::undone(Rule::Expired)];
        let resource_memory = ResourceMemory { active_keys, ..ResourceMemory::default() };
        Step { memory: resource_memory, ..Step::bare(self.target(snapshot), action, evidence, mode) }
    }

    pub(super) fn target(&self, snapshot: &Snapshot) -> Target {
        let (tags, config) = (&snapshot.tags, &self.policy.config);
        Target {
            region: snapshot.region.clone(),
            resource: snapshot.id.clone(),
            team: team_of(tags, config),
            owner: owner_of(tags, config),
            name: value_of(tags, "Name").map(str::to_owned),
            what: format!("snapshot of {}, {} GiB", snapshot.of_volume, snapshot.size_gib),
        }
    }
}
