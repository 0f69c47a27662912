//! Everything that is looked at of volumes: themselves, snapshots of Curfew's own, whether volumes were in use, and what earlier runs
//! told.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use futures::{StreamExt, stream};
use model::fault::Bug;
use model::id::{Region, ResourceId};
use model::observation::Observation;
use model::volume::{ObservedStorage, Volume, VolumeUse};
use plan::Plan;
use plan::report::Report;
use ports::{ConfigLoadError, Documents, JobDocuments, VolumeCloud};
use reaping::policy::Policy;
use reaping::volumes::{LiveJobs, decide, is_of_interest, jobs, volume_use_queries, wants_its_source};

use crate::{RecalledLogs, Run, Subscribers};

const JOBS_AT_ONCE: usize = 8;

/// The documents in the bucket that a run about volumes reads and writes.
pub trait VolumeDocuments: Documents + JobDocuments {}

impl<D: Documents + JobDocuments> VolumeDocuments for D {}

/// A run that has looked and decided, and has done nothing yet.
pub struct Planned {
    /// The steps that the run will carry out.
    pub plan: Plan,
    /// The observation that the plan is based on.
    pub seen: VolumesObservation,
    audience: Subscribers,
}

impl Planned {
    /// Carries the plan out, and reports what became of it.
    pub async fn carry_out(self, run: &Run<'_, impl VolumeCloud, impl VolumeDocuments>) -> Report {
        run.carry_out(self.plan, self.seen.regions, self.audience, self.seen.recalled).await
    }
}

/// Looks at everything, and decides.
///
/// # Errors
/// Where the configuration was refused, or could not be read.
pub async fn plan(run: &Run<'_, impl VolumeCloud, impl VolumeDocuments>) -> Result<Planned, ConfigLoadError> {
    let (policy, audience) = run.prepare().await?;
    let seen = observe(run, &policy).await;
    let memory = &seen.recalled.memory;
    let plan = decide(&seen.storage, &seen.uses, &seen.live_jobs, memory, &policy, run.now);
    Ok(Planned { plan, seen, audience })
}

/// The observation of the account by one run.
pub struct VolumesObservation {
    /// The regions that the run observed.
    pub regions: Vec<Region>,
    /// The volumes, and what decisions about them need.
    pub storage: ObservedStorage,
    /// The use of each volume.
    pub uses: BTreeMap<ResourceId, VolumeUse>,
    /// The jobs that are not finished.
    pub live_jobs: LiveJobs,
    /// The notifications of earlier runs.
    pub recalled: RecalledLogs,
}

/// Observes every region at once. A run about chosen resources sees only these, with the snapshots of a volume and the volume of a snapshot:
/// without its volume a snapshot would seem to have outlived it.
pub async fn observe(run: &Run<'_, impl VolumeCloud, impl VolumeDocuments>, policy: &Policy) -> VolumesObservation {
    let Observation { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    // Of what a bug hides, all is read: the decision names the bug.
    let of_interest = |volume: &_, hosts: &_| {
        Bug::catch(|| is_of_interest(volume, hosts, &recalled.memory, &policy.config)).unwrap_or(true)
    };
    let source = |volume: &_| Bug::catch(|| wants_its_source(volume, &policy.config)).unwrap_or(true);
    let mut storage = run.cloud.storage(&recalled.regions(), run.timeout(), of_interest, source).await;
    let ObservedStorage { volumes, snapshots, .. } = &mut storage;
    snapshots.retain(|snapshot| {
        run.is_about(&snapshot.region, &snapshot.of_volume) || run.is_about(&snapshot.region, &snapshot.id)
    });
    let of_snapshots: BTreeSet<_> = snapshots.iter().map(|one| (&one.region, &one.of_volume)).collect();
    let is_of_chosen = |volume: &Volume| of_snapshots.contains(&(&volume.region, &volume.id));
    volumes.items.retain(|volume| run.is_about(&volume.region, &volume.id) || is_of_chosen(volume));
    storage.volumes.gaps.extend(gaps);
    storage.volumes.gaps.extend(recalled.gaps.iter().cloned());
    let live_jobs = live_jobs(run, &mut storage).await;
    let due = volume_use_queries(&storage, &live_jobs, &recalled.memory, policy, run.now);
    let of_regions = regions.iter().filter(|region| due.iter().any(|ask| ask.region == **region));
    let answers = of_regions.map(|region| run.cloud.volume_uses(region, &due, run.now, run.timeout()));
    let mut uses = BTreeMap::new();
    for (of_region, gaps) in join_all(answers).await {
        uses.extend(of_region);
        storage.volumes.gaps.extend(gaps);
    }
    VolumesObservation { regions, storage, uses, live_jobs, recalled }
}

/// The jobs of volumes that are not finished. A job that is unknown, or that there was no time for, counts as
/// such.
async fn live_jobs(run: &Run<'_, impl VolumeCloud, impl VolumeDocuments>, storage: &mut ObservedStorage) -> LiveJobs {
    let mut live = jobs(storage);
    let looks = live.clone().into_iter().map(|job| async move { (run.store.is_active(&job).await, job) });
    let look_at_all = async {
        let mut answers = stream::iter(looks).buffer_unordered(JOBS_AT_ONCE);
        while let Some((active, job)) = answers.next().await {
            match active {
                Ok(true) => {}
                Ok(false) => drop(live.remove(&job)),
                Err(error) => storage.volumes.gaps.push(error.gap(run.cloud.home())),
            }
        }
    };
    if tokio::time::timeout(run.timeout(), look_at_all).await.is_err() {
        tracing::warn!("not every job of a volume could be looked up in time; those that were not count as unfinished");
    }
    live
}
