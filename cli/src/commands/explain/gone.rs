//! A volume that is gone, and of which Curfew has the snapshot.

use billing::restoration::Restoration;
use cloud::operator::{ResourceKind, snapshots_of, volumes_from};
use jiff::Timestamp;
use model::moment::after;
use model::ownership::{owner_of, team_of};
use operator::undo;
use plan::Target;

use super::account::{ExplainAccount, ExplanationContext};
use super::outcome::{ExplainedResource, Unexplained};
use crate::named_resource::{MissingResource, NamedResource};

impl ExplainAccount<'_> {
    /// Explains a deleted volume as `curfew undo` would find it; if there is nothing to restore, the error says why the volume is not at
    /// hand.
    pub(super) async fn gone(
        &self,
        named: &NamedResource,
        MissingResource { why, unseen }: MissingResource,
    ) -> Result<ExplainedResource, Unexplained> {
        if named.kind != ResourceKind::Volume {
            return Err(Unexplained(why));
        }
        let snapshots = snapshots_of(&self.context.aws, &self.everywhere.0.items, &named.id).await;
        let mut besides = ExplanationContext { gaps: snapshots.gaps, ..ExplanationContext::default() };
        match undo::restoration_of_deleted(&named.id, &snapshots.items) {
            // It may still be there.
            Ok((restoration, _)) if unseen.contains(&restoration.region) => Err(Unexplained(why)),
            Ok((restoration, deleted_at)) => {
                let words = self.describe_restoration(&restoration, deleted_at, &mut besides).await;
                let target = Target {
                    region: restoration.region,
                    resource: restoration.volume,
                    team: team_of(&restoration.tags, &self.config),
                    owner: owner_of(&restoration.tags, &self.config),
                    name: restoration.tags.get("Name").cloned(),
                    what: format!("{} GiB {}", restoration.origin.size_gib, restoration.origin.volume_type),
                };
                Ok(ExplainedResource::deleted(target, deleted_at.unwrap_or(self.context.now), words, besides))
            }
            Err(_) => Err(Unexplained(why)),
        }
    }

    async fn describe_restoration(
        &self,
        restoration: &Restoration,
        deleted_at: Option<Timestamp>,
        besides: &mut ExplanationContext,
    ) -> String {
        let Restoration { region, volume, snapshot, .. } = restoration;
        let made = match volumes_from(&self.context.aws, region, snapshot).await {
            Ok(made) => made,
            Err(error) => {
                besides.gaps.push(error.gap());
                Vec::new()
            }
        };
        let keep = self.config.volumes.keep_snapshots;
        match (undo::restored_already(restoration, &made), deleted_at) {
            (Some(there), _) => format!("it was deleted, and made again from {snapshot} as {}", there.id),
            // The tag says when it was deleted, and not by whom.
            (None, Some(at)) => format!(
                "deleted at {at}, after Curfew's snapshot of it; curfew undo {volume} restores it from {snapshot}, until {}",
                after(at, keep)
            ),
            (None, None) => format!("deleted; curfew undo {volume} restores it from {snapshot}"),
        }
    }
}
