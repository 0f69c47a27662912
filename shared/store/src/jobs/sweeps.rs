//! Sweeps: `sweep.json`, from which all members follow, and the entry on the index of unfinished jobs. Other jobs can come after one.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use jobs::keys::{
    JobDocument, active_members_prefix, active_sweep_key, document_key, sweep_of_active_key, team_and_job,
};
use jobs::{DependencyState, JobId, JobResult, Sweep};
use model::id::RunId;

use crate::bucket::WriteCondition;
use crate::document::{is_at_home, read, stamped};
use crate::{BYTES_MAX, JobDocuments as _, Store, StoreError};

/// Members that are read at once.
const AT_ONCE: usize = 8;

const IF_SWEEP_IS_LOST: &str = "its members run on, and no message says that all are over";

impl Store {
    /// A sweep; `None` if there is none of that name.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    pub async fn read_sweep(&self, sweep: &JobId) -> Result<Option<Sweep>, StoreError> {
        let key = document_key(sweep, JobDocument::Sweep);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else { return Ok(None) };
        let address = self.bucket.address(&key);
        let found: Sweep = read(&object.bytes, &address, IF_SWEEP_IS_LOST)?;
        is_at_home(found.sweep == *sweep, &found.sweep, &address, IF_SWEEP_IS_LOST)?;
        Ok(Some(found))
    }

    /// Stores a new sweep with its document, unless it is there. Returns the one that is there then, and whether it is new: its members follow
    /// from the first that was written.
    ///
    /// # Errors
    /// If S3 refused, or an object that is there is another one.
    pub async fn begin_sweep(&self, sweep: &Sweep, text: &[u8]) -> Result<(Sweep, bool), StoreError> {
        self.keep_spec(&sweep.sweep, text).await?;
        let key = document_key(&sweep.sweep, JobDocument::Sweep);
        let bytes = stamped(sweep, &self.bucket.address(&key))?;
        match self.bucket.put(&key, bytes, WriteCondition::StillAt(None)).await {
            Ok(_) => Ok((sweep.clone(), true)),
            Err(lost @ StoreError::Lost { .. }) => Ok((self.read_sweep(&sweep.sweep).await?.ok_or(lost)?, false)),
            Err(error) => Err(error),
        }
    }

    /// Reads the state of a job or a sweep that another job comes after. The members of a sweep are read up to the first that has not
    /// succeeded.
    ///
    /// # Errors
    /// If S3 refused, or a document is not Curfew's.
    pub async fn read_dependency(&self, id: &JobId) -> Result<DependencyState, StoreError> {
        if let Some(job) = self.read_job(id).await?.value {
            return Ok(DependencyState::from_job(Some(&job)));
        }
        let Some(sweep) = self.read_sweep(id).await? else { return Ok(DependencyState::Absent) };
        let reads = stream::iter(sweep.numbers()).map(|number| async move {
            let member = self.read_job(&id.member(number)).await?.value;
            Ok::<_, StoreError>(DependencyState::from_member(number, member.as_ref()))
        });
        let mut states = std::pin::pin!(reads.buffered(AT_ONCE));
        while let Some(state) = states.try_next().await? {
            if state != DependencyState::Ended(JobResult::Succeeded) {
                return Ok(state);
            }
        }
        Ok(DependencyState::Ended(JobResult::Succeeded))
    }

    /// Adds a sweep to the index of unfinished jobs, once all its members are there. Returns when another run has added it, by S3's clock; `None` if
    /// this run has.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn remember_sweep(&self, sweep: &JobId, run: &RunId) -> Result<Option<Timestamp>, StoreError> {
        let key = active_sweep_key(sweep);
        // A write of equal bytes would count as this run's own.
        let entry = stamped(&BTreeMap::from([("run", run.as_str())]), &self.bucket.address(&key))?;
        match self.bucket.put(&key, entry, WriteCondition::StillAt(None)).await {
            Ok(_) => Ok(None),
            Err(lost @ StoreError::Lost { .. }) => {
                let there = self.bucket.find(&key, BYTES_MAX).await?;
                there.map(|there| Some(there.written_at)).ok_or(lost)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if a sweep is on that index.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn is_remembered(&self, sweep: &JobId) -> Result<bool, StoreError> {
        self.bucket.has(&active_sweep_key(sweep)).await
    }

    /// Removes a sweep from that index.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn forget_sweep(&self, sweep: &JobId) -> Result<(), StoreError> {
        self.bucket.delete(&active_sweep_key(sweep)).await
    }

    /// The numbers of the members that are on that index.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn unfinished_members(&self, sweep: &JobId) -> Result<BTreeSet<u32>, StoreError> {
        let listed = self.bucket.list(&active_members_prefix(sweep), usize::MAX).await?;
        let number_of = |key: &str| {
            let (of, number) = team_and_job(key.strip_prefix("active/")?)?.as_member()?;
            (of == *sweep).then_some(number)
        };
        Ok(listed.iter().filter_map(|object| number_of(&object.key)).collect())
    }

    /// Lists all unfinished jobs, and unfinished sweeps, in no order.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn active_and_sweeps(&self) -> Result<Vec<JobId>, StoreError> {
        let listed = self.bucket.list("active/", usize::MAX).await?;
        let id_of = |key: &str| team_and_job(key.strip_prefix("active/")?).or_else(|| sweep_of_active_key(key));
        Ok(listed.iter().filter_map(|object| id_of(&object.key)).collect())
    }
}
