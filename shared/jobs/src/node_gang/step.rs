//! The next act of a member of a gang: [`next_gang_step`].

mod ending;

use jiff::{SignedDuration, Timestamp};
use model::moment::after;

use super::rounds::{NextRound, RoundVerdict, all_ended, judge_round, next_round, started_at};
use super::{
    DocumentSight, FAILED_TIME, GangLaunch, GangListing, GangMember, GangRound, GangRoundListing, GangStop,
    JOIN_TIMEOUT, Node, NodeEnded, NodeExit, NodeReady, PEER_LOST_AFTER, POLL_EVERY, POLL_EVERY_WAITING, StopCause,
    all_nodes,
};
use crate::checkpoints::to_restore;
use crate::{Checkpoint, Head, HeadResult};

pub use ending::{OwnEnding, StopOrder};

/// A failure that is not the first one.
const PEER_WAS_GONE: &str = ", as was seen first: its log says that another node was gone";

/// The facts of a member that only itself knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnNode {
    pub node: Node,
    pub member: GangMember,
    /// The latest failed attempt that is retried ([`MachineIdentity::retry_of`](crate::MachineIdentity::retry_of)).
    pub retry_of: u32,
    /// `true` if the attempt that head names has written its last, or is past its time.
    pub is_previous_over: bool,
    /// The reason for which this node ends, whatever others do.
    pub ending: Option<OwnEnding>,
    pub work: NodeWork,
}

/// The work of a member. It outlives the agent, on the machine's disk: after a restart a command that ran is [`NodeWork::Ended`] without a code, and
/// the agent is [`OwnEnding::Broken`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeWork {
    Idle,
    Restoring {
        round: u32,
    },
    Restored {
        round: u32,
        ready: NodeReady,
    },
    Running {
        round: u32,
    },
    Ended {
        round: u32,
        ended: NodeEnded,
        /// `true` once its last step and its outputs are uploaded, or cannot be.
        is_saved: bool,
    },
}

/// The next act. After a write or its lost condition the member lists again; a lost condition is never an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GangStep {
    Wait(GangWait),
    /// `member/<k>.json`, if absent.
    WriteMember,
    /// [`Head::claim`] for this launch, by compare-and-swap.
    ClaimHead,
    /// `round/<r>.json`, if absent.
    WriteRound {
        round: u32,
        document: GangRound,
    },
    /// Begins to restore the round's checkpoint, or to clear the directory.
    Restore {
        round: u32,
        checkpoint: Option<Checkpoint>,
    },
    /// `round/<r>/ready-<k>`, if absent.
    WriteReady {
        round: u32,
        ready: NodeReady,
    },
    /// Starts the command with the round's environment. The agent notes on its disk that it did, before.
    Start {
        round: u32,
    },
    /// Ends the command at once, without a save: the round has come to nothing.
    EndCommand {
        round: u32,
    },
    /// `round/<r>/ended-<k>`, if absent. What still restores for that round is ended first.
    WriteEnded {
        round: u32,
        ended: NodeEnded,
    },
    /// Uploads the last step and the outputs of the ended command, until that moment.
    Save {
        until: Option<Timestamp>,
    },
    /// `stop.json`, if absent. The signal of a node's own ending does not wait for it.
    WriteStop(GangStop),
    /// Signals the command, and kills it in time for its upload until that moment. Each further order may only shorten it.
    Stop(StopOrder),
    /// `exit/<k>.json`, if absent.
    WriteExit(NodeExit),
    /// The result in head, by compare-and-swap.
    WriteResult(HeadResult),
    Leave(LeaveReason),
}

/// The thing that a member waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangWait {
    /// The content of listed documents, or of head.
    Documents,
    Members,
    PreviousAttempt,
    Restore,
    Ready,
    Command,
    /// The others end a round that came to nothing.
    Ended,
    Exits,
}

impl GangWait {
    /// Time to the next LIST.
    #[must_use]
    pub const fn poll_every(self) -> SignedDuration {
        match self {
            Self::Command | Self::Restore => POLL_EVERY,
            _ => POLL_EVERY_WAITING,
        }
    }
}

/// The reason for which a member ends without more writes; it kills what still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveReason {
    /// The launch is no launch of a gang, or has no node with that number.
    NoMember,
    /// Another machine is this node.
    Displaced,
    /// Another launch has the fence, or the job has a result.
    Fenced,
    /// Head has the result.
    Done,
    /// The exits make no result, or their time is over.
    NoResult,
}

