//! Findings about volumes, without announcements: see [`crate::scan`].

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, explain_unreadable, name_unreadable};
use model::foreign::describe_keeper;
use model::notification_log::NotificationLogs;
use model::observation::Observation;
use model::volume::ObservedStorage;
use plan::{SkipReason, Target};

use super::{StorageView, VolumeCase, jobs};
use crate::engine::ResourceCase;
use crate::policy::Policy;
use crate::scan::{FindingKind, ScanFinding, find_in_each};

/// Every unattached volume that belongs to no job and is not shared, with its controller: the cluster of a claim may be gone. EC2 reports when
/// it was created, not since when it is unattached. A job with an unknown state counts as unfinished.
#[must_use]
pub fn scan(seen: &ObservedStorage, policy: &Policy, now: Timestamp) -> Observation<ScanFinding> {
    let (live_jobs, memory) = (jobs(seen), NotificationLogs::default());
    let view = StorageView::new(seen, &live_jobs, &memory, policy, now);
    let unattached = seen.volumes.items.iter().filter(|volume| volume.is_unattached());
    find_in_each(unattached, |one| (&one.region, &one.id), |one| view.case(one, None).scan_finding())
}

impl VolumeCase<'_> {
    /// Tags that cannot be read hide nothing here: nothing is done.
    fn scan_finding(self) -> Option<ScanFinding> {
        let skipped = self.immediate_skip().map(|skipped| skipped.reason);
        if matches!(skipped, Some(SkipReason::Protected | SkipReason::Kept)) {
            return None;
        }
        let curfew_tags = CurfewTags::read_volume(&self.volume.tags);
        let unreadable =
            curfew_tags.as_ref().err().map(|unreadable| (name_unreadable(unreadable), explain_unreadable(unreadable)));
        let (named, unreadable) = unreadable.unzip();
        match self.kept_by_others(&curfew_tags.unwrap_or_default()) {
            None | Some(SkipReason::ForeignOwned | SkipReason::Kubernetes) => {}
            Some(_) => return None,
        }
        let created_at = self.volume.created_at;
        let in_short = [Some(format!("unattached, created {}", created_at.strftime("%Y-%m-%d"))), named];
        let evidence = [Some(format!("unattached, created {created_at}")), unreadable];
        let Target { region, resource, team, owner, name, what } = self.target();
        Some(ScanFinding {
            region,
            resource,
            kinds: vec![FindingKind::Orphaned],
            team,
            owner,
            name,
            what,
            price: self.view.policy.prices.volume_cost(self.volume),
            accelerators: 0,
            size_gib: self.volume.size_gib,
            evidence: evidence.into_iter().flatten().collect::<Vec<_>>().join("; "),
            in_short: in_short.into_iter().flatten().collect::<Vec<_>>().join("; "),
            created_at: Some(created_at),
            controller: describe_keeper(self.volume, &self.view.policy.config.managed),
        })
    }
}
