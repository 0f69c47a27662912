//! The box of a job: it is taken before a launch, its home follows its machine, and it is given back when its machine is gone.
//!
//! [`next_home`] decides each step. A run that loses the swap of the box's document stops there; the next one continues from what is written.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use jobs::boxes::{
    BoxAllowance, BoxFacts, BoxHolder, BoxInUse, BoxLimits, BoxMachine, BoxRemoval, BoxTerms, GpuBox, HomeEffect,
    HomeFacts, HomeStep, HomeWait, TooManyBoxes, next_home, prefer_zone,
};
use jobs::{Job, JobMachine, MachineSight, Phase, Ranking};
use model::id::{Region, ResourceId};
use model::instance::InstanceState;
use model::observation::{Gap, GapKind};
use ports::{CallError, JobCloud, StoreError, Versioned};

use super::facts::KnownDocuments;
use super::{JobRunDocuments, JobsRun, was_launched};
use crate::AT_ONCE;

/// More steps than a home ever needs in one run.
const STEPS_MAX: usize = 24;

/// The most boxes of a team that are read to count those of a person.
const BOXES_MAX: usize = 1_000;

/// EC2 makes a volume within seconds. The run waits for it, because a person does.
const VOLUME_POLL: Duration = Duration::from_secs(2);
const VOLUME_POLLS_MAX: usize = 10;

/// The reason why a step was not done now: the next run tries again.
enum Later {
    /// Another run has written the box since, or another job has to give it back first, or the run only observes.
    NotYet,
    Store(StoreError),
    Call(CallError),
    /// The home, for what was just asked for.
    Waits(HomeWait),
}

impl From<StoreError> for Later {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Lost { .. } => Self::NotYet,
            error => Self::Store(error),
        }
    }
}

impl From<CallError> for Later {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// A box and the version of its document.
type ReadBox = (GpuBox, Option<String>);

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// The box of the job, after what can be done for it now; `None` if that is unknown. Once in each run.
    pub(super) async fn box_facts(
        &self,
        job: &Job,
        machine: &MachineSight,
        known: &mut KnownDocuments,
        now: Timestamp,
    ) -> Option<BoxFacts> {
        if known.gpu_box.is_none() {
            let found = match (&job.phase, &job.terms.gpu_box) {
                (Phase::Running(placed), _) => Box::pin(self.follow_machine(job, placed, machine, now)).await,
                (Phase::Ended(_), _) => Box::pin(self.give_back(job, machine, now)).await,
                (_, Some(terms)) => match terms.remove {
                    Some(what) => Box::pin(self.remove_box(job, what, now)).await,
                    None => self.take_box(job, terms, now).await,
                },
                (_, None) => return None,
            };
            known.gpu_box = found.map_or_else(|later| self.report_later(later), Some);
        }
        known.gpu_box.clone()
    }

    fn report_later(&self, later: Later) -> Option<BoxFacts> {
        match later {
            Later::NotYet => {}
            Later::Waits(wait) => return Some(BoxFacts::Held { home: None, wait: Some(wait) }),
            Later::Store(error) => self.gap(error.gap(self.run.cloud.home())),
            Later::Call(error) => self.gap(error.gap()),
        }
        None
    }

    async fn read_box(&self, job: &Job) -> Result<Option<ReadBox>, StoreError> {
        let Versioned { value, etag } = self.run.store.read_box(&job.job.team, job.job.name()).await?;
        Ok(value.map(|gpu_box| (gpu_box, etag)))
    }

    async fn write_box(&self, job: &Job, gpu_box: GpuBox, last: Option<&str>) -> Result<ReadBox, Later> {
        let etag = self.run.store.write_box(&job.job.team, &gpu_box, last).await?;
        Ok((gpu_box, etag))
    }

    /// Makes the job the holder of the box, if nobody else is. A box that nobody has brought up yet is made.
    async fn take_box(&self, job: &Job, terms: &BoxTerms, now: Timestamp) -> Result<BoxFacts, Later> {
        let held = BoxFacts::Held { home: None, wait: None };
        let region: Region = job.terms.machine.regions.first().unwrap_or_else(|| self.run.cloud.home()).clone();
        let (gpu_box, etag) = match self.read_box(job).await? {
            Some(read) => read,
            None => (GpuBox::new(job, terms, region.clone(), now), None),
        };
        if gpu_box.region != region {
            return Ok(BoxFacts::Elsewhere(gpu_box.region));
        }
        let taken = match gpu_box.taken_by(&job.job, now) {
            Err(holder) => return self.await_holder(holder).await,
            Ok(_) if !self.may_act(job) => return Ok(held),
            Ok(taken) => GpuBox { last_job: Some(job.job.clone()), ..taken },
        };
        // Its next machine is that of a box that was up.
        let is_held = gpu_box.is_held_by(&job.job);
        if is_held && was_launched(job) {
            return Ok(held);
        }
        let _exclusive = self.box_takes.lock().await;
        let mut too_many = self.find_too_many(job).await?;
        if too_many.is_none() && !is_held {
            self.write_box(job, taken, etag.as_deref()).await?;
            // Another run may have counted at the same moment, and taken another box of this person: each that sees the other gives up.
            too_many = self.find_too_many(job).await?;
        }
        Ok(too_many.map_or(held, BoxFacts::TooMany))
    }

