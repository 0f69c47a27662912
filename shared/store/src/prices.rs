//! `prices/current.json`: live prices, as last queried.

use billing::price::PriceDocument;

use crate::{Store, StoreError, Versioned};

pub(crate) const PRICES_KEY: &str = "prices/current.json";

impl Store {
    /// Live prices. An unreadable document counts as lost: it is a cache, and the next write replaces it.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_prices(&self) -> Result<Versioned<PriceDocument>, StoreError> {
        self.read_cache(PRICES_KEY).await
    }

    /// Writes live prices over the object with the `ETag` `last`; `None` if there was none. If another run was faster, its result is as
    /// good. Returns the new `ETag`.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_prices(&self, prices: &PriceDocument, last: Option<&str>) -> Result<Option<String>, StoreError> {
        self.write_cache(PRICES_KEY, prices, last).await
    }
}
