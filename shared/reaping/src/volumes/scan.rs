//! Findings about volumes, without announcements: see [`crate::scan`].

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::foreign::describe_keeper;
use model::notification_log::NotificationLogs;
use model::observation::Observation;
use model::volume::ObservedStorage;
use plan::SkipReason;

use super::{StorageView, VolumeCase, jobs};
use crate::engine::ResourceCase;
use crate::policy::Policy;
use crate::scan::{FindingKind, FoundKind, ScanFinding, find_in_each};

/// Every unattached volume that belongs to no job and is not shared, with its controller: the cluster of a claim may be gone. EC2 reports when
/// it was created, not since when it is unattached. A job with an unknown state counts as unfinished.
#[must_use]
pub fn scan(seen: &ObservedStorage, policy: &Policy, now: Timestamp) -> Observation<ScanFinding> {
    let (live_jobs, memory) = (jobs(seen), NotificationLogs::default());
    let view = StorageView::new(seen, &live_jobs, &memory, policy, now);
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    find_in_each(unattached.map(|one| view.case(one, None)), VolumeCase::scan_finding)
}

impl VolumeCase<'_> {
    fn scan_finding(self) -> Option<ScanFinding> {
        if self.is_exempt() {
            return None;
        }
        let curfew_tags = self.curfew_tags();
        match self.kept_by_others(curfew_tags.as_ref().unwrap_or(&CurfewTags::default())) {
            None | Some(SkipReason::ForeignOwned | SkipReason::Kubernetes) => {}
            Some(_) => return None,
        }
        let created_at = self.volume.created_at;
        let found = FoundKind {
            kind: FindingKind::Orphaned,
            evidence: format!("unattached, created {created_at}"),
            in_short: format!("unattached, created {}", created_at.strftime("%Y-%m-%d")),
        };
        let finding = ScanFinding::from_kinds(self.target(), vec![found], None, &curfew_tags)?;
        Some(ScanFinding {
            price: self.view.policy.prices.volume_cost(self.volume),
            size_gib: self.volume.size_gib,
            created_at: Some(created_at),
            controller: describe_keeper(self.volume, &self.view.policy.config.managed),
            ..finding
        })
    }
}
