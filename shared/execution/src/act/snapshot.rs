//! Ending a snapshot that Curfew made.

use model::volume::Snapshot;
use plan::report::{OutcomeKind, StepOutcome};
use ports::{CallError, CallErrorKind, Cloud, Ec2Write};

use super::StepResource;

impl<C: Cloud> StepResource<'_, C> {
    /// Whether its volume is gone: EC2 says that it knows it no longer. An answer that leaves it out is not
    /// enough.
    pub(super) async fn is_outlived(&self, snapshot: &Snapshot) -> Result<(), StepOutcome> {
        match self.cloud.describe_volume(&self.target().region, &snapshot.of_volume).await {
            Ok(_) => Err(StepOutcome::with(OutcomeKind::Changed, format!("{} exists", snapshot.of_volume))),
            Err(error) if error.kind == CallErrorKind::NotFound => Ok(()),
            Err(error) => Err(StepOutcome::with(OutcomeKind::Failed, error.to_string())),
        }
    }

    pub(super) async fn delete_snapshot(&self) -> Result<StepOutcome, CallError> {
        let answer = self.call(Ec2Write::DeleteSnapshot(&self.target().resource)).await;
        self.accept_if_already_gone(answer).await?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }
}
