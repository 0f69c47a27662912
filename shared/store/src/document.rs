//! Documents: typed values as JSON objects that carry their `schema`.

use std::fmt::Display;

use billing::budget::Budget;
use billing::price;
use model::fault::{one_line, shortened};
use model::notification_log::NotificationLog;
use model::usage::ActivityCache;
use plan::report::SCHEMA;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BYTES_MAX, StoreError};

/// Upper bound of the bytes that the schema adds to a document.
const STAMP_BYTES: usize = 64;

/// The longest quotation of a document in an error, in characters: it must fit a message, and a document may be one long word.
const QUOTED_CHARACTERS_MAX: usize = 500;

/// A value in one object that only Curfew writes.
pub(crate) trait StoredDocument: Serialize + DeserializeOwned + Default {
    /// The effect of losing it, for people who may have to delete it.
    const IF_LOST: &'static str;
    /// The schema that is written and read.
    const SCHEMA: u32 = SCHEMA;
    /// The newest schema whose documents count as lost.
    const LOST_SCHEMA: Option<u32> = None;
    /// The largest document that is read, in bytes.
    const BYTES_MAX: usize = BYTES_MAX;
    /// The largest that is written: half of what is read, so that every written document can be read.
    const WRITTEN_BYTES_MAX: usize = Self::BYTES_MAX / 2;

    /// Returns the document in at most this number of bytes, without its least important parts; `None` if it has none.
    fn reduced_to(&self, _bytes_max: usize) -> Option<Self> {
        None
    }
}

impl StoredDocument for NotificationLog {
    const IF_LOST: &'static str =
        "without it everything is announced anew, with the whole grace, and no snapshot is known as Curfew's own";
    const SCHEMA: u32 = 2;
    /// Schema that left to tags what was announced.
    const LOST_SCHEMA: Option<u32> = Some(1);

    fn reduced_to(&self, bytes_max: usize) -> Option<Self> {
        Self::reduced_to(self, bytes_max)
    }
}

impl StoredDocument for Budget {
    const IF_LOST: &'static str = "what it reserves for jobs is forgotten, and all else is made anew from the ledger";
}

/// A lost cache makes `CloudWatch` be queried more, once.
impl StoredDocument for ActivityCache {
    const IF_LOST: &'static str = "it is only a cache";

    fn reduced_to(&self, _bytes_max: usize) -> Option<Self> {
        Some(Self::default())
    }
}

/// A lost cache makes prices be queried again.
impl StoredDocument for price::PriceDocument {
    const IF_LOST: &'static str = "it is only a cache";

    fn reduced_to(&self, _bytes_max: usize) -> Option<Self> {
        Some(Self::default())
    }
}

#[derive(Serialize)]
struct StampedDocument<'a, T> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct SchemaStamp {
    schema: Option<Value>,
}

/// The document's bytes, no more than can be read again; `address` names it in errors.
pub(crate) fn encode<T: StoredDocument>(value: &T, address: &str) -> Result<Vec<u8>, StoreError> {
    let bytes_in = |value: &T| bytes_of(&StampedDocument { schema: T::SCHEMA, value }, address);
    let bytes = bytes_in(value)?;
    let bytes_max = T::WRITTEN_BYTES_MAX;
    if bytes.len() <= bytes_max {
        return Ok(bytes);
    }
    match value.reduced_to(bytes_max - STAMP_BYTES) {
        Some(reduced) => bytes_in(&reduced),
        None => Err(StoreError::TooLarge { address: address.to_owned(), bytes: bytes.len(), bytes_max }),
    }
}

/// Encodes a value without a default, and without a schema of its own; `address` names it in errors.
pub(crate) fn stamped(value: &impl Serialize, address: &str) -> Result<Vec<u8>, StoreError> {
    bytes_of(&StampedDocument { schema: SCHEMA, value }, address)
}

pub(crate) fn bytes_of(value: &impl Serialize, address: &str) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Unwritable { address: address.to_owned(), problem: error.to_string() })
}