    /// Counts the other boxes of the job's owner that are up, by the documents that only this function writes: each has a job that holds it.
    async fn find_too_many(&self, job: &Job) -> Result<Option<TooManyBoxes>, Later> {
        let team = &job.job.team;
        let mut names = self.run.store.boxes_of_team(team).await?;
        names.retain(|name| name != job.job.name());
        if names.len() > BOXES_MAX {
            let error = format!(
                "the team {team} has more than {BOXES_MAX} boxes, so those of {} cannot be counted, and {} is not brought up. Remove those \
                 that nobody needs:  curfew box ls, curfew box rm",
                job.owner.as_deref().unwrap_or("no owner"),
                job.job
            );
            self.gap(Gap::new(self.run.cloud.home(), "s3:ListBucket", error, GapKind::Part));
            return Err(Later::NotYet);
        }
        let reads = stream::iter(names).map(|name| self.read_box_in_use(job, name));
        let read: Vec<Option<BoxInUse>> = reads.buffered(AT_ONCE).try_collect().await?;
        let others: Vec<BoxInUse> = read.into_iter().flatten().collect();
        match BoxLimits::from_config(self.config, Some(team)).judge_one_more(job.owner.as_deref(), &others) {
            BoxAllowance::Allowed => Ok(None),
            BoxAllowance::Later => Err(Later::NotYet),
            BoxAllowance::Refused(too_many) => Ok(Some(too_many)),
        }
    }

    /// `None`: the box is down, or is being removed.
    async fn read_box_in_use(&self, job: &Job, name: String) -> Result<Option<BoxInUse>, Later> {
        let team = &job.job.team;
        let read = self.run.store.read_box(team, &name).await?.value;
        let Some(holder) = read.and_then(|gpu_box| gpu_box.holder) else { return Ok(None) };
        let Some(by) = self.run.store.read_job(&holder.job).await?.value else {
            let error = format!(
                "the box {team}/{name} is held by the job {}, which has no state.json, so {} is not brought up. Terminate any instance with \
                 the tag curfew:job={}, and delete the holder from the document of the box",
                holder.job, job.job, holder.job
            );
            self.gap(Gap::new(self.run.cloud.home(), "s3:GetObject", error, GapKind::Part));
            return Err(Later::NotYet);
        };
        let is_ending = matches!(by.phase, Phase::Ended(_));
        let in_use = BoxInUse { name: format!("{team}/{name}"), owner: by.owner.clone(), is_ending };
        Ok(Some(in_use).filter(|_| !by.is_removal()))
    }

    /// Another job holds the box. One that is over gives it back as soon as its machine is gone.
    async fn await_holder(&self, holder: BoxHolder) -> Result<BoxFacts, Later> {
        let state = self.run.store.read_job(&holder.job).await?.value;
        let is_over = state.is_some_and(|job| matches!(job.phase, Phase::Ended(_)));
        if is_over { Err(Later::NotYet) } else { Ok(BoxFacts::HeldBy(holder)) }
    }

