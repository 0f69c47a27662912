//! Skips of volumes, and the findings that their owners are notified of.

use std::slice;

use billing::price;
use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::duration;
use model::foreign::{VolumeController, keeper};
use model::id::RunId;
use model::mode::Mode;
use model::notification_log::{NotificationKey, ResourceRecord};
use model::rule::Rule;
use model::volume::{SnapshotState, VolumeState, VolumeUse};
use plan::{FindingKind, OwnerFinding, ResourceMemory, SkipReason, Skipped, may_become_safe};

use super::{TRY_AGAIN_AFTER, VolumeCase};
use crate::engine::ResourceCase;
use crate::engine::announcements::RuleTrack;

impl VolumeCase<'_> {
    /// The reason why an unattached volume may not be an orphan.
    pub(super) fn kept_by_others(self, curfew_tags: &CurfewTags) -> Option<SkipReason> {
        Some(match keeper(self.volume, &self.view.policy.config.managed) {
            _ if self.volume.state != VolumeState::Available => SkipReason::NotAvailable,
            Some(VolumeController::Kubernetes) => SkipReason::Kubernetes,
            Some(VolumeController::Other) => SkipReason::ForeignOwned,
            None if self.volume.multi_attach => SkipReason::MultiAttach,
            None if curfew_tags.job.as_ref().is_some_and(|job| self.view.live_jobs.contains(job)) => {
                SkipReason::LiveJob
            }
            None => return None,
        })
    }

    /// Attached volumes are skipped, with a finding if their instance has been stopped for long.
    pub(super) fn skip_attached(self, resource_memory: ResourceMemory) -> Skipped {
        let finding = self.on_stopped_instance();
        Skipped { finding, ..Skipped::new(self.target(), SkipReason::Attached, resource_memory) }
    }

    /// The skip of a judged volume, with the reason why no action is due.
    pub(super) fn skip_after_judging(self, track: &RuleTrack, resource_memory: ResourceMemory) -> Skipped {
        let is_young = self.view.now.duration_since(self.since) < self.view.policy.config.volumes.orphaned_after;
        let waits = track.settled.due.is_some();
        let waits_for_snapshot = waits && track.mode == Mode::Enforce;
        let reason = match (RuleTrack::skip_reason(slice::from_ref(track)), self.used) {
            (Some(SkipReason::Marked), _) if waits_for_snapshot && self.failed_snapshot().is_some() => {
                SkipReason::SnapshotFailed
            }
            (Some(SkipReason::Marked), _) if waits_for_snapshot => SkipReason::SnapshotPending,
            (Some(reason), _) => reason,
            // The last query, which comes once a day, found it orphaned.
            (None, None) if self.was_notified_of(Rule::Orphaned) => SkipReason::Notified,
            _ if is_young => SkipReason::Young,
            (None, Some(VolumeUse::UsedAt(_))) => SkipReason::Busy,
            (None, Some(VolumeUse::None)) => SkipReason::Compliant,
            (None, None) => SkipReason::UsageUnknown,
        };
        let finding = self.failed_snapshot().filter(|_| waits);
        Skipped { finding, ..Skipped::new(self.target(), reason, resource_memory) }
    }

    fn on_stopped_instance(self) -> Option<OwnerFinding> {
        let host = self.host.filter(|host| host.stopped)?;
        let (now, rule) = (self.view.now, &self.view.policy.config.volumes);
        let since = host.stopped_at.filter(|at| now.duration_since(*at) >= rule.orphaned_after)?;
        let text = format!(
            "attached to {}, which has been stopped since {since}, longer than {}. {}. Delete it, or keep only a snapshot",
            host.id,
            duration::format_duration(rule.orphaned_after),
            price::describe_monthly_cost(self.view.policy.prices.volume_cost(self.volume)),
        );
        Some(OwnerFinding { kind: FindingKind::OnStoppedInstance, what: format!("{} {since}", host.id), text })
    }

    fn failed_snapshot(self) -> Option<OwnerFinding> {
        let tried = self.snapshots().iter().filter(|snapshot| may_become_safe(snapshot, self.volume, self.since));
        let newest = tried.max_by_key(|snapshot| snapshot.started_at)?;
        let failed =
            Some(newest).filter(|one| !matches!(one.state, SnapshotState::Pending | SnapshotState::Completed))?;
        let text = format!(
            "its snapshot {} failed, so Curfew does not delete the volume; it tries again after {}. If the volume is encrypted, check \
             that its KMS key is enabled",
            failed.id,
            duration::format_duration(TRY_AGAIN_AFTER)
        );
        Some(OwnerFinding { kind: FindingKind::SnapshotFailed, what: failed.id.to_string(), text })
    }

    /// The findings that still hold, and are not notified again.
    pub(super) fn active_finding_keys(self) -> Vec<NotificationKey> {
        let findings = self.on_stopped_instance().into_iter().chain(self.failed_snapshot());
        findings.map(|finding| finding.kind.key()).collect()
    }

    /// The memory of a volume that was first seen unattached then.
    pub(super) fn memory(self, since: Option<Timestamp>, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        // What came of these is recorded: no later copy of a description is taken for it.
        let recorded = self.snapshots().iter().filter_map(|one| self.log.record_about(&one.id, one.started_at));
        let answered: Vec<&RunId> = recorded.filter_map(|record| Some(&record.safety.as_ref()?.run)).collect();
        let requested = self.record.map(|record| record.snapshot_runs.clone()).unwrap_or_default();
        let snapshot_runs = requested.into_iter().filter(|run| !answered.contains(&run)).collect();
        let (last_host, host_tags) = self.last_host().unzip();
        let current_record = self.record.filter(|record| since.is_some() && record.since == since);
        let record = ResourceRecord {
            since,
            snapshot_runs,
            last_host,
            label_refused: current_record.and_then(|record| record.label_refused),
            ..ResourceRecord::default()
        };
        ResourceMemory { active_keys, record, host_tags }
    }
}