/// Decodes a document; `address` names it in errors.
pub(crate) fn decode<T: StoredDocument>(bytes: &[u8], address: &str) -> Result<T, StoreError> {
    match read_schema(bytes, T::SCHEMA, address, T::IF_LOST) {
        Err(StoreError::UnknownSchema { found, .. })
            if T::LOST_SCHEMA.is_some_and(|lost| lost.to_string() == found) =>
        {
            Ok(T::default())
        }
        read => read,
    }
}

/// Decodes any value with a schema; `address` names it in errors, and `if_lost` says what deleting it means.
pub(crate) fn read<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    address: &str,
    if_lost: &'static str,
) -> Result<T, StoreError> {
    read_schema(bytes, SCHEMA, address, if_lost)
}

/// The schema that a document states, known or not; `address` names it in errors.
pub(crate) fn read_stamp<T: StoredDocument>(bytes: &[u8], address: &str) -> Result<u32, StoreError> {
    let stamp = serde_json::from_slice::<SchemaStamp>(bytes).ok().and_then(|stamp| stamp.schema);
    let schema = stamp.as_ref().and_then(Value::as_u64).and_then(|schema| u32::try_from(schema).ok());
    schema.ok_or_else(|| StoreError::UnknownSchema {
        address: address.to_owned(),
        found: stamp.map_or_else(|| "none".to_owned(), |found| shortened(&found.to_string(), QUOTED_CHARACTERS_MAX)),
        known: T::SCHEMA,
        if_lost: T::IF_LOST,
    })
}

fn read_schema<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    schema: u32,
    address: &str,
    if_lost: &'static str,
) -> Result<T, StoreError> {
    let unreadable = |error: serde_json::Error| StoreError::Unreadable {
        address: address.to_owned(),
        problem: problem(&error),
        if_lost,
    };
    // serde_json skips unknown fields without checking them.
    let text = std::str::from_utf8(bytes).map_err(|error| StoreError::Unreadable {
        address: address.to_owned(),
        problem: no_utf8(bytes, error.valid_up_to()),
        if_lost,
    })?;
    let stamp: SchemaStamp = serde_json::from_str(text).map_err(unreadable)?;
    // A structure may be read from an array as well, by the order of its fields.
    if text.trim_ascii_start().starts_with('[') {
        let problem = "no object at line 1 column 1".to_owned();
        return Err(StoreError::Unreadable { address: address.to_owned(), problem, if_lost });
    }
    if stamp.schema != Some(Value::from(schema)) {
        let found = stamp.schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string());
        return Err(StoreError::UnknownSchema {
            address: address.to_owned(),
            found: shortened(&found, QUOTED_CHARACTERS_MAX),
            known: schema,
            if_lost,
        });
    }
    serde_json::from_str(text).map_err(unreadable)
}

/// Decodes in one pass a value that is read by the thousand: `schema` returns the schema that the value states.
pub(crate) fn read_in_one_pass<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    schema: impl Fn(&T) -> Option<u32>,
    address: &str,
    if_lost: &'static str,
) -> Result<T, StoreError> {
    let value: Option<T> = std::str::from_utf8(bytes).ok().and_then(|text| serde_json::from_str(text).ok());
    // What is wrong with a document, the passes of `read` find out.
    value.filter(|value| schema(value) == Some(SCHEMA)).map_or_else(|| read(bytes, address, if_lost), Ok)
}

/// Checks that a document belongs at its address; `says` is its own claim.
pub(crate) fn is_at_home(is: bool, says: impl Display, address: &str, if_lost: &'static str) -> Result<(), StoreError> {
    if is {
        return Ok(());
    }
    let says = one_line(&says.to_string(), QUOTED_CHARACTERS_MAX);
    Err(StoreError::Misplaced { address: address.to_owned(), says, if_lost })
}

/// The problem, with its place at the end.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => shortened(what, QUOTED_CHARACTERS_MAX) + &place,
        None => shortened(&text, QUOTED_CHARACTERS_MAX),
    }
}

/// Worded as `serde_json` does, which counts columns in bytes.
fn no_utf8(bytes: &[u8], valid_up_to: usize) -> String {
    let lines = bytes[..valid_up_to].split(|byte| *byte == b'\n');
    let (line, column) = lines.fold((0, 0), |(line, _), text| (line + 1, text.len() + 1));
    format!("no UTF-8 at line {line} column {column}")
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
