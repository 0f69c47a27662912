//! The jobs that a hint names.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use jobs::backlog::{Backlog, JobEntry};
use jobs::inbox::is_answerable;
use jobs::keys::{job_of_key, sweep_of_active_key};
use jobs::{JobId, MachineObservation, ShareLimits, by_priority, is_index_search_due, is_searched};
use model::id::{Region, ResourceId};
use model::listing::ListedObject;
use model::observation::{Gap, GapKind};
use ports::{CallError, JobCloud, StoreError};

use super::work::RANKINGS_MAX;
use super::{EventHint, JobRunDocuments, JobsRun, ReadJob};
use crate::{AT_ONCE, Run};

/// The most states that one sweep reads. Even so each job of one team is reconciled within minutes, and EC2 sends events about machines.
const JOBS_MAX: ShareLimits = ShareLimits { team_max: TEAM_JOBS_MAX, total_max: 5_000 };

/// The most states of one team that one sweep reads: a run that has fewer in all has read every one.
pub(super) const TEAM_JOBS_MAX: usize = 2_000;

const NO_LIMITS: ShareLimits = ShareLimits { team_max: usize::MAX, total_max: usize::MAX };

/// A job to reconcile: its id, and its state.
pub(super) type NamedJob = (JobId, ReadJob);

