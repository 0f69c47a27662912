//! Documents of jobs: their states, what their machines write, and the index of unfinished jobs.

use jiff::Timestamp;
use jobs::boxes::{ExtendRequest, GpuBox};
use jobs::node_gang::{GangLaunch, GangListing, Node};
use jobs::takeover::Takeover;
use jobs::{CancelRequest, DependencyState, ExitRecord, Head, Heartbeat, Job, JobId, JobSpec, JobTerms, SpecMistake};
use model::id::TeamName;

use crate::{StoreError, Versioned};

/// Documents about jobs that the reapers read.
pub trait JobDocuments {
    /// State of a job. `None` if there is no such job.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    async fn read_job(&self, job: &JobId) -> Result<Versioned<Option<Job>>, StoreError>;

    /// Returns `true` if a job, `<team>/<job>`, is unfinished; `false` if the text names no job.
    async fn is_active(&self, job: &str) -> Result<bool, StoreError>;
}

/// A document of a job's machine. Its programs can write anything, so a document that cannot be trusted counts as absent.
#[derive(Debug, Clone, PartialEq)]
pub enum MachineDocument<T> {
    /// No document.
    Absent,
    /// Too large, not Curfew's, at the wrong address, or impossible. Curfew notifies the owner.
    Refused(StoreError),
    /// Trusted, with texts that may be shown.
    Believed(T),
}

impl<T> MachineDocument<T> {
    /// Splits it into the trusted value and the error.
    #[must_use]
    pub fn into_parts(self) -> (Option<T>, Option<StoreError>) {
        match self {
            Self::Absent => (None, None),
            Self::Refused(why) => (None, Some(why)),
            Self::Believed(value) => (Some(value), None),
        }
    }
}

/// One heartbeat of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedHeartbeat {
    /// Time of the write by S3's clock, to the second.
    pub at: Timestamp,
    /// The content.
    pub heartbeat: Heartbeat,
}

/// Documents that the machines of a job write.
pub trait MachineDocuments {
    /// The fence: which attempt may write, the newest complete checkpoint, and the result.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_head(&self, job: &JobId) -> Result<MachineDocument<Head>, StoreError>;

    /// The last heartbeat of an attempt.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_heartbeat(&self, job: &JobId, attempt: u32)
    -> Result<MachineDocument<ReceivedHeartbeat>, StoreError>;

    /// The exit record of an attempt; absent until it has ended.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_exit(&self, job: &JobId, attempt: u32) -> Result<MachineDocument<ExitRecord>, StoreError>;

    /// The documents of the members of a gang, by one LIST; what `known` has of them is not read again.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_gang(&self, gang: &GangLaunch, known: &GangListing) -> Result<GangListing, StoreError>;

    /// The last heartbeat of a node of a gang.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_node_heartbeat(
        &self,
        gang: &GangLaunch,
        node: Node,
    ) -> Result<MachineDocument<ReceivedHeartbeat>, StoreError>;

    /// The mistakes of a legal document in the jobs and sweeps that it names: `after`, of which `look` says how far each is, and `resume_from`.
    ///
    /// # Errors
    /// If S3 refused, or a document is not Curfew's.
    async fn find_reference_mistakes(
        &self,
        team: &TeamName,
        after: &[String],
        terms: &JobTerms,
        document: &[u8],
        look: impl AsyncFn(JobId) -> Result<DependencyState, StoreError>,
    ) -> Result<Vec<SpecMistake>, StoreError> {
        let mut obstacles = Vec::new();
        for (index, name) in after.iter().enumerate() {
            let job = JobId { team: team.clone(), job: name.clone() };
            obstacles.extend(look(job).await?.obstacle().map(|obstacle| (index, obstacle)));
        }
        if !obstacles.is_empty() {
            return Ok(JobSpec::refuse_after(document, &obstacles));
        }
        let Some(job) = terms.resume_from(team) else { return Ok(Vec::new()) };
        let head = self.read_head(&job).await?;
        let has_checkpoint = matches!(head, MachineDocument::Believed(Head { checkpoint: Some(_), .. }));
        Ok(if has_checkpoint { Vec::new() } else { JobSpec::refuse_resume_from(document) })
    }
}

