//! Links by which readers answer announcements: one document each, named by the hash of the link's token.

use model::reply_link::LinkDocument;

use crate::bucket::WriteCondition;
use crate::document::{read, stamped};
use crate::{Store, StoreError, Versioned};

/// The largest document, in bytes: its foreign texts are tags.
const BYTES_MAX: usize = 64 * 1024;

const IF_LOST: &str = "its link then works no longer";

fn link_key(hash: &str) -> String {
    format!("replies/{hash}.json")
}

impl Store {
    /// The link whose token has this hash; `None` if there is none.
    ///
    /// # Errors
    /// If S3 refused, or the object is not Curfew's.
    pub async fn read_reply_link(&self, hash: &str) -> Result<Versioned<Option<LinkDocument>>, StoreError> {
        let key = link_key(hash);
        let Some(object) = self.bucket.get(&key, BYTES_MAX).await? else {
            return Ok(Versioned { value: None, etag: None });
        };
        let link = read(&object.bytes, &self.bucket.address(&key), IF_LOST)?;
        Ok(Versioned { value: Some(link), etag: object.etag })
    }

    pub(crate) async fn put_reply_link(
        &self,
        hash: &str,
        link: &LinkDocument,
        last: Option<&str>,
    ) -> Result<(), StoreError> {
        let key = link_key(hash);
        let bytes = stamped(link, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::StillAt(last)).await.map(drop)
    }
}
