//! Documents by which the members of a gang decide together ([`jobs::node_gang`]).

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jobs::node_gang::{GangDocument, GangLaunch, GangListing, Node, launches_folder};
use jobs::{Heartbeat, JobId, MACHINE_DOCUMENT_BYTES_MAX};
use serde::Serialize;

use crate::bucket::{FoundObject, WriteCondition};
use crate::document::stamped;
use crate::{Store, StoreError};

/// The documents of 32 nodes and several rounds are a quarter of one page; what else a machine puts there is not listed.
const PAGES_MAX: usize = 1;

/// The most documents that one look reads; a later look reads the rest.
const READ_MAX: usize = 256;

/// The most folders of an attempt: a launch is repeated with the same token, so there is seldom a second one. A machine can make more, and hides by
/// that only what its own job did.
const FOLDERS_MAX: usize = 16;

/// Reads at once.
const AT_ONCE: usize = 16;

impl Store {
    /// The documents of a launch, by one LIST. What `known` has of them is not read again: each is written once.
    ///
    /// # Errors
    /// If S3 refused.
    pub(super) async fn list_gang(&self, gang: &GangLaunch, known: &GangListing) -> Result<GangListing, StoreError> {
        let mut listing = self.list_gang_keys(gang).await?;
        listing.take_known(known);
        let unread: Vec<GangDocument> = listing.unread().into_iter().take(READ_MAX).collect();
        let read = stream::iter(unread).map(async |document| {
            let found = self.bucket.find(&gang.key(document), MACHINE_DOCUMENT_BYTES_MAX).await?;
            Ok::<_, StoreError>((document, found.map(|FoundObject { bytes, .. }| bytes)))
        });
        let read: Vec<_> = read.buffered(AT_ONCE).try_collect().await?;
        for (document, found) in read {
            // One that is gone since is not listed the next time.
            let Some(bytes) = found else { continue };
            let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            listing.put(gang, document, text.as_deref());
        }
        Ok(listing)
    }

    async fn list_gang_keys(&self, gang: &GangLaunch) -> Result<GangListing, StoreError> {
        let mut keys = Vec::new();
        self.bucket.each_listed(&gang.folder(), PAGES_MAX, |object| keys.push((object.key, object.written_at))).await?;
        Ok(GangListing::from_keys(gang, keys.iter().map(|(key, at)| (key.as_str(), *at))))
    }

    /// Finds the launch of an attempt by what its nodes have left, because the state of a job names only the newest launch. Of several it is the one
    /// that has begun a round, and sent the newest heartbeat.
    ///
    /// # Errors
    /// If S3 refused, or there are more folders than launches can make.
    pub async fn find_gang(&self, job: &JobId, attempt: u32, nodes: Node) -> Result<Option<GangLaunch>, StoreError> {
        let folders = self.bucket.folders(&launches_folder(job, attempt), FOLDERS_MAX).await?;
        let launches: Vec<GangLaunch> =
            folders.iter().filter_map(|folder| GangLaunch::from_folder(job, attempt, nodes, folder)).collect();
        if launches.len() < 2 {
            return Ok(launches.into_iter().next());
        }
        let mut found = Vec::new();
        for gang in launches {
            let listing = self.list_gang_keys(&gang).await?;
            found.push((!listing.rounds.is_empty(), listing.beats.into_values().max(), gang));
        }
        Ok(found.into_iter().max_by_key(|(has_round, beat, _)| (*has_round, *beat)).map(|(.., gang)| gang))
    }

    /// Writes a document of a gang, if there is none. Returns whether there was none.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_gang_document(
        &self,
        gang: &GangLaunch,
        document: GangDocument,
        content: &impl Serialize,
    ) -> Result<bool, StoreError> {
        let key = gang.key(document);
        let bytes = stamped(content, &self.bucket.address(&key))?;
        match self.bucket.put(&key, bytes, WriteCondition::StillAt(None)).await {
            Ok(_) => Ok(true),
            Err(StoreError::Lost { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes the heartbeat of a node.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn beat_as_node(&self, gang: &GangLaunch, node: Node, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.write_heartbeat(&gang.key(GangDocument::Beat(node)), heartbeat).await
    }
}
