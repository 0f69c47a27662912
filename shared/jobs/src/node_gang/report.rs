//! The documents of a launch about its end, for decisions of run-jobs.

use jiff::Timestamp;
use model::moment::after;

use super::result::first_failure;
use super::{
    CLOSING, DocumentSight, EXITS_AFTER_FAILURE, GangLaunch, GangListing, Node, PEER_LOST_AFTER, StopCause,
    UNWARNED_TIME, all_nodes,
};

/// Words of the nodes of a launch about its end. A machine writes it, so it shortens a wait at most, and names nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GangReport {
    /// The moment after which no node saves any more, by S3's clock; `None`: no stop was read.
    pub saves_until: Option<Timestamp>,
    /// The failure that was seen first.
    pub failed: Option<FirstFailure>,
    /// The node that is lost, and its last sign of life by S3's clock; of several the one that was heard of least recently.
    pub lost: Option<(Node, Timestamp)>,
}

/// The failure of a node's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FirstFailure {
    pub node: Node,
    /// `true` if its log says that a peer was gone, so that it was not the first.
    pub is_peer_gone: bool,
}

impl GangReport {
    #[must_use]
    pub fn from_listing(gang: &GangLaunch, listing: &GangListing, now: Timestamp) -> Self {
        let stop = listing.stop.as_ref();
        let cause = stop.and_then(|stop| match &stop.content {
            DocumentSight::Read(content) => Some((content.cause, stop.at)),
            // As for the nodes themselves.
            DocumentSight::Unreadable => Some((StopCause::Failed, stop.at)),
            DocumentSight::Unread => None,
        });
        let saves_until = cause.map(|(cause, at)| {
            let time = if cause == StopCause::Warned { UNWARNED_TIME } else { EXITS_AFTER_FAILURE };
            after(after(at, time), CLOSING)
        });
        let exits = listing.exits.iter().filter_map(|(node, exit)| Some((*node, exit.content.read()?)));
        let failed = first_failure(exits).map(|(node, exit)| FirstFailure { node, is_peer_gone: exit.is_peer_gone });
        Self { saves_until, failed, lost: find_lost(gang, listing, saves_until, now) }
    }
}

/// The node that is lost: it has left no exit, and its last sign of life is much older than that of a peer, or older than the stop after which all
/// had time to leave one.
fn find_lost(
    gang: &GangLaunch,
    listing: &GangListing,
    saves_until: Option<Timestamp>,
    now: Timestamp,
) -> Option<(Node, Timestamp)> {
    let newest = listing.beats.values().copied().max()?;
    let stopped_at = listing.stop.as_ref().map(|stop| stop.at);
    let had_time = saves_until.is_some_and(|until| now >= until) && !listing.exits.is_empty();
    let is_lost = |(_, sign): &(Node, Timestamp)| {
        newest.duration_since(*sign) >= PEER_LOST_AFTER || (had_time && stopped_at.is_some_and(|at| *sign < at))
    };
    let silent = all_nodes(gang.nodes).filter(|node| !listing.exits.contains_key(node));
    let signs = silent.filter_map(|node| Some((node, listing.last_sign(node)?)));
    signs.filter(is_lost).min_by_key(|(_, sign)| *sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_gang::tests::{at, gang};
    use crate::node_gang::{GangStop, Listed, NodeExit, NodeExitReason};

    fn saves_until(content: DocumentSight<GangStop>) -> Option<Timestamp> {
        let stop = Some(Listed { at: at(100), content });
        GangReport::from_listing(&gang(2), &GangListing { stop, ..GangListing::default() }, at(100)).saves_until
    }

    #[test]
    fn only_after_a_warning_nodes_have_time_to_save() {
        let stop = |cause| DocumentSight::Read(GangStop { cause, node: 1, until: at(9_999), why: String::new() });
        assert_eq!(saves_until(stop(StopCause::Warned)), Some(at(260)));
        for cause in [StopCause::Failed, StopCause::Lost, StopCause::NeverJoined, StopCause::Damaged] {
            assert_eq!(saves_until(stop(cause)), Some(at(170)));
        }
        assert_eq!(saves_until(DocumentSight::Unreadable), Some(at(170)));
        assert_eq!(saves_until(DocumentSight::Unread), None);
        assert_eq!(GangReport::from_listing(&gang(2), &GangListing::default(), at(0)), GangReport::default());
    }

    /// Node 1 has lost its power: the command of node 0 fails at once, and node 0 says so.
    #[test]
    fn the_node_that_was_lost_is_not_the_one_that_was_seen_to_fail() {
        let why = String::new();
        let content =
            DocumentSight::Read(GangStop { cause: StopCause::Failed, node: 0, until: at(130), why: why.clone() });
        let mut listing = GangListing { stop: Some(Listed { at: at(100), content }), ..GangListing::default() };
        listing.beats = [(0, at(110)), (1, at(60))].into();
        let report = |listing: &GangListing, now| GangReport::from_listing(&gang(2), listing, at(now));
        assert_eq!((report(&listing, 170).failed, report(&listing, 170).lost), (None, None));
        let exit = NodeExit { reason: NodeExitReason::Failed, code: Some(1), at: at(100), is_peer_gone: true, why };
        listing.exits.insert(0, Listed { at: at(111), content: DocumentSight::Read(exit) });
        let failed = Some(FirstFailure { node: 0, is_peer_gone: true });
        // Until then node 1 may still leave its exit.
        assert_eq!((report(&listing, 169).failed, report(&listing, 169).lost), (failed, None));
        assert_eq!(report(&listing, 170).lost, Some((1, at(60))));
        // Without a stop only the silence counts.
        let running =
            GangListing { stop: None, exits: [].into(), beats: [(0, at(360)), (1, at(60))].into(), ..listing };
        assert_eq!(report(&running, 361).lost, Some((1, at(60))));
        let both = GangListing { beats: [(0, at(359)), (1, at(60))].into(), ..running };
        assert_eq!(report(&both, 9_999).lost, None);
    }
}
