//! Reads the states of the jobs and sweeps that other jobs wait for. A run reads each at most once, and none that it reads anyway.

use std::collections::BTreeMap;

use jobs::{DependencyState, Job, JobId};
use ports::{JobCloud, StoreError};
use tokio::sync::Mutex;

use super::find::NamedJob;
use super::{JobRunDocuments, JobsRun};

/// The state of each job, or the reason why it could not be read.
pub(super) type KnownDependencies = Mutex<BTreeMap<JobId, Result<DependencyState, StoreError>>>;

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Remembers the states that were read of all unfinished jobs. A sweep with one of them is unfinished, unless that one has failed.
    pub(super) fn remember_states(&mut self, named: &[NamedJob]) {
        let known = self.dependencies.get_mut();
        for (id, job) in named.iter().filter_map(|(id, read)| Some((id, read.value.as_ref()?))) {
            known.insert(id.clone(), Ok(DependencyState::from_job(Some(job))));
            let Some((sweep, member)) = job.sweep_id().zip(job.sweep.as_ref()) else { continue };
            let dependency = known.entry(sweep).or_insert(Ok(DependencyState::Unfinished));
            let state = DependencyState::from_member(member.number, Some(job));
            if state.obstacle().is_some() {
                *dependency = Ok(state);
            }
        }
        self.sweeps.add_busy(named.iter().filter_map(|(_, read)| read.value.as_ref()));
    }

    /// Returns the known states of the jobs that this job waits for, by name.
    pub(super) async fn observe_dependencies(&self, job: &Job) -> BTreeMap<String, DependencyState> {
        let mut found = BTreeMap::new();
        for name in &job.waits_for {
            let id = JobId { team: job.job.team.clone(), job: name.clone() };
            match self.observe_dependency(&id).await {
                Ok(state) => drop(found.insert(name.clone(), state)),
                Err(error) => self.gap(error.gap(self.run.cloud.home())),
            }
        }
        found
    }

    /// Returns the state of a job or sweep.
    ///
    /// # Errors
    /// If S3 refused, or there is too little time: a sweep takes up to a thousand reads.
    pub(super) async fn observe_dependency(&self, id: &JobId) -> Result<DependencyState, StoreError> {
        // Held while it is read, so that a thousand jobs that come after one read it once.
        let mut known = self.dependencies.lock().await;
        if let Some(state) = known.get(id) {
            return state.clone();
        }
        let too_late = || {
            let address = format!("s3://{}/jobs/{id}/", self.run.store.bucket_name());
            StoreError::unreached("s3:GetObject", address, "how far it is was not known in time")
        };
        let read = self.run.store.read_dependency(id);
        let left = self.time_left().ok_or_else(too_late)?;
        let state = Box::pin(tokio::time::timeout(left, read)).await.unwrap_or_else(|_| Err(too_late()));
        known.insert(id.clone(), state.clone());
        state
    }
}
