//! Jobs: what teams drop into the inbox, what the reconciler writes of a job, and what its agent leaves behind.
//!
//! `jobs/<team>/<job>/state.json` is the reconciler's, and written only over the version that it read. `head.json`, the heartbeat, the exit
//! record and the log are the agent's, and only read here. `active/<team>/<job>` is an index of the jobs that are not finished: it says
//! nothing but a name, and can be made anew from `jobs/`.

mod agent;
mod inbox;
mod keys;

use domain::id::TeamName;
use domain::job::{Cancel, Exit, Head, Heartbeat, Job, JobId};
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use crate::bucket::{Condition, Object};
use crate::document::{read, stamped};
use crate::{BYTES_MAX, Store, StoreError, Versioned};

pub use inbox::{Answers, Inboxed, Submission, Submitted, submission_key};
pub use keys::job_of_key;
use keys::{Of, active_key, jobs_folder, key, team_and_job};

/// The most jobs that are unfinished at once, and that are listed of a team: far more than an account's quotas let run.
const JOBS_MAX: usize = 10_000;

const TOML: &str = "application/toml";
const BINARY: &str = "application/octet-stream";

const IF_STATE_IS_LOST: &str =
    "Curfew then forgets the job: first end its instances, which carry the tag curfew:job, and submit it again";
const IF_HEAD_IS_LOST: &str = "the job then begins anew, from no checkpoint";
const IF_LEFT_BEHIND_IS_LOST: &str = "its agent writes it again, while it runs";
const IF_CANCEL_IS_LOST: &str = "the job then goes on";

/// One beat of the heart of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Beat {
    /// When, by S3's clock, to the second.
    pub at: Timestamp,
    /// What it said. It beats whatever that is: a document that is none of Curfew's is no silence.
    pub said: Result<Heartbeat, StoreError>,
}

