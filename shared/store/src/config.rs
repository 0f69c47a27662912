//! The document of the configuration, and its predecessors.

use jiff::Timestamp;
use model::config::{BYTES_MAX, ConfigError, KEY};

use crate::bucket::WriteCondition;
use crate::{Store, StoreError};

/// The folder of the documents that were replaced.
pub const PREVIOUS_CONFIGS: &str = "config/previous/";

/// The most objects that are listed: more than are ever kept, unless somebody else writes there.
const LISTED_MAX: usize = 1000;

/// Length of a time such as `20261127T180000000Z`.
const TIME_CHARACTERS: usize = 19;

pub(crate) const TOML: &str = "application/toml";

/// The document of the configuration as it is, valid or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigObject {
    pub bytes: Vec<u8>,
    pub etag: Option<String>,
}

impl Store {
    /// The document of the configuration; `None` if there is none.
    ///
    /// # Errors
    /// If S3 refused, or the document is larger than a configuration may be.
    pub async fn find_config(&self) -> Result<Option<ConfigObject>, StoreError> {
        let found = self.bucket.get(KEY, BYTES_MAX).await?;
        Ok(found.map(|object| ConfigObject { bytes: object.bytes, etag: object.etag }))
    }

    /// Writes the configuration over the document with the `ETag` `last`; `None` if there was none.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if somebody has written it since; otherwise if S3 refused.
    pub async fn replace_config(&self, bytes: &[u8], last: Option<&str>) -> Result<(), StoreError> {
        self.bucket.put_as(TOML, KEY, bytes.to_vec(), WriteCondition::StillAt(last)).await.map(drop)
    }

    /// Keeps a document that is about to be replaced; returns its key, which sorts by the time.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn keep_previous_config(&self, bytes: &[u8], at: Timestamp) -> Result<String, StoreError> {
        let key = format!("{PREVIOUS_CONFIGS}{}.toml", at.strftime("%Y%m%dT%H%M%S%3fZ"));
        self.bucket.put_as(TOML, &key, bytes.to_vec(), WriteCondition::StillAt(None)).await?;
        Ok(key)
    }

    /// The keys of the documents that were replaced, the newest first.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn previous_configs(&self) -> Result<Vec<String>, StoreError> {
        let listed = self.bucket.list(PREVIOUS_CONFIGS, LISTED_MAX).await?;
        let keys = listed.into_iter().map(|object| object.key);
        Ok(keys.rev().filter(|key| is_previous_config(key)).collect())
    }

    /// A document that was replaced; `None` if there is none at that key.
    ///
    /// # Errors
    /// If S3 refused, or the document is larger than a configuration may be.
    pub async fn read_previous_config(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.bucket.get(key, BYTES_MAX).await?.map(|object| object.bytes))
    }

    /// Deletes a document that was replaced.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn delete_previous_config(&self, key: &str) -> Result<(), StoreError> {
        self.bucket.delete(key).await
    }
}

/// Other objects of the folder are somebody else's.
fn is_previous_config(key: &str) -> bool {
    let name = key.strip_prefix(PREVIOUS_CONFIGS).and_then(|name| name.strip_suffix(".toml"));
    let is_digit_or_sign = |letter: char| letter.is_ascii_digit() || matches!(letter, 'T' | 'Z');
    name.is_some_and(|time| time.len() == TIME_CHARACTERS && time.chars().all(is_digit_or_sign))
}

pub(crate) fn too_large(bytes: usize) -> ConfigError {
    let problem = format!("the document has {bytes} bytes; {BYTES_MAX} are the most");
    ConfigError { line: 1, column: 1, key: "the whole document".to_owned(), problem }
}
