//! The result of a gang: a pure function of the exits of all nodes of one launch.

use std::collections::BTreeMap;

use super::{
    DocumentSight, GangLaunch, GangListing, Listed, Node, NodeExit, NodeExitReason, StopCause, all_nodes, name_nodes,
};
use crate::{ExitReason, ExitRecord, HeadResult, clean_machine_text};

/// The result of the exits of a launch. `None` while one is missing or was not read, and where no command came to a result: a machine was lost, the
/// time is over, or an agent gave up. After a stop for a lost machine no failure counts, whatever an exit says.
#[must_use]
pub fn gang_result(
    gang: &GangLaunch,
    exits: &BTreeMap<Node, Listed<NodeExit>>,
    stop: Option<StopCause>,
) -> Option<HeadResult> {
    let exits: Vec<(Node, &NodeExit)> = all_nodes(gang.nodes)
        .map(|node| Some((node, exits.get(&node)?.content.read()?)))
        .collect::<Option<_>>()
        .filter(|exits: &Vec<_>| !exits.is_empty())?;
    let with = |reason: NodeExitReason| exits.iter().filter(move |(_, exit)| exit.reason == reason);
    let no_result =
        [NodeExitReason::Interrupted, NodeExitReason::Expired, NodeExitReason::Fenced, NodeExitReason::Broken];
    if no_result.into_iter().any(|reason| with(reason).next().is_some()) {
        return None;
    }
    let last = exits.iter().map(|(_, exit)| exit.at).max()?;
    let first = first_failure(exits.iter().copied());
    if first.is_some() && stop.is_some_and(StopCause::is_loss) {
        return None;
    }
    let Some((node, exit)) = first else {
        let all_succeeded = with(NodeExitReason::Succeeded).count() == exits.len();
        return all_succeeded.then(|| HeadResult {
            succeeded: true,
            code: Some(0),
            why: format!("the command has ended with success on all {} nodes", exits.len()),
            at: last,
            is_final: false,
        });
    };
    let code = exit.code.map_or_else(|| "ended by a signal".to_owned(), |code| format!("exit code {code}"));
    let stopped: Vec<Node> = with(NodeExitReason::Stopped).map(|(node, _)| *node).collect();
    let later: Vec<Node> = with(NodeExitReason::Failed).map(|(node, _)| *node).filter(|other| *other != node).collect();
    let verb = if stopped.len() == 1 { "was" } else { "were" };
    let ended = (!stopped.is_empty()).then(|| format!("{} {verb} ended by Curfew", name_nodes(&stopped)));
    let after = (!later.is_empty()).then(|| format!("{} failed after it", name_nodes(&later)));
    let peer = exit.is_peer_gone.then(|| "its log says that another node was gone".to_owned());
    let others: Vec<String> = peer.into_iter().chain(after).chain(ended).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    let why = if exit.why.is_empty() { String::new() } else { format!(": {}", exit.why) };
    let why = format!("node {node}, {code} at {}{others}{why}", exit.at.strftime("%H:%M:%S"));
    Some(HeadResult { succeeded: false, code: exit.code, why: clean_machine_text(&why), at: last, is_final: false })
}

/// The failure that came first, of some exits. A connection that broke tells of another node.
pub(super) fn first_failure<'a>(exits: impl Iterator<Item = (Node, &'a NodeExit)>) -> Option<(Node, &'a NodeExit)> {
    let failed = exits.filter(|(_, exit)| exit.reason == NodeExitReason::Failed);
    failed.min_by_key(|(node, exit)| (exit.is_peer_gone, exit.at, *node))
}

