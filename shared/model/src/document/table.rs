//! Sections, which are tables and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A section. Serde would take a list as well, and its elements for the section's keys in the order of their declaration.
struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of keys and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a section that has to be a table.
///
/// # Errors
/// It is something else, or a key of it is wrong.
pub fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(TableVisitor(PhantomData))
}

/// Reads a section that may be absent.
///
/// # Errors
/// It is no table, or a key of it is wrong.
pub fn some_table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    table(deserializer).map(Some)
}

/// Reads named sections, each of which has to be a table.
///
/// # Errors
/// One is no table, or a key of it is wrong.
pub fn tables<'de, D, K, T>(deserializer: D) -> Result<BTreeMap<K, T>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    T: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(transparent, bound = "T: Deserialize<'de>")]
    struct Section<T>(#[serde(deserialize_with = "table")] T);

    let sections = BTreeMap::<K, Section<T>>::deserialize(deserializer)?;
    Ok(sections.into_iter().map(|(name, section)| (name, section.0)).collect())
}
