//! The parts of a gang's checkpoint: `<step>/<k>/files/`, and then `<step>/<k>/manifest.json`. The step counts once all parts are there and
//! `head.json` names it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use jobs::checkpoints::{MANIFEST_FILE, Manifest, ManifestFile, Tracker, check_path};
use jobs::node_gang::{
    DocumentSight, GangLaunch, METADATA_BYTES_MAX, MetadataShards, NODES_MAX, Node, NodeManifest, PART_RECORDS_MAX,
    RestorePlan, SHARDS_MAX, node_manifest_key, scan_metadata,
};
use jobs::{Checkpoint, JobId};

use super::send::blocking;
use super::{CheckpointContent, CheckpointError, FileOwner, IF_LOST, LocalFile, fetch, folder, job_folder, read_place};
use crate::bucket::{FoundObject, ListDepth};
use crate::document::read;
use crate::{BYTES_MAX, Store, StoreError};

/// A page has 1,000 parts and folders of files; more of one attempt are not looked at.
const PAGES_MAX: usize = 10;

/// The facts of a node's part beside its files.
#[derive(Debug, Clone)]
pub struct NodePart {
    pub gang: GangLaunch,
    pub node: Node,
    /// Number of the command's processes on the node; 0: not known.
    pub processes: u32,
    /// `true` if the part may be incomplete.
    pub unverified: bool,
    /// The trackers in the directory.
    pub trackers: Vec<Tracker>,
}

/// The manifest of a part, as a LIST shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedPart {
    pub checkpoint: Checkpoint,
    pub node: Node,
    /// Time at which S3 took it.
    pub at: Timestamp,
}

impl NodePart {
    fn to_manifest(&self, part: Manifest, metadata: Vec<MetadataShards>) -> NodeManifest {
        let trackers = self.trackers.iter().filter(|tracker| check_path(&tracker.name).is_ok()).take(PART_RECORDS_MAX);
        NodeManifest {
            node: self.node,
            nodes: self.gang.nodes,
            launch: self.gang.launch.clone(),
            processes: self.processes,
            unverified: self.unverified,
            metadata,
            trackers: trackers.cloned().collect(),
            part,
        }
    }
}

impl Store {
    /// Uploads a node's part of a checkpoint, as [`Store::upload_checkpoint`] does a whole one.
    ///
    /// # Errors
    /// As [`Store::upload_checkpoint`].
    pub async fn upload_part(
        &self,
        place: &NodePart,
        checkpoint: Checkpoint,
        content: CheckpointContent,
        owner: &FileOwner,
        now: Timestamp,
    ) -> Result<NodeManifest, CheckpointError> {
        let job = &place.gang.job;
        let metadata = read_metadata(&content.files, owner).await?;
        let folder = format!("{}{}/", folder(job, checkpoint), place.node);
        let part = self.upload_files(&folder, checkpoint, content, owner, now).await?;
        let manifest = place.to_manifest(part, metadata);
        self.write_manifest(&node_manifest_key(job, checkpoint, place.node), &manifest).await?;
        Ok(manifest)
    }

