//! Warnings about checkpoints that are not uploaded, each once an hour.

use std::time::Instant;

use jiff::SignedDuration;
use jobs::AgentWarningKind;
use jobs::checkpoints::{CheckpointStep, StepNumber, overtaken, unfinished};

use super::KeeperTask;

/// The interval after which a line is repeated.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// After so many failures in a row the next uploads will probably fail as well.
const FAILURES_MAX: u32 = 3;

/// The most different lines in that time.
const SAID_MAX: usize = 100;

impl KeeperTask {
    /// Warns about steps newer than all uploads that cannot be uploaded, and about older ones that came later. Returns the newest of them after the
    /// command has ended.
    pub(super) fn warn_of_problems(
        &mut self,
        steps: &[CheckpointStep],
        torn: Option<&CheckpointStep>,
    ) -> Option<String> {
        let mut left = None;
        for step in unfinished(steps, self.kept, self.kept_at()) {
            if let Some(why) = &step.problem {
                left = left.or(Some(self.not_kept(step, why)));
            }
        }
        if let Some(step) = torn {
            let why = step.problem.clone().unwrap_or_else(|| "it has no marker of that change".to_owned());
            let words = format!(
                "{} was changed after it was kept, and its new content is not kept: {why}",
                describe(step.number)
            );
            self.log_once(words.clone());
            left = left.or(Some(words));
        }
        if let (Some(kept), Some(known)) = (self.kept, &self.known)
            && let Some(late) = overtaken(steps, kept, known)
        {
            let words = format!(
                "{} was written after step {kept} was kept, and is not kept, because its number is lower: a command resumes from \
                 CURFEW_RESUME_FROM, and other files belong elsewhere",
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

    /// Warns if entries are deleted or overwritten before their upload. A single look proves nothing: the next entry is being written.
    pub(super) fn warn_of_failures(&mut self) {
        if self.lost < FAILURES_MAX {
            return self.agent.clear_warning(AgentWarningKind::NotKept);
        }
        let words = format!("{} checkpoints in a row could not be kept, the last because {}", self.lost, self.lost_why);
        self.warn_if_lasting(AgentWarningKind::NotKept, words);
    }

    /// Logs it, and warns the owner if it lasts.
    pub(super) fn warn_if_lasting(&mut self, kind: AgentWarningKind, words: String) {
        self.agent.warn_owner_if_lasting(kind, &words);
        self.log_once(words);
    }

    /// Logs it once an hour.
    pub(super) fn log_once(&mut self, words: String) {
        let for_so_long = self.agent.pace.wait(REPEAT_AFTER);
        self.said.retain(|_, at| at.elapsed() < for_so_long);
        if self.said.len() < SAID_MAX && !self.said.contains_key(&words) {
            self.agent.log.write_line(&words);
            self.said.insert(words, Instant::now());
        }
    }
}

pub(super) fn describe(number: StepNumber) -> String {
    match number.named() {
        Some(step) => format!("step {step}"),
        None => "the files without a number".to_owned(),
    }
}
