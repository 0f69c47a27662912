//! The ledger: one document a region and month.

use billing::ledger::{CalendarMonth, Ledger};
use model::id::Region;

use crate::document::{StoredDocument, is_at_home};
use crate::{LedgerDocuments, Store, StoreError, Versioned};

/// The most ledgers of a month that are listed: AWS has some forty regions.
const KEYS_MAX: usize = 1_000;

impl StoredDocument for Ledger {
    const IF_LOST: &'static str = "without it what was spent until now in that month and region is forgotten, but for what still \
                                   runs, and budgets count from then on";
    /// Limit of a ledger that is read, in bytes. At most half of it is written: more than `billing::ledger::FoldLimits` lets a ledger grow
    /// to, with up to 75,000 machines and volumes that still run.
    const BYTES_MAX: usize = 64 * 1024 * 1024;
}

impl LedgerDocuments for Store {
    async fn list_ledgers(&self, month: &CalendarMonth) -> Result<Vec<Region>, StoreError> {
        let folder = format!("ledger/{month}/");
        let listed = self.bucket.list(&folder, KEYS_MAX).await?;
        let region = |key: &str| {
            let name = key.strip_prefix(&folder)?.strip_suffix(".json")?;
            (!name.is_empty() && !name.contains('/')).then(|| Region::from(name))
        };
        Ok(listed.iter().filter_map(|listed| region(&listed.key)).collect())
    }

    async fn read_ledger(&self, month: &CalendarMonth, region: &Region) -> Result<Versioned<Ledger>, StoreError> {
        let key = ledger_key(month, region);
        let Versioned { value, etag } = self.read::<Ledger>(&key).await?;
        let other = value.other_than(month, region);
        is_at_home(other.is_none(), other.unwrap_or_default(), &self.bucket.address(&key), Ledger::IF_LOST)?;
        Ok(Versioned { value: value.with_identity(month, region), etag })
    }

    async fn write_ledger(
        &self,
        month: &CalendarMonth,
        region: &Region,
        ledger: &Ledger,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(&ledger_key(month, region), ledger, last).await.map(drop)
    }
}

fn ledger_key(month: &CalendarMonth, region: &Region) -> String {
    format!("ledger/{month}/{region}.json")
}
