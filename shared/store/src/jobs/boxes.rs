//! Boxes, and what a person asks of one.

use jobs::JobId;
use jobs::boxes::{BOXES, ExtendRequest, box_of_key};
use jobs::keys::{JobDocument, document_key};
use model::id::TeamName;
use model::team_folder::team_folder;

use crate::bucket::WriteCondition;
use crate::document::stamped;
use crate::{Store, StoreError};

impl Store {
    /// Lists the boxes of one team or of all, in order.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn boxes(&self, team: Option<&TeamName>) -> Result<Vec<(TeamName, String)>, StoreError> {
        let prefix = team.map_or_else(|| BOXES.to_owned(), |team| format!("{BOXES}{}/", team_folder(team)));
        let listed = self.bucket.list(&prefix, usize::MAX).await?;
        Ok(listed.iter().filter_map(|object| box_of_key(&object.key)).collect())
    }

    /// Requests that a box does not end before a time. A later request takes the place of an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn extend(&self, job: &JobId, request: &ExtendRequest) -> Result<(), StoreError> {
        let key = document_key(job, JobDocument::Extend);
        let bytes = stamped(request, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }
}
