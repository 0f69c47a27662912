//! Jobs: the inbox of teams, the documents of the reconciler, and those of the agent.
//!
//! `jobs/<team>/<job>/state.json` is the reconciler's, and written only over the version that it read. Under `attempts/` are head,
//! heartbeat, exit record and log: the agent writes them, and they are only read here. `active/<team>/<job>` is an index of the unfinished
//! jobs: it has only names, and can be made anew from `jobs/`.

mod agent;
mod backlog;
mod boxes;
mod gang;
mod inbox;
mod log;
mod sweeps;
mod triggers;
mod workdir;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use jobs::boxes::{ExtendRequest, GpuBox, box_key};
use jobs::keys::{JobDocument, active_key, document_key, job_of_key, jobs_folder, team_and_job, team_of_folder};
use jobs::node_gang::{GangDocument, GangLaunch, GangListing, Node};
use jobs::takeover::Takeover;
use jobs::{CancelRequest, ExitRecord, Head, Heartbeat, Job, JobId, MACHINE_DOCUMENT_BYTES_MAX};
use model::fault::InvalidValue;
use model::id::TeamName;
use serde::de::DeserializeOwned;

use crate::bucket::{FoundObject, Payload, StoredObject, WriteCondition};
use crate::document::{is_at_home, read, stamped};
use crate::{
    BYTES_MAX, JobDocuments, MachineDocument, MachineDocuments, ReceivedHeartbeat, ReconcilerDocuments, Store,
    StoreError, Versioned,
};

pub use inbox::SubmittedSpec;
pub use log::{LOG_PARTS_MAX, LogName, LogPart, LogTail};

/// The largest `cancel.json`, and answer of the inbox, in bytes: an answer names each mistake of a spec of at most 64 KiB.
const SMALL_BYTES_MAX: usize = 1024 * 1024;

/// Time for which a job counts as followed after the command said so. The command says so every minute.
const FOLLOWED_FOR: SignedDuration = SignedDuration::from_mins(3);

const TOML: &str = "application/toml";

const IF_STATE_IS_LOST: &str =
    "Curfew then forgets the job: first terminate its instances, which have the tag curfew:job, and submit it again";
const IF_HEAD_IS_LOST: &str = "the job then begins anew, from no checkpoint";
const IF_LEFT_BEHIND_IS_LOST: &str = "its agent writes it again, while it runs";
const IF_CANCEL_IS_LOST: &str = "the job then runs on";
const IF_EXTEND_IS_LOST: &str = "the box then ends when it was to";
const IF_BOX_IS_LOST: &str =
    "Curfew then forgets its home: the volume and its snapshots have the tag curfew:box, and nobody deletes them";

impl JobDocuments for Store {
    async fn read_job(&self, job: &JobId) -> Result<Versioned<Option<Job>>, StoreError> {
        let key = document_key(job, JobDocument::State);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else {
            return Ok(Versioned { value: None, etag: None });
        };
        let address = self.bucket.address(&key);
        let value: Job = read(&object.bytes, &address, IF_STATE_IS_LOST)?;
        is_at_home(value.job == *job, &value.job, &address, IF_STATE_IS_LOST)?;
        Ok(Versioned { value: Some(value), etag: object.etag })
    }

