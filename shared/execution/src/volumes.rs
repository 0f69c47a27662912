//! Everything that is looked at of volumes: themselves, snapshots of Curfew's own, whether volumes were in use, and what earlier runs
//! told.

use std::collections::BTreeMap;

use domain::id::{Region, ResourceId};
use domain::observed::Observed;
use domain::policy::Policy;
use domain::policy::volumes::{LiveJobs, asks, is_of_interest, jobs, wants_its_source};
use domain::volume::{Storage, VolumeUse};
use futures::future::join_all;
use futures::{StreamExt, stream};

use crate::{Recalled, Run};

/// Calls at once.
const JOBS_AT_ONCE: usize = 8;

/// What was seen of the account.
pub struct Account {
    /// Where was looked.
    pub regions: Vec<Region>,
    /// The volumes, and what decisions about them need.
    pub storage: Storage,
    /// Whether they were in use.
    pub uses: BTreeMap<ResourceId, VolumeUse>,
    /// The jobs that are not finished.
    pub live_jobs: LiveJobs,
    /// What earlier runs told.
    pub recalled: Recalled,
}

/// Looks at every region at once. Of a run about chosen ones, these alone are seen, with their own snapshots: any other
/// snapshot would seem to have outlived its volume.
pub async fn account(run: &Run<'_>, policy: &Policy) -> Account {
    let Observed { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    let of_interest = |volume: &_, hosts: &_| is_of_interest(volume, hosts, &recalled.memory, &policy.config);
    let source = |volume: &_| wants_its_source(volume, &policy.config);
    let mut storage = cloud::storage(run.aws, &recalled.regions(), run.patience(), of_interest, source).await;
    let Storage { volumes, snapshots, .. } = &mut storage;
    volumes.items.retain(|volume| run.is_about(&volume.region, &volume.id));
    snapshots.retain(|snapshot| run.is_about(&snapshot.region, &snapshot.of_volume));
    storage.volumes.gaps.extend(gaps);
    storage.volumes.gaps.extend(recalled.gaps.iter().cloned());
    let live_jobs = live_jobs(run, &mut storage).await;
    let due = asks(&storage, &live_jobs, &recalled.memory, policy, run.now);
    let of_regions = regions.iter().filter(|region| due.iter().any(|ask| ask.region == **region));
    let answers = of_regions.map(|region| cloud::volume_uses(run.aws, region, &due, run.now, run.patience()));
    let mut uses = BTreeMap::new();
    for (of_region, gaps) in join_all(answers).await {
        uses.extend(of_region);
        storage.volumes.gaps.extend(gaps);
    }
    Account { regions, storage, uses, live_jobs, recalled }
}

/// The jobs of volumes that are not finished. One of which nobody can say anything, or that there was no time for, counts as
/// such.
async fn live_jobs(run: &Run<'_>, storage: &mut Storage) -> LiveJobs {
    let mut live = jobs(storage);
    let looks = live.clone().into_iter().map(|job| async move { (run.store.is_active(&job).await, job) });
    let look_at_all = async {
        let mut answers = stream::iter(looks).buffer_unordered(JOBS_AT_ONCE);
        while let Some((active, job)) = answers.next().await {
            match active {
                Ok(true) => {}
                Ok(false) => drop(live.remove(&job)),
                Err(error) => storage.volumes.gaps.push(error.gap(run.aws.home())),
            }
        }
    };
    if tokio::time::timeout(run.patience(), look_at_all).await.is_err() {
        tracing::warn!("not every job of a volume could be looked up in time; those that were not count as unfinished");
    }
    live
}