    /// Writes the manifest of a node that has nothing of a step.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_empty_part(
        &self,
        place: &NodePart,
        checkpoint: Checkpoint,
        now: Timestamp,
    ) -> Result<(), CheckpointError> {
        let Checkpoint { attempt, step, rewrite } = checkpoint;
        let schema = jobs::documents::SCHEMA;
        let part = Manifest { schema, attempt, step, rewrite, at: now, ..Manifest::default() };
        let key = node_manifest_key(&place.gang.job, checkpoint, place.node);
        self.write_manifest(&key, &place.to_manifest(part, Vec::new())).await
    }

    /// Deletes the manifest of a part that no head names, so that nobody takes it for whole.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn delete_part(&self, job: &JobId, checkpoint: Checkpoint, node: Node) -> Result<(), StoreError> {
        self.bucket.delete_versions(&node_manifest_key(job, checkpoint, node)).await
    }

    /// Writes a deleted manifest of a part again.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn put_part_back(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        part: &NodeManifest,
    ) -> Result<(), CheckpointError> {
        self.write_manifest(&node_manifest_key(job, checkpoint, part.node), part).await
    }

    /// The parts of an attempt's checkpoints, by one LIST for each thousand of them.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn list_parts(&self, job: &JobId, attempt: u32) -> Result<Vec<ListedPart>, StoreError> {
        self.list_parts_below(job, &format!("{}{attempt}/", job_folder(job))).await
    }

    async fn list_parts_below(&self, job: &JobId, prefix: &str) -> Result<Vec<ListedPart>, StoreError> {
        let listed = self.bucket.list_part(prefix, ListDepth::OutsideFiles, None, PAGES_MAX).await?;
        let folder = job_folder(job);
        let part = |key: &str, at| {
            let (place, node) =
                key.strip_prefix(&folder)?.strip_suffix(MANIFEST_FILE)?.trim_end_matches('/').rsplit_once('/')?;
            let (checkpoint, node) = (read_place(&format!("{place}/"))?, node.parse().ok()?);
            // Only Curfew's own spelling counts.
            let is_own = node < NODES_MAX && node_manifest_key(job, checkpoint, node) == key;
            is_own.then_some(ListedPart { checkpoint, node, at })
        };
        Ok(listed.items.iter().filter_map(|item| part(&item.key, item.written_at)).collect())
    }

    /// The manifest of a part; [`DocumentSight::Unread`] if it is gone.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_part(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        node: Node,
    ) -> Result<DocumentSight<NodeManifest>, StoreError> {
        let key = node_manifest_key(job, checkpoint, node);
        let Some(FoundObject { bytes, .. }) = self.bucket.find(&key, BYTES_MAX).await? else {
            return Ok(DocumentSight::Unread);
        };
        let manifest = bytes.ok().and_then(|bytes| read(&bytes, &self.bucket.address(&key), IF_LOST).ok());
        Ok(manifest.map_or(DocumentSight::Unreadable, DocumentSight::Read))
    }

    /// The parts of a checkpoint that a gang has written, by node; `None` if it has none, as one of a single machine.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] where a part is missing or cannot be read; else if S3 refused.
    pub async fn read_parts(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
    ) -> Result<Option<Vec<NodeManifest>>, CheckpointError> {
        let listed = self.list_parts_below(job, &folder(job, checkpoint)).await?;
        if listed.is_empty() {
            return Ok(None);
        }
        let damaged = |words: String| Err(CheckpointError::Damaged(words));
        let mut parts: Vec<NodeManifest> = Vec::new();
        let nodes = |parts: &[NodeManifest]| parts.first().map_or(1, |first| first.nodes);
        let mut node = 0;
        while node < nodes(&parts) {
            let manifest = match self.read_part(job, checkpoint, node).await? {
                DocumentSight::Read(manifest) => manifest,
                DocumentSight::Unread => return damaged(format!("node {node} has no manifest")),
                DocumentSight::Unreadable => return damaged(format!("the manifest of node {node} cannot be read")),
            };
            if let Err(wrong) = manifest.check(checkpoint, node) {
                return damaged(format!("node {node}: {wrong}"));
            }
            if parts.first().is_some_and(|first| (first.nodes, &first.launch) != (manifest.nodes, &manifest.launch)) {
                return damaged(format!("another launch wrote the part of node {node}"));
            }
            parts.push(manifest);
            node = node.saturating_add(1);
        }
        Ok(Some(parts))
    }

    /// Writes the files of a plan into an existing directory, each from the part that has it, as [`Store::restore_checkpoint`] does.
    ///
    /// # Errors
    /// As [`Store::restore_checkpoint`].
    pub async fn restore_parts(
        &self,
        job: &JobId,
        checkpoint: Checkpoint,
        plan: &RestorePlan,
        into: PathBuf,
        owner: &FileOwner,
    ) -> Result<(), CheckpointError> {
        let mut by_node: BTreeMap<Node, Vec<ManifestFile>> = BTreeMap::new();
        for file in &plan.manifest.files {
            by_node.entry(plan.sources.get(&file.path).copied().unwrap_or(0)).or_default().push(file.clone());
        }
        for (node, files) in by_node {
            let folder = format!("{}{node}/files/", folder(job, checkpoint));
            fetch::fetch_files(&self.bucket, &folder, &files, into.clone(), owner).await?;
        }
        Ok(())
    }
}

/// The shards that each `.metadata` of these files names. Those of a table that is too large, or of too many tables, stay unknown.
async fn read_metadata(files: &[LocalFile], owner: &FileOwner) -> Result<Vec<MetadataShards>, CheckpointError> {
    let is_table = |file: &&LocalFile| file.path.rsplit('/').next() == Some(".metadata");
    // A larger one names shards that stay unknown.
    let bytes_max = u64::try_from(METADATA_BYTES_MAX).unwrap_or(u64::MAX);
    let is_small = |file: &&LocalFile| file.found.is_none_or(|found| found.bytes() <= bytes_max);
    let (mut tables, mut count) = (Vec::new(), 0_usize);
    for file in files.iter().filter(is_table).filter(is_small).take(PART_RECORDS_MAX) {
        let (from, owner) = (file.from.clone(), owner.clone());
        let shards = blocking(&file.from, move || {
            let bytes = owner.run(|| std::fs::read(&from));
            let bytes = bytes.map_err(|error| CheckpointError::Disk { path: from, error })?;
            Ok(scan_metadata(&bytes))
        });
        let Some(shards) = shards.await? else { continue };
        count = count.saturating_add(shards.len());
        if count <= SHARDS_MAX {
            tables.push(MetadataShards { path: file.path.clone(), shards: shards.into_iter().collect() });
        }
    }
    Ok(tables)
}
