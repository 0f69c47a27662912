//! `SageMaker` resources that the ledger reads: everything on accelerated instances, and the training and processing jobs that ended
//! lately.

use std::collections::BTreeSet;
use std::time::Duration;

use billing::ledger::SageMakerObservation;
use futures::future::{join, join_all, join3};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId};
use model::moment::before;
use model::observation::{Gap, GapKind, Observation};
use model::sagemaker::{JobKind, SageMakerResource, SageMakerStatus};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::calls::{ListCall, ListFilter};
use super::observe::{
    AT_ONCE_MAX, AutoscalingLookup, LIST_JOBS, LookedUp, accelerated, apps, collected, jobs, listed, look_at_job,
    notebooks_and_endpoints,
};
use super::read;
use crate::aws::Aws;
use crate::observe::look_at_each;

/// Time for which an ended job is looked up, because the billed time of a job that ended since the last beat is missing. `SageMaker` keeps
/// them all, so the time need only be longer than a few lost beats: the ledger itself calls an hour without one blind.
const ENDED_FOR: SignedDuration = SignedDuration::from_mins(90);

/// Jobs of a kind that ended, each looked up with two calls. One team may run thousands on CPUs, which a list does not tell apart.
const ENDED_MAX: usize = 200;

/// One observation of each of these regions, all at once. What could not be read leaves it incomplete, with a gap; a region that has not answered in
/// full within `timeout` has none. The jobs that ended have half of that time, because everything else can do without them.
///
/// A gap hides no region, because EC2 may have been seen there. Where the organisation forbids these calls, there is none: reap-sagemaker reports
/// that.
pub(crate) async fn bills(
    aws: &Aws,
    regions: &[Region],
    now: Timestamp,
    timeout: Duration,
) -> Observation<SageMakerObservation> {
    let look = async |region: &Region| Ok(of_region(aws, region, now, Instant::now() + timeout / 2).await);
    let mut seen = Observation::default();
    for look in look_at_each(regions, "sagemaker:ListEndpoints", timeout, look).await {
        seen.extend(look.unwrap_or_else(|error| Observation::nothing_but(error.gap())));
    }
    seen
}

async fn of_region(
    aws: &Aws,
    region: &Region,
    now: Timestamp,
    ended_until: Instant,
) -> Observation<SageMakerObservation> {
    let kinds = || LIST_JOBS.into_iter().filter(|(kind, _)| *kind != JobKind::Tuning);
    let is_running = |job: &SageMakerResource| job.status == SageMakerStatus::Running;
    let running = kinds().map(|(kind, call)| jobs(aws, region, kind, call, is_running));
    let ended = kinds().map(|(kind, call)| {
        let call = ListCall { only: ListFilter::ModifiedAfter(before(now, ENDED_FOR)), ..call };
        ended_jobs(aws, region, kind, call, ended_until)
    });
    let every = |_: &SageMakerResource| true;
    // Of an endpoint the ledger needs its instances.
    let (tagged, apps, (running, ended)) = join3(
        notebooks_and_endpoints(aws, region, &every, AutoscalingLookup::NotAsked),
        apps(aws, region),
        join(join_all(running), join_all(ended)),
    )
    .await;
    // An endpoint that could not be looked up is among the items all the same.
    let mut whole = tagged.gaps.iter().all(|gap| gap.kind == GapKind::Part);
    let (mut seen, mut unread) = (tagged, BTreeSet::new());
    for of_list in running.into_iter().chain(ended).chain([apps]) {
        whole &= !of_list.list_failed;
        seen.extend(of_list.seen);
        unread.extend(of_list.unread);
    }
    let mut seen = match accelerated(aws, region, seen).await {
        Ok(seen) => seen,
        Err(error) => return Observation::nothing_but(error.gap()),
    };
    seen.gaps.retain(|gap| gap.kind != GapKind::ForbiddenRegion);
    let gaps = seen.gaps.into_iter().map(|gap| Gap { kind: GapKind::Part, ..gap }).collect();
    let look = SageMakerObservation { region: region.clone(), whole, resources: seen.items, unread };
    Observation { items: vec![look], gaps }
}

/// The jobs of a list that run no more, or are about to stop, looked up as far as the time goes: those that are still billed first, then the newest.
/// What is left of those that ended leaves the beat whole: `SageMaker` has said of each that it ended, and the ledger counts its end as between two
/// beats.
async fn ended_jobs(aws: &Aws, region: &Region, kind: JobKind, call: ListCall, until: Instant) -> LookedUp {
    let items = match timeout_at(until, listed(aws, region, call)).await {
        Ok(Ok(items)) => items,
        Ok(Err(gap)) => return LookedUp::from_failed_list(gap),
        Err(_) => {
            let error = "the list of the jobs that ended lately was not complete in time";
            return LookedUp::from_failed_list(Gap::new(region, call.call, error, GapKind::Listing));
        }
    };
    let moment = |item: &Value| item.get("LastModifiedTime").and_then(Value::as_f64).unwrap_or(f64::MAX);
    let of_list = items.iter().filter_map(|item| Some((moment(item), read::job(item, region, kind)?)));
    let mut wanted: Vec<_> = of_list.filter(|(_, job)| job.status != SageMakerStatus::Running).collect();
    wanted.sort_by(|(one_at, one), (other_at, other)| {
        is_over(one).cmp(&is_over(other)).then_with(|| other_at.total_cmp(one_at))
    });
    let billed: BTreeSet<ResourceId> =
        wanted.iter().filter(|(_, job)| !is_over(job)).map(|(_, job)| job.id.clone()).collect();
    let count = wanted.len();
    let looks = wanted.into_iter().take(ENDED_MAX).map(|(_, job)| look_at_job(aws, region, kind, job));
    let looks = stream::iter(looks).buffer_unordered(AT_ONCE_MAX).take_until(sleep_until(until));
    let looked: Vec<_> = looks.collect().await;
    let read: BTreeSet<ResourceId> = looked.iter().map(|(id, _)| id.clone()).collect();
    let left = count - looked.len();
    let mut all = collected(looked);
    // Of a job that ended nothing but its exact end is missing.
    all.unread.retain(|id| billed.contains(id));
    all.unread.extend(billed.difference(&read).cloned());
    if left > 0 {
        let error =
            format!("{left} of {count} jobs that ended lately were not looked up, so when they ended is not exact");
        all.seen.gaps.push(Gap::new(region, call.call, error, GapKind::Part));
    }
    all
}

/// Returns `true` if `SageMaker` says that nothing of the job runs.
fn is_over(job: &SageMakerResource) -> bool {
    matches!(job.status, SageMakerStatus::Stopped | SageMakerStatus::Other)
}

#[cfg(test)]
mod tests;
