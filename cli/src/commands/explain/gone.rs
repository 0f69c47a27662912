//! A volume that is gone, and of which Curfew has the snapshot.

use cloud::operator::{Kind, snapshots_of, volumes_from};
use domain::plan::Target;
use domain::policy::{owner_of, team_of};
use domain::restoration::Restoration;
use domain::undo;
use jiff::Timestamp;

use super::account::{Account, Besides};
use super::outcome::Explained;
use crate::named::{Missing, Named};

impl Account<'_> {
    /// As `curfew undo` would find it; where it has nothing to restore, why the volume is not at hand.
    pub(super) async fn gone(&self, named: &Named, Missing { why, unseen }: Missing) -> Result<Explained, String> {
        if named.kind != Kind::Volume {
            return Err(why);
        }
        let snapshots = snapshots_of(&self.context.aws, &self.everywhere.0.items, &named.id).await;
        let mut besides = Besides { gaps: snapshots.gaps, ..Besides::default() };
        match undo::of_deleted(&named.id, &snapshots.items) {
            // It may still be there.
            Ok((restoration, _)) if unseen.contains(&restoration.region) => Err(why),
            Ok((restoration, deleted_at)) => {
                let words = self.words_of(&restoration, deleted_at, &mut besides).await;
                let target = Target {
                    region: restoration.region,
                    resource: restoration.volume,
                    team: team_of(&restoration.tags, &self.config),
                    owner: owner_of(&restoration.tags, &self.config),
                    name: restoration.tags.get("Name").cloned(),
                    what: format!("{} GiB {}", restoration.origin.size_gib, restoration.origin.volume_type),
                };
                Ok(Explained::deleted(target, deleted_at.unwrap_or(self.context.now), words, besides))
            }
            Err(_) => Err(why),
        }
    }

    async fn words_of(
        &self,
        restoration: &Restoration,
        deleted_at: Option<Timestamp>,
        besides: &mut Besides,
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
            // Whoever deleted it: the tag says only when.
            (None, Some(at)) => format!(
                "deleted at {at}, after Curfew's snapshot of it; curfew undo {volume} makes it again from {snapshot}, until {}",
                at + keep
            ),
            (None, None) => format!("deleted; curfew undo {volume} makes it again from {snapshot}"),
        }
    }
}
