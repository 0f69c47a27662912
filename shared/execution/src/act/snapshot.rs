//! Ending a snapshot that Curfew made.

use model::curfew_tags::{DELETED_AT, SNAPSHOT_OF};
use model::volume::Snapshot;
use plan::SnapshotAction;
use plan::report::{FailedPart, OutcomeKind, StepOutcome};
use ports::{CallError, CallErrorKind, Cloud, Ec2Write};

use super::{StepResource, tag};

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