    /// Brings the home to the machine of the job. Once the machine has it, nothing is read any more.
    async fn follow_machine(
        &self,
        job: &Job,
        placed: &JobMachine,
        sight: &MachineSight,
        now: Timestamp,
    ) -> Result<BoxFacts, Later> {
        let held = |home, wait| BoxFacts::Held { home, wait };
        let attached = job.gpu_box.as_ref().and_then(|gpu_box| gpu_box.home.clone());
        if let Some(home) = attached.filter(|home| home.machine == placed.instance) {
            return Ok(held(Some(home), None));
        }
        let MachineSight::Seen { state: state @ (InstanceState::Pending | InstanceState::Running), .. } = sight else {
            return Ok(held(None, None));
        };
        let Some(mut read) = self.read_box(job).await? else { return Ok(held(None, Some(HomeWait::Unknown))) };
        let machine = BoxMachine { instance: placed.instance.clone(), zone: placed.zone.clone() };
        let mut polls = 0;
        for _ in 0..STEPS_MAX {
            if let Some(other) = read.0.holder.clone().filter(|holder| holder.job != job.job) {
                return Ok(BoxFacts::HeldBy(other));
            }
            let facts = self.home_facts(&read.0, Some(machine.clone()), now).await?;
            match next_home(&read.0.home, &facts) {
                HomeStep::Attached => return Ok(held(read.0.mounted_by(&placed.instance), None)),
                // EC2 refuses to attach to an instance before it runs (EC2 API reference, "AttachVolume"), and only one that has run is named.
                HomeStep::Write(home) if *state == InstanceState::Pending && home.names(&placed.instance) => {
                    return Ok(held(None, None));
                }
                HomeStep::Wait(HomeWait::Volume) if polls < VOLUME_POLLS_MAX && self.time_left().is_some() => {
                    polls += 1;
                    tokio::time::sleep(VOLUME_POLL).await;
                }
                HomeStep::Wait(wait) => return Ok(held(None, Some(wait))),
                HomeStep::Rests => return Ok(held(None, Some(HomeWait::Unknown))),
                step => read = self.change_home(job, read, step).await?,
            }
        }
        Ok(held(None, Some(HomeWait::Unknown)))
    }

    /// Gives the box back once the machine of the job is gone, and takes the snapshot of its end.
    async fn give_back(&self, job: &Job, sight: &MachineSight, now: Timestamp) -> Result<BoxFacts, Later> {
        let held = |wait| BoxFacts::Held { home: None, wait };
        // Whether one that EC2 does not know is gone, or not there yet, the job decides.
        let is_gone = matches!(sight, MachineSight::Seen { state: InstanceState::Terminated, .. });
        if (job.machine().is_some() && !is_gone) || job.previous_attempt.is_some() {
            return Ok(held(None));
        }
        let Some(mut read) = self.read_box(job).await? else { return Ok(BoxFacts::Free) };
        for _ in 0..STEPS_MAX {
            if read.0.holder.as_ref().is_some_and(|holder| holder.job != job.job) {
                return Ok(BoxFacts::Free);
            }
            if let Some(released) = read.0.released_by(&job.job, now) {
                read = self.write_box(job, released, read.1.as_deref()).await?;
                // Without the tag its volume is an orphan sooner, which is announced; the box is given back all the same.
                if let Err(error) = self.run.cloud.keep_home(&read.0, GpuBox::kept_until(now)).await {
                    self.gap(error.gap());
                }
            }
            let facts = self.home_facts(&read.0, None, now).await?;
            match next_home(&read.0.home, &facts) {
                // Nothing is left to do for it, or only a person can; and a volume that no machine waits for is not made.
                HomeStep::Rests
                | HomeStep::Attached
                | HomeStep::Wait(HomeWait::Lost)
                | HomeStep::Effect(HomeEffect::CreateVolume) => {
                    return Ok(if read.0.is_held_by(&job.job) { held(None) } else { BoxFacts::Free });
                }
                HomeStep::Wait(wait) => return Ok(held(Some(wait))),
                step => read = self.change_home(job, read, step).await?,
            }
        }
        Ok(held(Some(HomeWait::Unknown)))
    }

    /// Takes the box, so that nobody brings it up meanwhile, and removes it.
    async fn remove_box(&self, job: &Job, what: BoxRemoval, now: Timestamp) -> Result<BoxFacts, Later> {
        let held = |wait| BoxFacts::Held { home: None, wait };
        let Some((gpu_box, etag)) = self.read_box(job).await? else { return Ok(BoxFacts::Free) };
        let taken = match gpu_box.taken_by(&job.job, now) {
            Err(holder) => return self.await_holder(holder).await,
            Ok(_) if !self.may_act(job) => return Ok(held(None)),
            Ok(taken) => taken,
        };
        let mut read =
            if taken == gpu_box { (taken, etag) } else { self.write_box(job, taken, etag.as_deref()).await? };
        for _ in 0..STEPS_MAX {
            let facts = self.home_facts(&read.0, None, now).await?;
            match next_home(&read.0.home, &facts) {
                // What is in the volume is saved before it goes.
                HomeStep::Wait(HomeWait::Snapshot | HomeWait::Lost)
                | HomeStep::Effect(HomeEffect::CreateSnapshot { .. })
                    if what == BoxRemoval::Everything =>
                {
                    break;
                }
                HomeStep::Rests | HomeStep::Attached | HomeStep::Effect(HomeEffect::CreateVolume) => break,
                HomeStep::Wait(wait) => return Ok(held(Some(wait))),
                step => read = self.change_home(job, read, step).await?,
            }
        }
        let (gpu_box, etag) = read;
        for effect in gpu_box.home.removal(what) {
            self.call_home(job, &gpu_box, &effect).await?;
        }
        match (what, gpu_box.released_by(&job.job, now)) {
            // Another run of this job may have deleted it, and a person may have made a new one since.
            (BoxRemoval::Everything, _) => {
                if self.read_box(job).await?.is_some_and(|(now, _)| now.is_held_by(&job.job)) {
                    self.run.store.forget_box(&job.job.team, job.job.name()).await?;
                }
            }
            (BoxRemoval::Volume, Some(released)) => {
                let home = released.home.without_volume();
                self.write_box(job, GpuBox { home, ..released }, etag.as_deref()).await?;
            }
            (BoxRemoval::Volume, None) => return Ok(held(Some(HomeWait::LastMachine))),
        }
        Ok(BoxFacts::Free)
    }

