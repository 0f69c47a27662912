//! How far the jobs are that others come after: each is read once in a run at most, and none that the run reads anyway.

use std::collections::BTreeMap;

use jobs::{DependencyState, Job, JobId};
use tokio::sync::Mutex;

use super::JobsRun;
use super::find::NamedJob;

/// By job; `None` if it could not be read.
pub(super) type KnownDependencies = Mutex<BTreeMap<JobId, Option<DependencyState>>>;

impl JobsRun<'_> {
    /// Remembers the states that were read of all unfinished jobs.
    pub(super) fn remember_states(&mut self, named: &[NamedJob]) {
        let states = named.iter().filter_map(|(id, read)| {
            let job = read.value.as_ref()?;
            Some((id.clone(), Some(DependencyState::from_job(Some(job)))))
        });
        self.dependencies.get_mut().extend(states);
        self.sweeps.add_busy(named.iter().filter_map(|(_, read)| read.value.as_ref()));
    }

    /// What is known of the jobs that this one waits for, by name.
    pub(super) async fn observe_dependencies(&self, job: &Job) -> BTreeMap<String, DependencyState> {
        let mut found = BTreeMap::new();
        for name in &job.waits_for {
            let id = JobId { team: job.job.team.clone(), job: name.clone() };
            found.extend(self.observe_dependency(id).await.map(|state| (name.clone(), state)));
        }
        found
    }

    async fn observe_dependency(&self, id: JobId) -> Option<DependencyState> {
        // Held while it is read, so that a thousand jobs that come after one read it once.
        let mut known = self.dependencies.lock().await;
        if let Some(state) = known.get(&id) {
            return *state;
        }
        let state = match self.run.store.read_job(&id).await {
            Ok(read) => Some(DependencyState::from_job(read.value.as_ref())),
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                None
            }
        };
        known.insert(id, state);
        state
    }
}
