//! Documents: typed values as JSON objects that carry their `schema`.

use domain::budget::Budget;
use domain::fault::shortened;
use domain::notices::Notices;
use domain::price;
use domain::report::SCHEMA;
use domain::usage::Activity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::StoreError;

/// The most that an error repeats of a document, in characters: it has to fit a message, and a document may be one long word.
const QUOTED_CHARACTERS_MAX: usize = 500;

/// A value that is kept in one object, which only Curfew writes.
pub(crate) trait Document: Serialize + DeserializeOwned + Default {
    /// What it means to lose it; for people who may have to delete it.
    const IF_LOST: &'static str;
}

impl Document for Notices {
    const IF_LOST: &'static str = "without it messages are repeated, and nothing else happens";
}

impl Document for Budget {
    const IF_LOST: &'static str = "what it reserves for jobs is forgotten, and all else is made anew from the ledger";
}

impl Document for Activity {
    const IF_LOST: &'static str = "it is only a cache";
}

impl Document for price::Document {
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
    stamped(value, address)
}

/// The same of a value without a default, which carries no schema of its own.
pub(crate) fn stamped(value: &impl Serialize, address: &str) -> Result<Vec<u8>, StoreError> {
    bytes_of(&Written { schema: SCHEMA, value }, address)
}

pub(crate) fn bytes_of(value: &impl Serialize, address: &str) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Unwritable { address: address.to_owned(), problem: error.to_string() })
}

/// The document of those bytes; `address` names it in errors.
pub(crate) fn decode<T: Document>(bytes: &[u8], address: &str) -> Result<T, StoreError> {
    read(bytes, address, T::IF_LOST)
}

/// The same of whatever carries its schema; `if_lost` says what it means to delete it.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8], address: &str, if_lost: &'static str) -> Result<T, StoreError> {
    let unreadable = |error: serde_json::Error| StoreError::Unreadable {
        address: address.to_owned(),
        problem: problem(&error),
        if_lost,
    };
    // Of a field that it does not know, serde_json looks at nothing but the end.
    let text = std::str::from_utf8(bytes).map_err(|error| StoreError::Unreadable {
        address: address.to_owned(),
        problem: no_utf8(bytes, error.valid_up_to()),
        if_lost,
    })?;
    let stamp: Stamp = serde_json::from_str(text).map_err(unreadable)?;
    if stamp.schema != Some(Value::from(SCHEMA)) {
        let found = stamp.schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string());
        return Err(StoreError::UnknownSchema {
            address: address.to_owned(),
            found: shortened(&found, QUOTED_CHARACTERS_MAX),
            if_lost,
        });
    }
    serde_json::from_str(text).map_err(unreadable)
}

/// What is wrong, and where, which stands at the end.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => shortened(what, QUOTED_CHARACTERS_MAX) + &place,
        None => shortened(&text, QUOTED_CHARACTERS_MAX),
    }
}

/// In the words of `serde_json`, which counts columns in bytes.
fn no_utf8(bytes: &[u8], valid_up_to: usize) -> String {
    let lines = bytes[..valid_up_to].split(|byte| *byte == b'\n');
    let (line, column) = lines.fold((0, 0), |(line, _), text| (line + 1, text.len() + 1));
    format!("no UTF-8 at line {line} column {column}")
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
