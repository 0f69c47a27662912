//! The state bucket: Curfew's memory from one run to the next.
//!
//! The only crate that names `aws_sdk_s3`. A document is read with its version and written only over that version (compare-and-swap: Amazon
//! S3 user guide, "How to prevent object overwrites with conditional writes"), so of two runs at once one loses, and knows. The loser reads
//! again, or leaves it to the next run. The caller decides whether an unchanged document is written.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod bucket;
mod budgets;
mod checkpoints;
mod config;
mod document;
mod jobs;
mod ledger;
mod month_facts;
mod plans;
mod ports_impl;
mod prices;
mod report_pages;
mod schemas;

use aws_config::SdkConfig;
use model::config::Config;
use model::id::Region;
use model::notification_log::NotificationLog;
use model::usage::ActivityCache;
use serde::Serialize;

use bucket::{Bucket, FoundObject, WriteCondition};
use document::{StoredDocument, decode, encode};

pub use bucket::{INPUT_PART_BYTES, InputBucket, InputError, ListPart, ListedObject, MeasuredData, measure_data};
pub use budgets::team_folder;
pub use checkpoints::{CheckpointContent, CheckpointError, FileFingerprint, FileOwner, LocalFile, UnsentFile};
pub use config::{ConfigObject, PREVIOUS_CONFIGS};
pub use jobs::{
    Backlog, Bookmarks, InboxAnswers, InboxObject, JobEntry, LOG_PARTS_MAX, LogPart, LogTail, MachineDocument,
    ReceivedHeartbeat, Submission, SubmittedSpec, TriggerListing, TriggerObject, has_legal_keys, is_answerable,
    job_of_key, match_answers, submission_key, sweep_of_active_key,
};
pub use plans::PlanKey;
pub use ports::{CallAdvice, ConfigLoadError, StoreError, Versioned};
pub use schemas::DocumentSchema;

/// The largest document that is read, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The state bucket.
#[derive(Debug, Clone)]
pub struct Store {
    bucket: Bucket,
}

impl Store {
    /// The bucket with that name, in the configuration's region.
    #[must_use]
    pub fn new(config: &SdkConfig, bucket: String) -> Self {
        Self { bucket: Bucket::new(config, bucket) }
    }

    /// Store for a job's machine: after a denied read it lists the key to learn whether the object exists.
    ///
    /// S3 answers 404 for an absent object only to a caller that may list the bucket, and otherwise 403 (Amazon S3 API reference,
    /// "`GetObject`", "Permissions"). A machine may list only by `s3:prefix`, and whether a read counts as a listing with its key as the
    /// prefix is not documented. All other callers may list, and a denied read is a missing permission.
    #[must_use]
    pub fn for_machine(self) -> Self {
        Self { bucket: self.bucket.asking_listing() }
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket_name(&self) -> &str {
        self.bucket.name()
    }

    /// The bucket's policy, a JSON document; `None` if it has none.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_bucket_policy(&self) -> Result<Option<String>, StoreError> {
        self.bucket.policy().await
    }

