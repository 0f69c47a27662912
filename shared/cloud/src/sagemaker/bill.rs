//! What the ledger reads of `SageMaker`: what runs on accelerated instances, and the training and processing jobs that ended lately.

use std::time::Duration;

use billing::ledger::SageMakerObservation;
use futures::future::{join, join_all};
use jiff::{SignedDuration, Timestamp};
use model::id::Region;
use model::observation::{Gap, GapKind, Observation};
use model::sagemaker::{JobKind, ObservedSageMaker, SageMakerResource, SageMakerStatus};

use super::calls::{ListCall, ListFilter};
use super::observe::{AutoscalingLookup, LIST_JOBS, accelerated, apps, jobs, notebooks_and_endpoints};
use crate::aws::Aws;
use crate::error::CallError;

/// For so long a job that ended is looked up: of one that ended since the last beat its billed time is missing. `SageMaker` keeps them all, so it
/// need only be longer than a few beats are lost: the ledger itself calls an hour without one blind.
const ENDED_FOR: SignedDuration = SignedDuration::from_mins(90);

/// One observation of each of these regions, all at once. What could not be read leaves it incomplete, with a gap; a region that has not answered in
/// full within `timeout` has none.
///
/// A gap hides no region, because EC2 may have been seen there. Where the organisation forbids these calls, there is none: reap-sagemaker reports
/// that.
pub(crate) async fn bills(
    aws: &Aws,
    regions: &[Region],
    now: Timestamp,
    timeout: Duration,
) -> Observation<SageMakerObservation> {
    let looks = regions.iter().map(|region| async move {
        tokio::time::timeout(timeout, of_region(aws, region, now)).await.unwrap_or_else(|_| {
            Observation::nothing_but(CallError::timed_out("sagemaker:ListEndpoints", region, timeout).gap())
        })
    });
    let mut seen = Observation::default();
    for of_region in join_all(looks).await {
        seen.extend(of_region);
    }
    seen
}

async fn of_region(aws: &Aws, region: &Region, now: Timestamp) -> Observation<SageMakerObservation> {
    let lists = LIST_JOBS.into_iter().filter(|(kind, _)| *kind != JobKind::Tuning).flat_map(|(kind, running)| {
        let ended = ListCall { only: ListFilter::ModifiedAfter(now - ENDED_FOR), ..running };
        [(kind, running, true), (kind, ended, false)]
    });
    let of_jobs = lists.map(|(kind, call, runs)| async move {
        let is_wanted = move |job: &SageMakerResource| (job.status == SageMakerStatus::Running) == runs;
        jobs(aws, region, kind, call, is_wanted).await
    });
    let (mut seen, of_jobs) = join(resources(aws, region), join_all(of_jobs)).await;
    for of_kind in of_jobs {
        seen.extend(of_kind);
    }
    let mut seen = match accelerated(aws, region, seen).await {
        Ok(seen) => seen,
        Err(error) => return Observation::nothing_but(error.gap()),
    };
    let whole = seen.gaps.is_empty();
    seen.gaps.retain(|gap| gap.kind != GapKind::ForbiddenRegion);
    let gaps = seen.gaps.into_iter().map(|gap| Gap { kind: GapKind::Part, ..gap }).collect();
    let look = SageMakerObservation { region: region.clone(), whole, resources: seen.items };
    Observation { items: vec![look], gaps }
}

/// Of an endpoint the ledger needs its instances.
async fn resources(aws: &Aws, region: &Region) -> ObservedSageMaker {
    let every = |_: &SageMakerResource| true;
    let (mut seen, apps) =
        join(notebooks_and_endpoints(aws, region, &every, AutoscalingLookup::NotAsked), apps(aws, region)).await;
    seen.extend(apps);
    seen
}

#[cfg(test)]
mod tests;
