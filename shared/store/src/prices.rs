//! `prices/current.json`: live prices, as they were last asked for.

use billing::price::PriceDocument;

use crate::{Store, StoreError, Versioned};

const KEY: &str = "prices/current.json";

impl Store {
    /// Live prices. A document that cannot be understood counts as lost: it is a cache, and the next write replaces it.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_prices(&self) -> Result<Versioned<PriceDocument>, StoreError> {
        self.read_cache(KEY).await
    }

    /// Writes live prices over the object whose `ETag` was `last`; `None` where there was none. Where another run was faster,
    /// what that one learnt is as good. The new `ETag`.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn write_prices(&self, prices: &PriceDocument, last: Option<&str>) -> Result<Option<String>, StoreError> {
        self.write_cache(KEY, prices, last).await
    }
}