    /// The configuration; the default if the document is absent.
    ///
    /// # Errors
    /// If the document was refused, or could not be read.
    pub async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        Ok(self.read_config_document().await?.map_or_else(Config::default, |(config, _)| config))
    }

    /// The configuration and its document; `None` if it is absent.
    ///
    /// # Errors
    /// As [`Store::read_config`].
    pub async fn read_config_document(&self) -> Result<Option<(Config, String)>, ConfigLoadError> {
        match self.bucket.get(model::config::KEY, model::config::BYTES_MAX).await {
            Ok(None) => Ok(None),
            Ok(Some(object)) => {
                let config = Config::read_bytes(&object.bytes).map_err(ConfigLoadError::Refused)?;
                Ok(Some((config, String::from_utf8_lossy(&object.bytes).into_owned())))
            }
            Err(StoreError::TooLarge { bytes, .. }) => Err(ConfigLoadError::Refused(config::too_large(bytes))),
            Err(error) => Err(ConfigLoadError::Unreachable(error)),
        }
    }

    /// The notifications of a function about a region.
    ///
    /// # Errors
    /// If the document could not be read, or is not Curfew's.
    pub async fn read_notices(
        &self,
        function: &str,
        region: &Region,
    ) -> Result<Versioned<NotificationLog>, StoreError> {
        self.read(&notices_key(function, region)).await
    }

    /// Replaces notices that are too large, or no document at all, by empty ones. Returns whether it did; a document that can be read, or
    /// of another version of Curfew, stays.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    pub async fn restart_notices(&self, function: &str, region: &Region) -> Result<bool, StoreError> {
        let key = notices_key(function, region);
        let (read, etag) = self.read_as_it_is::<NotificationLog>(&key).await?;
        if !matches!(read, Err(StoreError::TooLarge { .. } | StoreError::Unreadable { .. })) {
            return Ok(false);
        }
        self.write(&key, &NotificationLog::default(), etag.as_deref()).await.map(|_| true)
    }

    /// Writes the log of a function about a region over the object with the `ETag` `last`; `None` if there was none. The new `ETag`.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if another run has written it since; otherwise if S3 refused.
    pub async fn write_notices(
        &self,
        function: &str,
        region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write(&notices_key(function, region), notices, last).await
    }

    /// Reads the cache of what earlier runs learnt about a region's instances. An unreadable document counts as lost, and the next write
    /// replaces it.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_activity(&self, region: &Region) -> Result<Versioned<ActivityCache>, StoreError> {
        self.read_cache(&activity_key(region)).await
    }

    /// Writes what runs learnt about a region's instances over the object with the `ETag` `last`; `None` if there was none. If another run
    /// was faster, its result is as good.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_activity(
        &self,
        region: &Region,
        activity: &ActivityCache,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write_cache(&activity_key(region), activity, last).await.map(drop)
    }

    /// Writes the audit record of a run to its key: an [`AuditRecord`](plan::report::AuditRecord), or that of jobs. A run that
    /// Lambda delivered twice writes it twice; the bucket keeps both versions.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let bytes = document::bytes_of(record, &self.bucket.address(key))?;
        self.bucket.put(key, bytes, WriteCondition::None).await.map(drop)
    }

    /// A document; the default if it is absent.
    async fn read<T: StoredDocument>(&self, key: &str) -> Result<Versioned<T>, StoreError> {
        let (read, etag) = self.read_as_it_is(key).await?;
        Ok(Versioned { value: read?, etag })
    }

    /// A document that is only a cache: an unreadable one counts as lost, and the next write replaces it.
    async fn read_cache<T: StoredDocument>(&self, key: &str) -> Result<Versioned<T>, StoreError> {
        let (read, etag) = self.read_as_it_is(key).await?;
        Ok(Versioned { value: read.unwrap_or_default(), etag })
    }

    /// The content of an object, or why it cannot be read, such as its size; and its `ETag`, if it exists.
    async fn read_as_it_is<T: StoredDocument>(
        &self,
        key: &str,
    ) -> Result<(Result<T, StoreError>, Option<String>), StoreError> {
        let Some(FoundObject { bytes, by, .. }) = self.bucket.find(key, T::BYTES_MAX).await? else {
            return Ok((Ok(T::default()), None));
        };
        let address = self.bucket.address(key);
        let read = match bytes {
            Ok(bytes) => decode(&bytes, &address),
            Err(bytes) => Err(StoreError::TooLarge { address, bytes, bytes_max: T::BYTES_MAX }),
        };
        Ok((read, by.etag))
    }

    /// If another run was faster, its result is as good. Returns the new `ETag`, if it was written.
    async fn write_cache<T: StoredDocument>(
        &self,
        key: &str,
        value: &T,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        match self.write(key, value, last).await {
            Err(StoreError::Lost { .. }) => Ok(None),
            written => written,
        }
    }

    /// The new `ETag`.
    async fn write<T: StoredDocument>(
        &self,
        key: &str,
        value: &T,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        let bytes = encode(value, &self.bucket.address(key))?;
        Ok(self.bucket.put(key, bytes, WriteCondition::StillAt(last)).await?.etag)
    }
}

fn notices_key(function: &str, region: &Region) -> String {
    format!("notices/{function}/{region}.json")
}

fn activity_key(region: &Region) -> String {
    format!("activity/{region}.json")
}

#[cfg(test)]
mod tests;
