//! What is on the list and was not seen: an instance that is of another type by now, without a GPU, is not among those that
//! the function looks at, and it is not gone.

use cloud::operator::{Kind, Located, locate};
use domain::instance::Instance;
use domain::observed::{Gap, GapKind};
use domain::plan::Seen;
use domain::report::RecordedStep;
use domain::review::Fresh;
use futures::stream::{self, StreamExt as _};

use super::again::Task;

const LOOKS_AT_ONCE: usize = 8;

impl Task<'_> {
    /// Looks for each by its id, where its region answered.
    pub(super) async fn look_for_the_unseen(&self, items: &[RecordedStep], fresh: &mut Fresh) {
        let unseen: Vec<&RecordedStep> = items.iter().filter(|item| is_unseen(item, fresh)).collect();
        let looks = stream::iter(unseen).map(|item| async move {
            let regions = std::slice::from_ref(&item.region);
            locate(&self.context.aws, regions, Kind::Instance, &item.resource).await
        });
        for located in looks.buffer_unordered(LOOKS_AT_ONCE).collect::<Vec<_>>().await {
            match located {
                Located::Here(seen) => fresh.seen.push(*seen),
                Located::Nowhere => {}
                Located::Unknown(gaps) => {
                    fresh.plan.gaps.extend(gaps.into_iter().map(|gap| Gap { kind: GapKind::Part, ..gap }));
                }
            }
        }
    }
}

fn is_unseen(item: &RecordedStep, Fresh { regions, seen, plan }: &Fresh) -> bool {
    let is_it = |instance: &Instance| instance.region == item.region && instance.id == item.resource;
    let has_failed = plan.gaps.iter().any(|gap| gap.region == item.region && gap.kind != GapKind::Part);
    Kind::of(&item.resource) == Some(Kind::Instance)
        && regions.contains(&item.region)
        && !has_failed
        && !seen.iter().filter_map(Seen::instance).any(is_it)
}
