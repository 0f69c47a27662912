//! The heartbeats of the nodes of a gang.

use futures::{StreamExt as _, stream};
use jobs::node_gang::{GangLaunch, NodeHeartbeats};
use store::{MachineDocuments as _, Store, StoreError};

use crate::resolve_job::AT_ONCE;

/// Reads the last heartbeat of each node. Returns the readable ones, and the failures.
pub(crate) async fn read_node_heartbeats(store: &Store, gang: &GangLaunch) -> (NodeHeartbeats, Vec<StoreError>) {
    let reads = (0..gang.nodes).map(|node| async move { (node, store.read_node_heartbeat(gang, node).await) });
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let (mut beats, mut failures) = (NodeHeartbeats::new(), Vec::new());
    while let Some((node, read)) = reads.next().await {
        match read.map(store::MachineDocument::into_parts) {
            Ok((beat, refused)) => {
                beats.extend(beat.map(|beat| (node, (beat.at, beat.heartbeat))));
                failures.extend(refused);
            }
            Err(error) => failures.push(error),
        }
    }
    (beats, failures)
}
