//! The nodes of a gang for people.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use model::id::ResourceId;
use serde::Serialize;

use super::result::first_failure;
use super::{GangListing, Node, NodeExit, NodeExitReason, PEER_LOST_AFTER};
use crate::{Heartbeat, JobMachine, WorkSigns};

/// The last heartbeat of each node that has sent one, and the time at which S3 took it.
pub type NodeHeartbeats = BTreeMap<Node, (Timestamp, Heartbeat)>;

/// One node, as far as its documents say it. `None`: unknown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeOverview {
    pub node: Node,
    pub instance: ResourceId,
    /// Address of its primary interface.
    pub address: Option<IpAddr>,
    /// Activity of its agent, or the end of its command.
    pub doing: Option<String>,
    /// Step of the newest checkpoint in its own directory.
    pub step: Option<u64>,
    /// Use of its busiest GPU over the last minute.
    pub gpu_percent: Option<f64>,
    /// Time of its last heartbeat, by S3's clock.
    pub at: Option<Timestamp>,
    /// `true` if its agent has written its last.
    #[serde(skip)]
    pub has_exited: bool,
}

impl NodeOverview {
    /// Describes all nodes of a machine. The state says which instances they are: a record of another instance does not count.
    #[must_use]
    pub fn from_documents(machine: &JobMachine, listing: &GangListing, beats: &NodeHeartbeats) -> Vec<Self> {
        let nodes = (0..).zip(machine.instances());
        nodes
            .map(|(node, instance)| {
                let member = listing.members.get(&node).and_then(|member| member.content.read());
                let member = member.filter(|member| member.instance == *instance);
                let listed_exit = listing.exits.get(&node);
                let exit = listed_exit.and_then(|exit| exit.content.read());
                let beat = beats.get(&node);
                let doing = beat.map(|(_, beat)| beat.doing.clone()).filter(|doing| !doing.is_empty());
                Self {
                    node,
                    instance: instance.clone(),
                    address: member.map(|member| member.address),
                    doing: exit.map(describe_node_exit).or(doing),
                    step: beat.and_then(|(_, beat)| beat.step),
                    gpu_percent: beat.and_then(|(_, beat)| beat.gpu_percent).filter(|_| exit.is_none()),
                    at: beat.map(|(at, _)| *at),
                    has_exited: listed_exit.is_some(),
                }
            })
            .collect()
    }

    /// Returns `true` if the node was heard of lately, and has not ended.
    #[must_use]
    pub fn is_alive(&self, now: Timestamp) -> bool {
        !self.has_exited && self.at.is_some_and(|at| now.duration_since(at) < PEER_LOST_AFTER)
    }
}

/// Describes the end of a node in a few words: `failed, exit code 7`.
#[must_use]
pub fn describe_node_exit(exit: &NodeExit) -> String {
    let words = match exit.reason {
        NodeExitReason::Succeeded => "succeeded",
        NodeExitReason::Failed => "failed",
        NodeExitReason::Interrupted => "interrupted",
        NodeExitReason::Stopped => "ended by Curfew",
        NodeExitReason::Expired => "expired",
        NodeExitReason::Fenced => "replaced by another launch",
        NodeExitReason::Broken => "its agent gave up",
    };
    match exit.code.filter(|_| exit.reason == NodeExitReason::Failed) {
        Some(code) => format!("{words}, exit code {code}"),
        None => words.to_owned(),
    }
}

/// The node whose failure came first, by the rule of [`gang_result`](super::gang_result), as far as exits were read.
#[must_use]
pub fn first_failed_node(listing: &GangListing) -> Option<Node> {
    let exits = listing.exits.iter().filter_map(|(node, exit)| Some((*node, exit.content.read()?)));
    first_failure(exits).map(|(node, _)| node)
}

