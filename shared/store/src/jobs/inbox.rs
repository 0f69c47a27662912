//! The documents of the inbox, and the answers to them.

use jobs::inbox::{AnswerKind, InboxAnswers, Submission, answer_key, submission_key};
use jobs::{InboxAnswer, JobId, JobName, JobSpec};
use model::id::TeamName;

use super::TOML;
use crate::bucket::{FoundObject, ObjectVersion, WriteCondition};
use crate::document::{is_at_home, stamped};
use crate::{InboxDocuments, Store, StoreError};

const IF_ANSWER_IS_LOST: &str = "it is answered again";

/// A newly submitted document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedSpec {
    pub key: String,
    /// Its version; in a bucket without versions its `ETag`: its answer will name it.
    pub object: String,
}

impl InboxDocuments for Store {
    async fn read_submission(&self, key: &str) -> Result<Option<Submission>, StoreError> {
        let Some(submission) = Submission::from_key(key) else { return Ok(None) };
        let Some(FoundObject { bytes, by, .. }) = self.bucket.find(key, JobSpec::BYTES_MAX).await? else {
            return Ok(None);
        };
        let object = version_or_etag(by.version, by.etag);
        Ok(Some(Submission { object, bytes, ..submission }))
    }

    async fn read_answers(&self, submission: &str) -> Result<InboxAnswers, StoreError> {
        let team = Submission::from_key(submission).and_then(|submission| submission.team);
        let accepted =
            self.read_answer(submission, AnswerKind::Accepted, |job| job.map(|job| &job.team) == team.as_ref()).await?;
        let rejected = self.read_answer(submission, AnswerKind::Rejected, |job| job.is_none()).await?;
        Ok(InboxAnswers { accepted, rejected })
    }

    async fn write_answer(&self, submission: &str, answer: &InboxAnswer) -> Result<(), StoreError> {
        let key = answer_key(submission, AnswerKind::from_answer(answer));
        let bytes = stamped(answer, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }

    async fn forget_answer(&self, submission: &str, outdated: &InboxAnswer) -> Result<(), StoreError> {
        let key = answer_key(submission, AnswerKind::from_answer(outdated));
        let there: Option<InboxAnswer> = self.left_behind(&key, IF_ANSWER_IS_LOST).await?;
        if there.as_ref() == Some(outdated) { self.bucket.delete(&key).await } else { Ok(()) }
    }
}

impl Store {
    /// Puts a document into a team's folder of the inbox.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn submit(&self, team: &TeamName, name: &JobName, text: &str) -> Result<SubmittedSpec, StoreError> {
        let key = submission_key(team, name);
        let put = self.bucket.put_as(TOML, &key, text.as_bytes().to_vec(), WriteCondition::None).await;
        put.map(|ObjectVersion { etag, version }| SubmittedSpec { object: version_or_etag(version, etag), key })
    }

    /// An answer, if its job may have one there: submitters of a team may write anything into its folder of the inbox.
    async fn read_answer(
        &self,
        submission: &str,
        kind: AnswerKind,
        is_at_its_place: impl Fn(Option<&JobId>) -> bool,
    ) -> Result<Option<InboxAnswer>, StoreError> {
        let key = answer_key(submission, kind);
        let answer: Option<InboxAnswer> = self.left_behind(&key, IF_ANSWER_IS_LOST).await?;
        if let Some(InboxAnswer { job, .. }) = &answer {
            let says = job.as_ref().map_or_else(|| "no job".to_owned(), ToString::to_string);
            is_at_home(is_at_its_place(job.as_ref()), says, &self.bucket.address(&key), IF_ANSWER_IS_LOST)?;
        }
        Ok(answer)
    }
}

fn version_or_etag(version: Option<String>, etag: Option<String>) -> String {
    version.or(etag).unwrap_or_default()
}
