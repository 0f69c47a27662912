//! Snapshotting and deleting a volume.

use aws_sdk_ec2::config::Config;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};
use domain::id::ResourceId;
use domain::instance::Tags;
use domain::plan::{Because, Safety, Seen, Target, is_safe, may_become_safe};
use domain::report::{Outcome, OutcomeKind};
use domain::vocabulary::{DELETED_AT, SNAPSHOT_OF, UNATTACHED_SINCE};
use domain::volume::{SnapshotState, Volume};
use jiff::Timestamp;

use super::{Resource, tag};
use crate::describe;
use crate::error::{CallError, CallErrorKind};

impl Resource<'_> {
    /// What goes with the mark of a volume that carries it not yet, or another.
    pub(super) fn first_sight(&self) -> Option<Tag> {
        let since = self.unattached_since()?.to_string();
        (self.step.seen.tags().get(UNATTACHED_SINCE) != Some(&since)).then(|| tag(UNATTACHED_SINCE, &since))
    }

    fn unattached_since(&self) -> Option<Timestamp> {
        match &self.step.because {
            Because::Orphaned(orphaned) => Some(orphaned.unattached_since),
            _ => None,
        }
    }

    /// Whether the snapshot is still there, and whole: without it nothing is deleted.
    pub(super) async fn is_safe(&self, volume: &Volume, safety: &Safety) -> Result<(), Outcome> {
        let since = self.unattached_since().unwrap_or(Timestamp::MAX);
        match describe::snapshot(self.ec2, &self.target().region, &safety.snapshot).await {
            Ok(snapshot) if is_safe(&snapshot, volume, since) => Ok(()),
            Ok(_) => {
                let error = format!("{} is no longer what it can be restored from", safety.snapshot);
                Err(Outcome::with(OutcomeKind::Changed, error))
            }
            Err(error) if error.kind == CallErrorKind::NotFound => {
                Err(Outcome::with(OutcomeKind::Changed, error.to_string()))
            }
            Err(error) => Err(Outcome::with(OutcomeKind::Failed, error.to_string())),
        }
    }

    /// `CreateSnapshot` has no token by which a repeat is known (EC2 API reference, "Ensuring idempotency"): the SDK must not
    /// repeat it, and what was not answered is looked for.
    pub(super) async fn snapshot(&self, tags: &Tags) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        let tags = tags.iter().map(|(key, value)| tag(key, value)).collect();
        let specification =
            TagSpecification::builder().resource_type(ResourceType::Snapshot).set_tags(Some(tags)).build();
        let call = self
            .ec2
            .create_snapshot()
            .volume_id(resource.as_str())
            .description(format!("Curfew: {resource} before its deletion"))
            .tag_specifications(specification)
            .customize()
            .config_override(Config::builder().retry_config(RetryConfig::disabled()));
        let error = match call.send().await {
            Ok(_) => return Ok(Outcome::of(OutcomeKind::Done)),
            Err(error) => CallError::of("ec2:CreateSnapshot", region, &error),
        };
        if error.kind == CallErrorKind::Unanswered && self.has_a_new_snapshot().await {
            return Ok(Outcome::of(OutcomeKind::Done));
        }
        Err(error)
    }

    /// Where a snapshot was planned, none was there that may become safe, unless it had failed.
    async fn has_a_new_snapshot(&self) -> bool {
        let (Seen::Volume(volume), Some(since)) = (&self.step.seen, self.unattached_since()) else {
            return false;
        };
        let of_it = Filter::builder().name(format!("tag:{SNAPSHOT_OF}")).values(volume.id.as_str()).build();
        let call = self.ec2.describe_snapshots().owner_ids("self").filters(of_it);
        let Ok(page) = describe::snapshots_page(call, &volume.region).await else {
            return false;
        };
        let is_new = |state| matches!(state, SnapshotState::Pending | SnapshotState::Completed);
        page.snapshots.iter().any(|snapshot| is_new(snapshot.state) && may_become_safe(snapshot, volume, since))
    }

    pub(super) async fn delete_volume(&self, expiring: &[ResourceId], at: Timestamp) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        let answer = self.ec2.delete_volume().volume_id(resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:DeleteVolume", region, &error));
        self.or_it_is_gone(answer).await?;
        if expiring.is_empty() {
            return Ok(Outcome::of(OutcomeKind::Done));
        }
        let snapshots = expiring.iter().map(|id| id.as_str().to_owned()).collect();
        let dated = self.ec2.create_tags().set_resources(Some(snapshots)).tags(tag(DELETED_AT, &at)).send().await;
        Ok(match dated {
            Ok(_) => Outcome::of(OutcomeKind::Done),
            // The next run finds them without their volume.
            Err(error) => {
                let error = CallError::of("ec2:CreateTags", region, &error);
                Outcome::with(OutcomeKind::Done, format!("deleted, but its snapshots carry no date yet: {error}"))
            }
        })
    }
}