/// The exit record of a whole gang, by which run-jobs judges an attempt whose last writer left no result in head. `None` until the exits of all nodes
/// are there and read.
#[must_use]
pub fn gang_exit(gang: &GangLaunch, listing: &GangListing) -> Option<ExitRecord> {
    let exits = &listing.exits;
    let stop = match listing.stop.as_ref().map(|stop| &stop.content) {
        Some(DocumentSight::Unread) => return None,
        // What cannot be read is a failure, as it is for the members.
        Some(DocumentSight::Unreadable) => Some(StopCause::Failed),
        Some(DocumentSight::Read(stop)) => Some(stop.cause),
        None => None,
    };
    if let Some(HeadResult { succeeded, code, why, at, is_final }) = gang_result(gang, exits, stop) {
        let reason = if succeeded { ExitReason::Succeeded } else { ExitReason::Failed };
        return Some(ExitRecord { attempt: gang.attempt, at, reason, code, why, is_final });
    }
    let read: Vec<&NodeExit> =
        all_nodes(gang.nodes).map(|node| exits.get(&node)?.content.read()).collect::<Option<_>>()?;
    let reasons = [
        (NodeExitReason::Fenced, ExitReason::Fenced),
        (NodeExitReason::Interrupted, ExitReason::Interrupted),
        (NodeExitReason::Broken, ExitReason::Broken),
        (NodeExitReason::Expired, ExitReason::Expired),
    ];
    let found = reasons
        .into_iter()
        .find_map(|(of_node, reason)| Some((read.iter().find(|exit| exit.reason == of_node)?.why.clone(), reason)));
    // Only a lost machine keeps failures from being a result.
    let (why, reason) = found.unwrap_or((String::new(), ExitReason::Interrupted));
    let at = read.iter().map(|exit| exit.at).max()?;
    Some(ExitRecord { attempt: gang.attempt, at, reason, code: None, why, is_final: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::{at, gang};
    use NodeExitReason::{Failed, Interrupted, Stopped, Succeeded};

    fn exit(reason: NodeExitReason, code: Option<i32>, seconds: i64) -> NodeExit {
        NodeExit { reason, code, at: at(seconds), is_peer_gone: false, why: String::new() }
    }

    fn listed(exit: &NodeExit) -> Listed<NodeExit> {
        Listed { at: at(0), content: DocumentSight::Read(exit.clone()) }
    }

    fn check(exits: &[NodeExit], expect: Option<&str>) {
        let all = (0..).zip(exits.iter().map(listed)).collect();
        let gang = gang(u8::try_from(exits.len()).unwrap());
        let result = gang_result(&gang, &all, Some(StopCause::Failed));
        let after_loss = gang_result(&gang, &all, Some(StopCause::Lost));
        assert!(after_loss.is_none_or(|result| result.succeeded));
        assert_eq!(result.map(|result| result.why).as_deref(), expect);
    }

    #[test]
    fn the_first_failing_node_is_named() {
        let stopped = exit(Stopped, None, 20);
        let failed = exit(Failed, Some(7), 10);
        let all = [stopped.clone(), stopped.clone(), stopped.clone(), failed.clone()];
        check(&all, Some("node 3, exit code 7 at 00:53:30 (nodes 0, 1, 2 were ended by Curfew)"));
        let early = NodeExit { is_peer_gone: true, ..exit(Failed, Some(1), 9) };
        let words = "node 2, exit code 7 at 00:53:30 (node 0 failed after it; node 1 was ended by Curfew)";
        check(&[early, stopped, failed.clone()], Some(words));
        let alone = NodeExit { is_peer_gone: true, ..exit(Failed, Some(1), 9) };
        let words =
            "node 0, exit code 1 at 00:53:29 (its log says that another node was gone; node 1 was ended by Curfew)";
        check(&[alone, exit(Stopped, None, 20)], Some(words));
        let killed = exit(Failed, None, 9);
        check(&[failed, killed], Some("node 1, ended by a signal at 00:53:29 (node 0 failed after it)"));
    }

    #[test]
    fn run_jobs_reads_the_exits_like_the_last_writer() {
        let gang = gang(2);
        let reason = |exits: &[NodeExit]| {
            let listing =
                GangListing { exits: (0..).zip(exits.iter().map(listed)).collect(), ..GangListing::default() };
            gang_exit(&gang, &listing).map(|exit| exit.reason)
        };
        let (good, failed) = (exit(Succeeded, Some(0), 1), exit(Failed, Some(7), 2));
        assert_eq!(reason(&[good.clone(), good.clone()]), Some(ExitReason::Succeeded));
        assert_eq!(reason(&[good.clone(), failed.clone()]), Some(ExitReason::Failed));
        assert_eq!(reason(&[failed, exit(Interrupted, None, 3)]), Some(ExitReason::Interrupted));
        assert_eq!(reason(&[good.clone(), exit(NodeExitReason::Broken, None, 3)]), Some(ExitReason::Broken));
        assert_eq!(reason(&[good]), None);
    }

    #[test]
    fn a_result_needs_every_exit_and_no_loss() {
        let good = exit(Succeeded, Some(0), 1);
        check(&[good.clone(), good.clone()], Some("the command has ended with success on all 2 nodes"));
        check(&[good.clone(), exit(Stopped, None, 1)], None);
        check(&[exit(Failed, Some(1), 1), exit(Interrupted, Some(1), 1)], None);
        let one = BTreeMap::from([(0, listed(&good))]);
        assert_eq!(gang_result(&gang(2), &one, None), None);
        let unread = BTreeMap::from([(0, listed(&good)), (1, Listed { at: at(0), content: DocumentSight::Unread })]);
        assert_eq!(gang_result(&gang(2), &unread, None), None);
        assert_eq!(gang_result(&gang(0), &BTreeMap::new(), None), None);
    }
}
