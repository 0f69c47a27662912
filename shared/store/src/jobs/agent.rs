//! What only a job's agent writes.

use domain::job::{Exit, Head, Heartbeat, JobId};

use serde::Deserialize;

use super::keys::{Of, key, outputs_folder};
use super::{IF_HEAD_IS_LOST, IF_STATE_IS_LOST};
use crate::bucket::Condition;
use crate::checkpoints::{Local, Unsent, upload_each};
use crate::document::{read, stamped};
use crate::{BYTES_MAX, Store, StoreError, Versioned};

const TEXT: &str = "text/plain; charset=utf-8";

/// Of `state.json` what the agent needs, whatever else is in it.
#[derive(Deserialize)]
struct State {
    terms: Terms,
}

#[derive(Deserialize)]
struct Terms {
    checkpoint: Option<Kept>,
}

#[derive(Deserialize)]
struct Kept {
    keep: u32,
}

impl Store {
    /// How many checkpoints of a job are kept, as it was accepted; `None` where there is no such job, or it keeps none.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_keep(&self, job: &JobId) -> Result<Option<u32>, StoreError> {
        let key = key(job, Of::State);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else { return Ok(None) };
        let state: State = read(&object.bytes, &self.bucket.address(&key), IF_STATE_IS_LOST)?;
        Ok(state.terms.checkpoint.map(|checkpoint| checkpoint.keep))
    }

    /// The fence with its version; of an absent one that of no attempt.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_fence(&self, job: &JobId) -> Result<Versioned<Head>, StoreError> {
        let key = key(job, Of::Head);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else {
            return Ok(Versioned { value: Head::default(), etag: None });
        };
        let value = read(&object.bytes, &self.bucket.address(&key), IF_HEAD_IS_LOST)?;
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
        let key = key(job, Of::Head);
        let bytes = stamped(head, &self.bucket.address(&key))?;
        Ok(self.bucket.put(&key, bytes, Condition::StillAt(last)).await?.etag)
    }

    /// Says that the heart of an attempt beats.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn beat(&self, job: &JobId, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        let key = key(job, Of::Heartbeat(heartbeat.attempt));
        let bytes = stamped(heartbeat, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, Condition::None).await.map(drop)
    }

    /// Leaves behind why an attempt ended.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn leave_exit(&self, job: &JobId, exit: &Exit) -> Result<(), StoreError> {
        let key = key(job, Of::Exit(exit.attempt));
        let bytes = stamped(exit, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, Condition::None).await.map(drop)
    }

    /// Writes the end of an attempt's log.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn write_log(&self, job: &JobId, attempt: u32, tail: Vec<u8>) -> Result<(), StoreError> {
        self.bucket.put_as(TEXT, &key(job, Of::Log(attempt)), tail, Condition::None).await.map(drop)
    }

    /// Uploads what a job leaves behind besides its checkpoints, `outputs/<team>/<job>/<attempt>/<path>`, each file by itself.
    /// Which of them could not be; empty where all were.
    pub async fn upload_outputs(&self, job: &JobId, attempt: u32, files: Vec<Local>) -> Vec<Unsent> {
        upload_each(&self.bucket, &outputs_folder(job, attempt), files).await
    }
}