impl Store {
    /// Where a job stands; `None` where there is no such job.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_job(&self, job: &JobId) -> Result<Versioned<Option<Job>>, StoreError> {
        let key = key(job, Of::State);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else {
            return Ok(Versioned { value: None, etag: None });
        };
        let value = read(&object.bytes, &self.bucket.address(&key), IF_STATE_IS_LOST)?;
        Ok(Versioned { value: Some(value), etag: object.etag })
    }

    /// Writes where a job stands over the object whose `ETag` was `last`; `None` where there was none. The new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn write_job(&self, job: &Job, last: Option<&str>) -> Result<Option<String>, StoreError> {
        let key = key(&job.job, Of::State);
        let bytes = stamped(job, &self.bucket.address(&key))?;
        Ok(self.bucket.put(&key, bytes, Condition::StillAt(last)).await?.etag)
    }

    /// Writes where a job stands that was just accepted, if nothing is written of it yet; whether nothing was.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn begin_job(&self, job: &Job) -> Result<bool, StoreError> {
        match self.write_job(job, None).await {
            Ok(_) => Ok(true),
            Err(StoreError::Lost { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps what a job was asked for by, as it was written, if nothing is kept yet. It never changes.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn keep_spec(&self, job: &JobId, text: &[u8]) -> Result<(), StoreError> {
        self.put_if_absent(TOML, &key(job, Of::Spec), text.to_vec()).await
    }

    /// What a job was asked for by; `None` where there is no such job.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_spec(&self, job: &JobId) -> Result<Option<String>, StoreError> {
        let object = self.bucket.get(&key(job, Of::Spec), BYTES_MAX).await?;
        Ok(object.map(|object| String::from_utf8_lossy(&object.bytes).into_owned()))
    }

    /// The fence: which attempt may write, the newest whole checkpoint, and the result; `None` as long as no agent has run.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_head(&self, job: &JobId) -> Result<Option<Head>, StoreError> {
        self.left_behind(&key(job, Of::Head), IF_HEAD_IS_LOST).await
    }

    /// When the heart of an attempt last beat, and what it said; `None` where it never has.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_heartbeat(&self, job: &JobId, attempt: u32) -> Result<Option<Beat>, StoreError> {
        let key = key(job, Of::Heartbeat(attempt));
        let object = self.bucket.get(&key, BYTES_MAX).await?;
        Ok(object.map(|object| Beat {
            at: object.written_at,
            said: read(&object.bytes, &self.bucket.address(&key), IF_LEFT_BEHIND_IS_LOST),
        }))
    }

    /// What the agent of an attempt left behind as its last; `None` where it has not ended.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_exit(&self, job: &JobId, attempt: u32) -> Result<Option<Exit>, StoreError> {
        self.left_behind(&key(job, Of::Exit(attempt)), IF_LEFT_BEHIND_IS_LOST).await
    }

    /// The end of an attempt's log, as its agent last uploaded it; `None` where it never did.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_log(&self, job: &JobId, attempt: u32) -> Result<Option<Vec<u8>>, StoreError> {
        let object = self.bucket.get(&key(job, Of::Log(attempt)), BYTES_MAX).await?;
        Ok(object.map(|object| object.bytes))
    }

    /// Whether a person wants a job to end; `None` where nobody does.
    ///
    /// # Errors
    /// Where S3 refused, or the document is none of Curfew's.
    pub async fn read_cancel(&self, job: &JobId) -> Result<Option<Cancel>, StoreError> {
        self.left_behind(&key(job, Of::Cancel), IF_CANCEL_IS_LOST).await
    }

    /// Says that a person wants a job to end. Whoever said so first, did.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn cancel(&self, job: &JobId, cancel: &Cancel) -> Result<(), StoreError> {
        let key = key(job, Of::Cancel);
        let bytes = stamped(cancel, &self.bucket.address(&key))?;
        self.put_if_absent("application/json", &key, bytes).await
    }

    /// The jobs that are not finished, in order.
    ///
    /// # Errors
    /// Where S3 refused, or there are more than anybody can have.
    pub async fn active(&self) -> Result<Vec<JobId>, StoreError> {
        let listed = self.bucket.list("active/", JOBS_MAX).await?;
        let job_of = |key: &str| team_and_job(key.strip_prefix("active/")?);
        Ok(listed.iter().filter_map(|object| job_of(&object.key)).collect())
    }

    /// Puts a job on the index of those that are not finished.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn remember_active(&self, job: &JobId) -> Result<(), StoreError> {
        self.bucket.put(&active_key(job), b"{\"schema\":1}".to_vec(), Condition::None).await.map(drop)
    }

    /// Takes a job off that index.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn forget_active(&self, job: &JobId) -> Result<(), StoreError> {
        self.bucket.delete(&active_key(job)).await
    }

    /// Whether a job, `<team>/<job>`, is unfinished. What names no job is not.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn is_active(&self, job: &str) -> Result<bool, StoreError> {
        let Ok(job) = JobId::read(job) else { return Ok(false) };
        match self.bucket.get(&active_key(&job), BYTES_MAX).await {
            Ok(object) => Ok(object.is_some()),
            Err(StoreError::TooLarge { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Every job that there is, finished or not, of one team or of all, in order.
    ///
    /// # Errors
    /// Where S3 refused, or there are more than anybody reads through.
    pub async fn jobs(&self, team: Option<&TeamName>) -> Result<Vec<JobId>, StoreError> {
        let teams = match team {
            Some(team) => vec![jobs_folder(team)],
            None => self.bucket.folders("jobs/", JOBS_MAX).await?,
        };
        let mut all = Vec::new();
        for team in teams {
            let folders = self.bucket.folders(&team, JOBS_MAX).await?;
            all.extend(folders.iter().filter_map(|folder| job_of_key(folder)));
        }
        Ok(all)
    }

    /// Keeps an agent under its SHA-256, in hex, if it is not kept yet.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn keep_agent(&self, sha256: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let key = format!("agent/{sha256}");
        if self.bucket.has(&key).await? {
            return Ok(());
        }
        self.put_if_absent(BINARY, &key, bytes.to_vec()).await
    }

    async fn put_if_absent(&self, media_type: &str, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        match self.bucket.put_as(media_type, key, bytes, Condition::StillAt(None)).await {
            Ok(_) | Err(StoreError::Lost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn left_behind<T: DeserializeOwned>(
        &self,
        key: &str,
        if_lost: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let object: Option<Object> = self.bucket.get(key, BYTES_MAX).await?;
        object.map(|object| read(&object.bytes, &self.bucket.address(key), if_lost)).transpose()
    }
}
