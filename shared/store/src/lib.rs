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
mod home;
mod hub_config;
mod hub_figures;
mod jobs;
mod ledger;
mod month_facts;
mod plans;
mod reply_links;
mod schemas;

use aws_config::SdkConfig;
use billing::price::PriceDocument;
use jiff::Timestamp;
use model::config::{Config, ConfigInForce};
use model::id::Region;
use model::notification_log::NotificationLog;
use model::reply_link::LinkDocument;
use model::usage::ActivityCache;
use serde::Serialize;

use bucket::{Bucket, FoundObject, WriteCondition};
use document::{StoredDocument, decode, encode};
use home::HomeAccess;
use hub_config::HubConfigAccess;

pub use bucket::{INPUT_PART_BYTES, InputBucket, InputError, MeasuredData, measure_data};
pub use checkpoints::{
    CheckpointContent, CheckpointError, FileFingerprint, FileOwner, ListedPart, LocalFile, NodePart, UnsentFile,
};
pub use config::{ConfigObject, PREVIOUS_CONFIGS};
pub use hub_config::{ConfigWithHub, HubLayer};
pub use hub_figures::HubStore;
pub use jobs::{LOG_PARTS_MAX, LogName, LogPart, LogTail, SubmittedSpec};
pub use plans::PlanKey;
pub use ports::{
    ActivityDocuments, BacklogDocuments, BudgetDocuments, CallAdvice, ConfigLoadError, Documents, FiguresDocuments,
    HubDocuments, InboxDocuments, JobDocuments, LedgerDocuments, MachineDocument, MachineDocuments, ReceivedHeartbeat,
    ReconcilerDocuments, ReportDocuments, StoreError, SweepDocuments, TriggerDocuments, Versioned,
};
pub use schemas::DocumentSchema;

/// The largest document that is read, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The state bucket.
#[derive(Debug, Clone)]
pub struct Store {
    bucket: Bucket,
    /// The bucket in which the account publishes its figures, if it does.
    figures_hub: Option<HubStore>,
    /// The configuration of the organization's hub; `None`: the account's own counts alone.
    hub_config: Option<HubConfigAccess>,
    /// `None`: no other stack can exist.
    home: Option<Box<HomeAccess>>,
}

impl Store {
    /// The bucket with that name, in the configuration's region.
    #[must_use]
    pub fn new(config: &SdkConfig, bucket: String) -> Self {
        Self { bucket: Bucket::new(config, bucket), figures_hub: None, hub_config: None, home: None }
    }

    /// Store of an account that publishes its figures in that hub.
    #[must_use]
    pub fn publishing_to(self, hub: Option<HubStore>) -> Self {
        Self { figures_hub: hub, ..self }
    }

    /// Store for a job's machine: after a denied read it lists the key to learn whether the object exists.
    ///
    /// S3 answers 404 for an absent object only to a caller that may list the bucket, and otherwise 403 (Amazon S3 API reference,
    /// "`GetObject`", "Permissions"). A machine may list only by `s3:prefix`, and whether a read counts as a listing with its key as the
    /// prefix is not documented. All other callers may list, and a denied read is a missing permission.
    #[must_use]
    pub fn for_machine(self) -> Self {
        Self { bucket: self.bucket.asking_listing(), ..self }
    }

    /// The bucket's policy, a JSON document; `None` if it has none.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_bucket_policy(&self) -> Result<Option<String>, StoreError> {
        self.bucket.policy().await
    }

    /// The configuration and its document; `None` if it is absent.
    ///
    /// # Errors
    /// As [`Documents::read_config`].
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

impl Documents for Store {
    async fn read_config(&self) -> Result<Config, ConfigLoadError> {
        // Every command awaits it.
        Box::pin(self.read_in_force_by_copy()).await.map(|in_force| in_force.config)
    }

    async fn read_config_in_force(&self, now: Timestamp) -> Result<ConfigInForce, ConfigLoadError> {
        Box::pin(self.read_in_force(now)).await
    }

    async fn read_notices(&self, function: &str, region: &Region) -> Result<Versioned<NotificationLog>, StoreError> {
        self.read(&notices_key(function, region)).await
    }

    async fn write_notices(
        &self,
        function: &str,
        region: &Region,
        notices: &NotificationLog,
        last: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write(&notices_key(function, region), notices, last).await
    }

    async fn restart_notices(&self, function: &str, region: &Region) -> Result<bool, StoreError> {
        let key = notices_key(function, region);
        let (read, etag) = self.read_as_it_is::<NotificationLog>(&key).await?;
        if !matches!(read, Err(StoreError::TooLarge { .. } | StoreError::Unreadable { .. })) {
            return Ok(false);
        }
        self.write(&key, &NotificationLog::default(), etag.as_deref()).await.map(|_| true)
    }

    async fn write_audit(&self, key: &str, record: &impl Serialize) -> Result<(), StoreError> {
        let bytes = document::bytes_of(record, &self.bucket.address(key))?;
        self.bucket.put(key, bytes, WriteCondition::None).await.map(drop)
    }

    async fn write_reply_link(&self, hash: &str, link: &LinkDocument, last: Option<&str>) -> Result<(), StoreError> {
        self.put_reply_link(hash, link, last).await
    }

    async fn read_prices(&self) -> Result<Versioned<PriceDocument>, StoreError> {
        self.read_cache(PRICES_KEY).await
    }

    async fn write_prices(&self, prices: &PriceDocument, last: Option<&str>) -> Result<Option<String>, StoreError> {
        self.write_cache(PRICES_KEY, prices, last).await
    }
}

impl ActivityDocuments for Store {
    async fn read_activity(&self, region: &Region) -> Result<Versioned<ActivityCache>, StoreError> {
        self.read_cache(&activity_key(region)).await
    }

    async fn write_activity(
        &self,
        region: &Region,
        activity: &ActivityCache,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write_cache(&activity_key(region), activity, last).await.map(drop)
    }
}

/// Key of the live prices, as last queried.
const PRICES_KEY: &str = "prices/current.json";

fn notices_key(function: &str, region: &Region) -> String {
    format!("notices/{function}/{region}.json")
}

fn activity_key(region: &Region) -> String {
    format!("activity/{region}.json")
}

#[cfg(test)]
mod tests;
