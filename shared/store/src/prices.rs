//! `prices/current.json`: live prices, as they were last asked for.

use domain::price::Document;

use crate::bucket::Object;
use crate::document::decode;
use crate::{BYTES_MAX, Store, StoreError, Versioned};

const KEY: &str = "prices/current.json";

impl Store {
    /// Live prices. A document that cannot be understood counts as lost: it is a cache, and the next write replaces it.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_prices(&self) -> Result<Versioned<Document>, StoreError> {
        let Some(Object { bytes, etag }) = self.bucket.get(KEY, BYTES_MAX).await? else {
            return Ok(Versioned { value: Document::default(), etag: None });
        };
        Ok(Versioned { value: decode(&bytes, &self.bucket.address(KEY)).unwrap_or_default(), etag })
    }

    /// Writes live prices over the object whose `ETag` was `last`; `None` where there was none. Where another run was faster,
    /// what that one learnt is as good.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn write_prices(&self, prices: &Document, last: Option<&str>) -> Result<(), StoreError> {
        match self.write(KEY, prices, last).await {
            Err(StoreError::Lost { .. }) => Ok(()),
            written => written,
        }
    }
}