/// EC2's description of the hint's instance; `None` if the hint names none.
pub(super) async fn observe_hinted_machine(
    run: &Run<'_, impl JobCloud, impl JobRunDocuments>,
    hint: &EventHint,
) -> Option<Result<Vec<MachineObservation>, CallError>> {
    let EventHint::Instance { region, instance, .. } = hint else { return None };
    Some(run.cloud.observe_machines(region, std::slice::from_ref(instance), run.now).await)
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// The jobs that the hint names, each once, with their states.
    pub(super) async fn named_by(
        &mut self,
        hint: &EventHint,
        machines: Option<Result<Vec<MachineObservation>, CallError>>,
    ) -> Vec<NamedJob> {
        match (hint, machines) {
            (EventHint::Object { key, decoded, .. }, _) => {
                let named = match self.job_of_object(key).await {
                    None => match decoded {
                        Some(decoded) => self.job_of_object(decoded).await,
                        None => None,
                    },
                    found => found,
                };
                // A member of a sweep can be cancelled before it has begun.
                self.read(named.into_iter().flatten().collect(), false).await
            }
            (EventHint::Instance { region, instance, .. }, Some(Ok(machines))) => {
                self.jobs_of_instance(region, instance, machines).await
            }
            // A warning leaves two minutes, so the states of the jobs are searched for its instance. Other events can wait for the next sweep.
            (EventHint::Instance { warned: false, .. }, Some(Err(error))) => {
                self.gap(error.gap());
                Vec::new()
            }
            (EventHint::Instance { region, instance, .. }, Some(Err(error))) => {
                self.gap(error.gap());
                let all = self.active(NO_LIMITS).await;
                let is_its = |(_, read): &NamedJob| {
                    let placed = read.value.as_ref().and_then(|job| job.machine());
                    placed.is_some_and(|placed| placed.has(instance) && placed.region == *region)
                };
                self.read(all, true).await.into_iter().filter(is_its).collect()
            }
            (EventHint::All | EventHint::Instance { .. }, _) => {
                let accepted = if self.is_hub_known { self.sweep_inbox().await } else { Vec::new() };
                let mut all = self.active(JOBS_MAX).await;
                if *hint == EventHint::All {
                    let missing = self.missing(&all).await;
                    all.extend(missing);
                }
                all.extend(accepted);
                all.sort_unstable();
                all.dedup();
                let named =
                    by_priority(self.read(all, true).await, |(_, read)| read.value.as_ref(), RANKINGS_MAX, self.now());
                self.describe_machines(&named).await;
                self.remember_states(&named);
                if *hint == EventHint::All {
                    self.restore_sweeps().await;
                }
                named
            }
        }
    }

    /// `None`: there is no object with this key.
    async fn job_of_object(&self, key: &str) -> Option<Option<JobId>> {
        let is_wish = key.ends_with("/cancel.json") || key.ends_with("/extend.json");
        if let Some(job) = job_of_key(key).filter(|_| is_wish) {
            return Some(Some(job));
        }
        if !is_answerable(key) {
            tracing::warn!(key, "its answer would have no legal key; the next sweep notifies its team");
            return Some(None);
        }
        match self.run.store.read_submission(key).await {
            Ok(None) => None,
            Ok(Some(submission)) => Some(self.answer_submission(submission).await),
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                Some(None)
            }
        }
    }

    /// The job that the instance names, if that job knows it.
    async fn jobs_of_instance(
        &mut self,
        region: &Region,
        instance: &ResourceId,
        machines: Vec<MachineObservation>,
    ) -> Vec<NamedJob> {
        let Some(found) = machines.into_iter().find(|one| one.instance == *instance) else { return Vec::new() };
        let Some(job) = found.job.as_deref().and_then(|job| JobId::read(job).ok()) else { return Vec::new() };
        let attempt = found.attempt;
        self.sights.insert(region.clone(), found);
        let knows = |(_, read): &NamedJob| {
            let job = read.value.as_ref();
            job.is_some_and(|job| job.knows(region, instance, attempt) != Some(false))
        };
        self.read(vec![job], true).await.into_iter().filter(knows).collect()
    }

    /// The unfinished jobs by the index, up to the limit for each team.
    async fn active(&self, limits: ShareLimits) -> Vec<JobId> {
        let read = |_: &str, listed: Vec<ListedObject>, _: bool| {
            self.sweeps.add_listed(listed.iter().filter_map(|one| sweep_of_active_key(&one.key)));
            entries(Backlog::Active, listed).collect()
        };
        let taken = self.take_backlog(Backlog::Active, limits, read).await;
        taken.into_iter().map(|entry: JobEntry| entry.job).collect()
    }

    /// The jobs of this hour that are unfinished and not on the index, which has only names. They are put there again. For a team with more jobs
    /// than one sweep reads, the search continues where the last sweep stopped, whatever their hour.
    async fn missing(&self, indexed: &[JobId]) -> Vec<JobId> {
        let (now, home) = (self.run.now, self.run.cloud.home());
        if !is_index_search_due(now) {
            return Vec::new();
        }
        let indexed: BTreeSet<&JobId> = indexed.iter().collect();
        let read = |_: &str, listed: Vec<ListedObject>, is_resumed: bool| {
            let all = entries(Backlog::Jobs, listed);
            let is_due = |job: &JobId| (is_resumed || is_searched(job, now)) && !indexed.contains(job);
            all.filter(|entry| is_due(&entry.job)).collect::<Vec<_>>()
        };
        let due = self.take_backlog(Backlog::Jobs, JOBS_MAX, read).await.into_iter().map(|entry| entry.job);
        let looks = stream::iter(due).map(|job| async move {
            self.time_left()?;
            match self.restore_to_index(&job).await {
                Ok(is_open) => is_open.then_some(job),
                Err(error) => {
                    self.gap(error.gap(home));
                    None
                }
            }
        });
        looks.buffered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    /// Puts a job on the index, unless it is finished. Returns whether it is unfinished.
    async fn restore_to_index(&self, job: &JobId) -> Result<bool, StoreError> {
        let is_open = self.index(job).await?.unwrap_or(false);
        if is_open {
            tracing::warn!(job = %job, "it is not finished, and was not on the index; it was put there again");
        }
        Ok(is_open)
    }

    /// Puts a job on the index, unless it is finished. Returns whether it is unfinished, and `None` if there is no such job.
    pub(super) async fn index(&self, job: &JobId) -> Result<Option<bool>, StoreError> {
        let Some(state) = self.run.store.read_job(job).await?.value else { return Ok(None) };
        if state.is_closed() {
            return Ok(Some(false));
        }
        self.run.store.remember_active(job).await?;
        Ok(Some(true))
    }

    /// Reads the states of these jobs, and leaves out jobs without a readable state. If `have_begun`, a job without a state is a gap.
    async fn read(&self, jobs: Vec<JobId>, have_begun: bool) -> Vec<NamedJob> {
        let home = self.run.cloud.home();
        let reads = stream::iter(jobs).map(|job| async move {
            let read = self.run.store.read_job(&job).await;
            (job, read)
        });
        let mut named = Vec::new();
        for (job, read) in reads.buffered(AT_ONCE).collect::<Vec<_>>().await {
            match read {
                Ok(read) if read.value.is_some() => named.push((job, read)),
                Ok(_) if !have_begun => {}
                Ok(_) => {
                    let error = format!(
                        "the job {job} has no state.json. Terminate any instance with the tag curfew:job={job}, and delete the \
                         job's object under active/"
                    );
                    self.gap(Gap::new(home, "s3:GetObject", error, GapKind::Part));
                }
                Err(error) => self.gap(error.gap(home)),
            }
        }
        named
    }
}

fn entries(backlog: Backlog, listed: Vec<ListedObject>) -> impl Iterator<Item = JobEntry> {
    listed.into_iter().filter_map(move |one| JobEntry::read(backlog, one))
}
