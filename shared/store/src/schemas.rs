//! The schemas of documents in the bucket.

use billing::price::PriceDocument;
use model::id::Region;
use model::notification_log::NotificationLog;
use model::usage::ActivityCache;

use crate::document::{StoredDocument, read_stamp};
use crate::{PRICES_KEY, Store, StoreError, activity_key, notices_key};

/// The schema of a document, and the one that this version reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSchema {
    pub key: String,
    /// `None` if there is no such document yet.
    pub found: Option<u32>,
    pub known: u32,
}

impl Store {
    /// The schemas of documents that the functions write again and again, one of each kind.
    ///
    /// # Errors
    /// If S3 refused, or a document states no schema.
    pub async fn read_schemas(&self, region: &Region) -> Result<Vec<DocumentSchema>, StoreError> {
        Ok(vec![
            self.read_schema::<NotificationLog>(notices_key("reap-instances", region)).await?,
            self.read_schema::<ActivityCache>(activity_key(region)).await?,
            self.read_schema::<PriceDocument>(PRICES_KEY.to_owned()).await?,
        ])
    }

    async fn read_schema<T: StoredDocument>(&self, key: String) -> Result<DocumentSchema, StoreError> {
        let found = match self.bucket.get(&key, T::BYTES_MAX).await? {
            Some(object) => Some(read_stamp::<T>(&object.bytes, &self.bucket.address(&key))?),
            None => None,
        };
        Ok(DocumentSchema { key, found, known: T::SCHEMA })
    }
}
