//! Documents that the agent, the reconciler and people leave for each other in the state bucket.

use jiff::Timestamp;
use model::fault::{InvalidValue, one_line};
use serde::{Deserialize, Serialize};

use super::boxes::BoxReport;
use super::telemetry::{GpuTrend, GpuWork};
use super::{AgentWarning, JobId, WorkSigns};

/// The schema of every document of a job.
pub const SCHEMA: u32 = 1;

/// The largest head, heartbeat and exit record that are read, in bytes. Any command on a job's machine can write them, and run-jobs reads
/// those of dozens of jobs at once in 512 MB. A head that names [`CHECKPOINTS_KEPT_MAX`] checkpoints, and each of them among those that may
/// be cut off, has some 45 KiB.
pub const MACHINE_DOCUMENT_BYTES_MAX: usize = 64 * 1024;

/// The most checkpoints that a job may keep.
pub const CHECKPOINTS_KEPT_MAX: u32 = 500;

/// The most checkpoints that head names beside the newest: one of those kept is there for being certain.
const NAMED_MAX: usize = CHECKPOINTS_KEPT_MAX as usize + 1;

/// The longest text of a machine that is kept, in characters: a state holds it, and every message about the job.
const SAID_CHARACTERS_MAX: usize = 2_000;

/// The longest name of what an agent does, in characters.
const DOING_CHARACTERS_MAX: usize = 100;

/// No command does more steps in an hour: one each 3.6 microseconds.
const STEPS_PER_HOUR_MAX: f64 = 1e9;

/// A text that a machine wrote, as it may go into a state, a step, a message or a log.
#[must_use]
pub fn clean_machine_text(text: &str) -> String {
    one_line(text, SAID_CHARACTERS_MAX)
}

/// `attempts/<team>/<job>/head.json`, the fence: written by the live attempt's agent alone, by compare-and-swap. What it does not
/// name does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Head {
    /// The attempt that may write. An agent of an earlier one that sees this ends.
    pub attempt: u32,
    /// The launch of that attempt, [`MachineIdentity::launch`](super::MachineIdentity::launch): of two machines of one attempt, the second
    /// one ends.
    #[serde(default)]
    pub launch: String,
    /// The newest complete checkpoint.
    #[serde(default)]
    pub checkpoint: Option<Checkpoint>,
    /// Earlier checkpoints of head that are kept, the newest first, for the case that `checkpoint` is damaged.
    #[serde(default)]
    pub kept: Vec<Checkpoint>,
    /// The unverified ones among these checkpoints; the newest may be one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<Checkpoint>,
    /// The attempt whose command did not resume, and began again: its checkpoints are no progress before they pass all before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_again: Option<u32>,
    /// Result of the job, or of the attempt if its failure is retried.
    #[serde(default)]
    pub result: Option<HeadResult>,
}

impl Head {
    /// The checkpoints that it names, the newest first.
    pub fn named(&self) -> impl Iterator<Item = Checkpoint> {
        self.checkpoint.iter().chain(&self.kept).copied()
    }

    /// Returns `true` if that launch of that attempt may write: it holds the fence, or may take it by writing itself in. `retry_of`: the
    /// latest attempt whose failure is retried, [`MachineIdentity::retry_of`](super::MachineIdentity).
    #[must_use]
    pub fn admits(&self, attempt: u32, launch: &str, retry_of: u32) -> bool {
        let is_mine = self.attempt == attempt && self.launch == launch;
        let is_retried = |result: &HeadResult| !result.succeeded && self.attempt <= retry_of;
        self.result.as_ref().is_none_or(is_retried) && (is_mine || self.attempt < attempt)
    }

    /// Takes the fence for that launch of that attempt, or keeps it. The result of an earlier attempt ends with it.
    pub fn claim(&mut self, attempt: u32, launch: &str) {
        if (self.attempt, self.launch.as_str()) != (attempt, launch) {
            self.result = None;
        }
        (self.attempt, self.launch) = (attempt, launch.to_owned());
    }

    /// Checks that an agent can have written it. It may name an attempt which the state does not know yet: the state may have been read
    /// before.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if self.kept.len() > NAMED_MAX || self.unverified.len() > NAMED_MAX + 1 {
            return Err(InvalidValue::new(format!("it names more than {CHECKPOINTS_KEPT_MAX} checkpoints")));
        }
        if let Some(other) = self.named().find(|one| one.attempt == 0 || one.attempt > self.attempt) {
            return Err(InvalidValue::new(format!(
                "it is of attempt {}, and names a checkpoint of attempt {}",
                self.attempt, other.attempt
            )));
        }
        if self.result.is_some() && self.attempt == 0 {
            return Err(InvalidValue::new("it names a result, and no attempt that came to it"));
        }
        Ok(())
    }

    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.launch = clean_machine_text(&self.launch);
        if let Some(result) = &mut self.result {
            result.why = clean_machine_text(&result.why);
        }
        self
    }
}

/// One complete checkpoint: `checkpoints/<team>/<job>/<attempt>/<step>/`, or `<step>.<rewrite>/` from the first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The attempt that wrote it.
    pub attempt: u32,
    pub step: u64,
    /// Number of times that the attempt had kept this step before. A rewritten step is kept beside the earlier one, which is the only one
    /// until the new one is whole.
    #[serde(default, skip_serializing_if = "is_first")]
    pub rewrite: u32,
}

