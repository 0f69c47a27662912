//! The end of a member: by a stop that all follow, by its own ending, or because all exits are there.

use jiff::Timestamp;
use model::moment::after;

use super::super::{
    CLOSING, DocumentSight, EXITS_AFTER_FAILURE, FAILED_TIME, GangStop, Node, NodeEnded, NodeExit, NodeExitReason,
    StopCause, UNWARNED_TIME, gang_result,
};
use super::{GangStep, GangWait, LeaveReason, NodeWork, Sight};
use crate::Head;
use crate::warning::time_to_flush;

/// The reason for which one node ends, whatever others do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OwnEnding {
    /// AWS takes its machine back.
    Warned {
        /// Time at which the agent saw the warning.
        at: Timestamp,
        /// The moment that AWS said.
        notice: Option<Timestamp>,
    },
    /// The attempt's time is over, on all nodes at once: no stop is written.
    Expired { until: Timestamp },
    /// The agent gives up, and another machine may do better.
    Broken { why: String },
    /// No machine can start the command, such as where a checkpoint is refused.
    CannotStart { code: i32, why: String },
}

/// The order to end the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopOrder {
    /// `None`: the attempt's time is over.
    pub cause: Option<StopCause>,
    /// The node that is why.
    pub node: Node,
    /// The moment until which the command has ended and its last step is uploaded. [`CLOSING`] comes after it.
    pub until: Timestamp,
}

/// The moment until which a node has time after a stop that S3 took `at` then.
pub(super) fn time_by_stop(stop: &GangStop, at: Timestamp, node: Node) -> Timestamp {
    match stop.cause {
        StopCause::Warned if stop.node == node => stop.until.min(after(at, UNWARNED_TIME)),
        StopCause::Warned => after(at, UNWARNED_TIME),
        StopCause::Failed | StopCause::Lost | StopCause::NeverJoined | StopCause::Damaged => after(at, FAILED_TIME),
    }
}

impl OwnEnding {
    /// The moment until which the node has time by itself.
    fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Warned { at, notice } => Some(after(*at, time_to_flush(*at, *notice))),
            Self::Expired { until } => Some(*until),
            Self::Broken { .. } | Self::CannotStart { .. } => None,
        }
    }
}

