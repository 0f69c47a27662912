//! Snapshotting and deleting a volume.

use jiff::Timestamp;
use model::curfew_tags::{DELETED_AT, MARKED, SNAPSHOT_OF, UNATTACHED_SINCE, has_room};
use model::id::ResourceId;
use model::instance::Tags;
use model::volume::{Snapshot, Volume, snapshot_description};
use plan::report::{FailedPart, OutcomeKind, StepOutcome};
use plan::{Facts, SnapshotAction, VolumeAction, is_safe};
use ports::{CallError, CallErrorKind, Cloud, Ec2Write};

use super::{StepResource, Tag, tag};

impl<C: Cloud> StepResource<'_, C, Volume> {
    pub(super) async fn write_volume(&self, action: &VolumeAction) -> Result<StepOutcome, CallError> {
        match action {
            VolumeAction::Announce(announcement) => self.announce(announcement, self.first_sight()).await,
            VolumeAction::TagUnattachedSince(since) => match self.label(vec![tag(UNATTACHED_SINCE, since)]).await {
                // The log has it, and no action needs the label.
                Err(error) if error.refusal().is_some() => Ok(StepOutcome::with(OutcomeKind::Done, error.to_string())),
                answer => answer,
            },
            VolumeAction::Snapshot { tags } => self.snapshot(tags).await,
            VolumeAction::Delete { expiring, at, .. } => self.delete(expiring, *at).await,
        }
    }

    /// The label of the first sight, written with the mark where it is missing or differs, and there is room for both.
    fn first_sight(&self) -> Option<Tag> {
        let since = self.unattached_since()?.to_string();
        let is_missing = self.seen.tags.get(UNATTACHED_SINCE) != Some(&since);
        (is_missing && has_room(&self.seen.tags, &[MARKED, UNATTACHED_SINCE])).then(|| tag(UNATTACHED_SINCE, &since))
    }

    fn unattached_since(&self) -> Option<Timestamp> {
        match &self.step.evidence.facts {
            Facts::Orphaned(orphaned) => Some(orphaned.unattached_since),
            _ => None,
        }
    }

    /// Checks that the safety snapshot still exists and is complete. Without it nothing is deleted.
    pub(super) async fn is_safe(&self, safety: &ResourceId) -> Result<(), StepOutcome> {
        let since = self.unattached_since().unwrap_or(Timestamp::MAX);
        match self.cloud.describe_snapshot(&self.target().region, safety).await {
            Ok(snapshot) if is_safe(&snapshot, self.seen, since) => Ok(()),
            Ok(_) => {
                let error = format!("{safety} is no longer what it can be restored from");
                Err(StepOutcome::with(OutcomeKind::Changed, error))
            }
            Err(error) if error.kind == CallErrorKind::NotFound => {
                Err(StepOutcome::with(OutcomeKind::Changed, error.to_string()))
            }
            Err(error) => Err(StepOutcome::failed(FailedPart::Check, error.to_string())),
        }
    }

    /// Requests the snapshot once. If the call is not answered, looks for the snapshot instead.
    async fn snapshot(&self, tags: &Tags) -> Result<StepOutcome, CallError> {
        let volume = &self.target().resource;
        let description = snapshot_description(volume, self.run);
        match self.call(Ec2Write::CreateSnapshot { volume, description: &description, tags }).await {
            Err(error) if error.kind.is_unanswered() && self.has_a_new_snapshot().await => {}
            answer => answer?,
        }
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    async fn has_a_new_snapshot(&self) -> bool {
        let volume = self.seen;
        let snapshots = self.cloud.describe_snapshots_of(&volume.region, &volume.id).await;
        snapshots.is_ok_and(|snapshots| snapshots.iter().any(|one| one.described_run().as_ref() == Some(self.run)))
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

impl<C: Cloud> StepResource<'_, C, Snapshot> {
    pub(super) async fn write_snapshot(&self, action: SnapshotAction) -> Result<StepOutcome, CallError> {
        match action {
            SnapshotAction::AnnounceExpiry(expiry) => {
                // IAM lets no function write the other label where it is missing.
                let missing =
                    (!self.seen.tags.contains_key(SNAPSHOT_OF)).then(|| tag(SNAPSHOT_OF, &self.seen.of_volume));
                self.label(missing.into_iter().chain([tag(DELETED_AT, &expiry.deleted_at)]).collect()).await
            }
            SnapshotAction::Delete => self.delete().await,
            SnapshotAction::DeleteFailed { at } => {
                self.label(vec![tag(DELETED_AT, &at)]).await?;
                self.delete().await
            }
        }
    }

    /// Checks that the snapshot's volume is gone: EC2 must say that it does not know the volume. An answer that leaves the volume out is
    /// not enough.
    pub(super) async fn is_outlived(&self) -> Result<(), StepOutcome> {
        let snapshot = self.seen;
        match self.cloud.describe_volume(&self.target().region, &snapshot.of_volume).await {
            Ok(_) => Err(StepOutcome::with(OutcomeKind::Changed, format!("{} exists", snapshot.of_volume))),
            Err(error) if error.kind == CallErrorKind::NotFound => Ok(()),
            Err(error) => Err(StepOutcome::failed(FailedPart::Check, error.to_string())),
        }
    }

    async fn delete(&self) -> Result<StepOutcome, CallError> {
        let answer = self.call(Ec2Write::DeleteSnapshot(&self.target().resource)).await;
        self.accept_if_already_gone(answer).await?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }
}
