//! The place of an account's data in S3.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fault::InvalidValue;

/// Amazon S3 user guide, "Naming Amazon S3 objects".
const KEY_BYTES_MAX: usize = 1_024;

const SCHEME: &str = "s3://";

/// A bucket, or a folder or an object in it: `s3://bucket/path`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputSource {
    pub bucket: String,
    /// Empty for the whole bucket. With `/` at its end only a folder, else an object if there is one, or a folder.
    path: String,
}

impl InputSource {
    /// # Errors
    /// If it is no address of S3.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let wrong =
            |why: &str| Err(InvalidValue::new(format!("{text:?} {why}; write `s3://BUCKET` or `s3://BUCKET/PREFIX/`")));
        let Some(rest) = text.strip_prefix(SCHEME) else { return wrong("does not begin with `s3://`") };
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_bucket_name(bucket) {
            return wrong(
                "names no bucket: 3 to 63 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
            );
        }
        if path.len() > KEY_BYTES_MAX || path.contains(char::is_control) {
            return wrong("has a path of more than 1,024 bytes, or with control characters");
        }
        if path.starts_with('/') || path.contains("//") {
            return wrong("has `//` in its path");
        }
        Ok(Self { bucket: bucket.to_owned(), path: path.to_owned() })
    }

    /// The prefix of a folder's keys: empty, or with `/` at its end.
    #[must_use]
    pub fn folder(&self) -> String {
        if self.path.is_empty() || self.path.ends_with('/') { self.path.clone() } else { format!("{}/", self.path) }
    }

    /// `true` if `other` is this folder of the bucket, or lies below it. `vision` does not cover `vision-2/`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.bucket == other.bucket && other.folder().starts_with(&self.folder())
    }

    /// The key of the one object that it may be.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        Some(self.path.as_str()).filter(|path| !path.is_empty() && !path.ends_with('/'))
    }
}

impl fmt::Display for InputSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}", self.bucket, self.path)
    }
}

/// Amazon S3 user guide, "General purpose bucket naming rules".
#[must_use]
pub fn is_bucket_name(name: &str) -> bool {
    let is_end = |end: Option<u8>| end.is_some_and(|end| end.is_ascii_lowercase() || end.is_ascii_digit());
    let legal = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, b'-' | b'.');
    (3..=63).contains(&name.len())
        && name.bytes().all(legal)
        && is_end(name.bytes().next())
        && is_end(name.bytes().last())
        && !name.contains("..")
        && name.parse::<std::net::Ipv4Addr>().is_err()
}

impl Serialize for InputSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads an address with or without `s3://`.
impl<'de> Deserialize<'de> for InputSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let address = if text.starts_with(SCHEME) { text } else { format!("{SCHEME}{text}") };
        Self::read(&address).map_err(serde::de::Error::custom)
    }
}
