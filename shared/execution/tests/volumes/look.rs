//! What a run about volumes observes of the account: the list of EC2, the metrics of `CloudWatch`, and the unfinished jobs.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use execution::{Run, volumes};
use jiff::Timestamp;
use jobs::{Job, JobId};
use model::capacity_reservation::CapacityReservation;
use model::file_system::{FileSystemQuestion, FileSystemSignal, LustreFileSystem};
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::observation::{Gap, GapKind, Observation, Observed};
use model::sagemaker::ActivitySamples;
use model::volume::{ObservedStorage, Volume, VolumeUse, VolumeUseQuery};
use plan::{Action, Step};
use ports::{Hosts, JobDocuments, StoreError, Versioned, VolumeCloud};

use crate::account::SimulatedAccount;
use crate::chance::{region, stamp};
use crate::fault::Fault;
use crate::session::{Session, gap, refused_to_read};
use crate::tags::job_name;
use crate::world::{LAG, SimulatedHost};

pub(crate) const FUNCTION: &str = "reap-volumes";

/// Carries out one run. Between its decision and its action a colleague may intervene, or time may pass.
pub(crate) async fn live(session: &Rc<Session>, run: &Run<'_, Session, Session>) {
    let Ok(planned) = volumes::plan(run).await else { return };
    session.decided(&planned.plan, planned.observation.storage.volumes.items.len());
    let is_of_volume = |step: &&Step| matches!(step.action, Action::Volume(..));
    let done = planned.plan.steps.iter().filter(is_of_volume).filter(|step| step.action.ending().is_some());
    *session.interfered.borrow_mut() = done.map(|step| step.target.resource.clone()).collect();
    {
        let mut account = session.account();
        let SimulatedAccount { oracle, world, .. } = &mut *account;
        oracle.planned(&planned.plan, &planned.observation.storage, world, &session.facts());
        account.log_skipped(&planned.plan);
    }
    session.may_act().await;
    planned.carry_out(run).await;
    session.account().ran(&session.facts());
}

impl VolumeCloud for Session {
    // The account has volumes alone.
    async fn unused_reservations(
        &self,
        _: &[Region],
        _: Option<&str>,
        _: Duration,
    ) -> Observation<CapacityReservation> {
        Observation::default()
    }

    async fn file_systems(&self, _: &[Region], _: Duration) -> Observation<LustreFileSystem> {
        Observation::default()
    }

    async fn file_system_samples(
        &self,
        _: &Region,
        _: &[FileSystemQuestion],
        _: Duration,
    ) -> (ActivitySamples<FileSystemSignal>, Vec<Gap>) {
        Default::default()
    }

    async fn storage(
        &self,
        regions: &[Region],
        _timeout: Duration,
        tags: impl Fn(&Volume, &Hosts) -> bool,
        source: impl Fn(&Volume) -> bool,
    ) -> ObservedStorage {
        let (mut account, now) = (self.account(), self.now());
        let account = &mut *account;
        let (mut volumes, mut snapshots) = account.lists();
        if account.faults.occurs(Fault::VolumesStale, now) {
            volumes.clone_from(&account.an_hour_ago.0);
        }
        if account.faults.occurs(Fault::SnapshotsStale, now) {
            snapshots.clone_from(&account.an_hour_ago.1);
        }
        if !volumes.is_empty() && account.faults.occurs(Fault::VolumeUnlisted, now) {
            let unlisted = account.owners.below(volumes.len());
            volumes.remove(unlisted);
        }
        let mut seen = ObservedStorage { snapshots, ..ObservedStorage::default() };
        seen.volumes.items = volumes;
        for place in 0..account.regions {
            let region = region(place);
            let is_asked = regions.contains(&region);
            let unseen = is_asked && account.faults.occurs(Fault::ListingFailed, now);
            if unseen {
                seen.volumes.gaps.push(Gap { kind: GapKind::Region, ..gap(&region, "ec2:DescribeVolumes") });
            }
            if unseen || !is_asked {
                seen.volumes.items.retain(|volume| volume.region != region);
                seen.snapshots.retain(|snapshot| snapshot.region != region);
            }
        }
        let hosts = account.world.hosts.iter().filter(|host| !host.gone).map(SimulatedHost::seen);
        let hosts: Hosts = hosts.map(|host| (host.id.clone(), host)).collect();
        for volume in &mut seen.volumes.items {
            if !tags(volume, &hosts) {
                (volume.tags, volume.attached_to) = (Tags::new(), Vec::new());
            }
        }
        let holds = |id: &ResourceId| seen.volumes.items.iter().any(|volume| volume.attached_to.contains(id));
        seen.hosts = hosts.into_values().filter(|host| holds(&host.id)).collect();
        let wanted = seen.volumes.items.iter().filter(|volume| source(volume));
        let named = wanted.filter_map(|volume| volume.from_snapshot.as_ref());
        let sources = named.filter_map(|id| Some(&account.world.snaps[account.world.snap(id.as_str())?]));
        seen.sources =
            sources.filter(|snap| snap.exists()).map(|snap| (snap.ec2.id.clone(), snap.ec2.tags.clone())).collect();
        seen
    }

    async fn volume_uses(
        &self,
        region: &Region,
        asks: &[VolumeUseQuery],
        _now: Timestamp,
        _timeout: Duration,
    ) -> Observed<BTreeMap<ResourceId, VolumeUse>> {
        let (mut account, now) = (self.account(), self.now());
        let account = &mut *account;
        let mut answers = BTreeMap::new();
        let unanswered = account.faults.occurs(Fault::UseUnanswered, now);
        let mut complete = !unanswered;
        for ask in asks.iter().filter(|ask| ask.region == *region) {
            let Some(disk) = account.world.disk(ask.volume.as_str()) else { continue };
            if unanswered || account.faults.occurs(Fault::UsePartly, now) {
                complete = false;
                account.oracle.unanswered(disk, now);
                continue;
            }
            let lag = account.owners.between(0, LAG);
            let used = account.world.disks[disk].used(ask.since.as_second(), now, lag);
            let used = used.map_or(VolumeUse::None, |at| VolumeUse::UsedAt(stamp(at)));
            answers.insert(ask.volume.clone(), used);
        }
        let gaps = Vec::from_iter((!complete).then(|| gap(region, "cloudwatch:GetMetricData")));
        Observed { items: answers, gaps }
    }
}

impl JobDocuments for Session {
    async fn read_job(&self, job: &JobId) -> Result<Versioned<Option<Job>>, StoreError> {
        unreachable!("no run about volumes reads the state of {job}")
    }

    async fn is_active(&self, job: &str) -> Result<bool, StoreError> {
        if self.occurs(Fault::JobUnread) {
            return Err(refused_to_read());
        }
        let (account, now) = (self.account(), self.now());
        let mut jobs = account.world.jobs.iter().enumerate();
        Ok(jobs.any(|(place, until)| job_name(place) == job && *until > now))
    }
}
