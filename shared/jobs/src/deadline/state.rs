//! The knowledge of a job with a deadline, which is part of the job's state.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{CapacityDecision, SpotHistory};
use crate::Checkpoint;

/// A checkpoint rests unchanged for a minute, is uploaded in two (an agent warns of more), and a run comes each minute. So what a run sees
/// in head holds no work of these last minutes.
pub(crate) const CHECKPOINT_SEEN_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// The knowledge of a job with a deadline, of constant size. Times are those at which a run saw something: no machine can move them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct JobDeadline {
    /// Availability of any Spot candidate: a launch that was accepted, a pass in which all were refused, a machine that AWS took back.
    pub spot: SpotHistory,
    /// The longest that an attempt took from its launch to its command.
    pub start_seconds: Option<i64>,
    /// The work of attempts that are over: what their newest complete checkpoints hold, in seconds of their commands.
    pub banked_seconds: i64,
    /// Time since which the command of the present attempt runs.
    pub command_since: Option<Timestamp>,
    /// Its newest complete checkpoint, and when a run first saw it.
    pub checkpoint: Option<(Checkpoint, Timestamp)>,
    /// `true` if EC2 has refused on-demand capacity since it last gave some. Then Spot is better than nothing, and is not left.
    pub on_demand_refused: bool,
    /// The last decision.
    pub decision: Option<CapacityDecision>,
}

impl JobDeadline {
    /// Returns all work that complete checkpoints hold, in seconds.
    pub(crate) fn work_banked(&self) -> i64 {
        let present = self.command_since.zip(self.checkpoint).map(|(since, (_, seen))| seen.duration_since(since));
        let present = present.map_or(0, |long| long.saturating_sub(CHECKPOINT_SEEN_AFTER).as_secs().max(0));
        self.banked_seconds.saturating_add(present)
    }

    pub(crate) fn end_attempt(&mut self) {
        self.banked_seconds = self.work_banked();
        (self.command_since, self.checkpoint) = (None, None);
    }
}
