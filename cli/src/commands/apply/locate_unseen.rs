//! The items of the list that were not seen: an instance that is of another type by now, without a GPU, is not among those that the
//! function looks at, and it is not gone.

use cloud::operator::{LocateResult, ResourceKind, locate};
use futures::stream::{self, StreamExt as _};
use model::instance::Instance;
use model::observation::{Gap, GapKind, ObservedResource};
use operator::review::CurrentState;
use plan::report::RecordedStep;

use super::review::ApplyTask;

const LOOKS_AT_ONCE: usize = 8;

impl ApplyTask<'_> {
    /// Looks for each by its id, where its region answered.
    pub(super) async fn locate_unseen(&self, items: &[RecordedStep], fresh: &mut CurrentState) {
        let unseen: Vec<&RecordedStep> = items.iter().filter(|item| is_unseen(item, fresh)).collect();
        let looks = stream::iter(unseen).map(|item| async move {
            let regions = std::slice::from_ref(&item.region);
            locate(&self.context.aws, regions, ResourceKind::Instance, &item.resource).await
        });
        for located in looks.buffer_unordered(LOOKS_AT_ONCE).collect::<Vec<_>>().await {
            match located {
                LocateResult::Here(seen) => fresh.seen.push(*seen),
                LocateResult::Nowhere => {}
                LocateResult::Unknown(gaps) => {
                    fresh.plan.gaps.extend(gaps.into_iter().map(|gap| Gap { kind: GapKind::Listing, ..gap }));
                }
            }
        }
    }
}

fn is_unseen(item: &RecordedStep, CurrentState { regions, seen, plan }: &CurrentState) -> bool {
    let is_it = |instance: &Instance| instance.region == item.region && instance.id == item.resource;
    let has_failed = plan.gaps.iter().any(|gap| gap.region == item.region && gap.kind.hides_region());
    ResourceKind::from_id(&item.resource) == Some(ResourceKind::Instance)
        && regions.contains(&item.region)
        && !has_failed
        && !seen.iter().filter_map(ObservedResource::instance).any(is_it)
}
