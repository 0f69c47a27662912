//! Documents: typed values as JSON objects that carry their `schema`.

use domain::notices::Notices;
use domain::report::SCHEMA;
use domain::usage::Activity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::StoreError;

/// A value that is kept in one object, which only Curfew writes.
pub(crate) trait Document: Serialize + DeserializeOwned + Default {
    /// What it means to lose it; for people who may have to delete it.
    const IF_LOST: &'static str;
}

impl Document for Notices {
    const IF_LOST: &'static str = "without it messages are repeated, and nothing else happens";
}

impl Document for Activity {
    const IF_LOST: &'static str = "it is only a cache";
}

#[derive(Serialize)]
struct Written<'a, T> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Stamp {
    schema: Option<Value>,
}

/// The document's bytes; `address` names it in errors.
pub(crate) fn encode<T: Document>(value: &T, address: &str) -> Result<Vec<u8>, StoreError> {
    bytes_of(&Written { schema: SCHEMA, value }, address)
}

pub(crate) fn bytes_of(value: &impl Serialize, address: &str) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Unwritable { address: address.to_owned(), problem: error.to_string() })
}

/// The document of those bytes; `address` names it in errors.
pub(crate) fn decode<T: Document>(bytes: &[u8], address: &str) -> Result<T, StoreError> {
    let unreadable = |error: serde_json::Error| StoreError::Unreadable {
        address: address.to_owned(),
        problem: error.to_string(),
        if_lost: T::IF_LOST,
    };
    let stamp: Stamp = serde_json::from_slice(bytes).map_err(unreadable)?;
    if stamp.schema != Some(Value::from(SCHEMA)) {
        let found = stamp.schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string());
        return Err(StoreError::UnknownSchema { address: address.to_owned(), found, if_lost: T::IF_LOST });
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}

#[cfg(test)]
mod tests;
