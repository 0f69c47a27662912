//! Which jobs a hint names.

use std::collections::BTreeSet;

use cloud::CallError;
use cloud::jobs::Looked;
use domain::id::{Region, ResourceId};
use domain::job::{JobId, in_turn, is_sweep, is_swept};
use domain::observed::{Gap, GapKind};
use store::{StoreError, job_of_key};

use super::work::RANKINGS_MAX;
use super::{Hint, Jobs, Read};
use crate::{AT_ONCE, Run};
use futures::{StreamExt, stream};

/// A job as it is looked at: which, and its state.
pub(super) type Named = (JobId, Read);

/// What EC2 says of the instance that the hint is of; `None` where it is of none.
pub(super) async fn look(run: &Run<'_>, hint: &Hint) -> Option<Result<Vec<Looked>, CallError>> {
    let Hint::Instance { region, instance, .. } = hint else { return None };
    Some(cloud::jobs::look(run.aws, region, std::slice::from_ref(instance), run.now).await)
}

impl Jobs<'_> {
    /// The jobs that the hint names, each once, with their states.
    pub(super) async fn named_by(&mut self, hint: &Hint, looked: Option<Result<Vec<Looked>, CallError>>) -> Vec<Named> {
        match (hint, looked) {
            (Hint::Object { key, decoded, .. }, _) => {
                let named = match self.of_object(key).await {
                    None => match decoded {
                        Some(decoded) => self.of_object(decoded).await,
                        None => None,
                    },
                    found => found,
                };
                self.read(named.into_iter().flatten().collect()).await
            }
            (Hint::Instance { region, instance, .. }, Some(Ok(looked))) => {
                self.of_instance(region, instance, looked).await
            }
            // A warning leaves two minutes: its job may still be found by what the jobs know. Anything else the next sweep sees as well.
            (Hint::Instance { warned: false, .. }, Some(Err(error))) => {
                self.gap(error.gap());
                Vec::new()
            }
            (Hint::Instance { region, instance, .. }, Some(Err(error))) => {
                self.gap(error.gap());
                let all = self.active().await;
                let is_its = |(_, read): &Named| {
                    let placed = read.value.as_ref().and_then(|job| job.machine());
                    placed.is_some_and(|placed| placed.instance == *instance && placed.region == *region)
                };
                self.read(all).await.into_iter().filter(is_its).collect()
            }
            (Hint::All | Hint::Instance { .. }, _) => {
                let accepted = self.sweep_inbox().await;
                let mut all = self.active().await;
                if *hint == Hint::All {
                    let missing = self.missing(&all).await;
                    all.extend(missing);
                }
                all.extend(accepted);
                all.sort_unstable();
                all.dedup();
                let named = in_turn(self.read(all).await, |(_, read)| read.value.as_ref(), RANKINGS_MAX, self.now());
                self.look_at_all(&named).await;
                named
            }
        }
    }

    /// `None`: there is nothing of that key.
    async fn of_object(&self, key: &str) -> Option<Option<JobId>> {
        if let Some(job) = job_of_key(key).filter(|_| key.ends_with("/cancel.json")) {
            return Some(Some(job));
        }
        match self.run.store.read_submission(key).await {
            Ok(None) => None,
            Ok(Some(submission)) => Some(self.take(submission).await),
            Err(error) => {
                self.gap(error.gap(self.run.aws.home()));
                Some(None)
            }
        }
    }

    /// The job that the instance says it is of, if that job knows it.
    async fn of_instance(&mut self, region: &Region, instance: &ResourceId, looked: Vec<Looked>) -> Vec<Named> {
        let Some(found) = looked.into_iter().find(|one| one.instance == *instance) else { return Vec::new() };
        let Some(job) = found.job.as_deref().and_then(|job| JobId::read(job).ok()) else { return Vec::new() };
        let attempt = found.attempt;
        self.sights.insert(region.clone(), found);
        let knows = |(_, read): &Named| {
            let job = read.value.as_ref();
            job.is_some_and(|job| job.knows(region, instance, attempt) != Some(false))
        };
        self.read(vec![job]).await.into_iter().filter(knows).collect()
    }

    /// The jobs that are not finished, as the index says.
    async fn active(&self) -> Vec<JobId> {
        self.run.store.active().await.unwrap_or_else(|error| {
            self.gap(error.gap(self.run.aws.home()));
            Vec::new()
        })
    }

    /// The jobs of this hour that are not finished and not on the index, which says no more than a name. They are put there again.
    async fn missing(&self, indexed: &[JobId]) -> Vec<JobId> {
        let (now, home) = (self.now(), self.run.aws.home());
        if !is_sweep(now) {
            return Vec::new();
        }
        let all = match self.run.store.jobs(None).await {
            Ok(all) => all,
            Err(error) => {
                self.gap(error.gap(home));
                return Vec::new();
            }
        };
        let indexed: BTreeSet<&JobId> = indexed.iter().collect();
        let due = all.into_iter().filter(|job| is_swept(job, now) && !indexed.contains(job));
        let looks = stream::iter(due).map(|job| async move {
            self.time_left()?;
            match self.take_up(&job).await {
                Ok(is_open) => is_open.then_some(job),
                Err(error) => {
                    self.gap(error.gap(home));
                    None
                }
            }
        });
        looks.buffered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    /// Puts a job on the index, unless it is finished; whether it is not.
    async fn take_up(&self, job: &JobId) -> Result<bool, StoreError> {
        let is_open = self.run.store.read_job(job).await?.value.is_some_and(|job| !job.is_closed());
        if is_open {
            tracing::warn!(job = %job, "it is not finished, and was not on the index; it is put there again");
            self.run.store.remember_active(job).await?;
        }
        Ok(is_open)
    }

    /// With their states; without those of which there is none, or which cannot be read.
    async fn read(&self, jobs: Vec<JobId>) -> Vec<Named> {
        let home = self.run.aws.home();
        let reads = stream::iter(jobs).map(|job| async move {
            let read = self.run.store.read_job(&job).await;
            (job, read)
        });
        let mut named = Vec::new();
        for (job, read) in reads.buffered(AT_ONCE).collect::<Vec<_>>().await {
            match read {
                Ok(read) if read.value.is_some() => named.push((job, read)),
                Ok(_) => self.gap(Gap {
                    region: home.clone(),
                    call: "s3:GetObject".to_owned(),
                    error: format!(
                        "nothing is known of the job {job}: there is no state.json of it. Look whether an instance carries the tag \
                         curfew:job={job}, end it, and delete the job's object under active/"
                    ),
                    kind: GapKind::Part,
                }),
                Err(error) => self.gap(error.gap(home)),
            }
        }
        named
    }
}