/// Returns `true` for a checkpoint that is written as before there were rewrites.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) const fn is_first(rewrite: &u32) -> bool {
    *rewrite == 0
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeadResult {
    pub succeeded: bool,
    /// The command's exit code; `None` if a signal ended it, or it was never run.
    #[serde(default)]
    pub code: Option<i32>,
    /// The reason, for the job's owner.
    #[serde(default)]
    pub why: String,
    pub at: Timestamp,
    /// True if a limit of the job ended it, which no retry would change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

impl HeadResult {
    /// Returns the reason that the exit record of the attempt gives for this result.
    #[must_use]
    pub const fn reason(&self) -> ExitReason {
        if self.succeeded { ExitReason::Succeeded } else { ExitReason::Failed }
    }
}

/// `attempts/<team>/<job>/<n>/heartbeat.json`, once a minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Time by the machine's own clock. The time at which S3 took the heartbeat decides whether the machine is alive.
    pub at: Timestamp,
    pub attempt: u32,
    /// The newest checkpoint of the directory, by its step.
    #[serde(default)]
    pub step: Option<u64>,
    #[serde(default)]
    pub steps_per_hour: Option<f64>,
    /// The use of its busiest GPU over the last minute, in percent; `None` if no GPU reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<f64>,
    /// Activity of the agent: `starting`, `waiting for the attempt before`, `restoring`, `setup`, `running`, `flushing`, `uploading
    /// outputs`.
    #[serde(default)]
    pub doing: String,
    /// The warnings for its owner, one of each kind. They are the machine's words: show them by [`AgentWarning::sanitize`].
    #[serde(default)]
    pub warnings: Vec<AgentWarning>,
    /// Seconds that the command has run since the newest checkpoint that counts was written: if the machine were lost now, so much would be
    /// done twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved_seconds: Option<u64>,
    /// Work of the machine's GPUs since the command began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuWork>,
    /// Their last hour.
    #[serde(default, skip_serializing_if = "GpuTrend::is_empty")]
    pub trend: GpuTrend,
    /// The signs of work.
    #[serde(default, skip_serializing_if = "WorkSigns::is_empty")]
    pub work: WorkSigns,
    /// The box, once people can log in.
    #[serde(rename = "box", default, skip_serializing_if = "Option::is_none")]
    pub gpu_box: Option<BoxReport>,
}

impl Heartbeat {
    /// Activity of the agent while its command runs.
    pub const RUNNING: &str = "running";
    /// Its activity while `setup` runs.
    pub const SETUP: &str = "setup";
    /// Its activity while it fetches inputs.
    pub const FETCHING: &str = "fetching inputs";

    /// Checks that the agent of that attempt can have written it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self, attempt: u32) -> Result<(), InvalidValue> {
        check_attempt(attempt, self.attempt)?;
        if self.gpu_percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
            return Err(InvalidValue::new("it says a use of GPUs that is not between 0 and 100 percent"));
        }
        match self.steps_per_hour.filter(|pace| !(0.0..=STEPS_PER_HOUR_MAX).contains(pace)) {
            Some(_) => Err(InvalidValue::new(format!(
                "it says a number of steps an hour that is not between 0 and {STEPS_PER_HOUR_MAX}"
            ))),
            None => Ok(()),
        }
    }

    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(self) -> Self {
        Self {
            doing: one_line(&self.doing, DOING_CHARACTERS_MAX),
            warnings: AgentWarning::sanitize(&self.warnings),
            gpus: self
                .gpus
                .map(|work| GpuWork { instance: clean_machine_text(work.instance.as_str()).as_str().into(), ..work }),
            trend: self.trend.shown(),
            work: self.work.shown(),
            gpu_box: self.gpu_box.map(BoxReport::shown),
            ..self
        }
    }
}

/// `attempts/<team>/<job>/<n>/exit.json`: what the agent left behind as its last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExitRecord {
    pub attempt: u32,
    pub at: Timestamp,
    pub reason: ExitReason,
    /// The command's exit code.
    #[serde(default)]
    pub code: Option<i32>,
    /// The explanation, for the job's owner.
    #[serde(default)]
    pub why: String,
    /// `true` if no retry would change the result, as in [`HeadResult::is_final`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

impl ExitRecord {
    /// Checks that the agent of that attempt can have written it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn check(&self, attempt: u32) -> Result<(), InvalidValue> {
        check_attempt(attempt, self.attempt)
    }

    /// Makes the texts fit to be shown.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { why: clean_machine_text(&self.why), ..self }
    }
}

fn check_attempt(attempt: u32, found: u32) -> Result<(), InvalidValue> {
    if found == attempt {
        Ok(())
    } else {
        Err(InvalidValue::new(format!("it says that it is of attempt {found}, and lies at that of attempt {attempt}")))
    }
}

/// The reason for the end of an attempt.
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
    /// The agent had to give up: no checkpoint directory, no bucket, a full disk.
    Broken,
}

/// `jobs/<team>/<job>/cancel.json`: a person wants the job to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CancelRequest {
    pub at: Timestamp,
    /// The person, if known.
    #[serde(default)]
    pub by: Option<String>,
}

/// `inbox/<team>/<name>.accepted.json` and `.rejected.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InboxAnswer {
    /// The object that it answers: its version, or else its `ETag`.
    pub object: String,
    pub at: Timestamp,
    /// The job, where it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Number of members, where `job` is a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    /// Every mistake, where it was rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<SpecMistake>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecMistake {
    /// Its line, from 1 on; 0 where it is of none.
    pub line: usize,
    /// The full key, such as `gpu.count`; empty if it is of none.
    pub key: String,
    /// The mistake, and what is legal.
    pub problem: String,
}

impl SpecMistake {
    /// Makes a mistake of the document as a whole.
    pub fn for_document(problem: impl Into<String>) -> Self {
        Self { line: 0, key: String::new(), problem: problem.into() }
    }
}

#[cfg(test)]
mod tests;