/// The arguments of a decision.
#[derive(Clone, Copy)]
struct Sight<'a> {
    gang: &'a GangLaunch,
    me: &'a OwnNode,
    listing: &'a GangListing,
    head: Option<&'a Head>,
    now: Timestamp,
}

/// The next act of a member. `head`: head as it is now, the default if there is none; `None`: it was not read. `now` is the machine's own clock, by which
/// only moments are kept that all know; who is lost or late is decided by S3's clock.
#[must_use]
pub fn next_gang_step(
    gang: &GangLaunch,
    me: &OwnNode,
    listing: &GangListing,
    head: Option<&Head>,
    now: Timestamp,
) -> GangStep {
    if !gang.is_valid() || me.node >= gang.nodes {
        return GangStep::Leave(LeaveReason::NoMember);
    }
    let sight = Sight { gang, me, listing, head, now };
    match listing.members.get(&me.node).map(|member| &member.content) {
        Some(DocumentSight::Read(member)) if member.instance != me.member.instance => {
            return GangStep::Leave(LeaveReason::Displaced);
        }
        Some(DocumentSight::Unread) => return GangStep::Wait(GangWait::Documents),
        _ => {}
    }
    if listing.exits.contains_key(&me.node) {
        return sight.close();
    }
    if head.is_some_and(|head| !head.admits(gang.attempt, &gang.launch, me.retry_of)) {
        return GangStep::Leave(LeaveReason::Fenced);
    }
    if let Some(step) = sight.follow_stop() {
        return step;
    }
    if let Some(stop) = sight.missing_peer() {
        return GangStep::WriteStop(stop);
    }
    if !listing.members.contains_key(&me.node) {
        return GangStep::WriteMember;
    }
    sight.join()
}

