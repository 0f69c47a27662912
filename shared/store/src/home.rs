//! The record of the stack that acts, in each state bucket.

use model::home::{HOME_BYTES_MAX, HOME_KEY, HomeRecord};

use crate::bucket::WriteCondition;
use crate::document::{read, stamped};
use crate::{Store, StoreError, Versioned};

const IF_LOST: &str = "the stack that acts writes it again, if the copy of the bucket names no other one";

impl Store {
    /// The record of the stack that acts; `None` if there is none.
    ///
    /// # Errors
    /// If S3 refused, or the record is damaged or impossible.
    pub async fn read_home(&self) -> Result<Versioned<Option<HomeRecord>>, StoreError> {
        let Some(object) = self.bucket.get(HOME_KEY, HOME_BYTES_MAX).await? else {
            return Ok(Versioned { value: None, etag: None });
        };
        let address = self.bucket.address(HOME_KEY);
        let record: HomeRecord = read(&object.bytes, &address, IF_LOST)?;
        match record.check() {
            Ok(()) => Ok(Versioned { value: Some(record), etag: object.etag }),
            Err(refusal) => Err(StoreError::Unreadable { address, problem: refusal.to_string(), if_lost: IF_LOST }),
        }
    }

    /// Writes the record over the version that was read; `None`: over none.
    ///
    /// # Errors
    /// If S3 refused, or somebody has written the record since.
    pub async fn write_home(&self, record: &HomeRecord, last: Option<&str>) -> Result<(), StoreError> {
        let bytes = stamped(record, &self.bucket.address(HOME_KEY))?;
        self.bucket.put(HOME_KEY, bytes, WriteCondition::StillAt(last)).await.map(drop)
    }
}
