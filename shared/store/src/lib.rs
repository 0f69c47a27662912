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
mod error;
mod jobs;
mod ledger;
mod plans;
mod prices;

use aws_config::SdkConfig;
use domain::config::Config;
use domain::id::Region;
use domain::notices::Notices;
use domain::usage::Activity;
use serde::Serialize;

use bucket::{Bucket, Condition, Object};
use document::{Document, decode, encode};

pub use checkpoints::{CheckpointError, Content, Fingerprint, Local, Unsent};
pub use config::ConfigFault;
pub use error::StoreError;
pub use jobs::{Answers, Beat, Inboxed, Submission, Submitted, job_of_key, submission_key};
pub use plans::PlanKey;

/// The largest document that is read, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A value as it was read, and what a write of its successor replaces.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<T> {
    /// The value; of an absent document the default.
    pub value: T,
    /// The object's `ETag`; `None` where there was no object.
    pub etag: Option<String>,
}

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

    /// The bucket's name.
    #[must_use]
    pub fn bucket_name(&self) -> &str {
        self.bucket.name()
    }

    /// The configuration; of an absent document the default.
    ///
    /// # Errors
    /// Where the document was refused, or could not be read.
    pub async fn read_config(&self) -> Result<Config, ConfigFault> {
        Ok(self.read_config_document().await?.map_or_else(Config::default, |(config, _)| config))
    }

    /// The configuration, and the document that says so; `None` where there is none.
    ///
    /// # Errors
    /// As [`Store::read_config`].
    pub async fn read_config_document(&self) -> Result<Option<(Config, String)>, ConfigFault> {
        match self.bucket.get(domain::config::KEY, domain::config::BYTES_MAX).await {
            Ok(None) => Ok(None),
            Ok(Some(object)) => {
                let config = Config::read_bytes(&object.bytes).map_err(ConfigFault::Refused)?;
                Ok(Some((config, String::from_utf8_lossy(&object.bytes).into_owned())))
            }
            Err(StoreError::TooLarge { bytes, .. }) => Err(ConfigFault::Refused(config::too_large(bytes))),
            Err(error) => Err(ConfigFault::Unreachable(error)),
        }
    }

    /// What a function told about a region.
    ///
    /// # Errors
    /// Where the document could not be read, or is none of ours.
    pub async fn read_notices(&self, function: &str, region: &Region) -> Result<Versioned<Notices>, StoreError> {
        self.read(&notices_key(function, region)).await
    }

    /// Writes what a function told about a region over the object whose `ETag` was `last`; `None` where there was none.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn write_notices(
        &self,
        function: &str,
        region: &Region,
        notices: &Notices,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(&notices_key(function, region), notices, last).await.map(drop)
    }

    /// What earlier runs learnt about a region's instances. A document that cannot be understood counts as lost: it is a
    /// cache, and the next write replaces it.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_activity(&self, region: &Region) -> Result<Versioned<Activity>, StoreError> {
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
        activity: &Activity,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write_cache(&activity_key(region), activity, last).await.map(drop)
    }

    /// Writes the audit record of a run to its key: an [`AuditRecord`](domain::report::AuditRecord), or that of jobs. A run that
    /// Lambda delivered twice writes it twice; the bucket keeps both versions.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let bytes = document::bytes_of(record, &self.bucket.address(key))?;
        self.bucket.put(key, bytes, Condition::None).await.map(drop)
    }

    /// A document; of an absent one the default.
    async fn read<T: Document>(&self, key: &str) -> Result<Versioned<T>, StoreError> {
        let (read, etag) = self.read_as_it_is(key).await?;
        Ok(Versioned { value: read?, etag })
    }

    /// A document that is only a cache: one that cannot be understood counts as lost, and the next write replaces it.
    async fn read_cache<T: Document>(&self, key: &str) -> Result<Versioned<T>, StoreError> {
        let (read, etag) = self.read_as_it_is(key).await?;
        Ok(Versioned { value: read.unwrap_or_default(), etag })
    }

    /// What an object says, or why nobody understands it; and its `ETag`, where there is one.
    async fn read_as_it_is<T: Document>(
        &self,
        key: &str,
    ) -> Result<(Result<T, StoreError>, Option<String>), StoreError> {
        Ok(match self.bucket.get(key, BYTES_MAX).await? {
            None => (Ok(T::default()), None),
            Some(Object { bytes, etag, .. }) => (decode(&bytes, &self.bucket.address(key)), etag),
        })
    }

    /// Where another run was faster, what that one learnt is as good. The new `ETag`, where it was written.
    async fn write_cache<T: Document>(
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
    async fn write<T: Document>(&self, key: &str, value: &T, last: Option<&str>) -> Result<Option<String>, StoreError> {
        let bytes = encode(value, &self.bucket.address(key))?;
        Ok(self.bucket.put(key, bytes, Condition::StillAt(last)).await?.etag)
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
