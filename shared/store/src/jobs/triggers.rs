//! Triggers: the documents of teams, and beside each a small state of Curfew's.

use std::collections::BTreeMap;

use jobs::backlog::folder_below;
use jobs::inbox::submission_key;
use jobs::trigger::{FOLDER_MAX, TRIGGERS, TriggerListing, state_key, trigger_key};
use jobs::{JobName, JobSpec, TriggerState, TriggeredDocument};
use model::id::TeamName;
use model::listing::ListedObject;

use super::TOML;
use crate::bucket::{ListDepth, WriteCondition};
use crate::document::StoredDocument;
use crate::{Store, StoreError, TriggerDocuments, Versioned};

/// One folder adds two at most.
const LISTS_MAX: usize = 100;

impl StoredDocument for TriggerState {
    const IF_LOST: &'static str = "the jobs of the day are counted anew, and what waits for quiet is forgotten";
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
        let (read, etag) = self.read_as_it_is(&state_key(trigger)).await?;
        let (value, damage) = match read {
            Ok(value) => (value, None),
            Err(damage) if damage.is_unreadable() => (TriggerState::default(), Some(damage)),
            Err(error) => return Err(error),
        };
        Ok((Versioned { value, etag }, damage))
    }

    async fn write_trigger_state(
        &self,
        trigger: &str,
        state: &TriggerState,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write(&state_key(trigger), state, last).await
    }

    async fn submit_triggered(&self, team: &TeamName, document: &TriggeredDocument) -> Result<(), StoreError> {
        let Ok(name) = JobName::read(&document.name) else { return Ok(()) };
        let (key, text) = (submission_key(team, &name), document.text.as_bytes().to_vec());
        match self.bucket.put_as(TOML, &key, text, WriteCondition::StillAt(None)).await {
            Ok(_) | Err(StoreError::Lost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Store {
    /// Puts a trigger's document into the folder of a team. Returns its key, and whether it replaced an earlier one.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn put_trigger(&self, team: &TeamName, name: &str, text: &[u8]) -> Result<(String, bool), StoreError> {
        let key = trigger_key(team, name);
        // Listed, because those who submit need not be allowed to read it. A key comes before all that begin with it.
        let there = self.bucket.list_part(&key, ListDepth::All, None, 1).await?;
        let is_replaced = there.items.first().is_some_and(|one| one.key == key);
        self.bucket.put_as(TOML, &key, text.to_vec(), WriteCondition::None).await?;
        Ok((key, is_replaced))
    }
}

/// Key after all keys of a folder, and before those of the next.
fn key_after(folder: &str) -> String {
    // `0` is the character after `/`.
    format!("{}0", folder.strip_suffix('/').unwrap_or(folder))
}
