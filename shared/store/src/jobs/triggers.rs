//! Triggers: the documents of teams, and beside each a small state of Curfew's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::backlog::folder_below;
use jobs::inbox::submission_key;
use jobs::keys::{active_name_prefix, team_and_job};
use jobs::trigger::{FOLDER_MAX, TRIGGERS, TriggerListing, TriggerObject, schedules_folder, state_key};
use jobs::{JobId, JobName, JobSpec, ScheduleState, TriggerState, TriggeredDocument, WorkdirDigest};
use model::id::TeamName;
use model::listing::ListedObject;

use super::{TOML, workdir};
use crate::bucket::{ListDepth, WriteCondition};
use crate::document::StoredDocument;
use crate::{Store, StoreError, TriggerDocuments, Versioned};

/// One folder adds two at most.
const LISTS_MAX: usize = 100;

impl StoredDocument for TriggerState {
    const IF_LOST: &'static str = "the jobs of the day are counted anew, and what waits for quiet is forgotten";
}

impl StoredDocument for ScheduleState {
    const IF_LOST: &'static str =
        "moments of the last hour may make their jobs again, and earlier ones are not counted as missed";
}

impl TriggerDocuments for Store {
    async fn list_triggers(&self) -> Result<TriggerListing, StoreError> {
        let (mut folders, mut after) = (BTreeMap::<String, Vec<ListedObject>>::new(), None);
        for _ in 0..LISTS_MAX {
            let page = self.bucket.list_part(TRIGGERS, ListDepth::All, after.as_deref(), 1).await?;
            for one in page.items {
                folders.entry(folder_below(TRIGGERS, &one.key).to_owned()).or_default().push(one);
            }
            // It would begin anew with the first key.
            let Some(last) = page.stopped_at.filter(|last| !last.is_empty()) else {
                return Ok(TriggerListing::from_folders(folders));
            };
            let folder = folder_below(TRIGGERS, &last);
            let is_cut_off = folder != TRIGGERS && folders.get(folder).is_some_and(|all| all.len() > FOLDER_MAX);
            after = Some(if is_cut_off { key_after(folder) } else { last });
        }
        Err(StoreError::TooMany { address: self.bucket.address(TRIGGERS), keys_max: LISTS_MAX * FOLDER_MAX })
    }

    async fn read_trigger(&self, key: &str) -> Result<Option<Result<Vec<u8>, usize>>, StoreError> {
        Ok(self.bucket.find(key, JobSpec::BYTES_MAX).await?.map(|found| found.bytes))
    }

    async fn read_trigger_state(
        &self,
        trigger: &str,
    ) -> Result<(Versioned<TriggerState>, Option<StoreError>), StoreError> {
        self.read_small_state(trigger).await
    }

    async fn write_trigger_state(
        &self,
        trigger: &str,
        state: &TriggerState,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write(&state_key(trigger), state, last).await
    }

    async fn read_schedule_state(
        &self,
        schedule: &str,
    ) -> Result<(Versioned<ScheduleState>, Option<StoreError>), StoreError> {
        self.read_small_state(schedule).await
    }

    async fn write_schedule_state(
        &self,
        schedule: &str,
        state: &ScheduleState,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write(&state_key(schedule), state, last).await
    }

    async fn unfinished_named(&self, team: &TeamName, name: &JobName) -> Result<Vec<JobId>, StoreError> {
        let listed = self.bucket.list(&active_name_prefix(team, name), usize::MAX).await?;
        Ok(listed.iter().filter_map(|object| team_and_job(object.key.strip_prefix("active/")?)).collect())
    }

    async fn submit_triggered(&self, team: &TeamName, document: &TriggeredDocument) -> Result<(), StoreError> {
        let Ok(name) = JobName::read(&document.name) else { return Ok(()) };
        let (key, text) = (submission_key(team, &name), document.text.as_bytes().to_vec());
        match self.bucket.put_as(TOML, &key, text, WriteCondition::StillAt(None)).await {
            Ok(_) | Err(StoreError::Lost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn workdir_uploaded_at(
        &self,
        team: &TeamName,
        digest: &WorkdirDigest,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.bucket.listed_at(&workdir::key(team, digest)).await
    }
}

impl Store {
    /// The state beside the document of a trigger or a schedule, and its damage.
    async fn read_small_state<T: StoredDocument>(
        &self,
        document: &str,
    ) -> Result<(Versioned<T>, Option<StoreError>), StoreError> {
        let (read, etag) = self.read_as_it_is(&state_key(document)).await?;
        let (value, damage) = match read {
            Ok(value) => (value, None),
            Err(damage) if damage.is_unreadable() => (T::default(), Some(damage)),
            Err(error) => return Err(error),
        };
        Ok((Versioned { value, etag }, damage))
    }

    /// Puts the document of a trigger or a schedule at its key. Returns `true` if it replaced an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn put_trigger(&self, key: &str, text: &[u8]) -> Result<bool, StoreError> {
        // Listed, because those who submit need not be allowed to read it.
        let is_replaced = self.bucket.listed_at(key).await?.is_some();
        self.bucket.put_as(TOML, key, text.to_vec(), WriteCondition::None).await?;
        Ok(is_replaced)
    }

    /// Lists the schedules of a team, in order of their names. What is deeper in their folder is none.
    ///
    /// # Errors
    /// If S3 refused, or there are more than 1,000 objects.
    pub async fn list_schedules(&self, team: &TeamName) -> Result<Vec<TriggerObject>, StoreError> {
        let folder = schedules_folder(team);
        let listed = self.bucket.list(&folder, FOLDER_MAX).await?;
        let mut schedules = TriggerListing::from_folders(BTreeMap::from([(folder, listed)])).triggers;
        schedules.retain(|one| one.team.is_some());
        Ok(schedules)
    }

    /// Deletes the document of a schedule. Its state stays, so that a schedule of that name repeats no moment.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn delete_schedule(&self, key: &str) -> Result<(), StoreError> {
        self.bucket.delete(key).await
    }
}

/// Key after all keys of a folder, and before those of the next.
fn key_after(folder: &str) -> String {
    // `0` is the character after `/`.
    format!("{}0", folder.strip_suffix('/').unwrap_or(folder))
}
