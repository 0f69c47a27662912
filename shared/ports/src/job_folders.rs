//! The folders of the bucket from which jobs come: the inbox, sweeps, triggers, and the lists of each team's folder.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use jobs::backlog::{Backlog, Bookmarks};
use jobs::inbox::{InboxAnswers, Submission};
use jobs::trigger::TriggerListing;
use jobs::{
    DependencyState, InboxAnswer, JobId, JobName, JobResult, ScheduleState, Sweep, TriggerState, TriggeredDocument,
    WorkdirDigest,
};
use model::id::{RunId, TeamName};
use model::listing::{ListPart, ListedObject};

use crate::{JobDocuments, StoreError, Versioned};

/// Members of a sweep that are read at once.
const MEMBERS_AT_ONCE: usize = 8;

/// The inbox: documents of teams, and the answers to them.
pub trait InboxDocuments {
    /// One document of the inbox; `None` if there is none at that key, or the key is of another kind.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_submission(&self, key: &str) -> Result<Option<Submission>, StoreError>;

    /// The answers to a document of the inbox.
    ///
    /// # Errors
    /// If S3 refused, or an answer is not Curfew's.
    async fn read_answers(&self, submission: &str) -> Result<InboxAnswers, StoreError>;

    /// Returns `true` if a document is there and has no answer, so that a job may still come of it. The bucket deletes documents and answers after
    /// a month, and people may delete them before: none comes of a document that is gone.
    ///
    /// # Errors
    /// As [`read_submission`](Self::read_submission) and [`read_answers`](Self::read_answers).
    async fn awaits_answer(&self, key: &str) -> Result<bool, StoreError> {
        let Some(submission) = self.read_submission(key).await? else { return Ok(false) };
        Ok(self.read_answers(key).await?.to(&submission.object).is_none())
    }

    /// Answers a document of the inbox: accepted if the answer names a job, otherwise rejected.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_answer(&self, submission: &str, answer: &InboxAnswer) -> Result<(), StoreError>;

    /// Deletes an outdated answer, if it is still that one.
    ///
    /// # Errors
    /// As [`InboxDocuments::read_answers`].
    async fn forget_answer(&self, submission: &str, outdated: &InboxAnswer) -> Result<(), StoreError>;
}

/// The lists of the top folders in which each team has a folder, and where runs stopped in them.
pub trait BacklogDocuments {
    /// Everything under a top folder, in order; `None` if that is more than one list.
    ///
    /// # Errors
    /// If S3 refused.
    async fn list_backlog(&self, backlog: Backlog) -> Result<Option<Vec<ListedObject>>, StoreError>;

    /// The folders directly under a top folder, from that one on.
    ///
    /// # Errors
    /// If S3 refused.
    async fn list_team_folders(&self, backlog: Backlog, after: Option<&str>) -> Result<ListPart<String>, StoreError>;

    /// The objects in the folder of a team, or directly in the top folder, from that key on.
    ///
    /// # Errors
    /// If S3 refused.
    async fn list_team_part(
        &self,
        backlog: Backlog,
        folder: &str,
        after: Option<&str>,
    ) -> Result<ListPart<ListedObject>, StoreError>;

    /// The bookmarks of earlier runs.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_bookmarks(&self, function: &str) -> Result<Versioned<Bookmarks>, StoreError>;

    /// Writes the bookmarks of this run. If another run was faster, its bookmarks are as good.
    ///
    /// # Errors
    /// If S3 refused.
    async fn write_bookmarks(&self, function: &str, bookmarks: &Versioned<Bookmarks>) -> Result<(), StoreError>;
}

/// Sweeps, and their entries on the index of unfinished jobs.
pub trait SweepDocuments: JobDocuments {
    /// A sweep; `None` if there is none of that name.
    ///
    /// # Errors
    /// If S3 refused, or the document is not Curfew's.
    async fn read_sweep(&self, sweep: &JobId) -> Result<Option<Sweep>, StoreError>;

    /// Stores a new sweep with its document, unless it is there. Returns the one that is there then, and whether it is new: its members follow
    /// from the first that was written.
    ///
    /// # Errors
    /// If S3 refused, or an object that is there is another one.
    async fn begin_sweep(&self, sweep: &Sweep, text: &[u8]) -> Result<(Sweep, bool), StoreError>;

