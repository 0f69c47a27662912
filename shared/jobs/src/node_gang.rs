//! Gangs of nodes: one job, one attempt, and n machines that run one command together, such as `torchrun` on four machines.
//!
//! `model::gang` and the configuration's `[gangs]` are about something else: instances that the reaper finds together, by a tag or a placement
//! group. A gang here is a job that Curfew launches itself, with `nodes` machines of one launch.
//!
//! No member leads. Each document is written once, or forward by compare-and-swap, and each rule is a pure function of what one LIST of the
//! launch's folder shows ([`GangListing`]). Every member evaluates [`next_gang_step`] after each own write and at each poll, and the
//! one that sees a rule fulfilled writes. A LIST shows every finished PUT, so the member that writes last sees all. A lost condition means: list again.
//!
//! - **Join.** Each node writes `member/<k>.json`. Once all are there, any of them claims head and writes `round/0.json`.
//! - **Round.** All restore the checkpoint that the round names. The command starts once all are ready. A damaged checkpoint, or a failure soon
//!   after a resume, makes the next round on the same machines.
//! - **Step.** It counts once all nodes have put their manifests, and the framework's own files do not contradict ([`step_is_complete`]).
//! - **Stop.** The first `stop.json` stays, and all follow it ([`StopOrder`]).
//! - **Result.** It needs the exit of every node ([`gang_result`]).

mod commit;
mod complete;
mod documents;
mod environment;
mod keys;
mod listing;
mod manifest;
mod nodes;
mod report;
mod restore;
mod result;
mod rounds;
mod shards;
mod sight;
mod step;

use jiff::SignedDuration;

pub use commit::{committed, owes_empty_manifest};
pub use complete::{GangCheckpoint, StepCompleteness, step_is_complete};
pub use documents::{
    FIRST_PORT, GangMember, GangRound, GangStop, NodeEnded, NodeExit, NodeExitReason, NodeReady, StopCause,
    says_peer_is_gone,
};
pub use environment::{NodeEnvironment, node_variables};
pub use keys::{
    GangDocument, GangLaunch, launches_folder, node_log_key, node_log_part_key, node_manifest_key, node_outputs_folder,
};
pub use listing::{DocumentSight, GangListing, GangRoundListing, Listed};
pub use manifest::{MetadataShards, NodeManifest, PART_RECORDS_MAX};
pub use nodes::{NodeHeartbeats, NodeOverview, describe_node_exit, first_failed_node, merge_node_heartbeats};
pub use report::{FirstFailure, GangReport};
pub use restore::{RestorePlan, RestoreScope, restore_plan};
pub use result::{gang_exit, gang_result};
pub use shards::{METADATA_BYTES_MAX, SHARDS_MAX, scan_metadata};
pub use sight::{GangSight, gang_sight, previous_gang_sight};
pub use step::{GangStep, GangWait, LeaveReason, NodeWork, OwnEnding, OwnNode, StopOrder, next_gang_step};

/// The number of a node: its place in EC2's launch, and its rank, from 0 on.
pub type Node = u8;

/// The most nodes of a gang: one page of a LIST holds all documents of a launch.
pub const NODES_MAX: Node = 32;

/// One node is no gang.
pub const NODES_MIN: Node = 2;

/// Longest time from the first `member` record to the last, by S3's clock.
pub const JOIN_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// A peer is lost if its last sign of life is so much older than the own newest heartbeat, both by S3's clock.
pub const PEER_LOST_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Time from a stop to the end of a node that AWS leaves its machine, after a warning to another one: its save and its upload.
pub const UNWARNED_TIME: SignedDuration = SignedDuration::from_secs(150);

/// Time from a stop after a failure or a loss to SIGKILL: a command that is blocked in a collective cannot save.
pub const FAILED_TIME: SignedDuration = SignedDuration::from_secs(30);

/// Longest time from a stop after a failure or a loss to the exits of all nodes: SIGKILL comes after half of it.
const EXITS_AFTER_FAILURE: SignedDuration = SignedDuration::from_secs(60);

/// A warned node ends so much before the moment that AWS said.
pub const BEFORE_NOTICE: SignedDuration = SignedDuration::from_secs(5);

/// Time after the uploads for the exit record and the log.
pub const CLOSING: SignedDuration = SignedDuration::from_secs(10);

/// The interval of polls while the command runs.
pub const POLL_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// The interval of polls while a node waits for others.
pub const POLL_EVERY_WAITING: SignedDuration = SignedDuration::from_secs(2);

/// The numbers of a gang's nodes.
fn all_nodes(nodes: Node) -> std::ops::Range<Node> {
    0..nodes.min(NODES_MAX)
}

/// Nodes for people: `node 1` or `nodes 0, 1, 2`.
fn name_nodes(nodes: &[Node]) -> String {
    let numbers: Vec<String> = nodes.iter().map(Node::to_string).collect();
    format!("{} {}", if nodes.len() == 1 { "node" } else { "nodes" }, numbers.join(", "))
}

#[cfg(test)]
mod tests;
