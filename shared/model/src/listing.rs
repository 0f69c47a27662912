//! Objects of the state bucket, as a list names them.

use jiff::Timestamp;

/// An object by its name; or a folder, with its `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// The name.
    pub key: String,
    /// Time of the write, to the second; for a folder, which has no time in S3, long ago.
    pub written_at: Timestamp,
    /// 0 for a folder.
    pub bytes: u64,
}

/// Part of a prefix that a run has listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPart<T> {
    /// Items in the order of keys, from the given start, and then from the first key again.
    pub items: Vec<T>,
    /// The last key, if there are more.
    pub stopped_at: Option<String>,
}
