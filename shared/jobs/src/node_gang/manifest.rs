//! The manifest of a node's part of a step. It carries what the framework's own small files say of the other parts, so that a judge of the
//! step reads n manifests and nothing else.

use model::fault::InvalidValue;
use serde::{Deserialize, Serialize};

use super::shards::dcp_rank;
use super::{Node, SHARDS_MAX};
use crate::Checkpoint;
use crate::checkpoints::{Manifest, Tracker, check_path};

/// The most tables, and the most trackers, of a part.
pub const PART_RECORDS_MAX: usize = 64;

/// `checkpoints/<team>/<job>/<n>/<step>[.<rewrite>]/<k>/manifest.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeManifest {
    pub node: Node,
    /// Number of nodes of the gang that wrote the step.
    pub nodes: Node,
    pub launch: String,
    /// Number of the command's processes on the node; 0: not known.
    #[serde(default)]
    pub processes: u32,
    /// `true` if the node's part may be incomplete, as its directory shows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// The shards that each `.metadata` of the part names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<MetadataShards>,
    /// The trackers in the part and beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trackers: Vec<Tracker>,
    /// Its files; none on a node that writes nothing.
    #[serde(flatten)]
    pub part: Manifest,
}

/// The shards that a `.metadata` of torch's distributed checkpoints names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataShards {
    /// Path of the `.metadata`.
    pub path: String,
    /// Names of files beside it.
    pub shards: Vec<String>,
}

impl NodeManifest {
    /// Checks that it is the manifest of its place. A part without files is one, of a node that writes nothing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, checkpoint: Checkpoint, node: Node) -> Result<(), InvalidValue> {
        if self.node != node || node >= self.nodes || self.nodes > super::NODES_MAX {
            return Err(InvalidValue::new(format!("its manifest is that of node {} of {}", self.node, self.nodes)));
        }
        let shards = self.metadata.iter().fold(0_usize, |sum, one| sum.saturating_add(one.shards.len()));
        if self.metadata.len() > PART_RECORDS_MAX || self.trackers.len() > PART_RECORDS_MAX || shards > SHARDS_MAX {
            return Err(InvalidValue::new(format!("its manifest names more than {SHARDS_MAX} shards")));
        }
        self.metadata.iter().try_for_each(|table| check_path(&table.path))?;
        self.trackers.iter().try_for_each(|tracker| check_path(&tracker.name))?;
        if self.metadata.iter().flat_map(|table| &table.shards).any(|shard| dcp_rank(shard).is_none()) {
            return Err(InvalidValue::new("its manifest names a shard that is none"));
        }
        if !self.is_empty() {
            return self.part.check(checkpoint);
        }
        let Checkpoint { attempt, step, rewrite } = checkpoint;
        let Manifest { schema, number, at, .. } = self.part;
        if self.part != (Manifest { schema, attempt, step, number, rewrite, at, ..Manifest::default() }) {
            return Err(InvalidValue::new("its manifest has no files, and is not empty otherwise"));
        }
        Ok(())
    }

    /// `true` for a node that wrote nothing of the step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.part.files.is_empty()
    }
}
