//! The rounds of an attempt: how each came to its end, and the checkpoint of the next one.

use jiff::Timestamp;

use super::{DocumentSight, GangLaunch, GangListing, GangRoundListing, Node, NodeEnded, NodeReady, all_nodes};
use crate::checkpoints::{DOUBTED_FOR, to_restore};
use crate::{Checkpoint, Head};

/// Each round leaves out a checkpoint of head, which names fewer.
const ROUNDS_MAX: u32 = 1_000;

/// The end of a round, as far as the listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RoundVerdict {
    Open,
    /// Something is there that was not read.
    Unknown,
    Damaged {
        node: Node,
        why: String,
    },
    Failed {
        node: Node,
        ended: NodeEnded,
        at: Timestamp,
    },
}

/// The round after one that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextRound {
    Unknown,
    /// The attempt is over.
    None,
    /// Its checkpoint; `None`: all begin anew.
    With(Option<Checkpoint>),
}

/// Time of the last `ready` by S3's clock, if all nodes are ready and whole.
pub(super) fn started_at(round: &GangRoundListing, nodes: Node) -> Option<Timestamp> {
    let is_whole = |node: &Node| {
        let ready = round.ready.get(node)?;
        matches!(ready.content.read()?, NodeReady::Restored).then_some(ready.at)
    };
    let all: Option<Vec<Timestamp>> = all_nodes(nodes).map(|node| is_whole(&node)).collect();
    all?.into_iter().max()
}

/// `true` once all nodes have ended a round.
pub(super) fn all_ended(round: &GangRoundListing, nodes: Node) -> bool {
    all_nodes(nodes).all(|node| round.ended.contains_key(&node))
}

/// A damaged part is certain and comes first; of several failures the earliest counts, and one that tells of another node's after all others.
pub(super) fn judge_round(round: &GangRoundListing) -> RoundVerdict {
    for (node, ready) in &round.ready {
        match &ready.content {
            DocumentSight::Read(NodeReady::Damaged { why }) => {
                return RoundVerdict::Damaged { node: *node, why: why.clone() };
            }
            DocumentSight::Unreadable => {
                return RoundVerdict::Damaged { node: *node, why: "its answer cannot be read".to_owned() };
            }
            DocumentSight::Read(NodeReady::Restored) | DocumentSight::Unread => {}
        }
    }
    let unreadable = |at| NodeEnded { code: None, at, by_curfew: false, is_peer_gone: false };
    let ended = round.ended.iter().filter_map(|(node, listed)| match &listed.content {
        DocumentSight::Read(ended) => Some((*node, *ended, listed.at)),
        DocumentSight::Unreadable => Some((*node, unreadable(listed.at), listed.at)),
        DocumentSight::Unread => None,
    });
    let first = ended
        .filter(|(_, ended, _)| ended.failed())
        .min_by_key(|(node, ended, _)| (ended.is_peer_gone, ended.at, *node));
    if let Some((node, ended, at)) = first {
        return RoundVerdict::Failed { node, ended, at };
    }
    let is_unread = round.ready.values().any(|one| one.content == DocumentSight::Unread)
        || round.ended.values().any(|one| one.content == DocumentSight::Unread);
    if is_unread { RoundVerdict::Unknown } else { RoundVerdict::Open }
}

/// The round after number `last`, which is damaged or has failed. As on one machine: a damaged checkpoint is left out, down to the beginning. After a
/// failure soon after a resume, before any step of this attempt, the one before is tried: once for a verified checkpoint, and for each unverified one.
/// The only verified one is tried again.
pub(super) fn next_round(gang: &GangLaunch, listing: &GangListing, head: &Head, last: u32) -> NextRound {
    let (mut tried, mut has_failed) = (Vec::new(), false);
    let Some(newest) = listing.rounds.get(&last).filter(|_| last < ROUNDS_MAX) else { return NextRound::None };
    for (number, round) in listing.rounds.range(..=last) {
        let Some(content) = round.round.as_ref().map(|listed| &listed.content) else { return NextRound::None };
        match content {
            DocumentSight::Read(round) => tried.extend(round.checkpoint),
            DocumentSight::Unread => return NextRound::Unknown,
            DocumentSight::Unreadable => return NextRound::None,
        }
        has_failed |= *number < last && matches!(judge_round(round), RoundVerdict::Failed { .. });
    }
    let mut left = to_restore(head).into_iter().filter(|checkpoint| !tried.contains(checkpoint));
    match judge_round(newest) {
        RoundVerdict::Open | RoundVerdict::Unknown => NextRound::Unknown,
        RoundVerdict::Damaged { .. } => NextRound::With(left.next()),
        RoundVerdict::Failed { at, .. } => {
            let round = newest.round.as_ref().and_then(|round| round.content.read());
            let Some(failed) = round.and_then(|round| round.checkpoint) else { return NextRound::None };
            if newest.ended.values().any(|ended| ended.content == DocumentSight::Unread) {
                return NextRound::Unknown;
            }
            // Where one succeeded, the checkpoint is not why; and that node may have left its exit already.
            let has_success = newest.ended.values().any(|ended| ended.content.read().is_some_and(NodeEnded::succeeded));
            let has_kept = head.checkpoint.is_some_and(|newest| newest.attempt == gang.attempt);
            let is_early = |started: Timestamp| at.duration_since(started) < DOUBTED_FOR;
            let is_unverified = head.unverified.contains(&failed);
            let is_due = started_at(newest, gang.nodes).is_some_and(is_early);
            if has_kept || has_success || !is_due || (has_failed && !is_unverified) {
                return NextRound::None;
            }
            // What has no number is kept as step 0, and may be no checkpoint at all.
            let may_be_none = (failed.step, failed.rewrite) == (0, 0);
            NextRound::With(left.next().or_else(|| (!is_unverified && !may_be_none).then_some(failed)))
        }
    }
}