    async fn is_active(&self, job: &str) -> Result<bool, StoreError> {
        let Ok(job) = JobId::read(job) else { return Ok(false) };
        match self.bucket.get(&active_key(&job), BYTES_MAX).await {
            Ok(object) => Ok(object.is_some()),
            Err(StoreError::TooLarge { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl MachineDocuments for Store {
    async fn read_head(&self, job: &JobId) -> Result<MachineDocument<Head>, StoreError> {
        let key = document_key(job, JobDocument::Head);
        let found = self.find_of_machine(&key, IF_HEAD_IS_LOST, Head::check).await?;
        Ok(found.map_or(MachineDocument::Absent, |(_, head)| believed(head.map(Head::shown))))
    }

    async fn read_heartbeat(
        &self,
        job: &JobId,
        attempt: u32,
    ) -> Result<MachineDocument<ReceivedHeartbeat>, StoreError> {
        self.find_heartbeat(&document_key(job, JobDocument::Heartbeat(attempt)), attempt).await
    }

    async fn read_exit(&self, job: &JobId, attempt: u32) -> Result<MachineDocument<ExitRecord>, StoreError> {
        let key = document_key(job, JobDocument::Exit(attempt));
        let found = self.find_of_machine(&key, IF_LEFT_BEHIND_IS_LOST, |exit: &ExitRecord| exit.check(attempt)).await?;
        Ok(found.map_or(MachineDocument::Absent, |(_, exit)| believed(exit.map(ExitRecord::shown))))
    }

    async fn read_gang(&self, gang: &GangLaunch, known: &GangListing) -> Result<GangListing, StoreError> {
        self.list_gang(gang, known).await
    }

    async fn read_node_heartbeat(
        &self,
        gang: &GangLaunch,
        node: Node,
    ) -> Result<MachineDocument<ReceivedHeartbeat>, StoreError> {
        self.find_heartbeat(&gang.key(GangDocument::Beat(node)), gang.attempt).await
    }
}

impl ReconcilerDocuments for Store {
    fn bucket_name(&self) -> &str {
        self.bucket.name()
    }

    async fn read_takeover(&self) -> Result<Option<Takeover>, StoreError> {
        let record = Box::pin(self.read_home()).await?.value;
        Ok(record.as_ref().and_then(Takeover::from_record))
    }

    async fn write_job(&self, job: &Job, last: Option<&str>) -> Result<Option<String>, StoreError> {
        let key = document_key(&job.job, JobDocument::State);
        let bytes = stamped(job, &self.bucket.address(&key))?;
        Ok(self.bucket.put(&key, bytes, WriteCondition::StillAt(last)).await?.etag)
    }

    async fn keep_spec(&self, job: &JobId, text: &[u8]) -> Result<(), StoreError> {
        let key = document_key(job, JobDocument::Spec);
        match self.bucket.put_as(TOML, &key, text.to_vec(), WriteCondition::StillAt(None)).await {
            Ok(_) => Ok(()),
            Err(StoreError::Lost { address }) => Err(StoreError::OtherContent { address }),
            Err(error) => Err(error),
        }
    }

    async fn read_cancel(&self, job: &JobId) -> Result<Option<CancelRequest>, StoreError> {
        self.left_behind(&document_key(job, JobDocument::Cancel), IF_CANCEL_IS_LOST).await
    }

    async fn read_extend(&self, job: &JobId) -> Result<Option<ExtendRequest>, StoreError> {
        self.left_behind(&document_key(job, JobDocument::Extend), IF_EXTEND_IS_LOST).await
    }

    async fn boxes_of_team(&self, team: &TeamName) -> Result<Vec<String>, StoreError> {
        Ok(self.boxes(Some(team)).await?.into_iter().map(|(_, name)| name).collect())
    }

    async fn read_box(&self, team: &TeamName, name: &str) -> Result<Versioned<Option<GpuBox>>, StoreError> {
        let key = box_key(team, name);
        let Some(object) = self.bucket.get(&key, SMALL_BYTES_MAX).await? else {
            return Ok(Versioned { value: None, etag: None });
        };
        let address = self.bucket.address(&key);
        let value: GpuBox = read(&object.bytes, &address, IF_BOX_IS_LOST)?;
        is_at_home(value.name == format!("{team}/{name}"), &value.name, &address, IF_BOX_IS_LOST)?;
        Ok(Versioned { value: Some(value), etag: object.etag })
    }

    async fn write_box(
        &self,
        team: &TeamName,
        gpu_box: &GpuBox,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let name = gpu_box.name.rsplit('/').next().unwrap_or_default();
        let key = box_key(team, name);
        let bytes = stamped(gpu_box, &self.bucket.address(&key))?;
        Ok(self.bucket.put(&key, bytes, WriteCondition::StillAt(last)).await?.etag)
    }

    async fn forget_box(&self, team: &TeamName, name: &str) -> Result<(), StoreError> {
        self.bucket.delete(&box_key(team, name)).await
    }

    async fn remember_active(&self, job: &JobId) -> Result<(), StoreError> {
        self.bucket.put(&active_key(job), b"{\"schema\":1}".to_vec(), WriteCondition::None).await.map(drop)
    }

    async fn forget_active(&self, job: &JobId) -> Result<(), StoreError> {
        self.bucket.delete(&active_key(job)).await
    }

    async fn teams_with_jobs(&self) -> Result<Vec<TeamName>, StoreError> {
        let folders = self.bucket.folders("jobs/", usize::MAX).await?;
        Ok(folders.iter().filter_map(|folder| team_of_folder(folder)).collect())
    }

    async fn keep_agent(&self, sha256: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let key = format!("agent/{sha256}");
        let agent = Payload { bytes: Bytes::copy_from_slice(bytes), sha256: sha256.to_owned() };
        if self.bucket.read_sha256(&key).await? == Some(agent.checksum()) {
            return Ok(());
        }
        self.bucket.put_file(&key, &agent).await
    }
}

impl Store {
    /// The submitted document of a job; `None` if there is no such job.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_spec(&self, job: &JobId) -> Result<Option<String>, StoreError> {
        let object = self.bucket.get(&document_key(job, JobDocument::Spec), BYTES_MAX).await?;
        Ok(object.map(|object| String::from_utf8_lossy(&object.bytes).into_owned()))
    }

    /// Notes that somebody follows the log of a job, for `FOLLOWED_FOR`.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn mark_followed(&self, job: &JobId) -> Result<(), StoreError> {
        self.bucket.put(&document_key(job, JobDocument::Followed), b"{}".to_vec(), WriteCondition::None).await.map(drop)
    }

    /// Returns `true` if somebody follows the log of a job. The time of the object counts, and none of its content.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn is_followed(&self, job: &JobId, now: Timestamp) -> Result<bool, StoreError> {
        let marked_at = self.bucket.written_at(&document_key(job, JobDocument::Followed)).await?;
        Ok(marked_at.is_some_and(|at| now.duration_since(at) < FOLLOWED_FOR))
    }

    /// Requests to cancel a job. Returns the request in force: this one, or an earlier one.
    ///
    /// # Errors
    /// If S3 refused, or an existing document is not Curfew's.
    pub async fn cancel(&self, job: &JobId, cancel: &CancelRequest) -> Result<CancelRequest, StoreError> {
        let key = document_key(job, JobDocument::Cancel);
        let bytes = stamped(cancel, &self.bucket.address(&key))?;
        match self.bucket.put(&key, bytes, WriteCondition::StillAt(None)).await {
            Ok(_) => Ok(cancel.clone()),
            Err(lost @ StoreError::Lost { .. }) => self.read_cancel(job).await?.ok_or(lost),
            Err(error) => Err(error),
        }
    }

    /// Lists all unfinished jobs, in order.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn active(&self) -> Result<Vec<JobId>, StoreError> {
        let listed = self.bucket.list("active/", usize::MAX).await?;
        let job_of = |key: &str| team_and_job(key.strip_prefix("active/")?);
        Ok(listed.iter().filter_map(|object| job_of(&object.key)).collect())
    }

    /// Every job, finished or not, of one team or of all, in order.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn jobs(&self, team: Option<&TeamName>) -> Result<Vec<JobId>, StoreError> {
        let teams = match team {
            Some(team) => vec![jobs_folder(team)],
            None => self.bucket.folders("jobs/", usize::MAX).await?,
        };
        let mut all = Vec::new();
        for team in teams {
            let folders = self.bucket.folders(&team, usize::MAX).await?;
            all.extend(folders.iter().filter_map(|folder| job_of_key(folder)));
        }
        Ok(all)
    }