impl Sight<'_> {
    /// The stop of the listing; one that cannot be read is a failure of an unknown node, named as node 0.
    fn stop(&self) -> Option<(Option<GangStop>, Timestamp)> {
        let listed = self.listing.stop.as_ref()?;
        let stop = match &listed.content {
            DocumentSight::Read(stop) => Some(stop.clone()),
            DocumentSight::Unread => None,
            DocumentSight::Unreadable => Some(GangStop {
                cause: StopCause::Failed,
                node: 0,
                until: listed.at,
                why: "the reason of the stop cannot be read".to_owned(),
            }),
        };
        Some((stop, listed.at))
    }

    /// The act by which this member ends, if it has to.
    pub(super) fn follow_stop(&self) -> Option<GangStep> {
        let own = self.me.ending.as_ref();
        let order = match (self.stop(), own) {
            (None, None) => return None,
            (None, Some(OwnEnding::Expired { until })) => StopOrder { cause: None, node: self.me.node, until: *until },
            (None, Some(own)) => return Some(self.write_own_stop(own)),
            (Some((None, _)), own) => {
                // Only its own ending may not wait for the reason.
                let Some(until) = own.and_then(OwnEnding::until) else {
                    return Some(GangStep::Wait(GangWait::Documents));
                };
                StopOrder { cause: Some(StopCause::Warned), node: self.me.node, until }
            }
            (Some((Some(stop), at)), own) => {
                let by_stop = time_by_stop(&stop, at, self.me.node);
                let until = own.and_then(OwnEnding::until).map_or(by_stop, |own| own.min(by_stop));
                StopOrder { cause: Some(stop.cause), node: stop.node, until }
            }
        };
        Some(self.carry_out(order))
    }

    fn write_own_stop(&self, own: &OwnEnding) -> GangStep {
        let node = self.me.node;
        match own {
            OwnEnding::Warned { at, notice } => {
                let until = own.until().unwrap_or(*at);
                let when = notice.unwrap_or_else(|| after(*at, crate::WARNING)).strftime("%H:%M:%S");
                let instance = &self.me.member.instance;
                let why = format!("node {node} ({instance}) is taken back by AWS at {when}: all nodes save and end");
                GangStep::WriteStop(GangStop { cause: StopCause::Warned, node, until, why })
            }
            OwnEnding::Broken { why } | OwnEnding::CannotStart { why, .. } => {
                self.write_stop(StopCause::Failed, node, format!("node {node}: {why}"))
            }
            // All members have the same end.
            OwnEnding::Expired { .. } => GangStep::Wait(GangWait::Exits),
        }
    }

    fn carry_out(&self, order: StopOrder) -> GangStep {
        match &self.me.work {
            NodeWork::Running { .. } | NodeWork::Restoring { .. } => GangStep::Stop(order),
            NodeWork::Idle | NodeWork::Restored { .. } => self.write_exit(None),
            NodeWork::Ended { round, ended, is_saved } => {
                let listed = self.listing.rounds.get(round);
                if !listed.is_some_and(|listed| listed.ended.contains_key(&self.me.node)) {
                    return GangStep::WriteEnded { round: *round, ended: *ended };
                }
                if *is_saved || self.now >= order.until {
                    return self.write_exit(Some(ended));
                }
                GangStep::Save { until: Some(order.until) }
            }
        }
    }

    /// The exit of this node. What its command came to before a stop counts, by S3's clock; after the stop for a lost machine nothing does.
    pub(super) fn write_exit(&self, ended: Option<&NodeEnded>) -> GangStep {
        let at = ended.map_or(self.now, |ended| ended.at);
        let code = ended.and_then(|ended| ended.code);
        let exit = |reason, why: &str| NodeExit { reason, code, at, is_peer_gone: false, why: why.to_owned() };
        let stop = self.stop();
        let ended_before = |at: Timestamp| {
            let NodeWork::Ended { round, .. } = &self.me.work else { return false };
            let listed = self.listing.rounds.get(round).and_then(|round| round.ended.get(&self.me.node));
            listed.is_some_and(|listed| listed.at < at)
        };
        let is_saved = matches!(self.me.work, NodeWork::Ended { is_saved: true, .. });
        let has_succeeded = ended.is_some_and(NodeEnded::succeeded) && is_saved;
        let succeeded = has_succeeded && stop.as_ref().is_none_or(|(_, at)| ended_before(*at));
        let own_failure = ended.is_some_and(NodeEnded::failed);
        GangStep::WriteExit(match (&self.me.ending, stop.as_ref().and_then(|(stop, _)| stop.as_ref())) {
            _ if succeeded => exit(NodeExitReason::Succeeded, ""),
            (Some(OwnEnding::Warned { .. }), _) => exit(NodeExitReason::Interrupted, "AWS takes the machine back"),
            (Some(OwnEnding::Broken { why }), _) => exit(NodeExitReason::Broken, why),
            (Some(OwnEnding::CannotStart { code, why }), _) => {
                NodeExit { code: Some(*code), ..exit(NodeExitReason::Failed, why) }
            }
            (_, Some(stop)) if stop.cause.is_loss() => exit(NodeExitReason::Interrupted, &stop.why),
            (Some(OwnEnding::Expired { .. }), _) => exit(NodeExitReason::Expired, "the attempt's time is over"),
            (None, _) if own_failure => exit(NodeExitReason::Failed, ""),
            (None, stop) => exit(NodeExitReason::Stopped, stop.map_or("", |stop| &stop.why)),
        })
    }

    /// The exit is written: the last one writes the result, and all leave.
    pub(super) fn close(&self) -> GangStep {
        let is_complete = super::all_nodes(self.gang.nodes).all(|node| self.listing.exits.contains_key(&node));
        if !is_complete {
            return self.wait_for_exits();
        }
        if self.listing.exits.values().any(|exit| exit.content == DocumentSight::Unread) {
            return GangStep::Wait(GangWait::Documents);
        }
        let stop = match self.stop() {
            Some((None, _)) => return GangStep::Wait(GangWait::Documents),
            Some((Some(stop), _)) => Some(stop.cause),
            None => None,
        };
        let Some(result) = gang_result(self.gang, &self.listing.exits, stop) else {
            return GangStep::Leave(LeaveReason::NoResult);
        };
        let Some(head) = self.head else { return GangStep::Wait(GangWait::Documents) };
        let is_ours = |head: &Head| (head.attempt, &head.launch) == (self.gang.attempt, &self.gang.launch);
        match &head.result {
            _ if !is_ours(head) => GangStep::Leave(LeaveReason::Fenced),
            Some(_) => GangStep::Leave(LeaveReason::Done),
            None => GangStep::WriteResult(result),
        }
    }

    fn wait_for_exits(&self) -> GangStep {
        let own = self.me.ending.as_ref().and_then(OwnEnding::until);
        let until = match (self.stop(), own) {
            // Nothing can be saved after it, and its exit may never come.
            (Some((Some(stop), at)), _) if stop.cause != StopCause::Warned => Some(after(at, EXITS_AFTER_FAILURE)),
            (Some((_, at)), _) => Some(after(at, UNWARNED_TIME)),
            (None, Some(own)) => Some(own),
            (None, None) => None,
        };
        let is_over = |until| self.now >= after(until, CLOSING);
        if until.is_some_and(is_over) {
            return GangStep::Leave(LeaveReason::NoResult);
        }
        match self.missing_peer().filter(|_| self.listing.stop.is_none()) {
            Some(stop) => GangStep::WriteStop(stop),
            None => GangStep::Wait(GangWait::Exits),
        }
    }
}
