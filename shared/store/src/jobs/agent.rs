//! Documents that only a job's agent writes.

use jobs::boxes::{BoxState, BoxTerms};
use jobs::keys::{JobDocument, document_key, outputs_folder};
use jobs::node_gang::{Node, node_outputs_folder};
use jobs::{ExitRecord, Head, Heartbeat, JobId, MACHINE_DOCUMENT_BYTES_MAX};
use serde::Deserialize;

use super::{IF_HEAD_IS_LOST, IF_STATE_IS_LOST, read_checked};
use crate::bucket::WriteCondition;
use crate::checkpoints::{FileOwner, LocalFile, UnsentFile, upload_each};
use crate::document::{is_at_home, read, stamped};
use crate::{BYTES_MAX, MachineDocuments as _, Store, StoreError, Versioned};

/// The part of `state.json` that the agent needs.
#[derive(Deserialize)]
struct StateExcerpt {
    job: JobId,
    terms: TermsExcerpt,
    #[serde(rename = "box", default)]
    gpu_box: Option<BoxState>,
}

#[derive(Deserialize)]
struct TermsExcerpt {
    checkpoint: Option<CheckpointExcerpt>,
    #[serde(rename = "box", default)]
    gpu_box: Option<BoxTerms>,
}

#[derive(Deserialize)]
struct CheckpointExcerpt {
    keep: u32,
}

impl Store {
    /// Reads the number of checkpoints that a job keeps, as accepted; `None` if there is no such job, or it keeps none.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    pub async fn read_keep(&self, job: &JobId) -> Result<Option<u32>, StoreError> {
        let state = self.read_excerpt(job).await?;
        Ok(state.and_then(|state| state.terms.checkpoint).map(|checkpoint| checkpoint.keep))
    }

    /// Reads the terms of a box, as accepted, and what has become of them; `None` if there is no such job, or it is no box.
    ///
    /// # Errors
    /// As [`Store::read_keep`].
    pub async fn read_box_state(&self, job: &JobId) -> Result<Option<(BoxTerms, BoxState)>, StoreError> {
        Ok(self.read_excerpt(job).await?.and_then(|state| state.terms.gpu_box.zip(state.gpu_box)))
    }

    async fn read_excerpt(&self, job: &JobId) -> Result<Option<StateExcerpt>, StoreError> {
        let key = document_key(job, JobDocument::State);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else { return Ok(None) };
        let address = self.bucket.address(&key);
        let state: StateExcerpt = read(&object.bytes, &address, IF_STATE_IS_LOST)?;
        is_at_home(state.job == *job, &state.job, &address, IF_STATE_IS_LOST)?;
        Ok(Some(state))
    }

    /// The fence with its version; an absent one has no attempt.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    pub async fn read_fence(&self, job: &JobId) -> Result<Versioned<Head>, StoreError> {
        let key = document_key(job, JobDocument::Head);
        let Some(object) = self.bucket.get(&key, MACHINE_DOCUMENT_BYTES_MAX).await? else {
            return Ok(Versioned { value: Head::default(), etag: None });
        };
        let value = read_checked(&object.bytes, self.bucket.address(&key), IF_HEAD_IS_LOST, Head::check)?;
        Ok(Versioned { value, etag: object.etag })
    }

    /// Writes the fence over the object with the `ETag` `last`; `None` if there was none. Returns the new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    pub async fn write_fence(
        &self,
        job: &JobId,
        head: &Head,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let key = document_key(job, JobDocument::Head);
        let bytes = stamped(head, &self.bucket.address(&key))?;
        Ok(self.bucket.put(&key, bytes, WriteCondition::StillAt(last)).await?.etag)
    }

    /// Writes the heartbeat of an attempt.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn beat(&self, job: &JobId, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.write_heartbeat(&document_key(job, JobDocument::Heartbeat(heartbeat.attempt)), heartbeat).await
    }

    pub(super) async fn write_heartbeat(&self, key: &str, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        let bytes = stamped(heartbeat, &self.bucket.address(key))?;
        self.bucket.put(key, bytes, WriteCondition::None).await.map(drop)
    }

    /// Writes the exit record of an attempt.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn leave_exit(&self, job: &JobId, exit: &ExitRecord) -> Result<(), StoreError> {
        let key = document_key(job, JobDocument::Exit(exit.attempt));
        let bytes = stamped(exit, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }

    /// Address of the outputs of a job that has succeeded, `s3://BUCKET/outputs/<team>/<job>/<attempt>/`; `None` if no head says that it
    /// has.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn find_outputs(&self, job: &JobId) -> Result<Option<String>, StoreError> {
        let (head, _) = self.read_head(job).await?.into_parts();
        let succeeded = head.filter(|head| head.result.as_ref().is_some_and(|result| result.succeeded));
        Ok(succeeded.map(|head| self.bucket.address(&outputs_folder(job, head.attempt))))
    }

    /// Uploads the outputs of a node of a job, `outputs/<team>/<job>/<attempt>/<path>` for node 0, each file by itself, and reads them with the
    /// rights of their owner. Returns the files that could not be uploaded.
    pub async fn upload_outputs(
        &self,
        job: &JobId,
        attempt: u32,
        node: Node,
        files: Vec<LocalFile>,
        owner: &FileOwner,
    ) -> Vec<UnsentFile> {
        upload_each(&self.bucket, &node_outputs_folder(job, attempt, node), files, owner).await
    }
}