    /// Reads the state of a job or a sweep that another job comes after. The members of a sweep are read up to the first that has not
    /// succeeded.
    ///
    /// # Errors
    /// If S3 refused, or a document is not Curfew's.
    async fn read_dependency(&self, id: &JobId) -> Result<DependencyState, StoreError> {
        if let Some(job) = self.read_job(id).await?.value {
            return Ok(DependencyState::from_job(Some(&job)));
        }
        let Some(sweep) = self.read_sweep(id).await? else { return Ok(DependencyState::Absent) };
        let reads = stream::iter(sweep.numbers()).map(|number| async move {
            let member = self.read_job(&id.member(number)).await?.value;
            Ok::<_, StoreError>(DependencyState::from_member(number, member.as_ref()))
        });
        let mut states = std::pin::pin!(reads.buffered(MEMBERS_AT_ONCE));
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
    async fn remember_sweep(&self, sweep: &JobId, run: &RunId) -> Result<Option<Timestamp>, StoreError>;

    /// Returns `true` if a sweep is on that index.
    ///
    /// # Errors
    /// If S3 refused.
    async fn is_remembered(&self, sweep: &JobId) -> Result<bool, StoreError>;

    /// Removes a sweep from that index.
    ///
    /// # Errors
    /// If S3 refused.
    async fn forget_sweep(&self, sweep: &JobId) -> Result<(), StoreError>;

    /// The numbers of the members that are on that index.
    ///
    /// # Errors
    /// If S3 refused.
    async fn unfinished_members(&self, sweep: &JobId) -> Result<BTreeSet<u32>, StoreError>;
}

/// Triggers: the documents of teams, and beside each a small state of Curfew's.
pub trait TriggerDocuments {
    /// Lists all triggers. A team with more than 1,000 objects has those among the first 1,000 listed, so that no team's folder hides
    /// another's.
    ///
    /// # Errors
    /// If S3 refused, or there are more than 100,000 objects besides those that are left out.
    async fn list_triggers(&self) -> Result<TriggerListing, StoreError>;

    /// A trigger's document, or its size in bytes if that exceeds the limit; `None` if there is none.
    ///
    /// # Errors
    /// If S3 refused.
    async fn read_trigger(&self, key: &str) -> Result<Option<Result<Vec<u8>, usize>>, StoreError>;

    /// The state of a trigger, and its damage: one that cannot be understood counts as lost, and the next write replaces it.
    ///
    /// # Errors
    /// If S3 refused, or another version of Curfew wrote it.
    async fn read_trigger_state(
        &self,
        trigger: &str,
    ) -> Result<(Versioned<TriggerState>, Option<StoreError>), StoreError>;

    /// Writes the state of a trigger over the version that was read. Returns the new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn write_trigger_state(
        &self,
        trigger: &str,
        state: &TriggerState,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError>;

    /// The state of a schedule, and its damage, as [`read_trigger_state`](Self::read_trigger_state).
    ///
    /// # Errors
    /// If S3 refused, or another version of Curfew wrote it.
    async fn read_schedule_state(
        &self,
        schedule: &str,
    ) -> Result<(Versioned<ScheduleState>, Option<StoreError>), StoreError>;

    /// Writes the state of a schedule over the version that was read. Returns the new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    async fn write_schedule_state(
        &self,
        schedule: &str,
        state: &ScheduleState,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError>;

    /// The unfinished jobs of a team that may have this name, with the members of a sweep.
    ///
    /// # Errors
    /// If S3 refused.
    async fn unfinished_named(&self, team: &TeamName, name: &JobName) -> Result<Vec<JobId>, StoreError>;

    /// Puts a document that a trigger or a schedule made into the inbox, unless one of that name is there: it is of the same object or moment.
    ///
    /// # Errors
    /// If S3 refused.
    async fn submit_triggered(&self, team: &TeamName, document: &TriggeredDocument) -> Result<(), StoreError>;

    /// Time of the upload of an archive; `None` if the bucket does not have it. Listed, because no function may read one.
    ///
    /// # Errors
    /// If S3 refused.
    async fn workdir_uploaded_at(
        &self,
        team: &TeamName,
        digest: &WorkdirDigest,
    ) -> Result<Option<Timestamp>, StoreError>;
}
