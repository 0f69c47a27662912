//! Sweeps: `sweep.json`, from which all members follow, and the entry on the index of unfinished jobs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jobs::keys::{
    JobDocument, active_members_prefix, active_sweep_key, document_key, sweep_of_active_key, team_and_job,
};
use jobs::{JobId, Sweep};
use model::id::RunId;

use crate::bucket::WriteCondition;
use crate::document::{is_at_home, read, stamped};
use crate::{BYTES_MAX, ReconcilerDocuments as _, Store, StoreError, SweepDocuments};

const IF_SWEEP_IS_LOST: &str = "its members run on, and no message says that all are over";

impl SweepDocuments for Store {
    async fn read_sweep(&self, sweep: &JobId) -> Result<Option<Sweep>, StoreError> {
        let key = document_key(sweep, JobDocument::Sweep);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else { return Ok(None) };
        let address = self.bucket.address(&key);
        let found: Sweep = read(&object.bytes, &address, IF_SWEEP_IS_LOST)?;
        is_at_home(found.sweep == *sweep, &found.sweep, &address, IF_SWEEP_IS_LOST)?;
        Ok(Some(found))
    }

    async fn begin_sweep(&self, sweep: &Sweep, text: &[u8]) -> Result<(Sweep, bool), StoreError> {
        self.keep_spec(&sweep.sweep, text).await?;
        let key = document_key(&sweep.sweep, JobDocument::Sweep);
        let bytes = stamped(sweep, &self.bucket.address(&key))?;
        match self.bucket.put(&key, bytes, WriteCondition::StillAt(None)).await {
            Ok(_) => Ok((sweep.clone(), true)),
            Err(lost @ StoreError::Lost { .. }) => Ok((self.read_sweep(&sweep.sweep).await?.ok_or(lost)?, false)),
            Err(error) => Err(error),
        }
    }

    async fn remember_sweep(&self, sweep: &JobId, run: &RunId) -> Result<Option<Timestamp>, StoreError> {
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

    async fn is_remembered(&self, sweep: &JobId) -> Result<bool, StoreError> {
        self.bucket.has(&active_sweep_key(sweep)).await
    }

    async fn forget_sweep(&self, sweep: &JobId) -> Result<(), StoreError> {
        self.bucket.delete(&active_sweep_key(sweep)).await
    }

    async fn unfinished_members(&self, sweep: &JobId) -> Result<BTreeSet<u32>, StoreError> {
        let listed = self.bucket.list(&active_members_prefix(sweep), usize::MAX).await?;
        let number_of = |key: &str| {
            let (of, number) = team_and_job(key.strip_prefix("active/")?)?.as_member()?;
            (of == *sweep).then_some(number)
        };
        Ok(listed.iter().filter_map(|object| number_of(&object.key)).collect())
    }
}

impl Store {
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
