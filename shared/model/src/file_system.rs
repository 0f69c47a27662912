//! Amazon `FSx` for Lustre file systems, and the evidence that nobody uses them.

use jiff::Timestamp;
use serde::Serialize;

use crate::id::{Region, ResourceId};
use crate::instance::Tags;
use crate::sagemaker::ActivityQuestion;

/// A file system that exists and is billed, as `DescribeFileSystems` returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LustreFileSystem {
    pub id: ResourceId,
    pub region: Region,
    pub created_at: Timestamp,
    pub capacity_gib: u64,
    /// `SSD`, `HDD` or `INTELLIGENT_TIERING`.
    pub storage_type: String,
    /// Its durability as the API writes it: `SCRATCH_2`.
    pub deployment: String,
    /// Throughput in MB/s for each TiB; scratch file systems have none of their own.
    pub throughput_mbps_per_tib: Option<u32>,
    pub tags: Tags,
}

impl LustreFileSystem {
    /// Beginning of each id.
    pub const ID_PREFIX: &'static str = "fs-";
}

/// A sum over all servers of a file system, of which every use by a client shows in one (`FSx` for Lustre user guide, "Amazon `FSx` for Lustre metrics
/// and dimensions").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileSystemSignal {
    BytesRead,
    BytesWritten,
    MetadataOperations,
}

impl FileSystemSignal {
    pub const ALL: [Self; 3] = [Self::BytesRead, Self::BytesWritten, Self::MetadataOperations];

    /// Name of its metric.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        match self {
            Self::BytesRead => "DataReadBytes",
            Self::BytesWritten => "DataWriteBytes",
            Self::MetadataOperations => "MetadataOperations",
        }
    }
}

pub type FileSystemQuestion = ActivityQuestion<FileSystemSignal>;

/// Use of a file system over its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystemUse {
    /// No client read, wrote or asked for anything.
    Idle {
        from: Timestamp,
        to: Timestamp,
    },
    Used,
    /// Not asked about, or its metrics report too seldom.
    Unknown,
}
