//! Ending a snapshot that Curfew made.

use domain::plan::Target;
use domain::report::{Outcome, OutcomeKind};
use domain::volume::Snapshot;

use super::Resource;
use crate::describe;
use crate::error::{CallError, CallErrorKind};

impl Resource<'_> {
    /// Whether its volume is gone: EC2 says that it knows it no longer. An answer that leaves it out is not
    /// enough.
    pub(super) async fn is_outlived(&self, snapshot: &Snapshot) -> Result<(), Outcome> {
        match describe::volume(self.ec2, &self.target().region, &snapshot.of_volume).await {
            Ok(_) => Err(Outcome::with(OutcomeKind::Changed, format!("{} exists", snapshot.of_volume))),
            Err(error) if error.kind == CallErrorKind::NotFound => Ok(()),
            Err(error) => Err(Outcome::with(OutcomeKind::Failed, error.to_string())),
        }
    }

    pub(super) async fn delete_snapshot(&self) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        let answer = self.ec2.delete_snapshot().snapshot_id(resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:DeleteSnapshot", region, &error));
        self.or_it_is_gone(answer).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }
}
