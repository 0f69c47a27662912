//! The state bucket: what Curfew remembers from one run to the next.
//!
//! The only crate that names `aws_sdk_s3`. A document is read with its version and written only over that version
//! (compare-and-swap: Amazon S3 user guide, "How to prevent object overwrites with conditional writes"), so of two runs at
//! once one loses, and knows. Whoever loses reads again, or leaves it to the next run. What is unchanged need not be
//! written: that is the caller's to see.

mod bucket;
mod budgets;
mod checkpoints;
mod config;
mod document;
mod jobs;
mod ledger;
mod plans;
mod ports_impl;
mod prices;

use aws_config::SdkConfig;
use model::config::Config;
use model::id::Region;
use model::notification_log::NotificationLog;
use model::usage::ActivityCache;
use serde::Serialize;

use bucket::{Bucket, FoundObject, WriteCondition};
use document::{StoredDocument, decode, encode};

pub use bucket::{ListPart, ListedObject};
pub use budgets::team_folder;
pub use checkpoints::{CheckpointContent, CheckpointError, FileFingerprint, FileOwner, LocalFile, UnsentFile};
pub use jobs::{
    Backlog, Bookmarks, InboxAnswers, InboxObject, JobEntry, MachineDocument, ReceivedHeartbeat, Submission,
    SubmittedSpec, has_legal_keys, is_answerable, job_of_key, match_answers, submission_key,
};
pub use plans::PlanKey;
pub use ports::{ConfigLoadError, StoreError, Versioned};

/// The largest document that is read, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The state bucket.
#[derive(Debug, Clone)]
pub struct Store {
    bucket: Bucket,
}

impl Store {
    /// The bucket of that name, in the configuration's region.
    #[must_use]
    pub fn new(config: &SdkConfig, bucket: String) -> Self {
        Self { bucket: Bucket::new(config, bucket) }
    }

    /// The same, as a job's machine sees it: a denied read asks the listing whether the object is there at all.
    ///
    /// S3 answers 404 for an absent object only to a caller that may list the bucket, and else 403 (Amazon S3 API reference, "`GetObject`",
    /// "Permissions"). A machine may list only by `s3:prefix`, and whether a read counts as a listing with its key as the prefix is not
    /// documented. Everybody else may list, and a denied read there is a missing permission.
    #[must_use]
    pub fn for_machine(self) -> Self {
        Self { bucket: self.bucket.asking_listing() }
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket_name(&self) -> &str {
        self.bucket.name()
    }

    /// The configuration; of an absent document the default.
    ///
    /// # Errors
    /// Where the document was refused, or could not be read.
    pub async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        Ok(self.read_config_document().await?.map_or_else(Config::default, |(config, _)| config))
    }

    /// The configuration, and the document that says so; `None` where there is none.
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

    /// What a function told about a region.
    ///
    /// # Errors
    /// Where the document could not be read, or is none of ours.
    pub async fn read_notices(
        &self,
        function: &str,
        region: &Region,
    ) -> Result<Versioned<NotificationLog>, StoreError> {
        self.read(&notices_key(function, region)).await
    }

    /// Writes empty notices over what nobody can read: what is too large, or no document. Gives whether it did; a document that can be read, or
    /// that another version of Curfew wrote, stays.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn restart_notices(&self, function: &str, region: &Region) -> Result<bool, StoreError> {
        let key = notices_key(function, region);
        let (read, etag) = self.read_as_it_is::<NotificationLog>(&key).await?;
        if !matches!(read, Err(StoreError::TooLarge { .. } | StoreError::Unreadable { .. })) {
            return Ok(false);
        }
        self.write(&key, &NotificationLog::default(), etag.as_deref()).await.map(|_| true)
    }

    /// Writes what a function told about a region over the object whose `ETag` was `last`; `None` where there was none.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn write_notices(
        &self,
        function: &str,
        region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(&notices_key(function, region), notices, last).await.map(drop)
    }

    /// What earlier runs learnt about a region's instances. A document that cannot be understood counts as lost: it is a
    /// cache, and the next write replaces it.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_activity(&self, region: &Region) -> Result<Versioned<ActivityCache>, StoreError> {
        self.read_cache(&activity_key(region)).await
    }

    /// Writes what runs learnt about a region's instances over the object whose `ETag` was `last`; `None` where there was none.
    /// Where another run was faster, what that one learnt is as good.
    ///
    /// # Errors
    /// Where S3 refused.
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
    /// Where S3 refused.
    pub async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let bytes = document::bytes_of(record, &self.bucket.address(key))?;
        self.bucket.put(key, bytes, WriteCondition::None).await.map(drop)
    }

    /// A document; of an absent one the default.
    async fn read<T: StoredDocument>(&self, key: &str) -> Result<Versioned<T>, StoreError> {
        let (read, etag) = self.read_as_it_is(key).await?;
        Ok(Versioned { value: read?, etag })
    }

    /// A document that is only a cache: one that cannot be understood counts as lost, and the next write replaces it.
    async fn read_cache<T: StoredDocument>(&self, key: &str) -> Result<Versioned<T>, StoreError> {
        let (read, etag) = self.read_as_it_is(key).await?;
        Ok(Versioned { value: read.unwrap_or_default(), etag })
    }

    /// What an object says, or why nobody understands it, be it that it is too large; and its `ETag`, where there is one.
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

    /// Where another run was faster, what that one learnt is as good. The new `ETag`, where it was written.
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
