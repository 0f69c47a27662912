//! Words of the driver for the job's owner.

use jobs::node_gang::{GangWait, LeaveReason, NodeExitReason};

pub(super) const fn describe_leave(reason: LeaveReason) -> &'static str {
    match reason {
        LeaveReason::NoMember => "this launch has no such node",
        LeaveReason::Displaced => "another machine is this node",
        LeaveReason::Fenced => "another launch has taken over, or the job has a result",
        LeaveReason::Done => "the job has its result",
        LeaveReason::NoResult => "the exits of the nodes make no result",
    }
}

/// `None` for what passes by itself.
pub(super) fn describe_wait(wait: GangWait, joined: usize, nodes: u8) -> Option<String> {
    match wait {
        GangWait::Members => Some(format!("waits for the other nodes: {joined} of {nodes} have joined")),
        GangWait::PreviousAttempt => Some("waits for the nodes of the attempt before to end".to_owned()),
        GangWait::Ready => Some("waits for the other nodes to restore".to_owned()),
        GangWait::Ended => Some("waits for the other nodes to end the round".to_owned()),
        GangWait::Exits => Some("waits for the exits of the other nodes".to_owned()),
        GangWait::Documents | GangWait::Restore | GangWait::Command => None,
    }
}

pub(super) const fn name_of(reason: NodeExitReason) -> &'static str {
    match reason {
        NodeExitReason::Succeeded => "succeeded",
        NodeExitReason::Failed => "failed",
        NodeExitReason::Interrupted => "interrupted",
        NodeExitReason::Stopped => "stopped",
        NodeExitReason::Expired => "expired",
        NodeExitReason::Fenced => "fenced",
        NodeExitReason::Broken => "broken",
    }
}
