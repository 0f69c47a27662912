//! Snapshotting and deleting a volume.

use jiff::Timestamp;
use model::curfew_tags::{DELETED_AT, UNATTACHED_SINCE};
use model::id::ResourceId;
use model::instance::Tags;
use model::volume::{SnapshotState, Volume};
use plan::report::{OutcomeKind, StepOutcome};
use plan::{Evidence, SafetySnapshot, VolumeAction, is_safe, may_become_safe};
use ports::{CallError, CallErrorKind, Cloud, Ec2Write};

use super::{StepResource, Tag, tag};

impl<C: Cloud> StepResource<'_, C, Volume> {
    pub(super) async fn write_volume(&self, action: &VolumeAction) -> Result<StepOutcome, CallError> {
        match action {
            VolumeAction::Announce(announcement) => self.announce(announcement, self.first_sight()).await,
            VolumeAction::TagUnattachedSince(since) => self.date(UNATTACHED_SINCE, *since).await,
            VolumeAction::Snapshot { tags } => self.snapshot(tags).await,
            VolumeAction::Delete { expiring, at, .. } => self.delete(expiring, *at).await,
        }
    }

    /// What goes with the mark of a volume that carries it not yet, or another.
    fn first_sight(&self) -> Option<Tag> {
        let since = self.unattached_since()?.to_string();
        (self.seen.tags.get(UNATTACHED_SINCE) != Some(&since)).then(|| tag(UNATTACHED_SINCE, &since))
    }

    fn unattached_since(&self) -> Option<Timestamp> {
        match &self.step.evidence {
            Evidence::Orphaned(orphaned) => Some(orphaned.unattached_since),
            _ => None,
        }
    }

    /// Whether the snapshot is still there, and whole: without it nothing is deleted.
    pub(super) async fn is_safe(&self, safety: &SafetySnapshot) -> Result<(), StepOutcome> {
        let since = self.unattached_since().unwrap_or(Timestamp::MAX);
        match self.cloud.describe_snapshot(&self.target().region, &safety.snapshot).await {
            Ok(snapshot) if is_safe(&snapshot, self.seen, since) => Ok(()),
            Ok(_) => {
                let error = format!("{} is no longer what it can be restored from", safety.snapshot);
                Err(StepOutcome::with(OutcomeKind::Changed, error))
            }
            Err(error) if error.kind == CallErrorKind::NotFound => {
                Err(StepOutcome::with(OutcomeKind::Changed, error.to_string()))
            }
            Err(error) => Err(StepOutcome::with(OutcomeKind::Failed, error.to_string())),
        }
    }

    /// It is asked for once; what was not answered is looked for.
    async fn snapshot(&self, tags: &Tags) -> Result<StepOutcome, CallError> {
        match self.call(Ec2Write::CreateSnapshot { volume: &self.target().resource, tags }).await {
            Err(error) if error.kind.is_unanswered() && self.has_a_new_snapshot().await => {}
            answer => answer?,
        }
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// Where a snapshot was planned, none was there that may become safe, unless it had failed.
    async fn has_a_new_snapshot(&self) -> bool {
        let volume = self.seen;
        let Some(since) = self.unattached_since() else { return false };
        let Ok(snapshots) = self.cloud.describe_snapshots_of(&volume.region, &volume.id).await else {
            return false;
        };
        let is_new = |state| matches!(state, SnapshotState::Pending | SnapshotState::Completed);
        snapshots.iter().any(|snapshot| is_new(snapshot.state) && may_become_safe(snapshot, volume, since))
    }

    async fn delete(&self, expiring: &[ResourceId], at: Timestamp) -> Result<StepOutcome, CallError> {
        let answer = self.call(Ec2Write::DeleteVolume(&self.target().resource)).await;
        self.accept_if_already_gone(answer).await?;
        if expiring.is_empty() {
            return Ok(StepOutcome::from_kind(OutcomeKind::Done));
        }
        let tags = [tag(DELETED_AT, &at)];
        let dated = self.call(Ec2Write::CreateTags { resources: expiring, tags: &tags }).await;
        Ok(match dated {
            Ok(()) => StepOutcome::from_kind(OutcomeKind::Done),
            // The next run finds them without their volume.
            Err(error) => {
                StepOutcome::with(OutcomeKind::Done, format!("deleted, but its snapshots carry no date yet: {error}"))
            }
        })
    }
}