    /// A document of a machine with its time, or why it cannot be trusted; `None` if it is absent.
    async fn find_of_machine<T: DeserializeOwned>(
        &self,
        key: &str,
        if_lost: &'static str,
        check: impl Fn(&T) -> Result<(), InvalidValue>,
    ) -> Result<Option<(Timestamp, Result<T, StoreError>)>, StoreError> {
        let bytes_max = MACHINE_DOCUMENT_BYTES_MAX;
        let Some(FoundObject { bytes, written_at, .. }) = self.bucket.find(key, bytes_max).await? else {
            return Ok(None);
        };
        let address = self.bucket.address(key);
        let value = match bytes {
            Err(bytes) => Err(StoreError::TooLarge { address, bytes, bytes_max }),
            Ok(bytes) => read_checked(&bytes, address, if_lost, check),
        };
        Ok(Some((written_at, value)))
    }

    async fn find_heartbeat(&self, key: &str, attempt: u32) -> Result<MachineDocument<ReceivedHeartbeat>, StoreError> {
        let check = |beat: &Heartbeat| beat.check(attempt);
        let found = self.find_of_machine(key, IF_LEFT_BEHIND_IS_LOST, check).await?;
        let beat = |(at, heartbeat): (Timestamp, Result<Heartbeat, StoreError>)| {
            heartbeat.map(|heartbeat| ReceivedHeartbeat { at, heartbeat: heartbeat.shown() })
        };
        Ok(found.map_or(MachineDocument::Absent, |found| believed(beat(found))))
    }

    async fn left_behind<T: DeserializeOwned>(
        &self,
        key: &str,
        if_lost: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let object: Option<StoredObject> = self.bucket.get(key, SMALL_BYTES_MAX).await?;
        object.map(|object| read(&object.bytes, &self.bucket.address(key), if_lost)).transpose()
    }
}

fn read_checked<T: DeserializeOwned>(
    bytes: &[u8],
    address: String,
    if_lost: &'static str,
    check: impl Fn(&T) -> Result<(), InvalidValue>,
) -> Result<T, StoreError> {
    let value = read(bytes, &address, if_lost)?;
    match check(&value) {
        Ok(()) => Ok(value),
        Err(problem) => Err(StoreError::Unreadable { address, problem: problem.to_string(), if_lost }),
    }
}

fn believed<T>(read: Result<T, StoreError>) -> MachineDocument<T> {
    read.map_or_else(MachineDocument::Refused, MachineDocument::Believed)
}
