//! The log of an attempt: its end in one object that the agent overwrites, and all before it in parts that never change.

use std::collections::HashMap;
use std::str::FromStr;

use jobs::JobId;
use jobs::keys::{JobDocument, document_key};
use jobs::node_gang::{Node, node_log_key, node_log_part_key};

use crate::bucket::WriteCondition;
use crate::{BYTES_MAX, Store, StoreError};

/// The most parts of a log. An agent uploads at most 256 MiB in parts, each of 128 KiB or more, and a few of them twice.
pub const LOG_PARTS_MAX: u32 = 4_096;

const TEXT: &str = "text/plain; charset=utf-8";

/// The keys of the metadata.
const START: &str = "start";
const STORED: &str = "stored";
const PARTS: &str = "parts";

/// The name of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogName<'a> {
    pub job: &'a JobId,
    pub attempt: u32,
    /// The node of a gang; `None`: the attempt has one machine.
    pub node: Option<Node>,
}

impl LogName<'_> {
    fn key(&self) -> String {
        match self.node {
            Some(node) => node_log_key(self.job, self.attempt, node),
            None => document_key(self.job, JobDocument::Log(self.attempt)),
        }
    }

    fn part_key(&self, number: u32) -> String {
        match self.node {
            Some(node) => node_log_part_key(self.job, self.attempt, node, number),
            None => document_key(self.job, JobDocument::LogPart(self.attempt, number)),
        }
    }
}

/// The end of a log. Positions count the bytes of the whole log. The machine wrote all of it, so any position may be wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogTail {
    pub bytes: Vec<u8>,
    /// The position of its first byte.
    pub start: u64,
    /// The position after the last part.
    pub stored: u64,
    /// Number of parts.
    pub parts: u32,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    pub bytes: Vec<u8>,
    /// The position of its first byte.
    pub start: u64,
}

impl LogPart {
    /// The position after its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

impl Store {
    /// Writes the end of a log.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_log(&self, log: LogName<'_>, tail: LogTail) -> Result<(), StoreError> {
        let LogTail { bytes, start, stored, parts } = tail;
        let metadata = [(START, start.to_string()), (STORED, stored.to_string()), (PARTS, parts.to_string())];
        self.write_text(&log.key(), bytes, WriteCondition::None, metadata.into()).await
    }

    /// Writes a part of a log, which never changes.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if there is another part of that number, even one with equal bytes of another position; otherwise if S3 refused.
    pub async fn write_log_part(&self, log: LogName<'_>, number: u32, part: LogPart) -> Result<(), StoreError> {
        let metadata = [(START, part.start.to_string())];
        self.write_text(&log.part_key(number), part.bytes, WriteCondition::StillAt(None), metadata.into()).await
    }

    /// The end of a log, as its agent last uploaded it; `None` if it never did.
    ///
    /// # Errors
    /// If S3 refused, or it is larger than 16 MiB.
    pub async fn read_log(&self, log: LogName<'_>) -> Result<Option<LogTail>, StoreError> {
        let object = self.bucket.get(&log.key(), BYTES_MAX).await?;
        Ok(object.map(|object| LogTail {
            start: number(&object.metadata, START),
            stored: number(&object.metadata, STORED),
            parts: number(&object.metadata, PARTS),
            bytes: object.bytes,
        }))
    }

    /// The end of all that an agent uploaded of a log. If it stopped between a part and the tail, that is the part. `None` if it
    /// uploaded nothing.
    ///
    /// # Errors
    /// If S3 refused, or an object is larger than 16 MiB.
    pub async fn read_log_end(&self, log: LogName<'_>) -> Result<Option<LogTail>, StoreError> {
        let mut end = self.read_log(log).await?;
        loop {
            let number = end.as_ref().map_or(0, |end| end.parts);
            if number >= LOG_PARTS_MAX {
                return Ok(end);
            }
            let Some(part) = self.read_log_part(log, number).await? else { return Ok(end) };
            end = Some(LogTail { stored: part.end(), start: part.start, bytes: part.bytes, parts: number + 1 });
        }
    }

    /// A part of a log; `None` if there is none of that number.
    ///
    /// # Errors
    /// If S3 refused, or it is larger than 16 MiB.
    pub async fn read_log_part(&self, log: LogName<'_>, part: u32) -> Result<Option<LogPart>, StoreError> {
        let object = self.bucket.get(&log.part_key(part), BYTES_MAX).await?;
        Ok(object.map(|object| LogPart { start: number(&object.metadata, START), bytes: object.bytes }))
    }

    async fn write_text(
        &self,
        key: &str,
        bytes: Vec<u8>,
        condition: WriteCondition<'_>,
        metadata: HashMap<&str, String>,
    ) -> Result<(), StoreError> {
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.bucket.put_with_metadata(TEXT, key, bytes, condition, metadata).await.map(drop)
    }
}

/// An absent or wrong number counts as 0.
fn number<N: FromStr + Default>(metadata: &HashMap<String, String>, name: &str) -> N {
    metadata.get(name).and_then(|value| value.parse().ok()).unwrap_or_default()
}
