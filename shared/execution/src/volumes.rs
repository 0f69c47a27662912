//! A run about volumes, and about reserved capacity and file systems, which also cost without being used: it observes them, Curfew's snapshots, the use of
//! each volume, and the notifications of earlier runs.
//!
//! Reservations and file systems are looked at here, by the hour: a finding needs a day at least, and a look costs a call in each region.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join_all, join3};
use futures::{StreamExt, stream};
use model::capacity_reservation::CapacityReservation;
use model::channels::account_of_topic;
use model::fault::Bug;
use model::id::{Region, ResourceId};
use model::observation::{Observation, Observed};
use model::volume::{ObservedStorage, Volume, VolumeUse};
use ports::{ConfigLoadError, Documents, JobDocuments, VolumeCloud};
use reaping::file_systems::Inquiry;
use reaping::policy::Policy;
use reaping::volumes::{LiveJobs, decide, is_of_interest, jobs, volume_use_queries, wants_its_source};
use reaping::{file_systems, reservations};

use crate::file_systems::{FileSystemsObservation, observe_file_systems};
use crate::{AT_ONCE, Planned, RecalledLogs, Run, RunObservation};

/// The documents in the bucket that a run about volumes reads and writes.
pub trait VolumeDocuments: Documents + JobDocuments {}

impl<D: Documents + JobDocuments> VolumeDocuments for D {}

/// Observes the account, and decides.
///
/// # Errors
/// If the configuration was refused, or could not be read.
pub async fn plan(
    run: &Run<'_, impl VolumeCloud, impl VolumeDocuments>,
) -> Result<Planned<VolumesObservation>, ConfigLoadError> {
    let (policy, subscribers) = run.prepare().await?;
    let observation = observe(run, &policy).await;
    let memory = &observation.recalled.memory;
    let mut plan = decide(&observation.storage, &observation.uses, &observation.live_jobs, memory, &policy, run.now);
    plan.skipped.extend(reservations::decide(&observation.reservations, memory, &policy, run.now));
    let FileSystemsObservation { items, uses, .. } = &observation.file_systems;
    plan.skipped.extend(file_systems::decide(items, uses, memory, &policy, run.now));
    Ok(Planned { plan, observation, subscribers })
}

/// The observation of the account by one run.
pub struct VolumesObservation {
    /// The regions that the run observed.
    pub regions: Vec<Region>,
    /// The volumes, and what decisions about them need.
    pub storage: ObservedStorage,
    /// The use of each volume.
    pub uses: BTreeMap<ResourceId, VolumeUse>,
    /// The capacity reservations with unused capacity.
    pub reservations: Vec<CapacityReservation>,
    /// The file systems, and their use.
    pub file_systems: FileSystemsObservation,
    /// The jobs that are not finished.
    pub live_jobs: LiveJobs,
    /// The notifications of earlier runs.
    pub recalled: RecalledLogs,
}

impl RunObservation for VolumesObservation {
    fn into_regions_and_logs(self) -> (Vec<Region>, RecalledLogs) {
        (self.regions, self.recalled)
    }
}

/// Observes every region at once. A run about chosen resources sees only these, with the snapshots of a volume and the volume of a snapshot:
/// without its volume a snapshot would seem to have outlived it.
pub async fn observe(run: &Run<'_, impl VolumeCloud, impl VolumeDocuments>, policy: &Policy) -> VolumesObservation {
    let Observation { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    // Everything is read of a volume about which this panics: the decision names the bug.
    let is_interesting = |volume: &_, hosts: &_| {
        Bug::catch(|| is_of_interest(volume, hosts, &recalled.memory, &policy.config)).unwrap_or(true)
    };
    let source = |volume: &_| Bug::catch(|| wants_its_source(volume, &policy.config)).unwrap_or(true);
    let seen_regions = recalled.regions();
    let account = account_of_topic(&run.channels.topics.teams);
    // A person chooses volumes and snapshots: no reservation and no file system is changed.
    let reserved_in = if run.chosen.is_none() { &*seen_regions } else { &[] };
    let (mut storage, reservations, file_systems) = join3(
        run.cloud.storage(&seen_regions, run.timeout(), is_interesting, source),
        run.cloud.unused_reservations(reserved_in, account.as_deref(), run.timeout()),
        observe_file_systems(run.cloud, reserved_in, policy, Inquiry::OfRun, run.now, run.timeout()),
    )
    .await;
    let ObservedStorage { volumes, snapshots, .. } = &mut storage;
    snapshots.retain(|snapshot| {
        run.is_about(&snapshot.region, &snapshot.of_volume) || run.is_about(&snapshot.region, &snapshot.id)
    });
    let copied_volumes: BTreeSet<_> = snapshots.iter().map(|one| (&one.region, &one.of_volume)).collect();
    let has_chosen_snapshot = |volume: &Volume| copied_volumes.contains(&(&volume.region, &volume.id));
    volumes.items.retain(|volume| run.is_about(&volume.region, &volume.id) || has_chosen_snapshot(volume));
    storage.volumes.gaps.extend(gaps);
    storage.volumes.gaps.extend(recalled.gaps.iter().cloned());
    // A region that is unseen is said once.
    let unseen: BTreeSet<Region> =
        storage.volumes.gaps.iter().filter(|gap| gap.kind.hides_region()).map(|gap| gap.region.clone()).collect();
    let besides = reservations.gaps.into_iter().chain(file_systems.gaps.iter().cloned());
    storage.volumes.gaps.extend(besides.filter(|gap| !unseen.contains(&gap.region)));
    let live_jobs = load_live_jobs(run.store, &storage, run.cloud.home(), run.timeout()).await;
    let live_jobs = live_jobs.with_gaps_in(&mut storage.volumes.gaps);
    let due = volume_use_queries(&storage, &live_jobs, &recalled.memory, policy, run.now);
    let queried_regions = regions.iter().filter(|region| due.iter().any(|ask| ask.region == **region));
    let answers = queried_regions.map(|region| run.cloud.volume_uses(region, &due, run.now, run.timeout()));
    let mut uses = BTreeMap::new();
    for region_uses in join_all(answers).await {
        uses.extend(region_uses.with_gaps_in(&mut storage.volumes.gaps));
    }
    let reservations = reservations.items;
    VolumesObservation { regions, storage, uses, reservations, file_systems, live_jobs, recalled }
}

/// The jobs of volumes that are not finished. A job that is unknown, or that there was no time for, counts as
/// such.
pub async fn load_live_jobs(
    store: &impl JobDocuments,
    storage: &ObservedStorage,
    home: &Region,
    timeout: Duration,
) -> Observed<LiveJobs> {
    let (mut live, mut gaps) = (jobs(storage), Vec::new());
    let reads = live.clone().into_iter().map(|job| async move { (store.is_active(&job).await, job) });
    let read_all = async {
        let mut answers = stream::iter(reads).buffer_unordered(AT_ONCE);
        while let Some((active, job)) = answers.next().await {
            match active {
                Ok(true) => {}
                Ok(false) => drop(live.remove(&job)),
                Err(error) => gaps.push(error.gap(home)),
            }
        }
    };
    if tokio::time::timeout(timeout, read_all).await.is_err() {
        tracing::warn!("not every job of a volume could be looked up in time; those that were not count as unfinished");
    }
    Observed { items: live, gaps }
}