/// The heartbeat of a gang, for what shows that of one machine: its time and activity are those of the node that was silent the longest, its step and
/// pace the highest of all. Each warning names its node. `None` without any heartbeat.
#[must_use]
pub fn merge_node_heartbeats(beats: &NodeHeartbeats) -> Option<(Timestamp, Heartbeat)> {
    let (at, oldest) = beats.values().min_by_key(|(at, _)| *at)?;
    let all = || beats.values().map(|(_, beat)| beat);
    let highest = |figures: &mut dyn Iterator<Item = f64>| figures.max_by(f64::total_cmp);
    let warnings =
        beats.iter().flat_map(|(node, (_, beat))| beat.warnings.iter().map(|warning| warning.of_node(*node)));
    let merged = Heartbeat {
        step: all().filter_map(|beat| beat.step).max(),
        steps_per_hour: highest(&mut all().filter_map(|beat| beat.steps_per_hour)),
        gpu_percent: highest(&mut all().filter_map(|beat| beat.gpu_percent)),
        unsaved_seconds: all().filter_map(|beat| beat.unsaved_seconds).max(),
        warnings: warnings.collect(),
        // They are of one machine.
        gpus: None,
        work: WorkSigns::default(),
        ..oldest.clone()
    };
    Some((*at, merged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::{at, gang, member};
    use crate::node_gang::{DocumentSight, GangDocument, Listed};
    use crate::{AgentWarning, AgentWarningKind};

    fn machine() -> JobMachine {
        let (instance, members) = ("i-0".into(), vec!["i-1".into(), "i-2".into()]);
        JobMachine { instance, members, launch: gang(3).launch, ..crate::next::tests::fixture::placed("i-0", 2) }
    }

    fn beat(seconds: i64, doing: &str, step: Option<u64>, gpu_percent: Option<f64>) -> (Timestamp, Heartbeat) {
        let beat = format!(r#"{{"at": "{}", "attempt": 2, "doing": "{doing}"}}"#, at(seconds));
        (at(seconds), Heartbeat { step, gpu_percent, ..serde_json::from_str(&beat).unwrap() })
    }

    fn exit(reason: NodeExitReason, code: Option<i32>, seconds: i64) -> NodeExit {
        NodeExit { reason, code, at: at(seconds), is_peer_gone: false, why: String::new() }
    }

    fn listed<T>(content: T) -> Listed<T> {
        Listed { at: at(0), content: DocumentSight::Read(content) }
    }

    #[test]
    fn a_node_is_shown_by_its_own_documents_and_the_unknown_as_unknown() {
        let mut listing = GangListing::default();
        listing.members.insert(0, listed(member(0)));
        // A record of a stray machine.
        listing.members.insert(1, listed(member(9)));
        listing.add(GangDocument::Member(2), at(0));
        let beats =
            NodeHeartbeats::from([(0, beat(60, "running", Some(120), Some(97.0))), (1, beat(50, "", None, None))]);
        let nodes = NodeOverview::from_documents(&machine(), &listing, &beats);
        let shown: Vec<_> =
            nodes.iter().map(|node| (node.instance.as_str(), node.address, node.doing.as_deref())).collect();
        assert_eq!(
            shown,
            [("i-0", Some(member(0).address), Some("running")), ("i-1", None, None), ("i-2", None, None)]
        );
        assert_eq!((nodes[0].step, nodes[0].gpu_percent, nodes[0].at), (Some(120), Some(97.0), Some(at(60))));
        assert_eq!((nodes[2].step, nodes[2].gpu_percent, nodes[2].at), (None, None, None));
        let alive = |now| nodes.iter().filter(|node| node.is_alive(now)).count();
        assert_eq!((alive(at(70)), alive(at(355)), alive(at(400))), (2, 1, 0));
        assert_eq!(serde_json::to_value(&nodes[2]).unwrap()["gpu_percent"], serde_json::Value::Null);
    }

    #[test]
    fn an_end_is_shown_instead_of_the_last_activity() {
        let mut listing = GangListing::default();
        for (node, exit) in
            [(0, exit(NodeExitReason::Stopped, Some(1), 3)), (1, exit(NodeExitReason::Failed, Some(7), 2))]
        {
            listing.exits.insert(node, listed(exit));
        }
        let beats =
            NodeHeartbeats::from([(0, beat(60, "running", None, Some(5.0))), (2, beat(60, "running", None, None))]);
        let nodes = NodeOverview::from_documents(&machine(), &listing, &beats);
        let doing: Vec<_> = nodes.iter().map(|node| node.doing.as_deref().unwrap()).collect();
        assert_eq!(doing, ["ended by Curfew", "failed, exit code 7", "running"]);
        assert_eq!(nodes.iter().filter(|node| node.is_alive(at(61))).count(), 1);
        assert_eq!((nodes[0].gpu_percent, first_failed_node(&listing)), (None, Some(1)));
        // One that fails because a peer is gone was not the first.
        listing.exits.insert(1, listed(NodeExit { is_peer_gone: true, ..exit(NodeExitReason::Failed, Some(1), 1) }));
        listing.exits.insert(2, listed(exit(NodeExitReason::Failed, None, 2)));
        assert_eq!(first_failed_node(&listing), Some(2));
        assert_eq!(first_failed_node(&GangListing::default()), None);
    }

    #[test]
    fn the_heartbeat_of_a_gang_is_its_oldest_one() {
        assert_eq!(merge_node_heartbeats(&NodeHeartbeats::new()), None);
        let (_, mut warned) = beat(60, "running", Some(120), Some(97.0));
        warned.warnings = vec![AgentWarning::new(AgentWarningKind::Stalled, "nothing happens")];
        let beats = NodeHeartbeats::from([(0, (at(60), warned)), (1, beat(50, "flushing", Some(110), None))]);
        let (taken_at, merged) = merge_node_heartbeats(&beats).unwrap();
        assert_eq!((taken_at, merged.doing.as_str()), (at(50), "flushing"));
        assert_eq!((merged.step, merged.gpu_percent), (Some(120), Some(97.0)));
        assert_eq!(merged.warnings[0].words, "node 0: nothing happens");
    }
}
