//! The ledger: one document a region and month.

use domain::id::Region;
use domain::ledger::{Ledger, Month};

use crate::document::Document;
use crate::{Store, StoreError, Versioned};

/// The most ledgers of a month that are listed: AWS has some forty regions.
const KEYS_MAX: usize = 1_000;

/// Whoever loses so often leaves it to the next beat, which sees nearly all of it again.
const UPDATE_TRIES_MAX: u32 = 3;

impl Document for Ledger {
    const IF_LOST: &'static str = "without it what was spent until now in that month and region is forgotten, but for what still \
                                   runs, and budgets count from then on";
}

impl Store {
    /// What ran in a region in a month; nothing where there is no document yet.
    ///
    /// # Errors
    /// Where the document could not be read, or is none of ours.
    pub async fn read_ledger(&self, month: &Month, region: &Region) -> Result<Versioned<Ledger>, StoreError> {
        let Versioned { value, etag } = self.read::<Ledger>(&ledger_key(month, region)).await?;
        Ok(Versioned { value: value.of(month, region), etag })
    }

    /// The regions of which there is a ledger of that month.
    ///
    /// # Errors
    /// Where S3 refused, or there are more than AWS has regions.
    pub async fn list_ledgers(&self, month: &Month) -> Result<Vec<Region>, StoreError> {
        let folder = format!("ledger/{month}/");
        let listed = self.bucket.list(&folder, KEYS_MAX).await?;
        let region = |key: &str| {
            let name = key.strip_prefix(&folder)?.strip_suffix(".json")?;
            (!name.is_empty() && !name.contains('/')).then(|| Region::from(name))
        };
        Ok(listed.iter().filter_map(|listed| region(&listed.key)).collect())
    }

    /// Writes what ran over the object whose `ETag` was `last`; `None` where there was none.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where something else is there by now; else where S3 refused.
    pub async fn write_ledger(
        &self,
        month: &Month,
        region: &Region,
        ledger: &Ledger,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(&ledger_key(month, region), ledger, last).await.map(drop)
    }

    /// Has `change` take down what it has seen, in what is there now, and again in what another run wrote in the meantime. Where
    /// it says that nothing was new, nothing is written. Gives the ledger as it is then; where it could not be written, as it would be,
    /// and why.
    ///
    /// # Errors
    /// As [`Store::read_ledger`].
    pub async fn update_ledger(
        &self,
        month: &Month,
        region: &Region,
        mut change: impl FnMut(&mut Ledger) -> bool,
    ) -> Result<(Ledger, Option<StoreError>), StoreError> {
        let mut tries = 1..UPDATE_TRIES_MAX;
        loop {
            let Versioned { value: mut ledger, etag } = self.read_ledger(month, region).await?;
            if !change(&mut ledger) {
                return Ok((ledger, None));
            }
            match self.write_ledger(month, region, &ledger, etag.as_deref()).await {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                written => return Ok((ledger, written.err())),
            }
        }
    }
}

fn ledger_key(month: &Month, region: &Region) -> String {
    format!("ledger/{month}/{region}.json")
}
