//! Warnings about checkpoints that are not uploaded, each once an hour.

use std::time::Instant;

use jiff::SignedDuration;
use jobs::AgentWarningKind;
use jobs::checkpoints::{CheckpointStep, Precedence, StepNumber};

use super::KeeperTask;

/// The interval after which a line is repeated.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Number of failures in a row after which the next uploads will probably fail as well.
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
        let order = self.order.clone();
        for step in order.unfinished(steps) {
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
        if let (Some(newest), Some(late)) = (order.newest(), order.find(steps, Precedence::Foreign)) {
            let words = format!(
                "`{}` was written after step {newest} was kept, and is not kept, because its number is lower and it does not look like a \
                 checkpoint of this command: other files belong elsewhere",
                late.entries.first().map_or("", String::as_str)
            );
            self.warn_if_lasting(AgentWarningKind::Overtaken, words);
        } else {
            self.agent.clear_warning(AgentWarningKind::Overtaken);
        }
        left
    }

    /// A lower step than that which the command resumed from shows that it did not resume. It runs again from an older checkpoint; where there is
    /// none, it counts again, and its steps are kept from now on.
    pub(super) fn check_resumption(&mut self, steps: &[CheckpointStep]) {
        let found = self.order.find(steps, Precedence::NotResumed).and_then(|step| step.number.named());
        let (Some(lower), Some(from)) = (found, self.order.newest()) else { return };
        if let Some(not_resumed) = &self.not_resumed {
            not_resumed.send_replace(Some(lower));
            return;
        }
        let words = format!("it did not resume from step {from}: it wrote step {lower}, and began again");
        self.agent.warn_owner(AgentWarningKind::Damaged, &words);
        self.log_once(words.clone());
        self.finished.not_resumed = Some(words);
        self.order.accept_new_count();
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