impl Sight<'_> {
    /// A stop for a peer that did not join in time, or is lost. Both times are S3's, so a member whose own writes do not arrive accuses no peer.
    fn missing_peer(&self) -> Option<GangStop> {
        let beat = *self.listing.beats.get(&self.me.node)?;
        let stop = |cause, node, why| Some(GangStop { cause, node, until: after(beat, FAILED_TIME), why });
        let peers = || all_nodes(self.gang.nodes).filter(|node| *node != self.me.node);
        let is_lost = |node: &Node| {
            let sign = self.listing.last_sign(*node);
            let is_old = sign.is_some_and(|sign| beat.duration_since(sign) >= PEER_LOST_AFTER);
            is_old && !self.listing.exits.contains_key(node)
        };
        if let Some(node) = peers().find(is_lost) {
            let minutes = PEER_LOST_AFTER.as_mins();
            let why = format!("node {node} has sent nothing for {minutes}m: the other nodes end");
            return stop(StopCause::Lost, node, why);
        }
        let first = self.listing.members.values().map(|member| member.at).min()?;
        let late = peers().find(|node| !self.has_joined(*node))?;
        (beat.duration_since(first) >= JOIN_TIMEOUT)
            .then(|| stop(StopCause::NeverJoined, late, format!("node {late} has not joined in time")))?
    }

    fn has_joined(&self, node: Node) -> bool {
        let member = self.listing.members.get(&node);
        member.is_some_and(|member| member.content != DocumentSight::Unreadable)
    }

    /// Joins, claims head, and takes part in the latest round.
    fn join(&self) -> GangStep {
        if !all_nodes(self.gang.nodes).all(|node| self.has_joined(node)) {
            return GangStep::Wait(GangWait::Members);
        }
        let Some(head) = self.head else { return GangStep::Wait(GangWait::Documents) };
        if (head.attempt, &head.launch) != (self.gang.attempt, &self.gang.launch) {
            let is_over = self.me.is_previous_over || head.attempt == 0;
            return if is_over { GangStep::ClaimHead } else { GangStep::Wait(GangWait::PreviousAttempt) };
        }
        let Some((number, listing)) = self.listing.latest_round() else {
            return self.write_round(0, to_restore(head).first().copied());
        };
        match listing.round.as_ref().map(|round| &round.content) {
            Some(DocumentSight::Read(round)) => self.take_part(number, listing, round, head),
            Some(DocumentSight::Unreadable) => {
                self.write_stop(StopCause::Damaged, self.me.node, format!("round {number} cannot be read"))
            }
            Some(DocumentSight::Unread) | None => GangStep::Wait(GangWait::Documents),
        }
    }

    fn write_round(&self, round: u32, checkpoint: Option<Checkpoint>) -> GangStep {
        let address = |node| Some(self.listing.members.get(&node)?.content.read()?.address);
        match all_nodes(self.gang.nodes).map(address).collect() {
            Some(addresses) => {
                let document = GangRound { addresses, port: GangRound::port_of(round), checkpoint };
                GangStep::WriteRound { round, document }
            }
            None => GangStep::Wait(GangWait::Documents),
        }
    }

    fn write_stop(&self, cause: StopCause, node: Node, why: String) -> GangStep {
        let stop = GangStop { cause, node, until: self.now, why };
        let until = ending::time_by_stop(&stop, self.now, node);
        GangStep::WriteStop(GangStop { until, ..stop })
    }

    fn take_part(&self, number: u32, listing: &GangRoundListing, round: &GangRound, head: &Head) -> GangStep {
        let (cause, node, why) = match judge_round(listing) {
            RoundVerdict::Open => return self.work(number, listing, round),
            // What this member does next depends on nothing that others say.
            RoundVerdict::Unknown => {
                return match self.work(number, listing, round) {
                    GangStep::Start { .. } => GangStep::Wait(GangWait::Documents),
                    step => step,
                };
            }
            RoundVerdict::Damaged { node, why } => {
                (StopCause::Damaged, node, format!("node {node} cannot restore the checkpoint: {why}"))
            }
            RoundVerdict::Failed { node, ended, .. } => {
                let code = ended.code.map_or_else(|| "by a signal".to_owned(), |code| format!("with exit code {code}"));
                let why = if ended.is_peer_gone { PEER_WAS_GONE } else { "" };
                (StopCause::Failed, node, format!("the command has ended {code} on node {node}{why}"))
            }
        };
        match next_round(self.gang, self.listing, head, number) {
            NextRound::Unknown => GangStep::Wait(GangWait::Documents),
            NextRound::None => self.write_stop(cause, node, why),
            NextRound::With(checkpoint) => self.leave_round(number, listing, checkpoint),
        }
    }

    /// The round has come to nothing, and there is another one.
    fn leave_round(&self, number: u32, listing: &GangRoundListing, checkpoint: Option<Checkpoint>) -> GangStep {
        if !listing.ended.contains_key(&self.me.node) {
            let none = NodeEnded { code: None, at: self.now, by_curfew: true, is_peer_gone: false };
            let ended = match &self.me.work {
                NodeWork::Running { round } => return GangStep::EndCommand { round: *round },
                NodeWork::Ended { round, ended, .. } if *round == number => *ended,
                _ => none,
            };
            return GangStep::WriteEnded { round: number, ended };
        }
        if !all_ended(listing, self.gang.nodes) {
            return GangStep::Wait(GangWait::Ended);
        }
        self.write_round(number.saturating_add(1), checkpoint)
    }

    /// The member's own work in an open round.
    fn work(&self, number: u32, listing: &GangRoundListing, round: &GangRound) -> GangStep {
        let is_ready = listing.ready.contains_key(&self.me.node);
        let starts = started_at(listing, self.gang.nodes).is_some();
        match &self.me.work {
            NodeWork::Running { round } if *round == number => GangStep::Wait(GangWait::Command),
            NodeWork::Running { round } => GangStep::EndCommand { round: *round },
            NodeWork::Restoring { round } if *round == number => GangStep::Wait(GangWait::Restore),
            NodeWork::Restored { round, ready } if *round == number && !is_ready => {
                GangStep::WriteReady { round: number, ready: ready.clone() }
            }
            NodeWork::Restored { round, .. } if *round == number => {
                if starts {
                    GangStep::Start { round: number }
                } else {
                    GangStep::Wait(GangWait::Ready)
                }
            }
            NodeWork::Ended { round, ended, .. } if *round == number && !listing.ended.contains_key(&self.me.node) => {
                GangStep::WriteEnded { round: number, ended: *ended }
            }
            NodeWork::Ended { round, ended, is_saved } if *round == number => {
                if *is_saved {
                    self.write_exit(Some(ended))
                } else {
                    GangStep::Save { until: None }
                }
            }
            _ => GangStep::Restore { round: number, checkpoint: round.checkpoint },
        }
    }
}

#[cfg(test)]
mod tests;
