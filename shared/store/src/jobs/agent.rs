//! What only a job's agent writes.

use jobs::{ExitRecord, Head, Heartbeat, JobId, MACHINE_DOCUMENT_BYTES_MAX};
use serde::Deserialize;

use super::keys::{JobDocument, key, outputs_folder};
use super::{IF_HEAD_IS_LOST, IF_STATE_IS_LOST, read_checked};
use crate::bucket::WriteCondition;
use crate::checkpoints::{FileOwner, LocalFile, UnsentFile, upload_each};
use crate::document::{is_at_home, read, stamped};
use crate::{BYTES_MAX, Store, StoreError, Versioned};

const TEXT: &str = "text/plain; charset=utf-8";

/// Of `state.json` what the agent needs, whatever else is in it.
#[derive(Deserialize)]
struct StateExcerpt {
    job: JobId,
    terms: TermsExcerpt,
}

#[derive(Deserialize)]
struct TermsExcerpt {
    checkpoint: Option<CheckpointExcerpt>,
}

#[derive(Deserialize)]
struct CheckpointExcerpt {
    keep: u32,
}

impl Store {
    /// How many checkpoints of a job are kept, as it was accepted; `None` where there is no such job, or it keeps none.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_keep(&self, job: &JobId) -> Result<Option<u32>, StoreError> {
        let key = key(job, JobDocument::State);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else { return Ok(None) };
        let address = self.bucket.address(&key);
        let state: StateExcerpt = read(&object.bytes, &address, IF_STATE_IS_LOST)?;
        is_at_home(state.job == *job, &state.job, &address, IF_STATE_IS_LOST)?;
        Ok(state.terms.checkpoint.map(|checkpoint| checkpoint.keep))
    }

    /// The fence with its version; of an absent one that of no attempt.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_fence(&self, job: &JobId) -> Result<Versioned<Head>, StoreError> {
        let key = key(job, JobDocument::Head);
        let Some(object) = self.bucket.get(&key, MACHINE_DOCUMENT_BYTES_MAX).await? else {
            return Ok(Versioned { value: Head::default(), etag: None });
        };
        let value = read_checked(&object.bytes, self.bucket.address(&key), IF_HEAD_IS_LOST, Head::check)?;
        Ok(Versioned { value, etag: object.etag })
    }

    /// Writes the fence over the object whose `ETag` was `last`; `None` where there was none. The new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn write_fence(
        &self,
        job: &JobId,
        head: &Head,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let key = key(job, JobDocument::Head);
        let bytes = stamped(head, &self.bucket.address(&key))?;
        Ok(self.bucket.put(&key, bytes, WriteCondition::StillAt(last)).await?.etag)
    }

    /// Says that the heart of an attempt beats.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn beat(&self, job: &JobId, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        let key = key(job, JobDocument::Heartbeat(heartbeat.attempt));
        let bytes = stamped(heartbeat, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }

    /// Leaves behind why an attempt ended.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn leave_exit(&self, job: &JobId, exit: &ExitRecord) -> Result<(), StoreError> {
        let key = key(job, JobDocument::Exit(exit.attempt));
        let bytes = stamped(exit, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }

    /// Writes the end of an attempt's log.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn write_log(&self, job: &JobId, attempt: u32, tail: Vec<u8>) -> Result<(), StoreError> {
        self.bucket.put_as(TEXT, &key(job, JobDocument::Log(attempt)), tail, WriteCondition::None).await.map(drop)
    }

    /// Uploads what a job leaves behind besides its checkpoints, `outputs/<team>/<job>/<attempt>/<path>`, each file by itself.
    /// They are read with the rights of their owner. Which of them could not be; empty where all were.
    pub async fn upload_outputs(
        &self,
        job: &JobId,
        attempt: u32,
        files: Vec<LocalFile>,
        owner: &FileOwner,
    ) -> Vec<UnsentFile> {
        upload_each(&self.bucket, &outputs_folder(job, attempt), files, owner).await
    }
}
