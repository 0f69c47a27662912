//! What is said of checkpoints that are not kept, once and not again and again.

use std::time::Instant;

use jiff::SignedDuration;
use jobs::AgentWarningKind;
use jobs::checkpoints::{CheckpointStep, StepNumber, overtaken, unfinished};

use super::KeeperTask;

/// The same is said again after so long.
const SAID_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Where so many checkpoints in a row could not be kept, the next ones will not be either.
const LOST_MAX: u32 = 3;

/// So many different things are said in that time.
const SAID_MAX: usize = 100;

impl KeeperTask {
    /// Says of what is newer than all that is kept why it cannot be, and of what is older and came later that it is not. The newest
    /// of what is not, once the command has ended.
    pub(super) fn tell_problems(&mut self, steps: &[CheckpointStep], torn: Option<&CheckpointStep>) -> Option<String> {
        let mut left = None;
        for step in unfinished(steps, self.kept, self.kept_at()) {
            if let Some(why) = &step.problem {
                left = left.or(Some(self.not_kept(step, why)));
            }
        }
        if let Some(step) = torn {
            let why = step.problem.clone().unwrap_or_else(|| "it carries no marker of that".to_owned());
            let words = format!(
                "{} was changed after it was kept, and as it is now it is not kept: {why}",
                describe(step.number)
            );
            self.log_once(words.clone());
            left = left.or(Some(words));
        }
        if let (Some(kept), Some(known)) = (self.kept, &self.known)
            && let Some(late) = overtaken(steps, kept, known)
        {
            let words = format!(
                "{} was written after step {kept} was kept, and is not kept, for its number is lower: a command goes on from \
                 CURFEW_RESUME_FROM, and what is no checkpoint belongs elsewhere",
                describe(late.number)
            );
            self.warn_if_lasting(AgentWarningKind::Overtaken, words);
        } else {
            self.agent.clear_warning(AgentWarningKind::Overtaken);
        }
        left
    }

    pub(super) fn not_kept(&mut self, step: &CheckpointStep, words: &str) -> String {
        let words = format!("the checkpoint of {} is not kept: {words}", describe(step.number));
        self.warn_if_lasting(AgentWarningKind::NotKept, words.clone());
        self.finished.left = Some(words.clone());
        words
    }

    /// Says that what is written is gone, or written over, before it is kept. At a look nothing may be wrong: the next one is being written.
    pub(super) fn tell_lost(&mut self) {
        if self.lost < LOST_MAX {
            return self.agent.clear_warning(AgentWarningKind::NotKept);
        }
        let words = format!("{} checkpoints in a row could not be kept, the last because {}", self.lost, self.lost_why);
        self.warn_if_lasting(AgentWarningKind::NotKept, words);
    }

    /// Says it, and the owner hears it where it stays so.
    pub(super) fn warn_if_lasting(&mut self, kind: AgentWarningKind, words: String) {
        self.agent.warn_owner_if_lasting(kind, &words);
        self.log_once(words);
    }

    /// Says it, but not again and again.
    pub(super) fn log_once(&mut self, words: String) {
        let for_so_long = self.agent.pace.wait(SAID_FOR);
        self.said.retain(|_, at| at.elapsed() < for_so_long);
        if self.said.len() < SAID_MAX && !self.said.contains_key(&words) {
            self.agent.log.write_line(&words);
            self.said.insert(words, Instant::now());
        }
    }
}

/// A checkpoint, by how it is numbered.
pub(super) fn describe(number: StepNumber) -> String {
    match number.named() {
        Some(step) => format!("step {step}"),
        None => "the files without a number".to_owned(),
    }
}
