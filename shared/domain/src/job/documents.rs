//! What the agent, the reconciler and people leave for each other in the state bucket.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{JobId, Trouble};

/// The schema of every document of a job.
pub const SCHEMA: u32 = 1;

/// `jobs/<team>/<job>/head.json`, the fence: written by the live attempt's agent alone, by compare-and-swap. What it does not
/// name does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Head {
    /// The attempt that may write. An agent of an earlier one that sees this ends.
    pub attempt: u32,
    /// Which launch of that attempt, [`Identity::launch`](super::Identity::launch): of two machines of one attempt, the second one ends.
    #[serde(default)]
    pub launch: String,
    /// The newest complete checkpoint.
    #[serde(default)]
    pub checkpoint: Option<Checkpoint>,
    /// Those that it named before and that are kept, the newest first, for where that one is damaged.
    #[serde(default)]
    pub kept: Vec<Checkpoint>,
    /// Which of all these may be cut off: the newest as well, for most often it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Checkpoint>,
    /// How the job ended.
    #[serde(default)]
    pub result: Option<HeadResult>,
}

impl Head {
    /// Whether that launch of that attempt may write: it holds the fence, or may take it by writing itself in.
    #[must_use]
    pub fn admits(&self, attempt: u32, launch: &str) -> bool {
        let is_mine = self.attempt == attempt && self.launch == launch;
        self.result.is_none() && (is_mine || self.attempt < attempt)
    }
}

/// One complete checkpoint: `checkpoints/<team>/<job>/<attempt>/<step>/`, or `<step>.<rewrite>/` from the first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Which attempt wrote it.
    pub attempt: u32,
    /// Its step.
    pub step: u64,
    /// How often that attempt had kept that step before: one that is written over is kept beside what it was, for until it is whole
    /// that is all there is.
    #[serde(default, skip_serializing_if = "is_first")]
    pub rewrite: u32,
}

/// Whether it is written as it was before there were rewrites.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) const fn is_first(rewrite: &u32) -> bool {
    *rewrite == 0
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeadResult {
    /// Whether it succeeded.
    pub succeeded: bool,
    /// The command's exit code; `None` where a signal ended it, or it was never run.
    #[serde(default)]
    pub code: Option<i32>,
    /// For its owner.
    #[serde(default)]
    pub why: String,
    /// When.
    pub at: Timestamp,
}

impl HeadResult {
    /// What the exit record of the attempt says that wrote it.
    #[must_use]
    pub const fn reason(&self) -> ExitReason {
        if self.succeeded { ExitReason::Succeeded } else { ExitReason::Failed }
    }
}

/// `jobs/<team>/<job>/attempts/<n>/heartbeat.json`, once a minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// When, by the machine's own clock. Whether a heart beats is told by when S3 took it.
    pub at: Timestamp,
    /// The attempt.
    pub attempt: u32,
    /// The newest checkpoint of the directory, by its step.
    #[serde(default)]
    pub step: Option<u64>,
    /// Steps an hour.
    #[serde(default)]
    pub steps_per_hour: Option<f64>,
    /// What it does: `starting`, `waiting for the attempt before`, `restoring`, `setup`, `running`, `flushing`, `uploading outputs`.
    #[serde(default)]
    pub doing: String,
    /// What its owner has to hear, one of each kind. The machine's words: whoever shows them takes [`Trouble::heard`].
    #[serde(default)]
    pub trouble: Vec<Trouble>,
}

/// `jobs/<team>/<job>/attempts/<n>/exit.json`: what the agent left behind as its last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exit {
    /// The attempt.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: ExitReason,
    /// The command's exit code.
    #[serde(default)]
    pub code: Option<i32>,
    /// For its owner.
    #[serde(default)]
    pub why: String,
}

/// Why an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitReason {
    /// The command ended with success.
    Succeeded,
    /// The command failed.
    Failed,
    /// AWS takes the machine back.
    Interrupted,
    /// The attempt's time is over.
    Expired,
    /// Another attempt has taken over.
    Fenced,
    /// The agent could not go on: no checkpoint directory, no bucket, a full disk.
    Broken,
}

/// `jobs/<team>/<job>/cancel.json`: a person wants the job to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cancel {
    /// When.
    pub at: Timestamp,
    /// Who, where it is known.
    #[serde(default)]
    pub by: Option<String>,
}

/// `inbox/<team>/<name>.accepted.json` and `.rejected.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The object that it answers: its version, or else its `ETag`.
    pub object: String,
    /// When.
    pub at: Timestamp,
    /// The job, where it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Every mistake, where it was rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
}

/// One mistake of a spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mistake {
    /// Its line, from 1 on; 0 where it is of none.
    pub line: usize,
    /// The full key, such as `gpu.count`; empty where it is of none.
    pub key: String,
    /// What is wrong, and what is legal.
    pub problem: String,
}