    /// Does one step, and returns the box after it.
    async fn change_home(&self, job: &Job, (gpu_box, etag): ReadBox, step: HomeStep) -> Result<ReadBox, Later> {
        let with = |home| GpuBox { home, ..gpu_box.clone() };
        let effect = match step {
            HomeStep::Write(home) => return self.write_box(job, with(*home), etag.as_deref()).await,
            HomeStep::Effect(effect) => effect,
            HomeStep::Wait(_) | HomeStep::Attached | HomeStep::Rests => return Ok((gpu_box, etag)),
        };
        if !self.enforces {
            return Err(Later::NotYet);
        }
        let made = self.call_home(job, &gpu_box, &effect).await?;
        let changed = match (&effect, made, &gpu_box.home.volume) {
            (HomeEffect::CreateVolume, Some(id), Some(volume)) => gpu_box.home.created(volume.number, id, self.now()),
            (HomeEffect::DeleteVolume(id), ..) => Some(gpu_box.home.without_replaced(id)),
            // EC2 shows both a moment later. A snapshot that was asked for again at once would be another one.
            (HomeEffect::CreateSnapshot { .. }, ..) => return Err(Later::Waits(HomeWait::Snapshot)),
            (HomeEffect::Attach { .. }, ..) => {
                tokio::time::sleep(VOLUME_POLL).await;
                None
            }
            _ => None,
        };
        match changed {
            Some(home) => self.write_box(job, with(home), etag.as_deref()).await,
            None => Ok((gpu_box, etag)),
        }
    }

    async fn call_home(
        &self,
        job: &Job,
        gpu_box: &GpuBox,
        effect: &HomeEffect,
    ) -> Result<Option<ResourceId>, CallError> {
        let answer = self.run.cloud.change_home(gpu_box, effect, &gpu_box.tags(self.config)).await;
        tracing::info!(job = %job.job, effect = ?effect, answer = ?answer, "home");
        answer
    }

    async fn home_facts(
        &self,
        gpu_box: &GpuBox,
        machine: Option<BoxMachine>,
        now: Timestamp,
    ) -> Result<HomeFacts, CallError> {
        let seen = self.run.cloud.observe_home(gpu_box, now).await?;
        let last = gpu_box.home.volume.as_ref().and_then(|volume| volume.attached_to.clone());
        let last = last.filter(|last| machine.as_ref().is_none_or(|machine| machine.instance != *last));
        let is_last_machine_gone = match last {
            Some(last) => self.is_gone(&gpu_box.region, &last, now).await?,
            None => false,
        };
        Ok(HomeFacts { machine, is_last_machine_gone, volume: seen.volume, snapshots: seen.snapshots })
    }

    /// Only a machine that has run is named by a home, so one that EC2 does not know any more is gone.
    async fn is_gone(&self, region: &Region, machine: &ResourceId, now: Timestamp) -> Result<bool, CallError> {
        let seen = self.run.cloud.observe_machines(region, std::slice::from_ref(machine), now).await?;
        let is_over = |sight: &MachineSight| {
            matches!(sight, MachineSight::Absent | MachineSight::Seen { state: InstanceState::Terminated, .. })
        };
        Ok(seen.iter().all(|one| is_over(&one.sight)))
    }

    /// Ranks the zone of the home of a box first.
    pub(super) async fn near_home(&self, job: &Job, ranking: Ranking) -> Result<Ranking, StoreError> {
        if job.terms.gpu_box.is_none() {
            return Ok(ranking);
        }
        let volume = self.read_box(job).await?.and_then(|(gpu_box, _)| gpu_box.home.volume);
        let zone = volume.as_ref().map(|volume| volume.zone.as_str());
        Ok(Ranking { candidates: prefer_zone(ranking.candidates, zone), ..ranking })
    }
}
