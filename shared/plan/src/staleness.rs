//! Check that a step may still be carried out: its resource is read again just before.

use jiff::Timestamp;
use model::instance::{Instance, InstanceState};
use model::sagemaker::{SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp};
use model::volume::{Snapshot, SnapshotState, Volume, VolumeState};

/// A resource that a step changes.
pub trait StillHolds {
    /// Checks that the resource is still as it was observed. If a tag, the state or the launch has changed, the next run decides again.
    ///
    /// # Errors
    /// The reason that the step must not be carried out.
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep>;
}

impl StillHolds for Instance {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        let same = fresh.state == self.state
            && fresh.launched_at == self.launched_at
            && fresh.tags == self.tags
            && fresh.instance_type == self.instance_type
            && fresh.operator == self.operator
            && fresh.prepaid == self.prepaid;
        match fresh.state {
            InstanceState::Terminated | InstanceState::ShuttingDown => Err(StaleStep::AlreadyGone),
            _ if same => Ok(()),
            _ => Err(StaleStep::Changed),
        }
    }
}

impl StillHolds for Volume {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        match fresh.state {
            VolumeState::Deleting | VolumeState::Deleted => Err(StaleStep::AlreadyGone),
            _ if self == fresh => Ok(()),
            _ => Err(StaleStep::Changed),
        }
    }
}

impl StillHolds for Snapshot {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        if self == fresh { Ok(()) } else { Err(StaleStep::Changed) }
    }
}

impl StillHolds for SageMakerResource {
    fn still_holds(&self, fresh: &Self) -> Result<(), StaleStep> {
        match fresh.status {
            SageMakerStatus::Deleting | SageMakerStatus::Deleted => Err(StaleStep::AlreadyGone),
            SageMakerStatus::Stopping | SageMakerStatus::Stopped if self.status == SageMakerStatus::Running => {
                Err(StaleStep::AlreadyGone)
            }
            _ if without_checks(self) == without_checks(fresh) => Ok(()),
            _ => Err(StaleStep::Changed),
        }
    }
}

/// `SageMaker` looks at an app all the time, which changes nothing; that somebody uses it does.
fn without_checks(resource: &SageMakerResource) -> SageMakerResource {
    let mut resource = resource.clone();
    if let SageMakerKind::App(StudioApp { last_health_check, .. }) = &mut resource.kind {
        *last_health_check = None;
    }
    resource
}

/// Returns `true` if a volume can be restored from a snapshot of it that Curfew made: the snapshot was started since the volume is
/// unattached, and is complete.
#[must_use]
pub fn is_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.state == SnapshotState::Completed && may_become_safe(snapshot, volume, unattached_since)
}

/// [`is_safe`] for a snapshot that may not be complete yet.
#[must_use]
pub fn may_become_safe(snapshot: &Snapshot, volume: &Volume, unattached_since: Timestamp) -> bool {
    snapshot.described_run().is_some()
        && snapshot.of_volume == volume.id
        && snapshot.region == volume.region
        && snapshot.size_gib == volume.size_gib
        && snapshot.started_at >= unattached_since
}

/// Reason that a step must not be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleStep {
    /// The resource was already stopped or deleted.
    AlreadyGone,
    Changed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fixture::{SageMakerBuilder, app, endpoint, notebook, volume};
    use model::instance::Tags;

    fn check(seen: SageMakerBuilder, fresh: SageMakerBuilder, expect: Result<(), StaleStep>) {
        let (seen, fresh) = (seen.build(), fresh.build());
        assert_eq!(seen.still_holds(&fresh), expect, "{seen:?}\n{fresh:?}");
    }

    #[test]
    fn an_app_that_somebody_uses_again_is_kept() {
        let (old, new) = (Some("2026-09-01T05:00:00Z"), Some("2026-09-01T12:00:00Z"));
        check(app(), app().used(old, new), Ok(()));
        check(app(), app().used(new, new), Err(StaleStep::Changed));
        check(app(), app().used(None, new), Err(StaleStep::Changed));
        check(app(), app().status(SageMakerStatus::Deleting), Err(StaleStep::AlreadyGone));
    }

    #[test]
    fn a_volume_or_a_snapshot_that_changed_is_kept() {
        let seen = volume().build();
        assert_eq!(seen.still_holds(&seen.clone()), Ok(()));
        assert_eq!(seen.still_holds(&volume().tag("curfew:protected", "").build()), Err(StaleStep::Changed));
        for state in [VolumeState::Deleting, VolumeState::Deleted] {
            let fresh = Volume { state, ..seen.clone() };
            assert_eq!(seen.still_holds(&fresh), Err(StaleStep::AlreadyGone));
        }
        let seen = Snapshot {
            id: "snap-1".into(),
            region: seen.region,
            of_volume: seen.id,
            state: SnapshotState::Completed,
            started_at: Timestamp::UNIX_EPOCH,
            size_gib: seen.size_gib,
            tags: Tags::new(),
            description: String::new(),
        };
        assert_eq!(seen.still_holds(&seen.clone()), Ok(()));
        let protected = Tags::from([("curfew:protected".to_owned(), String::new())]);
        assert_eq!(seen.still_holds(&Snapshot { tags: protected, ..seen.clone() }), Err(StaleStep::Changed));
    }

    #[test]
    fn what_is_changed_in_any_way_is_judged_anew() {
        check(endpoint(), endpoint().modified("2026-09-01T11:59:00Z"), Err(StaleStep::Changed));
        check(endpoint(), endpoint().facts(|facts| facts.config = None), Err(StaleStep::Changed));
        check(endpoint(), endpoint().facts(|facts| facts.is_autoscaled = Some(true)), Err(StaleStep::Changed));
        check(endpoint(), endpoint().tag("curfew:protected", ""), Err(StaleStep::Changed));
        check(notebook(), notebook().status(SageMakerStatus::Stopped), Err(StaleStep::AlreadyGone));
        let stopped = || notebook().status(SageMakerStatus::Stopped);
        check(stopped(), stopped(), Ok(()));
        check(stopped(), notebook(), Err(StaleStep::Changed));
    }
}