/// Documents of jobs that only the run about jobs writes, and what it reads besides.
pub trait ReconcilerDocuments: JobDocuments + MachineDocuments {
    /// The bucket's name.
    fn bucket_name(&self) -> &str;

    /// The takeover of the bucket from a copy; `None` if the first stack acts.
    ///
    /// # Errors
    /// If S3 refused, or the record is damaged.
    async fn read_takeover(&self) -> Result<Option<Takeover>, StoreError>;

    /// Writes the state of a job over the object with the `ETag` `last`; `None` if there was none. Returns the new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn write_job(&self, job: &Job, last: Option<&str>) -> Result<Option<String>, StoreError>;

    /// Writes the state of a new job, if there is none yet; returns whether there was none. An existing state must be of this job.
    ///
    /// # Errors
    /// If S3 refused, or the object is not Curfew's.
    async fn begin_job(&self, job: &Job) -> Result<bool, StoreError> {
        let lost = match self.write_job(job, None).await {
            Ok(_) => return Ok(true),
            Err(error @ StoreError::Lost { .. }) => error,
            Err(error) => return Err(error),
        };
        match self.read_job(&job.job).await?.value {
            Some(_) => Ok(false),
            None => Err(lost),
        }
    }

    /// Stores the submitted document of a job. It never changes.
    ///
    /// # Errors
    /// [`StoreError::OtherContent`] if another document is stored; otherwise if S3 refused.
    async fn keep_spec(&self, job: &JobId, text: &[u8]) -> Result<(), StoreError>;

    /// A person's request to cancel a job; `None` if there is none.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    async fn read_cancel(&self, job: &JobId) -> Result<Option<CancelRequest>, StoreError>;

    /// A person's request to extend a box; `None` if there is none.
    ///
    /// # Errors
    /// As [`ReconcilerDocuments::read_cancel`].
    async fn read_extend(&self, job: &JobId) -> Result<Option<ExtendRequest>, StoreError>;

    /// The names of a team's boxes, in order.
    ///
    /// # Errors
    /// If S3 refused.
    async fn boxes_of_team(&self, team: &TeamName) -> Result<Vec<String>, StoreError>;

    /// A box of a team.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    async fn read_box(&self, team: &TeamName, name: &str) -> Result<Versioned<Option<GpuBox>>, StoreError>;

    /// Writes a box over the object with the `ETag` `last`; `None` if there was none. Returns the new `ETag`.
    ///
    /// # Errors
    /// As [`ReconcilerDocuments::write_job`].
    async fn write_box(
        &self,
        team: &TeamName,
        gpu_box: &GpuBox,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError>;

    /// Deletes the document of a box.
    ///
    /// # Errors
    /// If S3 refused.
    async fn forget_box(&self, team: &TeamName, name: &str) -> Result<(), StoreError>;

    /// Adds a job to the index of unfinished jobs.
    ///
    /// # Errors
    /// If S3 refused.
    async fn remember_active(&self, job: &JobId) -> Result<(), StoreError>;

    /// Removes a job from that index.
    ///
    /// # Errors
    /// If S3 refused.
    async fn forget_active(&self, job: &JobId) -> Result<(), StoreError>;

    /// Every team with any accepted job, in order.
    ///
    /// # Errors
    /// If S3 refused.
    async fn teams_with_jobs(&self) -> Result<Vec<TeamName>, StoreError>;

    /// Stores an agent under its SHA-256, in hex. If S3 has another object there, it is overwritten, because only that agent has this name.
    ///
    /// # Errors
    /// If S3 refused.
    async fn keep_agent(&self, sha256: &str, bytes: &[u8]) -> Result<(), StoreError>;
}
